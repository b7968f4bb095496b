//! The IPv6 part of a router: forwards, asks for neighbours, answers what is meant for itself, and announces
//! itself on the links where it is told to (RFC 4861).

use super::{Router, RouterInterface};
use crate::Packet;
use crate::forward::ForwardError;
use crate::forward6;
use crate::neighbour::{NeighbourEvent, Neighbours};
use crate::routes::{InterfaceAddress, NextHop, Route, RouteKind, RouteTable, protocol};
use belljar_base::{SimDuration, SimTime, Stream};
use belljar_wire::ethernet::{Address, ethertype};
use belljar_wire::icmpv6::{self, DISCOVERY_HOP_LIMIT, Discovery, PrefixInformation, kind};
use belljar_wire::{checksum, ipv6, protocol as ip_protocol};
use std::net::Ipv6Addr;

/// `MinRtrAdvInterval` and `MaxRtrAdvInterval` of RFC 4861, section 6.2.1, in seconds.
const ADVERT_INTERVAL: (u64, u64) = (200, 600);
/// `MAX_INITIAL_RTR_ADVERT_INTERVAL`: the first ones come sooner, so many of them.
const INITIAL_INTERVAL: SimDuration = SimDuration::from_secs(16);
const INITIAL_ADVERTS: u8 = 3;
/// `MAX_RA_DELAY_TIME` in milliseconds.
const ANSWER_DELAY_MS: u64 = 500;
/// `AdvDefaultLifetime`: three times the longest interval.
const LIFETIME: u16 = 1_800;
/// `AdvValidLifetime` and `AdvPreferredLifetime`: 30 and 7 days.
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;

/// IPv6 state of a router.
#[derive(Debug)]
pub(super) struct RouterV6 {
    routes: RouteTable<Ipv6Addr>,
    neighbours: Neighbours<Ipv6Addr>,
    stream: Stream,
    /// By interface that announces: when the next announcement goes, and how many have gone.
    adverts: Vec<Option<(SimTime, u8)>>,
}

/// The link-local address of an interface.
fn link_local(interface: &RouterInterface) -> Ipv6Addr {
    ipv6::eui64(ipv6::LINK_LOCAL, interface.mac.0)
}

impl Router {
    /// Takes IPv6 into use. What it draws comes from `stream`.
    pub fn start_v6(&mut self, stream: &mut Stream) {
        let mut routes = RouteTable::default();
        for (number, interface) in self.interfaces.iter().enumerate() {
            for own in &interface.addresses6 {
                let route = Route { source: Some(own.ip), ..Route::by(number, None, protocol::KERNEL) };
                routes.insert(own.network(), 0, route);
            }
        }
        let neighbours = Neighbours::new(stream);
        let first =
            |stream: &mut Stream| SimTime::ZERO + SimDuration::from_millis(stream.below(ANSWER_DELAY_MS));
        let adverts = self.interfaces.iter().map(|i| i.advertise.then(|| (first(stream), 0))).collect();
        self.v6 = Some(Box::new(RouterV6 { routes, neighbours, stream: stream.clone(), adverts }));
    }

    /// Its IPv6 routes.
    pub fn routes6(&self) -> &RouteTable<Ipv6Addr> {
        self.v6.as_ref().map_or(&self.unused6, |v6| &v6.routes)
    }
    /// Its IPv6 routes, to change them; without IPv6 a table that nobody reads.
    pub fn routes6_mut(&mut self) -> &mut RouteTable<Ipv6Addr> {
        match &mut self.v6 {
            Some(v6) => &mut v6.routes,
            None => &mut self.unused6,
        }
    }

    pub(super) fn ip6(&mut self, now: SimTime, port: usize, mut bytes: Vec<u8>, to_all: bool) {
        if self.v6.is_none() {
            return;
        }
        let (Ok(header), Ok(upper)) = (ipv6::Repr::parse(&bytes), ipv6::upper(&bytes)) else {
            self.counters.malformed += 1;
            return;
        };
        bytes.truncate(ipv6::HEADER_LEN + header.payload_len);
        let to = header.dst;
        if to.is_multicast() || self.is_own6(to) {
            let whole = upper.fragment.is_none();
            if whole && upper.protocol == ip_protocol::ICMPV6 {
                self.icmp6(now, port, &bytes, &header, upper.payload.start);
            } else if whole && !to.is_multicast() && !self.is_own6(header.src) {
                let ports = matches!(upper.protocol, ip_protocol::UDP | ip_protocol::UDP_LITE);
                let why =
                    if ports { ForwardError::PortUnreachable } else { ForwardError::ProtocolUnreachable };
                self.refuse6(now, port, &bytes, why, Some(to));
            }
            return;
        }
        if !to_all && !to.is_loopback() {
            self.forward6(now, port, bytes, &header);
        }
    }

    fn forward6(&mut self, now: SimTime, port: usize, mut bytes: Vec<u8>, header: &ipv6::Repr) {
        let no_host = header.src.is_unspecified() || header.src.is_multicast() || header.src.is_loopback();
        // Addresses of one link don't leave it.
        if no_host || ipv6::is_link_scope(header.src) || ipv6::is_link_scope(header.dst) {
            self.counters.no_route += 1;
            return;
        }
        if header.hop_limit <= 1 {
            self.counters.expired += 1;
            return self.refuse6(now, port, &bytes, ForwardError::TimeExceeded, None);
        }
        let Some(v6) = &self.v6 else { return };
        let hash = forward6::flow_hash(self.flow_key, &bytes);
        let found = v6.routes.lookup(header.dst, || hash, |hop| hop.interface < self.ports.len());
        let hop = match found {
            Some((_, Some(hop))) => hop,
            Some((route, None)) if route.kind == RouteKind::Blackhole => {
                self.counters.no_route += 1;
                return;
            }
            found => {
                let prohibited = found.is_some_and(|(route, _)| route.kind == RouteKind::Prohibit);
                let why =
                    if prohibited { ForwardError::Prohibited } else { ForwardError::NetworkUnreachable };
                self.counters.no_route += 1;
                return self.refuse6(now, port, &bytes, why, None);
            }
        };
        let mtu = self.interfaces[hop.interface].mtu;
        if bytes.len() > mtu {
            return self.refuse6(now, port, &bytes, ForwardError::FragmentationNeeded(mtu as u16), None);
        }
        if let Some(clamp) = self.mss_clamp {
            let back = v6.routes.lookup(header.src, || hash, |hop| hop.interface < self.ports.len());
            let back =
                back.and_then(|(_, hop)| hop).map_or(usize::MAX, |hop| self.interfaces[hop.interface].mtu);
            clamp.apply(&mut bytes, mtu.min(back));
        }
        ipv6::decrement_hop_limit(&mut bytes);
        self.counters.forwarded += 1;
        self.send6(now, hop, bytes);
    }

    fn send6(&mut self, now: SimTime, hop: NextHop<Ipv6Addr>, bytes: Vec<u8>) {
        let next = hop.gateway.unwrap_or_else(|| ipv6::destination(&bytes));
        let Some(v6) = &mut self.v6 else { return };
        if let Some((mac, packet)) = v6.neighbours.resolve(now, hop.interface, next, Packet::new(bytes)) {
            self.send_frame6(now, hop.interface, mac, packet);
        }
    }

    fn send_frame6(&mut self, now: SimTime, port: usize, to: Address, packet: Packet) {
        let frame = super::framed(packet, to, self.interfaces[port].mac, ethertype::IPV6);
        self.ports.send(now, port, frame);
    }

    /// Tells the sender of a packet that came by `port` why it went no further, from `source` or an address of
    /// that interface.
    fn refuse6(
        &mut self,
        now: SimTime,
        port: usize,
        packet: &[u8],
        why: ForwardError,
        source: Option<Ipv6Addr>,
    ) {
        let Some(message) = forward6::refusal_message(packet, why) else { return };
        let to = ipv6::source(packet);
        let near = self.interfaces[port].addresses6.first();
        let any = near.or_else(|| self.interfaces.iter().find_map(|other| other.addresses6.first()));
        let source = source.or(any.map(|own| own.ip)).unwrap_or_else(|| link_local(&self.interfaces[port]));
        self.send_icmp6(now, port, source, to, 0, message);
    }

    /// Sends a message from itself; what is for a link-local address goes by `port`.
    fn send_icmp6(
        &mut self,
        now: SimTime,
        port: usize,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        traffic_class: u8,
        mut message: Vec<u8>,
    ) {
        icmpv6::fill_checksum(src, dst, &mut message);
        let bytes = packet(src, dst, 64, traffic_class, &message);
        if ipv6::is_link_scope(dst) {
            return self.send6(now, NextHop::new(port, None), bytes);
        }
        let Some(v6) = &self.v6 else { return };
        let hash = forward6::flow_hash(self.flow_key, &bytes);
        let found = v6.routes.lookup(dst, || hash, |hop| hop.interface < self.ports.len());
        if let Some((_, Some(hop))) = found {
            self.send6(now, hop, bytes);
        }
    }

    fn is_own6(&self, ip: Ipv6Addr) -> bool {
        let own = |i: &RouterInterface| i.addresses6.iter().any(|own| own.ip == ip) || link_local(i) == ip;
        self.interfaces.iter().any(own)
    }

    /// ICMPv6 for this router, or for a group.
    fn icmp6(&mut self, now: SimTime, port: usize, bytes: &[u8], header: &ipv6::Repr, start: usize) {
        let message = &bytes[start..];
        let (src, dst) = (header.src, header.dst);
        let sum = checksum::transport(src.into(), dst.into(), ip_protocol::ICMPV6, message);
        if message.len() < icmpv6::HEADER_LEN || sum != 0 {
            self.counters.malformed += 1;
            return;
        }
        if message[0] == kind::ECHO_REQUEST && !src.is_unspecified() && !src.is_multicast() {
            let mut reply = message.to_vec();
            reply[0] = kind::ECHO_REPLY;
            let near = &self.interfaces[port];
            let source = match dst.is_multicast() {
                false => dst,
                true if ipv6::is_link_scope(src) => link_local(near),
                true => near.addresses6.first().map_or(link_local(near), |own| own.ip),
            };
            return self.send_icmp6(now, port, source, src, header.traffic_class, reply);
        }
        if header.hop_limit != DISCOVERY_HOP_LIMIT {
            return;
        }
        match Discovery::parse(message) {
            Some(Discovery::NeighbourSolicit { target, source }) => {
                self.solicited6(now, port, src, target, source);
            }
            Some(Discovery::NeighbourAdvert { target, solicited, address: Some(address), .. }) => {
                if let Some(v6) = &mut self.v6 {
                    v6.neighbours.learn(now, port, target, address, solicited, false);
                }
            }
            Some(Discovery::RouterSolicit { source }) => {
                let Some(v6) = &mut self.v6 else { return };
                if let (Some(address), false) = (source, src.is_unspecified()) {
                    v6.neighbours.learn(now, port, src, address, false, true);
                }
                // RFC 4861, section 6.2.6: all are answered by one announcement, a moment later.
                let soon = now + SimDuration::from_millis(v6.stream.below(ANSWER_DELAY_MS));
                if let Some((at, _)) = &mut v6.adverts[port] {
                    *at = soon.min(*at);
                }
            }
            _ => {}
        }
    }

    fn solicited6(
        &mut self,
        now: SimTime,
        port: usize,
        src: Ipv6Addr,
        target: Ipv6Addr,
        from: Option<Address>,
    ) {
        let own = &self.interfaces[port];
        if !(own.addresses6.iter().any(|own| own.ip == target) || link_local(own) == target) {
            return;
        }
        let answer = Discovery::NeighbourAdvert {
            target,
            router: true,
            solicited: !src.is_unspecified(),
            overrides: true,
            address: Some(own.mac),
        };
        if src.is_unspecified() {
            let to = ipv6::ALL_NODES;
            let bytes = packet(target, to, DISCOVERY_HOP_LIMIT, 0, &answer.emit(target, to));
            return self.send_frame6(now, port, ipv6::group_address(to), Packet::new(bytes));
        }
        let Some(v6) = &mut self.v6 else { return };
        if let Some(address) = from {
            v6.neighbours.learn(now, port, src, address, false, true);
        }
        let bytes = packet(target, src, DISCOVERY_HOP_LIMIT, 0, &answer.emit(target, src));
        self.send6(now, NextHop::new(port, None), bytes);
    }

    pub(super) fn neighbour_events6(&mut self, now: SimTime) {
        while let Some(event) = self.v6.as_mut().and_then(|v6| v6.neighbours.poll()) {
            match event {
                NeighbourEvent::Ask { interface, target, to, source } => {
                    let source = source.filter(|source| self.is_own6(*source));
                    let own = &self.interfaces[interface];
                    let source = source.unwrap_or_else(|| link_local(own));
                    let question = Discovery::NeighbourSolicit { target, source: Some(own.mac) };
                    let dst = if to.is_some() { target } else { ipv6::solicited_node(target) };
                    let bytes = packet(source, dst, DISCOVERY_HOP_LIMIT, 0, &question.emit(source, dst));
                    let to = to.unwrap_or(ipv6::group_address(dst));
                    self.send_frame6(now, interface, to, Packet::new(bytes));
                }
                NeighbourEvent::Send { interface, to, packets } => {
                    packets.into_iter().for_each(|packet| self.send_frame6(now, interface, to, packet));
                }
                NeighbourEvent::Failed { packets, interface } => {
                    for packet in packets {
                        self.counters.unanswered += 1;
                        let from = ipv6::source(packet.bytes());
                        if !self.is_own6(from) {
                            // The answer comes from the interface that leads back.
                            let routes = self.v6.as_ref().map(|v6| &v6.routes);
                            let back = routes.and_then(|routes| routes.lookup(from, || 0, |_| true));
                            let port = back.and_then(|(_, hop)| hop).map_or(interface, |hop| hop.interface);
                            self.refuse6(now, port, packet.bytes(), ForwardError::HostUnreachable, None);
                        }
                    }
                }
                NeighbourEvent::Overflow { .. } => self.counters.unanswered += 1,
                NeighbourEvent::Changed(_) | NeighbourEvent::Forgotten(_) => {}
            }
        }
    }

    /// The medium could not deliver a frame to this hardware address.
    pub(crate) fn fail_neighbour6(&mut self, now: SimTime, port: usize, address: Address) {
        if let Some(v6) = &mut self.v6 {
            v6.neighbours.fail(now, port, address);
        }
    }
    /// Asks for neighbours and announces itself, where that is due.
    pub(super) fn on_timeout6(&mut self, now: SimTime) {
        let Some(v6) = &mut self.v6 else { return };
        v6.neighbours.on_timeout(now);
        for port in 0..self.interfaces.len() {
            let Some(v6) = &mut self.v6 else { return };
            let Some((at, sent)) = &mut v6.adverts[port] else { continue };
            if *at > now {
                continue;
            }
            let (least, most) = ADVERT_INTERVAL;
            let next = SimDuration::from_millis(least * 1_000 + v6.stream.below((most - least) * 1_000));
            *sent = sent.saturating_add(1);
            *at = now + if *sent < INITIAL_ADVERTS { next.min(INITIAL_INTERVAL) } else { next };
            self.advertise(now, port);
        }
    }

    fn advertise(&mut self, now: SimTime, port: usize) {
        let own = &self.interfaces[port];
        let prefix = |own: &InterfaceAddress<Ipv6Addr>| PrefixInformation {
            prefix: own.network().address(),
            len: own.len,
            on_link: true,
            autonomous: own.len == 64,
            valid: VALID,
            preferred: PREFERRED,
        };
        let (src, dst) = (link_local(own), ipv6::ALL_NODES);
        let advert = Discovery::RouterAdvert {
            hop_limit: 64,
            flags: 0,
            lifetime: LIFETIME,
            reachable: 0,
            retransmit: 0,
            source: Some(own.mac),
            mtu: Some(own.mtu as u32),
            prefixes: own.addresses6.iter().map(prefix).collect(),
        };
        let bytes = packet(src, dst, DISCOVERY_HOP_LIMIT, 0, &advert.emit(src, dst));
        self.send_frame6(now, port, ipv6::group_address(dst), Packet::new(bytes));
    }

    pub(super) fn next_timeout6(&self) -> Option<SimTime> {
        let v6 = self.v6.as_ref()?;
        let adverts = v6.adverts.iter().flatten().map(|(at, _)| *at).min();
        [v6.neighbours.next_timeout(), adverts].into_iter().flatten().min()
    }

    pub(super) fn carrier_lost6(&mut self, port: usize) {
        if let Some(v6) = &mut self.v6 {
            v6.neighbours.flush(port, false);
        }
    }
}

/// A packet with a message of ICMPv6.
fn packet(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, traffic_class: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    let header = ipv6::Repr {
        src,
        dst,
        next_header: ip_protocol::ICMPV6,
        payload_len: message.len(),
        hop_limit,
        traffic_class,
        flow_label: 0,
    };
    header.emit(&mut bytes);
    bytes.extend_from_slice(message);
    bytes
}

#[cfg(test)]
#[path = "router6_tests.rs"]
mod tests;
