//! `MSG_ZEROCOPY`: who sends is told when the memory that was sent is free again (`SO_EE_ORIGIN_ZEROCOPY`).
//!
//! Nothing is sent from the program's own memory here, so it always is free. What is imitated is when Linux says so:
//! bytes of TCP when the peer has acknowledged them, a datagram when it has left its interface, and on `lo`, where Linux
//! makes a copy, as soon as the datagram has been sent.

use super::error_queue::ErrorQueue;
use super::interface::Attachment;
use super::ip::route::Through;
use super::socket::{Socket, SocketKind};
use crate::SocketKey;
use crate::Stack;
use crate::readiness::EPOLLERR;
use belljar_linux_abi::{Errno, c};
use belljar_tcp::State;
use std::collections::VecDeque;

/// `net.core.optmem_max`: what the reports of one socket may take, in bytes.
const OPTION_MEMORY: usize = 131_072;
/// Charge of a report on Linux (`skb->truesize`), and the charge that Linux expects when it asks whether there is room
/// (`SKB_TRUESIZE(0)`), in bytes.
const REPORT: usize = 832;
const REPORT_EXPECTED: usize = 576;
/// The most bytes that sends of one report can be of, but for the first, and the most sends.
const MAX_BYTES: usize = 1 << 19;
const MAX_SENDS: u32 = 65_534;

/// A range of consecutive sends of one socket that are complete (`SO_EE_ORIGIN_ZEROCOPY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedSends {
    /// The number of the first one.
    pub first: u32,
    /// The number of the last one.
    pub last: u32,
    /// Linux had to copy what was sent.
    pub copied: bool,
}

impl CompletedSends {
    /// Takes others in that follow these; false if they do not.
    pub fn extend(&mut self, others: &CompletedSends) -> bool {
        let follows = others.first == self.last.wrapping_add(1) && others.last != self.first.wrapping_sub(1);
        if follows {
            self.last = others.last;
        }
        follows
    }
}

/// Sends that are still to be told of.
#[derive(Debug)]
struct Sending {
    first: u32,
    count: u32,
    bytes: usize,
    copied: bool,
    /// The end of the last one's bytes in the stream, or how many packets had been given to the interface.
    until: u64,
}

/// A socket's sends with `MSG_ZEROCOPY`.
#[derive(Debug, Default)]
pub struct ZeroCopy {
    /// The number of the next one.
    next: u32,
    /// Number of the last ones that belong to a datagram being made.
    held: u32,
    sending: VecDeque<Sending>,
}

impl ZeroCopy {
    fn sent(&mut self, count: u32, bytes: usize, copied: bool, until: u64) {
        let first = self.next.wrapping_sub(count);
        self.sending.push_back(Sending { first, count, bytes, copied, until });
    }
}

/// The error queue of a socket of UDP or TCP.
fn reports(kind: &mut SocketKind) -> Option<&mut ErrorQueue> {
    match kind {
        SocketKind::Udp(udp) => Some(&mut udp.errors),
        SocketKind::Tcp(tcp) => Some(&mut tcp.errors),
        _ => None,
    }
}

/// `SO_ZEROCOPY`: TCP and UDP have it; 0 and 1 are its values.
pub fn check_option(socket: &Socket, number: i32) -> Result<(), Errno> {
    let has_it = matches!(socket.kind, SocketKind::Tcp(_)) || socket.protocol == c::IPPROTO_UDP;
    match (has_it && matches!(socket.domain, c::AF_INET | c::AF_INET6), number) {
        (false, _) => Err(Errno::EOPNOTSUPP),
        (true, 0 | 1) => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

impl Stack {
    /// True if a send is to be told of: `ENOBUFS` if too much is to be told already.
    pub fn zero_copies(&mut self, key: SocketKey, flags: i32) -> Result<bool, Errno> {
        let socket = self.socket(key);
        if flags & c::MSG_ZEROCOPY == 0 || !socket.options.is_kept(c::SO_ZEROCOPY) {
            return Ok(false);
        }
        let told = reports(&mut socket.kind).map_or(0, |reports| reports.told());
        let sending = socket.zero_copy.get_or_insert_default().sending.len();
        if (told + sending) * REPORT + REPORT_EXPECTED > OPTION_MEMORY {
            return Err(Errno::ENOBUFS);
        }
        Ok(true)
    }

    /// A send becomes part of a datagram.
    #[cold]
    pub fn zero_copy_begins(&mut self, key: SocketKey) {
        let state = self.socket(key).zero_copy.get_or_insert_default();
        (state.next, state.held) = (state.next.wrapping_add(1), state.held + 1);
    }

    /// True if a datagram has parts that are to be told of.
    pub fn zero_copy_holds(&mut self, key: SocketKey) -> bool {
        self.socket(key).zero_copy.as_ref().is_some_and(|state| state.held > 0)
    }

    /// A datagram has been sent, as one that is `copied` or not, or has failed: then its only part has no number.
    #[cold]
    pub fn zero_copy_ends(&mut self, key: SocketKey, copied: bool, failed: bool) {
        let until = self.udp(key).packets_given;
        let Some(state) = &mut self.socket(key).zero_copy else { return };
        match std::mem::take(&mut state.held) {
            0 => {}
            1 if failed => state.next = state.next.wrapping_sub(1),
            held => {
                state.sent(held, 0, copied, if copied { 0 } else { until });
                self.zero_copy_settle(key);
            }
        }
    }

    /// Bytes of a send have gone into a connection; `before` are the end of its stream then and how much of that had not
    /// been sent.
    pub fn zero_copy_written(&mut self, key: SocketKey, len: usize, first: bool, before: (u64, usize)) {
        let socket = &self.sockets[key.0];
        let through = Through::of(socket, socket.options.bound_device);
        let Some(connection) = self.tcp(key).connection() else { return };
        let (until, local, remote) =
            (connection.written_until(), connection.local().ip(), connection.remote().ip());
        let route = self.route(remote, Some(local), through);
        let copied = route.is_ok_and(|route| self.zero_copy_is_copied(route.interface));
        let Some(state) = &mut self.socket(key).zero_copy else { return };
        let newest = state.sending.back_mut();
        match newest {
            Some(newest) if !first => newest.until = until,
            // As part of what waits to be sent (`msg_zerocopy_realloc`).
            Some(newest)
                if before.1 > 0
                    && newest.until == before.0
                    && newest.bytes + len <= MAX_BYTES
                    && newest.count < MAX_SENDS =>
            {
                state.next = state.next.wrapping_add(1);
                (newest.count, newest.bytes, newest.until) = (newest.count + 1, newest.bytes + len, until);
            }
            _ if first => {
                state.next = state.next.wrapping_add(1);
                state.sent(1, len, copied, until);
            }
            _ => {}
        }
        self.zero_copy_settle(key);
    }

    /// True if Linux copies what leaves by an interface: to the host itself, and to programs.
    pub fn zero_copy_is_copied(&self, interface: usize) -> bool {
        !matches!(self.interfaces[interface].attachment, Attachment::Graph | Attachment::Link(_))
    }

    /// Tells of sends whose bytes have been acknowledged, or whose packets have left.
    pub fn zero_copy_settle(&mut self, key: SocketKey) {
        let socket = self.socket(key);
        let Some(state) = &mut socket.zero_copy else { return };
        let reached = match &mut socket.kind {
            SocketKind::Udp(udp) => udp.packets_left,
            SocketKind::Tcp(tcp) => match tcp.connection() {
                Some(connection) if connection.state() != State::Closed => connection.acknowledged_until(),
                _ => u64::MAX,
            },
            _ => return,
        };
        let mut told = false;
        let done = state.sending.iter().take_while(|oldest| oldest.until <= reached).count();
        for oldest in state.sending.drain(..done) {
            let last = oldest.first.wrapping_add(oldest.count - 1);
            if let Some(reports) = reports(&mut socket.kind) {
                reports.tell(CompletedSends { first: oldest.first, last, copied: oldest.copied });
                told = true;
            }
        }
        if told {
            self.effects.notify_socket(key, EPOLLERR);
        }
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
