//! Stop conditions for threads of debugged processes.

use super::{DebugStop, Debugger};
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey, ThreadKey};
use crate::process::WaitStatus;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_machine::{ContextId, Exit, Fault};

/// The trap flag of RFLAGS: the CPU raises an exception after one instruction.
const TRAP_FLAG: u64 = 0x100;
/// Exception vectors raised by a single step and by `int3`.
const DEBUG_EXCEPTION: u64 = 1;
const BREAKPOINT_EXCEPTION: u64 = 3;

/// Decision before a debugged thread runs guest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The thread runs.
    Runs,
    /// The thread has stopped.
    Held,
}

impl Host {
    fn debugger_of_thread(&mut self, thread: ThreadKey) -> Option<(i32, i32, &mut Debugger)> {
        let tid = self.threads[thread.0].tid;
        let pid = self.processes[self.threads[thread.0].process.0].pid;
        Some((pid, tid, self.debuggers.by_pid.get_mut(&pid)?))
    }

    /// Parks a thread whose turn it is if its debugger lets only another thread run. True if so.
    #[cold]
    pub(crate) fn debug_keeps_waiting(&mut self, thread: ThreadKey) -> bool {
        let Some((_, tid, debugger)) = self.debugger_of_thread(thread) else { return false };
        let waits = debugger.only.is_some_and(|only| only != tid);
        if waits {
            debugger.waiting.push(thread);
        }
        waits
    }

    /// Checks for a stop before a thread runs guest code.
    #[cold]
    pub(crate) fn debug_entry(&mut self, thread: ThreadKey) -> Entry {
        let context = self.threads[thread.0].context;
        let rip = self.machine.regs(context).rip;
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else { return Entry::Runs };
        let Some(step) = debugger.step.as_mut().filter(|step| step.tid == tid) else { return Entry::Runs };
        if step.under_way && !debugger.step_goes_on(rip) {
            self.debug_stop(pid, DebugStop::Stepped(tid));
            return Entry::Held;
        }
        debugger.step.as_mut().expect("just found").under_way = true;
        self.machine.regs_mut(context).rflags |= TRAP_FLAG;
        Entry::Runs
    }

    /// Handles the exit of a thread from guest code. True if the debugger caused `exit`.
    #[cold]
    pub(crate) fn debug_exit(&mut self, thread: ThreadKey, exit: &mut Exit) -> bool {
        let context = self.threads[thread.0].context;
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else {
            return self.pass_foreign_breakpoint(thread, context, exit);
        };
        let steps = debugger.step.is_some_and(|step| step.tid == tid);
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
        if trapno == BREAKPOINT_EXCEPTION && debugger.breakpoints.contains_key(&rip.wrapping_sub(1)) {
            self.machine.regs_mut(context).rip = rip - 1;
            self.debug_stop(pid, DebugStop::Breakpoint(tid));
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
        let Some(byte) = self.breakpoint_of_another(mm, at) else { return false };
        let regs = self.machine.regs_mut(context);
        regs.rip = at;
        regs.rflags |= TRAP_FLAG;
        // Breakpoints are in private pages that were written before.
        let _ = self.poke(mm, at, &[byte]);
        *exit = self.machine.resume(context);
        let _ = self.poke(mm, at, &[0xcc]);
        let regs = self.machine.regs_mut(context);
        regs.rflags &= !TRAP_FLAG;
        if *exit == Exit::Syscall {
            regs.r11 &= !TRAP_FLAG;
        }
        matches!(*exit, Exit::Fault(Fault { signal: c::SIGTRAP, trapno: DEBUG_EXCEPTION, .. }))
    }

    fn breakpoint_of_another(&self, mm: MmKey, at: u64) -> Option<u8> {
        let debuggers = self.debuggers.by_pid.values();
        let mut same =
            debuggers.filter(|d| self.processes.get(d.process.0).is_some_and(|p| p.mm == Some(mm)));
        same.find_map(|debugger| debugger.breakpoints.get(&at).copied())
    }

    /// True if a thread must stop before it takes `info`, which then stays pending.
    pub(crate) fn debug_signal(&mut self, thread: ThreadKey, info: &SigInfo) -> bool {
        let Some((pid, tid, debugger)) = self.debugger_of_thread(thread) else { return false };
        if debugger.approved.take_if(|approved| *approved == (tid, info.signo)).is_some() {
            return false;
        }
        debugger.signal = Some((tid, info.signo));
        self.thread(thread).signals.pending.put_back(*info);
        self.debug_stop(pid, DebugStop::Signal(tid, info.signo));
        true
    }

    /// Stops a process that has executed a new image; its breakpoints are gone.
    pub(crate) fn debug_executed(&mut self, process: ProcessKey) {
        let pid = self.processes[process.0].pid;
        let mm = self.processes[process.0].mm;
        let Some(debugger) = self.debuggers.by_pid.get_mut(&pid) else { return };
        debugger.breakpoints.clear();
        debugger.waiting.clear();
        (debugger.step, debugger.only) = (None, None);
        if let Some(mm) = mm {
            self.machine.show_original_code(self.spaces[mm.0].space);
        }
        self.debug_stop(pid, DebugStop::Executed(pid));
    }

    /// Reports the end of a process to its debugger.
    pub(crate) fn debug_ended(&mut self, process: ProcessKey, status: WaitStatus) {
        self.debug_stop(self.processes[process.0].pid, DebugStop::Ended(status));
    }

    /// Removes an ended thread from the debugger's state, so that no other thread waits for it.
    pub(crate) fn debug_thread_gone(&mut self, process: ProcessKey, thread: ThreadKey, tid: i32) {
        let Some(process) = self.processes.get(process.0) else { return };
        let Some(debugger) = self.debuggers.by_pid.get_mut(&process.pid) else { return };
        debugger.waiting.retain(|waiting| *waiting != thread);
        debugger.step = debugger.step.filter(|step| step.tid != tid);
        debugger.signal = debugger.signal.filter(|(stopped, _)| *stopped != tid);
        if debugger.only == Some(tid) {
            debugger.only = None;
            let waiting = std::mem::take(&mut debugger.waiting);
            waiting.into_iter().for_each(|thread| self.scheduler.ready(thread));
        }
    }
}

impl Debugger {
    /// True if another step follows at `rip`.
    fn step_goes_on(&self, rip: u64) -> bool {
        let within = self.step.is_some_and(|step| (step.start..step.end).contains(&rip));
        within && !self.breakpoints.contains_key(&rip)
    }
}
