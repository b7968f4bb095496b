//! Packets between the interfaces and the protocols: transmission, the output queues, and reception.
//!
//! Protocols only queue packets. [`Stack::flush_network`] processes the queues at the end of every call,
//! timer and arrival that may have queued packets. The stack is therefore never re-entered, and the
//! consequences of a packet are processed in the order in which the packets were queued.

use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::devices;
use crate::interface::{Attachment, DeviceKind, GRAPH, destination};
use crate::readiness::{EPOLLERR, WRITABLE};
use crate::resolver::SERVICE;
use crate::socket::SocketKind;
use crate::stamping;
use crate::timestamps::is_stamped;
use crate::traffic;
use crate::{Departure, LO, PacketDirection, SocketKey, Stack, StackTimer, TimerId};
use belljar_base::SimTime;
use belljar_net::{NicEvent, Packet};
use std::net::IpAddr;

impl Stack {
    /// Number of packets queued for transmission on an interface.
    pub fn queue_len(&self, interface: usize) -> usize {
        let traffic = self.traffic.as_ref().map_or(0, |traffic| traffic.queue_len(interface));
        traffic
            + match self.interfaces[interface].attachment {
                Attachment::Loopback => 0,
                Attachment::Graph => self.eth0.nic.egress_queue_len(),
                Attachment::Vlan { below, .. } => self.queue_len(below),
                Attachment::Tun(_) | Attachment::Tap(_) | Attachment::Dummy | Attachment::Veth { .. } => 0,
                Attachment::Ifb | Attachment::Made(_) => 0,
                Attachment::Unplugged { .. } | Attachment::Gone => 0,
                Attachment::Link(link) => self.links[link].nic.egress_queue_len(),
            }
    }

    /// Sends a packet of this origin on an interface, past the IP hooks. Returns false if the packet is
    /// dropped.
    pub fn transmit(&mut self, origin: Origin, interface: usize, bytes: Vec<u8>) -> bool {
        let end = self.send_packet(interface, None, Packet::new(bytes));
        self.account.originate(origin, end);
        end.is_queued()
    }

    /// Queues a packet on an interface for `gateway`, or for its destination. The interface reports the
    /// packet's cookie when the packet has departed.
    #[inline]
    pub(crate) fn send_packet(
        &mut self,
        interface: usize,
        gateway: Option<IpAddr>,
        packet: Packet,
    ) -> PacketDisposition {
        // Frames pass traffic control with their header.
        if self.traffic.is_some() && !self.interfaces[interface].is_link() {
            return traffic::output(self, interface, gateway, packet, false);
        }
        send_packet_now(self, interface, gateway, packet)
    }

    /// Processes the packet queues of all interfaces.
    pub fn flush_network(&mut self) {
        let now = self.clock.now();
        while let Some((cookie, bytes)) = self.taken_over.pop_front() {
            self.packet_left(cookie, bytes);
        }
        while let Some((at, event)) = self.eth0.nic.poll(now) {
            match event {
                NicEvent::Transmit { mut packet, departs } => {
                    self.seen(at, GRAPH, &mut packet, PacketDirection::Out);
                    if is_stamped(packet.cookie()) {
                        stamping::sent(self, at, GRAPH, &packet);
                    }
                    packet.set_mark(0);
                    let to = destination(packet.open_bytes());
                    self.depart(Departure { at: departs, link: None, to, packet });
                }
                NicEvent::Sent { cookie, bytes } => self.packet_left(cookie, bytes),
            }
        }
        if !self.links.is_empty()
            || !self.tuns.is_empty()
            || self.interfaces.has_pairs
            || self.devices.is_some()
        {
            self.flush_links();
        }
        let next = self.eth0.nic.next_event();
        if self.eth0.timer.map(TimerId::at) != next {
            if let Some(timer) = self.eth0.timer.take() {
                self.timers.cancel(timer);
            }
            self.eth0.timer = next.map(|at| self.timers.add(at, StackTimer::Interface(GRAPH)));
        }
        if !self.lo.queue.is_empty() && !self.lo.scheduled {
            self.lo.scheduled = true;
            self.timers.add(now, StackTimer::Interface(LO));
        }
        if self.traffic.is_some() && traffic::run(self) {
            self.flush_network();
        }
    }

    /// Passes a departing packet to the name server, which is not a node, or to the graph.
    fn depart(&mut self, mut departure: Departure) {
        let resolver = self.config.resolver.as_ref();
        match resolver.is_some_and(|resolver| resolver.is_for(departure.to, &mut departure.packet)) {
            true => {
                self.account.to_resolver += 1;
                self.resolver_input(departure.at, &departure.packet);
            }
            false => self.departures.push(departure),
        }
    }

    /// Ends the bootstrap phase: limits `eth0` to its configured bandwidths.
    #[cold]
    pub fn limit_bandwidths(&mut self) {
        let (up, down) = (self.config.nic.bandwidth_up, self.config.nic.bandwidth_down);
        self.eth0.nic.set_bandwidths(self.clock.now(), up, down);
        self.plan_arrivals();
        self.flush_network();
    }

    /// Changes the bandwidths of `eth0`, in bits per second; the inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        let nic = &mut self.config.nic;
        nic.bandwidth_up = up.unwrap_or(nic.bandwidth_up);
        nic.bandwidth_down = down.unwrap_or(nic.bandwidth_down);
        if self.clock.now() >= self.config.bootstrap_end {
            self.limit_bandwidths();
        }
    }

    /// Receives a frame from a link, or a packet from this host's name server.
    pub fn packet_arrived(&mut self, link: usize, mut packet: Packet) {
        match link {
            SERVICE if !self.is_down => {
                self.seen(self.clock.now(), LO, &mut packet, PacketDirection::In);
                let end = self.ip_input(LO, packet);
                self.account.originate(Origin::Resolver, end);
                self.flush_network();
            }
            SERVICE => {}
            link => self.frame_arrived(link, packet),
        }
    }

    /// Handles the timer of an interface.
    pub fn interface_timer(&mut self, interface: usize) {
        match self.interfaces[interface].attachment {
            Attachment::Loopback => self.receive_looped(),
            Attachment::Graph => self.eth0.timer = None,
            Attachment::Link(link) => self.links[link].timer = None,
            _ => {}
        }
        self.flush_network();
    }

    /// Receives the packets queued on `lo` at the time of the call; answers are received at the next one.
    #[inline(never)]
    pub(crate) fn receive_looped(&mut self) {
        let now = self.clock.now();
        self.lo.scheduled = false;
        for _ in 0..self.lo.queue.len() {
            let Some((mut packet, interface)) = self.lo.queue.pop_front() else { break };
            if self.lo.exceeds_free_packets(self.clock.now()) {
                self.clock.charge();
            }
            self.arrived_as_one = interface == LO;
            if interface != LO {
                // A looped-back multicast packet does not appear in captures of `lo`.
                let end = self.ip_input(interface, packet);
                self.account.release(end);
                continue;
            }
            self.clock.work_on_packet(packet.len());
            self.lo.packets += 1;
            self.lo.bytes += packet.len() as u64;
            if self.watchers > 0 {
                self.effects.report_frame(now, LO, &mut packet, PacketDirection::Out, 0);
            }
            self.seen(now, LO, &mut packet, PacketDirection::In);
            if packet.cookie() != 0 {
                self.packet_left(packet.cookie(), packet.len());
            }
            if self.service.is_some() {
                let to = destination(packet.open_bytes());
                let resolver = self.config.resolver.as_ref();
                if resolver.is_some_and(|resolver| resolver.is_for(to, &mut packet)) {
                    self.resolver_input(now, &packet);
                    self.account.release(PacketDisposition::consumed(Receiver::Resolver));
                    continue;
                }
            }
            let end = traffic::packet_input(self, LO, packet);
            self.account.release(end);
        }
    }

    /// Processes the departure of a socket's packet of `bytes` bytes.
    fn packet_left(&mut self, cookie: u64, bytes: usize) {
        let Some(key) = self.sockets.of_cookie(cookie) else {
            return stamping::left(self, cookie, bytes);
        };
        match self.sockets[key.0].kind {
            SocketKind::Tcp(_) => self.tcp_packet_left(key, bytes),
            _ => self.charged_packet_left(key, bytes),
        }
    }

    /// Processes the departure of a charged packet from its interface.
    fn charged_packet_left(&mut self, key: SocketKey, len: usize) {
        let socket = &mut self.sockets[key.0];
        let send_buffer = socket.options.send_buffer;
        let Some(sending) = socket.kind.sending() else { return };
        sending.leave(len);
        let is_below = sending.is_writable(send_buffer);
        let is_writable = match &socket.kind {
            SocketKind::Udp(udp) => udp.is_writable(send_buffer),
            _ => is_below,
        };
        if is_writable {
            self.effects.notify_socket(key, WRITABLE);
        }
        self.zero_copy_settle(key);
    }

    /// Processes the drop of a queued packet, which its socket accounts for like a departure.
    #[inline(never)]
    pub fn packet_lost(&mut self, cookie: u64, bytes: usize) {
        if cookie != 0 {
            self.packet_left(cookie, bytes);
        }
    }

    /// True if a TCP or UDP packet may leave by an interface with a partial checksum: no capture or tap reads
    /// it, and the medium supports partial checksums.
    #[inline]
    pub fn may_leave_open(&self, interface: usize) -> bool {
        let attachment = self.interfaces[interface].attachment;
        matches!(attachment, Attachment::Graph | Attachment::Loopback)
            && !self.config.capture
            && self.watchers == 0
    }

    /// Reports a packet or frame at an interface to captures and taps.
    #[inline]
    pub fn seen(&mut self, at: SimTime, interface: usize, packet: &mut Packet, direction: PacketDirection) {
        if self.watchers > 0 || self.config.capture {
            self.show(at, interface, packet, direction);
        }
    }

    #[inline(never)]
    fn show(&mut self, at: SimTime, interface: usize, packet: &mut Packet, direction: PacketDirection) {
        if self.watchers > 0 {
            let hardware = if direction == PacketDirection::In { self.frame_stamp } else { 0 };
            self.effects.report_frame(at, interface, packet, direction, hardware);
        }
        if self.config.capture {
            packet.fill_checksum();
            let interface = &self.interfaces[interface];
            self.captured.push(at, &interface.name, interface.is_link(), packet.bytes());
        }
    }

    /// Processes a packet received from the graph.
    #[inline]
    pub(crate) fn graph_input(&mut self, at: SimTime, mut packet: Packet) {
        // Prefetches the next packet's bytes, no longer cached since it was sent, during the processing of
        // this one.
        if let Some(next) = self.eth0.nic.coming().or_else(|| self.arrivals.following()) {
            (self.prefetch)(next.open_bytes());
        }
        self.seen(at, GRAPH, &mut packet, PacketDirection::In);
        self.arrived_as_one = true;
        let end = traffic::packet_input(self, GRAPH, packet);
        self.account.receive(end);
        self.flush_network();
    }

    /// Recomputes the time of the next reception from the graph. The caller invokes it after every change that
    /// affects it.
    pub fn plan_arrivals(&mut self) {
        self.arrivals.plan(&mut self.eth0.nic, self.is_down);
    }

    /// Passes the packets that reach the last router before `limit` to `eth0`.
    pub fn take_arrivals(&mut self, limit: SimTime) {
        self.arrivals.pass_before(limit, &mut self.eth0.nic, self.is_down);
    }

    /// Reports the `MSG_ZEROCOPY` sends of a socket that are complete.
    pub fn zero_copy_settle(&mut self, key: SocketKey) {
        if self.sockets[key.0].zero_copy_settle() {
            self.effects.notify_socket(key, EPOLLERR);
        }
    }
}

/// Queues a packet that has passed traffic control.
#[inline]
pub(crate) fn send_packet_now(
    stack: &mut Stack,
    interface: usize,
    gateway: Option<IpAddr>,
    packet: Packet,
) -> PacketDisposition {
    match stack.interfaces[interface].attachment {
        Attachment::Loopback => {
            stack.clock.work_on_packet(packet.len());
            if is_stamped(packet.cookie()) {
                stamping::scheduled(stack, interface, &packet);
                stamping::sent(stack, stack.clock.now(), interface, &packet);
            }
            stack.lo.queue.push_back((packet, LO));
            PacketDisposition::HELD
        }
        Attachment::Graph => {
            stack.clock.work_on_packet(packet.len());
            if is_stamped(packet.cookie()) {
                stamping::scheduled(stack, interface, &packet);
            }
            PacketDisposition::of_card(stack.eth0.nic.send(stack.clock.now(), packet))
        }
        Attachment::Link(_)
        | Attachment::Tap(_)
        | Attachment::Vlan { .. }
        | Attachment::Veth { .. }
        | Attachment::Made(
            DeviceKind::Bridge
            | DeviceKind::Bond
            | DeviceKind::Vxlan
            | DeviceKind::Gretap
            | DeviceKind::Geneve
            | DeviceKind::Macvlan
            | DeviceKind::Ipvlan,
        )
        | Attachment::Ifb => match packet.open_bytes().first().map(|first| first >> 4) {
            Some(4) => stack.link_output(interface, gateway, packet),
            Some(6) => {
                let gateway = gateway.and_then(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None });
                stack.link_output6(interface, gateway, packet)
            }
            _ => PacketDisposition::dropped(DropCause::UnknownProtocol),
        },
        // A packet of a VRF to the host itself.
        Attachment::Made(DeviceKind::Vrf) => {
            stack.interfaces.count_virtual(interface, packet.len(), PacketDirection::Out);
            stack.lo.queue.push_back((packet, interface));
            PacketDisposition::HELD
        }
        Attachment::Made(DeviceKind::Gre | DeviceKind::Ipip | DeviceKind::Sit | DeviceKind::Ip6tnl) => {
            devices::tunnel_output(stack, interface, gateway, packet)
        }
        Attachment::Made(DeviceKind::Wireguard) => devices::wireguard_output(stack, interface, packet),
        Attachment::Tun(n) => stack.tun_output(n, packet),
        Attachment::Dummy => stack.dummy_output(interface, packet),
        Attachment::Unplugged { .. } | Attachment::Gone => {
            PacketDisposition::dropped(DropCause::InterfaceDown)
        }
    }
}
