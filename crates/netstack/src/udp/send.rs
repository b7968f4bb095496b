//! Sending of UDP datagrams.

use super::{CmsgContext, HEADER_LEN, Protocol, SendOptions};
use crate::SocketKey;
use crate::Stack;
use crate::account::Origin;
use crate::buffers;
use crate::ip::header::header_len;
use crate::ip::route::ResolvedRoute;
use crate::ip::{IpHeader, Outbound};
use crate::mib::version;
use crate::path_mtu::heeds_routers;
use crate::send_charge::charge;
use crate::socket::Socket;
use crate::socket::SocketKind;
use crate::stamping;
use crate::{LO, address};
use belljar_linux_abi::{Errno, c};
use belljar_net::ChecksumState;
use belljar_wire::checksum;
use std::net::{IpAddr, SocketAddr};

/// Maximum payload over IPv4, and over IPv6, in bytes.
const MAX_PAYLOAD: usize = 65_507;
const MAX_PAYLOAD6: usize = 65_527;
/// `UDP_MAX_SEGMENTS`: maximum number of datagrams of one send.
const MAX_SEGMENTS: usize = 128;
/// A datagram to be sent by a socket, as supplied by its owner: a message of `sendmsg(2)`, or the bytes of a
/// traffic model.
pub trait OutgoingDatagram {
    /// Length of the payload in bytes.
    fn payload_len(&self) -> usize;
    /// The destination of the message.
    fn destination(&self) -> NamedDestination<'_>;
    /// `MSG_*` flags.
    fn flags(&self) -> i32;
    /// The settings of the control messages.
    fn options(&self, by: CmsgContext) -> Result<SendOptions, Errno>;
    /// Copies the payload to `out`, which has its length.
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Errno>;
}

/// The destination of a message.
#[derive(Clone, Copy, Debug)]
pub enum NamedDestination<'a> {
    /// The socket's peer.
    Peer,
    /// A decoded address.
    Address(SocketAddr),
    /// An encoded `struct sockaddr_*`.
    Raw(&'a [u8]),
}

/// A payload with its destination.
pub(crate) struct Bytes<'a> {
    /// The destination.
    pub to: SocketAddr,
    /// The payload.
    pub payload: &'a [u8],
}

impl OutgoingDatagram for Bytes<'_> {
    fn payload_len(&self) -> usize {
        self.payload.len()
    }
    fn destination(&self) -> NamedDestination<'_> {
        NamedDestination::Address(self.to)
    }
    fn flags(&self) -> i32 {
        0
    }
    fn options(&self, _: CmsgContext) -> Result<SendOptions, Errno> {
        Ok(SendOptions::default())
    }
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Errno> {
        out.copy_from_slice(self.payload);
        Ok(())
    }
}

/// Fails with `EMSGSIZE` if a payload exceeds the maximum of its IP version.
fn check_length(to: Option<SocketAddr>, len: usize) -> Result<(), Errno> {
    let most = if to.is_some_and(|to| to.is_ipv6()) { MAX_PAYLOAD6 } else { MAX_PAYLOAD };
    if len > most { Err(Errno::EMSGSIZE) } else { Ok(()) }
}

/// Parameters of a send to a corked datagram (`MSG_MORE`, `UDP_CORK`).
struct Collecting {
    /// Destination, present on the first part, and settings.
    to: Option<SocketAddr>,
    options: SendOptions,
    /// True if more parts follow.
    more: bool,
    /// True if the completion of the send is to be reported (`MSG_ZEROCOPY`).
    reports: bool,
}

impl Stack {
    /// Sends a datagram, or appends to a corked one: `udp_sendmsg` of Linux. Returns the length of the
    /// payload; `None` if the send buffer is full.
    pub fn udp_send(
        &mut self,
        key: SocketKey,
        message: &impl OutgoingDatagram,
    ) -> Result<Option<usize>, Errno> {
        // The port is bound even if the send fails.
        if self.sockets.udp(key).bound.is_none() {
            self.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
        }
        let (flags, len) = (message.flags(), message.payload_len());
        if flags & c::MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let domain = self.socket(key).domain;
        if domain == c::AF_INET && len > 0xffff {
            return Err(Errno::EMSGSIZE);
        }
        // A corked datagram keeps the destination of its first part.
        let collecting = self.sockets.udp(key).corked.is_some();
        let destination = match message.destination() {
            NamedDestination::Address(to) if !collecting => Some(to),
            NamedDestination::Raw(raw) if !collecting => self.udp_destination(key, raw)?,
            _ => None,
        };
        let udp = self.sockets.udp(key);
        // Only an explicit address is checked, since a socket may be connected to port 0. The IPv4 peer of an
        // IPv6 socket counts as explicit.
        let of_peer = udp.peer.filter(|peer| domain == c::AF_INET6 && peer.is_ipv4() && !collecting);
        if destination.or(of_peer).is_some_and(|to| to.port() == 0) {
            return Err(Errno::EINVAL);
        }
        if !collecting && destination.or(udp.peer).is_none() {
            return Err(Errno::EDESTADDRREQ);
        }
        let more = flags & c::MSG_MORE != 0 || udp.cork;
        let (peer, segment) = (udp.peer, udp.segment);
        let to = destination.or(peer);
        let over_v4 = to.is_none_or(|to| to.is_ipv4());
        let by = CmsgContext { v6: domain == c::AF_INET6, over_v4, udp: true };
        let mut options = if collecting { SendOptions::default() } else { message.options(by)? };
        if let Some(to) = to {
            self.check_given(key, to.ip(), &options)?;
        }
        options.segment.get_or_insert(segment);
        if let NamedDestination::Raw(raw) = message.destination() {
            options.interface = options.interface.or(address::scope(raw));
        }
        if more || collecting {
            let to = self.sockets.udp(key).corked.as_ref().map(|(to, ..)| *to).or(to);
            check_length(to, len)?;
            let reports = self.socket(key).zero_copies(flags)?;
            self.sockets[key.0].may_send()?;
            // The first part waits for space.
            if !collecting && self.sockets[key.0].is_send_buffer_full() {
                return Ok(None);
            }
            return self.udp_collect(key, message, Collecting { to, options, more, reports }).map(Some);
        }
        let destination = to.ok_or(Errno::EDESTADDRREQ)?;
        let route = self.udp_route(key, destination, &options)?;
        if peer.is_none() {
            let protocol = c::IPPROTO_UDP as u8;
            self.idents.prefetch(self.prefetch, route.source, route.destination, protocol);
        }
        if let Err(too_long) = check_length(to, len) {
            let mtu = self.sending_mtu(key, &route);
            self.queue_too_long(key, destination, mtu);
            return Err(too_long);
        }
        let reports = self.socket(key).zero_copies(flags)?;
        self.sockets[key.0].may_send()?;
        if self.sockets[key.0].is_send_buffer_full() {
            return Ok(None);
        }
        let start = header_len(route.destination) + HEADER_LEN;
        let mut packet = buffers::take();
        packet.resize(start + len, 0);
        message.copy_to(&mut packet[start..])?;
        if reports {
            self.socket(key).zero_copy_begins();
        }
        self.udp_transmit(key, &route, destination.port(), packet, &options)?;
        self.flush_network();
        Ok(Some(len))
    }

    /// Decodes the destination of a message. For an IPv6 socket `AF_UNSPEC` means no destination, and
    /// families other than `AF_INET` and `AF_INET6` are not valid.
    #[inline]
    fn udp_destination(&mut self, key: SocketKey, raw: &[u8]) -> Result<Option<SocketAddr>, Errno> {
        if self.socket(key).domain == c::AF_INET6 {
            match address::family(raw)? {
                c::AF_UNSPEC => return Ok(None),
                c::AF_INET if self.sockets.udp(key).ip.v6_only => return Err(Errno::ENETUNREACH),
                c::AF_INET | c::AF_INET6 => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        self.inet_destination(key, raw).map(Some)
    }

    /// Appends to a corked datagram, and sends it if no more parts follow (`MSG_MORE`, `UDP_CORK`).
    #[cold]
    fn udp_collect(
        &mut self,
        key: SocketKey,
        message: &impl OutgoingDatagram,
        collecting: Collecting,
    ) -> Result<usize, Errno> {
        let mut data = vec![0; message.payload_len()];
        message.copy_to(&mut data)?;
        let udp = self.sockets.udp(key);
        if udp.corked.is_none() {
            let to = collecting.to.ok_or(Errno::EDESTADDRREQ)?;
            udp.corked = Some((to, collecting.options, Vec::new()));
            udp.corked_charge = charge(header_len(to.ip()) + HEADER_LEN);
        }
        let corked = udp.corked.as_ref().map(|(to, options, collected)| (*to, *options, collected.len()));
        if let Some((to, options, collected)) = corked
            && options.segment.unwrap_or(0) == 0
            && let Ok(route) = self.route_for(key, to, options.source, options.interface)
        {
            let (mtu, len) = (self.sending_mtu(key, &route), collected + data.len());
            let len = header_len(route.destination) + HEADER_LEN + len;
            // Without space the datagram is dropped (`udp_flush_pending_frames`).
            if let Err(full) = self.sockets[key.0].check_fragments(len, mtu) {
                let udp = self.sockets.udp(key);
                (udp.corked, udp.corked_charge) = (None, 0);
                let number = udp.protocol.index();
                self.counters.udp[number][version(&route.destination)].send_buffer_full += 1;
                let socket = self.socket(key);
                if socket.zero_copy_holds() && socket.zero_copy_ends(true, true) {
                    self.zero_copy_settle(key);
                }
                return Err(full);
            }
        }
        let udp = self.sockets.udp(key);
        if let Some((to, _, collected)) = &mut udp.corked {
            check_length(Some(*to), collected.len() + data.len())?;
            // Data of later parts is allocated in pages.
            udp.corked_charge = match collected.is_empty() {
                true => charge(header_len(to.ip()) + HEADER_LEN + data.len()),
                false => udp.corked_charge + data.len() as u32,
            };
            collected.extend_from_slice(&data);
        }
        if collecting.reports {
            self.socket(key).zero_copy_begins();
        }
        if !collecting.more {
            self.udp_uncork(key)?;
        }
        Ok(data.len())
    }

    /// The route of a datagram. Fails with `EACCES` for a broadcast without `SO_BROADCAST`.
    #[inline(always)]
    fn udp_route(
        &mut self,
        key: SocketKey,
        destination: SocketAddr,
        options: &SendOptions,
    ) -> Result<ResolvedRoute, Errno> {
        let broadcast_allowed = self.socket(key).options.broadcast;
        let bound_ip = self.sockets.udp(key).bound.and_then(|bound| bound.reach.ip);
        // An IPv6 address bound by `connect` is not a source for IPv4 packets.
        let bound_ip = bound_ip.filter(|ip| ip.is_ipv4() == destination.is_ipv4());
        let source = options.source.or(bound_ip).filter(|ip| !self.interfaces.is_multipoint(*ip));
        let route = self.route_for(key, destination, source, options.interface);
        let route = self.counters.count_no_route(&destination.ip(), route)?;
        if route.broadcast && !broadcast_allowed {
            return Err(Errno::EACCES);
        }
        Ok(route)
    }

    /// Sends the payload in `packet`, preceded by space for the headers, and schedules the completion report
    /// of its `MSG_ZEROCOPY` sends.
    #[inline]
    fn udp_transmit(
        &mut self,
        key: SocketKey,
        route: &ResolvedRoute,
        port: u16,
        packet: Vec<u8>,
        options: &SendOptions,
    ) -> Result<(), Errno> {
        if options.stamps.is_some() || self.sockets[key.0].options.stamping.is_some() {
            let took_id = stamping::begin(self, key, (options.stamps, options.stamp_id));
            let sent = transmit_begun(self, key, route, port, packet, options);
            if sent.is_err() {
                stamping::abandon(self, key, took_id);
            }
            return sent;
        }
        transmit_begun(self, key, route, port, packet, options)
    }

    /// Sends the payload in `packet`, preceded by space for the headers, as one datagram or segmented
    /// (`udp_send_skb`). On `lo` the segments stay coalesced until delivery, as in Linux.
    #[inline(always)]
    fn udp_cut(
        &mut self,
        key: SocketKey,
        route: &ResolvedRoute,
        port: u16,
        packet: Vec<u8>,
        options: &SendOptions,
    ) -> Result<(), Errno> {
        let protocol = self.sockets.udp(key).protocol;
        let segment = options.segment.unwrap_or(0);
        if segment > 0 {
            return self.udp_cut_into(key, route, port, packet, options, (protocol, segment));
        }
        self.counters.udp[protocol.index()][version(&route.destination)].sent += 1;
        let sent = self.udp_output(key, route, port, packet, options, 0);
        if sent == Err(Errno::ENOBUFS) {
            let counters = &mut self.counters.udp[protocol.index()][version(&route.destination)];
            counters.sent -= 1;
            counters.send_buffer_full += 1;
        }
        sent
    }

    /// Sends the payload in `packet` in segments of the requested size. Fails with `EMSGSIZE` if a segment
    /// exceeds the MTU, with `EINVAL` for too many segments or disabled checksums, and with `EIO` for
    /// UDP-Lite.
    #[inline(never)]
    fn udp_cut_into(
        &mut self,
        key: SocketKey,
        route: &ResolvedRoute,
        port: u16,
        packet: Vec<u8>,
        options: &SendOptions,
        (protocol, segment): (Protocol, u16),
    ) -> Result<(), Errno> {
        let start = header_len(route.destination) + HEADER_LEN;
        let (size, len) = (usize::from(segment), packet.len() - start);
        let mtu = self.sending_mtu(key, route);
        if start + len.min(size) > mtu {
            return Err(Errno::EMSGSIZE);
        }
        let Socket { options: own, kind: SocketKind::Udp(udp), .. } = &self.sockets[key.0] else {
            return Err(Errno::EINVAL);
        };
        if len > size * MAX_SEGMENTS || udp.is_unchecked(own, route.destination) {
            return Err(Errno::EINVAL);
        }
        if protocol == Protocol::Lite {
            return Err(Errno::EIO);
        }
        self.counters.udp[protocol.index()][version(&route.destination)].sent += 1;
        if len <= size {
            return self.udp_output(key, route, port, packet, options, 0);
        }
        if route.interface == LO {
            return self.udp_output(key, route, port, packet, options, segment);
        }
        for piece in packet[start..].chunks(size) {
            let mut one = buffers::take();
            one.resize(start, 0);
            one.extend_from_slice(piece);
            self.udp_output(key, route, port, one, options, 0)?;
        }
        buffers::recycle(packet);
        Ok(())
    }

    /// Sends the datagram in `packet`, whose payload is preceded by space for the headers.
    fn udp_output(
        &mut self,
        key: SocketKey,
        route: &ResolvedRoute,
        port: u16,
        mut packet: Vec<u8>,
        options: &SendOptions,
        segment: u16,
    ) -> Result<(), Errno> {
        let destination = route.destination;
        let ip_len = header_len(destination);
        let now = self.clock.now();
        let (mtu, multicast) = (self.path_mtu(route, now), self.interfaces.is_multipoint(destination));
        let protocol = self.sockets.udp(key).protocol;
        let socket = &self.sockets[key.0];
        let Some(ip) = socket.ip_options() else { return Err(Errno::EINVAL) };
        let probes = !heeds_routers(ip.mtu_discover);
        let ttl = match (options.ttl, destination) {
            (Some(ttl), _) => ttl,
            (None, IpAddr::V4(v4)) if v4.is_multicast() => ip.multicast_ttl,
            (None, IpAddr::V6(v6)) if v6.is_multicast() => ip.multicast_hops,
            (None, IpAddr::V4(_)) => ip.ttl.unwrap_or(self.sysctls.default_ttl as u8),
            (None, IpAddr::V6(_)) => {
                ip.hop_limit.unwrap_or_else(|| self.v6.hop_limit(&self.interface_settings, route.interface))
            }
        };
        let fits = packet.len() <= mtu;
        let header = IpHeader {
            tos: options.tos.unwrap_or(ip.tos),
            unlabelled: !ip.flow_label,
            ttl,
            dont_fragment: self.must_not_fragment(ip.mtu_discover, route, packet.len(), now),
            ..IpHeader::new(route.source, destination, protocol.number())
        };
        let loop_back = multicast
            && match destination {
                IpAddr::V4(v4) => ip.multicast_loop || !v4.is_multicast(),
                IpAddr::V6(_) => ip.multicast_loop6,
            };
        let SocketKind::Udp(udp) = &socket.kind else { return Err(Errno::EINVAL) };
        let source_port = udp.bound.map_or(0, |bound| bound.port);
        let coverage = udp.coverage;
        let unchecked = udp.is_unchecked(&socket.options, destination);
        let whole = fits && segment == 0 && !multicast && protocol == Protocol::Udp;
        let open = whole && !unchecked && self.may_leave_open(route.interface);
        let body = &mut packet[ip_len..];
        let (len, covered) = coverage.of_sent(body.len());
        body[0..2].copy_from_slice(&source_port.to_be_bytes());
        body[2..4].copy_from_slice(&port.to_be_bytes());
        body[4..6].copy_from_slice(&len.to_be_bytes());
        if !unchecked && !open {
            let sum = match checksum::partial(route.source, destination, protocol.number(), body, covered) {
                // Zero would mean no checksum: RFC 768.
                0 => 0xffff,
                sum => sum,
            };
            body[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        let own = Outbound::new(Origin::Udp, route, header, packet);
        let checksum = if open { ChecksumState::Open } else { ChecksumState::Intact };
        let outbound = Outbound { segment, checksum, probes, loop_back, ..own };
        self.socket_output(key, port, outbound, mtu)
    }

    /// Sends the corked datagram, if any.
    pub fn udp_uncork(&mut self, key: SocketKey) -> Result<(), Errno> {
        let Some((destination, options, data)) = self.sockets.udp(key).corked.take() else { return Ok(()) };
        self.sockets.udp(key).corked_charge = 0;
        // A socket that has been disconnected since is unbound.
        if self.sockets.udp(key).bound.is_none() {
            self.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
        }
        let route = self.udp_route(key, destination, &options)?;
        let mut packet = vec![0; header_len(route.destination) + HEADER_LEN];
        packet.extend_from_slice(&data);
        self.udp_transmit(key, &route, destination.port(), packet, &options)?;
        self.flush_network();
        Ok(())
    }
}

/// Sends the payload in `packet` of a socket whose request for timestamps has begun: see
/// [`udp_transmit`](Stack::udp_transmit).
#[inline(always)]
fn transmit_begun(
    net: &mut Stack,
    key: SocketKey,
    route: &ResolvedRoute,
    port: u16,
    packet: Vec<u8>,
    options: &SendOptions,
) -> Result<(), Errno> {
    if !net.sockets[key.0].zero_copy_holds() {
        return net.udp_cut(key, route, port, packet, options);
    }
    let whole = options.segment.unwrap_or(0) == 0;
    let in_fragments = whole && packet.len() > net.path_mtu(route, net.clock.now());
    let copied = in_fragments || net.interfaces[route.interface].attachment.copies_zero_copy();
    let sent = net.udp_cut(key, route, port, packet, options);
    if net.socket(key).zero_copy_ends(copied, sent.is_err()) {
        net.zero_copy_settle(key);
    }
    sent
}
