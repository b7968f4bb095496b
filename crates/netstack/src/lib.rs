//! A TCP/IP stack for one node, sans-IO, that behaves as Linux's does: packets, the time and operations on sockets go in;
//! packets, wake-ups, timers and notes come out. It knows no programs, files, descriptors, guest memory or system calls.
//! `belljar-kernel` puts Linux's face on it; traffic models and devices with an address of their own use it directly.
//!
//! # Contract
//!
//! A [`Stack`] is made from a [`StackConfig`] and a [`Clock`](clock::Clock). Its owner calls, by kinds:
//!
//! **Packets in.** [`deliver`](Stack::deliver), ahead of the time at which a packet is in. Arrivals are ordered by their
//! keys.
//!
//! **Time.** [`next_event`](Stack::next_event) says when something is due: to be asked after every other call.
//! [`pass_until`](Stack::pass_until) moves the clock on and handles what is due. An owner with timers of its own that must
//! fire in turn with these draws their names by [`TimerQueue::name`] from the stack's queue, asks
//! [`next_turn`](Stack::next_turn) what comes first, and calls [`receive_arrival`](Stack::receive_arrival) or
//! [`fire_timer`](Stack::fire_timer) once the clock is there.
//!
//! **Power.** [`cut_power`](Stack::cut_power), then the end of what uses the sockets, then [`lose_state`](Stack::lose_state);
//! [`restore_power`](Stack::restore_power) and [`begin_bootstrap`](Stack::begin_bootstrap) start it again.
//!
//! **Processor.** Where the clock's [`CpuModel`](clock::CpuModel) has costs, packets take time ([`cpu`]), and an owner with work of
//! its own charges it by [`Clock::work`](clock::Clock::work). An owner with threads handles events of a run only before the run's
//! limit, and calls [`stop_yielding`](Stack::stop_yielding) when none of them can run.
//!
//! **Sockets.** Attempts that never wait: [`listen`](Stack::listen), [`accept`](Stack::accept),
//! [`connect`](Stack::connect), [`read`](Stack::read), [`write`](Stack::write), [`finish`](Stack::finish),
//! [`bind_udp`](Stack::bind_udp), [`send_to`](Stack::send_to), [`receive_from`](Stack::receive_from),
//! [`close`](Stack::close). [`poll`](Stack::poll) gives the `EPOLL*` bits that hold. The modules [`tcp`], [`udp`], [`raw`]
//! and [`ping`] have what Linux's calls need besides; whoever queues packets by those ends with
//! [`flush_network`](Stack::flush_network).
//!
//! **Out.** After every call that may have changed something, [`take_departures`](Stack::take_departures) gives the packets
//! that have left, and [`take_effects`](Stack::take_effects) what the owner is to do, in the order in which it came to be:
//! [`Effect::Ready`] wakes those who wait for a socket, and must be carried out before anybody begins to wait.
//! [`drain_captured`](Stack::drain_captured) gives the packets that passed, where they are kept.
//!
//! **Configuration.** Interfaces, addresses, routes, rules, neighbours and settings are public, as the administrator of a
//! Linux host has them; [`set_carrier`](Stack::set_carrier), [`change_nic`](Stack::change_nic) and
//! [`set_routes`](Stack::set_routes) are for the experiment.
//!
//! # Sockets of other families
//!
//! The owner may keep sockets of families that need no stack under the same keys ([`socket::SocketKind::Other`]): so keys
//! and serial numbers are drawn from one row.
//!
//! # Network namespaces
//!
//! An owner may have several stacks, each with its own sockets: see [`networks`].
//!
//! # Layers
//!
//! [`interface`] carries packets between the protocols and the outside; links put Ethernet frames and neighbours between.
//! [`ip`] routes, fragments and distributes; [`v6`] is what IPv6 needs besides. [`udp`], [`tcp`], [`raw`] and [`ping`] are
//! the sockets over it, [`error_queue`], [`path_mtu`], [`multicast`] what they share.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod address;
mod arp;
mod arrivals;
pub mod bind;
mod captured;
pub mod clock;
pub mod conf;
mod config;
pub mod cpu;
mod effects;
pub mod error_queue;
mod ethernet;
mod events;
pub mod family;
pub mod filter;
mod footprint;
pub mod interface;
pub mod interfaces;
pub mod ip;
pub mod ip_socket;
pub mod keyed;
pub mod lifetimes;
pub mod mib;
pub mod multicast;
pub mod networks;
pub mod nexthops;
mod operations;
pub mod own_addresses;
pub mod path_mtu;
pub mod ping;
mod power;
pub mod raw;
pub mod readiness;
mod resolver;
mod route_log;
mod samples;
mod send;
pub mod shown_frames;
pub mod socket;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod testing;
mod timer;
mod timers;
pub mod tun;
pub mod udp;
pub mod v6;
pub mod veth;
pub mod virtual_links;
pub mod zero_copy;

pub use arrivals::Arrivals;
pub use captured::{CAPTURE_ROOM, CapturedRun};
pub use config::{Departure, StackConfig, TcpBufferSizes};
pub use effects::{Effect, PacketDirection, Passed};
pub use ethernet::LinkConfig;
pub use events::Turn;
pub use power::PowerCut;
pub use resolver::Resolver;
pub use samples::TcpSample;
pub use timer::{TimerId, TimerQueue};
pub use timers::StackTimer;
pub use v6::InitialRoute6;

use belljar_base::{Inbox, Stream};
use belljar_net::icmp_limit::IcmpLimit;
use belljar_net::igmp::Igmp;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{Prefix, Route, RouteTable, protocol};
use belljar_net::{Nic, Packet};
use captured::Captured;
use clock::Clock;
use ethernet::LinkPort;
use interface::{Attachment, Ethernet, Interface, Loopback};
use interfaces::Interfaces;
use ip::fragment::Reassembly;
use keyed::Keyed;
use siphasher::sip::SipHasher13;
use socket::Socket;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The key of a socket. Keys are given again once they are free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketKey(pub usize);

/// The number of the interface `lo`.
pub const LO: usize = 0;
/// The number of the interface `eth0` on a host that is attached to the graph.
pub const ETH0: usize = 1;
/// The index by which guests know an interface.
pub fn interface_index(interface: usize) -> u32 {
    interface as u32 + 1
}
/// Counters of the stack beside those of the interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct StackCounters {
    /// Of UDP and of UDP-Lite, by [`udp::Protocol::index`] and [`mib::version`].
    pub udp: [[udp::UdpCounters; 2]; 2],
    /// Of IP and of ICMP, by [`mib::version`].
    pub ip: [mib::IpCounters; 2],
    /// Packets that were cut short, malformed or damaged.
    pub malformed: u64,
    /// Packets for another host's address.
    pub not_for_us: u64,
    /// Packets dropped by hooks ([`ip::hooks`]), by their point and by [`mib::version`].
    pub hook_drops: [[u64; 2]; 5],
    /// Packets dropped because those to their source would leave by another interface (`rp_filter`).
    pub wrong_sources: u64,
    /// SYNs and handshakes dropped because a listener's queues were full.
    pub listen_overflows: u64,
    /// SYNs and handshakes that a listener dropped for any reason.
    pub listen_drops: u64,
    /// SYN cookies sent, returned, and returned that were none.
    pub cookies: [u64; 3],
    /// Of TCP Fast Open.
    pub fast_open: tcp::fast_open::FastOpenCounters,
    /// Resets sent for segments that belong to no connection.
    pub tcp_resets_sent: u64,
    /// See `ip`.
    pub icmp: [mib::IcmpCounters; 2],
    /// Connections begun by `connect(2)`.
    pub tcp_active_opens: u64,
    /// Connections begun by a SYN for a listener.
    pub tcp_passive_opens: u64,
    /// Connections that ended before their handshake was complete.
    pub tcp_attempt_fails: u64,
    /// Connections that a reset ended.
    pub tcp_resets: u64,
    /// TCP segments received, sent, and of those sent again.
    pub tcp_in: u64,
    /// See `tcp_in`.
    pub tcp_out: u64,
    /// See `tcp_in`.
    pub tcp_retransmitted: u64,
    /// Retransmission timeouts.
    pub tcp_timeouts: u64,
    /// Further counters of connections, by `belljar_tcp::COUNT_NAMES`.
    pub tcp_counts: [u64; belljar_tcp::COUNTS],
}
/// A route that a host has from the start: where to, with which metric, how.
pub type InitialRoute = (Prefix, u32, Route);
/// The network stack of one node. The head of this crate gives the contract and sorts the methods of an owner by kinds: packets
/// in, time, sockets, out, configuration.
///
/// Two more kinds are for owners that put Linux's calls on top. *Per-protocol operations* (`tcp_*`, `udp_*` and the like) take a
/// socket's key, make one attempt and never wait; they may queue packets, and the caller ends with
/// [`flush_network`](Stack::flush_network). *Tables* (interfaces, routes, neighbours, settings) are public fields: an
/// administrator changes them, and calls the method that goes with the change, such as
/// [`interface_is_up`](Stack::interface_is_up) or [`add_connected`](Stack::add_connected). `belljar-linux-net` does both for
/// rtnetlink and `ioctl`.
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Stack {
    /// Its time.
    pub clock: Clock,
    /// Packets that are coming in from the graph.
    pub arrivals: Arrivals,
    /// Packets that are coming in by links, each with its link.
    pub inbox: Inbox<(usize, Packet)>,
    /// Pending timers.
    pub timers: TimerQueue<StackTimer>,
    /// Effects for its owner, not yet taken.
    effects: Vec<Effect>,
    /// Packets that have left.
    pub departures: Vec<Departure>,
    /// The host has crashed and not been started again.
    pub is_down: bool,
    /// Changes of the main routing tables, where they are kept.
    pub route_log: String,
    /// Packets that have passed its interfaces, where they are kept.
    pub captured: Captured,
    /// The queues of the attachment to the graph.
    pub eth0: Ethernet,
    /// Fetches bytes into the cache.
    prefetch: fn(&[u8]),
    /// True if the packet that has come in last was sent to this host alone.
    arrived_as_one: bool,
    /// The name server's address, on a host that cannot reach it over the graph.
    service: Option<Ipv4Addr>,
    /// Functions that decide on packets.
    hooks: ip::hooks::Hooks,
    /// Number of raw sockets: without any no packet asks for them.
    pub raw_sockets: usize,
    /// All sockets, those without an open file included.
    pub sockets: Slab<Socket>,
    /// Its interfaces.
    pub interfaces: Interfaces,
    /// The queues before links, by their number.
    pub links: Vec<LinkPort>,
    /// Programs' ends of interfaces.
    pub tuns: Keyed<tun::Tun>,
    /// Number of observers of the packets that pass its interfaces.
    pub watchers: usize,
    /// MTUs of IPv4 paths, learnt from routers.
    path_mtus: path_mtu::PathMtus,
    /// Packets that programs have taken over, for those who wait for them to leave.
    taken_over: VecDeque<(u64, usize)>,
    /// The interface `lo`.
    pub lo: Loopback,
    /// Frames that have been sent to ends of pairs of interfaces, and to which.
    crossing: VecDeque<(usize, Packet)>,
    /// True once it has had an interface that is one of a pair.
    has_pairs: bool,
    /// The next identifications of IPv4.
    pub idents: ip::ident::Idents,
    /// Where packets for other hosts go.
    pub routes: RouteTable,
    /// Its other tables, and which is asked for what.
    pub policy: Policy,
    /// UDP sockets by port.
    pub udp_ports: [udp::UdpPorts; 2],
    /// Settings of `/proc/sys/net`.
    pub sysctls: sysctl::Sysctls,
    /// Settings of interfaces.
    pub interface_settings: conf::InterfaceSettings,
    /// Redirects of IPv4.
    pub redirects: ip::redirect::Redirects,
    /// Addresses that do not stay for ever.
    pub lifetimes: lifetimes::Lifetimes,
    /// Next-hop objects.
    pub nexthops: nexthops::NextHops,
    /// Counters of lost packets and the like.
    pub counters: StackCounters,
    /// Counts sockets, see [`Socket::serial`].
    pub next_serial: u32,
    /// Its number among the stacks of its owner: see [`networks`].
    pub number: u32,
    /// Hardware addresses of TAP interfaces.
    pub tun_addresses: Stream,
    /// Neighbours on the links, by hardware address.
    pub neighbours: Neighbours,
    neighbour_timer: Option<TimerId>,
    /// State of IPv6.
    pub v6: v6::Ipv6,
    /// Spreads flows over routes of equal cost, on each host differently.
    pub flow_key: u64,
    /// Fragments of datagrams that are not complete.
    pub reassembly: Reassembly,
    reassembly_timer: Option<TimerId>,
    /// Rate limit of ICMP errors.
    pub icmp_limit: IcmpLimit,
    /// Servers that were asked for TCP Fast Open.
    pub fast_open_servers: tcp::fast_open::Servers,
    /// TCP sockets by port and connection.
    pub tcp: tcp::TcpTable,
    /// Ephemeral ports.
    pub ports: Stream,
    /// Initial sequence numbers.
    pub isns: Stream,
    /// The multicast groups that the host is a member of.
    pub igmp: Igmp,
    igmp_timer: Option<TimerId>,
    /// Random numbers for filters that ask for them.
    pub filter_random: Stream,
    /// Answers that have come from the name server.
    pub resolved: u64,
    /// The name server's ends of this host's connections with it.
    pub streams: resolver::Streams,
    /// The connection that the closing of the last socket waits for (`SO_LINGER`), and for how long.
    pub lingering: Option<(SocketKey, (SocketAddr, SocketAddr), belljar_base::SimDuration)>,
    /// Configuration.
    pub config: StackConfig,
}
impl Stack {
    /// The stack of a host with `lo` and `eth0` up.
    pub fn new(config: StackConfig, clock: Clock) -> Stack {
        let stream = |what| config.seed.stream(&["host", &config.name, what]);
        let mut mac = [0; 6];
        stream("mac").fill(&mut mac);
        // Locally administered, not a group.
        mac[0] = mac[0] & 0xfc | 0x02;
        let mut routes = RouteTable::default();
        if config.log_routes {
            routes.record_changes();
        }
        let mut interfaces = vec![Interface::loopback()];
        if config.on_graph {
            interfaces.push(Interface::graph(mac, config.address, config.address6));
            // Everybody is on the link.
            let everywhere = Route { source: Some(config.address), ..Route::by(ETH0, None, protocol::BOOT) };
            routes.insert(Prefix::ALL, 0, everywhere);
        }
        let first_link = interfaces.len();
        for (number, link) in config.links.iter().enumerate() {
            interfaces.push(Interface::link(number, link));
        }
        let mut net = Stack {
            clock,
            arrivals: Arrivals::default(),
            inbox: Inbox::default(),
            timers: TimerQueue::default(),
            effects: Vec::new(),
            departures: Vec::new(),
            is_down: false,
            captured: Captured::default(),
            sockets: Keyed::default(),
            next_serial: 0,
            number: 0,
            lo: Loopback::default(),
            crossing: VecDeque::new(),
            has_pairs: false,
            eth0: Ethernet::new(Nic::new(&config.nic)),
            links: config.links.iter().map(LinkPort::new).collect(),
            tuns: Slab::new(),
            taken_over: VecDeque::new(),
            tun_addresses: stream("tun-mac"),
            neighbours: Neighbours::new(&mut stream("neighbours")),
            neighbour_timer: None,
            arrived_as_one: true,
            service: config.resolver.as_ref().filter(|_| !config.on_graph).map(|r| r.zone.address),
            interfaces: Interfaces::new(interfaces, first_link),
            routes,
            policy: Policy::default(),
            v6: v6::Ipv6::new(&config),
            flow_key: stream("flow-hash").next_u64(),
            reassembly: Reassembly::default(),
            reassembly_timer: None,
            idents: ip::ident::Idents::new(stream("ip-id")),
            icmp_limit: IcmpLimit::new(stream("icmp-limit")),
            udp_ports: Default::default(),
            path_mtus: path_mtu::PathMtus::default(),
            fast_open_servers: tcp::fast_open::Servers::default(),
            tcp: tcp::TcpTable::default(),
            ports: stream("ports"),
            isns: stream("tcp-isn"),
            igmp: Igmp::new(stream("igmp")),
            igmp_timer: None,
            filter_random: stream("socket-filter"),
            hooks: ip::hooks::Hooks::default(),
            raw_sockets: 0,
            watchers: 0,
            resolved: 0,
            streams: resolver::Streams::default(),
            sysctls: sysctl::Sysctls::of_host(&config),
            interface_settings: conf::InterfaceSettings::default(),
            redirects: ip::redirect::Redirects::default(),
            lifetimes: lifetimes::Lifetimes::default(),
            nexthops: nexthops::NextHops::default(),
            lingering: None,
            counters: StackCounters::default(),
            route_log: String::new(),
            prefetch: config.prefetch,
            config,
        };
        net.begin_interface_settings();
        for number in 1..net.interfaces.len() {
            if net.interfaces[number].is_link() {
                net.add_connected(number);
            }
        }
        net.replace_computed();
        net.start_v6();
        net.begin_route_log();
        net
    }
    /// Puts the packets that have left since the last call into `out`, which is empty, in order of departure.
    pub fn take_departures(&mut self, out: &mut Vec<Departure>) {
        std::mem::swap(&mut self.departures, out);
    }
    /// Hands out the packets captured since the last call.
    pub fn drain_captured(&mut self, sink: impl FnMut(CapturedRun)) {
        self.captured.drain(sink);
    }
    /// Fetches bytes into the cache that are about to be read.
    pub fn prefetch(&self, bytes: &[u8]) {
        (self.prefetch)(bytes);
    }
    /// The host starts: until the bootstrap phase is over `eth0` has no limits.
    pub fn begin_bootstrap(&mut self) {
        let now = self.clock.now();
        if now < self.config.bootstrap_end {
            self.eth0.nic.set_bandwidths(now, None, None);
            self.timers.add(self.config.bootstrap_end, StackTimer::BootstrapEnd);
        }
    }
    /// Adds routes to the networks of an interface's addresses.
    pub fn add_connected(&mut self, number: usize) {
        for own in self.interfaces[number].addresses.clone() {
            let route = Route { source: Some(own.ip), ..Route::by(number, None, protocol::KERNEL) };
            let (network, given) = (
                self.interfaces.address_network(number, &own),
                self.interfaces.address_attributes(number, &own),
            );
            let connected = !given.no_prefix_route
                && (own.len < 32 || given.peer.is_some())
                && self.interfaces.primary_of(number, &own) == own;
            if connected && self.routes.get(network, given.metric).is_none() {
                self.routes.insert(network, given.metric, route);
            }
        }
    }
    /// An interface is used again.
    pub fn interface_is_up(&mut self, number: usize) {
        match self.interfaces[number].attachment {
            Attachment::Graph => {
                let source = self.interfaces[number].addresses.first().map(|own| own.ip);
                let everywhere = Route { source, ..Route::by(number, None, protocol::BOOT) };
                self.routes.insert(Prefix::ALL, 0, everywhere);
            }
            Attachment::Loopback => {}
            _ => self.add_connected(number),
        }
        self.replace_computed();
    }
    /// Takes out the routes that the experiment has computed before, and adds these.
    fn replace_computed(&mut self) {
        let interfaces = &self.interfaces;
        let usable =
            |(_, _, route): &&InitialRoute| route.hops.iter().all(|hop| interfaces[hop.interface].up);
        self.routes.replace_computed(self.config.routes.iter().filter(usable).cloned());
    }
}
/// A number that spreads flows over the sockets that share a port.
fn flow_hash(source: SocketAddr, destination: SocketAddr) -> u64 {
    let mut hasher = SipHasher13::new();
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// A number that spreads what goes from one host to another over paths of equal cost.
fn flow_hash_of(key: u64, source: Ipv4Addr, destination: Ipv4Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// The same for packets of one protocol and pair of ports.
fn flow_hash_with_ports(key: u64, source: Ipv4Addr, destination: Ipv4Addr, sender: &family::FlowKey) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination, sender.protocol, sender.ports).hash(&mut hasher);
    hasher.finish()
}
/// A number that spreads IPv6 packets of one pair of addresses over paths of equal cost.
fn flow_hash_of6(key: u64, source: Ipv6Addr, destination: Ipv6Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&source.octets());
    hasher.write(&destination.octets());
    hasher.finish()
}
impl Stack {
    /// Counters of the stack above the interfaces.
    pub fn stack_counters(&self) -> &StackCounters {
        &self.counters
    }
}
