//! Signal-driven I/O, `fcntl(2)` "Managing signals": the owner of an open file and the signals that it is sent.

use crate::credentials::Credentials;
use crate::file_kind::FileKind;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_netstack::readiness::{EPOLLHUP, EPOLLIN, EPOLLOUT};

/// Recipient and kind of an open file's I/O signals.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOwner {
    /// Process id, or the negated id of a process group; 0 if there is no owner.
    pub id: i32,
    /// True if `id` is a thread id; the signal is then sent to that thread.
    pub thread: bool,
    /// Signal of `F_SETSIG`; 0 for `SIGIO` without further information.
    pub signal: i32,
    /// Descriptor through which `O_ASYNC` was set, reported as `si_fd`.
    pub fd: i32,
    /// Real and effective user id of the process that set the owner.
    pub uids: (u32, u32),
}

/// Kind of a change that is signalled: `si_code` and `si_band`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    code: i32,
    band: u64,
}

impl Band {
    /// `POLL_IN`: data can be read.
    pub const IN: Band = Band { code: 1, band: 0x41 };
    /// `POLL_OUT`: data can be written.
    pub const OUT: Band = Band { code: 2, band: 0x304 };
    /// `POLL_MSG`: a lease is being broken, or a directory has changed.
    pub const MESSAGE: Band = Band { code: 3, band: 0x441 };
    /// `POLL_HUP`: the other end hung up.
    pub const HANGUP: Band = Band { code: 6, band: 0x18 };

    /// Band of a change that brought `events` to a file of this kind; `None` if the change is not signalled.
    /// `readiness` gives the file's present readiness.
    pub fn of(kind: &FileKind, events: u32, readiness: impl FnOnce() -> u32) -> Option<Band> {
        match kind {
            FileKind::PipeReader(_) => return (events & (EPOLLIN | EPOLLHUP) != 0).then_some(Band::IN),
            FileKind::PipeWriter(_) => return (events & (EPOLLOUT | EPOLLHUP) != 0).then_some(Band::OUT),
            _ => {}
        }
        match events & readiness() {
            now if now & EPOLLHUP != 0 => Some(Band::HANGUP),
            now if now & EPOLLIN != 0 => Some(Band::IN),
            now if now & EPOLLOUT != 0 && events != u32::MAX => Some(Band::OUT),
            _ => None,
        }
    }
}

impl FileOwner {
    /// True if the process that set the owner may signal a process with these credentials (`sigio_perm`).
    pub fn may_signal(&self, other: &Credentials) -> bool {
        let (real, effective) = self.uids;
        effective == 0 || [real, effective].iter().any(|uid| [other.ruid, other.suid].contains(uid))
    }
    /// Signal that the owner is sent about a change.
    pub fn info(&self, band: Band) -> SigInfo {
        match self.signal {
            0 => SigInfo::kernel(c::SIGIO),
            signal => SigInfo::input_output(signal, band.code, band.band, self.fd),
        }
    }
}
