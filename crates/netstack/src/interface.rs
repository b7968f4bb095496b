//! The interfaces: output queues, and reception over `lo`. `lo` is the first interface, followed by `eth0` on
//! a host attached to the graph.
//!
//! Protocols only queue packets. [`Stack::flush_network`] processes the queues at the end of every call,
//! timer and arrival that may have queued packets. The stack is therefore never re-entered, and the
//! consequences of a packet are processed in the order in which the packets were queued.

use super::ethernet::LinkConfig;
use super::resolver::SERVICE;
use super::{LO, Stack};
use crate::Departure;
use crate::PacketDirection;
use crate::SocketKey;
use crate::StackTimer;
use crate::TimerId;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::keyed::Keyed;
use crate::readiness::WRITABLE;
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
/// Length of the graph's `eth0` netmask shown to programs. Routing does not depend on it: every host is
/// on-link.
pub const GRAPH_PREFIX: u8 = 24;
/// Length of the graph's `eth0` IPv6 prefix shown to programs.
pub const GRAPH_PREFIX6: u8 = 64;
/// The MTU of the graph's `eth0`.
pub const ETH0_MTU: usize = 1_500;
/// The number of the interface to the graph, if there is one.
pub const GRAPH: usize = super::ETH0;
/// Number of packets over `lo` at one instant that are free. Each further one is charged like a system call,
/// so that two sockets of one host cannot stop the clock.
const LO_FREE_PACKETS: u32 = 10_000;
/// Packet buffers that a worker pools: as many as a fast flow over a long path has in flight.
const POOL_BUFFERS: usize = 2_048;
/// Capacity of a new packet buffer in bytes.
const PACKET_CAPACITY: usize = 1_536;
/// Larger buffers are returned to the allocator.
const POOL_BUFFER_CAPACITY: usize = 4_096;

thread_local! {
    /// The worker's pool of packet buffers. Most buffers are filled by one host and released by another, and
    /// the buffer released last is still in the cache.
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The interface `lo`: packets are received at the instant of their transmission, but never within the
/// sending call.
#[derive(Debug, Default)]
pub struct Loopback {
    /// Queued packets with their input interface: `lo`, or the interface that has sent them to a group of
    /// which this host is a member.
    pub queue: VecDeque<(Packet, usize)>,
    scheduled: bool,
    instant: SimTime,
    in_this_instant: u32,
    /// Number of packets carried.
    pub packets: u64,
    /// Number of bytes carried.
    pub bytes: u64,
}

/// The interface to the graph, `eth0`.
#[derive(Debug)]
pub struct Ethernet {
    /// The queues and the transmitter.
    pub nic: Nic,
    timer: Option<TimerId>,
}

impl Ethernet {
    /// Creates an idle interface.
    pub fn new(nic: Nic) -> Ethernet {
        Ethernet { nic, timer: None }
    }
}

/// The medium that an interface is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The host itself.
    Loopback,
    /// The graph.
    Graph,
    /// A link of the experiment, by its number on the host.
    Link(usize),
    /// A program that exchanges IP packets, by its number in `Stack::tuns`.
    Tun(usize),
    /// A program that exchanges Ethernet frames, by its number in `Stack::tuns`.
    Tap(usize),
    /// No medium: transmitted packets are discarded.
    Dummy,
    /// A VLAN on another interface.
    Vlan {
        /// The number of the lower interface.
        below: usize,
        /// The VLAN ID.
        id: u16,
    },
    /// A veth pair, by its other end.
    Veth {
        /// The number of the peer's network namespace.
        network: u32,
        /// The number of the peer there.
        peer: usize,
    },
    /// A program that has detached and may return.
    Unplugged {
        /// True if the program exchanges Ethernet frames.
        tap: bool,
    },
    /// The interface is deleted. Its number is not reused.
    Gone,
}

/// Settings of the administrator that override the defaults of the interface's kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// The `IFF_*` flags that differ from the kind's.
    pub toggled: u32,
    /// `IFLA_IFALIAS`: a description.
    pub alias: Option<Box<[u8]>>,
    /// `IFLA_GROUP`: the interface group.
    pub group: u32,
    /// `IFLA_TXQLEN`, if it differs from the kind's.
    pub queue_len: Option<u32>,
    /// `IFLA_BROADCAST`, if it differs from the kind's.
    pub broadcast: Option<[u8; 6]>,
    /// `IFLA_LINKMODE`.
    pub link_mode: u8,
}

/// An interface as visible to programs.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The interface's name.
    pub name: Arc<str>,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: usize,
    /// The interface's IPv4 addresses, primary ones first.
    pub addresses: Vec<InterfaceAddress>,
    /// The interface's IPv6 addresses, those of the widest scope first.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// `IFF_UP`: the interface is administratively up.
    pub up: bool,
    /// True if the medium is connected.
    pub carrier: bool,
    /// The medium of the interface.
    pub attachment: Attachment,
    /// Further settings of the administrator.
    pub settings: LinkSettings,
}

/// Sorts addresses as an interface stores them: primary ones first. An address in the network of an earlier
/// one is secondary.
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
            addresses: vec![InterfaceAddress::new(Ipv4Addr::LOCALHOST, 8)],
            addresses6: vec![InterfaceAddress::new(Ipv6Addr::LOCALHOST, 128)],
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
            addresses: vec![InterfaceAddress::new(address, GRAPH_PREFIX)],
            addresses6: address6.map(|ip| InterfaceAddress::new(ip, GRAPH_PREFIX6)).into_iter().collect(),
            up: true,
            carrier: true,
            attachment: Attachment::Graph,
            settings: LinkSettings::default(),
        }
    }
    /// The interface at the end of a link, by the number of the link on the host.
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
    /// The `IFF_*` flags of the interface's kind and of the administrator, without those of the operational
    /// state.
    pub fn lasting_flags(&self) -> u32 {
        let own = match self.attachment {
            Attachment::Loopback => c::IFF_LOOPBACK,
            Attachment::Dummy => c::IFF_BROADCAST | c::IFF_NOARP,
            Attachment::Tun(_) => c::IFF_POINTOPOINT | c::IFF_NOARP | c::IFF_MULTICAST,
            _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
        };
        own as u32 ^ self.settings.toggled
    }
    /// True if neighbours are resolved to hardware addresses, and requests for the interface's own are
    /// answered.
    pub fn asks_neighbours(&self) -> bool {
        self.lasting_flags() & c::IFF_NOARP as u32 == 0
    }
    /// Queue capacity in packets, as reported to programs.
    pub fn queue_capacity(&self) -> u32 {
        let program = matches!(self.attachment, Attachment::Tun(_) | Attachment::Tap(_));
        self.settings.queue_len.unwrap_or(if program { 500 } else { 1_000 })
    }
    /// `IFF_RUNNING`: the interface is up and has a carrier.
    pub fn is_running(&self) -> bool {
        self.up && self.carrier
    }
    /// True if the interface is up without a carrier because of its lower interface or veth peer.
    pub fn waits_for_below(&self) -> bool {
        let lies_upon = matches!(self.attachment, Attachment::Vlan { .. } | Attachment::Veth { .. });
        self.up && !self.carrier && lies_upon
    }
    /// True if the interface is at the end of a link with neighbours.
    pub fn is_link(&self) -> bool {
        match self.attachment {
            Attachment::Link(_) | Attachment::Tap(_) | Attachment::Dummy => true,
            Attachment::Vlan { .. } | Attachment::Veth { .. } => true,
            Attachment::Loopback | Attachment::Graph | Attachment::Tun(_) => false,
            Attachment::Unplugged { .. } | Attachment::Gone => false,
        }
    }
    /// True if the interface has not been deleted.
    pub fn exists(&self) -> bool {
        self.attachment != Attachment::Gone
    }
}

impl Stack {
    /// Number of packets queued for transmission on an interface.
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

/// Returns a packet's buffer to the pool.
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

/// Cookie by which an interface reports the departure of a socket's packet.
pub fn cookie(key: SocketKey, socket: &Socket) -> u64 {
    u64::from(socket.serial) << 32 | (key.0 as u64 + 1)
}

/// Socket of a packet's cookie; `None` if it was closed.
#[inline]
pub fn socket_of(sockets: &Keyed<Socket>, cookie: u64) -> Option<SocketKey> {
    let key = SocketKey((cookie & 0xffff_ffff) as usize - 1);
    let socket = sockets.get(key.0)?;
    (u64::from(socket.serial) == cookie >> 32).then_some(key)
}

impl Stack {
    /// Takes an empty packet buffer from the pool, or allocates one.
    pub fn packet_buffer(&mut self) -> Vec<u8> {
        let pooled = POOL.with_borrow_mut(Vec::pop);
        pooled.unwrap_or_else(|| Vec::with_capacity(PACKET_CAPACITY))
    }
    /// Returns a packet buffer to the pool.
    pub fn recycle_buffer(&mut self, buffer: Vec<u8>) {
        recycle(buffer);
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
        match self.interfaces[interface].attachment {
            Attachment::Loopback => {
                self.clock.work_on_packet(packet.len());
                self.lo.queue.push_back((packet, LO));
                PacketDisposition::HELD
            }
            Attachment::Graph => {
                self.clock.work_on_packet(packet.len());
                PacketDisposition::of_card(self.eth0.nic.send(self.clock.now(), packet))
            }
            Attachment::Link(_) | Attachment::Tap(_) | Attachment::Vlan { .. } | Attachment::Veth { .. } => {
                match packet.open_bytes().first().map(|first| first >> 4) {
                    Some(4) => self.link_output(interface, gateway, packet),
                    Some(6) => {
                        let gateway =
                            gateway.and_then(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None });
                        self.link_output6(interface, gateway, packet)
                    }
                    _ => PacketDisposition::dropped(DropCause::UnknownProtocol),
                }
            }
            Attachment::Tun(n) => self.tun_output(n, packet),
            Attachment::Dummy => self.dummy_output(interface, packet),
            Attachment::Unplugged { .. } | Attachment::Gone => {
                PacketDisposition::dropped(DropCause::InterfaceDown)
            }
        }
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

    /// Passes a departing packet to the name server, which is not a node, or to the graph.
    fn depart(&mut self, mut departure: Departure) {
        match self.is_for_resolver(departure.to, &mut departure.packet) {
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

    /// Counts a packet delivered within the owner. Beyond the free number at one instant each is charged like
    /// a call.
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

    /// Receives the packets queued on `lo` at the time of the call; answers are received at the next one.
    #[inline(never)]
    fn receive_looped(&mut self) {
        let now = self.clock.now();
        self.lo.scheduled = false;
        for _ in 0..self.lo.queue.len() {
            let Some((mut packet, interface)) = self.lo.queue.pop_front() else { break };
            self.charge_for_inner_packet();
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
            self.tap(now, LO, &mut packet, PacketDirection::Out);
            self.seen(now, LO, &mut packet, PacketDirection::In);
            if packet.cookie() != 0 {
                self.packet_left(packet.cookie(), packet.len());
            }
            if self.service.is_some() {
                let to = destination(packet.open_bytes());
                if self.is_for_resolver(to, &mut packet) {
                    self.resolver_input(now, &packet);
                    self.account.release(PacketDisposition::consumed(Receiver::Resolver));
                    continue;
                }
            }
            let end = self.ip_input(LO, packet);
            self.account.release(end);
        }
    }

    /// Processes the departure of a socket's packet of `bytes` bytes.
    fn packet_left(&mut self, cookie: u64, bytes: usize) {
        let Some(key) = socket_of(&self.sockets, cookie) else { return };
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
        self.tap(at, interface, packet, direction);
        if self.config.capture {
            packet.fill_checksum();
            let interface = &self.interfaces[interface];
            self.captured.push(at, &interface.name, interface.is_link(), packet.bytes());
        }
    }
}

impl Interface {
    /// Creates an interface attached to a program.
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
