//! Requests, options, events and structures of ptrace(2).

use bitflags::bitflags;
use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! requests {
    ($($name:ident = $value:literal;)*) => {
        $(#[doc = concat!("`PTRACE_", stringify!($name), "`.")] pub const $name: u32 = $value;)*
    };
}

requests! {
    TRACEME = 0;
    PEEKTEXT = 1;
    PEEKDATA = 2;
    PEEKUSER = 3;
    POKETEXT = 4;
    POKEDATA = 5;
    POKEUSER = 6;
    CONT = 7;
    KILL = 8;
    SINGLESTEP = 9;
    GETREGS = 12;
    SETREGS = 13;
    GETFPREGS = 14;
    SETFPREGS = 15;
    ATTACH = 16;
    DETACH = 17;
    SYSCALL = 24;
    SETOPTIONS = 0x4200;
    GETEVENTMSG = 0x4201;
    GETSIGINFO = 0x4202;
    SETSIGINFO = 0x4203;
    GETREGSET = 0x4204;
    SETREGSET = 0x4205;
    SEIZE = 0x4206;
    INTERRUPT = 0x4207;
    LISTEN = 0x4208;
    GETSIGMASK = 0x420a;
    SETSIGMASK = 0x420b;
    GET_SYSCALL_INFO = 0x420e;
}

bitflags! {
    /// `PTRACE_O_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TraceOptions: u64 {
        /// Mark system call stops as `SIGTRAP | 0x80`.
        const TRACESYSGOOD = 1;
        /// Stop at `fork`; the child is traced.
        const TRACEFORK = 1 << 1;
        /// Stop at `vfork`; the child is traced.
        const TRACEVFORK = 1 << 2;
        /// Stop at `clone`; the child is traced.
        const TRACECLONE = 1 << 3;
        /// Stop at `execve` instead of a `SIGTRAP`.
        const TRACEEXEC = 1 << 4;
        /// Stop when a `vfork` child has released its parent.
        const TRACEVFORKDONE = 1 << 5;
        /// Stop before a thread exits.
        const TRACEEXIT = 1 << 6;
        /// Stop for seccomp filters.
        const TRACESECCOMP = 1 << 7;
        /// Kill tracees when their tracer exits.
        const EXITKILL = 1 << 20;
        /// Suspend the seccomp filters of the tracee.
        const SUSPEND_SECCOMP = 1 << 21;
    }
}

/// `PTRACE_EVENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(i32)]
pub enum TraceEvent {
    Fork = 1,
    Vfork = 2,
    Clone = 3,
    Exec = 4,
    VforkDone = 5,
    Exit = 6,
    Stop = 128,
}

/// `struct user_regs_struct`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct UserRegs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

macro_rules! as_in_the_c_library {
    ($($field:ident)*) => {
        const _: () = assert!(
            size_of::<UserRegs>() == size_of::<libc::user_regs_struct>()
                $(&& offset_of!(UserRegs, $field) == offset_of!(libc::user_regs_struct, $field))*
        );
    };
}
as_in_the_c_library!(
    r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base
    ds es fs gs
);

/// `struct ptrace_syscall_info`, up to the fields of its kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct SyscallInfo {
    /// [`Self::NONE`], [`Self::ENTRY`] or [`Self::EXIT`].
    pub op: u8,
    /// Padding.
    pub pad: [u8; 3],
    /// `AUDIT_ARCH_X86_64`.
    pub arch: u32,
    /// RIP.
    pub instruction_pointer: u64,
    /// RSP.
    pub stack_pointer: u64,
    /// For an entry, the number and arguments; for an exit, the result and the error flag.
    pub fields: [u64; 7],
}

impl SyscallInfo {
    /// The thread is not in a system call stop.
    pub const NONE: u8 = 0;
    /// System call entry stop.
    pub const ENTRY: u8 = 1;
    /// System call exit stop.
    pub const EXIT: u8 = 2;

    /// Number of bytes of its kind.
    pub fn size(&self) -> usize {
        match self.op {
            Self::ENTRY => 80,
            Self::EXIT => 33,
            _ => 24,
        }
    }
}
