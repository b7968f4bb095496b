//! Sending, as shared by UDP, raw and ping sockets: destination, output interface, route and maximum length.

use crate::account::Origin;
use crate::error_queue::{MTU_MAX, QueuedError};
use crate::ip::Outbound;
use crate::ip::route::{ResolvedRoute, Through};
use crate::readiness::EPOLLERR;
use crate::send_charge::UNCHARGED_QUEUE;
use crate::socket::SocketKind;
use crate::stamping;
use crate::udp::SendOptions;
use crate::{LO, SocketKey, Stack, address, interface_index};
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// Decodes the destination address passed to `connect` or `sendto`.
    pub fn inet_destination(&mut self, key: SocketKey, raw: &[u8]) -> Result<SocketAddr, Errno> {
        let socket = self.socket(key);
        let domain = socket.domain;
        let family = address::family(raw)?;
        let destination = match (domain, family) {
            (c::AF_INET, c::AF_INET) | (c::AF_INET6, c::AF_INET | c::AF_INET6) => address::parse(raw)?,
            (c::AF_INET, c::AF_UNSPEC) if raw.len() >= 16 => {
                let ip = IpAddr::from([raw[4], raw[5], raw[6], raw[7]]);
                SocketAddr::new(ip, u16::from_be_bytes([raw[2], raw[3]]))
            }
            // The length is validated before the family.
            (c::AF_INET, _) if raw.len() < 16 => return Err(Errno::EINVAL),
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        if socket.ip_options().is_some_and(|ip| ip.v6_only) && destination.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        Ok(destination)
    }

    /// The index of the interface by which a socket's packet to `to` must leave, if any: the one that the
    /// socket is bound to, the one named by the call, or that of `IPV6_MULTICAST_IF`. Fails with `EINVAL` if
    /// the first two differ, or if a link-local destination has no interface.
    pub fn socket_device(
        &mut self,
        key: SocketKey,
        to: IpAddr,
        named: Option<u32>,
    ) -> Result<Option<u32>, Errno> {
        let socket = &self.sockets[key.0];
        let bound = socket.options.bound_device;
        if let (Some(bound), Some(named)) = (bound, named)
            && bound != named
        {
            return Err(Errno::EINVAL);
        }
        let IpAddr::V6(v6) = to else { return Ok(bound.or(named)) };
        let of_group = socket.ip_options().and_then(|ip| ip.multicast_if6).filter(|_| v6.is_multicast());
        let device = bound.or(named).or(of_group);
        let own = socket.local_ip().filter(|ip| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
        if v6.is_unicast_link_local() && device.is_none() && own.is_none() && !self.is_local(to) {
            return Err(Errno::EINVAL);
        }
        Ok(device)
    }

    /// Validates the source address and the interface given by control messages. Fails with `ENODEV` for an
    /// interface that does not exist, and with `ENETUNREACH` or `EINVAL` for a source that is not an address
    /// of this host (`ip_route_output_key`, `ip6_datagram_send_ctl`).
    pub fn check_given(&self, key: SocketKey, to: IpAddr, options: &SendOptions) -> Result<(), Errno> {
        let device = options.interface.map(|index| self.interfaces.by_index(index).ok_or(Errno::ENODEV));
        let free = self.sockets[key.0].ip_options().is_some_and(|ip| ip.free_bind);
        match options.source {
            Some(IpAddr::V4(v4)) if v4.is_multicast() || v4.is_broadcast() => return Err(Errno::EINVAL),
            Some(IpAddr::V4(v4)) if to.is_ipv4() && !free && !self.is_local(v4.into()) => {
                return Err(Errno::ENETUNREACH);
            }
            Some(IpAddr::V6(v6)) if !free => {
                let near = v6.is_unicast_link_local() || v6.is_loopback();
                let own = match device.transpose()? {
                    Some(number) if near => self.interfaces[number].addresses6.iter().any(|own| own.ip == v6),
                    None if v6.is_unicast_link_local() => false,
                    _ => self.is_local(v6.into()),
                };
                if !own {
                    return Err(Errno::EINVAL);
                }
            }
            _ => {}
        }
        device.transpose().map(|_| ())
    }

    /// The route of a socket's packet: by the interface that the socket is bound to, the one named by the
    /// message, or for multicast that of `IP_MULTICAST_IF`.
    pub fn route_for(
        &mut self,
        key: SocketKey,
        to: SocketAddr,
        mut source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Result<ResolvedRoute, Errno> {
        let (to, port) = (to.ip(), to.port());
        let socket = &self.sockets[key.0];
        let mut device = match to {
            IpAddr::V4(_) => interface.or(socket.options.bound_device),
            IpAddr::V6(_) => self.socket_device(key, to, interface)?,
        };
        let socket = &self.sockets[key.0];
        if let (IpAddr::V4(group), Some(options)) = (to, socket.ip_options())
            && group.is_multicast()
        {
            let (interface, own) = options.multicast_interface;
            device = device.or(interface.map(interface_index));
            source = source.or(Some(own.into()).filter(|_| !own.is_unspecified()));
        }
        self.route(to, source, Through::of(&self.sockets[key.0], device).to_port(port))
    }

    /// Sends a packet of a socket, to `port` if its protocol has ports; beyond `mtu` bytes it is fragmented. It is
    /// charged against the send buffer if it waits in the queue of its interface. `EMSGSIZE` is also queued on the
    /// error queue. Fails with `ENOBUFS` for fragments that do not fit twice the send buffer, and for a raw
    /// socket's packet, which does not wait for space.
    #[inline]
    pub fn socket_output(
        &mut self,
        key: SocketKey,
        port: u16,
        mut outbound: Outbound<'_>,
        mtu: usize,
    ) -> Result<(), Errno> {
        let (route, len) = (outbound.route, outbound.packet.len());
        let is_cut = len > mtu && outbound.segment == 0 && !outbound.header.dont_fragment;
        if route.interface != LO {
            if is_cut || outbound.origin == Origin::Raw {
                self.sockets[key.0].check_fragments(len, mtu)?;
            }
            // Most fragments wait for the first.
            if is_cut
                || self.queue_len(route.interface) >= UNCHARGED_QUEUE
                || self.sockets[key.0].zero_copy_holds()
            {
                outbound.cookie = self.sockets[key.0].charge(key, len);
            }
        }
        outbound.mark = self.sockets[key.0].options.mark;
        stamping::attach_to(self, key, &mut outbound);
        if route.destination.is_ipv4() {
            let pieces = match usize::from(outbound.segment) {
                0 => 1,
                segment => (outbound.packet.len() - outbound.header.len()).div_ceil(segment),
            };
            outbound.ident = self.sockets[key.0].next_ident(&mut self.idents, pieces);
        }
        let sent = self.ip_output(outbound);
        if matches!(sent, Err(Errno::ENOKEY | Errno::EDESTADDRREQ)) {
            // The ICMP error of a tunnel without a peer is there when the call fails.
            self.receive_looped();
        }
        if sent == Err(Errno::EMSGSIZE) {
            let most = self.sending_mtu(key, route);
            self.queue_too_long(key, SocketAddr::new(route.destination, port), most);
        }
        sent
    }

    /// Queues the local error of a datagram to `to` that exceeds the MTU of `mtu` bytes, if the socket has
    /// requested errors (`ip_local_error`). Over IPv4 the error names the port of the socket's peer, 0
    /// without a peer.
    #[cold]
    pub fn queue_too_long(&mut self, key: SocketKey, mut to: SocketAddr, mtu: usize) {
        let arrived = self.clock.now();
        let socket = self.socket(key);
        let room = socket.options.receive_buffer;
        if to.is_ipv4() {
            let peer = if let SocketKind::Udp(udp) = &socket.kind { udp.peer } else { None };
            to.set_port(peer.map_or(0, |peer| peer.port()));
        }
        let error = QueuedError {
            errno: Errno::EMSGSIZE,
            icmp: (0, 0),
            extra: if to.is_ipv4() { mtu.min(MTU_MAX) } else { mtu } as u32,
            arrived,
            offender: None,
            destination: to,
            quoted: Vec::new(),
        };
        match &mut socket.kind {
            SocketKind::Udp(udp) if udp.ip.receive_errors => {
                udp.errors.push(error, &mut udp.queued_charge, room);
            }
            SocketKind::Raw(raw) if raw.end.ip.receive_errors => raw.end.push_error(error, room),
            SocketKind::Ping(ping) if ping.end.ip.receive_errors => ping.end.push_error(error, room),
            _ => return,
        }
        self.effects.notify_socket(key, EPOLLERR);
    }
}
