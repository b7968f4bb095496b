//! Sending datagrams.

use super::{HEADER_LEN, Protocol, UDP_SEGMENT, charge};
use crate::call::Call;
use crate::files::readiness::WRITABLE;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::ip::header::header_len;
use crate::net::ip::route::{Route, Through};
use crate::net::ip::{IpHeader, Outbound};
use crate::net::message::{Attempt, Outgoing};
use crate::net::multicast::outgoing_interface;
use crate::net::path_mtu::heeds_routers;
use crate::net::{LO, address, interface, interface_index};
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
use belljar_wire::checksum;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::FromBytes;

/// The largest payload over IPv4.
const MAX_PAYLOAD: usize = 65_507;
/// `UDP_MAX_SEGMENTS`: the most datagrams that one send makes.
const MAX_SEGMENTS: usize = 128;
/// Packets in the queue of `eth0` up to which a datagram is not charged against the send buffer:
/// it will have left before that matters.
const UNCHARGED_QUEUE: usize = 8;

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &Outgoing,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    // Whatever becomes of the message.
    if call.host.udp(key).bound.is_none() {
        call.host.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
    }
    if message.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let socket = call.host.socket(key);
    let (queue, send_buffer, domain) = (socket.queue, socket.options.send_buffer, socket.domain);
    if domain == c::AF_INET && message.len > 0xffff {
        return Err(Errno::EMSGSIZE);
    }
    // What is being collected goes where its first part was to go.
    let collecting = call.host.udp(key).corked.is_some();
    let destination = match &message.name {
        Some(raw) if !collecting => named_destination(call.host, key, raw)?,
        _ => None,
    };
    let udp = call.host.udp(key);
    // Only an address that is given: one may be connected to port 0. What a socket of IPv6 sends to a peer of
    // IPv4 goes as if that were given.
    let given =
        destination.or(udp.peer.filter(|peer| domain == c::AF_INET6 && peer.is_ipv4() && !collecting));
    if given.is_some_and(|to| to.port() == 0) {
        return Err(Errno::EINVAL);
    }
    if !collecting && destination.or(udp.peer).is_none() {
        return Err(Errno::EDESTADDRREQ);
    }
    let more = message.flags & c::MSG_MORE != 0 || udp.cork;
    let (peer, segment) = (udp.peer, udp.segment);
    let mut options = if collecting { SendOptions::default() } else { SendOptions::read(message)? };
    options.segment.get_or_insert(segment);
    let scope = message.name.as_ref().and_then(|raw| address::scope(raw));
    options.interface = options.interface.or(scope);
    if more || collecting {
        check_may_send(call.host, key, message.len)?;
        return send_corked(call, key, message, (destination.or(peer), options), more);
    }
    let destination = destination.or(peer).ok_or(Errno::EDESTADDRREQ)?;
    let route = call.host.udp_route(key, destination, &options)?;
    check_may_send(call.host, key, message.len)?;
    if call.host.udp(key).sending_charge >= send_buffer {
        return Ok(Attempt::Wait(queue));
    }
    let start = header_len(route.destination) + HEADER_LEN;
    let mut packet = call.host.packet_buffer();
    packet.resize(start + message.len, 0);
    let mut at = start;
    for (addr, len) in &message.buffers {
        call.read_bytes(*addr, &mut packet[at..at + *len as usize])?;
        at += *len as usize;
    }
    call.host.udp_transmit(key, route, destination.port(), packet, &options)?;
    call.host.flush_network();
    Ok(Attempt::Done(message.len))
}

/// What is found out when the datagram is made: that it is too long, an error that happened before, that the
/// socket is shut.
fn check_may_send(host: &mut Host, key: SocketKey, len: usize) -> Result<(), Errno> {
    if len > MAX_PAYLOAD {
        return Err(Errno::EMSGSIZE);
    }
    host.socket(key).take_error()?;
    if host.udp(key).write_closed { Err(Errno::EPIPE) } else { Ok(()) }
}

/// The destination that a message names. To a socket of IPv6 an address without a family names none, and one
/// of another family is not valid.
fn named_destination(host: &mut Host, key: SocketKey, raw: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    if host.socket(key).domain == c::AF_INET6 {
        match address::family(raw)? {
            c::AF_UNSPEC => return Ok(None),
            c::AF_INET if host.udp(key).ip.v6_only => return Err(Errno::ENETUNREACH),
            c::AF_INET | c::AF_INET6 => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    host.inet_destination(key, raw).map(Some)
}

/// Collects under `MSG_MORE` or `UDP_CORK`; sends what was collected with the first call without.
fn send_corked(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &Outgoing,
    (destination, options): (Option<SocketAddr>, SendOptions),
    more: bool,
) -> Result<Attempt<usize>, Errno> {
    let data = call.gather(&message.buffers, 0, message.len)?;
    let udp = call.host.udp(key);
    if udp.corked.is_none() {
        udp.corked = Some((destination.ok_or(Errno::EDESTADDRREQ)?, options, Vec::new()));
    }
    if let Some((_, _, collected)) = &mut udp.corked {
        if collected.len() + data.len() > MAX_PAYLOAD {
            return Err(Errno::EMSGSIZE);
        }
        collected.extend_from_slice(&data);
    }
    if !more {
        call.host.udp_uncork(key)?;
    }
    Ok(Attempt::Done(message.len))
}

/// What control messages say of one datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The source address.
    pub source: Option<IpAddr>,
    /// The index of the interface that it leaves by.
    pub interface: Option<u32>,
    /// The TOS byte.
    pub tos: Option<u8>,
    /// The TTL.
    pub ttl: Option<u8>,
    /// The payload of each datagram that it is cut into, in bytes; 0 for one datagram.
    pub segment: Option<u16>,
}

impl SendOptions {
    /// Reads them: `EINVAL` for what it does not know.
    pub fn read(message: &Outgoing) -> Result<SendOptions, Errno> {
        message.check_control()?;
        let mut options = SendOptions::default();
        for control in &message.control {
            let int = || match control.data[..] {
                [byte] => Ok(i32::from(byte)),
                [a, b, c, d, ..] => Ok(i32::from_ne_bytes([a, b, c, d])),
                _ => Err(Errno::EINVAL),
            };
            match (control.level, control.type_) {
                (c::IPPROTO_IP, c::IP_PKTINFO) => {
                    let (info, _) = InPktinfo::read_from_prefix(&control.data).map_err(|_| Errno::EINVAL)?;
                    options.source = Some(IpAddr::from(info.spec_dst)).filter(|ip| !ip.is_unspecified());
                    options.interface = outgoing_interface(message);
                }
                (c::IPPROTO_IPV6, c::IPV6_PKTINFO) => {
                    let (info, _) = In6Pktinfo::read_from_prefix(&control.data).map_err(|_| Errno::EINVAL)?;
                    let ip = address::canonical(Ipv6Addr::from(info.addr).into());
                    options.source = Some(ip).filter(|ip| !ip.is_unspecified());
                    options.interface = u32::try_from(info.ifindex).ok().filter(|index| *index != 0);
                }
                (c::IPPROTO_IP, c::IP_TOS) | (c::IPPROTO_IPV6, c::IPV6_TCLASS) => {
                    options.tos = Some(int()? as u8);
                }
                (c::IPPROTO_IP, c::IP_TTL) | (c::IPPROTO_IPV6, c::IPV6_HOPLIMIT) => {
                    // -1 is the default of IPv6.
                    let unset = control.level == c::IPPROTO_IPV6 && int()? == -1;
                    options.ttl =
                        if unset { None } else { Some(u8::try_from(int()?).map_err(|_| Errno::EINVAL)?) };
                }
                (c::IPPROTO_UDP, UDP_SEGMENT) => {
                    let size = control.data[..].try_into().map_err(|_| Errno::EINVAL)?;
                    options.segment = Some(u16::from_ne_bytes(size));
                }
                (c::SOL_SOCKET, _) => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(options)
    }
}

impl Host {
    /// The destination that a socket is given by `connect` or `sendto`.
    pub(crate) fn inet_destination(&mut self, key: SocketKey, raw: &[u8]) -> Result<SocketAddr, Errno> {
        let socket = self.socket(key);
        let domain = socket.domain;
        let family = address::family(raw)?;
        let destination = match (domain, family) {
            (c::AF_INET, c::AF_INET) | (c::AF_INET6, c::AF_INET | c::AF_INET6) => address::parse(raw)?,
            (c::AF_INET, c::AF_UNSPEC) if raw.len() >= 16 => {
                let ip = IpAddr::from([raw[4], raw[5], raw[6], raw[7]]);
                SocketAddr::new(ip, u16::from_be_bytes([raw[2], raw[3]]))
            }
            // The length is looked at before the family.
            (c::AF_INET, _) if raw.len() < 16 => return Err(Errno::EINVAL),
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        if socket.ip_options().is_some_and(|ip| ip.v6_only) && destination.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        Ok(destination)
    }

    /// The device that a packet of a socket to `to` must leave by: the one that it is bound to, the one that the
    /// call names, or that of its multicast. `EINVAL` if these differ, or where an address of one link only is
    /// to be reached on no link.
    pub(crate) fn socket_device(
        &mut self,
        key: SocketKey,
        to: IpAddr,
        named: Option<u32>,
    ) -> Result<Option<u32>, Errno> {
        let socket = &self.net.sockets[key.0];
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
        if v6.is_unicast_link_local() && device.is_none() && own.is_none() && !self.net.is_local(to) {
            return Err(Errno::EINVAL);
        }
        Ok(device)
    }

    /// Sends a datagram; false if the send buffer is full.
    pub(crate) fn udp_send(
        &mut self,
        key: SocketKey,
        destination: SocketAddr,
        payload: &[u8],
    ) -> Result<bool, Errno> {
        let socket = self.socket(key);
        let send_buffer = socket.options.send_buffer;
        socket.take_error()?;
        if payload.len() > MAX_PAYLOAD {
            return Err(Errno::EMSGSIZE);
        }
        if self.udp(key).sending_charge >= send_buffer {
            return Ok(false);
        }
        let options = SendOptions::default();
        let route = self.udp_route(key, destination, &options)?;
        let mut packet = self.packet_buffer();
        packet.resize(header_len(route.destination) + HEADER_LEN, 0);
        packet.extend_from_slice(payload);
        self.udp_transmit(key, route, destination.port(), packet, &options)?;
        self.flush_network();
        Ok(true)
    }

    /// The route of what a socket sends: by the interface that it is bound to, the one that the message
    /// names, or for multicast the one of `IP_MULTICAST_IF`.
    pub(crate) fn route_for(
        &mut self,
        key: SocketKey,
        to: SocketAddr,
        mut source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Result<Route, Errno> {
        let (to, port) = (to.ip(), to.port());
        let socket = &self.net.sockets[key.0];
        let mut device = match to {
            IpAddr::V4(_) => interface.or(socket.options.bound_device),
            IpAddr::V6(_) => self.socket_device(key, to, interface)?,
        };
        let socket = &self.net.sockets[key.0];
        if let (IpAddr::V4(group), Some(options)) = (to, socket.ip_options())
            && group.is_multicast()
        {
            let (interface, own) = options.multicast_interface;
            device = device.or(interface.map(interface_index));
            source = source.or(Some(own.into()).filter(|_| !own.is_unspecified()));
        }
        self.net.route(to, source, Through::of(&self.net.sockets[key.0], device).to_port(port))
    }

    fn udp_route(
        &mut self,
        key: SocketKey,
        destination: SocketAddr,
        options: &SendOptions,
    ) -> Result<Route, Errno> {
        let broadcast_allowed = self.socket(key).options.broadcast;
        if self.udp(key).bound.is_none() {
            self.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
        }
        let bound_ip = self.udp(key).bound.and_then(|bound| bound.reach.ip);
        let source = options.source.or(bound_ip).filter(|ip| !self.net.is_multipoint(*ip));
        let route = self.route_for(key, destination, source, options.interface)?;
        if route.broadcast && !broadcast_allowed {
            return Err(Errno::EACCES);
        }
        Ok(route)
    }

    /// Sends what lies in `packet` behind room for the headers, as one datagram or cut into several (`udp_send_skb`).
    /// On `lo` these stay together, as they do in Linux, until a socket has them.
    fn udp_transmit(
        &mut self,
        key: SocketKey,
        route: Route,
        port: u16,
        packet: Vec<u8>,
        options: &SendOptions,
    ) -> Result<(), Errno> {
        let start = header_len(route.destination) + HEADER_LEN;
        let (segment, len) = (options.segment.unwrap_or(0), packet.len() - start);
        let size = usize::from(segment);
        let protocol = self.udp(key).protocol;
        if size > 0 {
            let socket = &self.net.sockets[key.0];
            let ignores = socket.ip_options().is_some_and(|ip| !heeds_routers(ip.mtu_discover));
            let mtu = match route.destination {
                IpAddr::V4(_) if ignores => self.net.mtu(route.interface),
                _ => self.net.path_mtu(&route, self.clock.now()),
            };
            if start + len.min(size) > mtu {
                return Err(Errno::EMSGSIZE);
            }
            let v4 = route.destination.is_ipv4();
            let unchecked = if v4 { socket.options.is_kept(c::SO_NO_CHECK) } else { self.udp(key).no_check6 };
            if len > size * MAX_SEGMENTS || unchecked {
                return Err(Errno::EINVAL);
            }
            if protocol == Protocol::Lite {
                return Err(Errno::EIO);
            }
        }
        self.net.counters.udp[protocol.index()].sent += 1;
        if size == 0 || len <= size {
            return self.udp_output(key, route, port, packet, options, 0);
        }
        if route.interface == LO {
            return self.udp_output(key, route, port, packet, options, segment);
        }
        for piece in packet[start..].chunks(size) {
            let mut one = self.packet_buffer();
            one.resize(start, 0);
            one.extend_from_slice(piece);
            self.udp_output(key, route, port, one, options, 0)?;
        }
        self.recycle_buffer(packet);
        Ok(())
    }

    /// Sends a datagram whose payload lies in `packet` behind room for the headers.
    fn udp_output(
        &mut self,
        key: SocketKey,
        route: Route,
        port: u16,
        mut packet: Vec<u8>,
        options: &SendOptions,
        segment: u16,
    ) -> Result<(), Errno> {
        let destination = route.destination;
        let ip_len = header_len(destination);
        let queue_len = self.net.queue_len(route.interface);
        let now = self.clock.now();
        let (mtu, multicast) = (self.net.path_mtu(&route, now), self.net.is_multipoint(destination));
        let hop_limit = self.net.hop_limit(route.interface);
        let protocol = self.udp(key).protocol;
        let socket = &self.net.sockets[key.0];
        let Some(ip) = socket.ip_options() else { return Err(Errno::EINVAL) };
        let probes = !heeds_routers(ip.mtu_discover);
        let ttl = match (options.ttl, destination) {
            (Some(ttl), _) => ttl,
            (None, IpAddr::V4(v4)) if v4.is_multicast() => ip.multicast_ttl,
            (None, IpAddr::V6(v6)) if v6.is_multicast() => ip.multicast_hops,
            (None, IpAddr::V4(_)) => ip.ttl.unwrap_or(self.net.sysctls.default_ttl as u8),
            (None, IpAddr::V6(_)) => ip.hop_limit.unwrap_or(hop_limit),
        };
        let fits = packet.len() <= mtu;
        let header = IpHeader {
            tos: options.tos.unwrap_or(ip.tos),
            unlabelled: !ip.flow_label,
            ttl,
            dont_fragment: self.net.must_not_fragment(ip.mtu_discover, &route, packet.len(), now),
            ..IpHeader::new(route.source, destination, protocol.number())
        };
        let loop_back = multicast
            && match destination {
                IpAddr::V4(v4) => ip.multicast_loop || !v4.is_multicast(),
                IpAddr::V6(_) => ip.multicast_loop6,
            };
        let charged = route.interface != LO && queue_len >= UNCHARGED_QUEUE && fits;
        let cookie = if charged { interface::cookie(key, socket) } else { 0 };
        let charge = if charged { charge(packet.len()) } else { 0 };
        let udp = self.udp(key);
        udp.sending_charge += charge;
        let source_port = udp.bound.map_or(0, |bound| bound.port);
        let coverage = udp.coverage;
        let body = &mut packet[ip_len..];
        let (len, covered) = coverage.of_sent(body.len());
        body[0..2].copy_from_slice(&source_port.to_be_bytes());
        body[2..4].copy_from_slice(&port.to_be_bytes());
        body[4..6].copy_from_slice(&len.to_be_bytes());
        let sum = match checksum::partial(route.source, destination, protocol.number(), body, covered) {
            // Zero means none: RFC 768.
            0 => 0xffff,
            sum => sum,
        };
        body[6..8].copy_from_slice(&sum.to_be_bytes());
        self.ip_output(Outbound { route, header, packet, cookie, segment, intact: true, probes, loop_back })
    }

    /// Sends what `MSG_MORE` or `UDP_CORK` collected.
    pub(crate) fn udp_uncork(&mut self, key: SocketKey) -> Result<(), Errno> {
        let Some((destination, options, data)) = self.udp(key).corked.take() else { return Ok(()) };
        let route = self.udp_route(key, destination, &options)?;
        let mut packet = vec![0; header_len(route.destination) + HEADER_LEN];
        packet.extend_from_slice(&data);
        self.udp_transmit(key, route, destination.port(), packet, &options)?;
        self.flush_network();
        Ok(())
    }

    /// A datagram that was charged has left the interface.
    pub(crate) fn udp_packet_left(&mut self, key: SocketKey, bytes: usize) {
        let send_buffer = self.socket(key).options.send_buffer;
        let udp = self.udp(key);
        udp.sending_charge = udp.sending_charge.saturating_sub(charge(bytes));
        if udp.is_writable(send_buffer) {
            self.notify_socket(key, WRITABLE);
        }
    }
}
