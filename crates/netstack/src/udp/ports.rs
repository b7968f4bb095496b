//! The UDP sockets of a host by local port, and the choice of the socket that receives a datagram.

use crate::SocketKey;
use crate::endpoint::{Ingress, Reach, devices_overlap};
use crate::flow_hash::flow_hash;
use crate::keyed::Keyed;
use crate::socket::{Socket, SocketKind};
use belljar_base::Map;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// The sockets of each port, in the order of binding.
#[derive(Debug, Default)]
pub struct UdpPorts(pub Map<u16, SmallVec<[SocketKey; 2]>>);

impl UdpPorts {
    /// Adds a bound socket.
    pub fn add(&mut self, port: u16, key: SocketKey) {
        self.0.entry(port).or_default().push(key);
    }
    /// Removes a bound socket.
    pub fn remove(&mut self, port: u16, key: SocketKey) {
        if let Some(keys) = self.0.get_mut(&port) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.0.remove(&port);
            }
        }
    }

    /// True if a socket may bind to `port` for the destinations `reach`: `udp_lib_lport_inuse` of Linux.
    pub fn is_free(&self, sockets: &Keyed<Socket>, key: SocketKey, reach: &Reach, port: u16) -> bool {
        let options = &sockets[key.0].options;
        self.0.get(&port).is_none_or(|others| {
            others.iter().all(|other| {
                let socket = &sockets[other.0];
                let SocketKind::Udp(udp) = &socket.kind else { return true };
                let theirs = &socket.options;
                *other == key
                    || (options.reuse_address && theirs.reuse_address)
                    || (options.reuse_port && theirs.reuse_port)
                    || !devices_overlap(options.bound_device, theirs.bound_device)
                    || !udp.bound.is_some_and(|bound| bound.reach.overlaps(reach))
            })
        })
    }

    /// The socket that receives datagrams from `source` to `destination`: the most specific match, then the
    /// one bound last (`udp4_lib_lookup2` of Linux). In an `SO_REUSEPORT` group the flow hash selects one.
    pub fn receiver(
        &self,
        sockets: &Keyed<Socket>,
        source: SocketAddr,
        destination: SocketAddr,
        ingress: Ingress,
    ) -> Option<SocketKey> {
        let keys = self.0.get(&destination.port())?;
        if let [key] = keys[..] {
            return score(sockets, key, source, destination.ip(), ingress).map(|_| key);
        }
        let mut best: Option<(u32, SocketKey)> = None;
        let mut group: SmallVec<[SocketKey; 4]> = SmallVec::new();
        for key in keys.iter().rev() {
            let Some(score) = score(sockets, *key, source, destination.ip(), ingress) else { continue };
            let grouped = sockets[key.0].options.reuse_port;
            match best {
                Some((best, _)) if score < best => continue,
                Some((best, _)) if score == best => {
                    if grouped && !group.is_empty() {
                        group.push(*key);
                    }
                    continue;
                }
                _ => {}
            }
            best = Some((score, *key));
            group.clear();
            if grouped {
                group.push(*key);
            }
        }
        let (_, key) = best?;
        if group.len() > 1 {
            let n = flow_hash(source, destination) % group.len() as u64;
            return Some(group[n as usize]);
        }
        Some(key)
    }
}

/// Rank of a socket among those that receive a datagram; `None` if it does not receive it.
fn score(
    sockets: &Keyed<Socket>,
    key: SocketKey,
    source: SocketAddr,
    dst: IpAddr,
    ingress: Ingress,
) -> Option<u32> {
    let socket = &sockets[key.0];
    let SocketKind::Udp(udp) = &socket.kind else { return None };
    let bound = udp.bound.as_ref()?;
    let device = socket.options.bound_device;
    if !bound.reach.takes(dst) || !ingress.reaches(device) {
        return None;
    }
    let mut score = u32::from(socket.domain == belljar_linux_abi::c::AF_INET);
    if bound.reach.ip.is_some() {
        score += 4;
    }
    if device.is_some() {
        score += 4;
    }
    if let Some(peer) = udp.peer {
        if !comes_from(peer, source) {
            return None;
        }
        score += if peer.port() == 0 { 4 } else { 8 };
    }
    Some(score)
}

/// True if a socket connected to `peer` accepts datagrams from `source`. One connected to port 0 compares
/// only the address.
pub(super) fn comes_from(peer: SocketAddr, source: SocketAddr) -> bool {
    peer.ip() == source.ip() && (peer.port() == 0 || peer.port() == source.port())
}
