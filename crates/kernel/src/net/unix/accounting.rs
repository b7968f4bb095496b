//! What messages that lie unread are charged to their senders.

use super::{Message, PeerRef, ROOM, Role};
use crate::host::Host;
use crate::ids::SocketKey;

/// `sizeof(struct sk_buff)` as allocated.
const BUFFER_HEAD: usize = 256;
/// `sizeof(struct skb_shared_info)`.
const SHARED_INFO: usize = 320;
/// What the linear part of a buffer of one page holds (`SKB_MAX_HEAD(0)`).
const LINEAR_MAX: usize = PAGE - SHARED_INFO;
const PAGE: usize = 4_096;
/// What the pages of one piece of a stream hold (`UNIX_SKB_FRAGS_SZ`).
const FRAGMENTS_MAX: usize = 32_768;
/// `net.unix.max_dgram_qlen` where systemd runs: messages that may wait in a datagram socket.
const INBOX_MAX: usize = 512;

/// What Linux charges for a message of `len` bytes (`skb->truesize`).
pub(super) fn charge(len: usize) -> usize {
    let paged = if len > LINEAR_MAX { (len - LINEAR_MAX).div_ceil(PAGE) * PAGE } else { 0 };
    let linear = len - paged.min(len);
    BUFFER_HEAD + (linear.next_multiple_of(64) + SHARED_INFO).next_power_of_two() + paged
}

/// The most that one piece of a stream takes of a socket with this `SO_SNDBUF`.
pub(super) fn piece_max(send_buffer: usize) -> usize {
    (send_buffer / 2 - 64).min(LINEAR_MAX + FRAGMENTS_MAX)
}

impl Host {
    /// Whether a socket is polled as writable: no more than a quarter of its send buffer is in use.
    pub(super) fn unix_has_room(&self, key: SocketKey) -> bool {
        self.unix(key).charged * 4 <= self.net.sockets[key.0].options.send_buffer as usize
    }
    /// Whether a send must wait for earlier messages to be read.
    pub(super) fn unix_send_buffer_full(&self, key: SocketKey) -> bool {
        self.unix(key).charged >= self.net.sockets[key.0].options.send_buffer as usize
    }
    /// Takes back what a message was charged; its sender may have room now.
    pub(super) fn settle(&mut self, message: &Message) {
        let Some(sender) = self.unix_alive(message.sender) else { return };
        let socket = self.unix_mut(sender);
        socket.charged -= message.charge.min(socket.charged);
        if self.unix_has_room(sender) {
            self.notify_socket(sender, ROOM);
        }
    }

    /// Whether a receiver takes no more for now (`unix_recvq_full`).
    pub(super) fn unix_inbox_full(&self, key: SocketKey) -> bool {
        match &self.unix(key).role {
            Role::Listening { backlog, waiting } => waiting.len() > *backlog,
            _ => self.unix(key).inbox.len() > INBOX_MAX,
        }
    }
    /// Whether a datagram socket's peer takes no more. Two sockets connected to each other are
    /// limited by their send buffers alone.
    pub(super) fn unix_peer_full(&self, key: SocketKey) -> bool {
        self.unix_peer(key).is_some_and(|peer| {
            self.unix(peer).peer != Some(self.unix_ref(key)) && self.unix_inbox_full(peer)
        })
    }
    /// Tells the sockets that have a receiver as their peer that it has room, or is gone.
    pub(super) fn wake_senders(&mut self, senders: &[PeerRef]) {
        for sender in senders {
            if let Some(key) = self.unix_alive(*sender) {
                self.notify_socket(key, ROOM);
            }
        }
    }
    /// Messages were taken from an inbox that was full if `was_full`: whoever waits to send there
    /// may.
    pub(super) fn inbox_drained(&mut self, key: SocketKey, was_full: bool) {
        if was_full && !self.unix_inbox_full(key) {
            let senders = self.unix(key).connected_from.clone();
            self.wake_senders(&senders);
            self.notify_socket(key, ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_of_linux() {
        // A byte and its shared info fill a kmalloc-512, next to the head.
        assert_eq!(charge(1), 768);
        assert_eq!(charge(192), 768);
        assert_eq!(charge(193), 1_280);
        assert_eq!(charge(3_776), 4_096 + 256);
        assert_eq!(charge(4_096), 256 + 512 + 4_096);
    }
}
