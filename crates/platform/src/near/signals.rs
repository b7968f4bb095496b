//! Signals that end a resume: system calls (SIGSYS), CPU exceptions, preemption ticks. The entry code calls
//! [`on_signal`] on the worker's alternate stack after it has loaded the simulator's FS and GS. The handler
//! copies the state out of a frame that ends a resume, and abandons the frame.

use crate::InitError;
use crate::init::native;
use crate::layout;
use crate::near::worker::{self, Worker};
use crate::near::{copy, entry};
use belljar_shim::frame::{self, SigInfo, UContext};
use belljar_shim::worker::{EXCEPTIONS, ON_SIGNAL_ELSEWHERE};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// The vector of a general-protection exception.
pub const GENERAL_PROTECTION: u64 = 13;

/// Previously installed handlers, to which faults of the simulator's own revert.
struct Previous(UnsafeCell<[MaybeUninit<libc::sigaction>; EXCEPTIONS.len()]>);
// SAFETY: written once by `install`, before any handler can run; only read after that.
unsafe impl Sync for Previous {}
static PREVIOUS: Previous = Previous(UnsafeCell::new([const { MaybeUninit::uninit() }; EXCEPTIONS.len()]));

/// Signal of the preemption timer.
pub fn tick_signal() -> i32 {
    belljar_shim::worker::TICK_SIGNAL
}

/// Installs the handlers, once per process.
pub fn install() -> Result<(), InitError> {
    ON_SIGNAL_ELSEWHERE.store(on_signal_elsewhere as *const () as u64, Ordering::Relaxed);
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
    // NODEFER: frames are abandoned, so the signal would never be unblocked.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    action
}

/// Blocks every signal but the platform's own on the calling thread: other handlers would run with a guest's
/// FS.
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

/// Handles a signal. Returns 0 to resume at the interrupted instruction, otherwise the kind of exit.
///
/// # Safety
/// Only the entry code may call it.
pub unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut SigInfo,
    frame: *mut UContext,
    worker: *mut Worker,
    fs_base: u64,
    gs_base: u64,
) -> u32 {
    // SAFETY: the kernel built `info` and `ucontext`; the block belongs to this thread, which the handler
    // interrupted, and no part of it is borrowed while a guest or a copy routine runs.
    unsafe {
        let registers = &mut (*frame.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let rip = registers[libc::REG_RIP as usize] as u64;
        let running = (*worker).in_guest != 0;
        // A fetch fault at an address of the simulator without code is a guest's wild jump, and the guest's
        // fault.
        let in_guest = running && (!layout::HOST_AREA.contains(&rip) || frame::is_fetch_fault(info, frame));
        if signal == tick_signal() {
            if !in_guest || (*worker).tick_resumes != (*worker).resumes {
                // The first tick in this resume, or a tick of the simulator's own time.
                if in_guest {
                    (*worker).tick_resumes = (*worker).resumes;
                }
                return 0;
            }
        } else if (*info).code <= 0 {
            end_as_usual(signal, true);
            return 0;
        } else if !in_guest {
            host_fault(signal, registers, &mut *worker);
            return 0;
        }
        frame::save(info, frame, worker, fs_base, gs_base);
        (*worker).in_guest = 0;
        entry::CAME_BY_SIGNAL
    }
}

/// Handles a signal of the platform on a thread that is not a worker.
///
/// # Safety
/// Only the entry code may call it.
pub unsafe extern "C" fn on_signal_elsewhere(signal: i32, info: *mut SigInfo, frame: *mut UContext) {
    // SAFETY: as for `on_signal`.
    unsafe {
        let registers = &mut (*frame.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        if (*info).code > 0 {
            // A worker's child thread inherits the traps for `rdtsc` and `cpuid`.
            if fix_copy(registers)
                || is_trapping_instruction(signal, registers) && worker::set_thread_native()
            {
                return;
            }
        }
        end_as_usual(signal, (*info).code <= 0);
    }
}

/// Handles a CPU exception in the simulator's own code: a faulting copy to or from a guest, the simulator's
/// own use of a trapping instruction, or a bug.
fn host_fault(signal: i32, registers: &mut [i64; 23], worker: &mut Worker) {
    if fix_copy(registers) {
        return;
    }
    let rip = registers[libc::REG_RIP as usize] as u64;
    if entry::is_entry_code(rip) && signal == libc::SIGTRAP {
        // The guest single-stepped into a stub; the step ends here.
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

/// True if the exception interrupted `rdtsc`, `rdtscp` or `cpuid` in the simulator's own code.
fn is_trapping_instruction(signal: i32, registers: &[i64; 23]) -> bool {
    let rip = registers[libc::REG_RIP as usize] as u64;
    let protection = registers[libc::REG_TRAPNO as usize] as u64 == GENERAL_PROTECTION;
    if signal != libc::SIGSEGV || !protection || !layout::HOST_AREA.contains(&rip) {
        return false;
    }
    // SAFETY: the CPU has just decoded an instruction at `rip`. The read could fault only for a one-byte
    // instruction at the end of its mapping, and no such instruction of the simulator raises this exception.
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

/// Ends a signal as it would end without the platform. The faulting instruction runs again under the previous
/// action; a signal that was `sent`, or that the instruction would not raise again, gets its default action.
fn end_as_usual(signal: i32, sent: bool) {
    let Some(index) = EXCEPTIONS.iter().position(|&s| s == signal) else { return };
    // SAFETY: `install` filled the entry before this handler was in place; all-zero is the default
    // action.
    unsafe {
        if sent || signal == libc::SIGTRAP || signal == libc::SIGSYS {
            libc::sigaction(signal, &std::mem::zeroed(), std::ptr::null_mut());
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
        } else {
            libc::sigaction(signal, (*PREVIOUS.0.get())[index].as_ptr(), std::ptr::null_mut());
        }
    }
}
