//! Signals as they cross the guest's memory: `struct sigaction` of the kernel, `siginfo_t`,
//! `stack_t`, and the frame that a handler finds on its stack (`arch/x86/include/uapi/asm/sigcontext.h`,
//! `asm-generic/ucontext.h`).

use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The number of signals; they are numbered from 1.
pub const NSIG: i32 = 64;

/// A set of signals: signal `n` is bit `n - 1`.
pub type SigSet = u64;

/// The set that holds `signal` alone.
pub const fn sig_bit(signal: i32) -> SigSet {
    1 << (signal - 1)
}

/// `struct sigaction` as `rt_sigaction(2)` takes and gives it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct KernelSigaction {
    /// `SIG_DFL` (0), `SIG_IGN` (1) or the handler's address.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to (`SA_RESTORER`).
    pub restorer: u64,
    /// Blocked while the handler runs.
    pub mask: SigSet,
}

/// `siginfo_t`. Which part of `fields` means what depends on the code, `sigaction(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct SigInfo {
    /// The signal.
    pub signo: i32,
    /// `si_errno`, unused by Linux itself.
    pub errno: i32,
    /// `SI_*`, `CLD_*`, `SEGV_*`, ...
    pub code: i32,
    /// Alignment.
    pub pad: i32,
    /// The union, by eight bytes.
    pub fields: [u64; 14],
}

const fn pair(low: i32, high: u32) -> u64 {
    (low as u32 as u64) | ((high as u64) << 32)
}

impl SigInfo {
    /// A signal of the kernel without more to say (`SI_KERNEL`).
    pub fn kernel(signo: i32) -> SigInfo {
        SigInfo { signo, code: libc::SI_KERNEL, ..SigInfo::default() }
    }
    /// A signal sent by a process: `SI_USER` or `SI_TKILL`.
    pub fn user(signo: i32, code: i32, pid: i32, uid: u32) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = pair(pid, uid);
        info
    }
    /// Its sender's process and user, if it names one: signals of `kill(2)` and its like, and of children.
    pub fn sender(&self) -> Option<(i32, u32)> {
        let by_process =
            matches!(self.code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL | libc::SI_MESGQ);
        let by_child =
            self.signo == libc::SIGCHLD && (libc::CLD_EXITED..=libc::CLD_CONTINUED).contains(&self.code);
        (by_process || by_child).then_some((self.fields[0] as i32, (self.fields[0] >> 32) as u32))
    }
    /// The same signal from another sender.
    pub fn with_sender(mut self, pid: i32, uid: u32) -> SigInfo {
        self.fields[0] = pair(pid, uid);
        self
    }
    /// A CPU exception at `addr`.
    pub fn fault(signo: i32, code: i32, addr: u64) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = addr;
        info
    }
    /// Input or output of the file behind descriptor `fd`: `POLL_*`, and the events as of `poll(2)`.
    pub fn input_output(signo: i32, code: i32, band: u64, fd: i32) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = band;
        info.fields[1] = u64::from(fd as u32);
        info
    }
    /// An expired timer of `timer_create(2)`.
    pub fn timer(signo: i32, timer: i32, overrun: i32, value: u64) -> SigInfo {
        let mut info = SigInfo { signo, code: libc::SI_TIMER, ..SigInfo::default() };
        info.fields[0] = pair(timer, overrun as u32);
        info.fields[1] = value;
        info
    }
    /// A change of state of child `pid`; times in clock ticks.
    pub fn child(code: i32, pid: i32, uid: u32, status: i32, utime: u64) -> SigInfo {
        let mut info = SigInfo { signo: libc::SIGCHLD, code, ..SigInfo::default() };
        info.fields[0] = pair(pid, uid);
        info.fields[1] = u64::from(status as u32);
        info.fields[2] = utime;
        info
    }
    /// `si_pid`.
    pub fn pid(&self) -> i32 {
        self.fields[0] as i32
    }
    /// `si_uid`.
    pub fn uid(&self) -> u32 {
        (self.fields[0] >> 32) as u32
    }
    /// `si_addr`.
    pub fn addr(&self) -> u64 {
        self.fields[0]
    }
    /// `si_status` of `SIGCHLD`.
    pub fn status(&self) -> i32 {
        self.fields[1] as i32
    }
    /// `si_value`, `si_int` or `si_ptr`.
    pub fn value(&self) -> u64 {
        self.fields[1]
    }
}

/// `stack_t` of `sigaltstack(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct SigStack {
    /// Its lowest address.
    pub sp: u64,
    /// `SS_ONSTACK`, `SS_DISABLE`, `SS_AUTODISARM`.
    pub flags: i32,
    /// Alignment.
    pub pad: i32,
    /// Its length.
    pub size: u64,
}

/// `struct sigcontext` of x86-64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct SigContext {
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
    pub eflags: u64,
    pub cs: u16,
    pub gs: u16,
    pub fs: u16,
    pub ss: u16,
    pub err: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    pub reserved: [u64; 8],
}

macro_rules! as_in_the_c_library {
    ($($field:ident is $index:ident),*) => {
        const _: () = assert!(
            size_of::<SigContext>() == size_of::<libc::mcontext_t>()
                $(&& offset_of!(SigContext, $field) == libc::$index as usize * 8)*
                && offset_of!(SigContext, fpstate) == offset_of!(libc::mcontext_t, fpregs)
                && offset_of!(UContext, stack) == offset_of!(libc::ucontext_t, uc_stack)
                && offset_of!(UContext, mcontext) == offset_of!(libc::ucontext_t, uc_mcontext)
                && offset_of!(UContext, sigmask) == offset_of!(libc::ucontext_t, uc_sigmask)
        );
    };
}
as_in_the_c_library!(
    r8 is REG_R8, r9 is REG_R9, r10 is REG_R10, r11 is REG_R11, r12 is REG_R12, r13 is REG_R13, r14 is REG_R14,
    r15 is REG_R15, rdi is REG_RDI, rsi is REG_RSI, rbp is REG_RBP, rbx is REG_RBX, rdx is REG_RDX, rax is REG_RAX,
    rcx is REG_RCX, rsp is REG_RSP, rip is REG_RIP, eflags is REG_EFL, cs is REG_CSGSFS, err is REG_ERR,
    trapno is REG_TRAPNO, oldmask is REG_OLDMASK, cr2 is REG_CR2
);

/// `struct ucontext` of the kernel: its signal mask has 64 bits, unlike glibc's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct UContext {
    /// `UC_*`.
    pub flags: u64,
    /// Never used by the kernel.
    pub link: u64,
    /// The alternate stack in force when the signal came.
    pub stack: SigStack,
    /// The registers.
    pub mcontext: SigContext,
    /// The mask to restore.
    pub sigmask: SigSet,
}

/// `struct rt_sigframe`: what lies at the stack pointer when a handler starts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct RtSigFrame {
    /// The handler's return address: the restorer.
    pub pretcode: u64,
    /// The structure behind the handler's third argument.
    pub uc: UContext,
    /// The structure behind the handler's second argument.
    pub info: SigInfo,
}

/// The extended state in the frame is in XSAVE format.
pub const UC_FP_XSTATE: u64 = 1;
/// The frame saves SS.
pub const UC_SIGCONTEXT_SS: u64 = 2;
/// `rt_sigreturn` restores SS as it finds it.
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// In the software-reserved bytes of the FXSAVE image: extended state follows.
pub const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// Behind the extended state.
pub const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Where the software-reserved bytes lie in the FXSAVE image.
pub const FP_SW_OFFSET: usize = 464;

/// `struct _fpx_sw_bytes`: how the extended state in a frame is laid out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct FpSoftwareBytes {
    /// [`FP_XSTATE_MAGIC1`].
    pub magic1: u32,
    /// The size of the extended state with [`FP_XSTATE_MAGIC2`].
    pub extended_size: u32,
    /// The features that it can hold.
    pub xfeatures: u64,
    /// Its size without the magic number.
    pub xstate_size: u32,
    /// Zero.
    pub padding: [u32; 7],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_linux() {
        assert_eq!(size_of::<SigInfo>(), 128);
        assert_eq!(size_of::<SigContext>(), 256);
        assert_eq!(size_of::<UContext>(), 304);
        assert_eq!(size_of::<RtSigFrame>(), 440);
        assert_eq!(size_of::<FpSoftwareBytes>(), 48);
    }
}
