//! Resuming traced threads.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::Wake;
use crate::thread::ThreadState;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_objects::tracees::{Resume, Stop};

impl Host {
    /// Resumes a stopped thread and delivers `signal` to it; 0 for none.
    pub(crate) fn trace_resume(&mut self, thread: ThreadKey, how: Resume, signal: i32) {
        let process = self.threads[thread.0].process;
        let Some(mut tracee) = self.thread(thread).trace.take() else { return };
        let stop = tracee.stop.take();
        (tracee.resume, tracee.unreported, tracee.listens) = (how, false, how == Resume::Listen);
        let tracer = self.processes[tracee.tracer.0].pid;
        if signal != 0 && how != Resume::Listen {
            let same = tracee.info.take().filter(|info| info.signo == signal);
            let info = same.unwrap_or_else(|| SigInfo::user(signal, c::SI_USER, tracer, 0));
            self.thread(thread).signals.pending.put_back(info);
            self.thread(thread).signals.attention = true;
            tracee.approved = Some(signal);
        }
        tracee.info = None;
        if how != Resume::UntilCall {
            tracee.next.retain(|stop| *stop != Stop::CallExit);
        }
        if matches!(stop, Some(Stop::Group(_))) && how != Resume::Listen {
            tracee.passes_group_stop = true;
        }
        if how == Resume::Detach {
            // A call stopped at its entry is made.
            if tracee.entering {
                let context = self.threads[thread.0].context;
                self.machine.regs_mut(context).rax = tracee.call.unwrap_or(u64::MAX);
            }
        } else {
            self.thread(thread).trace = Some(tracee);
        }
        match (how, stop) {
            (_, None) => {}
            (Resume::Listen, Some(_)) => self.thread(thread).state = ThreadState::Stopped,
            (_, Some(Stop::Event(_))) if self.threads[thread.0].blocked_state().is_some() => {
                self.continue_call(thread, Wake::Notified);
            }
            _ if matches!(self.threads[thread.0].state, ThreadState::Traced) => self.unpark(thread),
            _ => {}
        }
        if how == Resume::Detach && self.processes[process.0].signals.job.stopped_by.is_some() {
            self.thread(thread).signals.attention = true;
        }
    }
}
