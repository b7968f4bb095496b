//! Charges of unread messages to their senders.

use super::{Message, PeerRef, ROOM, Role};
use crate::net::own::OwnSockets;
use belljar_netstack::{SocketKey, Stack};

/// `sizeof(struct sk_buff)` as allocated.
const BUFFER_HEAD: usize = 256;
/// `sizeof(struct skb_shared_info)`.
const SHARED_INFO: usize = 320;
/// Bytes that a one-page buffer holds next to its shared info (`SKB_MAX_HEAD(0)`): the linear part of a
/// stream segment.
const STREAM_LINEAR: usize = PAGE - SHARED_INFO;
/// Bytes that a four-page buffer holds (`SKB_MAX_ALLOC`): the usual linear part of a message.
const MESSAGE_LINEAR: usize = 4 * PAGE - SHARED_INFO;
/// Maximum paged bytes of a stream segment (`UNIX_SKB_FRAGS_SZ`).
const STREAM_PAGED: usize = 32_768;
/// Maximum paged bytes of a message (`MAX_SKB_FRAGS`); the rest is linear.
const MESSAGE_PAGED: usize = 17 * PAGE;
const PAGE: usize = 4_096;
/// `net.unix.max_dgram_qlen` as set by systemd: maximum number of messages queued on a datagram socket.
const INBOX_MAX: usize = 512;

/// Linux's charge for a message of `len` bytes (`skb->truesize`), in bytes.
pub(super) fn charge(len: usize, stream: bool) -> usize {
    let (linear, most) = if stream { (STREAM_LINEAR, STREAM_PAGED) } else { (MESSAGE_LINEAR, MESSAGE_PAGED) };
    let paged = len.saturating_sub(linear).min(most).next_multiple_of(PAGE);
    let linear = len.saturating_sub(paged);
    BUFFER_HEAD + (linear.next_multiple_of(64) + SHARED_INFO).next_power_of_two() + paged
}

/// Maximum length in bytes of a stream segment for a socket with this `SO_SNDBUF`.
pub(super) fn piece_max(send_buffer: usize) -> usize {
    (send_buffer / 2 - 64).min(STREAM_LINEAR + STREAM_PAGED)
}

impl OwnSockets {
    /// True if a socket polls as writable: at most a quarter of its send buffer is in use.
    pub(super) fn unix_has_room(&self, net: &Stack, key: SocketKey) -> bool {
        self.unix(key).charged * 4 <= net.sockets[key.0].options.send_buffer as usize
    }
    /// True if a send has to wait until earlier messages are read.
    pub(super) fn unix_send_buffer_full(&self, net: &Stack, key: SocketKey) -> bool {
        self.unix(key).charged >= net.sockets[key.0].options.send_buffer as usize
    }
    /// Returns a message's charge to its sender, and notifies the sender if it has room.
    pub(super) fn settle(&mut self, net: &mut Stack, message: &Message) {
        let Some(sender) = message.sender.alive(net) else { return };
        let socket = self.unix_mut(sender);
        socket.charged -= message.charge.min(socket.charged);
        if self.unix_has_room(net, sender) {
            net.effects.notify_socket(sender, ROOM);
        }
    }

    /// True if a receiver's queue is full (`unix_recvq_full`).
    pub(super) fn unix_inbox_full(&self, key: SocketKey) -> bool {
        match &self.unix(key).role {
            Role::Listening { backlog, waiting } => waiting.len() > *backlog,
            _ => self.unix(key).inbox.len() > INBOX_MAX,
        }
    }
    /// True if the queue of a datagram socket's peer is full. Two sockets connected to each other are limited
    /// by their send buffers alone.
    pub(super) fn unix_peer_full(&self, net: &Stack, key: SocketKey) -> bool {
        self.unix_peer(net, key).is_some_and(|peer| {
            self.unix(peer).peer != Some(PeerRef::to(net, key)) && self.unix_inbox_full(peer)
        })
    }
    /// Notifies waiting senders after messages were taken from an inbox that was full if `was_full`.
    pub(super) fn inbox_drained(&mut self, net: &mut Stack, key: SocketKey, was_full: bool) {
        if was_full && !self.unix_inbox_full(key) {
            let senders = self.unix(key).connected_from.clone();
            wake_senders(net, &senders);
            net.effects.notify_socket(key, ROOM);
        }
    }
}

/// Notifies the sockets connected to a receiver that it has room or was closed.
pub(super) fn wake_senders(net: &mut Stack, senders: &[PeerRef]) {
    for sender in senders {
        if let Some(key) = sender.alive(net) {
            net.effects.notify_socket(key, ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_of_linux() {
        // Ratio of SIOCOUTQ to the number of sends until EAGAIN, measured on Linux 6.18.
        for (len, stream, message) in [
            (1, 768, 768),
            (192, 768, 768),
            (193, 1_280, 1_280),
            (1_000, 2_304, 2_304),
            (3_776, 4_352, 4_352),
            (3_777, 4_864, 8_448),
            (5_000, 6_400, 8_448),
            (8_192, 8_960, 16_640),
            (30_000, 30_976, 33_024),
            (36_544, 37_120, 37_120),
        ] {
            assert_eq!((charge(len, true), charge(len, false)), (stream, message), "{len} bytes");
        }
        assert_eq!(charge(65_536, false), 69_888);
        assert_eq!(charge(200_000, false), 200_960);
        assert_eq!(charge(212_960, false), 332_032);
    }
}
