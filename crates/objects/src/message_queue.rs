//! POSIX message queues, `mq_overview(7)`.

use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_linux_abi::ipc::IpcPerm;
use belljar_netstack::readiness::{EPOLLIN, EPOLLOUT};

/// `NOTIFY_COOKIE_LEN`.
pub const COOKIE_LEN: usize = 32;
/// Last byte of a cookie after a message arrived, `NOTIFY_WOKENUP`.
pub const WOKEN: u8 = 1;
/// Last byte of a cookie after the registration was removed, `NOTIFY_REMOVED`.
pub const REMOVED: u8 = 2;

/// A message queue.
#[derive(Debug)]
pub struct MessageQueue {
    /// Name without the slash; `None` once unlinked.
    pub name: Option<Vec<u8>>,
    /// Number of open files.
    pub opens: u32,
    /// Owner, group and mode, as of a file.
    pub perm: IpcPerm,
    /// Maximum number of messages, and maximum size of each in bytes.
    pub limits: (usize, usize),
    /// Priority and text, by decreasing priority, the oldest first within a priority.
    messages: Vec<(u32, Vec<u8>)>,
    /// Wait queue, notified after every change.
    pub queue: WaitQueueId,
    /// Process to notify when a message arrives at the empty queue, and the method.
    pub notify: Option<(ProcessKey, Notice)>,
}

/// Notification method of `mq_notify(3)`.
#[derive(Clone, Copy, Debug)]
pub enum Notice {
    /// `SIGEV_NONE`: registration without a notification.
    None,
    /// `SIGEV_SIGNAL`: signal number and value.
    Signal(i32, u64),
    /// `SIGEV_THREAD`: the netlink socket that a thread of the C library reads, on which a reference is held,
    /// and the cookie to send.
    Cookie(FileKey, [u8; COOKIE_LEN]),
}

impl MessageQueue {
    /// An empty queue that is not open.
    pub fn new(queue: WaitQueueId, name: Vec<u8>, limits: (usize, usize), perm: IpcPerm) -> MessageQueue {
        let (name, messages) = (Some(name), Vec::new());
        MessageQueue { name, opens: 0, perm, limits, messages, queue, notify: None }
    }
    /// True if the queue has no name and is not open, and so is to be destroyed.
    pub fn is_unused(&self) -> bool {
        self.opens == 0 && self.name.is_none()
    }
    /// Readiness as poll events.
    pub fn readiness(&self) -> u32 {
        let readable = if self.messages.is_empty() { 0 } else { EPOLLIN };
        let writable = if self.messages.len() < self.limits.0 { EPOLLOUT } else { 0 };
        readable | writable
    }
    /// Number of queued messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }
    /// True without messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
    /// Adds a message; false if the queue is full. `EMSGSIZE` if the text is too long.
    pub fn push(&mut self, priority: u32, text: &[u8]) -> Result<bool, Errno> {
        if text.len() > self.limits.1 {
            return Err(Errno::EMSGSIZE);
        }
        if self.messages.len() >= self.limits.0 {
            return Ok(false);
        }
        let at = self.messages.partition_point(|(other, _)| *other >= priority);
        self.messages.insert(at, (priority, text.to_vec()));
        Ok(true)
    }
    /// Removes the oldest message of the highest priority; `None` if there is none. `EMSGSIZE` if `room` is
    /// less than the maximum message size.
    pub fn pop(&mut self, room: u64) -> Result<Option<(u32, Vec<u8>)>, Errno> {
        if room < self.limits.1 as u64 {
            return Err(Errno::EMSGSIZE);
        }
        Ok(if self.messages.is_empty() { None } else { Some(self.messages.remove(0)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_leave_by_priority_and_then_by_age() {
        let mut queue = MessageQueue::new(WaitQueueId::default(), b"q".to_vec(), (3, 8), IpcPerm::default());
        assert_eq!(queue.push(0, b"too long!"), Err(Errno::EMSGSIZE));
        for (priority, text) in [(1, b"a"), (5, b"b"), (1, b"c")] {
            assert_eq!(queue.push(priority, text), Ok(true));
        }
        assert_eq!((queue.push(9, b"d"), queue.readiness()), (Ok(false), EPOLLIN));
        assert_eq!(queue.pop(7), Err(Errno::EMSGSIZE));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(8).expect("room")).collect();
        assert_eq!(order, [(5, b"b".to_vec()), (1, b"a".to_vec()), (1, b"c".to_vec())]);
        assert_eq!(queue.readiness(), EPOLLOUT);
    }
}
