//! Routing tables of a host or router, one for each family. A lookup selects the longest prefix, then the
//! lowest metric; the flow's hash selects among next hops of equal cost.

use belljar_base::Footprint;
use belljar_base::Map;
use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// IP address of one family.
pub trait Ip: Copy + Ord + fmt::Debug + fmt::Display + FromStr + Into<IpAddr> + 'static {
    /// Length in bits.
    const BITS: u8;
    /// Lowest address, the unspecified one.
    const LEAST: Self;
    /// Highest address.
    const GREATEST: Self;
    /// Returns the address with all but the first `len` bits cleared.
    fn masked(self, len: u8) -> Self;
    /// Source address of a packet of this family.
    fn source_of(packet: &[u8]) -> Option<Self>;
}

impl Ip for Ipv4Addr {
    const BITS: u8 = 32;
    const LEAST: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    const GREATEST: Ipv4Addr = Ipv4Addr::BROADCAST;
    fn masked(self, len: u8) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self) & mask(len))
    }
    fn source_of(packet: &[u8]) -> Option<Ipv4Addr> {
        let octets: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
        (packet[0] >> 4 == 4).then(|| octets.into())
    }
}

impl Ip for Ipv6Addr {
    const BITS: u8 = 128;
    const LEAST: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    const GREATEST: Ipv6Addr = Ipv6Addr::from_bits(u128::MAX);
    fn masked(self, len: u8) -> Ipv6Addr {
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Ipv6Addr::from_bits(self.to_bits() & mask)
    }
    fn source_of(packet: &[u8]) -> Option<Ipv6Addr> {
        let octets: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
        (packet[0] >> 4 == 6).then(|| octets.into())
    }
}

/// Address prefix, such as `10.0.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<A = Ipv4Addr> {
    address: A,
    len: u8,
}

impl<A: Ip> Prefix<A> {
    /// Prefix that contains all addresses.
    pub const ALL: Prefix<A> = Prefix { address: A::LEAST, len: 0 };

    /// Creates the prefix of the `len` leading bits of `address`; a longer `len` is reduced to the length
    /// of an address.
    pub fn new(address: A, len: u8) -> Prefix<A> {
        let len = len.min(A::BITS);
        Prefix { address: address.masked(len), len }
    }
    /// First address.
    pub fn address(&self) -> A {
        self.address
    }
    /// Length in bits.
    pub fn bits(&self) -> u8 {
        self.len
    }
    /// True if the prefix contains all addresses.
    pub fn is_all(&self) -> bool {
        self.len == 0
    }
    /// True if the prefix contains an address.
    pub fn contains(&self, address: A) -> bool {
        address.masked(self.len) == self.address
    }
    /// True if two prefixes have an address in common.
    pub fn overlaps(&self, other: &Prefix<A>) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl Prefix {
    /// Netmask of the prefix.
    pub fn netmask(&self) -> Ipv4Addr {
        mask(self.len).into()
    }
    /// Directed broadcast address; prefixes longer than 30 bits have none.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        (self.len <= 30).then(|| Ipv4Addr::from(u32::from(self.address) | !mask(self.len)))
    }
    /// Usable host addresses, in order.
    pub fn stations(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let (first, last) =
            (u64::from(u32::from(self.address)), u64::from(u32::from(self.address) | !mask(self.len)));
        let edge = u64::from(self.len <= 30);
        (first + edge..=last - edge).map(|n| Ipv4Addr::from(n as u32))
    }
}

impl InterfaceAddress {
    /// True if `ip` is the directed broadcast address of the network.
    #[inline]
    pub fn has_broadcast(&self, ip: Ipv4Addr) -> bool {
        let hosts = !mask(self.len);
        self.len <= 30 && u32::from(ip) ^ u32::from(self.ip) <= hosts && u32::from(ip) & hosts == hosts
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl<A: Ip> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Interface address with its prefix length, such as `10.0.1.7/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress<A = Ipv4Addr> {
    /// Address.
    pub ip: A,
    /// Prefix length of the network in bits.
    pub len: u8,
    /// Number among the equal addresses of an interface, which differ by their peers.
    pub turn: u8,
}

impl<A: Ip> InterfaceAddress<A> {
    /// Creates an address that has no equal.
    pub const fn new(ip: A, len: u8) -> InterfaceAddress<A> {
        InterfaceAddress { ip, len, turn: 0 }
    }
    /// Network of the address.
    pub fn network(&self) -> Prefix<A> {
        Prefix::new(self.ip, self.len)
    }
}

impl<A: Ip> fmt::Display for InterfaceAddress<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.len)
    }
}

impl<A: Ip> FromStr for InterfaceAddress<A> {
    type Err = ();
    /// Parses an address; without a length the prefix has all bits.
    fn from_str(text: &str) -> Result<InterfaceAddress<A>, ()> {
        let (ip, len) = match text.split_once('/') {
            Some((ip, len)) => (ip, len.parse().ok().filter(|len| *len <= A::BITS).ok_or(())?),
            None => (text, A::BITS),
        };
        Ok(InterfaceAddress::new(ip.parse().map_err(drop)?, len))
    }
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop<A = Ipv4Addr> {
    /// Number of the outgoing interface.
    pub interface: usize,
    /// Gateway; `None` if the destination is on-link, or `gateway6` is set.
    pub gateway: Option<A>,
    /// IPv6 gateway of an IPv4 route (`via inet6`, RFC 8950); `gateway` is then `None`.
    pub gateway6: Option<Ipv6Addr>,
    /// True if the gateway was declared on-link (`onlink`); for display only.
    pub on_link: bool,
    /// Number of the entry among equal entries that follow each other: `nexthop` may list a next hop twice.
    pub entry: u8,
    /// Scope of the route to the gateway, `RT_SCOPE_*`: an address of this host has that of hosts.
    pub scope: u8,
    /// True for one of several next hops whose interface has gone down: it is kept, and not used until the interface is up
    /// again (`RTNH_F_DEAD`).
    pub dead: bool,
}

impl<A> NextHop<A> {
    /// Creates a next hop over an interface, by a gateway or on-link.
    pub fn new(interface: usize, gateway: Option<A>) -> NextHop<A> {
        let scope = if gateway.is_some() { LINK_SCOPE } else { HOST_SCOPE };
        NextHop { interface, gateway, gateway6: None, on_link: false, entry: 0, scope, dead: false }
    }
}

impl<A: Ip> NextHop<A> {
    /// Repeats each next hop by its weight: a hop of weight n occurs n times in the list from which each flow
    /// selects one. Entries that equal their predecessor are numbered.
    pub fn repeated(weighted: impl IntoIterator<Item = (NextHop<A>, usize)>) -> Vec<NextHop<A>> {
        let mut hops: Vec<NextHop<A>> = Vec::new();
        for (hop, weight) in weighted {
            let before = hops.last().filter(|last| NextHop { entry: hop.entry, ..**last } == hop);
            let entry = before.map_or(0, |last| last.entry.wrapping_add(1));
            hops.extend(std::iter::repeat_n(NextHop { entry, ..hop }, weight));
        }
        hops
    }
    /// Gateway of either family.
    pub fn router(&self) -> Option<IpAddr> {
        self.gateway.map(Into::into).or(self.gateway6.map(IpAddr::V6))
    }
    /// Gateway to which packets are sent; `None` if the gateway is not on a link, so that packets are sent directly
    /// to their destination (`rt_set_nexthop` of Linux).
    #[inline]
    pub fn next(&self) -> Option<IpAddr> {
        if self.scope == LINK_SCOPE { self.router() } else { None }
    }
    /// True if the destination is on-link.
    pub fn is_direct(&self) -> bool {
        self.gateway.is_none() && self.gateway6.is_none()
    }
}

/// Kind of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// Packets are forwarded to a next hop.
    #[default]
    Unicast,
    /// Packets are dropped silently.
    Blackhole,
    /// Packets are dropped, and "host unreachable" is reported to their sender.
    Unreachable,
    /// Packets are dropped, and "administratively prohibited" is reported to their sender.
    Prohibit,
    /// The lookup in this table fails.
    Throw,
    /// Packets are delivered to this host, whatever its addresses.
    Local,
}

/// Route of a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<A = Ipv4Addr> {
    /// Kind of the route.
    pub kind: RouteKind,
    /// Type of service of matching packets, in IPv4; 0 matches all.
    pub tos: u8,
    /// Next hops, among which the flow's hash selects; empty only if `kind` is not unicast.
    pub hops: Vec<NextHop<A>>,
    /// Preferred source address, if it is not the interface's first one.
    pub source: Option<A>,
    /// Originator, `RTPROT_*` of rtnetlink(7).
    pub protocol: u8,
    /// Scope in IPv4, `RT_SCOPE_*`: gateways are reached by routes of link scope.
    pub scope: u8,
    /// Router preference in IPv6 (RFC 4191), as in `RTA_PREF`.
    pub preference: u8,
    /// Id of the next-hop object from which the next hops are taken (`nhid`).
    pub object: Option<u32>,
    /// Metrics for packets of the route.
    pub metrics: Metrics,
    /// `rtm_flags` of an IPv4 route, as its request had them; for display only.
    pub flags: u32,
}

/// Metrics of a route (`RTA_METRICS` of rtnetlink(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// MTU in bytes, if it differs from the interface's.
    pub mtu: Option<u32>,
    /// True if the MTU is locked (`ip route ... mtu lock`): path MTU updates are ignored, and packets may
    /// be fragmented.
    pub mtu_locked: bool,
    /// Maximum segment size that connections advertise in bytes (`advmss`).
    pub advmss: Option<u32>,
    /// Bit mask of the locked metrics (`RTAX_LOCK`), as given.
    pub locks: u32,
}

/// `RT_SCOPE_LINK`: the scope of routes to on-link destinations.
pub const LINK_SCOPE: u8 = 253;
/// `RT_SCOPE_HOST`: the scope of routes to addresses of the host.
const HOST_SCOPE: u8 = 254;

/// `RTNH_F_OFFLOAD` and `RTNH_F_TRAP`: flags of routes that are reported as given, and irrelevant to their identity.
pub const SHOWN_FLAGS: u32 = 8 | 64;

/// Originators of routes, `RTPROT_*`.
pub mod protocol {
    /// Kernel, on adding an address.
    pub const KERNEL: u8 = 2;
    /// Experiment, at boot.
    pub const BOOT: u8 = 3;
    /// Administrator.
    pub const STATIC: u8 = 4;
    /// Experiment, computed by shortest paths; the value of OSPF.
    pub const COMPUTED: u8 = 188;
}

impl<A: Ip> Route<A> {
    /// Creates a unicast route with one next hop.
    pub fn by(interface: usize, gateway: Option<A>, protocol: u8) -> Route<A> {
        Route {
            kind: RouteKind::Unicast,
            tos: 0,
            hops: vec![NextHop::new(interface, gateway)],
            source: None,
            protocol,
            preference: 0,
            scope: if gateway.is_some() { 0 } else { LINK_SCOPE },
            object: None,
            metrics: Metrics::default(),
            flags: 0,
        }
    }
    /// Selects the next hop for a flow with this hash among those that are `usable`. The inner `None` means
    /// that the route needs no next hop, the outer one that none is usable.
    fn choose(
        &self,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Option<Option<NextHop<A>>> {
        if self.kind != RouteKind::Unicast {
            return Some(None);
        }
        let usable = |hop: &&NextHop<A>| !hop.dead && usable(hop);
        let mut hops = self.hops.iter().filter(usable);
        let first = hops.next()?;
        match hops.count() as u64 {
            0 => Some(Some(*first)),
            others => {
                let mut hops = self.hops.iter().filter(usable);
                Some(hops.nth((hash() % (others + 1)) as usize).copied())
            }
        }
    }
}

/// Result of a lookup: prefix, route, and next hop if there is one.
pub type RouteMatch<'a, A> = (Prefix<A>, &'a Route<A>, Option<NextHop<A>>);

/// Rank of a route among those with the same prefix: by type of service, specific ones first, then by
/// metric. Of routes that are equal in both, the first one is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    tos: Reverse<u8>,
    metric: u32,
    /// Order among routes of equal type of service and metric.
    turn: i32,
}

impl Rank {
    /// Rank of a route for a type of service (0 for all) with this metric.
    pub fn new(tos: u8, metric: u32) -> Rank {
        Rank { tos: Reverse(tos), metric, turn: 0 }
    }

    /// Range of the ranks with the same type of service and metric.
    fn alike(self) -> RangeInclusive<Rank> {
        Rank { turn: i32::MIN, ..self }..=Rank { turn: i32::MAX, ..self }
    }
}

impl From<u32> for Rank {
    fn from(metric: u32) -> Rank {
        Rank::new(0, metric)
    }
}

/// Bits of the type of service that routes match (`IPTOS_RT_MASK` of Linux).
pub(crate) const TOS_MASK: u8 = 0x1c;

/// Routing table, ordered by prefix, type of service and metric.
#[derive(Clone, Debug)]
pub struct RouteTable<A = Ipv4Addr> {
    /// Routes by (host bits of the prefix, network, rank): the best one of a network comes first.
    routes: Map<(u8, A, Rank), Route<A>>,
    /// Number of routes of each prefix length, by the number of host bits.
    lengths: Vec<u32>,
    /// Bit mask of the prefix lengths in use, without length 0, by the number of host bits: a fast path for
    /// lookups.
    present: u128,
    /// Copy of all routes in order, if they are so few that a scan is faster than a search.
    few: Vec<(Prefix<A>, Route<A>)>,
    /// Changes since they were last taken, if they are recorded.
    changes: Option<Vec<RouteChange<A>>>,
    /// True once a route had flags of [`SHOWN_FLAGS`].
    shows_flags: bool,
}

/// Change of a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange<A = Ipv4Addr> {
    /// Prefix of the route.
    pub prefix: Prefix<A>,
    /// Metric of the route.
    pub metric: u32,
    /// New route; `None` if it was removed.
    pub route: Option<Route<A>>,
}

/// Maximum number of routes for a scan.
const FEW: usize = 8;

impl<A> RouteTable<A> {
    /// Records the memory of the routes, if they are few.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.few[..]);
        for (_, route) in &self.few {
            footprint.start(route.hops.as_ptr(), 1);
        }
    }
}

impl<A: Ip> Default for RouteTable<A> {
    fn default() -> RouteTable<A> {
        let lengths = vec![0; usize::from(A::BITS) + 1];
        RouteTable {
            routes: Map::new(),
            lengths,
            present: 0,
            few: Vec::new(),
            changes: None,
            shows_flags: false,
        }
    }
}

impl<A: Ip> RouteTable<A> {
    /// Starts to record changes for [`take_changes`](Self::take_changes).
    pub fn record_changes(&mut self) {
        self.changes.get_or_insert_default();
    }
    /// Takes the changes since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<RouteChange<A>> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// Inserts a route; returns the route with the same prefix, type of service and metric that it
    /// replaces.
    pub fn insert(&mut self, prefix: Prefix<A>, metric: u32, route: Route<A>) -> Option<Route<A>> {
        let rank = Rank::new(route.tos, metric);
        let rank = self.alike(prefix, rank).next().map_or(rank, |(rank, _)| rank);
        self.shows_flags |= route.flags & SHOWN_FLAGS != 0;
        let recorded = self.changes.is_some().then(|| route.clone());
        let old = self.routes.insert(key(prefix, rank), route);
        if let (Some(changes), Some(route)) = (&mut self.changes, recorded)
            && old.as_ref() != Some(&route)
        {
            changes.push(RouteChange { prefix, metric, route: Some(route) });
        }
        if old.is_none() {
            self.lengths[usize::from(A::BITS - prefix.len)] += 1;
        }
        self.count();
        old
    }
    /// Inserts a route before or behind those with the same prefix, type of service and metric, which are
    /// kept. The first usable one is used.
    pub fn insert_beside(&mut self, prefix: Prefix<A>, metric: u32, route: Route<A>, behind: bool) {
        let rank = Rank::new(route.tos, metric);
        let turns: Vec<i32> = self.alike(prefix, rank).map(|(rank, _)| rank.turn).collect();
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
            self.insert(prefix, metric, route);
            return;
        };
        self.shows_flags |= route.flags & SHOWN_FLAGS != 0;
        let turn = if behind { last.saturating_add(1) } else { first.saturating_sub(1) };
        if let Some(changes) = self.changes.as_mut().filter(|_| !behind) {
            changes.push(RouteChange { prefix, metric, route: Some(route.clone()) });
        }
        self.routes.insert(key(prefix, Rank { turn, ..rank }), route);
        self.lengths[usize::from(A::BITS - prefix.len)] += 1;
        self.count();
    }
    /// Iterates over the routes with this prefix, type of service and metric, in order.
    pub fn all_alike(&self, prefix: Prefix<A>, rank: Rank) -> impl Iterator<Item = &Route<A>> {
        self.alike(prefix, rank).map(|(_, route)| route)
    }
    fn alike(&self, prefix: Prefix<A>, rank: Rank) -> impl Iterator<Item = (Rank, &Route<A>)> {
        let (first, last) = rank.alike().into_inner();
        let alike = self.routes.range(key(prefix, first)..=key(prefix, last));
        alike.map(|((.., rank), route)| (*rank, route))
    }
    /// Returns the first route with this prefix and rank; a metric converts to the rank of routes for all
    /// types of service.
    pub fn get(&self, prefix: Prefix<A>, rank: impl Into<Rank>) -> Option<&Route<A>> {
        self.alike(prefix, rank.into()).map(|(_, route)| route).next()
    }
    /// Removes the first route with this prefix and rank.
    pub fn remove(&mut self, prefix: Prefix<A>, rank: impl Into<Rank>) -> Option<Route<A>> {
        let (rank, _) = self.alike(prefix, rank.into()).next()?;
        self.take(prefix, rank)
    }
    /// Removes the first route that equals this one.
    pub fn remove_this(&mut self, prefix: Prefix<A>, metric: u32, route: &Route<A>) -> Option<Route<A>> {
        let rank = Rank::new(route.tos, metric);
        let (rank, _) = self.alike(prefix, rank).find(|(_, other)| *other == route)?;
        self.take(prefix, rank)
    }
    fn take(&mut self, prefix: Prefix<A>, rank: Rank) -> Option<Route<A>> {
        let was_first = self.alike(prefix, rank).next().is_some_and(|(first, _)| first == rank);
        let old = self.routes.remove(&key(prefix, rank));
        if old.is_some() {
            self.lengths[usize::from(A::BITS - prefix.len)] -= 1;
            let next = self.get(prefix, rank).cloned();
            if let Some(changes) = self.changes.as_mut().filter(|_| was_first) {
                changes.push(RouteChange { prefix, metric: rank.metric, route: next });
            }
            self.count();
        }
        old
    }
    fn count(&mut self) {
        let present = self.lengths.iter().take(usize::from(A::BITS)).enumerate();
        let present = present.filter(|(_, count)| **count > 0);
        self.present = present.fold(0, |all, (rest, _)| all | 1 << rest);
        self.few.clear();
        if self.routes.len() <= FEW {
            let routes = self.routes.iter().map(|((rest, address, _), route)| {
                (Prefix { address: *address, len: A::BITS - rest }, route.clone())
            });
            self.few.extend(routes);
        }
    }
    /// Removes all routes for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(Prefix<A>, u32, &mut Route<A>) -> bool) {
        let (lengths, changes) = (&mut self.lengths, &mut self.changes);
        let mut gone = Vec::new();
        self.routes.retain(|(rest, address, rank), route| {
            let metric = &rank.metric;
            let prefix = Prefix { address: *address, len: A::BITS - rest };
            let before = changes.is_some().then(|| route.clone());
            let kept = keep(prefix, *metric, route);
            if let (Some(changes), Some(before)) = (changes.as_mut(), before)
                && (!kept || before != *route)
            {
                let route = kept.then(|| route.clone());
                changes.push(RouteChange { prefix, metric: *metric, route });
                gone.extend((!kept).then_some((prefix, *rank)));
            }
            if !kept {
                lengths[usize::from(*rest)] -= 1;
            }
            kept
        });
        for (prefix, rank) in gone {
            // A route of equal rank may remain.
            let next = self.get(prefix, rank).cloned();
            if let (Some(changes), Some(_)) = (&mut self.changes, &next) {
                changes.push(RouteChange { prefix, metric: rank.metric, route: next });
            }
        }
        self.count();
    }
    /// Replaces the routes computed by the experiment; a new route is not inserted if there is another one
    /// of its prefix and metric.
    pub fn replace_computed(&mut self, routes: impl IntoIterator<Item = (Prefix<A>, u32, Route<A>)>) {
        self.retain(|_, _, route| route.protocol != protocol::COMPUTED);
        for (prefix, metric, route) in routes {
            if self.get(prefix, metric).is_none() {
                self.insert(prefix, metric, route);
            }
        }
    }
    /// Returns the best route to `destination` with a `usable` next hop, and the next hop for a flow with
    /// this hash. `hash` is called only if there are several next hops. A route without next hops is always
    /// usable.
    pub fn lookup(
        &self,
        destination: A,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Option<(&Route<A>, Option<NextHop<A>>)> {
        self.lookup_entry(destination, 0, hash, usable).map(|(_, route, hop)| (route, hop))
    }
    /// Looks up a route like [`lookup`](Self::lookup), for packets of a type of service; returns its prefix
    /// as well.
    pub fn lookup_entry(
        &self,
        destination: A,
        tos: u8,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Option<RouteMatch<'_, A>> {
        let is_for = |route: &Route<A>| route.tos == 0 || route.tos == tos & TOS_MASK;
        if !self.few.is_empty() {
            return self
                .few
                .iter()
                .filter(|(prefix, route)| prefix.contains(destination) && is_for(route))
                .find_map(|(prefix, route)| Some((*prefix, route, route.choose(&hash, &usable)?)));
        }
        let mut present = self.present;
        let mut last = false;
        while !last {
            // Default routes come last.
            last = present == 0;
            let rest = if last { A::BITS } else { present.trailing_zeros() as u8 };
            present &= present.wrapping_sub(1);
            let network = destination.masked(A::BITS - rest);
            let (first, last_of_all) = (Rank::new(u8::MAX, 0), Rank::new(0, u32::MAX));
            let (first, last_of_all) = (*first.alike().start(), *last_of_all.alike().end());
            let prefix = Prefix { address: network, len: A::BITS - rest };
            let of_network = self.routes.range((rest, network, first)..=(rest, network, last_of_all));
            for (_, route) in of_network.filter(|(_, route)| is_for(route)) {
                if let Some(chosen) = route.choose(&hash, &usable) {
                    return Some((prefix, route, chosen));
                }
            }
        }
        None
    }
    /// True if a route may have flags of [`SHOWN_FLAGS`].
    pub fn shows_flags(&self) -> bool {
        self.shows_flags
    }
    /// True if the table has no routes.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
    /// Iterates over all routes: longest prefix first, then by network and metric.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, u32, &Route<A>)> {
        self.routes.iter().map(|((rest, address, rank), route)| {
            (Prefix { address: *address, len: A::BITS - rest }, rank.metric, route)
        })
    }
}

fn key<A: Ip>(prefix: Prefix<A>, rank: Rank) -> (u8, A, Rank) {
    (A::BITS - prefix.len, prefix.address, rank)
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
