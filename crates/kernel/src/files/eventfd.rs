//! Event counters, eventfd(2).

use super::FileKind;
use super::readiness::{EPOLLERR, EPOLLIN, EPOLLOUT};
use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, WaitQueueId};
use crate::outcome::{Block, SysResult, done};
use belljar_linux_abi::{Errno, c};

/// An event counter.
#[derive(Debug)]
pub struct EventFd {
    /// Notified when the count changes.
    pub queue: WaitQueueId,
    count: u64,
    semaphore: bool,
}

impl EventFd {
    /// Its readiness.
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
    /// Takes the count, or 1 of it as a semaphore; `None` if it is 0.
    fn take(&mut self) -> Option<u64> {
        let taken = if self.semaphore { self.count.min(1) } else { self.count };
        self.count -= taken;
        (taken > 0).then_some(taken)
    }
    /// Adds to the count; false if that would go beyond `u64::MAX - 1`.
    pub(crate) fn add(&mut self, value: u64) -> bool {
        match self.count.checked_add(value) {
            Some(sum) if sum < u64::MAX => {
                self.count = sum;
                true
            }
            _ => false,
        }
    }
}

impl Host {
    /// A new counter as an open file.
    pub(crate) fn create_eventfd(&mut self, count: u64, semaphore: bool, flags: i32) -> FileKey {
        let queue = self.waits.create();
        let n = self.files.eventfds.insert(EventFd { queue, count, semaphore });
        self.files.open_file(FileKind::EventFd(n), c::O_RDWR | flags)
    }
}

impl Host {
    /// Adds one from within the kernel (`eventfd_signal`).
    pub(crate) fn signal_eventfd(&mut self, file: FileKey) {
        let FileKind::EventFd(n) = self.files.open(file).kind else { return };
        let event = &mut self.files.eventfds[n];
        event.add(1);
        let queue = event.queue;
        self.notify_events(queue, EPOLLIN);
    }
}

impl Call<'_> {
    /// `read(2)`: eight bytes. `EINVAL` if there is no room for them.
    pub(crate) fn read_eventfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) < 8 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let event = &mut self.host.files.eventfds[n];
        let queue = event.queue;
        let Some(value) = event.take() else {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        };
        self.host.notify_events(queue, EPOLLOUT);
        self.scatter(buffers, &value.to_le_bytes())?;
        done(8)
    }
    /// `write(2)`: adds the value of exactly eight bytes, and waits while the sum would not fit.
    pub(crate) fn write_eventfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) != 8 {
            return Err(Errno::EINVAL);
        }
        let bytes = self.gather(buffers, 0, 8)?;
        let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let event = &mut self.host.files.eventfds[n];
        let queue = event.queue;
        if !event.add(value) {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        }
        self.host.notify_events(queue, EPOLLIN);
        done(8)
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
        assert_eq!(e.take(), Some(u64::MAX - 1));
    }

    #[test]
    fn a_semaphore_gives_one_at_a_time() {
        let mut e = EventFd { queue: WaitQueueId::default(), count: 2, semaphore: true };
        assert_eq!([e.take(), e.take(), e.take()], [Some(1), Some(1), None]);
    }
}
