//! Job control: stopping and continuing processes.
//!
//! Threads of a stopped process are parked when they would run next. Blocked calls keep waiting; a call that
//! is woken continues only once its process does.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::thread::ThreadState;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{SigInfo, sig_bit};
use belljar_objects::signals::STOPPING;

impl Host {
    /// Applies the immediate effect of a stopping or continuing signal, which does not depend on its being
    /// blocked.
    pub(super) fn prepare_stop_or_continue(&mut self, process: ProcessKey, signal: i32) {
        let discard = match signal {
            c::SIGCONT => STOPPING,
            _ if sig_bit(signal) & STOPPING != 0 => sig_bit(c::SIGCONT),
            _ => return,
        };
        let target = self.process(process);
        target.signals.pending.discard(discard);
        for thread in target.threads.clone() {
            self.thread(thread).signals.pending.discard(discard);
        }
        if signal == c::SIGCONT {
            self.continue_process(process);
        }
    }

    /// Stops all threads of a process and notifies the parent. The terminal's stop signals have no effect on
    /// an orphaned process group, as POSIX requires.
    pub(super) fn stop_process(&mut self, process: ProcessKey, signal: i32) {
        let target = &self.processes[process.0];
        let orphaned = signal != c::SIGSTOP && self.processes.is_orphaned_group(target.pgid);
        let target = self.process(process);
        if orphaned || target.signals.job.stopped_by.is_some() {
            return;
        }
        let job = &mut target.signals.job;
        job.stopped_by = Some(signal);
        (job.stop_unreported, job.continue_unreported) = (true, false);
        for thread in target.threads.clone() {
            let thread = self.thread(thread);
            thread.signals.attention = true;
            if let Some(tracee) = &mut thread.trace {
                tracee.passes_group_stop = false;
            }
        }
        self.report_to_parent(process, c::CLD_STOPPED, signal);
    }

    fn continue_process(&mut self, process: ProcessKey) {
        let job = &mut self.process(process).signals.job;
        if job.stopped_by.take().is_none() {
            return;
        }
        (job.stop_unreported, job.continue_unreported) = (false, true);
        for thread in self.processes[process.0].threads.clone() {
            self.thread(thread).signals.attention = true;
            self.threads.trace_group_continued(thread);
            if matches!(self.threads[thread.0].state, ThreadState::Stopped) {
                self.unpark(thread);
            } else if self.threads.has_deliverable_signal(&self.processes, thread) {
                // The signal arrived while the process was stopped.
                self.interrupt(thread);
            }
        }
        self.report_to_parent(process, c::CLD_CONTINUED, c::SIGCONT);
    }

    fn report_to_parent(&mut self, process: ProcessKey, code: i32, status: i32) {
        let target = &self.processes[process.0];
        let Some(parent) = target.parent else { return };
        let info = SigInfo::child(code, target.pid, target.credentials.ruid, status, 0);
        let quiet = self.processes[parent.0].signals.action(c::SIGCHLD).flags & c::SA_NOCLDSTOP as u64 != 0;
        // Waits for the child are notified even if the signal has a handler.
        self.notify(self.processes[parent.0].child_changed);
        if !quiet {
            self.send_signal(parent, info);
        }
    }
}
