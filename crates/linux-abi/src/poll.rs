//! Structures of readiness calls: poll(2), epoll_ctl(2), signalfd(2).

use crate::signal::SigInfo;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct PollFd {
    /// Descriptor; negative values are skipped.
    pub fd: i32,
    /// Requested events, `POLL*`.
    pub events: u16,
    /// Returned events, `POLL*`.
    pub revents: u16,
}

/// `struct epoll_event`, packed on x86-64.
#[repr(C, packed)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct EpollEvent {
    /// `EPOLL*` bits.
    pub events: u32,
    /// Value chosen by the program.
    pub data: u64,
}

/// `struct signalfd_siginfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct SignalfdSiginfo {
    pub signo: u32,
    pub errno: i32,
    pub code: i32,
    pub pid: u32,
    pub uid: u32,
    pub fd: i32,
    pub tid: u32,
    pub band: u32,
    pub overrun: u32,
    pub trapno: u32,
    pub status: i32,
    pub int: i32,
    pub ptr: u64,
    pub utime: u64,
    pub stime: u64,
    pub addr: u64,
    pub addr_lsb: u16,
    pad: [u8; 46],
}

impl From<&SigInfo> for SignalfdSiginfo {
    /// Fills in the fields that the signal's code implies, as `signalfd_copyinfo` in Linux does.
    fn from(info: &SigInfo) -> SignalfdSiginfo {
        let (low, high) = (|n: usize| info.fields[n] as u32, |n: usize| (info.fields[n] >> 32) as u32);
        let mut out =
            SignalfdSiginfo { signo: info.signo as u32, errno: info.errno, code: info.code, ..Self::ZERO };
        let hardware = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
        if info.code == libc::SI_TIMER {
            (out.tid, out.overrun) = (low(0), high(0));
            (out.ptr, out.int) = (info.fields[1], low(1) as i32);
        } else if info.code > 0 && info.signo == libc::SIGCHLD {
            (out.pid, out.uid, out.status) = (low(0), high(0), low(1) as i32);
            (out.utime, out.stime) = (info.fields[2], info.fields[3]);
        } else if info.code > 0 && hardware.contains(&info.signo) {
            out.addr = info.fields[0];
        } else if info.code <= 0 {
            (out.pid, out.uid) = (low(0), high(0));
            (out.ptr, out.int) = (info.fields[1], low(1) as i32);
        }
        out
    }
}

impl SignalfdSiginfo {
    const ZERO: SignalfdSiginfo = SignalfdSiginfo {
        signo: 0,
        errno: 0,
        code: 0,
        pid: 0,
        uid: 0,
        fd: 0,
        tid: 0,
        band: 0,
        overrun: 0,
        trapno: 0,
        status: 0,
        int: 0,
        ptr: 0,
        utime: 0,
        stime: 0,
        addr: 0,
        addr_lsb: 0,
        pad: [0; 46],
    };
}

const _: () = assert!(size_of::<SignalfdSiginfo>() == 128 && size_of::<EpollEvent>() == 12);
