//! The stack of one node: its parts, and their wiring.

use crate::captured::Captured;
use crate::clock::Clock;
use crate::ethernet::LinkPort;
use crate::interface::{Attachment, Ethernet, Interface, Loopback};
use crate::interfaces::Interfaces;
use crate::ip::fragment::Reassembly;
use crate::keyed::Keyed;
use crate::socket::Socket;
use crate::{
    Arrivals, CapturedRun, Departure, ETH0, Effects, InitialRoute, SocketKey, StackConfig, StackCounters,
    StackTimer, TimerId, TimerQueue, conf, ip, lifetimes, nexthops, path_mtu, resolver, sysctl, tcp, tun,
    udp, v6,
};
use belljar_base::{Inbox, Stream};
use belljar_net::icmp_limit::IcmpLimit;
use belljar_net::igmp::Igmp;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{Prefix, Route, RouteTable, protocol};
use belljar_net::{Nic, Packet};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

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
    pub effects: Effects,
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
    pub(crate) prefetch: fn(&[u8]),
    /// True if the packet that has come in last was sent to this host alone.
    pub(crate) arrived_as_one: bool,
    /// The name server's address, on a host that cannot reach it over the graph.
    pub(crate) service: Option<Ipv4Addr>,
    /// Functions that decide on packets.
    pub(crate) hooks: ip::hooks::Hooks,
    /// Number of raw sockets: without any no packet asks for them.
    pub raw_sockets: usize,
    /// All sockets, those without an open file included.
    pub sockets: Keyed<Socket>,
    /// Its interfaces.
    pub interfaces: Interfaces,
    /// The queues before links, by their number.
    pub links: Vec<LinkPort>,
    /// Programs' ends of interfaces.
    pub tuns: Keyed<tun::Tun>,
    /// Number of observers of the packets that pass its interfaces.
    pub watchers: usize,
    /// MTUs of IPv4 paths, learnt from routers.
    pub(crate) path_mtus: path_mtu::PathMtus,
    /// Packets that programs have taken over, for those who wait for them to leave.
    pub(crate) taken_over: VecDeque<(u64, usize)>,
    /// The interface `lo`.
    pub lo: Loopback,
    /// Frames that have been sent to ends of pairs of interfaces, and to which.
    pub(crate) crossing: VecDeque<(usize, Packet)>,
    /// True once it has had an interface that is one of a pair.
    pub(crate) has_pairs: bool,
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
    pub(crate) neighbour_timer: Option<TimerId>,
    /// State of IPv6.
    pub v6: v6::Ipv6,
    /// Spreads flows over routes of equal cost, on each host differently.
    pub flow_key: u64,
    /// Fragments of datagrams that are not complete.
    pub reassembly: Reassembly,
    pub(crate) reassembly_timer: Option<TimerId>,
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
    pub(crate) igmp_timer: Option<TimerId>,
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
            effects: Effects::default(),
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
            tuns: Keyed::default(),
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
    pub(crate) fn replace_computed(&mut self) {
        let interfaces = &self.interfaces;
        let usable =
            |(_, _, route): &&InitialRoute| route.hops.iter().all(|hop| interfaces[hop.interface].up);
        self.routes.replace_computed(self.config.routes.iter().filter(usable).cloned());
    }
}
impl Stack {
    /// Counters of the stack above the interfaces.
    pub fn stack_counters(&self) -> &StackCounters {
        &self.counters
    }
}
