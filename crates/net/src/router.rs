//! A router: forwards packets between its interfaces, asks for neighbours, and answers what is meant
//! for itself: echo requests, and by ICMP errors everything else. It runs no programs.
//!
//! After each call, take what leaves from [`Router::poll`] until it gives `None`, then call
//! [`Router::on_timeout`] again at [`Router::next_event`].

#[path = "router6.rs"]
mod v6;

use crate::forward::{self, ForwardError};
use crate::neighbour::{NeighbourEvent, Neighbours};
use crate::nic::{NicChange, NicConfig};
use crate::ports::Ports;
use crate::routes::{InterfaceAddress, NextHop, Route, RouteKind, RouteTable, protocol};
use crate::switch::EgressFrame;
use crate::{Counters, MssClamp, Packet};
use belljar_base::{SimTime, Stream};
use belljar_wire::ethernet::{self, Address, Frame, ethertype};
use belljar_wire::{arp, checksum, ipv4};
use std::net::{Ipv4Addr, Ipv6Addr};
use v6::RouterV6;

/// The TTL of what a router sends itself.
const TTL: u8 = 64;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;

/// One interface of a router.
#[derive(Clone, Debug)]
pub struct RouterInterface {
    /// Its hardware address.
    pub mac: Address,
    /// The longest IP packet that it sends.
    pub mtu: usize,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Its IPv6 addresses but for the link-local one.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// True if it announces itself and its IPv6 networks.
    pub advertise: bool,
    /// Its way out.
    pub nic: NicConfig,
}

/// A router. See the [module](self).
#[derive(Debug)]
pub struct Router {
    interfaces: Vec<RouterInterface>,
    ports: Ports,
    routes: RouteTable,
    neighbours: Neighbours,
    flow_key: u64,
    next_id: u16,
    /// State of IPv6, if it has it.
    v6: Option<Box<RouterV6>>,
    unused6: RouteTable<Ipv6Addr>,
    /// Clamping of the MSS option of SYNs.
    mss_clamp: Option<MssClamp>,
    counters: RouterCounters,
}

/// Counts of packets that went no further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Packets passed on.
    pub forwarded: u64,
    /// Packets cut short, malformed or damaged.
    pub malformed: u64,
    /// Packets to which no route led.
    pub no_route: u64,
    /// Packets that had made too many hops.
    pub expired: u64,
    /// Packets whose next hop did not answer.
    pub unanswered: u64,
}

impl Router {
    /// A router that has routes to the networks of its interfaces. What it draws, it draws from `stream`
    /// now.
    pub fn new(interfaces: Vec<RouterInterface>, stream: &mut Stream) -> Router {
        let mut routes = RouteTable::default();
        for (number, interface) in interfaces.iter().enumerate() {
            for own in &interface.addresses {
                let route = Route { source: Some(own.ip), ..Route::by(number, None, protocol::KERNEL) };
                routes.insert(own.network(), 0, route);
            }
        }
        let ports = Ports::new(interfaces.iter().map(|interface| &interface.nic));
        Router {
            interfaces,
            ports,
            routes,
            neighbours: Neighbours::new(stream),
            flow_key: stream.next_u64(),
            next_id: stream.next_u32() as u16,
            v6: None,
            unused6: RouteTable::default(),
            mss_clamp: None,
            counters: RouterCounters::default(),
        }
    }

    /// Holds the MSS option of SYNs that it passes on to what is allowed.
    pub fn clamp_mss(&mut self, clamp: Option<MssClamp>) {
        self.mss_clamp = clamp;
    }

    /// Its routes, to change them.
    pub fn routes_mut(&mut self) -> &mut RouteTable {
        &mut self.routes
    }
    /// Its routes.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// A frame has come in completely.
    pub fn receive(&mut self, now: SimTime, port: usize, packet: Packet) {
        if packet.is_undelivered() {
            return self.undelivered(now, port, &packet);
        }
        self.ports.count_received(port, packet.len());
        let Ok(frame) = Frame::new_checked(packet.bytes()) else {
            self.counters.malformed += 1;
            return;
        };
        let to_all = frame.dst().is_multicast();
        if frame.dst() != self.interfaces[port].mac && !to_all {
            return;
        }
        match frame.ethertype() {
            ethertype::ARP => self.arp(now, port, frame.payload()),
            ethertype::IPV4 => {
                let mut bytes = packet.into_bytes();
                bytes.drain(..ethernet::HEADER_LEN);
                self.ip(now, port, bytes, to_all);
            }
            ethertype::IPV6 => {
                let mut bytes = packet.into_bytes();
                bytes.drain(..ethernet::HEADER_LEN);
                self.ip6(now, port, bytes, to_all);
            }
            _ => {}
        }
        self.neighbour_events(now);
        self.neighbour_events6(now);
    }

    fn arp(&mut self, now: SimTime, port: usize, payload: &[u8]) {
        let Some(heard) = arp::Packet::new_checked(payload).ok().and_then(|p| arp::Repr::parse(&p).ok())
        else {
            return;
        };
        let for_us = self.is_own(heard.target_protocol);
        let reply = heard.operation == arp::Operation::Reply;
        let (ip, mac) = (heard.sender_protocol, heard.sender_hardware);
        if !ip.is_unspecified() {
            self.neighbours.learn(now, port, ip, mac, reply, for_us && !reply);
        }
        if for_us && !reply {
            let own = self.interfaces[port].mac;
            self.send_arp(now, port, mac, &arp_reply(&heard, own));
        }
    }

    fn send_arp(&mut self, now: SimTime, port: usize, to: Address, message: &arp::Repr) {
        let frame = arp_frame(to, message);
        self.ports.send(now, port, Packet::new(frame));
    }

    fn ip(&mut self, now: SimTime, port: usize, mut bytes: Vec<u8>, to_all: bool) {
        let sound = ipv4::Packet::new_checked(&bytes).map(|p| (p.header_len(), p.total_len()));
        let Some((header_len, total)) =
            sound.ok().filter(|(header_len, _)| checksum::internet(&bytes[..*header_len]) == 0)
        else {
            self.counters.malformed += 1;
            return;
        };
        bytes.truncate(total);
        let destination = forward::destination(&bytes);
        if self.is_own(destination) {
            return self.for_us(now, bytes, header_len);
        }
        let broadcast = |own: &InterfaceAddress| own.network().broadcast() == Some(destination);
        let many = destination.is_broadcast() || destination.is_multicast();
        if to_all
            || many
            || destination.is_loopback()
            || self.interfaces[port].addresses.iter().any(broadcast)
        {
            return;
        }
        self.forward(now, port, bytes);
    }

    /// Passes a packet on that came by `port`.
    fn forward(&mut self, now: SimTime, port: usize, mut bytes: Vec<u8>) {
        if bytes[8] <= 1 {
            self.counters.expired += 1;
            return self.refuse(now, port, &bytes, ForwardError::TimeExceeded);
        }
        let hash = forward::flow_hash(self.flow_key, &bytes);
        let to = forward::destination(&bytes);
        let hop = match self.routes.lookup(to, || hash, |hop| hop.interface < self.ports.len()) {
            Some((_, Some(hop))) => hop,
            Some((route, None)) if route.kind == RouteKind::Blackhole => return self.counters.no_route += 1,
            Some((route, None)) if route.kind == RouteKind::Prohibit => {
                self.counters.no_route += 1;
                return self.refuse(now, port, &bytes, ForwardError::Prohibited);
            }
            found => {
                self.counters.no_route += 1;
                let why = if found.is_some() {
                    ForwardError::HostUnreachable
                } else {
                    ForwardError::NetworkUnreachable
                };
                return self.refuse(now, port, &bytes, why);
            }
        };
        let mtu = self.interfaces[hop.interface].mtu;
        if bytes.len() > mtu && !forward::may_fragment(&bytes) {
            return self.refuse(now, port, &bytes, ForwardError::FragmentationNeeded(mtu as u16));
        }
        forward::count_hop(&mut bytes);
        if let Some(clamp) = self.mss_clamp {
            let back =
                self.routes.lookup(forward::source(&bytes), || hash, |hop| hop.interface < self.ports.len());
            let back =
                back.and_then(|(_, hop)| hop).map_or(usize::MAX, |hop| self.interfaces[hop.interface].mtu);
            clamp.apply(&mut bytes, mtu.min(back));
        }
        self.counters.forwarded += 1;
        self.send_by(now, hop, bytes);
    }

    /// Sends a packet by a next hop, in pieces if it must be.
    fn send_by(&mut self, now: SimTime, hop: NextHop, bytes: Vec<u8>) {
        let mtu = self.interfaces[hop.interface].mtu;
        if bytes.len() <= mtu {
            return self.send(now, hop, bytes);
        }
        let mut pieces = Vec::new();
        forward::fragment(&bytes, mtu, |piece| pieces.push(piece));
        pieces.into_iter().for_each(|piece| self.send(now, hop, piece));
    }

    fn send(&mut self, now: SimTime, hop: NextHop, bytes: Vec<u8>) {
        let to = forward::destination(&bytes);
        let next = hop.gateway.unwrap_or(to);
        let own = &self.interfaces[hop.interface];
        let broadcast = |own: &InterfaceAddress| own.network().broadcast() == Some(next);
        if own.addresses.iter().any(broadcast) {
            return self.send_frame(now, hop.interface, Address::BROADCAST, Packet::new(bytes));
        }
        if let Some((mac, packet)) = self.neighbours.resolve(now, hop.interface, next, Packet::new(bytes)) {
            self.send_frame(now, hop.interface, mac, packet);
        }
    }

    fn send_frame(&mut self, now: SimTime, port: usize, to: Address, packet: Packet) {
        let frame = framed(packet, to, self.interfaces[port].mac, ethertype::IPV4);
        self.ports.send(now, port, frame);
    }

    /// Tells the sender of a packet that came by `port` why it went no further.
    fn refuse(&mut self, now: SimTime, port: usize, packet: &[u8], why: ForwardError) {
        let Some(message) = forward::refusal_message(packet, why) else { return };
        let source = self.interfaces[port].addresses.first();
        let source = source.or(self.interfaces.iter().find_map(|other| other.addresses.first()));
        let source = source.map_or(forward::NO_ADDRESS, |own| own.ip);
        self.send_icmp(now, source, forward::source(packet), 0xc0, &message);
    }

    /// Sends an ICMP message from itself.
    fn send_icmp(&mut self, now: SimTime, source: Ipv4Addr, to: Ipv4Addr, tos: u8, message: &[u8]) {
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        bytes.extend_from_slice(message);
        let len = bytes.len() as u16;
        (bytes[0], bytes[1], bytes[8], bytes[9]) = (0x45, tos, TTL, ICMP);
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.next_id.to_be_bytes());
        self.next_id = self.next_id.wrapping_add(1);
        bytes[12..16].copy_from_slice(&source.octets());
        bytes[16..20].copy_from_slice(&to.octets());
        let sum = checksum::internet(&bytes[..ipv4::HEADER_LEN]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let hash = forward::flow_hash(self.flow_key, &bytes);
        let Some((_, Some(hop))) = self.routes.lookup(to, || hash, |hop| hop.interface < self.ports.len())
        else {
            return;
        };
        self.send_by(now, hop, bytes);
    }

    /// Answers a packet for one of its own addresses.
    fn for_us(&mut self, now: SimTime, bytes: Vec<u8>, header_len: usize) {
        let (us, them) = (forward::destination(&bytes), forward::source(&bytes));
        let fragment = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0;
        if fragment || self.is_own(them) {
            return;
        }
        let payload = &bytes[header_len..];
        if bytes[9] == ICMP {
            if payload.len() >= 8 && payload[0] == ECHO && checksum::internet(payload) == 0 {
                let mut reply = payload.to_vec();
                reply[0] = ECHO_REPLY;
                reply[2..4].fill(0);
                let sum = checksum::internet(&reply);
                reply[2..4].copy_from_slice(&sum.to_be_bytes());
                self.send_icmp(now, us, them, bytes[1], &reply);
            }
            return;
        }
        let ports = matches!(bytes[9], UDP | UDP_LITE);
        let why = if ports { ForwardError::PortUnreachable } else { ForwardError::ProtocolUnreachable };
        if let Some(message) = forward::refusal_message(&bytes, why) {
            self.send_icmp(now, us, them, 0xc0, &message);
        }
    }

    fn is_own(&self, ip: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| interface.addresses.iter().any(|own| own.ip == ip))
    }

    fn neighbour_events(&mut self, now: SimTime) {
        while let Some(event) = self.neighbours.poll() {
            match event {
                NeighbourEvent::Ask { interface, target, to, source } => {
                    let own = &self.interfaces[interface];
                    let near = own.addresses.iter().find(|own| own.network().contains(target));
                    let source = source.filter(|source| self.is_own(*source));
                    let Some(source) = source.or(near.or(own.addresses.first()).map(|own| own.ip)) else {
                        continue;
                    };
                    let message = arp_request(own.mac, source, target);
                    self.send_arp(now, interface, to.unwrap_or(Address::BROADCAST), &message);
                }
                NeighbourEvent::Send { interface, to, packets } => {
                    packets.into_iter().for_each(|packet| self.send_frame(now, interface, to, packet));
                }
                NeighbourEvent::Failed { packets, .. } => {
                    for packet in packets {
                        self.counters.unanswered += 1;
                        let from = forward::source(packet.bytes());
                        // The answer comes from the interface that leads back.
                        let back = self.routes.lookup(from, || 0, |_| true).and_then(|(_, hop)| hop);
                        let port = back.map_or(0, |hop| hop.interface);
                        if !self.is_own(from) {
                            self.refuse(now, port, packet.bytes(), ForwardError::HostUnreachable);
                        }
                    }
                }
                NeighbourEvent::Overflow { .. } => self.counters.unanswered += 1,
                NeighbourEvent::Changed(_) | NeighbourEvent::Forgotten(_) => {}
            }
        }
    }

    /// Does what was due up to `now`.
    pub fn on_timeout(&mut self, now: SimTime) {
        self.neighbours.on_timeout(now);
        self.neighbour_events(now);
        self.on_timeout6(now);
        self.neighbour_events6(now);
    }

    /// The next frame that has begun to leave up to `now`, in the order of time and then of ports.
    pub fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        self.ports.poll(now)
    }

    /// When [`poll`](Self::poll) or [`on_timeout`](Self::on_timeout) has something to do, if nothing is
    /// received before.
    pub fn next_event(&self) -> Option<SimTime> {
        [self.ports.next_event(), self.neighbours.next_timeout(), self.next_timeout6()]
            .into_iter()
            .flatten()
            .min()
    }

    /// A frame comes back that the medium could not deliver.
    fn undelivered(&mut self, now: SimTime, port: usize, packet: &Packet) {
        let Ok(frame) = Frame::new_checked(packet.open_bytes()) else { return };
        self.neighbours.fail(now, port, frame.dst());
        self.fail_neighbour6(now, port, frame.dst());
        self.neighbour_events(now);
        self.neighbour_events6(now);
    }

    /// A port loses its carrier, and with it its neighbours, or finds it.
    pub fn set_carrier(&mut self, now: SimTime, port: usize, carrier: bool) {
        self.ports.set_carrier(now, port, carrier);
        if !carrier {
            self.neighbours.flush(port, false);
            self.neighbour_events(now);
            self.carrier_lost6(port);
            self.neighbour_events6(now);
        }
    }
    /// Changes how an interface sends.
    pub fn change_port(&mut self, now: SimTime, port: usize, change: &NicChange) {
        self.ports.change(now, port, change);
    }
    /// Frames that wait to leave a port.
    pub fn queue_len(&self, port: usize) -> usize {
        self.ports.queue_len(port)
    }
    /// Counters of a port: frames carried and dropped.
    pub fn port_counters(&self, port: usize) -> &Counters {
        self.ports.counters(port)
    }
    /// Counters of the router: packets forwarded and lost.
    pub fn counters(&self) -> RouterCounters {
        self.counters
    }
}

/// A packet with an Ethernet header before it.
pub fn framed(mut packet: Packet, dst: Address, src: Address, ethertype: u16) -> Packet {
    packet.fill_checksum();
    let (cookie, checksum, mark) = (packet.cookie(), packet.checksum(), packet.mark());
    let mut bytes = packet.into_bytes();
    bytes.splice(..0, [0; ethernet::HEADER_LEN]);
    ethernet::Repr { dst, src, ethertype }.emit(&mut bytes);
    Packet::with_cookie(bytes, cookie).with_checksum(checksum).with_mark(mark)
}

/// A frame with an ARP message, padded to no length: links carry any.
pub fn arp_frame(to: Address, message: &arp::Repr) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::LEN];
    let header = ethernet::Repr { dst: to, src: message.sender_hardware, ethertype: ethertype::ARP };
    header.emit(&mut frame);
    message.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// The question who has `target`.
pub fn arp_request(own: Address, source: Ipv4Addr, target: Ipv4Addr) -> arp::Repr {
    arp::Repr {
        operation: arp::Operation::Request,
        sender_hardware: own,
        sender_protocol: source,
        target_hardware: Address::default(),
        target_protocol: target,
    }
}

/// The answer of the station `own` to a request for it.
pub fn arp_reply(request: &arp::Repr, own: Address) -> arp::Repr {
    arp::Repr {
        operation: arp::Operation::Reply,
        sender_hardware: own,
        sender_protocol: request.target_protocol,
        target_hardware: request.sender_hardware,
        target_protocol: request.sender_protocol,
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
