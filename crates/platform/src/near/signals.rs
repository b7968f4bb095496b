//! The signals by which guest code comes back: system calls (SIGSYS), CPU exceptions, preemption
//! ticks. The entry code calls [`on_signal`] on the worker's alternate stack with FS and GS already
//! the simulator's; whatever ends a resume is copied out of the frame, which is then abandoned.

use super::worker::{self, Trap, Worker};
use super::{copy, entry, layout};
use crate::InitError;
use crate::init::native;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The exceptions that guest code may raise, and SIGSYS.
const EXCEPTIONS: [i32; 6] =
    [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// The vector of a general-protection exception.
pub const GENERAL_PROTECTION: u64 = 13;

/// What was installed before, to give a fault of the simulator's own its usual end.
struct Previous(UnsafeCell<[MaybeUninit<libc::sigaction>; EXCEPTIONS.len()]>);
// SAFETY: written once by `install`, before any handler can run; only read after that.
unsafe impl Sync for Previous {}
static PREVIOUS: Previous = Previous(UnsafeCell::new([const { MaybeUninit::uninit() }; EXCEPTIONS.len()]));

/// The signal of the preemption timer.
pub fn tick_signal() -> i32 {
    libc::SIGRTMIN() + 8
}

/// Installs the handlers, once per process.
pub fn install() -> Result<(), InitError> {
    for (index, &signal) in EXCEPTIONS.iter().enumerate() {
        // SAFETY: the handler is written for these flags; PREVIOUS is not read before the handler
        // of the same index is in place, and `old` is fully written by the call.
        unsafe {
            let previous = (*PREVIOUS.0.get())[index].as_mut_ptr();
            if libc::sigaction(signal, std::ptr::null(), previous) != 0
                || libc::sigaction(signal, &action(), std::ptr::null_mut()) != 0
            {
                return Err(native("installing a signal handler"));
            }
        }
    }
    // SAFETY: as above.
    match unsafe { libc::sigaction(tick_signal(), &action(), std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(native("installing a signal handler")),
    }
}

fn action() -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = entry::signal_entry as *const () as usize;
    // NODEFER: frames are abandoned, so nothing would unblock the signal again.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    action
}

/// Blocks every signal but the platform's own on the calling thread: their handlers would run with
/// a guest's FS.
pub fn block_others() -> Result<(), InitError> {
    // SAFETY: the sets are initialised by sigfillset before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for signal in EXCEPTIONS.into_iter().chain([tick_signal()]) {
            libc::sigdelset(&mut set, signal);
        }
        match libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(native("blocking signals")),
        }
    }
}

/// Gives 0 to go on where the signal interrupted, else how the resume ended.
///
/// # Safety
/// Called by the entry code alone.
pub unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    ucontext: *mut libc::ucontext_t,
    worker: *mut Worker,
    fs_base: u64,
) -> u32 {
    // SAFETY: the kernel built `info` and `ucontext`; the block belongs to this thread, which the
    // handler interrupted, and nothing of it is borrowed while a guest or a copy routine runs.
    unsafe {
        let registers = &mut (*ucontext).uc_mcontext.gregs;
        let rip = registers[libc::REG_RIP as usize] as u64;
        let running = (*worker).in_guest != 0;
        // A guest's jump to where the simulator has no code is the guest's fault.
        let in_guest =
            running && (!layout::HOST_AREA.contains(&rip) || is_fetch_fault(signal, info, registers));
        if signal == tick_signal() {
            if !in_guest || (*worker).tick_resumes != (*worker).resumes {
                // The first tick in this resume, or a tick of the simulator's own time.
                if in_guest {
                    (*worker).tick_resumes = (*worker).resumes;
                }
                return 0;
            }
        } else if (*info).si_code <= 0 {
            end_as_usual(signal, true);
            return 0;
        } else if !in_guest {
            host_fault(signal, registers, &mut *worker);
            return 0;
        }
        save(ucontext, worker, fs_base);
        let addr = if signal == libc::SIGSYS { u64::from(arch(info)) } else { (*info).si_addr() as u64 };
        (*worker).trap = Trap {
            signal,
            code: (*info).si_code,
            addr,
            trapno: registers[libc::REG_TRAPNO as usize] as u64,
            error_code: registers[libc::REG_ERR as usize] as u64,
        };
        (*worker).in_guest = 0;
        entry::CAME_BY_SIGNAL
    }
}

/// Whether the fault is that of fetching the instruction at RIP itself. The simulator's own code
/// never raises one while a guest counts as running.
///
/// # Safety
/// `info` must be the kernel's.
unsafe fn is_fetch_fault(signal: i32, info: *const libc::siginfo_t, registers: &[i64; 23]) -> bool {
    const PAGE_FAULT: i64 = 14;
    const INSTRUCTION_FETCH: i64 = 0x10;
    // SAFETY: a SIGSEGV carries an address.
    signal == libc::SIGSEGV
        && registers[libc::REG_TRAPNO as usize] == PAGE_FAULT
        && registers[libc::REG_ERR as usize] & INSTRUCTION_FETCH != 0
        && unsafe { (*info).si_addr() } as i64 == registers[libc::REG_RIP as usize]
}

/// A signal of the platform on a thread that is no worker.
///
/// # Safety
/// Called by the entry code alone.
pub unsafe extern "C" fn on_signal_elsewhere(
    signal: i32,
    info: *mut libc::siginfo_t,
    ucontext: *mut libc::ucontext_t,
) {
    // SAFETY: as for `on_signal`.
    unsafe {
        let registers = &mut (*ucontext).uc_mcontext.gregs;
        if (*info).si_code > 0 {
            // A worker's child thread inherits that `rdtsc` and `cpuid` trap.
            if fix_copy(registers)
                || is_trapping_instruction(signal, registers) && worker::set_thread_native()
            {
                return;
            }
        }
        end_as_usual(signal, (*info).si_code <= 0);
    }
}

/// `si_arch` of a SIGSYS: behind `si_call_addr` and `si_syscall`.
///
/// # Safety
/// `info` must describe a SIGSYS.
unsafe fn arch(info: *const libc::siginfo_t) -> u32 {
    // SAFETY: `_sigsys` of the kernel's siginfo: 16 bytes of header, a pointer, an int, this.
    unsafe { info.cast::<u8>().add(28).cast::<u32>().read() }
}

/// Copies the interrupted guest's registers and vector state into its context.
///
/// # Safety
/// The frame must be of guest code that `worker` runs.
unsafe fn save(ucontext: *mut libc::ucontext_t, worker: *mut Worker, fs_base: u64) {
    // SAFETY: `enter` set `context` to a live context that nothing else touches meanwhile.
    unsafe {
        let context = &mut *(*worker).context;
        let machine = &(*ucontext).uc_mcontext;
        let get = |index: i32| machine.gregs[index as usize] as u64;
        let regs = &mut context.regs;
        regs.r15 = get(libc::REG_R15);
        regs.r14 = get(libc::REG_R14);
        regs.r13 = get(libc::REG_R13);
        regs.r12 = get(libc::REG_R12);
        regs.rbp = get(libc::REG_RBP);
        regs.rbx = get(libc::REG_RBX);
        regs.r11 = get(libc::REG_R11);
        regs.r10 = get(libc::REG_R10);
        regs.r9 = get(libc::REG_R9);
        regs.r8 = get(libc::REG_R8);
        regs.rax = get(libc::REG_RAX);
        regs.rcx = get(libc::REG_RCX);
        regs.rdx = get(libc::REG_RDX);
        regs.rsi = get(libc::REG_RSI);
        regs.rdi = get(libc::REG_RDI);
        regs.rip = get(libc::REG_RIP);
        regs.rflags = get(libc::REG_EFL);
        regs.rsp = get(libc::REG_RSP);
        regs.fs_base = fs_base;
        context.exit_rip = super::context::LOOK_UP;
        context.xsave.load_frame(machine.fpregs.cast(), &(*worker).layout);
    }
}

/// A CPU exception in the simulator's own code: a copy to or from a guest that fails, the
/// simulator's own use of a trapping instruction, or a bug.
fn host_fault(signal: i32, registers: &mut [i64; 23], worker: &mut Worker) {
    if fix_copy(registers) {
        return;
    }
    let rip = registers[libc::REG_RIP as usize] as u64;
    if entry::is_entry_code(rip) && signal == libc::SIGTRAP {
        // The guest single-stepped itself into a stub; the step ends here.
        registers[libc::REG_EFL as usize] &= !0x100;
        return;
    }
    let native = worker.tsc_is_native && worker.cpuid_is_native;
    if !native && is_trapping_instruction(signal, registers) {
        worker::set_traps_native(worker);
        return;
    }
    end_as_usual(signal, false);
}

/// Whether the simulator's own code wanted `rdtsc`, `rdtscp` or `cpuid`.
fn is_trapping_instruction(signal: i32, registers: &[i64; 23]) -> bool {
    let rip = registers[libc::REG_RIP as usize] as u64;
    let protection = registers[libc::REG_TRAPNO as usize] as u64 == GENERAL_PROTECTION;
    if signal != libc::SIGSEGV || !protection || !layout::HOST_AREA.contains(&rip) {
        return false;
    }
    // SAFETY: the CPU has just decoded an instruction at `rip`. One of a single byte at the end of
    // its mapping, which would make this read fault, is none that raises this exception.
    let code = unsafe { std::slice::from_raw_parts(rip as *const u8, 2) };
    matches!(code, [0x0f, 0x31 | 0x01 | 0xa2])
}

fn fix_copy(registers: &mut [i64; 23]) -> bool {
    match copy::fixup(registers[libc::REG_RIP as usize] as u64) {
        Some(at) => {
            registers[libc::REG_RIP as usize] = at as i64;
            true
        }
        None => false,
    }
}

/// Gives the signal the end it would have had without the platform: the faulting instruction runs
/// again under the previous action. A signal that was `sent`, or one that would not come again, has
/// its default effect.
fn end_as_usual(signal: i32, sent: bool) {
    let Some(index) = EXCEPTIONS.iter().position(|&s| s == signal) else { return };
    // SAFETY: `install` filled the entry before this handler was in place; all-zero is the default
    // action.
    unsafe {
        if sent || signal == libc::SIGTRAP || signal == libc::SIGSYS {
            libc::sigaction(signal, &std::mem::zeroed(), std::ptr::null_mut());
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
        } else {
            libc::sigaction(signal, (*PREVIOUS.0.get())[index].as_ptr(), std::ptr::null_mut());
        }
    }
}
