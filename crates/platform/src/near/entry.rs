//! Into the guest and out of it.
//!
//! Only general registers, FS, flags and vector state change hands; the guest's stack is never
//! touched. GS always points to the worker block while this code runs. The guest goes on by a jump
//! through the worker block, so that every register, RCX and R11 included, can carry the guest's
//! value; a guest that single-steps itself (TF) needs `iretq`, else the step would fall into here.

use super::context::{Context, xsave};
use super::layout::HOST_AREA;
use super::worker::Worker;
use belljar_kernel::machine::Regs;
use std::mem::offset_of;

/// How [`enter`] ended: through a stub.
pub const CAME_BY_STUB: u32 = 0;
/// How [`enter`] ended: by a signal, described in the worker's `trap`.
pub const CAME_BY_SIGNAL: u32 = 1;

/// The status flags, which SAHF and an addition restore faster than POPF: CF PF AF ZF SF OF.
const STATUS_FLAGS: u32 = 0x8d5;
/// Trap flag.
const TF: u32 = 0x100;
/// Flags that must be off in compiled code: TF, DF, NT, AC.
const HARMFUL_FLAGS: u32 = 0x4_4500;
/// Always-one bit and interrupts on: the other flags' resting state.
pub const PLAIN_FLAGS: u64 = 0x202;

macro_rules! regs_offset {
    ($field:ident) => {
        offset_of!(Context, regs) + offset_of!(Regs, $field)
    };
}

std::arch::global_asm!(
    ".text",
    // enter(worker: rdi, context: rsi) -> eax
    ".p2align 4",
    ".globl belljar_enter",
    ".hidden belljar_enter",
    "belljar_enter:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi + {host_rsp}], rsp",
    "mov [rdi + {context}], rsi",
    // R8: the components that the guest has, R9: those that the CPU has now. `xrstor` costs more
    // than everything else here together, so what can be loaded by hand is: SSE, AVX, the AVX-512
    // registers above 15 (which glibc's string functions use) and mask registers.
    "mov r8, [rsi + {xstate_bv}]",
    "mov ecx, 1",
    "xgetbv",
    "mov r9d, eax",
    "and r9d, [rdi + {beyond_sse}]",
    "test r8d, 2",
    "jz 2f",
    "or eax, r8d",
    "test eax, [rdi + {not_by_hand}]",
    "jnz 2f",
    "test r9d, 4",
    "jz 7f",
    "vzeroupper",
    "7:",
    "movaps xmm0, [rsi + {xmm} + 0]",
    "movaps xmm1, [rsi + {xmm} + 16]",
    "movaps xmm2, [rsi + {xmm} + 32]",
    "movaps xmm3, [rsi + {xmm} + 48]",
    "movaps xmm4, [rsi + {xmm} + 64]",
    "movaps xmm5, [rsi + {xmm} + 80]",
    "movaps xmm6, [rsi + {xmm} + 96]",
    "movaps xmm7, [rsi + {xmm} + 112]",
    "movaps xmm8, [rsi + {xmm} + 128]",
    "movaps xmm9, [rsi + {xmm} + 144]",
    "movaps xmm10, [rsi + {xmm} + 160]",
    "movaps xmm11, [rsi + {xmm} + 176]",
    "movaps xmm12, [rsi + {xmm} + 192]",
    "movaps xmm13, [rsi + {xmm} + 208]",
    "movaps xmm14, [rsi + {xmm} + 224]",
    "movaps xmm15, [rsi + {xmm} + 240]",
    "mov eax, [rsi + {ctx_mxcsr}]",
    "cmp eax, [rdi + {mxcsr}]",
    "je 7f",
    "ldmxcsr [rsi + {ctx_mxcsr}]",
    "7:",
    "mov eax, r8d",
    "or eax, r9d",
    "test eax, 0xa4",
    "jz 3f",
    "test r8d, 4",
    "jz 7f",
    "vinsertf128 ymm0, ymm0, [rsi + {ymm} + 0], 1",
    "vinsertf128 ymm1, ymm1, [rsi + {ymm} + 16], 1",
    "vinsertf128 ymm2, ymm2, [rsi + {ymm} + 32], 1",
    "vinsertf128 ymm3, ymm3, [rsi + {ymm} + 48], 1",
    "vinsertf128 ymm4, ymm4, [rsi + {ymm} + 64], 1",
    "vinsertf128 ymm5, ymm5, [rsi + {ymm} + 80], 1",
    "vinsertf128 ymm6, ymm6, [rsi + {ymm} + 96], 1",
    "vinsertf128 ymm7, ymm7, [rsi + {ymm} + 112], 1",
    "vinsertf128 ymm8, ymm8, [rsi + {ymm} + 128], 1",
    "vinsertf128 ymm9, ymm9, [rsi + {ymm} + 144], 1",
    "vinsertf128 ymm10, ymm10, [rsi + {ymm} + 160], 1",
    "vinsertf128 ymm11, ymm11, [rsi + {ymm} + 176], 1",
    "vinsertf128 ymm12, ymm12, [rsi + {ymm} + 192], 1",
    "vinsertf128 ymm13, ymm13, [rsi + {ymm} + 208], 1",
    "vinsertf128 ymm14, ymm14, [rsi + {ymm} + 224], 1",
    "vinsertf128 ymm15, ymm15, [rsi + {ymm} + 240], 1",
    "7:",
    "test r8d, 0x80",
    "jz 7f",
    "vmovaps zmm16, [rsi + {zmm16} + 0]",
    "vmovaps zmm17, [rsi + {zmm16} + 64]",
    "vmovaps zmm18, [rsi + {zmm16} + 128]",
    "vmovaps zmm19, [rsi + {zmm16} + 192]",
    "vmovaps zmm20, [rsi + {zmm16} + 256]",
    "vmovaps zmm21, [rsi + {zmm16} + 320]",
    "vmovaps zmm22, [rsi + {zmm16} + 384]",
    "vmovaps zmm23, [rsi + {zmm16} + 448]",
    "vmovaps zmm24, [rsi + {zmm16} + 512]",
    "vmovaps zmm25, [rsi + {zmm16} + 576]",
    "vmovaps zmm26, [rsi + {zmm16} + 640]",
    "vmovaps zmm27, [rsi + {zmm16} + 704]",
    "vmovaps zmm28, [rsi + {zmm16} + 768]",
    "vmovaps zmm29, [rsi + {zmm16} + 832]",
    "vmovaps zmm30, [rsi + {zmm16} + 896]",
    "vmovaps zmm31, [rsi + {zmm16} + 960]",
    "jmp 8f",
    "7:",
    "test r9d, 0x80",
    "jz 8f",
    "vpxord xmm16, xmm16, xmm16",
    "vpxord xmm17, xmm17, xmm17",
    "vpxord xmm18, xmm18, xmm18",
    "vpxord xmm19, xmm19, xmm19",
    "vpxord xmm20, xmm20, xmm20",
    "vpxord xmm21, xmm21, xmm21",
    "vpxord xmm22, xmm22, xmm22",
    "vpxord xmm23, xmm23, xmm23",
    "vpxord xmm24, xmm24, xmm24",
    "vpxord xmm25, xmm25, xmm25",
    "vpxord xmm26, xmm26, xmm26",
    "vpxord xmm27, xmm27, xmm27",
    "vpxord xmm28, xmm28, xmm28",
    "vpxord xmm29, xmm29, xmm29",
    "vpxord xmm30, xmm30, xmm30",
    "vpxord xmm31, xmm31, xmm31",
    "8:",
    "test r8d, 0x20",
    "jz 7f",
    "kmovq k0, [rsi + {opmask} + 0]",
    "kmovq k1, [rsi + {opmask} + 8]",
    "kmovq k2, [rsi + {opmask} + 16]",
    "kmovq k3, [rsi + {opmask} + 24]",
    "kmovq k4, [rsi + {opmask} + 32]",
    "kmovq k5, [rsi + {opmask} + 40]",
    "kmovq k6, [rsi + {opmask} + 48]",
    "kmovq k7, [rsi + {opmask} + 56]",
    "jmp 3f",
    "7:",
    "test r9d, 0x20",
    "jz 3f",
    "kxorq k0, k0, k0",
    "kxorq k1, k1, k1",
    "kxorq k2, k2, k2",
    "kxorq k3, k3, k3",
    "kxorq k4, k4, k4",
    "kxorq k5, k5, k5",
    "kxorq k6, k6, k6",
    "kxorq k7, k7, k7",
    "jmp 3f",
    "2:",
    "mov eax, [rdi + {xsave_mask}]",
    "xor edx, edx",
    "xrstor64 [rsi + {xsave}]",
    "3:",
    "mov rax, [rsi + {fs}]",
    "wrfsbase rax",
    "mov qword ptr [rdi + {in_guest}], 1",
    "mov rax, [rsi + {rflags}]",
    "mov ecx, eax",
    "and ecx, {not_status}",
    "cmp ecx, {plain}",
    "jne 4f",
    // OF from an addition that overflows iff AL is 1, the rest from AH.
    "mov ecx, eax",
    "shr ecx, 11",
    "and ecx, 1",
    "mov ah, al",
    "mov al, cl",
    "add al, 127",
    "sahf",
    "jmp 5f",
    "4:",
    "test eax, {tf}",
    "jnz 6f",
    "push rax",
    "popfq",
    "5:",
    "mov r15, [rsi + {r15}]",
    "mov r14, [rsi + {r14}]",
    "mov r13, [rsi + {r13}]",
    "mov r12, [rsi + {r12}]",
    "mov rbp, [rsi + {rbp}]",
    "mov rbx, [rsi + {rbx}]",
    "mov r11, [rsi + {r11}]",
    "mov r10, [rsi + {r10}]",
    "mov r9, [rsi + {r9}]",
    "mov r8, [rsi + {r8}]",
    "mov rax, [rsi + {rax}]",
    "mov rcx, [rsi + {rcx}]",
    "mov rdx, [rsi + {rdx}]",
    "mov rdi, [rsi + {rdi}]",
    "mov rsp, [rsi + {rsp}]",
    "mov rsi, [rsi + {rsi}]",
    "jmp qword ptr gs:[{target}]",
    "6:",
    "push 0x2b",
    "push qword ptr [rsi + {rsp}]",
    "push rax",
    "push 0x33",
    "push qword ptr [rdi + {target}]",
    "mov r15, [rsi + {r15}]",
    "mov r14, [rsi + {r14}]",
    "mov r13, [rsi + {r13}]",
    "mov r12, [rsi + {r12}]",
    "mov rbp, [rsi + {rbp}]",
    "mov rbx, [rsi + {rbx}]",
    "mov r11, [rsi + {r11}]",
    "mov r10, [rsi + {r10}]",
    "mov r9, [rsi + {r9}]",
    "mov r8, [rsi + {r8}]",
    "mov rax, [rsi + {rax}]",
    "mov rcx, [rsi + {rcx}]",
    "mov rdx, [rsi + {rdx}]",
    "mov rdi, [rsi + {rdi}]",
    "mov rsi, [rsi + {rsi}]",
    "iretq",
    // From a stub's `jmp gs:[0]`: RCX is the address behind the call, R11 where the guest goes on.
    ".p2align 4",
    ".globl belljar_from_stub",
    ".hidden belljar_from_stub",
    "belljar_from_stub:",
    "mov gs:[{target}], r11",
    "mov r11, gs:[{context}]",
    "mov [r11 + {r15}], r15",
    "mov [r11 + {r14}], r14",
    "mov [r11 + {r13}], r13",
    "mov [r11 + {r12}], r12",
    "mov [r11 + {rbp}], rbp",
    "mov [r11 + {rbx}], rbx",
    "mov [r11 + {r10}], r10",
    "mov [r11 + {r9}], r9",
    "mov [r11 + {r8}], r8",
    "mov [r11 + {rax}], rax",
    "mov [r11 + {rcx}], rcx",
    "mov [r11 + {rip}], rcx",
    "mov [r11 + {exit_rip}], rcx",
    "mov [r11 + {rdx}], rdx",
    "mov [r11 + {rsi}], rsi",
    "mov [r11 + {rdi}], rdi",
    "mov [r11 + {rsp}], rsp",
    "mov rsp, gs:[{host_rsp}]",
    "pushfq",
    "pop rax",
    "mov [r11 + {rflags}], rax",
    "mov [r11 + {r11}], rax",
    "test eax, {harmful}",
    "jz 2f",
    "push {plain}",
    "popfq",
    "2:",
    "mov rax, gs:[{target}]",
    "mov [r11 + {resume_at}], rax",
    "rdfsbase rax",
    "mov [r11 + {fs}], rax",
    "mov rax, gs:[{host_fs}]",
    "wrfsbase rax",
    "mov qword ptr gs:[{in_guest}], 0",
    "mov ecx, 1",
    "xgetbv",
    "test eax, gs:[{beyond_sse}]",
    "jnz 4f",
    "movaps [r11 + {xmm}], xmm0",
    "movaps [r11 + {xmm} + 16], xmm1",
    "movaps [r11 + {xmm} + 32], xmm2",
    "movaps [r11 + {xmm} + 48], xmm3",
    "movaps [r11 + {xmm} + 64], xmm4",
    "movaps [r11 + {xmm} + 80], xmm5",
    "movaps [r11 + {xmm} + 96], xmm6",
    "movaps [r11 + {xmm} + 112], xmm7",
    "movaps [r11 + {xmm} + 128], xmm8",
    "movaps [r11 + {xmm} + 144], xmm9",
    "movaps [r11 + {xmm} + 160], xmm10",
    "movaps [r11 + {xmm} + 176], xmm11",
    "movaps [r11 + {xmm} + 192], xmm12",
    "movaps [r11 + {xmm} + 208], xmm13",
    "movaps [r11 + {xmm} + 224], xmm14",
    "movaps [r11 + {xmm} + 240], xmm15",
    "stmxcsr [r11 + {ctx_mxcsr}]",
    "mov qword ptr [r11 + {xstate_bv}], 2",
    // Most guests leave MXCSR alone, and loading it costs more than looking.
    "mov eax, [r11 + {ctx_mxcsr}]",
    "cmp eax, gs:[{mxcsr}]",
    "je 5f",
    "3:",
    "ldmxcsr gs:[{mxcsr}]",
    "5:",
    "xor eax, eax",
    "7:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    "4:",
    "mov eax, gs:[{xsave_mask}]",
    "xor edx, edx",
    "xsavec64 [r11 + {xsave}]",
    "vzeroupper",
    "test byte ptr [r11 + {xstate_bv}], 1",
    "jz 3b",
    "fninit",
    "jmp 3b",
    // The handler of every signal of the platform: (signal: edi, info: rsi, ucontext: rdx).
    ".p2align 4",
    ".globl belljar_signal_entry",
    ".hidden belljar_signal_entry",
    "belljar_signal_entry:",
    "mov rax, rsp",
    "sub rax, [rip + {arena}]",
    "cmp rax, {arena_size}",
    "jae 8f",
    "push rbx",
    "push r12",
    "push r13",
    "mov rbx, rsp",
    "and rbx, {region_mask}",
    "rdfsbase r12",
    "rdgsbase r13",
    "wrgsbase rbx",
    "mov rax, [rbx + {host_fs}]",
    "wrfsbase rax",
    // Linux clears DF and TF for a handler, but neither AC nor NT.
    "push {plain}",
    "popfq",
    "mov rcx, rbx",
    "mov r8, r12",
    "call {on_signal}",
    "test eax, eax",
    "jnz 9f",
    "wrfsbase r12",
    "wrgsbase r13",
    "pop r13",
    "pop r12",
    "pop rbx",
    "ret",
    "8:",
    "jmp {on_signal_elsewhere}",
    // The frame is abandoned: the stack is the worker's own again.
    "9:",
    "mov rsp, [rbx + {host_rsp}]",
    "jmp 7b",
    ".globl belljar_entry_end",
    ".hidden belljar_entry_end",
    "belljar_entry_end:",
    context = const offset_of!(Worker, context),
    target = const offset_of!(Worker, target),
    host_rsp = const offset_of!(Worker, host_rsp),
    host_fs = const offset_of!(Worker, host_fs),
    in_guest = const offset_of!(Worker, in_guest),
    xsave_mask = const offset_of!(Worker, xsave_mask),
    beyond_sse = const offset_of!(Worker, xsave_beyond_sse),
    mxcsr = const offset_of!(Worker, mxcsr),
    not_by_hand = const offset_of!(Worker, not_by_hand),
    ymm = const offset_of!(Context, xsave) + xsave::EXTENDED,
    opmask = const offset_of!(Context, xsave) + xsave::OPMASK,
    zmm16 = const offset_of!(Context, xsave) + xsave::HI16_ZMM,
    xsave = const offset_of!(Context, xsave),
    xmm = const offset_of!(Context, xsave) + xsave::XMM,
    ctx_mxcsr = const offset_of!(Context, xsave) + xsave::MXCSR,
    xstate_bv = const offset_of!(Context, xsave) + xsave::XSTATE_BV,
    exit_rip = const offset_of!(Context, exit_rip),
    resume_at = const offset_of!(Context, resume_at),
    fs = const regs_offset!(fs_base),
    rip = const regs_offset!(rip),
    rflags = const regs_offset!(rflags),
    r15 = const regs_offset!(r15),
    r14 = const regs_offset!(r14),
    r13 = const regs_offset!(r13),
    r12 = const regs_offset!(r12),
    rbp = const regs_offset!(rbp),
    rbx = const regs_offset!(rbx),
    r11 = const regs_offset!(r11),
    r10 = const regs_offset!(r10),
    r9 = const regs_offset!(r9),
    r8 = const regs_offset!(r8),
    rax = const regs_offset!(rax),
    rcx = const regs_offset!(rcx),
    rdx = const regs_offset!(rdx),
    rsi = const regs_offset!(rsi),
    rdi = const regs_offset!(rdi),
    rsp = const regs_offset!(rsp),
    not_status = const !STATUS_FLAGS,
    tf = const TF,
    harmful = const HARMFUL_FLAGS,
    plain = const PLAIN_FLAGS,
    arena = sym super::worker::ARENA,
    arena_size = const super::worker::ARENA_SIZE,
    region_mask = const -(super::worker::REGION as i64),
    on_signal = sym super::signals::on_signal,
    on_signal_elsewhere = sym super::signals::on_signal_elsewhere,
);

unsafe extern "C" {
    /// Runs `context` on the calling thread until it comes back; gives how it came.
    ///
    /// # Safety
    /// `worker` must be this thread's block with `target` set, and `context` a live context whose
    /// vector image the CPU accepts.
    #[link_name = "belljar_enter"]
    pub fn enter(worker: *mut Worker, context: *mut Context) -> u32;
    /// Where stubs jump to. Not to be called.
    #[link_name = "belljar_from_stub"]
    pub fn from_stub();
    /// The signal handler.
    #[link_name = "belljar_signal_entry"]
    pub fn signal_entry(signal: i32, info: *mut libc::siginfo_t, ucontext: *mut libc::c_void);
    #[link_name = "belljar_entry_end"]
    fn entry_end();
}

/// Whether `rip` lies in this file's code.
pub fn is_entry_code(rip: u64) -> bool {
    (enter as *const () as u64..entry_end as *const () as u64).contains(&rip)
}

/// The thread's FS base.
///
/// # Safety
/// FSGSBASE must have been checked for.
pub unsafe fn read_fs_base() -> u64 {
    let base;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Sets the thread's GS base.
///
/// # Safety
/// FSGSBASE must have been checked for, and nothing else may use GS.
pub unsafe fn write_gs_base(base: u64) {
    // SAFETY: nothing compiled uses GS on x86-64 Linux.
    unsafe { std::arch::asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}

/// Switches Syscall User Dispatch for this thread: with it, every system call from outside the
/// simulator's own range raises SIGSYS.
pub fn dispatch_system_calls(on: bool) -> std::io::Result<()> {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    let (mode, start, len) =
        if on { (1, HOST_AREA.start, HOST_AREA.end - HOST_AREA.start) } else { (0, 0, 0) };
    // SAFETY: plain numbers; no selector byte is used.
    match unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, len, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
