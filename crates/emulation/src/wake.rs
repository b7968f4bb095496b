//! Wakeup of a thread that sleeps until stopped clocks continue.

use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Waker of one thread. Clones share their state.
#[derive(Clone, Debug)]
pub struct Waker {
    /// True if [`wake`](Waker::wake) was called since the flag was last taken.
    told: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

/// Event by which a sleeping thread is woken.
#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    /// True if the event is already signalled.
    rings: AtomicBool,
}

impl Waker {
    /// Creates a waker that has not been called.
    pub fn new() -> std::io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let bell = Arc::new(Bell { fd, rings: AtomicBool::new(false) });
        Ok(Waker { told: Arc::default(), bell })
    }

    /// Returns another waker of the same thread, whose calls are distinguished from those of this one.
    pub fn beside(&self) -> Waker {
        Waker { told: Arc::default(), bell: self.bell.clone() }
    }

    /// Descriptor that becomes readable by [`wake`](Self::wake), of this waker or one
    /// [beside](Self::beside) it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }

    /// Ends the current sleep of the thread, or the next one.
    pub fn wake(&self) {
        self.told.store(true, SeqCst);
        if !self.bell.rings.swap(true, SeqCst) {
            // A saturated counter is readable as well.
            let _ = rustix::io::write(&self.bell.fd, &1u64.to_ne_bytes());
        }
    }

    /// Resets the event. The thread must then query [`take_told`](Self::take_told) of its wakers.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.bell.fd, &mut [0u8; 8]);
        self.bell.rings.store(false, SeqCst);
    }

    /// True if [`wake`](Self::wake) was called since the last query.
    pub fn take_told(&self) -> bool {
        self.told.swap(false, SeqCst)
    }
}

/// Converts a timeout for `poll`.
pub(crate) fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn rings(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(&waker.bell.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn those_beside_ring_one_bell_and_know_who_was_told() {
        let first = Waker::new().unwrap();
        let (second, copy) = (first.beside(), first.clone());
        assert!(!rings(&first));
        second.wake();
        second.wake();
        assert!(rings(&first));
        first.clear();
        assert!(!rings(&first) && !first.take_told() && second.take_told() && !second.take_told());
        copy.wake();
        assert!(rings(&second) && first.take_told());
    }
}
