//! Neighbour discovery on links (RFC 4861, `net/ipv6/ndisc.c` of Linux).

use crate::Stack;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::ip::{Inbound, Onward};
use belljar_net::forward::ForwardError;
use belljar_net::neighbour::NeighbourEvent;
use belljar_net::{Packet, neighbour::NeighbourState};
use belljar_wire::ethernet::Address;
use belljar_wire::icmpv6::{DISCOVERY_HOP_LIMIT, Discovery};
use belljar_wire::{ipv6, protocol};
use std::net::{IpAddr, Ipv6Addr};

impl Stack {
    /// Sends an IPv6 packet over a link to `gateway`, or to its destination. It may be queued until the
    /// neighbour is resolved.
    pub(crate) fn link_output6(
        &mut self,
        interface: usize,
        gateway: Option<Ipv6Addr>,
        packet: Packet,
    ) -> PacketDisposition {
        if packet.len() < ipv6::HEADER_LEN {
            return PacketDisposition::dropped(DropCause::Malformed);
        }
        let next = gateway.unwrap_or_else(|| ipv6::destination(packet.bytes()));
        self.send_to_neighbour6(interface, next, packet)
    }

    /// Sends a packet of either IP version over a link to the neighbour or group with this IPv6 address.
    pub(crate) fn send_to_neighbour6(
        &mut self,
        interface: usize,
        next: Ipv6Addr,
        packet: Packet,
    ) -> PacketDisposition {
        let (to, packet) = if next.is_multicast() {
            (ipv6::group_address(next), packet)
        } else if !self.interfaces[interface].asks_neighbours() {
            let known = self.v6.neighbours.get(interface, next).and_then(|known| known.address);
            (known.unwrap_or(Address(self.interfaces[interface].mac)), packet)
        } else {
            match self.v6.neighbours.resolve(self.clock.now(), interface, next, packet) {
                Some(known) => known,
                None => return PacketDisposition::HELD,
            }
        };
        self.send_frame(interface, to, packet)
    }

    /// Sends a neighbour discovery message to a neighbour or a group.
    pub fn send_discovery(
        &mut self,
        interface: usize,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        to: Option<Address>,
        message: &Discovery,
    ) {
        let message = message.emit(src, dst);
        let mut packet = vec![0; ipv6::HEADER_LEN];
        let header = ipv6::Repr {
            src,
            dst,
            next_header: protocol::ICMPV6,
            payload_len: message.len(),
            hop_limit: DISCOVERY_HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
        };
        header.emit(&mut packet);
        packet.extend(message);
        self.counters.count_icmp_sent(&dst.into(), protocol::ICMPV6, &packet[ipv6::HEADER_LEN..]);
        let station = to.or_else(|| dst.is_multicast().then(|| ipv6::group_address(dst)));
        let onward = Onward { station, ..Onward::by(interface, None) };
        self.ip_local_out(Origin::Ndp, &dst.into(), Packet::new(packet), &onward);
    }

    /// Processes the pending events of the neighbour cache.
    pub fn neighbour_events6(&mut self) {
        while let Some(event) = self.v6.neighbours.poll() {
            match event {
                NeighbourEvent::Ask { interface, target, to, source } => {
                    // `ndisc_solicit`: the source of the packet, or else the link-local address.
                    let own = &self.interfaces[interface].addresses6;
                    let usable = |ip: &Ipv6Addr| !self.v6.is_tentative(interface, *ip);
                    let is_own = |ip: &Ipv6Addr| self.interfaces.has_address(interface, (*ip).into());
                    let source = source.filter(|ip| is_own(ip) && usable(ip));
                    let is_local = |ip: &Ipv6Addr| ip.is_unicast_link_local() && usable(ip);
                    let local = || own.iter().map(|own| own.ip).find(is_local);
                    let Some(source) = source.or_else(local) else { continue };
                    let own = Address(self.interfaces[interface].mac);
                    let question = Discovery::NeighbourSolicit { target, source: Some(own) };
                    let dst = if to.is_some() { target } else { ipv6::solicited_node(target) };
                    self.send_discovery(interface, source, dst, to, &question);
                }
                NeighbourEvent::Send { interface, to, packets } => {
                    for packet in packets {
                        let (cookie, len) = (packet.cookie(), packet.len());
                        let end = self.send_frame(interface, to, packet);
                        self.account.release(end);
                        if !end.is_queued() {
                            self.packet_lost(cookie, len);
                        }
                    }
                }
                NeighbourEvent::Failed { packets, interface } => {
                    self.counters.forwarding.unanswered += packets.len() as u64;
                    self.account.release_all(packets.len(), PacketDisposition::dropped(DropCause::Neighbour));
                    for packet in packets {
                        match packet.bytes().first().map(|first| first >> 4) {
                            Some(4) => self.refuse(packet.bytes(), ForwardError::HostUnreachable),
                            _ => self.refuse6(interface, packet.bytes(), ForwardError::HostUnreachable),
                        }
                        self.packet_lost(packet.cookie(), packet.len());
                    }
                }
                NeighbourEvent::Overflow { packet } => {
                    self.counters.forwarding.unanswered += 1;
                    self.account.release(PacketDisposition::dropped(DropCause::Neighbour));
                    self.packet_lost(packet.cookie(), packet.len());
                }
                NeighbourEvent::Changed(neighbour) => self.effects.neighbour_changed6(neighbour, true),
                NeighbourEvent::Forgotten(neighbour) => self.effects.neighbour_changed6(neighbour, false),
            }
        }
    }

    /// Processes a neighbour discovery message with a valid checksum.
    pub(crate) fn discovery_input(&mut self, inbound: &Inbound) -> PacketDisposition {
        let malformed = PacketDisposition::dropped(DropCause::Malformed);
        let consumed = PacketDisposition::consumed(Receiver::Ndp);
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (inbound.header.src, inbound.header.dst) else {
            return malformed;
        };
        // A message from beyond the link is not valid.
        if inbound.header.ttl != DISCOVERY_HOP_LIMIT {
            return malformed;
        }
        if !self.interfaces[inbound.interface].is_link() {
            return consumed;
        }
        let Some(message) = Discovery::parse(inbound.payload()) else {
            self.counters.malformed += 1;
            return malformed;
        };
        let (now, interface) = (self.clock.now(), inbound.interface);
        match message {
            Discovery::NeighbourSolicit { target, source } => {
                self.solicited(interface, (src, dst), target, source)
            }
            Discovery::NeighbourAdvert { target, solicited, overrides, address, .. } => {
                if self.v6.is_tentative(interface, target) {
                    self.address_is_taken(interface, target);
                    return consumed;
                }
                let Some(known) = self.v6.neighbours.get(interface, target) else { return consumed };
                let Some(address) = address.or(known.address) else { return consumed };
                // RFC 4861, section 7.2.5: a different address requires the override flag.
                let differs = known.address.is_some_and(|known| known != address);
                if differs && !overrides && known.state != NeighbourState::Failed {
                    return consumed;
                }
                self.v6.neighbours.learn(now, interface, target, address, solicited, false);
            }
            Discovery::RouterAdvert { .. } => {
                self.router_advert(interface, src, message);
                self.log_routes();
            }
            // The stack sends no router advertisements; routing daemons receive solicitations on their own
            // sockets.
            Discovery::RouterSolicit { source: Some(address) } if !src.is_unspecified() => {
                self.v6.neighbours.learn(now, interface, src, address, false, true);
            }
            Discovery::RouterSolicit { .. } => {}
        }
        consumed
    }

    /// Processes a neighbour solicitation.
    fn solicited(
        &mut self,
        interface: usize,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        target: Ipv6Addr,
        source: Option<Address>,
    ) {
        let ours = self.interfaces[interface].addresses6.iter().any(|own| own.ip == target);
        if !ours {
            return;
        }
        if self.v6.is_tentative(interface, target) {
            // Two hosts test the same address at once: neither may use it.
            if src.is_unspecified() {
                self.address_is_taken(interface, target);
            }
            return;
        }
        let now = self.clock.now();
        let own = Address(self.interfaces[interface].mac);
        let answer = |solicited| Discovery::NeighbourAdvert {
            target,
            router: self.sysctls.forwarding6,
            solicited,
            overrides: true,
            address: Some(own),
        };
        if src.is_unspecified() {
            let answer = answer(false);
            return self.send_discovery(interface, target, ipv6::ALL_NODES, None, &answer);
        }
        let answer = answer(true);
        match source {
            Some(address) => self.v6.neighbours.learn(now, interface, src, address, false, true),
            None if dst.is_multicast() => return,
            None => {}
        }
        self.send_discovery(interface, target, src, None, &answer);
    }
}
