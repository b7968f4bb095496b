//! The parts of the stack specific to IPv6: addresses of interfaces (RFC 4291), source address selection (RFC
//! 6724), neighbour discovery (RFC 4861), autoconfiguration (RFC 4862), multicast groups (RFC 3810), and path
//! MTUs (RFC 8201).
//!
//! The initial addresses of a host skip duplicate address detection, since the host is assumed to have used
//! them for a while. Those added later are tentative until the detection ends, as on Linux.

mod autoconf;
mod discovery;
mod given;
mod groups;
pub mod source;

use super::interface::Attachment;
use super::ip::IpHeader;
use super::ip::route::ResolvedRoute;
use super::{LO, Stack};
use crate::StackConfig;
use crate::StackTimer;
use crate::TimerId;
use crate::conf;
use crate::conf::InterfaceSettings;
use crate::interfaces::Interfaces;
use autoconf::{Advertised, Tentative};
use belljar_base::{Map, Set, SimDuration, SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{self, InterfaceAddress, NextHop, Prefix, RouteTable, protocol};
use belljar_wire::{ipv6, protocol as ip_protocol};
use given::ORIGIN_LINK_LOCAL;
pub use given::{AddressAttributes6, ORIGIN_LOOPBACK, modify_address};
pub use groups::ALL_NODES_HERE;
use groups::GroupReport;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv6Addr};

/// An initial IPv6 route of a host: its prefix, metric and next hops.
pub type InitialRoute6 = (Prefix<Ipv6Addr>, u32, routes::Route<Ipv6Addr>);

/// `IP6_RT_PRIO_ADDRCONF`: metric of routes to on-link networks.
pub const ADDRCONF_METRIC: u32 = 256;
/// `IP6_RT_PRIO_USER`: metric of other routes.
pub const USER_METRIC: u32 = 1_024;
/// `net.ipv6.route.mtu_expires`.
const MTU_EXPIRES: SimDuration = SimDuration::from_secs(600);

/// IPv6 state of a host.
pub struct Ipv6 {
    /// True if interfaces other than `lo` have IPv6.
    pub on: bool,
    /// The main routing table.
    pub routes: RouteTable<Ipv6Addr>,
    /// The policy rules and the other routing tables.
    pub policy: Policy<Ipv6Addr>,
    /// The neighbour cache.
    pub neighbours: Neighbours<Ipv6Addr>,
    /// Non-default attributes of addresses, by interface.
    given: Map<(usize, Ipv6Addr), AddressAttributes6>,
    /// Interfaces that have been configured since they came up.
    configured: Set<usize>,
    /// Interfaces by which packets to groups are routed.
    grouped: Set<usize>,
    timer: Option<TimerId>,
    /// Path MTUs reported by routers, with their expiry times.
    path_mtus: Map<Ipv6Addr, (usize, SimTime)>,
    /// Random stream of fragment identifications and delays.
    stream: Stream,
    /// Number of member sockets, by interface and group.
    groups: Map<(usize, Ipv6Addr), u32>,
    /// Pending reports of membership changes.
    reports: Vec<GroupReport>,
    /// Tentative addresses, and below them duplicates, by interface.
    tentative: Vec<Tentative>,
    failed: Vec<(usize, Ipv6Addr)>,
    /// Unexpired entries from router advertisements.
    announced: Vec<Advertised>,
    /// By interface, the number of router solicitations left, and the time of the next one.
    solicits: Map<usize, (u8, SimTime)>,
    /// MTUs of links, where a router advertisement has reduced it.
    link_mtus: Map<usize, usize>,
    /// Hop limits of interfaces set by router advertisements.
    hop_limits: Map<usize, u8>,
}

impl Ipv6 {
    /// The initial state of a host.
    pub fn new(config: &StackConfig) -> Ipv6 {
        let stream = |what| config.seed.stream(&["host", &config.name, what]);
        let mut routes = RouteTable::default();
        if config.log_routes {
            routes.record_changes();
        }
        let loopback = AddressAttributes6 { origin: ORIGIN_LOOPBACK, ..AddressAttributes6::default() };
        Ipv6 {
            on: config.ipv6,
            routes,
            policy: Policy::default(),
            neighbours: Neighbours::new(&mut stream("neighbours6")),
            timer: None,
            path_mtus: Map::new(),
            stream: stream("ipv6"),
            groups: Map::new(),
            reports: Vec::new(),
            tentative: Vec::new(),
            failed: Vec::new(),
            given: Map::from_iter([((LO, Ipv6Addr::LOCALHOST), loopback)]),
            configured: Set::new(),
            grouped: Set::new(),
            announced: Vec::new(),
            solicits: Map::new(),
            link_mtus: Map::new(),
            hop_limits: Map::new(),
        }
    }
    /// Identification of the next fragmented packet.
    pub fn next_fragment_id(&mut self) -> u32 {
        self.stream.next_u32()
    }
    /// Draws a random number below `bound`.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.stream.below(bound)
    }
    /// True for a tentative or duplicate address.
    pub fn is_tentative(&self, interface: usize, ip: Ipv6Addr) -> bool {
        self.tentative.iter().any(|t| (t.interface, t.ip) == (interface, ip))
            || self.is_duplicate(interface, ip)
    }
    /// True if an interface has been configured since it came up.
    fn is_configured(&self, interface: usize) -> bool {
        self.configured.contains(&interface)
    }
    /// True if packets to groups are routed by an interface.
    pub fn has_groups(&self, interface: usize) -> bool {
        self.grouped.contains(&interface)
    }
    /// Routes packets to groups by an interface.
    pub fn route_groups(&mut self, interface: usize) {
        self.grouped.insert(interface);
    }
    /// True if another host uses the address.
    pub fn is_duplicate(&self, interface: usize, ip: Ipv6Addr) -> bool {
        self.failed.contains(&(interface, ip))
    }
}

impl Stack {
    /// Starts IPv6: adds the routes to the networks of the addresses, and those of the experiment.
    pub fn start_v6(&mut self) {
        if !self.v6.on {
            return;
        }
        for number in 1..self.interfaces.len() {
            match self.interfaces[number].attachment {
                Attachment::Link(_) if !self.interface_settings.disables6(number) => {
                    let own = link_local(self.interfaces[number].mac);
                    insert_address(&mut self.interfaces[number].addresses6, own);
                    self.v6.set_origin(number, own.ip, ORIGIN_LINK_LOCAL);
                    self.v6.configured.insert(number);
                    self.v6.grouped.insert(number);
                    self.v6.add_connected(&self.interfaces, number);
                    let solicits = self.interface_settings.router_solicits(number);
                    if !self.interface_settings.forwards(&self.sysctls, true, number) && solicits > 0 {
                        let at = self.v6.delay(SimTime::ZERO);
                        self.v6.solicits.insert(number, (solicits, at));
                    }
                }
                Attachment::Graph => self.v6.add_everywhere(&self.interfaces, number),
                // Interfaces of programs are created later.
                _ => {}
            }
        }
        self.replace_computed6();
    }

    /// Replaces the routes computed by the experiment.
    pub fn replace_computed6(&mut self) {
        let interfaces = &self.interfaces;
        let usable =
            |(_, _, route): &&InitialRoute6| route.hops.iter().all(|hop| interfaces[hop.interface].up);
        self.v6.routes.replace_computed(self.config.routes6.iter().filter(usable).cloned());
    }

    /// Handles an interface that goes down: Linux removes its addresses (`keep_addr_on_down` is 0).
    pub fn interface_is_down6(&mut self, number: usize) {
        for own in std::mem::take(&mut self.interfaces[number].addresses6) {
            self.set_lifetime(number, own.ip, None);
        }
        self.v6.given.retain(|(interface, _), _| *interface != number);
        self.v6.tentative.retain(|t| t.interface != number);
        self.v6.failed.retain(|(interface, _)| *interface != number);
        self.v6.announced.retain(|a| a.interface != number);
        self.v6.solicits.remove(&number);
        self.v6.configured.remove(&number);
        self.v6.grouped.remove(&number);
        self.v6.hop_limits.remove(&number);
        self.v6.reports.retain(|report| report.interface != number);
        self.drop_hops::<Ipv6Addr>(|hop| hop.interface == number);
        self.v6.neighbours.flush(number, true);
    }

    /// MTU of a route in bytes: the longest packet that it carries unfragmented.
    #[inline]
    pub fn path_mtu(&self, route: &ResolvedRoute, now: SimTime) -> usize {
        let mtu = self.mtu_to(route.interface, route.destination, now);
        let Some(own) = route.metrics.mtu else { return mtu };
        let own = (own as usize).min(self.interfaces.mtu(route.interface));
        if route.metrics.mtu_locked { own } else { own.min(mtu) }
    }
    /// MTU to a destination by an interface in bytes, without the route's metric.
    #[inline]
    pub fn mtu_to(&self, interface: usize, to: IpAddr, now: SimTime) -> usize {
        let mtu = self.interfaces.mtu(interface);
        match to {
            IpAddr::V4(ip) => self.known_path_mtu4(ip, now).map_or(mtu, |known| mtu.min(known)),
            IpAddr::V6(_) if interface == LO => mtu,
            IpAddr::V6(ip) => match self.v6.path_mtus.get(&ip) {
                Some((known, until)) if now < *until => mtu.min(*known),
                _ => self.v6.link_mtus.get(&interface).map_or(mtu, |own| mtu.min(*own)),
            },
        }
    }

    /// The flow label of a packet, whose payload is preceded by space for the header. Linux labels all flows
    /// (`net.ipv6.auto_flowlabels` is 1).
    pub fn flow_label(&self, header: &IpHeader, packet: &[u8]) -> u32 {
        let ports = match header.protocol {
            ip_protocol::TCP | ip_protocol::UDP | ip_protocol::UDP_LITE => {
                packet.get(ipv6::HEADER_LEN..ipv6::HEADER_LEN + 4)
            }
            _ => None,
        };
        self.flow_label_of(header, ports.unwrap_or_default())
    }
    /// The flow label of a packet with these encoded ports.
    pub fn flow_label_of(&self, header: &IpHeader, ports: &[u8]) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.flow_key, 6);
        for ip in [header.src, header.dst] {
            if let IpAddr::V6(ip) = ip {
                hasher.write(&ip.octets());
            }
        }
        hasher.write_u8(header.protocol);
        hasher.write(ports);
        hasher.finish() as u32 & 0xf_ffff
    }
}

/// Handles a change of an interface's MTU in bytes: below the least one of IPv6 the interface has none.
pub fn mtu_changed(net: &mut Stack, number: usize, before: usize) {
    let mtu = net.interfaces[number].mtu;
    if mtu < ipv6::MIN_MTU && before >= ipv6::MIN_MTU {
        net.interface_is_down6(number);
    } else if mtu >= ipv6::MIN_MTU && before < ipv6::MIN_MTU && number != LO && net.interfaces[number].up {
        net.interface_is_up6(number);
    }
}

/// Handles a change of the carrier of a veth interface, which gets its link-local address with it.
pub fn carrier_changed(net: &mut Stack, number: usize) {
    if net.interfaces[number].is_running() && !net.v6.is_configured(number) {
        net.interface_is_up6(number);
    }
}

/// True if an interface may have IPv6 addresses.
pub fn is_possible(net: &Stack, number: usize) -> bool {
    let off = !net.v6.on || net.interface_settings.disables6(number);
    number == LO || !off && net.interfaces[number].mtu >= ipv6::MIN_MTU
}

/// The link-local address of an interface.
pub fn link_local(mac: [u8; 6]) -> InterfaceAddress<Ipv6Addr> {
    InterfaceAddress::new(ipv6::eui64(ipv6::LINK_LOCAL, mac), 64)
}

/// Inserts an address in the order of Linux: before those whose scope is no wider.
pub fn insert_address(addresses: &mut Vec<InterfaceAddress<Ipv6Addr>>, own: InterfaceAddress<Ipv6Addr>) {
    let at = addresses.iter().position(|other| source::scope(own.ip) >= source::scope(other.ip));
    addresses.insert(at.unwrap_or(addresses.len()), own);
}

/// The index of the interface by which a packet to `ip` must leave, in response to one received on
/// `interface`: that interface if the address has link scope.
pub fn device_for(ip: IpAddr, interface: usize) -> Option<u32> {
    match ip {
        IpAddr::V6(v6) if ipv6::is_link_scope(v6) && interface != LO => {
            Some(super::interface_index(interface))
        }
        _ => None,
    }
}

impl Stack {
    /// Schedules the next timeout of IPv6.
    pub fn set_timer6(&mut self) {
        let v6 = &self.v6;
        let next = [
            v6.neighbours.next_timeout(),
            v6.reports.iter().map(|report| report.at).min(),
            v6.tentative.iter().map(|tentative| tentative.at).min(),
            v6.solicits.values().map(|(_, at)| *at).min(),
            v6.announced.iter().map(|announced| announced.until).min(),
        ];
        let next = next.into_iter().flatten().min().filter(|at| *at < SimTime::MAX);
        let next = next.map(|at| at.max(self.clock.now()));
        self.timers.set(&mut self.v6.timer, next, StackTimer::Ipv6);
    }

    /// Handles the timer of IPv6: performs all work that is due.
    pub fn timer6(&mut self) {
        let now = self.clock.now();
        self.v6.timer = None;
        self.v6.neighbours.on_timeout(now);
        self.send_reports(now);
        self.probe_tentative(now);
        self.solicit_routers(now);
        self.forget_announced(now);
        self.flush_network();
    }
}

impl Ipv6 {
    /// Adds the default route of the graph, on which all hosts are on-link.
    pub fn add_everywhere(&mut self, interfaces: &Interfaces, number: usize) {
        let Some(own) = interfaces[number].addresses6.first() else { return };
        let by = routes::Route::by(number, None, protocol::BOOT);
        let everywhere = routes::Route { source: Some(own.ip), ..by };
        self.routes.insert(Prefix::ALL, USER_METRIC, everywhere);
    }

    /// Validates a next hop: its gateway must be on a link of this host; a link-local one requires the
    /// interface.
    pub fn hop(
        &self,
        interfaces: &Interfaces,
        gateway: Option<Ipv6Addr>,
        device: Option<usize>,
    ) -> Result<NextHop<Ipv6Addr>, Errno> {
        let interface = match (gateway, device) {
            (None, device) => device.ok_or(Errno::ENODEV)?,
            (Some(gateway), Some(device)) if gateway.is_unicast_link_local() => device,
            (Some(gateway), None) if gateway.is_unicast_link_local() => return Err(Errno::EINVAL),
            (Some(gateway), device) => {
                let usable = |hop: &NextHop<Ipv6Addr>| device.is_none_or(|device| device == hop.interface);
                match self.routes.lookup(gateway, || 0, usable) {
                    Some((_, Some(hop))) if hop.is_direct() => hop.interface,
                    _ => return Err(Errno::EHOSTUNREACH),
                }
            }
        };
        if !interfaces[interface].up {
            return Err(Errno::ENETDOWN);
        }
        Ok(NextHop::new(interface, gateway))
    }

    /// The interface that owns an address; tentative addresses are skipped.
    pub fn interface_of(&self, interfaces: &Interfaces, ip: Ipv6Addr) -> Option<usize> {
        let has = |number: usize| {
            interfaces[number].addresses6.iter().any(|own| own.ip == ip) && !self.is_tentative(number, ip)
        };
        (0..interfaces.len()).find(|number| has(*number))
    }

    /// Records a path MTU reported by a router.
    pub fn learn_path_mtu(&mut self, to: Ipv6Addr, mtu: usize, now: SimTime) {
        self.path_mtus.retain(|_, (_, until)| now < *until);
        self.path_mtus.insert(to, (mtu.max(ipv6::MIN_MTU), now + MTU_EXPIRES));
    }

    /// The hop limit of packets sent on an interface.
    pub fn hop_limit(&self, interface_settings: &InterfaceSettings, interface: usize) -> u8 {
        let configured = || interface_settings.of6(conf::v6::HOP_LIMIT, interface).clamp(1, 255) as u8;
        self.hop_limits.get(&interface).copied().unwrap_or_else(configured)
    }

    /// Adds a random delay of up to one second, which spreads simultaneous actions of many hosts
    /// (`MAX_RTR_SOLICITATION_DELAY`).
    pub(crate) fn delay(&mut self, now: SimTime) -> SimTime {
        now + SimDuration::from_millis(self.stream.below(1_000))
    }
}
