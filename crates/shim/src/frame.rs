//! Signal frames, `rt_sigaction(2)` and `struct ucontext` of x86-64.

use crate::context::LOOK_UP;
use crate::worker::{Trap, Worker};

const SIGSEGV: i32 = 11;
const SIGSYS: i32 = 31;

/// The fields of the kernel's `siginfo_t` for exceptions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SigInfo {
    /// Signal number.
    pub signo: i32,
    /// `si_errno`.
    pub errno: i32,
    /// `si_code`: positive if the kernel raised it.
    pub code: i32,
    pad: i32,
    /// `si_addr` of an exception, `si_call_addr` of a SIGSYS.
    pub addr: u64,
    /// `si_syscall` of a SIGSYS.
    pub syscall: i32,
    /// `si_arch` of a SIGSYS.
    pub arch: u32,
}

/// The general registers of a frame, in the order of `gregset_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct FrameRegs {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub rflags: u64,
    pub selectors: u64,
    pub error_code: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
}

/// `struct ucontext` up to the pointer to vector state.
#[derive(Debug)]
#[repr(C)]
pub struct UContext {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// The interrupted code's registers.
    pub regs: FrameRegs,
    /// Pointer to an XSAVE image in standard form.
    pub xstate: *const u8,
}

/// Copies the interrupted guest's registers and vector state into its context, and the description of the
/// signal into the worker's `trap`. Async-signal-safe.
///
/// # Safety
/// The frame must be the kernel's, of guest code that `worker` runs.
pub unsafe fn save(
    info: *const SigInfo,
    frame: *const UContext,
    worker: *mut Worker,
    fs_base: u64,
    gs_base: u64,
) {
    // SAFETY: `enter` set `context` to a live context that no other code accesses meanwhile; the rest is the
    // caller's obligation.
    unsafe {
        let context = &mut *(*worker).context;
        let from = &(*frame).regs;
        let regs = &mut context.regs;
        regs.r15 = from.r15;
        regs.r14 = from.r14;
        regs.r13 = from.r13;
        regs.r12 = from.r12;
        regs.rbp = from.rbp;
        regs.rbx = from.rbx;
        regs.r11 = from.r11;
        regs.r10 = from.r10;
        regs.r9 = from.r9;
        regs.r8 = from.r8;
        regs.rax = from.rax;
        regs.rcx = from.rcx;
        regs.rdx = from.rdx;
        regs.rsi = from.rsi;
        regs.rdi = from.rdi;
        regs.rip = from.rip;
        regs.rflags = from.rflags;
        regs.rsp = from.rsp;
        regs.fs_base = fs_base;
        // The worker's own GS base means that the guest has none.
        regs.gs_base = if gs_base == worker as u64 { 0 } else { gs_base };
        context.exit_rip = LOOK_UP;
        context.xsave.load_frame((*frame).xstate, &(*worker).layout);
        let (signal, code) = ((*info).signo, (*info).code);
        let addr = if signal == SIGSYS { u64::from((*info).arch) } else { (*info).addr };
        (*worker).trap = Trap { signal, code, addr, trapno: from.trapno, error_code: from.error_code };
    }
}

/// True if the fault was raised by the fetch of the instruction at RIP itself. Code other than the guest's
/// never raises one while a guest counts as running. Async-signal-safe.
///
/// # Safety
/// Both must be the kernel's.
pub unsafe fn is_fetch_fault(info: *const SigInfo, frame: *const UContext) -> bool {
    const PAGE_FAULT: u64 = 14;
    const INSTRUCTION_FETCH: u64 = 0x10;
    // SAFETY: the caller's obligation.
    let (info, regs) = unsafe { (&*info, &(*frame).regs) };
    info.signo == SIGSEGV
        && regs.trapno == PAGE_FAULT
        && regs.error_code & INSTRUCTION_FETCH != 0
        && info.addr == regs.rip
}
