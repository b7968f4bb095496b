//! IPv6 state of a host: routes, neighbours, and the lists that the parts of IPv6 keep.

use super::advertised::{Advertised, Tentative};
use super::given::{AddressAttributes6, ORIGIN_LOOPBACK};
use super::groups::GroupReport;
use super::source;
use crate::conf::{self, InterfaceSettings};
use crate::interfaces::Interfaces;
use crate::{LO, StackConfig, StackTimer, TimerId, TimerQueue};
use belljar_base::{Map, Set, SimDuration, SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_net::neighbour::Neighbours;
use belljar_net::policy::Policy;
use belljar_net::routes::{self, InterfaceAddress, NextHop, Prefix, RouteTable, protocol};
use belljar_wire::ipv6;
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
    /// Tables of the VRFs of interfaces, by interface.
    pub vrf_tables: Map<usize, u32>,
    /// A table without routes.
    pub(super) no_routes: RouteTable<Ipv6Addr>,
    /// The neighbour cache.
    pub neighbours: Neighbours<Ipv6Addr>,
    /// Non-default attributes of addresses, by interface.
    pub(super) given: Map<(usize, Ipv6Addr), AddressAttributes6>,
    /// Interfaces that have been configured since they came up.
    pub(super) configured: Set<usize>,
    /// True if `lo` has lost its addresses to a short MTU while it was up. It has ::1 again at the next change.
    pub loopback_stopped: bool,
    /// Interfaces by which packets to groups are routed, in the order in which their routes were added.
    grouped: Vec<usize>,
    pub(super) timer: Option<TimerId>,
    /// Path MTUs reported by routers, with their expiry times.
    pub(super) path_mtus: Map<Ipv6Addr, (usize, SimTime)>,
    /// Random stream of fragment identifications and delays.
    pub(super) stream: Stream,
    /// Number of member sockets, by interface and group.
    pub(super) groups: Map<(usize, Ipv6Addr), u32>,
    /// Pending reports of membership changes.
    pub(super) reports: Vec<GroupReport>,
    /// Tentative addresses, and below them duplicates, by interface.
    pub(super) tentative: Vec<Tentative>,
    pub(super) failed: Vec<(usize, Ipv6Addr)>,
    /// Unexpired entries from router advertisements.
    pub(super) announced: Vec<Advertised>,
    /// By interface, the number of router solicitations left, and the time of the next one.
    pub(super) solicits: Map<usize, (u8, SimTime)>,
    /// MTUs of links, where a router advertisement has reduced it.
    pub(super) link_mtus: Map<usize, usize>,
    /// Hop limits of interfaces set by router advertisements.
    pub(super) hop_limits: Map<usize, u8>,
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
            vrf_tables: Map::new(),
            no_routes: RouteTable::default(),
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
            loopback_stopped: false,
            grouped: Vec::new(),
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
    pub(super) fn is_configured(&self, interface: usize) -> bool {
        self.configured.contains(&interface)
    }
    /// Interfaces by which packets to groups are routed, in the order in which their routes were added.
    pub fn grouped(&self) -> &[usize] {
        &self.grouped
    }
    /// Routes packets to groups by an interface.
    pub fn route_groups(&mut self, interface: usize) {
        if !self.grouped.contains(&interface) {
            self.grouped.push(interface);
        }
    }
    /// True if another host uses the address.
    pub fn is_duplicate(&self, interface: usize, ip: Ipv6Addr) -> bool {
        self.failed.contains(&(interface, ip))
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

    /// MTU to a destination by an interface whose MTU is `usual` bytes.
    #[inline]
    pub fn mtu_to(&self, interface: usize, to: Ipv6Addr, usual: usize, now: SimTime) -> usize {
        match self.path_mtus.get(&to) {
            Some((known, until)) if now < *until => usual.min(*known),
            _ => self.link_mtus.get(&interface).map_or(usual, |own| usual.min(*own)),
        }
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

    /// Replaces the routes computed by the experiment by those over interfaces that are up.
    pub fn replace_computed(&mut self, interfaces: &Interfaces, routes: &[InitialRoute6]) {
        let usable =
            |(_, _, route): &&InitialRoute6| route.hops.iter().all(|hop| interfaces[hop.interface].up);
        self.routes.replace_computed(routes.iter().filter(usable).cloned());
    }

    /// Schedules the next timeout.
    pub fn set_timer(&mut self, timers: &mut TimerQueue<StackTimer>, now: SimTime) {
        let next = [
            self.neighbours.next_timeout(),
            self.reports.iter().map(|report| report.at).min(),
            self.tentative.iter().map(|tentative| tentative.at).min(),
            self.solicits.values().map(|(_, at)| *at).min(),
            self.announced.iter().map(|announced| announced.until).min(),
        ];
        let next = next.into_iter().flatten().min().filter(|at| *at < SimTime::MAX);
        timers.set(&mut self.timer, next.map(|at| at.max(now)), StackTimer::Ipv6);
    }

    /// Removes the state of an interface that goes down, except for its routes.
    pub(super) fn forget_interface(&mut self, number: usize) {
        self.given.retain(|(interface, _), _| *interface != number);
        self.tentative.retain(|t| t.interface != number);
        self.failed.retain(|(interface, _)| *interface != number);
        self.announced.retain(|a| a.interface != number);
        self.solicits.remove(&number);
        self.configured.remove(&number);
        self.grouped.retain(|interface| *interface != number);
        self.hop_limits.remove(&number);
        self.reports.retain(|report| report.interface != number);
    }
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
            Some(crate::interface_index(interface))
        }
        _ => None,
    }
}
