//! An end to the sleep of a thread that waits for a clock which stands.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Ends sleeps of one thread. All copies are one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// One that has not been told anything.
    pub fn new() -> std::io::Result<Waker> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Becomes readable by [`wake`](Self::wake).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Ends the present sleep, or the next one.
    pub fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets what it was told.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}
