//! Demultiplexing of TCP segments to sockets.

use super::socket::Role;
use crate::SocketKey;
use crate::endpoint::{Ingress, Reach, devices_overlap};
use crate::flow_hash::flow_hash;
use crate::keyed::Keyed;
use crate::socket::{Socket, SocketKind};
use belljar_base::Map;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// The TCP sockets of a host by local port.
#[derive(Debug, Default)]
pub struct TcpTable {
    ports: Map<u16, Port>,
}

/// The sockets of one local port.
#[derive(Debug, Default)]
struct Port {
    /// Bound sockets, including listeners, in the order of binding.
    bound: SmallVec<[SocketKey; 2]>,
    /// Connected sockets, by local address and remote endpoint.
    connections: Map<(IpAddr, SocketAddr), SocketKey>,
}

impl TcpTable {
    /// Adds a bound socket.
    pub fn add_bound(&mut self, port: u16, key: SocketKey) {
        self.ports.entry(port).or_default().bound.push(key);
    }
    /// Removes a bound socket.
    pub fn remove_bound(&mut self, port: u16, key: SocketKey) {
        if let Some(entry) = self.ports.get_mut(&port) {
            entry.bound.retain(|other| *other != key);
        }
        self.tidy(port);
    }
    /// Adds a connection.
    pub fn add_connection(&mut self, local: SocketAddr, remote: SocketAddr, key: SocketKey) {
        self.ports.entry(local.port()).or_default().connections.insert((local.ip(), remote), key);
    }
    /// Removes a connection if it belongs to the socket `key`.
    pub fn remove_connection(&mut self, local: SocketAddr, remote: SocketAddr, key: SocketKey) {
        if let Some(entry) = self.ports.get_mut(&local.port())
            && entry.connections.get(&(local.ip(), remote)) == Some(&key)
        {
            entry.connections.remove(&(local.ip(), remote));
        }
        self.tidy(local.port());
    }
    /// The connection between two endpoints.
    pub fn connection(&self, local: SocketAddr, remote: SocketAddr) -> Option<SocketKey> {
        self.ports.get(&local.port())?.connections.get(&(local.ip(), remote)).copied()
    }
    /// All sockets of a port.
    pub fn at_port(&self, port: u16) -> impl Iterator<Item = SocketKey> + '_ {
        let entry = self.ports.get(&port);
        let bound = entry.into_iter().flat_map(|entry| entry.bound.iter().copied());
        let connected = entry.into_iter().flat_map(|entry| entry.connections.values().copied());
        bound.chain(connected)
    }
    fn bound_at(&self, port: u16) -> &[SocketKey] {
        self.ports.get(&port).map_or(&[], |entry| &entry.bound)
    }
    /// The listener for a SYN from `remote` to `local`. One bound to the address precedes one bound to the
    /// wildcard address; in an `SO_REUSEPORT` group the flow hash selects one.
    pub fn listener(
        &self,
        sockets: &Keyed<Socket>,
        local: SocketAddr,
        remote: SocketAddr,
        ingress: Ingress,
    ) -> Option<SocketKey> {
        let mut best: Option<(bool, bool, bool)> = None;
        let mut found: SmallVec<[SocketKey; 4]> = SmallVec::new();
        for key in self.bound_at(local.port()) {
            let socket = &sockets[key.0];
            let SocketKind::Tcp(tcp) = &socket.kind else { continue };
            let (Role::Listening(_), Some(bound)) = (&tcp.role, &tcp.bound) else { continue };
            let device = socket.options.bound_device;
            if !bound.reach.takes(local.ip()) || !ingress.reaches(device) {
                continue;
            }
            let score =
                (bound.reach.ip.is_some(), device.is_some(), socket.domain == belljar_linux_abi::c::AF_INET);
            if best.is_none_or(|best| score > best) {
                best = Some(score);
                found.clear();
            }
            if best == Some(score) {
                found.push(*key);
            }
        }
        match found.len() {
            0 => None,
            1 => Some(found[0]),
            n => Some(found[(flow_hash(remote, local) % n as u64) as usize]),
        }
    }

    /// True if a socket may bind to `port`, or listen on it: `inet_csk_bind_conflict` of Linux.
    pub fn is_free(
        &self,
        sockets: &Keyed<Socket>,
        key: SocketKey,
        reach: &Reach,
        port: u16,
        listens: bool,
    ) -> bool {
        let options = &sockets[key.0].options;
        self.at_port(port).all(|other| {
            let socket = &sockets[other.0];
            let SocketKind::Tcp(tcp) = &socket.kind else { return true };
            let Some(bound) = &tcp.bound else { return true };
            let other_listens = matches!(tcp.role, Role::Listening(_));
            let shared_address =
                options.reuse_address && socket.options.reuse_address && !listens && !other_listens;
            // A listener does not conflict with bound sockets that share the address and do not listen.
            let shared_listening =
                options.reuse_address && socket.options.reuse_address && listens && !other_listens;
            let shared_port = options.reuse_port && socket.options.reuse_port;
            let apart = !devices_overlap(options.bound_device, socket.options.bound_device);
            apart
                || other == key
                || shared_address
                || shared_listening
                || shared_port
                || !bound.reach.overlaps(reach)
        })
    }

    fn tidy(&mut self, port: u16) {
        if self.ports.get(&port).is_some_and(|p| p.bound.is_empty() && p.connections.is_empty()) {
            self.ports.remove(&port);
        }
    }
}
