//! IP output: completes headers, calls hooks, fragments, and queues packets.

use super::IpHeader;
use super::filtering;
use super::header::{V4_LEN, V6_LEN};
use super::hooks::HookPoint;
use super::ident::Ident;
use super::route::ResolvedRoute;
use crate::LO;
use crate::Stack;
use crate::account::{DropCause, Origin, PacketDisposition};
use crate::buffers;
use crate::flow_hash::flow_label;
use crate::interface::destination;
use crate::mib::version;
use crate::stamping;
use belljar_linux_abi::Errno;
use belljar_net::{ChecksumState, Packet, forward};
use belljar_wire::ethernet::Address;
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr};

/// A datagram to be sent. Its buffer has space for the IP header at the start, followed by the payload.
#[derive(Debug)]
pub struct Outbound<'a> {
    /// The protocol or the kind of socket that sends the datagram.
    pub origin: Origin,
    /// The route of the datagram.
    pub route: &'a ResolvedRoute,
    /// The header, except for the length, checksum and identification.
    pub header: IpHeader,
    /// The packet, with space for the header at its start.
    pub packet: Vec<u8>,
    /// Cookie reported when the packet (or each fragment) has departed; 0 for no report.
    pub cookie: u64,
    /// Payload length of each coalesced datagram, in bytes; 0 for a single datagram, as are all that leave
    /// the host.
    pub segment: u16,
    /// State of the transport checksum; partial only if the packet is not fragmented.
    pub checksum: ChecksumState,
    /// True if path MTUs reported by routers are ignored (`IP_PMTUDISC_PROBE`, `IP_PMTUDISC_INTERFACE` and
    /// `IP_PMTUDISC_OMIT`).
    pub probes: bool,
    /// True if a copy is delivered to this host (`IP_MULTICAST_LOOP`, broadcasts).
    pub loop_back: bool,
    /// Selection of the IPv4 identification.
    pub ident: Ident,
    /// The packet's mark.
    pub mark: u32,
}

/// Output parameters of a complete packet.
#[derive(Clone, Copy, Debug)]
pub struct Onward {
    /// The number of the output interface.
    pub interface: usize,
    /// The gateway; `None` if the destination is on-link.
    pub gateway: Option<IpAddr>,
    /// The hardware address of the next hop, if the sender has specified it.
    pub station: Option<Address>,
    /// MTU in bytes; a longer packet is fragmented.
    pub mtu: usize,
    /// True if a copy is delivered to this host.
    pub loop_back: bool,
    /// True if the packet does not leave the host: a multicast or broadcast packet with TTL 0.
    pub stays: bool,
}

impl Onward {
    /// Output by an interface to a gateway, without fragmentation.
    #[inline]
    pub fn by(interface: usize, gateway: Option<IpAddr>) -> Onward {
        Onward { interface, gateway, station: None, mtu: usize::MAX, loop_back: false, stays: false }
    }
}

/// Result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The packet, or its fragments, were queued on the interface.
    Queued,
    /// The packet was dropped, because the queue was full or its TTL was 0.
    Lost,
    /// A hook or a device dropped the packet, which the sender notices.
    Refused(Errno),
}

impl<'a> Outbound<'a> {
    /// A datagram with default parameters: a unicast datagram whose checksum is not yet verified.
    pub fn new(origin: Origin, route: &'a ResolvedRoute, header: IpHeader, packet: Vec<u8>) -> Outbound<'a> {
        let (checksum, ident) = (ChecksumState::Untested, Ident::OfAll);
        let (cookie, segment, probes, loop_back, mark) = (0, 0, false, false, 0);
        Outbound { origin, route, header, packet, cookie, segment, checksum, probes, loop_back, ident, mark }
    }
}

impl Stack {
    /// Sends a datagram, fragmented if it exceeds the MTU. Fails with `EMSGSIZE` if it must not be
    /// fragmented, and with `EPERM` if a hook drops it.
    pub fn ip_output(&mut self, outbound: Outbound<'_>) -> Result<(), Errno> {
        let Outbound {
            origin,
            route,
            mut header,
            mut packet,
            cookie,
            segment,
            checksum,
            probes,
            loop_back,
            ident,
            mark,
        } = outbound;
        self.counters.count_icmp_sent(&header.dst, header.protocol, &packet[header.len()..]);
        let mtu = match header.dst {
            IpAddr::V4(_) if probes => self.interfaces.mtu(route.interface),
            _ => self.path_mtu(route, self.clock.now()),
        };
        if header.dst.is_ipv4() {
            let flow = (header.src, header.dst, header.protocol);
            header.id = self.idents.evaluate(ident, self.clock.now(), flow, header.dont_fragment).into();
        } else {
            header.flow_label =
                if header.unlabelled { 0 } else { flow_label(self.flow_key, &header, &packet) };
        }
        let len = packet.len();
        if len > mtu && segment == 0 {
            debug_assert!(checksum != ChecksumState::Open, "what is cut has its checksum");
            if header.dont_fragment {
                self.counters.ip[0].not_cut += 1;
                self.packet_lost(cookie, len);
                return Err(Errno::EMSGSIZE);
            }
        }
        if loop_back && header.dst.is_ipv4() && !header.dst.is_multicast() {
            self.counters.ip[0].out_all.add(len);
        }
        header.emit(&mut packet);
        let whole = Packet::with_cookie(packet, cookie).with_checksum(checksum).with_segment(segment);
        let stays = header.ttl == 0 && self.interfaces.is_multipoint(header.dst);
        let onward = Onward { mtu, loop_back, stays, ..Onward::by(route.interface, route.gateway) };
        let outcome = self.ip_local_out(origin, &header.dst, whole.with_mark(mark), &onward);
        if outcome != SendOutcome::Queued {
            self.packet_lost(cookie, len);
        }
        if let SendOutcome::Refused(errno) = outcome { Err(errno) } else { Ok(()) }
    }

    /// Sends a local packet with a complete header to `dst`: `ip_local_out` of Linux.
    #[inline(always)]
    pub fn ip_local_out(
        &mut self,
        origin: Origin,
        dst: &IpAddr,
        packet: Packet,
        onward: &Onward,
    ) -> SendOutcome {
        let end = pass_local(self, dst, packet, onward);
        self.account.originate(origin, end);
        match end {
            end if end.is_queued() => SendOutcome::Queued,
            end => end.errno().map_or(SendOutcome::Lost, SendOutcome::Refused),
        }
    }

    /// Sends a local or forwarded packet, fragmented if it exceeds the MTU.
    #[inline(always)]
    pub(super) fn ip_finish_output(&mut self, packet: Packet, onward: &Onward) -> PacketDisposition {
        if onward.loop_back || onward.stays {
            return self.ip_finish_multipoint(packet, onward);
        }
        match self.pass_postrouting(packet, onward) {
            Some(packet) => self.ip_queue(packet, onward),
            None => PacketDisposition::dropped(DropCause::Hook),
        }
    }

    /// Sends a multicast or broadcast packet. IPv4 loops the copy back before the packet departs, IPv6
    /// afterwards (`ip_mc_output`, `ip6_finish_output2`).
    #[inline(never)]
    fn ip_finish_multipoint(&mut self, packet: Packet, onward: &Onward) -> PacketDisposition {
        let v4 = packet.open_bytes().first().is_some_and(|first| first >> 4 == 4);
        if v4 {
            self.ip_loop_back(&packet, onward);
            if onward.stays {
                return PacketDisposition::dropped(DropCause::TtlExpired);
            }
        }
        let Some(packet) = self.pass_postrouting(packet, onward) else {
            return PacketDisposition::dropped(DropCause::Hook);
        };
        if !v4 {
            self.ip_loop_back(&packet, onward);
            if onward.stays {
                return PacketDisposition::dropped(DropCause::TtlExpired);
            }
        }
        self.ip_queue(packet, onward)
    }

    #[inline(always)]
    fn pass_postrouting(&mut self, packet: Packet, onward: &Onward) -> Option<Packet> {
        match self.hooks.is_empty() {
            true => Some(packet),
            false => filtering::pass(self, HookPoint::Postrouting, packet, (None, Some(onward.interface))),
        }
    }

    /// Delivers a copy of a packet to this host if it is a member of the group, or if the packet is a
    /// broadcast.
    fn ip_loop_back(&mut self, packet: &Packet, onward: &Onward) {
        let is_looped = onward.loop_back
            && onward.interface != LO
            && match destination(packet.open_bytes()) {
                Some(IpAddr::V4(v4)) if v4.is_multicast() => self.igmp.is_member(onward.interface, v4),
                Some(IpAddr::V6(v6)) if v6.is_multicast() => {
                    self.v6.is_member(&self.interfaces, onward.interface, v6, self.sysctls.forwarding6)
                }
                Some(to) => self.interfaces.is_multipoint(to),
                None => false,
            };
        if is_looped {
            let copy = Packet::new(packet.bytes().to_vec()).with_mark(packet.mark());
            let end = match self.pass_postrouting(copy, onward) {
                Some(copy) => {
                    self.lo.queue.push_back((copy, onward.interface));
                    PacketDisposition::HELD
                }
                None => PacketDisposition::dropped(DropCause::Hook),
            };
            self.account.originate(Origin::LoopbackCopies, end);
        }
    }

    /// Queues a packet on its interface, fragmented if it exceeds the MTU.
    #[inline(always)]
    fn ip_queue(&mut self, packet: Packet, onward: &Onward) -> PacketDisposition {
        if packet.len() > onward.mtu && packet.segment() == 0 {
            return self.ip_fragment(packet, onward);
        }
        match onward.station {
            Some(station) => self.send_frame(onward.interface, station, packet),
            None => self.send_packet(onward.interface, onward.gateway, packet),
        }
    }

    /// Queues the fragments of a packet, which continues as the first one.
    #[inline(never)]
    fn ip_fragment(&mut self, packet: Packet, onward: &Onward) -> PacketDisposition {
        let (first, cookie) = stamping::of_fragments(self, packet.cookie());
        let mark = packet.mark();
        let bytes = packet.into_bytes();
        let (version, pieces) = match bytes[0] >> 4 {
            4 => (0, fragment_v4(&bytes, onward.mtu)),
            _ => (1, fragment_v6(&bytes, onward.mtu, self.v6.next_fragment_id())),
        };
        self.counters.ip[version].cut += 1;
        self.counters.ip[version].fragments_created += pieces.len() as u64;
        if pieces.is_empty() {
            self.account.release(PacketDisposition::dropped(DropCause::Malformed));
            self.packet_lost(first, bytes.len());
        } else if cookie != 0 {
            let sockets = &mut self.sockets;
            let key = sockets.of_cookie(cookie);
            if let Some(sending) = key.and_then(|key| sockets[key.0].kind.sending()) {
                sending.cut(bytes.len(), &pieces);
            }
        }
        for (number, piece) in pieces.into_iter().enumerate() {
            // The drop of one fragment makes the others useless, but Linux sends the rest too.
            let len = piece.len();
            let cookie = if number == 0 { first } else { cookie };
            let piece = Packet::with_cookie(piece, cookie).with_mark(mark);
            let end = self.send_packet(onward.interface, onward.gateway, piece);
            if !end.is_queued() {
                self.packet_lost(cookie, len);
            }
            match number {
                0 => self.account.release(end),
                _ => self.account.originate(Origin::Fragments, end),
            }
        }
        buffers::recycle(bytes);
        PacketDisposition::COUNTED
    }

    /// Sends a packet of a raw socket that has a complete header and fits the interface's MTU. Fails with
    /// `EPERM` if a hook drops it.
    pub fn send_whole(
        &mut self,
        route: &ResolvedRoute,
        to: Ipv4Addr,
        packet: Packet,
        loop_back: bool,
    ) -> Result<(), Errno> {
        let (to, bytes) = (to.into(), packet.bytes());
        self.counters.count_icmp_sent(&to, bytes[9], bytes.get(V4_LEN..).unwrap_or_default());
        let stays = bytes[8] == 0 && self.interfaces.is_multipoint(to);
        let onward = Onward { loop_back, stays, ..Onward::by(route.interface, route.gateway) };
        let (cookie, len) = (packet.cookie(), packet.len());
        let outcome = self.ip_local_out(Origin::Raw, &to, packet, &onward);
        if outcome != SendOutcome::Queued {
            self.packet_lost(cookie, len);
        }
        if let SendOutcome::Refused(errno) = outcome { Err(errno) } else { Ok(()) }
    }
}

fn fragment_v4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    forward::fragment(packet, mtu, |piece| pieces.push(piece));
    pieces
}

/// Fragments an IPv6 packet. RFC 8200, section 4.5: only its source does.
fn fragment_v6(packet: &[u8], mtu: usize, ident: u32) -> Vec<Vec<u8>> {
    let Ok(header) = ipv6::Repr::parse(packet) else { return Vec::new() };
    let step = (mtu.saturating_sub(V6_LEN + ipv6::FRAGMENT_LEN) & !7).max(8);
    let payload = &packet[V6_LEN..];
    let count = payload.len().div_ceil(step);
    let piece = |(n, piece): (usize, &[u8])| {
        let mut bytes = vec![0; V6_LEN + ipv6::FRAGMENT_LEN];
        bytes.extend_from_slice(piece);
        let (next_header, offset, more) = (header.next_header, n * step, n + 1 < count);
        ipv6::Fragment { next_header, offset, more, ident }.emit(&mut bytes[V6_LEN..]);
        let payload_len = bytes.len() - V6_LEN;
        ipv6::Repr { next_header: ipv6::extension::FRAGMENT, payload_len, ..header }.emit(&mut bytes);
        bytes
    };
    payload.chunks(step).enumerate().map(piece).collect()
}

/// Passes a local packet by the hooks of the output, and sends it. Its disposition is for the caller to count.
#[inline(always)]
pub(crate) fn pass_local(
    stack: &mut Stack,
    dst: &IpAddr,
    packet: Packet,
    onward: &Onward,
) -> PacketDisposition {
    stack.counters.ip[version(dst)].out_requests += 1;
    match stack.hooks.is_empty() {
        true => {
            stack.counters.count_sent(dst, packet.len());
            stack.ip_finish_output(packet, onward)
        }
        false => filtering::output(stack, dst, packet, onward),
    }
}
