//! Sockets of the families that are the host's own and not the stack's: packet, UNIX and netlink sockets. What all sockets
//! have is kept by the host's first stack, which is what `net` is here, under the same keys.

use super::unix::state::{UnixNames, UnixSocket};
use belljar_netstack::keyed::Keyed;
use belljar_netstack::socket::{Socket, SocketKind};
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::packet_fanout::Fanouts;
use belljar_objects::packet_sockets::PacketSocket;
use std::collections::VecDeque;

/// A socket's state by family.
#[derive(Debug)]
pub enum OwnKind {
    /// `AF_PACKET`: an interface.
    Packet(Box<PacketSocket>),
    /// `AF_UNIX`.
    Unix(Box<UnixSocket>),
    /// `AF_NETLINK`.
    Netlink(Box<NetlinkSocket>),
}

/// State of a netlink socket.
#[derive(Debug, Default)]
pub struct NetlinkSocket {
    /// Its port id; 0 before it is bound.
    pub port: u32,
    /// The multicast groups that it is in, a bit each (`RTMGRP_*`).
    pub groups: u32,
    /// `NETLINK_EXT_ACK`: refusals come with words.
    pub extended: bool,
    /// `NETLINK_CAP_ACK`: refusals come without the request.
    pub capped: bool,
    /// Datagrams from the kernel.
    pub queue: VecDeque<Vec<u8>>,
}

/// The sockets of these families.
#[derive(Debug, Default)]
pub struct OwnSockets {
    /// By their keys.
    kinds: Vec<Option<OwnKind>>,
    /// Packet sockets in the order in which they were made.
    pub(in crate::net) packets: Vec<SocketKey>,
    /// Groups of packet sockets that share what they hear.
    pub(in crate::net) fanouts: Fanouts,
    /// Names of UNIX sockets.
    pub(in crate::net) unix_names: UnixNames,
}

impl OwnSockets {
    /// The state of a socket, if it is of these families.
    #[inline]
    pub fn get(&self, key: SocketKey) -> Option<&OwnKind> {
        self.kinds.get(key.0)?.as_ref()
    }
    /// The same to change.
    #[inline]
    pub fn get_mut(&mut self, key: SocketKey) -> Option<&mut OwnKind> {
        self.kinds.get_mut(key.0)?.as_mut()
    }
    /// The packet part of a socket that is known to be one, and the groups of such sockets.
    pub(super) fn packet_and_groups(&mut self, key: SocketKey) -> (&mut PacketSocket, &mut Fanouts) {
        match &mut self.kinds[key.0] {
            Some(OwnKind::Packet(packet)) => (packet, &mut self.fanouts),
            other => unreachable!("not a packet socket: {other:?}"),
        }
    }
    /// True if a packet socket would not lose what it hears now.
    pub(super) fn packet_has_room(&self, net: &Keyed<Socket>, key: SocketKey) -> bool {
        match self.get(key) {
            Some(OwnKind::Packet(packet)) => packet.queued_charge <= net[key.0].options.receive_buffer,
            _ => false,
        }
    }
    /// The packet sockets of a network, in the order in which they were made.
    pub(super) fn packets_in(&self, net: &Stack, network: u32) -> Vec<SocketKey> {
        let own = |key: &&SocketKey| net.sockets[key.0].network == network;
        self.packets.iter().filter(own).copied().collect()
    }
    /// All of them in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SocketKey, &OwnKind)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter_map(|(key, kind)| kind.as_ref().map(|kind| (SocketKey(key), kind)))
    }
    /// Adds a socket of one of these families to a network: its domain, type and protocol.
    pub(super) fn add(
        &mut self,
        net: &mut Stack,
        network: u32,
        (domain, type_, protocol): (i32, i32, i32),
        kind: OwnKind,
    ) -> SocketKey {
        let key = net.add_socket(domain, type_, protocol, SocketKind::Other);
        net.socket(key).network = network;
        if matches!(kind, OwnKind::Packet(_)) {
            self.packets.push(key);
        }
        if self.kinds.len() <= key.0 {
            self.kinds.resize_with(key.0 + 1, || None);
        }
        self.kinds[key.0] = Some(kind);
        key
    }
    /// Removes one.
    pub(super) fn remove(&mut self, net: &mut Stack, key: SocketKey) -> Socket {
        self.kinds[key.0] = None;
        self.packets.retain(|other| *other != key);
        net.remove_socket(key)
    }
}
