//! An end to the sleep of a thread that waits for clocks which stand.

use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Ends sleeps of one thread. All copies are one.
#[derive(Clone, Debug)]
pub struct Waker {
    /// It was told since it was last asked.
    told: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

/// The event by which a sleeping thread is woken.
#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    /// It rings already.
    rings: AtomicBool,
}

impl Waker {
    /// One that has not been told anything.
    pub fn new() -> std::io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let bell = Arc::new(Bell { fd, rings: AtomicBool::new(false) });
        Ok(Waker { told: Arc::default(), bell })
    }

    /// Another one that ends sleeps of the same thread, and is told apart from this one.
    pub fn beside(&self) -> Waker {
        Waker { told: Arc::default(), bell: self.bell.clone() }
    }

    /// Becomes readable by [`wake`](Self::wake), also by that of those beside.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }

    /// Ends the present sleep, or the next one.
    pub fn wake(&self) {
        self.told.store(true, SeqCst);
        if !self.bell.rings.swap(true, SeqCst) {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.bell.fd, &1u64.to_ne_bytes());
        }
    }

    /// Lets the thread sleep again. It has to ask then what was [`told`](Self::take_told).
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.bell.fd, &mut [0u8; 8]);
        self.bell.rings.store(false, SeqCst);
    }

    /// True if it was told something since the last call.
    pub fn take_told(&self) -> bool {
        self.told.swap(false, SeqCst)
    }
}

/// A time to wait, as `poll` takes it.
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
