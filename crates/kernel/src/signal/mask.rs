//! Signal masks.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::signal::SigSet;
use belljar_objects::signals::UNBLOCKABLE;

impl Host {
    /// Sets a thread's mask. Pending signals that become unblocked are delivered before the thread returns to
    /// guest code.
    pub(crate) fn set_blocked(&mut self, thread: ThreadKey, mask: SigSet) {
        let mask = mask & !UNBLOCKABLE;
        let process = self.threads[thread.0].process;
        let signals = &mut self.thread(thread).signals;
        let newly_blocked = mask & !signals.blocked;
        signals.blocked = mask;
        if self.threads.pending_signals(&self.processes, thread) & !mask != 0 {
            self.thread(thread).signals.attention = true;
        }
        if newly_blocked & self.processes[process.0].signals.pending.set != 0 {
            self.retarget_pending(process);
        }
    }

    /// Replaces the mask for the duration of the current call (`ppoll`, `pselect6`, `epoll_pwait`,
    /// `rt_sigsuspend`). Call this on the first attempt only, before blocking; the run loop restores the old
    /// mask when the call ends, after a handler if one runs.
    pub(crate) fn set_temporary_mask(&mut self, thread: ThreadKey, mask: SigSet) {
        let signals = &mut self.thread(thread).signals;
        if signals.saved_mask.is_none() {
            signals.saved_mask = Some(signals.blocked);
        }
        self.set_blocked(thread, mask);
    }

    /// Restores the mask that [`set_temporary_mask`](Host::set_temporary_mask) replaced.
    pub(crate) fn restore_mask(&mut self, thread: ThreadKey) {
        if let Some(mask) = self.thread(thread).signals.saved_mask.take() {
            self.set_blocked(thread, mask);
        }
    }
}
