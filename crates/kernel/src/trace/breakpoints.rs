//! Hardware breakpoints and watchpoints of traced threads. The debug registers belong to the machine, so a thread
//! for which a tracer has enabled some is single-stepped: before each instruction its address is compared, after
//! it the values at the watchpoints. A write of the same value is not noticed.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_machine::{ContextId, DEBUG_EXCEPTION, Exit, Fault, TRAP_FLAG};
use belljar_objects::debug_registers::DebugRegisters;
use belljar_objects::tracees::Resume;

/// Number of instructions after which other threads have their turn.
const TURN: u32 = 100_000;
/// `TRAP_HWBKPT`.
const TRAP_HWBKPT: i32 = 4;

/// True if a thread runs with breakpoints or watchpoints enabled.
pub(crate) fn are_enabled(host: &Host, thread: ThreadKey) -> bool {
    let tracee = host.threads[thread.0].trace.as_ref();
    tracee.is_some_and(|tracee| {
        tracee.resume != Resume::Step && tracee.debug.as_ref().is_some_and(|debug| debug.any())
    })
}

/// Runs a thread to its next breakpoint, watchpoint or exit, or to the end of its turn.
pub(crate) fn run(host: &mut Host, thread: ThreadKey, context: ContextId) -> Exit {
    let process = host.threads[thread.0].process;
    host.show_code(process);
    compare(host, thread);
    for _ in 0..TURN {
        let rip = host.machine.regs(context).rip;
        let Some(debug) = registers(host, thread) else { return Exit::Stepped };
        let passed = debug.passed.take() == Some(rip);
        if !passed && let Some(number) = debug.breakpoint_at(rip) {
            debug.met(number);
            debug.passed = Some(rip);
            return trap(host, thread, rip);
        }
        match step(host, thread, context) {
            Exit::Stepped if compare(host, thread) => {
                let rip = host.machine.regs(context).rip;
                return trap(host, thread, rip);
            }
            Exit::Stepped => {}
            exit => return exit,
        }
    }
    Exit::Stepped
}

fn registers(host: &mut Host, thread: ThreadKey) -> Option<&mut DebugRegisters> {
    host.thread(thread).trace.as_mut()?.debug.as_deref_mut()
}

fn trap(host: &mut Host, thread: ThreadKey, rip: u64) -> Exit {
    host.send_signal_to_thread(thread, SigInfo::fault(c::SIGTRAP, TRAP_HWBKPT, rip));
    Exit::Stepped
}

/// Executes one instruction. One that stores the flags is stepped natively, and the trap flag taken out of them.
fn step(host: &mut Host, thread: ThreadKey, context: ContextId) -> Exit {
    if host.machine.can_step(context) || host.machine.regs(context).rflags & TRAP_FLAG != 0 {
        return host.machine.step(context);
    }
    host.machine.regs_mut(context).rflags |= TRAP_FLAG;
    let exit = host.machine.resume(context);
    let regs = host.machine.regs_mut(context);
    regs.rflags &= !TRAP_FLAG;
    let rsp = regs.rsp;
    if !matches!(exit, Exit::Fault(Fault { trapno: DEBUG_EXCEPTION, .. })) {
        return exit;
    }
    let process = host.threads[thread.0].process;
    let mut flags = [0; 8];
    if host.read_guest(process, rsp, &mut flags).is_ok() {
        let flags = u64::from_le_bytes(flags) & !TRAP_FLAG;
        let _ = host.write_guest(process, rsp, &flags.to_le_bytes());
    }
    Exit::Stepped
}

/// Takes the values at the watchpoints when a tracer sets debug registers.
pub(crate) fn compare_at_first(host: &mut Host, thread: ThreadKey) {
    let status = registers(host, thread).map(|debug| debug.get(6));
    compare(host, thread);
    if let (Some(debug), Some(status)) = (registers(host, thread), status) {
        // DR6 can be set to anything.
        let _ = debug.set(6, status);
    }
}

/// Compares the values at the watchpoints; true if one has changed.
pub(super) fn compare(host: &mut Host, thread: ThreadKey) -> bool {
    let Some(mm) = host.processes[host.threads[thread.0].process.0].mm else { return false };
    let taken = host.thread(thread).trace.as_mut().and_then(|tracee| tracee.debug.take());
    let Some(mut debug) = taken else { return false };
    let changed = debug.compare(|addr, out| {
        host.peek(mm, addr, out);
    });
    if let Some(tracee) = &mut host.thread(thread).trace {
        tracee.debug = Some(debug);
    }
    changed
}
