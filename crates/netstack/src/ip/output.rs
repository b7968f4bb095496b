//! Output of IP: finishes headers, fragments, and queues packets.

use super::IpHeader;
use super::header::{V4_LEN, V6_LEN};
use super::ident::Ident;
use super::route::ResolvedRoute;
use crate::LO;
use crate::Stack;
use belljar_linux_abi::Errno;
use belljar_net::{ChecksumState, Packet};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr};

/// A datagram ready to go: its buffer has room for the IP header at the start and holds everything
/// behind it.
#[derive(Debug)]
pub struct Outbound<'a> {
    /// Where it goes.
    pub route: &'a ResolvedRoute,
    /// Its header but for length, checksum and identification.
    pub header: IpHeader,
    /// The whole packet.
    pub packet: Vec<u8>,
    /// Told when the packet (each fragment) has left; 0 for nobody.
    pub cookie: u64,
    /// The payload of each datagram that it is made of, in bytes; 0 if it is one, as all are that leave the host.
    pub segment: u16,
    /// State of the transport checksum; open only if the packet is not fragmented.
    pub checksum: ChecksumState,
    /// True if the path MTU that routers have told is ignored (`IP_PMTUDISC_PROBE` and its kin).
    pub probes: bool,
    /// True if a copy is delivered to this host too (`IP_MULTICAST_LOOP`, broadcasts).
    pub loop_back: bool,
    /// Its identification, of IPv4.
    pub ident: Ident,
}

impl<'a> Outbound<'a> {
    /// One whose sender wants nothing else of it: one datagram to one host, whose checksum anything may have made.
    pub fn new(route: &'a ResolvedRoute, header: IpHeader, packet: Vec<u8>) -> Outbound<'a> {
        let (checksum, ident) = (ChecksumState::Untested, Ident::OfAll);
        let (cookie, segment, probes, loop_back) = (0, 0, false, false);
        Outbound { route, header, packet, cookie, segment, checksum, probes, loop_back, ident }
    }
}

impl Stack {
    /// Sends a datagram, in fragments if it is larger than the MTU and may be cut. `EMSGSIZE` if it
    /// may not.
    pub fn ip_output(&mut self, mut outbound: Outbound<'_>) -> Result<(), Errno> {
        let Outbound { route, header, packet, cookie, segment, checksum, probes, loop_back, ident } =
            &mut outbound;
        let (route, cookie, segment, ident) = (*route, *cookie, *segment, *ident);
        self.count_own(&header.dst, packet.len(), header.protocol, &packet[header.len()..]);
        let mtu = match header.dst {
            IpAddr::V4(_) if *probes => self.mtu(route.interface),
            _ => self.path_mtu(route, self.clock.now()),
        };
        if header.dst.is_ipv4() {
            let (src, dst, protocol, uncut) = (header.src, header.dst, header.protocol, header.dont_fragment);
            header.id = self.ident_of(ident, src, dst, protocol, uncut).into();
        } else {
            header.flow_label = if header.unlabelled { 0 } else { self.flow_label(header, packet) };
        }
        if *loop_back && header.dst.is_ipv4() && !header.dst.is_multicast() {
            self.counters.ip[0].out_all.add(packet.len());
        }
        if *loop_back && self.is_looped(route, header.dst) {
            let mut copy = packet.clone();
            header.emit(&mut copy);
            self.loop_back(route.interface, copy);
        }
        if header.ttl == 0 && self.is_multipoint(header.dst) {
            // It is for this host alone.
            self.packet_lost(cookie, packet.len());
            return Ok(());
        }
        if packet.len() <= mtu || segment > 0 {
            header.emit(packet);
            let len = packet.len();
            let packet = std::mem::take(packet);
            let whole = Packet::with_cookie(packet, cookie).with_checksum(*checksum).with_segment(segment);
            if !self.queue_packet(route, whole) {
                self.packet_lost(cookie, len);
            }
            return Ok(());
        }
        self.ip_output_pieces(outbound, mtu)
    }

    /// The same with a packet that is longer than `mtu`.
    #[inline(never)]
    fn ip_output_pieces(&mut self, outbound: Outbound<'_>, mtu: usize) -> Result<(), Errno> {
        let Outbound { route, mut header, packet, cookie, checksum, .. } = outbound;
        debug_assert!(checksum != ChecksumState::Open, "what is cut has its checksum");
        if header.dont_fragment {
            self.counters.ip[0].not_cut += 1;
            return Err(Errno::EMSGSIZE);
        }
        if matches!(header.dst, IpAddr::V6(_)) {
            return self.fragment_v6(route, header, packet, cookie, mtu);
        }
        let step = (mtu.saturating_sub(V4_LEN) & !7).max(8);
        let payload = &packet[V4_LEN..];
        let pieces = payload.len().div_ceil(step);
        self.counters.ip[0].cut += 1;
        self.counters.ip[0].fragments_created += pieces as u64;
        for n in 0..pieces {
            let piece = &packet[V4_LEN + n * step..packet.len().min(V4_LEN + (n + 1) * step)];
            let mut fragment = Vec::with_capacity(V4_LEN + piece.len());
            fragment.resize(V4_LEN, 0);
            fragment.extend_from_slice(piece);
            header.more_fragments = n + 1 < pieces;
            header.fragment_offset = n * step;
            header.emit(&mut fragment);
            // Losing one loses all: Linux goes on sending the rest.
            self.queue_packet(route, Packet::with_cookie(fragment, cookie));
        }
        self.recycle_buffer(packet);
        Ok(())
    }

    /// True if this host hears what it sends to a group, or to all.
    fn is_looped(&self, route: &ResolvedRoute, to: IpAddr) -> bool {
        match to {
            _ if route.interface == LO => false,
            IpAddr::V4(v4) if v4.is_multicast() => self.igmp.is_member(route.interface, v4),
            IpAddr::V6(v6) if v6.is_multicast() => self.is_member6(route.interface, v6),
            _ => self.is_multipoint(to),
        }
    }

    /// Sends a packet whose header is complete and that fits into the interface's MTU.
    pub fn send_whole(&mut self, route: &ResolvedRoute, to: Ipv4Addr, packet: Vec<u8>, loop_back: bool) {
        self.count_own(&to.into(), packet.len(), packet[9], packet.get(V4_LEN..).unwrap_or_default());
        if loop_back && self.is_looped(route, to.into()) {
            self.loop_back(route.interface, packet.clone());
        }
        if packet[8] > 0 || !self.is_multipoint(to.into()) {
            self.queue_packet(route, Packet::new(packet));
        }
    }

    /// RFC 8200, section 4.5: only who sends an IPv6 packet cuts it.
    fn fragment_v6(
        &mut self,
        route: &ResolvedRoute,
        header: IpHeader,
        packet: Vec<u8>,
        cookie: u64,
        mtu: usize,
    ) -> Result<(), Errno> {
        let ident = self.v6.next_fragment_id();
        let step = (mtu.saturating_sub(V6_LEN + ipv6::FRAGMENT_LEN) & !7).max(8);
        let payload = &packet[V6_LEN..];
        let pieces = payload.chunks(step);
        let count = pieces.len();
        self.counters.ip[1].cut += 1;
        self.counters.ip[1].fragments_created += count as u64;
        for (n, piece) in pieces.enumerate() {
            let mut bytes = vec![0; V6_LEN + ipv6::FRAGMENT_LEN];
            bytes.extend_from_slice(piece);
            let (next_header, offset, more) = (header.protocol, n * step, n + 1 < count);
            ipv6::Fragment { next_header, offset, more, ident }.emit(&mut bytes[V6_LEN..]);
            IpHeader { protocol: ipv6::extension::FRAGMENT, ..header }.emit(&mut bytes);
            self.queue_packet(route, Packet::with_cookie(bytes, cookie));
        }
        self.recycle_buffer(packet);
        Ok(())
    }
}
