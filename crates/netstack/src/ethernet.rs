//! Interfaces at the ends of links: transmission of frames to the hardware address of the next hop, and
//! reception.

use super::Stack;
use super::interface::Attachment;
use super::ip::route::ResolvedRoute;
use crate::Departure;
use crate::PacketDirection;
use crate::StackTimer;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::buffers;
use crate::devices;
use crate::stamping;
use crate::timestamps::is_stamped;
use crate::traffic;
use crate::virtual_links::TAGGED;
use belljar_base::SimTime;
use belljar_net::forward::{self, ForwardError};
use belljar_net::frame::framed;
use belljar_net::neighbour::NeighbourEvent;
use belljar_net::{DropReason, NicChange, NicEvent, Packet};
use belljar_wire::ethernet::{self, Address, Frame, ethertype};
use std::net::{IpAddr, Ipv4Addr};

/// The hardware address of an IPv4 multicast group (RFC 1112, section 6.4).
fn group_address(group: Ipv4Addr) -> Address {
    let [_, b, c, d] = group.octets();
    Address([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

impl Stack {
    /// Confirms the reachability of a route's next hop, because a connection's peer has answered over the
    /// route.
    pub fn confirm_neighbour(&mut self, route: &ResolvedRoute, now: SimTime) {
        if !self.interfaces[route.interface].is_link() {
            return;
        }
        match route.gateway.unwrap_or(route.destination) {
            IpAddr::V4(next) => self.neighbours.confirm(now, route.interface, next),
            IpAddr::V6(next) => self.v6.neighbours.confirm(now, route.interface, next),
        }
    }
}

impl Stack {
    /// Sends an IPv4 packet over a link to `gateway`, or to its destination. It may be queued until the
    /// neighbour is resolved.
    pub(crate) fn link_output(
        &mut self,
        interface: usize,
        gateway: Option<IpAddr>,
        packet: Packet,
    ) -> PacketDisposition {
        if packet.len() < 20 {
            return PacketDisposition::dropped(DropCause::Malformed);
        }
        let next = match gateway {
            Some(IpAddr::V6(next)) => return self.send_to_neighbour6(interface, next, packet),
            Some(IpAddr::V4(next)) => next,
            None => forward::destination(packet.bytes()),
        };
        let (to, packet) = if next.is_multicast() {
            (group_address(next), packet)
        } else if self.interfaces.is_broadcast_on(interface, next) {
            (Address::BROADCAST, packet)
        } else if !self.interfaces[interface].asks_neighbours() {
            let known = self.neighbours.get(interface, next).and_then(|known| known.address);
            (known.unwrap_or(Address(self.interfaces[interface].mac)), packet)
        } else {
            match self.neighbours.resolve(self.clock.now(), interface, next, packet) {
                Some(known) => known,
                None => return PacketDisposition::HELD,
            }
        };
        self.send_frame(interface, to, packet)
    }

    /// Queues an IP packet with an Ethernet header.
    pub(crate) fn send_frame(&mut self, interface: usize, to: Address, packet: Packet) -> PacketDisposition {
        let own = Address(self.interfaces[interface].mac);
        let v6 = packet.open_bytes().first().is_some_and(|first| first >> 4 == 6);
        let ethertype = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        self.send_framed(interface, framed(packet, to, own, ethertype))
    }

    /// Sends a complete Ethernet frame of this origin, past the IP hooks. Returns false if the frame is
    /// dropped.
    pub fn transmit_frame(&mut self, origin: Origin, interface: usize, frame: Vec<u8>) -> bool {
        let end = self.send_framed(interface, Packet::new(frame));
        self.account.originate(origin, end);
        end.is_queued()
    }

    /// Queues a complete Ethernet frame.
    pub(crate) fn send_framed(&mut self, interface: usize, frame: Packet) -> PacketDisposition {
        if is_stamped(frame.cookie()) {
            stamping::scheduled(self, interface, &frame);
        }
        if self.traffic.is_some() {
            return traffic::output(self, interface, None, frame, true);
        }
        transmit_framed(self, interface, frame)
    }

    /// Processes the pending events of both neighbour caches, if there are any.
    #[inline]
    fn settle_neighbours(&mut self) {
        if self.neighbours.has_events() {
            self.neighbour_events();
        }
        if self.v6.neighbours.has_events() {
            self.neighbour_events6();
        }
    }

    /// Processes the pending events of the IPv4 neighbour cache.
    pub fn neighbour_events(&mut self) {
        while let Some(event) = self.neighbours.poll() {
            match event {
                NeighbourEvent::Ask { interface, target, to, source } => {
                    self.ask(interface, target, to, source)
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
                NeighbourEvent::Failed { packets, .. } => {
                    self.counters.forwarding.unanswered += packets.len() as u64;
                    self.account.release_all(packets.len(), PacketDisposition::dropped(DropCause::Neighbour));
                    for packet in packets {
                        self.refuse(packet.bytes(), ForwardError::HostUnreachable);
                        self.packet_lost(packet.cookie(), packet.len());
                    }
                }
                NeighbourEvent::Overflow { packet } => {
                    self.counters.forwarding.unanswered += 1;
                    self.account.release(PacketDisposition::dropped(DropCause::Neighbour));
                    self.packet_lost(packet.cookie(), packet.len());
                }
                NeighbourEvent::Changed(neighbour) => self.effects.neighbour_changed(neighbour, true),
                NeighbourEvent::Forgotten(neighbour) => self.effects.neighbour_changed(neighbour, false),
            }
        }
    }

    /// Processes the neighbour caches and the due link queues, and schedules their next timeouts.
    #[inline(never)]
    pub fn flush_links(&mut self) {
        self.settle_neighbours();
        for link in 0..self.links.len() {
            if self.links[link].nic.next_event().is_some_and(|at| at <= self.clock.now()) {
                self.flush_link(link);
            }
        }
        self.settle_neighbours();
        if self.v6.on {
            self.v6.set_timer(&mut self.timers, self.clock.now());
        }
        for link in 0..self.links.len() {
            let interface = self.interfaces.at_link(link);
            let port = &mut self.links[link];
            let next = port.nic.next_event();
            self.timers.set(&mut port.timer, next, StackTimer::Interface(interface));
        }
        let next = self.neighbours.next_timeout();
        self.timers.set(&mut self.neighbour_timer, next, StackTimer::Neighbours);
    }

    fn flush_link(&mut self, link: usize) {
        let (now, interface) = (self.clock.now(), self.interfaces.at_link(link));
        while let Some((at, event)) = self.links[link].nic.poll(now) {
            match event {
                NicEvent::Transmit { mut packet, departs } => {
                    self.seen(at, interface, &mut packet, PacketDirection::Out);
                    if is_stamped(packet.cookie()) {
                        stamping::sent(self, at, interface, &packet);
                    }
                    packet.set_mark(0);
                    self.departures.push(Departure { at: departs, link: Some(link), to: None, packet });
                }
                // The sender's account is in bytes of IP packets.
                NicEvent::Sent { cookie, bytes } => self.packet_lost(cookie, bytes - ethernet::HEADER_LEN),
            }
        }
    }

    /// Handles the timer of the neighbour cache: retransmits requests, or fails unreachable neighbours.
    pub fn neighbour_timer(&mut self) {
        self.neighbour_timer = None;
        self.neighbours.on_timeout(self.clock.now());
        self.flush_network();
    }

    /// Receives a frame from a link.
    #[inline(never)]
    pub fn frame_arrived(&mut self, link: usize, packet: Packet) {
        let interface = self.interfaces.at_link(link);
        let nic = &mut self.links[link].nic;
        if self.is_down {
            return nic.count_drop(DropReason::HostDown);
        }
        if !self.interfaces[interface].up {
            return nic.count_drop(DropReason::LinkDown);
        }
        if packet.is_undelivered() {
            nic.count_returned();
            self.undelivered(interface, &packet);
        } else {
            nic.count_received(packet.len());
            let arrived = if self.clock.processor.is_some() { self.frame_at } else { self.clock.now() };
            self.frame_stamp = stamping::received(self, link, arrived, packet.len());
            let end = self.frame_input(interface, packet);
            self.frame_stamp = 0;
            self.account.receive(end);
        }
        self.flush_network();
    }

    /// Processes a returned frame that the medium could not deliver.
    #[cold]
    fn undelivered(&mut self, interface: usize, packet: &Packet) {
        let Ok(frame) = Frame::new_checked(packet.open_bytes()) else { return };
        let now = self.clock.now();
        self.neighbours.fail(now, interface, frame.dst());
        self.v6.neighbours.fail(now, interface, frame.dst());
    }

    /// Processes a frame received by an interface that is up.
    pub(crate) fn frame_input(&mut self, interface: usize, mut packet: Packet) -> PacketDisposition {
        self.seen(self.clock.now(), interface, &mut packet, PacketDirection::In);
        if self.traffic.is_some() {
            match traffic::input(self, interface, packet, true) {
                Some(passed) => packet = passed,
                None => return PacketDisposition::HELD,
            }
        }
        frame_classified(self, interface, packet)
    }

    /// Changes the queue or bandwidth of a link.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.config.links[link].nic.change(change);
        self.links[link].nic.change(self.clock.now(), change);
        if !self.is_down {
            self.flush_network();
        }
    }

    /// Replaces the IPv4 routes that the experiment has computed for this host.
    pub fn set_routes(&mut self, routes: Vec<super::InitialRoute>) {
        self.config.routes = routes;
        if !self.is_down {
            self.replace_computed();
            self.log_routes();
        }
    }

    /// Replaces the IPv6 routes that the experiment has computed for this host.
    pub fn set_routes6(&mut self, routes: Vec<super::InitialRoute6>) {
        self.config.routes6 = routes;
        if !self.is_down {
            self.v6.replace_computed(&self.interfaces, &self.config.routes6);
            self.log_routes();
        }
    }
}

/// Queues a complete Ethernet frame that has passed traffic control.
#[inline]
pub(crate) fn transmit_framed(stack: &mut Stack, interface: usize, frame: Packet) -> PacketDisposition {
    match stack.interfaces[interface].attachment {
        Attachment::Link(link) => {
            stack.clock.work_on_packet(frame.len());
            PacketDisposition::of_card(stack.links[link].nic.send(stack.clock.now(), frame))
        }
        Attachment::Tap(n) => stack.tun_output(n, frame),
        Attachment::Vlan { below, id } => stack.vlan_output(interface, below, id, frame),
        Attachment::Dummy => stack.dummy_output(interface, frame),
        Attachment::Made(kind) => devices::output(stack, interface, kind, frame),
        Attachment::Ifb => traffic::ifb_frame(stack, interface, frame),
        Attachment::Veth { network, peer } => stack.veth_output(interface, (network, peer), frame),
        _ => PacketDisposition::dropped(DropCause::InterfaceDown),
    }
}

/// Processes a received frame that has passed captures and traffic control.
#[inline]
pub(crate) fn frame_classified(stack: &mut Stack, interface: usize, mut packet: Packet) -> PacketDisposition {
    if stack.devices.is_some() {
        match devices::receive(stack, interface, packet) {
            Ok(kept) => packet = kept,
            Err(end) => return end,
        }
    }
    let Ok(frame) = Frame::new_checked(packet.bytes()) else {
        stack.counters.malformed += 1;
        return PacketDisposition::dropped(DropCause::Malformed);
    };
    let to_many = frame.dst().is_multicast();
    let tagged = frame.ethertype() == TAGGED;
    if !to_many
        && !tagged
        && frame.dst().0 != stack.interfaces[interface].mac
        && !devices::accepts(stack, interface, frame.dst().0)
    {
        buffers::recycle(packet.into_bytes());
        return PacketDisposition::consumed(Receiver::OtherAddress);
    }
    match frame.ethertype() {
        ethertype::ARP => {
            let end = stack.arp_input(interface, frame.payload());
            buffers::recycle(packet.into_bytes());
            end
        }
        ethertype::IPV4 | ethertype::IPV6 => {
            let (checksum, mark) = (packet.checksum(), packet.mark());
            let mut bytes = packet.into_bytes();
            bytes.drain(..ethernet::HEADER_LEN);
            stack.arrived_as_one = !to_many;
            stack.ip_input(interface, Packet::new(bytes).with_checksum(checksum).with_mark(mark))
        }
        TAGGED => stack.vlan_input(interface, packet),
        _ => {
            buffers::recycle(packet.into_bytes());
            match stack.watchers {
                0 => PacketDisposition::dropped(DropCause::UnknownProtocol),
                _ => PacketDisposition::consumed(Receiver::PacketSocket),
            }
        }
    }
}
