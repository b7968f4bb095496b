//! Signal structures in guest memory: `struct sigaction` of the kernel, `siginfo_t`, `stack_t`, and the frame
//! on a handler's stack (`arch/x86/include/uapi/asm/sigcontext.h`, `asm-generic/ucontext.h`).

use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of signals; numbers start at 1.
pub const NSIG: i32 = 64;

/// Signal set: signal `n` is bit `n - 1`.
pub type SigSet = u64;

/// Set that contains only `signal`.
pub const fn sig_bit(signal: i32) -> SigSet {
    1 << (signal - 1)
}

/// `struct sigaction` of `rt_sigaction(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct KernelSigaction {
    /// Handler: `SIG_DFL` (0), `SIG_IGN` (1) or an address.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Return address of the handler (`SA_RESTORER`).
    pub restorer: u64,
    /// Signals blocked while the handler runs.
    pub mask: SigSet,
}

/// `siginfo_t`. The meaning of `fields` depends on the code, `sigaction(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct SigInfo {
    /// Signal number.
    pub signo: i32,
    /// `si_errno`, unused by Linux itself.
    pub errno: i32,
    /// `SI_*`, `CLD_*`, `SEGV_*`, ...
    pub code: i32,
    /// Padding.
    pub pad: i32,
    /// Union, in words of eight bytes.
    pub fields: [u64; 14],
}

const fn pair(low: i32, high: u32) -> u64 {
    (low as u32 as u64) | ((high as u64) << 32)
}

impl SigInfo {
    /// Signal from the kernel without further information (`SI_KERNEL`).
    pub fn kernel(signo: i32) -> SigInfo {
        SigInfo { signo, code: libc::SI_KERNEL, ..SigInfo::default() }
    }
    /// Signal sent by a process: `SI_USER` or `SI_TKILL`.
    pub fn user(signo: i32, code: i32, pid: i32, uid: u32) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = pair(pid, uid);
        info
    }
    /// Pid and uid of the sender, for signals of `kill(2)` and related calls and of children.
    pub fn sender(&self) -> Option<(i32, u32)> {
        let by_process =
            matches!(self.code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL | libc::SI_MESGQ);
        let by_child =
            self.signo == libc::SIGCHLD && (libc::CLD_EXITED..=libc::CLD_CONTINUED).contains(&self.code);
        (by_process || by_child).then_some((self.fields[0] as i32, (self.fields[0] >> 32) as u32))
    }
    /// Copy with another sender.
    pub fn with_sender(mut self, pid: i32, uid: u32) -> SigInfo {
        self.fields[0] = pair(pid, uid);
        self
    }
    /// CPU exception at `addr`.
    pub fn fault(signo: i32, code: i32, addr: u64) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = addr;
        info
    }
    /// I/O signal for descriptor `fd`: `POLL_*`, and the events as in `poll(2)`.
    pub fn input_output(signo: i32, code: i32, band: u64, fd: i32) -> SigInfo {
        let mut info = SigInfo { signo, code, ..SigInfo::default() };
        info.fields[0] = band;
        info.fields[1] = u64::from(fd as u32);
        info
    }
    /// Expiration of a timer of `timer_create(2)`.
    pub fn timer(signo: i32, timer: i32, overrun: i32, value: u64) -> SigInfo {
        let mut info = SigInfo { signo, code: libc::SI_TIMER, ..SigInfo::default() };
        info.fields[0] = pair(timer, overrun as u32);
        info.fields[1] = value;
        info
    }
    /// State change of child `pid`; times are in clock ticks.
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
    /// Lowest address.
    pub sp: u64,
    /// `SS_ONSTACK`, `SS_DISABLE`, `SS_AUTODISARM`.
    pub flags: i32,
    /// Padding.
    pub pad: i32,
    /// Length in bytes.
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
    /// Unused by the kernel.
    pub link: u64,
    /// Alternate stack at the time of the signal.
    pub stack: SigStack,
    /// Registers.
    pub mcontext: SigContext,
    /// Signal mask to restore.
    pub sigmask: SigSet,
}

/// `struct rt_sigframe`: the content of the stack when a handler starts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct RtSigFrame {
    /// Return address of the handler: the restorer.
    pub pretcode: u64,
    /// Target of the handler's third argument.
    pub uc: UContext,
    /// Target of the handler's second argument.
    pub info: SigInfo,
}

/// Flag: the extended state in the frame is in XSAVE format.
pub const UC_FP_XSTATE: u64 = 1;
/// Flag: the frame saves SS.
pub const UC_SIGCONTEXT_SS: u64 = 2;
/// Flag: `rt_sigreturn` restores SS from the frame.
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// Magic number in the software-reserved bytes of the FXSAVE image: extended state follows.
pub const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// Magic number after the extended state.
pub const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Offset of the software-reserved bytes in the FXSAVE image.
pub const FP_SW_OFFSET: usize = 464;

/// `struct _fpx_sw_bytes`: the layout of the extended state in a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct FpSoftwareBytes {
    /// [`FP_XSTATE_MAGIC1`].
    pub magic1: u32,
    /// Size of the extended state with [`FP_XSTATE_MAGIC2`], in bytes.
    pub extended_size: u32,
    /// Features in the extended state.
    pub xfeatures: u64,
    /// Size of the extended state without the magic number, in bytes.
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
