//! Ping sockets (ICMP, `SOCK_DGRAM`), which send echo requests and receive their replies, icmp(7).

use crate::buffers;
use crate::stamping;
mod socket;

pub use self::socket::PingSocket;
use super::address;
use super::error_queue::QueuedError;
use super::filter::Metadata;
use super::ip::Inbound;
use super::ip::header::header_len;
use super::ip::icmp::{self, HEADER_LEN, kind};
use super::ip::route::Through;
use super::ip::{IpHeader, Outbound};
pub use super::ip_socket_calls::{peer_name, readiness};
use super::path_mtu::heeds_routers;
use super::socket::{Socket, SocketKind};
use crate::SocketKey;
use crate::Stack;
use crate::account::Origin;
use crate::address::RawAddress;
use crate::endpoint::choose_port;
use belljar_linux_abi::{Errno, c};
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// Creates a ping socket.
pub fn create(net: &mut Stack, domain: i32) -> Result<SocketKey, Errno> {
    let protocol = if domain == c::AF_INET { c::IPPROTO_ICMP } else { c::IPPROTO_ICMPV6 };
    Ok(net.add_socket(domain, c::SOCK_DGRAM, protocol, SocketKind::Ping(Box::default())))
}

/// `FIONREAD`: fails with `ENOTTY`, since ping sockets have no such request.
pub fn readable_bytes(_net: &mut Stack, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::ENOTTY)
}

/// `SIOCOUTQ`: as [`readable_bytes`].
pub fn unsent_bytes(_net: &mut Stack, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::ENOTTY)
}

/// The address returned by `getsockname`.
pub fn local_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let local = net.sockets.ping(key).local.unwrap_or(SocketAddr::new(address::unspecified(domain), 0));
    Ok(address::emit(domain, local))
}

/// Closes a socket: its last file was closed.
pub fn close(net: &mut Stack, key: SocketKey) {
    net.remove_socket(key);
}

impl Stack {
    /// Sends the echo request `data` to `to`, with the identifier of the socket. Returns false if it has to wait for
    /// space in the send buffer. Fails with `EINVAL` for other messages.
    pub fn ping_output(
        &mut self,
        key: SocketKey,
        to: IpAddr,
        scope: Option<u32>,
        mut data: Vec<u8>,
    ) -> Result<bool, Errno> {
        let domain = self.socket(key).domain;
        let echo = if domain == c::AF_INET { kind::ECHO } else { kind::V6_ECHO };
        if data.len() < HEADER_LEN || data[..2] != [echo, 0] {
            return Err(Errno::EINVAL);
        }
        let id = self.ping_id(key)?;
        data[4..6].copy_from_slice(&id.to_be_bytes());
        let ping = self.sockets.ping(key);
        let source = ping.local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        let (ttl, hop_limit, tos) = (ping.end.ip.ttl, ping.end.ip.hop_limit, ping.end.ip.tos);
        let unlabelled = !ping.end.ip.flow_label;
        let device = self.socket_device(key, to, scope)?;
        let route = self.route(to, source, Through::of(&self.sockets[key.0], device));
        let route = self.counters.count_no_route(&to, route)?;
        icmp::fill_checksum(route.source, route.destination, &mut data);
        let protocol = self.socket(key).protocol as u8;
        let usual = self.v6.hop_limit(&self.interface_settings, route.interface);
        let ttl = if route.destination.is_ipv4() { ttl } else { Some(hop_limit.unwrap_or(usual)) };
        let discover = self.sockets.ping(key).end.ip.mtu_discover;
        let len = data.len() + header_len(route.destination);
        let dont_fragment = self.must_not_fragment(discover, &route, len, self.clock.now());
        let header = IpHeader {
            tos,
            unlabelled,
            dont_fragment,
            ttl: ttl.unwrap_or(self.sysctls.default_ttl as u8),
            ..IpHeader::new(route.source, route.destination, protocol)
        };
        if self.socket(key).is_send_buffer_full() {
            return Ok(false);
        }
        let mut packet = buffers::take();
        packet.resize(header.len(), 0);
        packet.extend_from_slice(&data);
        let probes = !heeds_routers(discover);
        let outbound = Outbound { probes, ..Outbound::new(Origin::Icmp, &route, header, packet) };
        let mtu = self.sending_mtu(key, &route);
        let stamped = self.sockets[key.0].options.stamping.is_some();
        let took_id = stamped && stamping::begin(self, key, (None, None));
        let sent = self.socket_output(key, 0, outbound, mtu);
        if stamped && sent.is_err() {
            stamping::abandon(self, key, took_id);
        }
        sent.map(|()| true)
    }

    /// The echo identifier of a ping socket, allocated by the kernel at first use.
    fn ping_id(&mut self, key: SocketKey) -> Result<u16, Errno> {
        let domain = self.socket(key).domain;
        if let Some(local) = self.sockets.ping(key).local
            && local.port() != 0
        {
            return Ok(local.port());
        }
        let id = choose_port(&mut self.ports, self.sysctls.local_ports, |id| {
            !self.sockets.of_network(self.number).any(|(_, socket)| match &socket.kind {
                SocketKind::Ping(ping) => ping.local.is_some_and(|local| local.port() == id),
                _ => false,
            })
        })?;
        let ping = self.sockets.ping(key);
        let ip = ping.local.map_or(address::unspecified(domain), |local| local.ip());
        ping.local = Some(SocketAddr::new(ip, id));
        Ok(id)
    }

    /// Processes an ICMP error about an echo request: `ping_err` of Linux.
    pub fn ping_error(
        &mut self,
        local: IpAddr,
        remote: IpAddr,
        errno: Errno,
        icmp: (u8, u8, u32),
        offender: IpAddr,
        quoted: &[u8],
    ) {
        let Some(id) = quoted.get(4..6) else { return };
        let id = u16::from_be_bytes([id[0], id[1]]);
        let concerned = |socket: &Socket| {
            let SocketKind::Ping(ping) = &socket.kind else { return false };
            let here = ping.local.is_none_or(|own| own.ip().is_unspecified() || own.ip() == local);
            let there = ping.end.peer.is_none_or(|peer| peer == remote);
            let asked = ping.local.is_some_and(|own| own.port() == id);
            here && there && asked
        };
        let sockets = self.own_sockets().filter(|(_, socket)| concerned(socket));
        let keys: SmallVec<[SocketKey; 2]> = sockets.map(|(key, _)| SocketKey(key)).collect();
        let arrived = self.clock.now();
        for key in keys {
            let error = QueuedError {
                errno,
                icmp: (icmp.0, icmp.1),
                extra: icmp.2,
                arrived,
                offender: Some(offender),
                destination: SocketAddr::new(remote, 0),
                quoted: quoted.to_vec(),
            };
            self.ip_socket_error(key, error);
        }
    }

    /// Delivers an echo reply to the socket with its identifier.
    pub fn ping_input(&mut self, inbound: &Inbound) {
        let message = inbound.payload();
        let v4 = inbound.header.dst.is_ipv4();
        let reply = if v4 { kind::ECHO_REPLY } else { kind::V6_ECHO_REPLY };
        let id = u16::from_be_bytes([message[4], message[5]]);
        if message[0] != reply {
            return;
        }
        let wanted = |ping: &PingSocket| {
            let from_peer = ping.end.peer.is_none_or(|peer| peer == inbound.header.src);
            from_peer && ping.local.is_some_and(|local| local.port() == id)
        };
        let keys: SmallVec<[SocketKey; 2]> = self
            .own_sockets()
            .filter(|(_, socket)| match &socket.kind {
                SocketKind::Ping(ping) => (socket.domain == c::AF_INET) == v4 && wanted(ping),
                _ => false,
            })
            .map(|(key, _)| SocketKey(key))
            .collect();
        for key in keys {
            let mut bytes = message.to_vec();
            let Some(kept) =
                self.sockets[key.0].filtered(&mut self.filter_random, &bytes, Metadata::default())
            else {
                continue;
            };
            bytes.truncate(kept);
            self.ip_socket_enqueue(key, bytes, inbound);
        }
    }
}
