//! IP input: validates headers, reassembles fragments, and delivers packets to the protocols.

use super::IpHeader;
use super::filtering;
use super::fragment::{Added, Expired};
use super::hooks::HookPoint;
use crate::LO;
use crate::Stack;
use crate::StackTimer;
use crate::account::{DropCause, PacketDisposition, Receiver};
use crate::buffers;
use crate::conf::v4;
use crate::devices::{self, vrf};
use crate::family::RouteQuery;
use crate::interfaces::is_multipoint;
use crate::mib::{Cast, version};
use crate::multicast::IGMP;
use crate::udp::Protocol;
use crate::v6::device_for;
use belljar_net::forward::ForwardError;
use belljar_net::routes::RouteKind;
use belljar_net::{ChecksumState, Packet};
use belljar_wire::{ParseError, protocol};
use std::net::IpAddr;
use std::ops::Range;

/// A received packet with its parsed header.
#[derive(Debug)]
pub struct Inbound {
    /// The number of the input interface.
    pub interface: usize,
    /// State of the transport checksum.
    pub checksum: ChecksumState,
    /// Payload length of each coalesced datagram, in bytes; 0 for a single datagram.
    pub segment: u16,
    /// The packet's mark.
    pub mark: u32,
    /// The packet's attachment of connection tracking.
    pub tracking: u64,
    /// The IP header.
    pub header: IpHeader,
    /// The bytes of the packet.
    pub packet: Vec<u8>,
    /// Range of the IP payload in the packet.
    pub payload: Range<usize>,
}

impl Inbound {
    /// The payload that follows the IP header.
    pub fn payload(&self) -> &[u8] {
        &self.packet[self.payload.clone()]
    }
    /// Completes a partial transport checksum before the bytes become visible.
    pub fn fill_checksum(&mut self) {
        self.checksum.fill(&mut self.packet);
    }
}

/// Passes a packet by the first hook, and delivers or forwards it.
#[inline(always)]
fn route_input(stack: &mut Stack, mut inbound: Inbound) -> PacketDisposition {
    if !stack.hooks.is_empty()
        && let Err(cause) = stack.pass_input_hooks(HookPoint::Prerouting, &mut inbound)
    {
        return PacketDisposition::dropped(cause);
    }
    let (interface, header) = (inbound.interface, &inbound.header);
    if !stack.interface_settings.is_plain() && stack.source_is_refused(interface, header) {
        stack.counters.wrong_sources += 1;
        buffers::recycle(inbound.packet);
        return PacketDisposition::dropped(DropCause::ReversePath);
    }
    let Some(cast) = stack.is_for_us(interface, header.dst, header.src) else {
        let packet = Packet::new(inbound.packet)
            .with_checksum(inbound.checksum)
            .with_mark(inbound.mark)
            .with_tracking(inbound.tracking);
        return stack.ip_pass_on(interface, header.dst, packet);
    };
    let version = version(&header.dst);
    stack.counters.count_cast(version, inbound.payload.end, cast);
    match version == 0 && inbound.header.is_fragment() {
        true => stack.fragment_input(inbound, false),
        false => stack.local_input(inbound),
    }
}

impl Stack {
    /// Processes a packet received on `interface`.
    pub fn ip_input(&mut self, interface: usize, packet: Packet) -> PacketDisposition {
        let (checksum, segment) = (packet.checksum(), packet.segment());
        let (mark, tracking) = (packet.mark(), packet.tracking());
        let packet = packet.into_open_bytes();
        let (header, payload) = match IpHeader::parse(&packet) {
            Ok(parsed) => parsed,
            Err(why) => {
                self.counters.malformed += 1;
                let counters =
                    &mut self.counters.ip[usize::from(packet.first().is_some_and(|b| b >> 4 == 6))];
                counters.received.packets += 1;
                counters.in_truncated += u64::from(why == ParseError::Truncated);
                counters.in_header_errors += u64::from(why != ParseError::Truncated);
                counters.in_wrong_checksums += u64::from(why == ParseError::Checksum);
                buffers::recycle(packet);
                return PacketDisposition::dropped(match why {
                    ParseError::Checksum => DropCause::Checksum,
                    _ => DropCause::Malformed,
                });
            }
        };
        if header.dst.is_ipv6()
            && interface != LO
            && (!self.v6.on || self.interface_settings.disables6(interface))
        {
            buffers::recycle(packet);
            return PacketDisposition::dropped(DropCause::Ipv6Disabled);
        }
        let version = version(&header.dst);
        self.counters.count_received(version, payload.end, header.tos);
        let inbound = Inbound { interface, checksum, segment, mark, tracking, header, packet, payload };
        let tracked_part = !self.hooks.is_empty() && version == 0 && inbound.header.is_fragment();
        if tracked_part && filtering::tracks(self) {
            return self.fragment_input(inbound, true);
        }
        route_input(self, inbound)
    }

    /// Delivers a packet for this host: a complete datagram, or an IPv6 fragment.
    #[inline(always)]
    fn local_input(&mut self, mut inbound: Inbound) -> PacketDisposition {
        if !self.hooks.is_empty() {
            if let Err(cause) = self.pass_input_hooks(HookPoint::Input, &mut inbound) {
                return PacketDisposition::dropped(cause);
            }
            if self.devices.is_some() {
                devices::ipvlan::after_hooks(self, &mut inbound);
            }
        }
        match inbound.header.is_fragment() {
            true => self.fragment_input(inbound, false),
            false => self.whole_input(inbound),
        }
    }

    /// Forwards a packet for another host, or drops it if forwarding is disabled.
    #[inline(never)]
    fn ip_pass_on(&mut self, interface: usize, to: IpAddr, packet: Packet) -> PacketDisposition {
        if self.interface_settings.forwards(&self.sysctls, to.is_ipv6(), interface)
            && interface != LO
            && !is_multipoint(to)
        {
            return match to {
                IpAddr::V4(_) => self.ip_forward(interface, packet),
                IpAddr::V6(_) => self.ip_forward6(interface, packet),
            };
        }
        self.counters.not_for_us += 1;
        self.counters.ip[version(&to)].in_address_errors += 1;
        buffers::recycle(packet.into_open_bytes());
        match is_multipoint(to) {
            true => PacketDisposition::consumed(Receiver::OtherAddress),
            false => PacketDisposition::dropped(DropCause::ForwardingOff),
        }
    }

    /// True if reverse path filtering rejects a packet's source, because the route to it leaves by another
    /// interface (`rp_filter`; `fib_validate_source` of Linux, RFC 3704).
    #[cold]
    fn source_is_refused(&self, interface: usize, header: &IpHeader) -> bool {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (header.src, header.dst) else { return false };
        let level = self.interface_settings.greatest(v4::RP_FILTER, interface);
        let exempt = level == 0 || interface == LO || from.is_unspecified() || to.is_multicast();
        if exempt || self.interfaces.with_address(from).is_some() {
            return false;
        }
        let asked = RouteQuery { tos: header.tos, ..RouteQuery::own(from, Some(to)) };
        match self.lookup(&asked, || 0) {
            Ok(Some(found)) if found.route.kind == RouteKind::Unicast => {
                level == 1 && found.route.hops.iter().all(|hop| hop.interface != interface)
            }
            _ => true,
        }
    }

    /// Adds a fragment to its reassembly, and delivers the datagram once complete. `unrouted` is true for a
    /// datagram that has not passed the first hook, since connection tracking needs it whole.
    #[inline(never)]
    fn fragment_input(&mut self, part: Inbound, unrouted: bool) -> PacketDisposition {
        let Inbound { interface, mark, tracking, header, packet, payload, .. } = part;
        let now = self.clock.now();
        let version = version(&header.dst);
        let until = now + self.sysctls.fragment_times[version];
        self.counters.ip[version].fragments += 1;
        let added = self.reassembly.add(until, interface, &header, &packet, payload);
        if let Added::Wrong(at) = added {
            self.refuse6(interface, &packet, ForwardError::Malformed(at));
        }
        buffers::recycle(packet);
        self.set_reassembly_timer();
        let (header, packet, fragments) = match added {
            Added::Whole { header, packet, fragments } => (header, packet, fragments),
            Added::Waits => return PacketDisposition::HELD,
            Added::Dropped { queued } => {
                let dropped = PacketDisposition::dropped(DropCause::Reassembly);
                self.account.release_all(queued, dropped);
                return dropped;
            }
            Added::Wrong(_) => return PacketDisposition::dropped(DropCause::Malformed),
        };
        self.account.release_all(fragments - 1, PacketDisposition::consumed(Receiver::Reassembly));
        self.counters.ip[version].reassembled += 1;
        let payload = header.len()..packet.len();
        let checksum = ChecksumState::Untested;
        let whole = Inbound { interface, checksum, segment: 0, mark, tracking, header, packet, payload };
        match header.dst {
            IpAddr::V4(_) if unrouted => route_input(self, whole),
            IpAddr::V4(_) => self.local_input(whole),
            IpAddr::V6(_) => self.whole_input(whole),
        }
    }

    /// Delivers a complete datagram to its protocol.
    #[inline(always)]
    fn whole_input(&mut self, mut inbound: Inbound) -> PacketDisposition {
        let version = version(&inbound.header.dst);
        self.counters.ip[version].whole += 1;
        let taken = self.raw_input(&mut inbound);
        let (interface, header) = (inbound.interface, &inbound.header);
        match header.protocol {
            protocol::UDP => self.udp_input(Protocol::Udp, inbound),
            protocol::UDP_LITE => self.udp_input(Protocol::Lite, inbound),
            protocol::TCP => self.tcp_input(inbound),
            protocol::ICMP if header.dst.is_ipv4() => self.icmp_input(inbound),
            protocol::ICMPV6 if header.dst.is_ipv6() => self.icmp_input(inbound),
            IGMP if header.dst.is_ipv4() => {
                self.igmp_input(interface, inbound.payload());
                buffers::recycle(inbound.packet);
                PacketDisposition::consumed(Receiver::Igmp)
            }
            _ if self.devices.is_some()
                && let Some(end) = devices::receive_ip(self, &inbound) =>
            {
                buffers::recycle(inbound.packet);
                end
            }
            _ if let Some(end) = taken => {
                buffers::recycle(inbound.packet);
                end
            }
            _ => {
                self.counters.ip[version].in_unknown_protocols += 1;
                self.send_unreachable(&mut inbound, super::icmp::Unreachable::Protocol);
                PacketDisposition::dropped(DropCause::NoSocket)
            }
        }
    }

    /// Schedules the next reassembly timeout.
    fn set_reassembly_timer(&mut self) {
        let next = self.reassembly.next_timeout();
        self.timers.set(&mut self.reassembly_timer, next, StackTimer::Reassembly);
    }

    /// Drops datagrams whose reassembly has timed out, and sends Time Exceeded errors (RFC 792; RFC 4443,
    /// section 3.3).
    pub fn reassembly_timer(&mut self) {
        self.reassembly_timer = None;
        while let Some(expired) = self.reassembly.expire(self.clock.now()) {
            let Expired { interface, first, fragments } = expired;
            self.account.release_all(fragments, PacketDisposition::dropped(DropCause::Reassembly));
            let Some(first) = first else { continue };
            match first.first().map(|byte| byte >> 4) {
                Some(4) => self.refuse(&first, ForwardError::ReassemblyTimeExceeded),
                _ => self.refuse6(interface, &first, ForwardError::ReassemblyTimeExceeded),
            }
        }
        self.set_reassembly_timer();
        self.flush_network();
    }

    /// The kind of a packet's destination if the packet is for this host; `None` otherwise.
    fn is_for_us(&self, interface: usize, dst: IpAddr, src: IpAddr) -> Option<Cast> {
        let (is_ours, cast) = match dst {
            // A packet for 127/8 from the network is a martian.
            IpAddr::V4(v4) if v4.is_loopback() => (interface == LO, Cast::One),
            IpAddr::V4(v4) if self.interfaces[interface].addresses.iter().any(|own| own.ip == v4) => {
                (true, Cast::One)
            }
            IpAddr::V4(v4) if v4.is_multicast() => {
                let takes = matches!(src, IpAddr::V4(src) if self.igmp.takes(interface, v4, src));
                (takes, Cast::Group)
            }
            IpAddr::V4(v4) if self.interfaces.is_broadcast(v4) => (true, Cast::All),
            IpAddr::V6(v6) if v6.is_multicast() => {
                (self.v6.is_member(&self.interfaces, interface, v6, self.sysctls.forwarding6), Cast::Group)
            }
            IpAddr::V6(v6) if v6.is_loopback() => (interface == LO, Cast::One),
            // A tentative address receives solicitations before its uniqueness is established.
            IpAddr::V6(v6) if device_for(dst, interface).is_some() => {
                let own = &self.interfaces[interface].addresses6;
                (own.iter().any(|own| own.ip == v6), Cast::One)
            }
            _ if self.interfaces.has_vrfs => (vrf::is_local_within(self, interface, dst), Cast::One),
            _ => (self.is_local(dst), Cast::One),
        };
        is_ours.then_some(cast)
    }

    /// Calls the hooks of a point on a received packet, and parses its header again. Fails if the packet is
    /// dropped.
    #[cold]
    #[inline(never)]
    fn pass_input_hooks(&mut self, point: HookPoint, inbound: &mut Inbound) -> Result<(), DropCause> {
        let packet = Packet::new(std::mem::take(&mut inbound.packet))
            .with_checksum(inbound.checksum)
            .with_segment(inbound.segment)
            .with_mark(inbound.mark)
            .with_tracking(inbound.tracking);
        let Some(packet) = filtering::pass(self, point, packet, (Some(inbound.interface), None)) else {
            return Err(DropCause::Hook);
        };
        (inbound.checksum, inbound.mark) = (packet.checksum(), packet.mark());
        inbound.tracking = packet.tracking();
        inbound.packet = packet.into_bytes();
        match IpHeader::parse(&inbound.packet) {
            Ok(parsed) => (inbound.header, inbound.payload) = parsed,
            Err(_) => {
                self.counters.malformed += 1;
                self.counters.ip[version(&inbound.header.dst)].in_header_errors += 1;
                buffers::recycle(std::mem::take(&mut inbound.packet));
                return Err(DropCause::Malformed);
            }
        }
        Ok(())
    }
}
