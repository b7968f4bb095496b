//! Stops of traced threads.

use super::breakpoints;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{Block, CallState, IfInterrupted};
use crate::thread::{Continuation, ThreadState};
use belljar_linux_abi::ptrace::{TraceEvent, TraceOptions};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{ContextId, DEBUG_EXCEPTION, Exit, Fault, Machine, TRAP_FLAG};
use belljar_objects::tracees::{Resume, Stop};

/// `TRAP_TRACE`.
const TRAP_TRACE: i32 = 2;

impl Host {
    /// Parks a thread until its tracer resumes it, and notifies the tracer.
    pub(super) fn trace_stop(&mut self, thread: ThreadKey, stop: Stop) {
        self.thread(thread).state = ThreadState::Traced;
        self.trace_announce(thread, stop);
    }

    fn trace_announce(&mut self, thread: ThreadKey, stop: Stop) {
        let tid = self.threads[thread.0].tid;
        let uid = self.processes[self.threads[thread.0].process.0].credentials.ruid;
        let Some(tracee) = &mut self.thread(thread).trace else { return };
        (tracee.stop, tracee.unreported) = (Some(stop), true);
        let (tracer, status) = (tracee.tracer, tracee.status(stop));
        self.send_signal(tracer, SigInfo::child(c::CLD_TRAPPED, tid, uid, status & 0x7f, 0));
        self.notify(self.processes[tracer.0].child_changed);
    }

    /// Checks for a stop before a thread runs. True if the thread has stopped instead.
    #[cold]
    pub(crate) fn trace_before_step(&mut self, thread: ThreadKey) -> bool {
        let process = self.threads[thread.0].process;
        if self.processes[process.0].signals.fatal.is_some() {
            return false;
        }
        let interrupted = match self.threads[thread.0].continuation {
            Some(Continuation::Interrupted { how, .. }) => Some(how),
            Some(_) => return false,
            None => None,
        };
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        if let Some(stop) = tracee.next.pop() {
            self.trace_stop(thread, stop);
            return true;
        }
        // For a tracer, a call that a signal interrupts has ended.
        if interrupted.is_some() && tracee.resume == Resume::UntilCall && tracee.call.is_some() {
            (tracee.call, tracee.message) = (None, 0);
            self.trace_stop(thread, Stop::CallExit);
            return true;
        }
        if std::mem::take(&mut tracee.interrupt) {
            let stopped_by = self.processes[process.0].signals.job.stopped_by;
            let stop = stopped_by.map_or(Stop::Event(TraceEvent::Stop), Stop::Group);
            self.trace_stop(thread, stop);
            return true;
        }
        false
    }

    /// Checks for a stop at the entry of a system call. True if the thread has stopped. The check runs again
    /// when the thread resumes, and the thread then makes the call whose number its tracer has left.
    #[cold]
    pub(crate) fn trace_call_entry(&mut self, thread: ThreadKey) -> bool {
        let context = self.threads[thread.0].context;
        let number = self.machine.regs(context).rax;
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        if std::mem::take(&mut tracee.entering) {
            let call = tracee.call.unwrap_or(u64::MAX);
            self.machine.regs_mut(context).rax = call;
            return false;
        }
        tracee.call = Some(number);
        if tracee.resume != Resume::UntilCall {
            return false;
        }
        tracee.entering = true;
        self.machine.regs_mut(context).rax = Errno::ENOSYS.as_return();
        self.thread(thread).continuation = Some(Continuation::Enter);
        self.trace_stop(thread, Stop::CallEntry);
        true
    }

    /// Checks for a stop when an interrupted call is continued. True if the thread has stopped, as for a new
    /// call.
    #[cold]
    pub(crate) fn trace_call_again(&mut self, thread: ThreadKey) -> bool {
        let number = self.machine.regs(self.threads[thread.0].context).rax;
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        if tracee.call.is_some() {
            return false;
        }
        tracee.call = Some(number);
        let stops = tracee.resume == Resume::UntilCall;
        if stops {
            self.trace_stop(thread, Stop::CallEntry);
        }
        stops
    }

    /// Checks for a stop after a system call. True if the thread has stopped.
    #[cold]
    pub(crate) fn trace_call_exit(&mut self, thread: ThreadKey) -> bool {
        let rip = self.machine.regs(self.threads[thread.0].context).rip;
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        match tracee.resume {
            Resume::UntilCall => tracee.next.insert(0, Stop::CallExit),
            Resume::Step => {
                tracee.call = None;
                self.send_signal_to_thread(thread, SigInfo::fault(c::SIGTRAP, TRAP_TRACE, rip));
                return false;
            }
            _ if tracee.next.is_empty() => {
                tracee.call = None;
                return false;
            }
            _ => {}
        }
        let Some(stop) = tracee.next.pop() else { return false };
        self.trace_stop(thread, stop);
        true
    }

    /// Checks for a stop before a thread takes a signal. True if the thread has stopped; the tracer then
    /// selects the signal to deliver.
    pub(crate) fn trace_signal(&mut self, thread: ThreadKey, info: &SigInfo) -> bool {
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        if tracee.approved.take_if(|approved| *approved == info.signo).is_some() || info.signo == c::SIGKILL {
            return false;
        }
        tracee.info = Some(*info);
        tracee.call = None;
        self.trace_stop(thread, Stop::Signal(info.signo));
        true
    }

    /// Checks for a stop before a thread is parked for a stop of its process. True if the thread must not be
    /// parked, since its tracer has resumed it.
    pub(crate) fn trace_group_stop(&mut self, thread: ThreadKey, signal: i32) -> bool {
        let Some(tracee) = &mut self.thread(thread).trace else { return false };
        if tracee.passes_group_stop {
            return true;
        }
        if tracee.listens {
            self.thread(thread).state = ThreadState::Stopped;
        } else {
            self.trace_stop(thread, Stop::Group(signal));
        }
        false
    }

    /// Stops a thread at an event within its call, which must block by
    /// [`trace_event_block`](Self::trace_event_block).
    pub(super) fn trace_event_in_call(&mut self, thread: ThreadKey, event: TraceEvent, message: u64) {
        if let Some(tracee) = &mut self.thread(thread).trace {
            tracee.message = message;
        }
        self.trace_announce(thread, Stop::Event(event));
    }

    /// Checks for a stop before a thread ends with `status`. True if the thread has stopped.
    pub(crate) fn trace_exit(&mut self, thread: ThreadKey, status: i32) -> bool {
        let Some(tracee) = &self.threads[thread.0].trace else { return false };
        let stops = tracee.options.contains(TraceOptions::TRACEEXIT);
        if stops {
            self.trace_event_in_call(thread, TraceEvent::Exit, status as u64);
        }
        stops
    }

    /// Checks for a stop of the parent of a `vfork` child that has released it. True if the parent has
    /// stopped.
    pub(crate) fn trace_vfork_done(&mut self, thread: ThreadKey, child: i32) -> bool {
        let Some(tracee) = &self.threads[thread.0].trace else { return false };
        let stops = tracee.options.contains(TraceOptions::TRACEVFORKDONE);
        if stops {
            self.trace_event_in_call(thread, TraceEvent::VforkDone, child as u64);
        }
        stops
    }

    /// Queues the exec stop, or sends `SIGTRAP`, after a thread executed a new image.
    pub(crate) fn trace_executed(&mut self, thread: ThreadKey, former_tid: i32) {
        let pid = self.threads[thread.0].tid;
        let Some(tracee) = &mut self.thread(thread).trace else { return };
        if tracee.options.contains(TraceOptions::TRACEEXEC) {
            tracee.message = former_tid as u64;
            tracee.next.push(Stop::Event(TraceEvent::Exec));
        } else if !tracee.seized {
            self.send_signal_to_thread(thread, SigInfo::user(c::SIGTRAP, c::SI_USER, pid, 0));
        }
    }

    /// Sets the trap flag of a thread that is to execute a single instruction.
    #[cold]
    pub(crate) fn trace_arm_step(&mut self, thread: ThreadKey) {
        let steps = self.threads[thread.0].trace.as_ref().is_some_and(|t| t.resume == Resume::Step);
        if steps {
            let process = self.threads[thread.0].process;
            self.show_code(process);
            breakpoints::compare(self, thread);
            let context = self.threads[thread.0].context;
            self.machine.regs_mut(context).rflags |= TRAP_FLAG;
        }
    }

    /// Clears the trap flag after the instruction.
    #[cold]
    pub(crate) fn trace_disarm_step(&mut self, thread: ThreadKey, exit: &Exit) {
        let steps = self.threads[thread.0].trace.as_ref().is_some_and(|t| t.resume == Resume::Step);
        if steps {
            breakpoints::compare(self, thread);
            let regs = self.machine.regs_mut(self.threads[thread.0].context);
            regs.rflags &= !TRAP_FLAG;
            if *exit == Exit::Syscall {
                regs.r11 &= !TRAP_FLAG;
            }
            if !matches!(exit, Exit::Fault(Fault { trapno: DEBUG_EXCEPTION, .. }) | Exit::Syscall) {
                let rip = regs.rip;
                self.send_signal_to_thread(thread, SigInfo::fault(c::SIGTRAP, TRAP_TRACE, rip));
            }
        }
    }

    /// Restores the program's original code in a process: patched call sites are reverted.
    pub(crate) fn show_code(&mut self, process: ProcessKey) {
        if let Some(mm) = self.processes[process.0].mm {
            self.machine.show_original_code(self.spaces[mm.0].space);
        }
    }
}

/// Clears the trap flag of a thread that has left its code without completing its step.
#[cold]
pub(crate) fn end_step(machine: &mut dyn Machine, context: ContextId) {
    machine.regs_mut(context).rflags &= !TRAP_FLAG;
}

/// Block of a call that waits for the tracer at an event.
pub(crate) fn trace_event_block(state: CallState) -> Block {
    Block::until(None).with_state(state).interrupted(IfInterrupted::Killable)
}
