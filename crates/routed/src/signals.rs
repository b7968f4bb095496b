//! SIGTERM and SIGINT as a descriptor.

use crate::error::{Doing, Error};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The signals that shut a daemon down.
pub struct Signals(SignalFd);

impl Signals {
    pub fn open() -> Result<Signals, Error> {
        let set: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
        set.thread_block().doing("block signals")?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .doing("wait for signals")?;
        Ok(Signals(fd))
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
