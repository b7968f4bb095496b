//! Attaching to a thread with `ptrace(2)`, and the end of tracing.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::process::WaitStatus;
use crate::rights::AccessIds;
use belljar_linux_abi::ptrace::{TraceEvent, TraceOptions};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::tracees::{EndedTracee, Resume, Tracee};

impl Host {
    /// `PTRACE_ATTACH` and `PTRACE_SEIZE`.
    pub(crate) fn trace_attach(
        &mut self,
        tracer: ProcessKey,
        target: ThreadKey,
        seize: Option<TraceOptions>,
    ) -> Result<(), Errno> {
        let process = self.threads[target.0].process;
        if process == tracer || self.threads[target.0].trace.is_some() {
            return Err(Errno::EPERM);
        }
        self.processes.may_access(tracer, process, AccessIds::Real)?;
        let tracee = Tracee::new(tracer, seize.is_some(), seize.unwrap_or_default());
        self.thread(target).trace = Some(Box::new(tracee));
        if seize.is_some() && self.processes[process.0].signals.job.stopped_by.is_some() {
            // A thread that is already stopped reports that stop to its tracer.
            self.trace_interrupt(target);
        }
        if seize.is_none() {
            let info = SigInfo::user(c::SIGSTOP, c::SI_USER, self.processes[tracer.0].pid, 0);
            self.send_signal_to_thread(target, info);
            // A thread that is already stopped reports that stop to its tracer.
            self.trace_look_again(target);
        }
        Ok(())
    }

    /// `PTRACE_INTERRUPT`.
    pub(crate) fn trace_interrupt(&mut self, thread: ThreadKey) {
        if let Some(tracee) = &mut self.thread(thread).trace {
            (tracee.interrupt, tracee.listens) = (true, false);
        }
        self.trace_look_again(thread);
    }

    /// Wakes a blocked or stopped thread so that it checks its tracer's requests.
    pub(super) fn trace_look_again(&mut self, thread: ThreadKey) {
        self.thread(thread).signals.attention = true;
        match self.threads[thread.0].state {
            crate::thread::ThreadState::Stopped => self.unpark(thread),
            _ => self.interrupt(thread),
        }
    }

    /// Traces a new thread or process of a traced thread if the tracer's options ask for it, and stops the
    /// parent for `event`; true if so.
    pub(crate) fn trace_child(&mut self, parent: ThreadKey, child: ThreadKey, event: TraceEvent) -> bool {
        let Some(tracee) = &self.threads[parent.0].trace else { return false };
        let option = match event {
            TraceEvent::Fork => TraceOptions::TRACEFORK,
            TraceEvent::Vfork => TraceOptions::TRACEVFORK,
            _ => TraceOptions::TRACECLONE,
        };
        if !tracee.options.contains(option) {
            return false;
        }
        let (tracer, seized, options) = (tracee.tracer, tracee.seized, tracee.options);
        let tid = self.threads[child.0].tid;
        self.thread(child).trace = Some(Box::new(Tracee::new(tracer, seized, options)));
        if seized {
            self.trace_interrupt(child);
        } else {
            self.send_signal_to_thread(child, SigInfo::user(c::SIGSTOP, c::SI_USER, 0, 0));
        }
        self.trace_event_in_call(parent, event, tid as u64);
        true
    }

    /// Ends the tracing by a process that ends.
    pub(crate) fn tracer_ended(&mut self, tracer: ProcessKey) {
        self.ended_tracees.retain(|ended| ended.tracer != tracer);
        for tracee in self.threads.tracees_of(tracer) {
            let Some(trace) = &self.threads[tracee.0].trace else { continue };
            let kill = trace.options.contains(TraceOptions::EXITKILL);
            self.trace_resume(tracee, Resume::Detach, 0);
            if kill {
                let process = self.threads[tracee.0].process;
                self.kill_process(process, c::SIGKILL);
            }
        }
    }

    /// Reports the end of a thread to its tracer, unless the tracer is notified as the process's parent.
    pub(crate) fn trace_ended(&mut self, thread: ThreadKey, status: WaitStatus) {
        let Some(tracee) = &self.threads[thread.0].trace else { return };
        let tracer = tracee.tracer;
        let (tid, process) = (self.threads[thread.0].tid, self.threads[thread.0].process);
        let process = &self.processes[process.0];
        if process.pid == tid && process.parent == Some(tracer) {
            return;
        }
        let (pgid, uid) = (process.pgid, process.credentials.ruid);
        self.ended_tracees.push(EndedTracee { tracer, tid, pgid, uid, status });
        self.notify(self.processes[tracer.0].child_changed);
    }
}
