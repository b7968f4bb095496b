//! Sending by raw sockets.

use crate::account::Origin;
use crate::buffers;
use crate::ip::ident::Ident;
use crate::ip::route::ResolvedRoute;
use crate::ip::{IpHeader, Outbound};
use crate::path_mtu::heeds_routers;
use crate::send_charge::UNCHARGED_QUEUE;
use crate::stamping;
use crate::udp::SendOptions;
use crate::{LO, SocketKey, Stack};
use belljar_linux_abi::Errno;
use belljar_net::{Packet, forward};
use belljar_wire::checksum;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// An ICMP error about a packet sent by a raw socket.
pub struct RawError<'a> {
    /// The IP protocol number of the quoted packet.
    pub protocol: u8,
    /// Source address of the quoted packet.
    pub local: IpAddr,
    /// Destination address of the quoted packet.
    pub remote: IpAddr,
    /// The error's errno.
    pub errno: Errno,
    /// Type, code, and the additional value (the MTU).
    pub icmp: (u8, u8, u32),
    /// The node that sent the error.
    pub offender: IpAddr,
    /// The quoted packet without its IP header.
    pub quoted: &'a [u8],
}

impl Stack {
    /// Sends the data of a raw socket: a payload, or with `IP_HDRINCL` a complete packet. Returns false if a complete
    /// packet has to wait for space in the send buffer; a payload fails with `ENOBUFS` instead.
    pub fn raw_output(
        &mut self,
        key: SocketKey,
        to: IpAddr,
        data: Vec<u8>,
        options: &SendOptions,
    ) -> Result<bool, Errno> {
        let local = self.sockets.raw(key).local.filter(|ip| !self.interfaces.is_multipoint(*ip));
        let source = options.source.or(local);
        let route = self.route_for(key, SocketAddr::new(to, 0), source, options.interface)?;
        if route.broadcast && !self.socket(key).options.broadcast {
            return Err(Errno::EACCES);
        }
        let stamped = options.stamps.is_some() || self.sockets[key.0].options.stamping.is_some();
        let took_id = stamped && stamping::begin(self, key, (options.stamps, options.stamp_id));
        let raw = self.sockets.raw(key);
        let sent = match raw.header_included && to.is_ipv4() {
            true => self.raw_whole_packet(key, route, data),
            false => self.raw_payload(key, route, data, options),
        };
        if stamped && sent != Ok(true) {
            stamping::abandon(self, key, took_id);
        }
        sent
    }

    fn raw_payload(
        &mut self,
        key: SocketKey,
        route: ResolvedRoute,
        mut data: Vec<u8>,
        options: &SendOptions,
    ) -> Result<bool, Errno> {
        let destination = route.destination;
        let multipoint = self.interfaces.is_multipoint(destination);
        let multicast = matches!(destination, IpAddr::V4(v4) if v4.is_multicast());
        let usual_hops = self.v6.hop_limit(&self.interface_settings, route.interface);
        let default_ttl = self.sysctls.default_ttl as u8;
        let raw = self.sockets.raw(key);
        let protocol = raw.protocol;
        if let (Some(at), IpAddr::V6(_)) = (raw.checksum_at, destination) {
            let field = data.get_mut(at..at + 2).ok_or(Errno::EINVAL)?;
            field.fill(0);
            let sum = checksum::transport(route.source, destination, protocol, &data);
            data[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let ttl = match (options.ttl, destination) {
            (Some(ttl), _) => ttl,
            (None, _) if multicast => raw.end.ip.multicast_ttl,
            (None, IpAddr::V4(_)) => raw.end.ip.ttl.unwrap_or(default_ttl),
            (None, IpAddr::V6(v6)) if v6.is_multicast() => raw.end.ip.multicast_hops,
            (None, IpAddr::V6(_)) => raw.end.ip.hop_limit.unwrap_or(usual_hops),
        };
        let mut header = IpHeader {
            tos: options.tos.unwrap_or(raw.end.ip.tos),
            ttl,
            ..IpHeader::new(route.source, destination, protocol)
        };
        let discover = raw.end.ip.mtu_discover;
        let loops =
            if destination.is_ipv4() { raw.end.ip.multicast_loop } else { raw.end.ip.multicast_loop6 };
        let loop_back = multipoint && loops;
        let now = self.clock.now();
        header.dont_fragment = self.must_not_fragment(discover, &route, data.len() + header.len(), now);
        let mut packet = buffers::take();
        packet.resize(header.len(), 0);
        packet.extend_from_slice(&data);
        let probes = !heeds_routers(discover);
        let own = Outbound::new(Origin::Raw, &route, header, packet);
        let outbound = Outbound { probes, loop_back, ..own };
        let mtu = self.sending_mtu(key, &route);
        self.socket_output(key, 0, outbound, mtu).map(|()| true)
    }

    /// Sends a complete packet (`IP_HDRINCL`). The kernel always sets length and checksum, and source and
    /// identification if they are 0.
    fn raw_whole_packet(
        &mut self,
        key: SocketKey,
        route: ResolvedRoute,
        mut data: Vec<u8>,
    ) -> Result<bool, Errno> {
        let mtu = self.interfaces.mtu(route.interface);
        if data.len() > mtu {
            self.queue_too_long(key, SocketAddr::new(route.destination, 0), mtu);
            return Err(Errno::EMSGSIZE);
        }
        let header_len = data.first().map_or(0, |first| usize::from(first & 0xf) * 4);
        if data.len() < 20 || data[0] >> 4 != 4 || header_len < 20 || header_len > data.len() {
            return Err(Errno::EINVAL);
        }
        if self.socket(key).is_send_buffer_full() {
            return Ok(false);
        }
        let total = data.len() as u16;
        data[2..4].copy_from_slice(&total.to_be_bytes());
        if forward::source(&data).is_unspecified()
            && let IpAddr::V4(own) = route.source
        {
            data[12..16].copy_from_slice(&own.octets());
        }
        if data[4..6] == [0, 0] {
            let (src, dst) = (forward::source(&data).into(), forward::destination(&data).into());
            let ident = self.idents.evaluate(
                Ident::OfAll,
                self.clock.now(),
                (src, dst, data[9]),
                data[6] & 0x40 != 0,
            );
            data[4..6].copy_from_slice(&ident.to_be_bytes());
        }
        data[10..12].fill(0);
        let sum = checksum::internet(&data[..header_len]);
        data[10..12].copy_from_slice(&sum.to_be_bytes());
        let to: Ipv4Addr = forward::destination(&data);
        let loop_back = self.sockets.raw(key).end.ip.multicast_loop;
        let mark = self.socket(key).options.mark;
        let waits = self.queue_len(route.interface) >= UNCHARGED_QUEUE && route.interface != LO;
        let mut cookie = if waits { self.sockets[key.0].charge(key, data.len()) } else { 0 };
        if self.sockets[key.0].options.stamping.is_some() {
            cookie = stamping::attach(self, key, cookie);
        }
        self.send_whole(&route, to, Packet::with_cookie(data, cookie).with_mark(mark), loop_back)
            .map(|()| true)
    }
}
