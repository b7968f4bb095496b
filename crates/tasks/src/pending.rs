//! Signals of threads: pending signals, their delivery, and signals raised by faults.

use crate::process::Processes;
use crate::threads::Threads;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{KernelSigaction, SigInfo, sig_bit};
use belljar_machine::Fault;
use belljar_objects::ids::{ProcessKey, ThreadKey};
use belljar_objects::signals::UNBLOCKABLE;

impl Threads {
    /// True if the thread would take the signal now: the thread does not block the signal or waits for it,
    /// and its process is not stopped.
    #[inline]
    pub fn wants_signal(&self, processes: &Processes, thread: ThreadKey, signal: i32) -> bool {
        let signals = &self[thread.0].signals;
        let process = &processes[self[thread.0].process.0];
        if process.signals.job.stopped_by.is_some() && signal != c::SIGKILL {
            return false;
        }
        (signals.blocked & !signals.awaited) & sig_bit(signal) == 0
    }

    /// Raises a signal that the thread cannot avoid: if the thread blocks or ignores it, the default action
    /// applies.
    pub fn force_signal(&mut self, processes: &mut Processes, thread: ThreadKey, info: SigInfo) {
        let process = self[thread.0].process;
        let bit = sig_bit(info.signo);
        let blocked = self[thread.0].signals.blocked & bit != 0;
        let action = processes[process.0].signals.action_mut(info.signo);
        if blocked || action.handler == c::SIG_IGN as u64 {
            *action = KernelSigaction::default();
        }
        let signals = &mut self[thread.0].signals;
        signals.blocked &= !bit;
        // The signal replaces a pending one of the same number, which lacks the information about the fault.
        signals.pending.discard(bit);
        signals.pending.push(info);
        signals.attention = true;
    }

    /// Raises the signal of a CPU exception.
    #[inline(never)]
    pub fn raise_fault(&mut self, processes: &mut Processes, thread: ThreadKey, fault: Fault) {
        self[thread.0].signals.last_fault = (fault.trapno, fault.error_code, fault.addr);
        self.force_signal(processes, thread, SigInfo::fault(fault.signal, fault.code, fault.addr));
    }

    /// Sets the action of a signal. If the process now ignores the signal, its pending instances are
    /// discarded.
    pub fn set_action(
        &mut self,
        processes: &mut Processes,
        process: ProcessKey,
        signal: i32,
        action: KernelSigaction,
    ) {
        let target = &mut processes[process.0];
        *target.signals.action_mut(signal) = KernelSigaction { mask: action.mask & !UNBLOCKABLE, ..action };
        if target.signals.ignores(signal) {
            target.signals.pending.discard(sig_bit(signal));
            for thread in target.threads.clone() {
                self[thread.0].signals.pending.discard(sig_bit(signal));
            }
        }
    }

    /// Set of the signals pending for a thread or its process (`rt_sigpending`, `signalfd`).
    #[inline]
    pub fn pending_signals(&self, processes: &Processes, thread: ThreadKey) -> u64 {
        let thread = &self[thread.0];
        thread.signals.pending.set | processes[thread.process.0].signals.pending.set
    }

    /// Takes a pending signal of `set`, blocked or not, from the thread or its process (`rt_sigtimedwait`,
    /// reads of a `signalfd`). Arrivals are announced by `ProcessSignals::arrived`.
    pub fn take_signal(&mut self, processes: &mut Processes, thread: ThreadKey, set: u64) -> Option<SigInfo> {
        let process = self[thread.0].process;
        let set = set & !UNBLOCKABLE;
        let own = self[thread.0].signals.pending.take(set);
        let mut info = own.or_else(|| processes[process.0].signals.pending.take(set))?;
        processes[process.0].signals.timers.signal_taken(&mut info);
        Some(info)
    }

    /// True if a signal is pending for the thread that its mask does not block.
    #[inline]
    pub fn has_deliverable_signal(&self, processes: &Processes, thread: ThreadKey) -> bool {
        let signals = &self[thread.0].signals;
        if !signals.attention {
            return false;
        }
        let process = self[thread.0].process;
        processes[process.0].signals.fatal.is_some()
            || self.pending_signals(processes, thread) & !signals.blocked != 0
    }
}
