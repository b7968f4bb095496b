//! The routes of one host or router, for each family a table: the longest prefix wins, then the least metric,
//! then the flow's hash among next hops of equal cost.

use belljar_base::Footprint;
use belljar_base::Map;
use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An address of one family.
pub trait Ip: Copy + Ord + fmt::Debug + fmt::Display + FromStr + Into<IpAddr> + 'static {
    /// Number of bits that it has.
    const BITS: u8;
    /// The least of all, which stands for none.
    const LEAST: Self;
    /// The greatest of all.
    const GREATEST: Self;
    /// The address with all but the first `len` bits zero.
    fn masked(self, len: u8) -> Self;
    /// The source of a packet of this family.
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

/// A block of addresses, such as `10.0.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<A = Ipv4Addr> {
    address: A,
    len: u8,
}

impl<A: Ip> Prefix<A> {
    /// All addresses.
    pub const ALL: Prefix<A> = Prefix { address: A::LEAST, len: 0 };

    /// The block of `len` leading bits (at most all) that `address` lies in.
    pub fn new(address: A, len: u8) -> Prefix<A> {
        let len = len.min(A::BITS);
        Prefix { address: address.masked(len), len }
    }
    /// Its first address.
    pub fn address(&self) -> A {
        self.address
    }
    /// Number of leading bits that its addresses share.
    pub fn bits(&self) -> u8 {
        self.len
    }
    /// True if it holds every address.
    pub fn is_all(&self) -> bool {
        self.len == 0
    }
    /// True if an address lies in it.
    pub fn contains(&self, address: A) -> bool {
        address.masked(self.len) == self.address
    }
    /// True if some address lies in both.
    pub fn overlaps(&self, other: &Prefix<A>) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl Prefix {
    /// Its netmask.
    pub fn netmask(&self) -> Ipv4Addr {
        mask(self.len).into()
    }
    /// The address that stands for all stations; blocks of less than four addresses have none.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        (self.len <= 30).then(|| Ipv4Addr::from(u32::from(self.address) | !mask(self.len)))
    }
    /// The addresses that stations can have, in order.
    pub fn stations(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let (first, last) =
            (u64::from(u32::from(self.address)), u64::from(u32::from(self.address) | !mask(self.len)));
        let edge = u64::from(self.len <= 30);
        (first + edge..=last - edge).map(|n| Ipv4Addr::from(n as u32))
    }
}

impl InterfaceAddress {
    /// True if `ip` stands for all stations of its network.
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

/// An address and the length of its network's prefix, such as `10.0.1.7/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress<A = Ipv4Addr> {
    /// The address.
    pub ip: A,
    /// Number of leading bits that the stations of its network share.
    pub len: u8,
}

impl<A: Ip> InterfaceAddress<A> {
    /// Its network.
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
    /// Without a length all bits are meant.
    fn from_str(text: &str) -> Result<InterfaceAddress<A>, ()> {
        let (ip, len) = match text.split_once('/') {
            Some((ip, len)) => (ip, len.parse().ok().filter(|len| *len <= A::BITS).ok_or(())?),
            None => (text, A::BITS),
        };
        Ok(InterfaceAddress { ip: ip.parse().map_err(drop)?, len })
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop<A = Ipv4Addr> {
    /// The number of the interface by which it leaves.
    pub interface: usize,
    /// The router that it is handed to; `None`: the destination is on the link.
    pub gateway: Option<A>,
    /// The IPv6 address of the router that an IPv4 packet is handed to (`via inet6`, RFC 8950); then `gateway` is none.
    pub gateway6: Option<Ipv6Addr>,
    /// The router was said to be on the link, whatever the addresses are: it is only shown.
    pub on_link: bool,
}

impl<A> NextHop<A> {
    /// By an interface to a router, or to stations of its link.
    pub fn new(interface: usize, gateway: Option<A>) -> NextHop<A> {
        NextHop { interface, gateway, gateway6: None, on_link: false }
    }
}

impl<A: Ip> NextHop<A> {
    /// The router that a packet is handed to, of either family.
    pub fn router(&self) -> Option<IpAddr> {
        self.gateway.map(Into::into).or(self.gateway6.map(IpAddr::V6))
    }
    /// True if the destination is on the link.
    pub fn is_direct(&self) -> bool {
        self.gateway.is_none() && self.gateway6.is_none()
    }
}

/// Kind of a route: what becomes of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// They go to a next hop.
    #[default]
    Unicast,
    /// They vanish.
    Blackhole,
    /// Their sender is told that the host cannot be reached.
    Unreachable,
    /// Their sender is told that it is prohibited.
    Prohibit,
    /// This table knows no way.
    Throw,
    /// They are for this host, whatever its addresses are.
    Local,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<A = Ipv4Addr> {
    /// Its kind.
    pub kind: RouteKind,
    /// The type of service of its packets, of IPv4; 0 for all.
    pub tos: u8,
    /// The next hops, one of which is chosen by the flow; none only where `kind` is not unicast.
    pub hops: Vec<NextHop<A>>,
    /// The source address of packets that have none, if it is not the interface's first.
    pub source: Option<A>,
    /// Its originator: `RTPROT_*` of rtnetlink(7).
    pub protocol: u8,
    /// The number of the next-hop object that its next hops come from (`nhid`).
    pub object: Option<u32>,
    /// Metrics of its packets.
    pub metrics: Metrics,
}

/// Metrics of a route (`RTA_METRICS` of rtnetlink(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The longest packet in bytes, where that is not the interface's matter.
    pub mtu: Option<u32>,
    /// No router is believed that says otherwise, and packets may be cut on their way (`ip route ... mtu lock`).
    pub mtu_locked: bool,
    /// The greatest segment in bytes that connections announce (`advmss`).
    pub advmss: Option<u32>,
}

/// `RTPROT_*`: who has made a route.
pub mod protocol {
    /// The kernel, for an address.
    pub const KERNEL: u8 = 2;
    /// The experiment, at boot.
    pub const BOOT: u8 = 3;
    /// The administrator.
    pub const STATIC: u8 = 4;
    /// The experiment, by shortest paths: that of OSPF.
    pub const COMPUTED: u8 = 188;
}

impl<A: Ip> Route<A> {
    /// A route by one next hop.
    pub fn by(interface: usize, gateway: Option<A>, protocol: u8) -> Route<A> {
        Route {
            kind: RouteKind::Unicast,
            tos: 0,
            hops: vec![NextHop::new(interface, gateway)],
            source: None,
            protocol,
            object: None,
            metrics: Metrics::default(),
        }
    }
    /// The next hop that a flow with this hash takes, among those for which `usable` holds: none if the route has none
    /// at all; `None` if it cannot be used.
    fn choose(
        &self,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Option<Option<NextHop<A>>> {
        if self.kind != RouteKind::Unicast {
            return Some(None);
        }
        let mut hops = self.hops.iter().filter(|hop| usable(hop));
        let first = hops.next()?;
        match hops.count() as u64 {
            0 => Some(Some(*first)),
            others => {
                let mut hops = self.hops.iter().filter(|hop| usable(hop));
                Some(hops.nth((hash() % (others + 1)) as usize).copied())
            }
        }
    }
}

/// A route that was looked for, the prefix that it is to, and the next hop if there is one.
pub type RouteMatch<'a, A> = (Prefix<A>, &'a Route<A>, Option<NextHop<A>>);

/// Place of a route among those of its prefix: first those for one type of service, then by metric. Of those that are alike in
/// both the first one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    tos: Reverse<u8>,
    metric: u32,
    /// The order of those that are alike.
    turn: i32,
}

impl Rank {
    /// The place of a route for a type of service (0: all) with this metric.
    pub fn new(tos: u8, metric: u32) -> Rank {
        Rank { tos: Reverse(tos), metric, turn: 0 }
    }

    /// All places of routes that are alike in type of service and metric.
    fn alike(self) -> RangeInclusive<Rank> {
        Rank { turn: i32::MIN, ..self }..=Rank { turn: i32::MAX, ..self }
    }
}

impl From<u32> for Rank {
    fn from(metric: u32) -> Rank {
        Rank::new(0, metric)
    }
}

/// The bits of a packet's type of service that routes tell packets by (`IPTOS_RT_MASK` of Linux).
pub(crate) const TOS_MASK: u8 = 0x1c;

/// Routes by prefix, type of service and metric.
#[derive(Clone, Debug)]
pub struct RouteTable<A = Ipv4Addr> {
    /// By (bits that are not the prefix's, network, rank): the best one of a network comes first.
    routes: Map<(u8, A, Rank), Route<A>>,
    /// Number of routes of each length, by the bits that are not the prefix's.
    lengths: Vec<u32>,
    /// The lengths that there are but for that of no bits, a bit each: every packet asks.
    present: u128,
    /// All of them in order once more, if they are so few that going through them takes less than a search.
    few: Vec<(Prefix<A>, Route<A>)>,
    /// The changes since they were taken last, if they are recorded.
    changes: Option<Vec<RouteChange<A>>>,
}

/// A change of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange<A = Ipv4Addr> {
    /// The prefix.
    pub prefix: Prefix<A>,
    /// The metric.
    pub metric: u32,
    /// The route that is there now; `None`: it is gone.
    pub route: Option<Route<A>>,
}

/// Most routes that count as few.
const FEW: usize = 8;

impl<A> RouteTable<A> {
    /// Tells where the routes are, if they are few.
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
        RouteTable { routes: Map::new(), lengths, present: 0, few: Vec::new(), changes: None }
    }
}

impl<A: Ip> RouteTable<A> {
    /// Records changes from now on, for [`take_changes`](Self::take_changes).
    pub fn record_changes(&mut self) {
        self.changes.get_or_insert_default();
    }
    /// The changes since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<RouteChange<A>> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// Adds a route; gives back one with the same prefix, type of service and metric that it takes the place of.
    pub fn insert(&mut self, prefix: Prefix<A>, metric: u32, route: Route<A>) -> Option<Route<A>> {
        let rank = Rank::new(route.tos, metric);
        let rank = self.alike(prefix, rank).next().map_or(rank, |(rank, _)| rank);
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
    /// Adds a route before or behind those with the same prefix, type of service and metric, which stay: the first one that can be
    /// used is.
    pub fn insert_beside(&mut self, prefix: Prefix<A>, metric: u32, route: Route<A>, behind: bool) {
        let rank = Rank::new(route.tos, metric);
        let turns: Vec<i32> = self.alike(prefix, rank).map(|(rank, _)| rank.turn).collect();
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
            self.insert(prefix, metric, route);
            return;
        };
        let turn = if behind { last.saturating_add(1) } else { first.saturating_sub(1) };
        if let Some(changes) = self.changes.as_mut().filter(|_| !behind) {
            changes.push(RouteChange { prefix, metric, route: Some(route.clone()) });
        }
        self.routes.insert(key(prefix, Rank { turn, ..rank }), route);
        self.lengths[usize::from(A::BITS - prefix.len)] += 1;
        self.count();
    }
    /// The routes with this prefix, type of service and metric, in their order.
    pub fn all_alike(&self, prefix: Prefix<A>, rank: Rank) -> impl Iterator<Item = &Route<A>> {
        self.alike(prefix, rank).map(|(_, route)| route)
    }
    fn alike(&self, prefix: Prefix<A>, rank: Rank) -> impl Iterator<Item = (Rank, &Route<A>)> {
        let (first, last) = rank.alike().into_inner();
        let alike = self.routes.range(key(prefix, first)..=key(prefix, last));
        alike.map(|((.., rank), route)| (*rank, route))
    }
    /// The first route with this prefix and rank; a metric alone is that of routes for all types of service.
    pub fn get(&self, prefix: Prefix<A>, rank: impl Into<Rank>) -> Option<&Route<A>> {
        self.alike(prefix, rank.into()).map(|(_, route)| route).next()
    }
    /// Takes the first such route out.
    pub fn remove(&mut self, prefix: Prefix<A>, rank: impl Into<Rank>) -> Option<Route<A>> {
        let (rank, _) = self.alike(prefix, rank.into()).next()?;
        self.take(prefix, rank)
    }
    /// Takes the first route out that is this one.
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
    /// Takes out all routes for which `keep` does not hold.
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
            // One that is like it may be there still.
            let next = self.get(prefix, rank).cloned();
            if let (Some(changes), Some(_)) = (&mut self.changes, &next) {
                changes.push(RouteChange { prefix, metric: rank.metric, route: next });
            }
        }
        self.count();
    }
    /// Takes the routes out that the experiment has computed before, and puts these in where there are no others.
    pub fn replace_computed(&mut self, routes: impl IntoIterator<Item = (Prefix<A>, u32, Route<A>)>) {
        self.retain(|_, _, route| route.protocol != protocol::COMPUTED);
        for (prefix, metric, route) in routes {
            if self.get(prefix, metric).is_none() {
                self.insert(prefix, metric, route);
            }
        }
    }
    /// The best route to `destination` that has a next hop for which `usable` holds, and the next hop
    /// that a flow with this hash takes, asked for where there is more than one. A route without next hops is always usable.
    pub fn lookup(
        &self,
        destination: A,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Option<(&Route<A>, Option<NextHop<A>>)> {
        self.lookup_entry(destination, 0, hash, usable).map(|(_, route, hop)| (route, hop))
    }
    /// As [`lookup`](Self::lookup) for packets of a type of service, with the prefix of the route.
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
            // The routes to everywhere come at the end.
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
    /// True if there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
    /// All routes, longest prefix first, then by network and metric.
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
