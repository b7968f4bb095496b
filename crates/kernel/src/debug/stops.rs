//! Stop conditions for threads of debugged processes.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::process::WaitStatus;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_machine::{ContextId, DEBUG_EXCEPTION, Exit, Fault, TRAP_FLAG};
use belljar_tasks::debuggers::{BREAKPOINT, DebugStop, Debugger, StepEntry};

/// Exception vector raised by `int3`.
const BREAKPOINT_EXCEPTION: u64 = 3;

impl Host {
    fn debugger_of_thread(&mut self, thread: ThreadKey) -> Option<(i32, i32, &mut Debugger)> {
        let tid = self.threads[thread.0].tid;
        let pid = self.processes[self.threads[thread.0].process.0].pid;
        Some((pid, tid, self.debuggers.get_mut(pid)?))
    }

    /// Parks a thread whose turn it is if its debugger lets only another thread run. True if so.
    #[cold]
    pub(crate) fn debug_keeps_waiting(&mut self, thread: ThreadKey) -> bool {
        let Some((_, tid, debugger)) = self.debugger_of_thread(thread) else { return false };
        debugger.keeps_waiting(thread, tid)
    }

    /// Checks for a stop before a thread runs guest code. True if the thread has stopped instead.
    #[cold]
    pub(crate) fn debug_before_step(&mut self, thread: ThreadKey) -> bool {
        let context = self.threads[thread.0].context;
        let rip = self.machine.regs(context).rip;
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else { return false };
        match debugger.enter(tid, rip) {
            StepEntry::Runs => {}
            StepEntry::Steps => self.machine.regs_mut(context).rflags |= TRAP_FLAG,
            StepEntry::Completed => {
                self.debuggers.stop(pid, DebugStop::Stepped(tid));
                return true;
            }
        }
        false
    }

    /// Handles the exit of a thread from guest code. True if the debugger caused `exit`.
    #[cold]
    pub(crate) fn debug_exit(&mut self, thread: ThreadKey, exit: &mut Exit) -> bool {
        let context = self.threads[thread.0].context;
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else {
            return self.pass_foreign_breakpoint(thread, context, exit);
        };
        let steps = debugger.steps(tid);
        if steps {
            let regs = self.machine.regs_mut(context);
            regs.rflags &= !TRAP_FLAG;
            if *exit == Exit::Syscall {
                regs.r11 &= !TRAP_FLAG;
            }
        }
        let Exit::Fault(Fault { signal: c::SIGTRAP, trapno, .. }) = *exit else { return false };
        let rip = self.machine.regs(context).rip;
        let Some((_, _, debugger)) = self.debugger_of_thread(thread) else { return false };
        if trapno == DEBUG_EXCEPTION && steps {
            // The next entry decides whether stepping continues.
            return true;
        }
        if trapno == BREAKPOINT_EXCEPTION && debugger.has_breakpoint(rip.wrapping_sub(1)) {
            self.machine.regs_mut(context).rip = rip - 1;
            self.debuggers.stop(pid, DebugStop::Breakpoint(tid));
            return true;
        }
        false
    }

    /// Steps a thread over a breakpoint of another process with which it shares memory (as a child of
    /// `vfork`). True if the thread passed it.
    fn pass_foreign_breakpoint(&mut self, thread: ThreadKey, context: ContextId, exit: &mut Exit) -> bool {
        let Exit::Fault(Fault { signal: c::SIGTRAP, trapno: BREAKPOINT_EXCEPTION, .. }) = *exit else {
            return false;
        };
        let Some(mm) = self.processes[self.threads[thread.0].process.0].mm else { return false };
        let at = self.machine.regs(context).rip.wrapping_sub(1);
        let shares_memory = |of: ProcessKey| self.processes.get(of.0).is_some_and(|of| of.mm == Some(mm));
        let Some(byte) = self.debuggers.breakpoint_of(at, shares_memory) else { return false };
        let regs = self.machine.regs_mut(context);
        regs.rip = at;
        regs.rflags |= TRAP_FLAG;
        // Breakpoints are in private pages that were written before.
        let _ = self.poke(mm, at, &[byte]);
        *exit = self.machine.resume(context);
        let _ = self.poke(mm, at, &[BREAKPOINT]);
        let regs = self.machine.regs_mut(context);
        regs.rflags &= !TRAP_FLAG;
        if *exit == Exit::Syscall {
            regs.r11 &= !TRAP_FLAG;
        }
        matches!(*exit, Exit::Fault(Fault { signal: c::SIGTRAP, trapno: DEBUG_EXCEPTION, .. }))
    }

    /// True if a thread must stop before it takes `info`, which then stays pending.
    pub(crate) fn debug_signal(&mut self, thread: ThreadKey, info: &SigInfo) -> bool {
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else { return false };
        if !debugger.stops_at_signal(tid, info.signo) {
            return false;
        }
        self.thread(thread).signals.pending.put_back(*info);
        self.debuggers.stop(pid, DebugStop::Signal(tid, info.signo));
        true
    }

    /// Stops a process that has executed a new image; its breakpoints are gone.
    pub(crate) fn debug_executed(&mut self, process: ProcessKey) {
        let pid = self.processes[process.0].pid;
        if self.debuggers.executed(pid)
            && let Some(mm) = self.processes[process.0].mm
        {
            self.machine.show_original_code(self.spaces[mm.0].space);
        }
    }

    /// Reports the end of a process to its debugger.
    pub(crate) fn debug_ended(&mut self, process: ProcessKey, status: WaitStatus) {
        self.debuggers.stop(self.processes[process.0].pid, DebugStop::Ended(status));
    }

    /// Removes an ended thread from the debugger's state, so that no other thread waits for it.
    pub(crate) fn debug_thread_gone(&mut self, process: ProcessKey, thread: ThreadKey, tid: i32) {
        let Some(process) = self.processes.get(process.0) else { return };
        let Some(debugger) = self.debuggers.get_mut(process.pid) else { return };
        for thread in debugger.thread_ended(thread, tid) {
            self.scheduler.ready(thread);
        }
    }
}
