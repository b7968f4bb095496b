//! A host's network stack: interfaces, IP, UDP, TCP and the sockets over them.
//!
//! [`operations`] hands each socket call to the socket's family. `interface` carries packets between
//! the families and the outside; `ip` routes, fragments and distributes them. `v6` is what IPv6 needs besides:
//! without it on, a host has `::1`, and `AF_INET6` sockets that speak IPv4 through mapped addresses.

mod address;
mod arrivals;
mod bind;
mod config;
mod configure;
mod effects;
mod error_queue;
mod ethernet;
mod family;
pub mod filter;
mod footprint;
mod interface;
mod ioctl;
mod ioctl_set;
mod ip;
pub mod message;
pub mod mib;
pub mod multicast;
pub mod netlink;
pub mod operations;
pub mod packet;
mod path_mtu;
pub mod ping;
pub mod portless;
mod proc;
pub mod raw;
mod resolver;
mod samples;
mod snmp;
pub mod socket;
mod sockopt;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod tests;
mod timers;
pub mod tun;
pub mod udp;
pub mod unix;
mod v6;
mod zero_copy;

pub use config::{Buffers, Departure, StackConfig};
pub use effects::{Effect, Passed};
pub use ethernet::LinkConfig;
pub use ioctl::socket_ioctl;
pub use resolver::Resolver;
pub use samples::TcpSample;
pub use sockopt::{get_option, set_option};
pub use timers::StackTimer;
pub use v6::InitialRoute6;

use crate::captured::Captured;
use crate::clock::Clock;
use crate::ids::SocketKey;
use crate::timer::{TimerId, TimerQueue};
use arrivals::Arrivals;
use belljar_base::{EventKey, Inbox, Stream};
use belljar_net::icmp_limit::IcmpLimit;
use belljar_net::igmp::Igmp;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{Prefix, Route, RouteTable, protocol};
use belljar_net::{Nic, Packet};
use ethernet::LinkPort;
use interface::{Attachment, Ethernet, Interface, Loopback};
use ip::fragment::Reassembly;
use siphasher::sip::SipHasher13;
use slab::Slab;
use socket::Socket;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The number of the interface `lo`.
pub const LO: usize = 0;
/// The number of the interface `eth0` on a host that is attached to the graph.
pub const ETH0: usize = 1;

/// The index by which guests know an interface.
pub fn interface_index(interface: usize) -> u32 {
    interface as u32 + 1
}

/// What the stack has seen and lost besides what the interfaces count.
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
    /// What else connections have counted, by `belljar_tcp::COUNT_NAMES`.
    pub tcp_counts: [u64; belljar_tcp::COUNTS],
}

/// A route that a host has from the start: where to, with which metric, how.
pub type InitialRoute = (Prefix, u32, Route);

/// Everything that a host keeps of its network.
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Stack {
    /// Its time.
    pub(crate) clock: Clock,
    /// What will come in from the graph.
    pub(crate) arrivals: Arrivals,
    /// What will arrive by which link.
    pub(crate) inbox: Inbox<(usize, Packet)>,
    /// What it will do, and when.
    pub(crate) timers: TimerQueue<StackTimer>,
    /// What its owner is to do.
    effects: Vec<Effect>,
    /// Packets that have left.
    pub(crate) departures: Vec<Departure>,
    /// The host has crashed and not been started again.
    pub(crate) is_down: bool,
    /// Packets that have passed its interfaces, where they are kept.
    pub(crate) captured: Captured,
    /// The queues of the attachment to the graph.
    pub(crate) eth0: Ethernet,
    /// Fetches bytes into the cache.
    prefetch: fn(&[u8]),
    /// Whether the packet that has come in last was sent to this host alone.
    arrived_as_one: bool,
    /// The name server's address, on a host that cannot reach it over the graph.
    service: Option<Ipv4Addr>,
    /// How many raw sockets there are: without any no packet asks for them.
    pub(crate) raw_sockets: usize,
    /// All sockets, those without an open file included.
    pub(crate) sockets: Slab<Socket>,
    /// All interfaces by number, `lo` first.
    pub(crate) interfaces: Vec<Interface>,
    /// The queues before links, by their number.
    pub(crate) links: Vec<LinkPort>,
    /// Programs' ends of interfaces.
    pub(crate) tuns: Slab<tun::Tun>,
    /// Packet sockets in the order in which they were made.
    pub(crate) packet_sockets: Vec<SocketKey>,
    /// What routers have said of IPv4 paths.
    path_mtus: path_mtu::PathMtus,
    /// Packets that programs have taken over, for those who wait for them to leave.
    taken_over: VecDeque<(u64, usize)>,
    /// The interface `lo`.
    pub(crate) lo: Loopback,
    /// The next identifications of IPv4.
    pub(crate) idents: ip::ident::Idents,
    /// Where packets for other hosts go.
    pub(crate) routes: RouteTable,
    /// Its other tables, and which is asked for what.
    pub(crate) policy: Policy,
    /// UDP sockets by port.
    pub(crate) udp_ports: [udp::UdpPorts; 2],
    /// Settings of `/proc/sys/net`.
    pub(crate) sysctls: sysctl::Sysctls,
    /// What was lost, and the like.
    pub(crate) counters: StackCounters,
    /// Counts sockets, see [`Socket::serial`].
    pub(crate) next_serial: u32,
    /// The number of the first interface at a link.
    first_link: usize,
    /// Hardware addresses of TAP interfaces.
    tun_addresses: Stream,
    /// Who is on the links, by hardware address.
    pub(crate) neighbours: Neighbours,
    neighbour_timer: Option<TimerId>,
    /// What IPv6 has besides.
    pub(crate) v6: v6::Ipv6,
    /// Spreads flows over routes of equal cost, on each host differently.
    pub(crate) flow_key: u64,
    /// Fragments of datagrams that are not complete.
    pub(crate) reassembly: Reassembly,
    reassembly_timer: Option<TimerId>,
    /// How often ICMP errors are sent.
    pub(crate) icmp_limit: IcmpLimit,
    /// Servers that were asked for TCP Fast Open.
    pub(crate) fast_open_servers: tcp::fast_open::Servers,
    /// TCP sockets by port and connection.
    pub(crate) tcp: tcp::TcpTable,
    /// Names of UNIX sockets.
    pub(crate) unix_names: unix::Names,
    /// Ephemeral ports.
    pub(crate) ports: Stream,
    /// Initial sequence numbers.
    pub(crate) isns: Stream,
    /// The multicast groups that the host is a member of.
    pub(crate) igmp: Igmp,
    igmp_timer: Option<TimerId>,
    /// Groups of packet sockets that share what they hear.
    fanouts: Vec<packet::Fanout>,
    /// Random numbers for filters that ask for them.
    filter_random: Stream,
    /// Answers that have come from the name server.
    pub(crate) resolved: u64,
    /// The name server's ends of this host's connections with it.
    pub(crate) streams: resolver::Streams,
    /// What the socket that was closed last is to wait for (`SO_LINGER`), and for how long.
    pub(crate) lingering: Option<(SocketKey, (SocketAddr, SocketAddr), belljar_base::SimDuration)>,
    /// What it is made from.
    pub(crate) config: StackConfig,
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
            sockets: Slab::new(),
            next_serial: 0,
            lo: Loopback::default(),
            eth0: Ethernet::new(Nic::new(&config.nic)),
            links: config.links.iter().map(LinkPort::new).collect(),
            first_link,
            tuns: Slab::new(),
            taken_over: VecDeque::new(),
            tun_addresses: stream("tun-mac"),
            neighbours: Neighbours::new(&mut stream("neighbours")),
            neighbour_timer: None,
            arrived_as_one: true,
            service: config.resolver.as_ref().filter(|_| !config.on_graph).map(|r| r.zone.address),
            interfaces,
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
            unix_names: unix::Names::default(),
            ports: stream("ports"),
            isns: stream("tcp-isn"),
            igmp: Igmp::new(stream("igmp")),
            igmp_timer: None,
            filter_random: stream("socket-filter"),
            raw_sockets: 0,
            packet_sockets: Vec::new(),
            fanouts: Vec::new(),
            resolved: 0,
            streams: resolver::Streams::default(),
            sysctls: sysctl::Sysctls::of_host(&config),
            lingering: None,
            counters: StackCounters::default(),
            prefetch: config.prefetch,
            config,
        };
        for number in 1..net.interfaces.len() {
            if net.interfaces[number].is_link() {
                net.add_connected(number);
            }
        }
        net.replace_computed();
        net.start_v6();
        net
    }
    /// A packet that reaches `eth0` from the graph, or a frame that comes by a link, at `key.time`, which lies ahead.
    pub fn deliver(&mut self, key: EventKey, link: Option<usize>, packet: Packet) {
        match link {
            Some(link) => self.inbox.push(key, (link, packet)),
            None => self.will_arrive(key, packet),
        }
    }
    /// Puts the packets that have left since the last call into `out`, which is empty, in order of departure.
    pub fn take_departures(&mut self, out: &mut Vec<Departure>) {
        std::mem::swap(&mut self.departures, out);
    }
    /// Fetches bytes into the cache that are about to be read.
    pub(crate) fn prefetch(&self, bytes: &[u8]) {
        (self.prefetch)(bytes);
    }
    /// The host starts: until the bootstrap phase is over `eth0` has no limits.
    pub(crate) fn begin_bootstrap(&mut self) {
        let now = self.clock.now();
        if now < self.config.bootstrap_end {
            self.eth0.nic.set_bandwidths(now, None, None);
            self.timers.add(self.config.bootstrap_end, StackTimer::BootstrapEnd);
        }
    }
    /// Adds routes to the networks of an interface's addresses.
    fn add_connected(&mut self, number: usize) {
        for own in self.interfaces[number].addresses.clone() {
            let route = Route { source: Some(own.ip), ..Route::by(number, None, protocol::KERNEL) };
            if own.len < 32 && self.routes.get(own.network(), 0).is_none() {
                self.routes.insert(own.network(), 0, route);
            }
        }
    }
    /// An interface is used again.
    fn interface_is_up(&mut self, number: usize) {
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

/// The same for IPv6.
fn flow_hash_of6(key: u64, source: Ipv6Addr, destination: Ipv6Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&source.octets());
    hasher.write(&destination.octets());
    hasher.finish()
}

impl Stack {
    /// What the stack above the interfaces has seen and lost.
    pub fn stack_counters(&self) -> &StackCounters {
        &self.counters
    }
}
