//! `MSG_ZEROCOPY`: notifications to senders that the memory of a send may be reused
//! (`SO_EE_ORIGIN_ZEROCOPY`).
//!
//! Sends here always copy the program's memory, so it may be reused at once. The notifications imitate the
//! times of Linux: when the peer has acknowledged the bytes (TCP), when the datagram has left its interface
//! (UDP), and on `lo`, where Linux copies, when the datagram has been sent.

use super::error_queue::ErrorQueue;
use super::socket::{Socket, SocketKind};
use belljar_linux_abi::{Errno, c};
use belljar_tcp::State;
use std::collections::VecDeque;

/// `net.core.optmem_max`: upper bound of the charge of a socket's notifications, in bytes.
const OPTION_MEMORY: usize = 131_072;
/// Charge of a notification on Linux (`skb->truesize`), and the charge assumed by Linux's check for space
/// (`SKB_TRUESIZE(0)`), in bytes.
const REPORT: usize = 832;
const REPORT_EXPECTED: usize = 576;
/// Bounds of the bytes, except for those of the first send, and of the sends covered by one notification.
const MAX_BYTES: usize = 1 << 19;
const MAX_SENDS: u32 = 65_534;

/// Range of consecutive completed sends of one socket (`SO_EE_ORIGIN_ZEROCOPY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedSends {
    /// Number of the first send.
    pub first: u32,
    /// Number of the last send.
    pub last: u32,
    /// True if Linux would have copied the data.
    pub copied: bool,
}

impl CompletedSends {
    /// Extends the range by a contiguous one. Returns false if `others` is not contiguous.
    pub fn extend(&mut self, others: &CompletedSends) -> bool {
        let follows = others.first == self.last.wrapping_add(1) && others.last != self.first.wrapping_sub(1);
        if follows {
            self.last = others.last;
        }
        follows
    }
}

/// Sends whose completion is not yet reported.
#[derive(Debug)]
struct Sending {
    first: u32,
    count: u32,
    bytes: usize,
    copied: bool,
    /// Position in the stream of the end of the last send, or for UDP the number of packets passed to the
    /// interface.
    until: u64,
}

/// State of a socket's `MSG_ZEROCOPY` sends.
#[derive(Debug, Default)]
pub struct ZeroCopy {
    /// Number of the next send.
    next: u32,
    /// Number of sends in the datagram being assembled.
    held: u32,
    sending: VecDeque<Sending>,
}

impl ZeroCopy {
    fn sent(&mut self, count: u32, bytes: usize, copied: bool, until: u64) {
        let first = self.next.wrapping_sub(count);
        self.sending.push_back(Sending { first, count, bytes, copied, until });
    }
}

/// The error queue of a UDP or TCP socket.
fn reports(kind: &mut SocketKind) -> Option<&mut ErrorQueue> {
    match kind {
        SocketKind::Udp(udp) => Some(&mut udp.errors),
        SocketKind::Tcp(tcp) => Some(&mut tcp.errors),
        _ => None,
    }
}

/// Validates `SO_ZEROCOPY`: supported by TCP and UDP, with the values 0 and 1.
pub fn check_option(socket: &Socket, number: i32) -> Result<(), Errno> {
    let has_it = matches!(socket.kind, SocketKind::Tcp(_)) || socket.protocol == c::IPPROTO_UDP;
    match (has_it && matches!(socket.domain, c::AF_INET | c::AF_INET6), number) {
        (false, _) => Err(Errno::EOPNOTSUPP),
        (true, 0 | 1) => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

impl ZeroCopy {
    /// Records that `len` bytes of a send were written to a connection, whose stream now ends at `until`.
    /// `before` holds its end before the write, and the number of its unsent bytes.
    pub fn written(&mut self, len: usize, first: bool, before: (u64, usize), (until, copied): (u64, bool)) {
        match self.sending.back_mut() {
            Some(newest) if !first => newest.until = until,
            // Appended to the pending notification (`msg_zerocopy_realloc`).
            Some(newest)
                if before.1 > 0
                    && newest.until == before.0
                    && newest.bytes + len <= MAX_BYTES
                    && newest.count < MAX_SENDS =>
            {
                self.next = self.next.wrapping_add(1);
                (newest.count, newest.bytes, newest.until) = (newest.count + 1, newest.bytes + len, until);
            }
            _ if first => {
                self.next = self.next.wrapping_add(1);
                self.sent(1, len, copied, until);
            }
            _ => {}
        }
    }
}

impl Socket {
    /// True if the completion of a send is to be reported. Fails with `ENOBUFS` if too many reports are
    /// outstanding.
    pub fn zero_copies(&mut self, flags: i32) -> Result<bool, Errno> {
        if flags & c::MSG_ZEROCOPY == 0 || !self.options.is_kept(c::SO_ZEROCOPY) {
            return Ok(false);
        }
        let told = reports(&mut self.kind).map_or(0, |reports| reports.told());
        let sending = self.zero_copy.get_or_insert_default().sending.len();
        if (told + sending) * REPORT + REPORT_EXPECTED > OPTION_MEMORY {
            return Err(Errno::ENOBUFS);
        }
        Ok(true)
    }

    /// Counts a send as part of the datagram being assembled.
    #[cold]
    pub fn zero_copy_begins(&mut self) {
        let state = self.zero_copy.get_or_insert_default();
        (state.next, state.held) = (state.next.wrapping_add(1), state.held + 1);
    }

    /// True if the datagram being assembled contains sends to be reported.
    #[inline]
    pub fn zero_copy_holds(&self) -> bool {
        self.zero_copy.as_ref().is_some_and(|state| state.held > 0)
    }

    /// Ends a datagram, `copied` or not. If it `failed`, a single send in it releases its number. True if sends
    /// may be complete: the caller then invokes [`Stack::zero_copy_settle`](crate::Stack::zero_copy_settle).
    #[cold]
    pub fn zero_copy_ends(&mut self, copied: bool, failed: bool) -> bool {
        let until = self.kind.sending().map_or(0, |sending| sending.given);
        let Some(state) = &mut self.zero_copy else { return false };
        match std::mem::take(&mut state.held) {
            0 => false,
            1 if failed => {
                state.next = state.next.wrapping_sub(1);
                false
            }
            held => {
                state.sent(held, 0, copied, if copied { 0 } else { until });
                true
            }
        }
    }

    /// Reports the sends whose bytes have been acknowledged, or whose packets have departed. True if there are
    /// any.
    pub fn zero_copy_settle(&mut self) -> bool {
        let Some(state) = &mut self.zero_copy else { return false };
        let reached = match &mut self.kind {
            SocketKind::Udp(udp) => udp.sending.left,
            SocketKind::Tcp(tcp) => match tcp.connection() {
                Some(connection) if connection.state() != State::Closed => connection.acknowledged_until(),
                _ => u64::MAX,
            },
            _ => return false,
        };
        let mut told = false;
        let done = state.sending.iter().take_while(|oldest| oldest.until <= reached).count();
        for oldest in state.sending.drain(..done) {
            let last = oldest.first.wrapping_add(oldest.count - 1);
            if let Some(reports) = reports(&mut self.kind) {
                reports.tell(CompletedSends { first: oldest.first, last, copied: oldest.copied });
                told = true;
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_are_told_together() {
        let mut told = CompletedSends { first: u32::MAX - 1, last: u32::MAX, copied: true };
        assert!(!told.extend(&CompletedSends { first: 1, last: 2, copied: true }));
        assert!(told.extend(&CompletedSends { first: 0, last: 2, copied: false }));
        assert_eq!(told, CompletedSends { first: u32::MAX - 1, last: 2, copied: true });
        assert!(!told.extend(&CompletedSends { first: 3, last: u32::MAX - 2, copied: true }));
    }
}
