//! Charges of unread messages to their senders.

use super::ROOM;
use crate::net::own::OwnSockets;
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::unix_sockets::{PeerRef, UnixMessage};

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
    pub(super) fn settle(&mut self, net: &mut Stack, message: &UnixMessage) {
        let Some(sender) = message.sender.alive(net) else { return };
        let socket = self.unix_mut(sender);
        socket.charged -= message.charge.min(socket.charged);
        if self.unix_has_room(net, sender) {
            net.effects.notify_socket(sender, ROOM);
        }
    }

    /// True if a receiver's queue is full (`unix_recvq_full`).
    pub(super) fn unix_inbox_full(&self, key: SocketKey) -> bool {
        self.unix(key).is_full()
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
