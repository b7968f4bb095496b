//! The stack of one node: its components, and their wiring.

use crate::account::StackAccount;
use crate::arrivals::Arrivals;
use crate::captured::{Captured, CapturedRun};
use crate::clock::Clock;
use crate::conf::InterfaceSettings;
use crate::config::{Departure, InitialRoute, StackConfig};
use crate::devices::state::Devices;
use crate::effects::{Effect, Effects};
use crate::interface::{Attachment, Ethernet, Interface, Loopback};
use crate::interfaces::Interfaces;
use crate::ip::fragment::Reassembly;
use crate::ip::hooks::Hooks;
use crate::ip::ident::Idents;
use crate::ip::redirect::Redirects;
use crate::keyed::Keyed;
use crate::lifetimes::Lifetimes;
use crate::link::LinkPort;
use crate::mib::StackCounters;
use crate::nexthops::NextHops;
use crate::path_mtu::PathMtus;
use crate::resolver::Streams;
use crate::route_log::RouteLog;
use crate::socket::{Socket, SocketKind, SocketOptions};
use crate::sysctl::Sysctls;
use crate::tcp::TcpTable;
use crate::tcp::fast_open::Servers;
use crate::timestamps::StampRequests;
use crate::traffic_state::Traffic;
use crate::tun::Tun;
use crate::udp::UdpPorts;
use crate::v6::Ipv6;
use crate::{ETH0, SocketKey, StackTimer, TimerId, TimerQueue};
use belljar_base::{Inbox, Map, PacketAccount, SimTime, Stream};
use belljar_net::icmp_limit::IcmpLimit;
use belljar_net::igmp::Igmp;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{Prefix, Route, RouteTable, protocol};
use belljar_net::{Nic, Packet};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The network stack of one node. The crate documentation gives the contract and groups the methods for
/// owners by kind: input, time, sockets, output, configuration.
///
/// Two more kinds of methods serve owners that implement Linux's system calls. *Per-protocol operations*
/// (`tcp_*`, `udp_*` and the like) take a socket's key and make one non-blocking attempt. They may queue
/// packets, which the caller then sends with [`flush_network`](Stack::flush_network). *Tables* (interfaces,
/// routes, neighbours, settings) are public fields: an administrator changes them, and calls the method that
/// belongs to the change, such as [`interface_is_up`](Stack::interface_is_up) or
/// [`add_connected`](Stack::add_connected). `belljar-linux-net` does both for rtnetlink and `ioctl`.
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Stack {
    /// The host's clock.
    pub clock: Clock,
    /// Packets in transit from the graph.
    pub arrivals: Arrivals,
    /// Frames in transit on links, each with the number of its link.
    pub inbox: Inbox<(usize, Packet)>,
    /// Pending timers.
    pub timers: TimerQueue<StackTimer>,
    /// Effects not yet taken by the owner.
    pub effects: Effects,
    /// Departed packets not yet taken by the owner.
    pub departures: Vec<Departure>,
    /// True while the host is down after a power cut.
    pub is_down: bool,
    /// The route log.
    pub route_log: RouteLog,
    /// Captured packets, if capture is enabled.
    pub captured: Captured,
    /// The interface to the graph, with its queues.
    pub eth0: Ethernet,
    /// Counters of the packets in the stack by origin and disposition.
    pub account: StackAccount,
    /// Prefetches bytes into the cache.
    pub(crate) prefetch: fn(&[u8]),
    /// True if the packet received last was sent to this host alone by its link-layer address.
    pub(crate) arrived_as_one: bool,
    /// The name server's address, on a host that is not attached to the graph.
    pub(crate) service: Option<Ipv4Addr>,
    /// Traffic control, once a program has asked for it.
    pub traffic: Option<Box<Traffic>>,
    /// Devices made inside the host, once there is one.
    pub devices: Option<Box<Devices>>,
    /// The packet hooks.
    pub hooks: Hooks,
    /// Number of raw sockets; 0 lets packets skip the search for them.
    pub raw_sockets: usize,
    /// All sockets, including those without an open file.
    pub sockets: Keyed<Socket>,
    /// The host's interfaces.
    pub interfaces: Interfaces,
    /// The ports of the links, by link number.
    pub links: Vec<LinkPort>,
    /// Program ends of TUN and TAP interfaces.
    pub tuns: Keyed<Tun>,
    /// Number of packet sockets that tap the interfaces.
    pub watchers: usize,
    /// Path MTUs for IPv4, reported by routers.
    pub(crate) path_mtus: PathMtus,
    /// Cookies and lengths of packets on media that do not report departures, whose senders are notified when
    /// the call ends.
    pub(crate) taken_over: VecDeque<(u64, usize)>,
    /// The interface `lo`.
    pub lo: Loopback,
    /// Frames in transit between veth peers, each with the number of the receiving interface.
    pub(crate) crossing: VecDeque<(usize, Packet)>,
    /// Generators of IPv4 identifications.
    pub idents: Idents,
    /// The main IPv4 routing table.
    pub routes: RouteTable,
    /// The IPv4 policy rules and the other routing tables.
    pub policy: Policy,
    /// UDP and UDP-Lite sockets by port, indexed by [`Protocol::index`](crate::udp::Protocol::index).
    pub udp_ports: [UdpPorts; 2],
    /// Settings of `/proc/sys/net`.
    pub sysctls: Sysctls,
    /// Per-interface settings.
    pub interface_settings: InterfaceSettings,
    /// Redirects received and sent over IPv4.
    pub redirects: Redirects,
    /// Lifetimes of interface addresses.
    pub lifetimes: Lifetimes,
    /// Next-hop objects.
    pub nexthops: NextHops,
    /// Routes of the local table in the order of their addition, for listings; the table itself follows from the
    /// addresses.
    pub local_order: Vec<LocalRouteKey>,
    /// Types of neighbours' addresses when they became known, `RTN_*`, for listings.
    pub neighbour_types: Map<(usize, IpAddr), u8>,
    /// Counters above the interfaces.
    pub counters: StackCounters,
    /// Serial number of the last socket, see [`Socket::serial`].
    pub next_serial: u32,
    /// The number of this stack among those of its owner: see [`networks`](crate::networks).
    pub number: u32,
    /// Random stream of hardware addresses for TAP and other interfaces created at run time.
    pub tun_addresses: Stream,
    /// The IPv4 neighbour cache.
    pub neighbours: Neighbours,
    pub(crate) neighbour_timer: Option<TimerId>,
    /// State of IPv6.
    pub v6: Ipv6,
    /// Per-host key of the flow hashes.
    pub flow_key: u64,
    /// Incomplete datagrams in reassembly.
    pub reassembly: Reassembly,
    pub(crate) reassembly_timer: Option<TimerId>,
    /// Rate limit of ICMP errors.
    pub icmp_limit: IcmpLimit,
    /// Cached TCP Fast Open properties of servers.
    pub fast_open_servers: Servers,
    /// TCP sockets by port and connection.
    pub tcp: TcpTable,
    /// Random stream of ephemeral ports.
    pub ports: Stream,
    /// Random stream of initial sequence numbers.
    pub isns: Stream,
    /// IPv4 multicast memberships (IGMP).
    pub igmp: Igmp,
    pub(crate) igmp_timer: Option<TimerId>,
    /// Random stream for socket filters.
    pub filter_random: Stream,
    /// Number of packets received from the name server.
    pub resolved: u64,
    /// The name server's endpoints of its TCP connections with this host.
    pub streams: Streams,
    /// The connection for which the close of the last socket waits (`SO_LINGER`), with its endpoints and the
    /// timeout.
    pub lingering: Option<(SocketKey, (SocketAddr, SocketAddr), belljar_base::SimDuration)>,
    /// Requests for timestamps of packets in transit.
    pub(crate) stamp_requests: StampRequests,
    /// Timestamp of the frame being received by the adapter's clock, or 0.
    pub(crate) frame_stamp: i64,
    /// Arrival of the frame being received, if the clock charges work.
    pub(crate) frame_at: SimTime,
    /// Configuration.
    pub config: StackConfig,
}
/// Identity of a route of the local table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRouteKey {
    /// Address of the prefix.
    pub ip: IpAddr,
    /// Length of the prefix in bits.
    pub bits: u8,
    /// `RTN_*`.
    pub kind: u8,
    /// Number of the interface.
    pub interface: usize,
    /// Preferred source address, if there is one.
    pub source: Option<IpAddr>,
}

impl Stack {
    /// Creates the stack of a host with `lo`, `eth0` and its links up.
    pub fn new(config: StackConfig, clock: Clock) -> Stack {
        let stream = |what| config.seed.stream(&["host", &config.name, what]);
        let mut mac = [0; 6];
        stream("mac").fill(&mut mac);
        // Locally administered, unicast.
        mac[0] = mac[0] & 0xfc | 0x02;
        let mut routes = RouteTable::default();
        if config.log_routes {
            routes.record_changes();
        }
        let mut interfaces = vec![Interface::loopback()];
        if config.on_graph {
            interfaces.push(Interface::graph(mac, config.address, config.address6));
            // All hosts are on-link.
            let everywhere = Route { source: Some(config.address), ..Route::by(ETH0, None, protocol::BOOT) };
            routes.insert(Prefix::ALL, 0, everywhere);
        }
        let first_link = interfaces.len();
        for (number, link) in config.links.iter().enumerate() {
            interfaces.push(Interface::link(number, link));
        }
        let links =
            config.links.iter().map(|link| LinkPort::new(link, &clock, config.oscillator_ppb)).collect();
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
            eth0: Ethernet::new(Nic::new(&config.nic)),
            account: StackAccount::default(),
            links,
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
            v6: Ipv6::new(&config),
            flow_key: stream("flow-hash").next_u64(),
            reassembly: Reassembly::default(),
            reassembly_timer: None,
            idents: Idents::new(stream("ip-id")),
            icmp_limit: IcmpLimit::new(stream("icmp-limit")),
            udp_ports: Default::default(),
            path_mtus: PathMtus::default(),
            fast_open_servers: Servers::default(),
            tcp: TcpTable::default(),
            ports: stream("ports"),
            isns: stream("tcp-isn"),
            igmp: Igmp::new(stream("igmp")),
            igmp_timer: None,
            filter_random: stream("socket-filter"),
            hooks: Hooks::default(),
            traffic: None,
            devices: None,
            raw_sockets: 0,
            watchers: 0,
            resolved: 0,
            streams: Streams::default(),
            sysctls: Sysctls::of_host(&config),
            interface_settings: InterfaceSettings::default(),
            redirects: Redirects::default(),
            lifetimes: Lifetimes::default(),
            nexthops: NextHops::default(),
            local_order: Vec::new(),
            neighbour_types: Map::new(),
            lingering: None,
            counters: StackCounters::default(),
            route_log: RouteLog::new(config.log_routes),
            prefetch: config.prefetch,
            stamp_requests: StampRequests::default(),
            frame_stamp: 0,
            frame_at: SimTime::ZERO,
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
        net.route_log.reset(net.clock.now());
        net.log_routes();
        net
    }
    /// Moves the packets departed since the last call, in order of departure, into `out`, which must be
    /// empty.
    pub fn take_departures(&mut self, out: &mut Vec<Departure>) {
        std::mem::swap(&mut self.departures, out);
    }
    /// Passes the packets captured since the last call to `sink`.
    pub fn drain_captured(&mut self, sink: impl FnMut(CapturedRun)) {
        self.captured.drain(sink);
    }
    /// Begins the bootstrap phase at a start of the host: `eth0` has unlimited bandwidth until its end.
    pub fn begin_bootstrap(&mut self) {
        let now = self.clock.now();
        if now < self.config.bootstrap_end {
            self.eth0.nic.set_bandwidths(now, None, None);
            self.timers.add(self.config.bootstrap_end, StackTimer::BootstrapEnd);
        }
    }
    /// Restores the routes of an interface that has come up.
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
    /// Replaces the routes computed by the experiment.
    pub(crate) fn replace_computed(&mut self) {
        let interfaces = &self.interfaces;
        let usable =
            |(_, _, route): &&InitialRoute| route.hops.iter().all(|hop| interfaces[hop.interface].up);
        self.routes.replace_computed(self.config.routes.iter().filter(usable).cloned());
    }
}
impl Stack {
    /// The account of the packets between the interface cards and the sockets: see
    /// [`account`](crate::account). The first stack of an owner includes those of its network namespaces that
    /// were removed.
    pub fn packet_account(&self) -> PacketAccount {
        let neighbours = self.neighbours.queued_packets() + self.v6.neighbours.queued_packets();
        let traffic = self.traffic.as_ref().map_or(0, |traffic| traffic.held());
        let devices = self.devices.as_ref().map_or(0, |devices| devices.held());
        let held = devices
            + traffic
            + self.lo.queue.len()
            + self.crossing.len()
            + neighbours
            + self.reassembly.fragments();
        self.account.with_held(held as u64)
    }

    /// True if effects are pending.
    #[inline]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }
    /// Moves the pending effects, in order, into `out`, which must be empty.
    pub fn take_effects(&mut self, out: &mut Vec<Effect>) {
        self.effects.take(out);
    }

    /// The socket of a key.
    #[inline]
    pub fn socket(&mut self, key: SocketKey) -> &mut Socket {
        &mut self.sockets[key.0]
    }

    /// Adds a socket with default options. Returns its key.
    pub fn add_socket(&mut self, domain: i32, type_: i32, protocol: i32, kind: SocketKind) -> SocketKey {
        self.next_serial = self.next_serial.wrapping_add(1);
        let serial = self.next_serial;
        let [receive_buffer, _, send_buffer, _] = self.sysctls.core_buffers;
        let options = SocketOptions { receive_buffer, send_buffer, ..SocketOptions::default() };
        self.raw_sockets += usize::from(matches!(kind, SocketKind::Raw(_)));
        let network = self.number;
        let mut socket = Socket {
            domain,
            type_,
            protocol,
            options,
            error: None,
            serial,
            network,
            uid: 0,
            zero_copy: None,
            stamps: None,
            kind,
        };
        if self.sysctls.bind_v6_only
            && let Some(ip) = socket.ip_options_mut()
        {
            ip.v6_only = true;
        }
        SocketKey(self.sockets.insert(socket))
    }

    /// Removes a socket and reports its key as free.
    pub fn remove_socket(&mut self, key: SocketKey) -> Socket {
        let socket = self.sockets.remove(key.0);
        self.raw_sockets -= usize::from(matches!(socket.kind, SocketKind::Raw(_)));
        self.effects.push(Effect::Closed(key));
        socket
    }
}
