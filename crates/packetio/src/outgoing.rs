//! Transmit queue of a socket; many frames are sent in one system call.

use crate::Counters;
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Queue capacity in frames: one system call.
const BATCH: usize = 64;

/// Frames queued for [`Outgoing::flush`], each after a prefix of zeros.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// [`BATCH`] slots of equal size; each starts with the prefix.
    slots: Vec<u8>,
    /// Used bytes of each slot.
    lens: [usize; BATCH],
    slot_len: usize,
    prefix: usize,
    /// Index of the first unsent frame.
    head: usize,
    tail: usize,
}

impl Outgoing {
    /// Creates a queue for frames of up to `max_frame` bytes; longer frames enlarge the slots.
    pub fn new(prefix: usize, max_frame: usize) -> Outgoing {
        let slot_len = (prefix + max_frame).next_multiple_of(64);
        Outgoing { slots: vec![0; slot_len * BATCH], lens: [0; BATCH], slot_len, prefix, head: 0, tail: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.tail == BATCH
    }

    /// Number of frames that wait for [`flush`](Self::flush).
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Queues a frame.
    ///
    /// # Panics
    /// If the queue is full.
    pub fn push(&mut self, frame: &[u8]) {
        let len = self.prefix + frame.len();
        if len > self.slot_len {
            self.grow(len);
        }
        let start = self.tail * self.slot_len;
        self.slots[start + self.prefix..start + len].copy_from_slice(frame);
        self.lens[self.tail] = len;
        self.tail += 1;
    }

    /// Sends queued frames. Returns true if the queue is empty afterwards.
    ///
    /// A frame that the kernel rejects is counted and skipped. An error that affects every frame empties the
    /// queue.
    pub fn flush(&mut self, fd: BorrowedFd<'_>, counters: &mut Counters) -> Result<bool> {
        while self.head < self.tail {
            match self.send(fd) {
                Ok(sent) => {
                    for len in &self.lens[self.head..self.head + sent] {
                        counters.sent.add(len - self.prefix);
                    }
                    self.head += sent;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => return Ok(false),
                    Some(libc::ENOBUFS | libc::EMSGSIZE | libc::EINVAL) => {
                        counters.failed += 1;
                        self.head += 1;
                    }
                    _ => {
                        counters.failed += (self.tail - self.head) as u64;
                        counters.failed_down += (self.tail - self.head) as u64;
                        (self.head, self.tail) = (0, 0);
                        return Err(e);
                    }
                },
            }
        }
        (self.head, self.tail) = (0, 0);
        Ok(true)
    }

    /// Passes frames from the head to the kernel. Returns their number, at least one.
    fn send(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        let n = self.tail - self.head;
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        for i in 0..n {
            let at = (self.head + i) * self.slot_len;
            let slot = &mut self.slots[at..at + self.lens[self.head + i]];
            let part =
                parts[i].write(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
            let message = messages[i].write(
                // SAFETY: zero bytes are a message without name, parts and control data.
                unsafe { MaybeUninit::zeroed().assume_init() },
            );
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the first n messages are initialised and point to slots that live through the call; the kernel
        // writes to the messages only.
        let sent =
            unsafe { libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr().cast(), n as u32, flags as _) };
        if sent < 0 { Err(Error::last_os_error()) } else { Ok(sent as usize) }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let slot_len = len.next_multiple_of(64);
        let mut slots = vec![0; slot_len * BATCH];
        for i in self.head..self.tail {
            let from = i * self.slot_len;
            slots[i * slot_len..][..self.lens[i]].copy_from_slice(&self.slots[from..from + self.lens[i]]);
        }
        (self.slots, self.slot_len) = (slots, slot_len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn frames_keep_order_prefix_and_count_over_growth() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let mut queue = Outgoing::new(10, 20);
        let mut counters = Counters::default();
        for len in [14usize, 20, 200, 14] {
            queue.push(&vec![len as u8; len]);
        }
        assert!(queue.flush(here.as_fd(), &mut counters).unwrap());
        let mut buffer = [0xff; 300];
        for len in [14usize, 20, 200, 14] {
            assert_eq!(there.recv(&mut buffer).unwrap(), len + 10);
            assert_eq!(buffer[..10], [0; 10]);
            assert_eq!(buffer[10..len + 10], vec![len as u8; len]);
        }
        assert_eq!((counters.sent.frames, counters.sent.bytes), (4, 248));
    }

    #[test]
    fn a_full_receiver_leaves_the_rest_queued() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let mut queue = Outgoing::new(0, 8192);
        let mut counters = Counters::default();
        let mut pushed = 0u32;
        let left = loop {
            while !queue.is_full() {
                let mut frame = vec![0; 8192];
                frame[..4].copy_from_slice(&pushed.to_be_bytes());
                queue.push(&frame);
                pushed += 1;
            }
            if !queue.flush(here.as_fd(), &mut counters).unwrap() {
                break pushed - counters.sent.frames as u32;
            }
        };
        assert!(left > 0 && queue.is_full());
        there.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 8192];
        for expected in 0..pushed {
            while there.recv(&mut buffer).is_err() {
                queue.flush(here.as_fd(), &mut counters).unwrap();
            }
            assert_eq!(buffer[..4], expected.to_be_bytes());
        }
        assert_eq!(counters.sent.frames, u64::from(pushed));
        assert!(!queue.is_full());
    }

    #[test]
    fn a_lost_peer_empties_the_queue() {
        let (here, there) = UnixDatagram::pair().unwrap();
        drop(there);
        let mut queue = Outgoing::new(0, 100);
        let mut counters = Counters::default();
        queue.push(&[0; 14]);
        queue.push(&[0; 14]);
        assert!(queue.flush(here.as_fd(), &mut counters).is_err());
        assert_eq!((counters.failed, counters.sent.frames), (2, 0));
        assert!(queue.flush(here.as_fd(), &mut counters).unwrap());
    }
}
