//! Event counters, eventfd(2).

use crate::ids::WaitQueueId;
use belljar_netstack::readiness::{EPOLLERR, EPOLLIN, EPOLLOUT};

/// An event counter.
#[derive(Debug)]
pub struct EventFd {
    /// Wait queue, notified when the counter changes.
    pub queue: WaitQueueId,
    count: u64,
    semaphore: bool,
}

impl EventFd {
    /// Creates a counter with the initial value `count`.
    pub fn new(queue: WaitQueueId, count: u64, semaphore: bool) -> EventFd {
        EventFd { queue, count, semaphore }
    }
    /// Readiness mask, `EPOLL*`.
    pub fn readiness(&self) -> u32 {
        let mut events = 0;
        if self.count > 0 {
            events |= EPOLLIN;
        }
        if self.count == u64::MAX {
            events |= EPOLLERR;
        }
        if self.count < u64::MAX - 1 {
            events |= EPOLLOUT;
        }
        events
    }
    /// Reads the counter: takes its value, or 1 in semaphore mode; `None` if it is 0.
    pub fn take(&mut self) -> Option<u64> {
        let taken = if self.semaphore { self.count.min(1) } else { self.count };
        self.count -= taken;
        (taken > 0).then_some(taken)
    }
    /// Adds 1 from within the kernel, which cannot block; the counter may reach `u64::MAX`.
    pub fn signal(&mut self) {
        self.count = self.count.saturating_add(1);
    }
    /// Adds to the counter; false if the sum would exceed `u64::MAX - 1`.
    pub fn add(&mut self, value: u64) -> bool {
        match self.count.checked_add(value) {
            Some(sum) if sum < u64::MAX => {
                self.count = sum;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_to_the_last_value_but_one() {
        let mut e = EventFd { queue: WaitQueueId::default(), count: 0, semaphore: false };
        assert_eq!((e.readiness(), e.take()), (EPOLLOUT, None));
        assert!(e.add(u64::MAX - 1) && !e.add(1));
        assert_eq!(e.readiness(), EPOLLIN);
        e.signal();
        e.signal();
        assert_eq!(e.readiness(), EPOLLIN | EPOLLERR);
        assert_eq!(e.take(), Some(u64::MAX));
    }

    #[test]
    fn a_semaphore_gives_one_at_a_time() {
        let mut e = EventFd { queue: WaitQueueId::default(), count: 2, semaphore: true };
        assert_eq!([e.take(), e.take(), e.take()], [Some(1), Some(1), None]);
    }
}
