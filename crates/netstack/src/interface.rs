//! The interfaces: queueing packets out and fetching what has come in over `lo`. `lo` is the first; a host that is
//! attached to the graph has `eth0` next.
//!
//! Protocols only ever queue packets. [`Host::flush_network`], which ends every call, timer and
//! arrival that may have queued some, moves them on; so the stack is never entered from within
//! itself, and what a packet sets off is done in the order in which packets were queued.

use super::ethernet::LinkConfig;
use super::resolver::SERVICE;
use super::{LO, Stack};
use crate::Departure;
use crate::PacketDirection;
use crate::SocketKey;
use crate::StackTimer;
use crate::TimerId;
use crate::socket::{Socket, SocketKind};
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_net::{InterfaceAddress, Nic, NicEvent, Packet};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The MTU of `lo`.
pub const LO_MTU: usize = 65_536;
/// The length of the netmask of the graph's `eth0` as programs see it. Routing does not depend on it: every
/// host is on the link.
pub const GRAPH_PREFIX: u8 = 24;
/// Length of the IPv6 prefix of the graph's `eth0` as programs see it.
pub const GRAPH_PREFIX6: u8 = 64;
/// The MTU of the graph's `eth0`.
pub const ETH0_MTU: usize = 1_500;
/// The number of the interface that leads to the graph, if there is one.
pub const GRAPH: usize = super::ETH0;
/// Packets over `lo` within one instant after which each further one is charged for like a system
/// call: two sockets of one host must not stop the clock.
const LO_FREE_PACKETS: u32 = 10_000;
/// Packet buffers that a worker keeps for reuse, as many as a fast flow over a long path has in flight.
const POOL_BUFFERS: usize = 2_048;
/// The room in a new one.
const PACKET_CAPACITY: usize = 1_536;
/// Larger buffers are given back to the allocator.
const POOL_BUFFER_CAPACITY: usize = 4_096;

thread_local! {
    /// The packet buffers of the worker: most are made by one host and given back by another, and what was given back
    /// last is still in the cache.
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The interface `lo`: what is sent is received in the same instant, but never within the call
/// that sends.
#[derive(Debug, Default)]
pub struct Loopback {
    /// Packets, and by which interface they come in: `lo`, or one that has sent them to a group that this
    /// host is a member of.
    pub queue: VecDeque<(Packet, usize)>,
    scheduled: bool,
    instant: SimTime,
    in_this_instant: u32,
    /// Packets carried.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The attachment to the graph, `eth0`.
#[derive(Debug)]
pub struct Ethernet {
    /// Its queues.
    pub nic: Nic,
    timer: Option<TimerId>,
}

impl Ethernet {
    /// An idle interface.
    pub fn new(nic: Nic) -> Ethernet {
        Ethernet { nic, timer: None }
    }
}

/// The medium that an interface is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The host itself.
    Loopback,
    /// A node of the graph.
    Graph,
    /// One of the experiment's links, by its number among the host's.
    Link(usize),
    /// A program that takes IP packets, by its number in `Stack::tuns`.
    Tun(usize),
    /// A program that takes Ethernet frames.
    Tap(usize),
    /// Nothing: what is sent is swallowed.
    Dummy,
    /// Another interface, whose frames have the tag of a VLAN.
    Vlan {
        /// The number of that interface.
        below: usize,
        /// The number of the VLAN.
        id: u16,
    },
    /// The other end of a pair.
    Veth {
        /// The number of its network.
        network: u32,
        /// Its number there.
        peer: usize,
    },
    /// A program that is gone, but may come back; whether it took Ethernet frames.
    Unplugged {
        /// It took Ethernet frames.
        tap: bool,
    },
    /// Nothing: the interface is no more, and its number not given to another.
    Gone,
}

/// What the administrator has set of an interface that is otherwise as its kind has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// The `IFF_*` that are other than the kind's.
    pub toggled: u32,
    /// `IFLA_IFALIAS`: a description.
    pub alias: Option<Box<[u8]>>,
    /// `IFLA_GROUP`: the group of interfaces that it is in.
    pub group: u32,
    /// `IFLA_TXQLEN`, where it is not the kind's.
    pub queue_len: Option<u32>,
}

/// An interface as programs see it.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: Arc<str>,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest IP packet that it carries.
    pub mtu: usize,
    /// Its IPv4 addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Its IPv6 addresses, those of the widest scope first.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// `IFF_UP`: it is used.
    pub up: bool,
    /// True if anything is at the other end.
    pub carrier: bool,
    /// The medium that it is attached to.
    pub attachment: Attachment,
    /// What the administrator has set besides.
    pub settings: LinkSettings,
}

/// Addresses in the order in which an interface keeps them: those that share the network of an earlier one are secondary.
fn primary_first(addresses: &[InterfaceAddress]) -> Vec<InterfaceAddress> {
    let is_first = |at: usize| addresses[..at].iter().all(|own| own.network() != addresses[at].network());
    let (primary, secondary): (Vec<_>, Vec<_>) = (0..addresses.len()).partition(|at| is_first(*at));
    primary.into_iter().chain(secondary).map(|at| addresses[at]).collect()
}

impl Interface {
    /// The interface `lo`.
    pub fn loopback() -> Interface {
        Interface {
            name: "lo".into(),
            mac: [0; 6],
            mtu: LO_MTU,
            addresses: vec![InterfaceAddress { ip: Ipv4Addr::LOCALHOST, len: 8 }],
            addresses6: vec![InterfaceAddress { ip: Ipv6Addr::LOCALHOST, len: 128 }],
            up: true,
            carrier: true,
            attachment: Attachment::Loopback,
            settings: LinkSettings::default(),
        }
    }
    /// The interface `eth0` of a host on the graph.
    pub fn graph(mac: [u8; 6], address: Ipv4Addr, address6: Option<Ipv6Addr>) -> Interface {
        Interface {
            name: "eth0".into(),
            mac,
            mtu: ETH0_MTU,
            addresses: vec![InterfaceAddress { ip: address, len: GRAPH_PREFIX }],
            addresses6: address6.map(|ip| InterfaceAddress { ip, len: GRAPH_PREFIX6 }).into_iter().collect(),
            up: true,
            carrier: true,
            attachment: Attachment::Graph,
            settings: LinkSettings::default(),
        }
    }
    /// The interface at the end of a link, by its number among the host's.
    pub fn link(number: usize, config: &LinkConfig) -> Interface {
        Interface {
            name: config.name.clone(),
            mac: config.mac,
            mtu: config.mtu,
            addresses: primary_first(&config.addresses),
            addresses6: config.addresses6.clone(),
            up: true,
            carrier: config.carrier,
            attachment: Attachment::Link(number),
            settings: LinkSettings::default(),
        }
    }
    /// `ARPHRD_LOOPBACK`, `ARPHRD_NONE` or `ARPHRD_ETHER`.
    pub fn hardware_type(&self) -> u16 {
        match self.attachment {
            Attachment::Loopback => 772,
            Attachment::Tun(_) | Attachment::Unplugged { tap: false } => 0xfffe,
            _ => 1,
        }
    }
    /// `IFF_*` that it has by its kind or that the administrator has given it, without those of its state.
    pub fn lasting_flags(&self) -> u32 {
        let own = match self.attachment {
            Attachment::Loopback => c::IFF_LOOPBACK,
            Attachment::Dummy => c::IFF_BROADCAST | c::IFF_NOARP,
            Attachment::Tun(_) => c::IFF_POINTOPOINT | c::IFF_NOARP | c::IFF_MULTICAST,
            _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
        };
        own as u32 ^ self.settings.toggled
    }
    /// True if the hardware addresses of its neighbours are asked for, and questions for its own answered.
    pub fn asks_neighbours(&self) -> bool {
        self.lasting_flags() & c::IFF_NOARP as u32 == 0
    }
    /// Packets that its queue takes as programs are told.
    pub fn queue_capacity(&self) -> u32 {
        let program = matches!(self.attachment, Attachment::Tun(_) | Attachment::Tap(_));
        self.settings.queue_len.unwrap_or(if program { 500 } else { 1_000 })
    }
    /// `IFF_RUNNING`: it is up and has a carrier.
    pub fn is_running(&self) -> bool {
        self.up && self.carrier
    }
    /// True if it is up, and the interface that it lies upon or is a pair with is not.
    pub fn waits_for_below(&self) -> bool {
        let lies_upon = matches!(self.attachment, Attachment::Vlan { .. } | Attachment::Veth { .. });
        self.up && !self.carrier && lies_upon
    }
    /// True if it is at the end of a link that stations share.
    pub fn is_link(&self) -> bool {
        match self.attachment {
            Attachment::Link(_) | Attachment::Tap(_) | Attachment::Dummy => true,
            Attachment::Vlan { .. } | Attachment::Veth { .. } => true,
            Attachment::Loopback | Attachment::Graph | Attachment::Tun(_) => false,
            Attachment::Unplugged { .. } | Attachment::Gone => false,
        }
    }
    /// True if it is there.
    pub fn exists(&self) -> bool {
        self.attachment != Attachment::Gone
    }
}

impl Stack {
    /// Packets that wait to leave an interface.
    pub fn queue_len(&self, interface: usize) -> usize {
        match self.interfaces[interface].attachment {
            Attachment::Loopback => 0,
            Attachment::Graph => self.eth0.nic.egress_queue_len(),
            Attachment::Vlan { below, .. } => self.queue_len(below),
            Attachment::Tun(_) | Attachment::Tap(_) | Attachment::Dummy | Attachment::Veth { .. } => 0,
            Attachment::Unplugged { .. } | Attachment::Gone => 0,
            Attachment::Link(link) => self.links[link].nic.egress_queue_len(),
        }
    }
}

/// Takes a packet's buffer back that is no longer needed.
pub fn recycle(mut buffer: Vec<u8>) {
    if !(1..=POOL_BUFFER_CAPACITY).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOL_BUFFERS {
            pool.push(buffer);
        }
    });
}

/// The destination address of a packet.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    if packet.first()? >> 4 == 6 {
        let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
        return Some(octets.into());
    }
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| octets.into())
}

/// The name by which an interface reports that a packet of a socket has left.
pub fn cookie(key: SocketKey, socket: &Socket) -> u64 {
    u64::from(socket.serial) << 32 | (key.0 as u64 + 1)
}

impl Stack {
    /// An empty buffer for a packet.
    pub fn packet_buffer(&mut self) -> Vec<u8> {
        let pooled = POOL.with_borrow_mut(Vec::pop);
        pooled.unwrap_or_else(|| Vec::with_capacity(PACKET_CAPACITY))
    }
    /// Takes a buffer back that is no longer needed.
    pub fn recycle_buffer(&mut self, buffer: Vec<u8>) {
        recycle(buffer);
    }
    /// Queues a packet of this content on an interface, to a router, past the hooks of IP: as [`send_packet`](Self::send_packet).
    pub fn transmit(
        &mut self,
        interface: usize,
        gateway: Option<IpAddr>,
        bytes: Vec<u8>,
        cookie: u64,
    ) -> bool {
        self.send_packet(interface, gateway, Packet::with_cookie(bytes, cookie))
    }
    /// Queues a packet on an interface, to a router; its cookie is reported when it has left. False if the queue is
    /// full and the packet lost.
    #[inline]
    pub(crate) fn send_packet(&mut self, interface: usize, gateway: Option<IpAddr>, packet: Packet) -> bool {
        match self.interfaces[interface].attachment {
            Attachment::Loopback => {
                self.clock.work_on_packet(packet.len());
                self.lo.queue.push_back((packet, LO));
                true
            }
            Attachment::Graph => {
                self.clock.work_on_packet(packet.len());
                self.eth0.nic.send(self.clock.now(), packet).is_ok()
            }
            Attachment::Link(_) | Attachment::Tap(_) | Attachment::Vlan { .. } | Attachment::Veth { .. } => {
                match packet.open_bytes().first().map(|first| first >> 4) {
                    Some(4) => self.link_output(interface, gateway, packet),
                    Some(6) => {
                        let gateway =
                            gateway.and_then(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None });
                        self.link_output6(interface, gateway, packet)
                    }
                    _ => false,
                }
            }
            Attachment::Tun(n) => self.tun_output(n, packet),
            Attachment::Dummy => self.dummy_output(interface, packet),
            Attachment::Unplugged { .. } | Attachment::Gone => false,
        }
    }

    /// Sends a multicast or broadcast packet back to this host, as if it had come in by `interface`.
    pub(crate) fn loop_back(&mut self, interface: usize, packet: Packet) {
        self.lo.queue.push_back((packet, interface));
    }

    /// Moves queued packets on.
    pub fn flush_network(&mut self) {
        let now = self.clock.now();
        while let Some((cookie, bytes)) = self.taken_over.pop_front() {
            self.packet_left(cookie, bytes);
        }
        while let Some((at, event)) = self.eth0.nic.poll(now) {
            match event {
                NicEvent::Transmit { mut packet, departs } => {
                    self.seen(at, GRAPH, &mut packet, PacketDirection::Out);
                    packet.set_mark(0);
                    let to = destination(packet.open_bytes());
                    self.depart(Departure { at: departs, link: None, to, packet });
                }
                NicEvent::Sent { cookie, bytes } => self.packet_left(cookie, bytes),
            }
        }
        if !self.links.is_empty() || !self.tuns.is_empty() || self.has_pairs {
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
    }

    /// A packet leaves for the graph: to the name server, which is no node of its own, or to another node.
    fn depart(&mut self, mut departure: Departure) {
        match self.is_for_resolver(departure.to, &mut departure.packet) {
            true => self.resolver_input(departure.at, &departure.packet),
            false => self.departures.push(departure),
        }
    }

    /// The bootstrap phase is over: `eth0` is as fast as it is configured.
    #[cold]
    pub fn limit_bandwidths(&mut self) {
        let (up, down) = (self.config.nic.bandwidth_up, self.config.nic.bandwidth_down);
        self.eth0.nic.set_bandwidths(self.clock.now(), up, down);
        self.plan_arrivals();
        self.flush_network();
    }

    /// Changes what `eth0` can send and receive, in bits per second; the inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        let nic = &mut self.config.nic;
        nic.bandwidth_up = up.unwrap_or(nic.bandwidth_up);
        nic.bandwidth_down = down.unwrap_or(nic.bandwidth_down);
        if self.clock.now() >= self.config.bootstrap_end {
            self.limit_bandwidths();
        }
    }

    /// A frame reaches the end of a link, or a packet this host from its name server.
    pub fn packet_arrived(&mut self, link: usize, mut packet: Packet) {
        match link {
            SERVICE if !self.is_down => {
                self.seen(self.clock.now(), LO, &mut packet, PacketDirection::In);
                self.ip_input(LO, packet);
                self.flush_network();
            }
            SERVICE => {}
            link => self.frame_arrived(link, packet),
        }
    }

    /// An interface has something to do.
    pub fn interface_timer(&mut self, interface: usize) {
        match self.interfaces[interface].attachment {
            Attachment::Loopback => self.receive_looped(),
            Attachment::Graph => self.eth0.timer = None,
            Attachment::Link(link) => self.link_timer(link),
            _ => {}
        }
        self.flush_network();
    }

    /// A packet is received that has not left the owner: of many in one instant each costs time.
    pub(crate) fn charge_for_inner_packet(&mut self) {
        let now = self.clock.now();
        if self.lo.instant != now {
            self.lo.instant = now;
            self.lo.in_this_instant = 0;
        }
        self.lo.in_this_instant += 1;
        if self.lo.in_this_instant > LO_FREE_PACKETS {
            self.clock.charge();
        }
    }

    /// A packet has gone where nobody says when it leaves: whoever sent it is told once the call is over.
    pub(crate) fn take_over(&mut self, cookie: u64, len: usize) {
        self.taken_over.push_back((cookie, len));
    }

    /// Receives what was on `lo` when this was called; answers are received next time.
    #[inline(never)]
    fn receive_looped(&mut self) {
        let now = self.clock.now();
        self.lo.scheduled = false;
        for _ in 0..self.lo.queue.len() {
            let Some((mut packet, interface)) = self.lo.queue.pop_front() else { break };
            self.charge_for_inner_packet();
            self.arrived_as_one = interface == LO;
            if interface != LO {
                // Nobody sees that the packet has not been there.
                self.ip_input(interface, packet);
                continue;
            }
            self.clock.work_on_packet(packet.len());
            self.lo.packets += 1;
            self.lo.bytes += packet.len() as u64;
            self.tap(now, LO, &mut packet, PacketDirection::Out);
            self.seen(now, LO, &mut packet, PacketDirection::In);
            if packet.cookie() != 0 {
                self.packet_left(packet.cookie(), packet.len());
            }
            if self.service.is_some() {
                let to = destination(packet.open_bytes());
                if self.is_for_resolver(to, &mut packet) {
                    self.resolver_input(now, &packet);
                    continue;
                }
            }
            self.ip_input(LO, packet);
        }
    }

    /// A packet of `bytes` bytes that a socket queued has left its interface.
    fn packet_left(&mut self, cookie: u64, bytes: usize) {
        let key = SocketKey((cookie & 0xffff_ffff) as usize - 1);
        let Some(socket) = self.sockets.get(key.0) else { return };
        if u64::from(socket.serial) != cookie >> 32 {
            return;
        }
        match socket.kind {
            SocketKind::Udp(_) => self.udp_packet_left(key, bytes),
            SocketKind::Tcp(_) => self.tcp_packet_left(key, bytes),
            _ => {}
        }
    }

    /// A packet will not leave: whoever waits for that goes on.
    #[inline(never)]
    pub fn packet_lost(&mut self, cookie: u64, bytes: usize) {
        if cookie != 0 {
            self.packet_left(cookie, bytes);
        }
    }

    /// True if a packet of TCP or UDP may leave by an interface with an open checksum: nobody here is to see its bytes, and
    /// its way there knows of that.
    #[inline]
    pub fn may_leave_open(&self, interface: usize) -> bool {
        let attachment = self.interfaces[interface].attachment;
        matches!(attachment, Attachment::Graph | Attachment::Loopback)
            && !self.config.capture
            && self.watchers == 0
    }

    /// A packet, or a frame, passes an interface.
    #[inline]
    pub fn seen(&mut self, at: SimTime, interface: usize, packet: &mut Packet, direction: PacketDirection) {
        if self.watchers > 0 || self.config.capture {
            self.show(at, interface, packet, direction);
        }
    }

    #[inline(never)]
    fn show(&mut self, at: SimTime, interface: usize, packet: &mut Packet, direction: PacketDirection) {
        self.tap(at, interface, packet, direction);
        if self.config.capture {
            packet.fill_checksum();
            let interface = &self.interfaces[interface];
            self.captured.push(at, &interface.name, interface.is_link(), packet.bytes());
        }
    }
}

impl Interface {
    /// An interface whose other end is a program.
    pub fn program(name: &str, mac: [u8; 6], attachment: Attachment) -> Interface {
        Interface {
            name: name.into(),
            mac,
            mtu: 1_500,
            addresses: Vec::new(),
            addresses6: Vec::new(),
            up: false,
            carrier: true,
            attachment,
            settings: LinkSettings::default(),
        }
    }
}
