//! Sockets of the families that are the host's own and not the stack's: packet, UNIX and netlink sockets. What all sockets
//! have is kept by the stack, under the same keys.

use super::netlink::NetlinkSocket;
use super::packet::{Fanout, PacketSocket};
use super::socket::{Socket, SocketKind};
use super::unix::{Names, UnixSocket};
use crate::host::Host;
use crate::ids::SocketKey;

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

/// The sockets of these families.
#[derive(Debug, Default)]
pub struct OwnSockets {
    /// By their keys.
    kinds: Vec<Option<OwnKind>>,
    /// Packet sockets in the order in which they were made.
    pub(in crate::net) packets: Vec<SocketKey>,
    /// Groups of packet sockets that share what they hear.
    pub(in crate::net) fanouts: Vec<Fanout>,
    /// Names of UNIX sockets.
    pub(in crate::net) unix_names: Names,
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
    /// All of them in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SocketKey, &OwnKind)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter_map(|(key, kind)| kind.as_ref().map(|kind| (SocketKey(key), kind)))
    }
}

impl Host {
    /// Adds a socket of one of these families.
    pub(super) fn add_own_socket(
        &mut self,
        domain: i32,
        type_: i32,
        protocol: i32,
        kind: OwnKind,
    ) -> SocketKey {
        let key = self.net.add_socket(domain, type_, protocol, SocketKind::Other);
        if matches!(kind, OwnKind::Packet(_)) {
            self.own.packets.push(key);
            self.net.watchers = self.own.packets.len();
        }
        if self.own.kinds.len() <= key.0 {
            self.own.kinds.resize_with(key.0 + 1, || None);
        }
        self.own.kinds[key.0] = Some(kind);
        key
    }
    /// Removes one.
    pub(super) fn remove_own_socket(&mut self, key: SocketKey) -> Socket {
        self.own.kinds[key.0] = None;
        self.own.packets.retain(|other| *other != key);
        self.net.watchers = self.own.packets.len();
        self.net.remove_socket(key)
    }
}
