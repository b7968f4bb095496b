//! Interpretation of exits from guest code.

use crate::context::{Context, LOOK_UP};
use crate::cpu;
use crate::cpuid;
use crate::far::shim::Gone;
use crate::native::Native;
use crate::near::entry::{self, PLAIN_FLAGS};
use crate::near::signals::{GENERAL_PROTECTION, tick_signal};
use crate::near::worker::{self, Trap, Worker};
use crate::rewrite::Read;
use crate::space::Space;
use belljar_machine::{DEBUG_EXCEPTION, Exit, Fault, HardwareRead, RandomRead, TRAP_FLAG};
use belljar_shim::context::Regs;
use belljar_shim::worker::Readings;
use belljar_shim::xstate::SHOWN;

/// Flags that guest code may set: CF PF AF ZF SF TF DF OF RF AC, as Linux's `FIX_EFLAGS`. ID is left out: its
/// value would depend on the kind of exit.
const GUEST_FLAGS: u64 = 0x5_0dd5;
/// RF: never set after an instruction whose flags software can observe.
const RF: u64 = 0x1_0000;
/// `si_code` of a SIGTRAP by the trap flag.
const TRAP_TRACE: i32 = 2;
/// INT1.
const INT1: u8 = 0xf1;
const AUDIT_ARCH_X86_64: u64 = 0xc000_003e;
const SI_KERNEL: i32 = 0x80;
const SEGV_MAPERR: i32 = 1;

/// Runs `context` until it exits with an event for the kernel.
#[inline]
pub fn resume(context: &mut Context, space: &mut Space, clocks: &mut Readings) -> Exit {
    let worker = worker::current();
    loop {
        if let Some(exit) = run(worker, context, space, clocks) {
            return exit;
        }
    }
}

/// Runs one instruction of `context`: see `Platform::step`.
pub fn step(context: &mut Context, space: &mut Space) -> Exit {
    // A guest that single-steps itself would see an additional step, and one that stores the flags would see
    // TF.
    if !can_step(context, space) {
        return Exit::Preempted;
    }
    context.regs.rflags |= TRAP_FLAG;
    let exit = run(worker::current(), context, space, &mut Readings::default());
    context.regs.rflags &= !TRAP_FLAG;
    match exit {
        None => Exit::Stepped,
        Some(Exit::Fault(fault)) if (fault.signal, fault.code) == (libc::SIGTRAP, TRAP_TRACE) => {
            Exit::Stepped
        }
        Some(Exit::Syscall) => {
            context.regs.r11 &= !TRAP_FLAG;
            Exit::Syscall
        }
        Some(other) => other,
    }
}

/// True if the next instruction can be stepped unnoticed.
pub fn can_step(context: &Context, space: &Space) -> bool {
    context.regs.rflags & TRAP_FLAG == 0 && !shows_step(context.regs.rip, space)
}

/// True if the instruction at `rip` is a `pushf`, which stores the trap flag, or INT1, which is
/// indistinguishable from a step.
fn shows_step(rip: u64, space: &Space) -> bool {
    let mut code = [0u8; 2];
    match space.bytes_at(rip, &mut code) {
        [0x9c | INT1, ..] | [0x66 | 0x40..=0x4f, 0x9c | INT1] => true,
        code => code.is_empty(),
    }
}

/// The trap of `context`, corrected. Under some hypervisors DR6 is occasionally empty when Linux reads it
/// after a step, and Linux then reports the step as INT1. After an INT1, RIP is behind the instruction, or at
/// it on AMD processors under KVM.
fn set_right(trap: Trap, context: &Context, space: &Space) -> Trap {
    if trap.signal != libc::SIGTRAP || trap.trapno != DEBUG_EXCEPTION || trap.code == TRAP_TRACE {
        return trap;
    }
    let steps = context.regs.rflags & TRAP_FLAG != 0;
    let rip = context.regs.rip;
    let candidates = if steps { [context.resume_at; 2] } else { [rip.wrapping_sub(1), rip] };
    match candidates.iter().any(|&at| space.bytes_at(at, &mut [0]) == [INT1]) {
        true => trap,
        false => Trap { code: TRAP_TRACE, ..trap },
    }
}

#[inline(always)]
fn run(worker: *mut Worker, context: &mut Context, space: &mut Space, clocks: &mut Readings) -> Option<Exit> {
    context.regs.rflags = context.regs.rflags & GUEST_FLAGS | PLAIN_FLAGS;
    if context.regs.rip != context.exit_rip || context.generation != space.rewriter.generation {
        if !space.may_run_at(context.regs.rip) {
            return Some(Exit::Fault(no_code_at(context.regs.rip)));
        }
        context.resume_at = space.rewriter.native(context.regs.rip);
        context.generation = space.rewriter.generation;
    }
    if context.regs.rflags & TRAP_FLAG != 0 {
        // Each instruction of a locally answered call would be a step.
        clocks.allowed = 0;
    }
    let (came, trap) = match &space.native {
        Native::Near => enter(worker, context, clocks),
        Native::Far(shim) => match shim.resume(context, clocks) {
            Ok(came) => came,
            Err(Gone) => return Some(Exit::Killed),
        },
    };
    let regs = &mut context.regs;
    regs.rflags &= !RF;
    if came == entry::CAME_BY_STUB {
        space.counts.rewritten += 1;
        return Some(Exit::Syscall);
    }
    came_by_trap(worker, trap, context, space, clocks)
}

/// Interprets a trap of `context`; `None` if the guest resumes.
#[inline(never)]
fn came_by_trap(
    worker: *mut Worker,
    trap: Trap,
    context: &mut Context,
    space: &mut Space,
    clocks: &mut Readings,
) -> Option<Exit> {
    let trap = set_right(trap, context, space);
    let regs = &mut context.regs;
    context.exit_rip = LOOK_UP;
    let in_stub = space.rewriter.visible(regs.rip);
    if let Some(place) = in_stub {
        // Unless the kernel changes RIP, the guest resumes at this address in the stub: a guest that
        // single-steps would never advance from the site into the stub otherwise.
        context.resume_at = regs.rip;
        context.exit_rip = place.rip;
        regs.rip = place.rip;
    }
    // A step from a site into its stub, or within the stub, is invisible to the guest. Reporting it would
    // return the guest to the site, endlessly.
    if (trap.signal, trap.code) == (libc::SIGTRAP, TRAP_TRACE) && in_stub.is_some_and(|place| place.at_start)
    {
        return None;
    }
    if trap.signal == tick_signal() {
        return Some(Exit::Preempted);
    }
    match trap.signal {
        libc::SIGSYS if trap.addr == AUDIT_ARCH_X86_64 => {
            regs.rcx = regs.rip;
            regs.r11 = regs.rflags;
            space.counts.trapped += 1;
            space.rewriter.trapped(regs.rip, regs.rax, &space.slot, &space.native);
            Some(Exit::Syscall)
        }
        libc::SIGSYS => Some(Exit::CompatSyscall),
        libc::SIGSEGV if trap.trapno == GENERAL_PROTECTION && in_stub.is_none() => {
            if let Some(&read) = space.rewriter.replaced(regs.rip) {
                if let Some(fault) = refused(&read, regs, fault(trap)) {
                    return Some(Exit::Fault(fault));
                }
                regs.rip += u64::from(read.len);
                return carry_out(&read, context, worker);
            }
            match trapping_instruction(regs.rip, space) {
                Some((Trapping::Rdtsc { aux }, len)) => {
                    regs.rip += len;
                    Some(Exit::ReadTsc { aux })
                }
                Some((Trapping::Cpuid, len)) => {
                    // SAFETY: the block is this thread's own, and the guest has been left.
                    cpuid::answer(regs, unsafe { &mut *worker });
                    regs.rip += len;
                    None
                }
                None => Some(Exit::Fault(fault(trap))),
            }
        }
        // In a stub, two accesses can fault before the call. One goes through GS, if the guest had changed
        // GS: the handler has restored it, and the call is repeated. The other is a vDSO stub's store of the
        // time to an unwritable address: it is repeated from its start as a system call.
        libc::SIGSEGV | libc::SIGBUS if in_stub.is_some_and(|place| place.before_call) => {
            context.exit_rip = LOOK_UP;
            clocks.allowed = 0;
            None
        }
        _ => Some(Exit::Fault(fault(trap))),
    }
}

/// Fault of an instruction that the guests' processor does not have, or not for this ECX. `trapped` is that of
/// its replacement.
fn refused(read: &Read, regs: &Regs, trapped: Fault) -> Option<Fault> {
    const ILL_ILLOPN: i32 = 2;
    const INVALID_OPCODE: u64 = 6;
    match read.what {
        HardwareRead::Rdpru => Some(Fault {
            signal: libc::SIGILL,
            code: ILL_ILLOPN,
            addr: regs.rip,
            trapno: INVALID_OPCODE,
            error_code: 0,
        }),
        // As the replacement, a general-protection exception.
        HardwareRead::Xgetbv if regs.rcx as u32 > 1 => Some(trapped),
        _ => None,
    }
}

/// Carries out the instruction that a trap has replaced, with RIP behind it; `None` if the guest resumes.
fn carry_out(read: &Read, context: &mut Context, worker: *mut Worker) -> Option<Exit> {
    let Read { register, size, .. } = *read;
    match read.what {
        HardwareRead::Rdrand | HardwareRead::Rdseed => Some(Exit::ReadRandom(RandomRead { register, size })),
        HardwareRead::Rdtsc => Some(Exit::ReadTsc { aux: false }),
        HardwareRead::Rdtscp => Some(Exit::ReadTsc { aux: true }),
        HardwareRead::Rdpid => Some(Exit::ReadProcessor { register }),
        HardwareRead::Cpuid => {
            // SAFETY: the block is this thread's own, and the guest has been left.
            cpuid::answer(&mut context.regs, unsafe { &mut *worker });
            None
        }
        HardwareRead::Xgetbv => {
            let enabled = cpu::enabled();
            let shown = if context.regs.rcx as u32 == 1 { enabled & SHOWN } else { enabled };
            (context.regs.rax, context.regs.rdx) = (shown & 0xffff_ffff, shown >> 32);
            None
        }
        // Refused before.
        HardwareRead::Rdpru => None,
    }
}

/// Runs a near guest until it exits.
#[inline]
fn enter(worker: *mut Worker, context: &mut Context, clocks: &mut Readings) -> (u32, Trap) {
    // SAFETY: `worker` is this thread's block and not borrowed elsewhere; `context` is exclusively ours and
    // reached by the same pointer inside; its vector image is kept acceptable by `Xsave`.
    unsafe {
        worker::trap_as_guests_do(worker);
        (*worker).resumes += 1;
        (*worker).target = context.resume_at;
        (*worker).clocks.give(clocks);
        let came = entry::enter(worker, context);
        (*worker).clocks.take(clocks, &mut (*worker).answers);
        (came, (*worker).trap)
    }
}

fn fault(trap: Trap) -> Fault {
    Fault {
        signal: trap.signal,
        code: trap.code,
        addr: trap.addr,
        trapno: trap.trapno,
        error_code: trap.error_code,
    }
}

/// The fault that Linux reports for a thread that resumes at an address without code: one that is not
/// canonical, or one that belongs to the simulator and would be unmapped in a native process.
fn no_code_at(rip: u64) -> Fault {
    if rip >= 1 << 47 {
        let trapno = GENERAL_PROTECTION;
        return Fault { signal: libc::SIGSEGV, code: SI_KERNEL, addr: 0, trapno, error_code: 0 };
    }
    // A page fault of an instruction fetch by user code.
    Fault { signal: libc::SIGSEGV, code: SEGV_MAPERR, addr: rip, trapno: 14, error_code: 0x14 }
}

enum Trapping {
    Rdtsc { aux: bool },
    Cpuid,
}

/// The instruction at `rip` and its length, if the platform makes it trap.
fn trapping_instruction(rip: u64, space: &Space) -> Option<(Trapping, u64)> {
    let mut code = [0u8; 8];
    let code = space.bytes_at(rip, &mut code);
    // Meaningless prefixes emitted by assemblers and compilers.
    let prefixes = code.iter().take_while(|&&b| matches!(b, 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f)).count();
    let (kind, opcode) = match &code[prefixes..] {
        [0x0f, 0x31, ..] => (Trapping::Rdtsc { aux: false }, 2),
        [0x0f, 0x01, 0xf9, ..] => (Trapping::Rdtsc { aux: true }, 3),
        [0x0f, 0xa2, ..] => (Trapping::Cpuid, 2),
        _ => return None,
    };
    Some((kind, prefixes as u64 + opcode))
}
