//! Sockets of the host's own families: packet, UNIX and netlink sockets. The state common to all sockets is
//! held by the host's first stack, called `net` here, under the same keys.

use belljar_netstack::keyed::Keyed;
use belljar_netstack::socket::{Socket, SocketKind};
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::netlink_sockets::NetlinkSocket;
use belljar_objects::packet_fanout::Fanouts;
use belljar_objects::packet_sockets::PacketSocket;
use belljar_objects::unix_sockets::{UnixNames, UnixSocket};

/// State of a socket by family.
#[derive(Debug)]
pub enum OwnKind {
    /// `AF_PACKET`.
    Packet(Box<PacketSocket>),
    /// `AF_UNIX`.
    Unix(Box<UnixSocket>),
    /// `AF_NETLINK`.
    Netlink(Box<NetlinkSocket>),
}

/// Sockets of the host's own families.
#[derive(Debug, Default)]
pub struct OwnSockets {
    /// Socket states, indexed by socket key.
    kinds: Vec<Option<OwnKind>>,
    /// Packet sockets in order of creation.
    pub(super) packets: Vec<SocketKey>,
    /// Fanout groups of packet sockets.
    pub(super) fanouts: Fanouts,
    /// Names of UNIX sockets.
    pub(super) unix_names: UnixNames,
}

impl OwnSockets {
    /// State of a socket, `None` if it is not of the host's own families.
    #[inline]
    pub fn get(&self, key: SocketKey) -> Option<&OwnKind> {
        self.kinds.get(key.0)?.as_ref()
    }
    /// State of a socket, mutable.
    #[inline]
    pub fn get_mut(&mut self, key: SocketKey) -> Option<&mut OwnKind> {
        self.kinds.get_mut(key.0)?.as_mut()
    }
    /// State of a packet socket, and the fanout groups. Panics for a socket of another family.
    pub(super) fn packet_and_groups(&mut self, key: SocketKey) -> (&mut PacketSocket, &mut Fanouts) {
        match &mut self.kinds[key.0] {
            Some(OwnKind::Packet(packet)) => (packet, &mut self.fanouts),
            other => unreachable!("not a packet socket: {other:?}"),
        }
    }
    /// True if a packet socket has room in its receive buffer.
    pub(super) fn packet_has_room(&self, net: &Keyed<Socket>, key: SocketKey) -> bool {
        match self.get(key) {
            Some(OwnKind::Packet(packet)) => packet.queued_charge <= net[key.0].options.receive_buffer,
            _ => false,
        }
    }
    /// Packet sockets of a network in order of creation.
    pub(super) fn packets_in(&self, net: &Stack, network: u32) -> Vec<SocketKey> {
        let own = |key: &&SocketKey| net.sockets[key.0].network == network;
        self.packets.iter().filter(own).copied().collect()
    }
    /// All sockets of these families in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SocketKey, &OwnKind)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter_map(|(key, kind)| kind.as_ref().map(|kind| (SocketKey(key), kind)))
    }
    /// Adds a socket with this domain, type and protocol to a network.
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
    /// Removes a socket.
    pub(super) fn remove(&mut self, net: &mut Stack, key: SocketKey) -> Socket {
        self.kinds[key.0] = None;
        self.packets.retain(|other| *other != key);
        net.remove_socket(key)
    }
}
