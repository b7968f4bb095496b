//! Terminal structures, `ioctl_tty(2)`.

use libc as c;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of control characters in the kernel's structures, `NCCS`.
pub const NCCS: usize = 19;

/// `struct termios` of the kernel, which is shorter than the C library's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Termios {
    pub iflag: u32,
    pub oflag: u32,
    pub cflag: u32,
    pub lflag: u32,
    pub line: u8,
    /// Control characters, indexed by `V*`.
    pub cc: [u8; NCCS],
}

/// `struct termios2`: `struct termios` with speeds in bits per second.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Termios2 {
    pub base: Termios,
    pub ispeed: u32,
    pub ospeed: u32,
}

/// First byte of a `TIOCPKT` packet: data follows.
pub const TIOCPKT_DATA: u8 = 0;
/// The input queue was flushed.
pub const TIOCPKT_FLUSHREAD: u8 = 1;
/// The output queue was flushed.
pub const TIOCPKT_FLUSHWRITE: u8 = 2;
/// Output was stopped.
pub const TIOCPKT_STOP: u8 = 4;
/// Output was restarted.
pub const TIOCPKT_START: u8 = 8;

/// `struct winsize`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Winsize {
    pub rows: u16,
    pub columns: u16,
    pub width: u16,
    pub height: u16,
}

impl Default for Termios {
    /// Settings of a new terminal, `tty_std_termios` in Linux.
    fn default() -> Termios {
        Termios {
            iflag: c::ICRNL | c::IXON,
            oflag: c::OPOST | c::ONLCR,
            cflag: c::B38400 | c::CS8 | c::CREAD,
            lflag: c::ISIG | c::ICANON | c::ECHO | c::ECHOE | c::ECHOK | c::ECHOCTL | c::ECHOKE | c::IEXTEN,
            line: 0,
            cc: [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0],
        }
    }
}

impl Termios {
    /// True if an input flag is set.
    pub fn input(&self, flag: u32) -> bool {
        self.iflag & flag != 0
    }
    /// True if an output flag is set.
    pub fn output(&self, flag: u32) -> bool {
        self.oflag & flag != 0
    }
    /// True if a local flag is set.
    pub fn local(&self, flag: u32) -> bool {
        self.lflag & flag != 0
    }
    /// Control character `which` (`V*`); `None` if it is disabled.
    pub fn control(&self, which: usize) -> Option<u8> {
        Some(self.cc[which]).filter(|character| *character != 0)
    }
}
