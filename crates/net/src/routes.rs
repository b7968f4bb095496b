//! The IPv4 routes of one host or router: the longest prefix wins, then the least metric, then the
//! flow's hash among next hops of equal cost.

use belljar_base::Map;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A block of addresses, such as `10.0.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: Ipv4Addr,
    len: u8,
}

impl Prefix {
    /// All addresses.
    pub const ALL: Prefix = Prefix { address: Ipv4Addr::UNSPECIFIED, len: 0 };

    /// The block of `len` leading bits (at most 32) that `address` lies in.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix {
        let len = len.min(32);
        Prefix { address: Ipv4Addr::from(u32::from(address) & mask(len)), len }
    }
    /// Its first address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }
    /// How many leading bits its addresses share.
    pub fn bits(&self) -> u8 {
        self.len
    }
    /// Whether it holds every address.
    pub fn is_all(&self) -> bool {
        self.len == 0
    }
    /// Whether an address lies in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.len) == u32::from(self.address)
    }
    /// Whether some address lies in both.
    pub fn overlaps(&self, other: &Prefix) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
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

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// An address and the length of its network's prefix, such as `10.0.1.7/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: Ipv4Addr,
    /// How many leading bits the stations of its network share.
    pub len: u8,
}

impl InterfaceAddress {
    /// Its network.
    pub fn network(&self) -> Prefix {
        Prefix::new(self.ip, self.len)
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.len)
    }
}

impl FromStr for InterfaceAddress {
    type Err = ();
    /// Without a length all 32 bits are meant.
    fn from_str(text: &str) -> Result<InterfaceAddress, ()> {
        let (ip, len) = text.split_once('/').unwrap_or((text, "32"));
        let len = len.parse().ok().filter(|len| *len <= 32).ok_or(())?;
        Ok(InterfaceAddress { ip: ip.parse().map_err(drop)?, len })
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// The number of the interface by which it leaves.
    pub interface: usize,
    /// The router that it is handed to; `None`: the destination is on the link.
    pub gateway: Option<Ipv4Addr>,
}

/// What becomes of packets that a route is for.
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
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What becomes of the packets.
    pub kind: RouteKind,
    /// The next hops, one of which is chosen by the flow; none only where `kind` is not unicast.
    pub hops: Vec<NextHop>,
    /// The source address of packets that have none, if it is not the interface's first.
    pub source: Option<Ipv4Addr>,
    /// Who made it: `RTPROT_*` of rtnetlink(7).
    pub protocol: u8,
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

impl Route {
    /// A route by one next hop.
    pub fn by(interface: usize, gateway: Option<Ipv4Addr>, protocol: u8) -> Route {
        Route { kind: RouteKind::Unicast, hops: vec![NextHop { interface, gateway }], source: None, protocol }
    }
}

/// Routes by prefix and metric.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    /// By (32 - length, network, metric): the best one of a network comes first.
    routes: Map<(u8, Ipv4Addr, u32), Route>,
    /// How many there are of each length, by 32 - length.
    lengths: Vec<u32>,
    /// The lengths that there are, a bit each: every packet asks.
    present: u64,
}

impl RouteTable {
    /// Adds a route; gives back one with the same prefix and metric that it takes the place of.
    pub fn insert(&mut self, prefix: Prefix, metric: u32, route: Route) -> Option<Route> {
        let old = self.routes.insert(key(prefix, metric), route);
        if old.is_none() {
            self.lengths.resize(33, 0);
            self.lengths[usize::from(32 - prefix.len)] += 1;
            self.present |= 1 << (32 - prefix.len);
        }
        old
    }
    /// The route with exactly this prefix and metric.
    pub fn get(&self, prefix: Prefix, metric: u32) -> Option<&Route> {
        self.routes.get(&key(prefix, metric))
    }
    /// Takes a route out.
    pub fn remove(&mut self, prefix: Prefix, metric: u32) -> Option<Route> {
        let old = self.routes.remove(&key(prefix, metric));
        if old.is_some() {
            self.lengths[usize::from(32 - prefix.len)] -= 1;
            self.count();
        }
        old
    }
    fn count(&mut self) {
        let present = self.lengths.iter().enumerate().filter(|(_, count)| **count > 0);
        self.present = present.fold(0, |all, (rest, _)| all | 1 << rest);
    }
    /// Takes out all routes for which `keep` does not hold.
    pub fn retain(&mut self, mut keep: impl FnMut(Prefix, u32, &mut Route) -> bool) {
        let lengths = &mut self.lengths;
        self.routes.retain(|(rest, address, metric), route| {
            let kept = keep(Prefix { address: *address, len: 32 - rest }, *metric, route);
            if !kept {
                lengths[usize::from(*rest)] -= 1;
            }
            kept
        });
        self.count();
    }
    /// The best route to `destination` that has a next hop for which `usable` holds, and the next hop
    /// that a flow with this hash takes, asked for where there is more than one. A route without next hops is always usable.
    pub fn lookup(
        &self,
        destination: Ipv4Addr,
        hash: impl FnOnce() -> u64,
        usable: impl Fn(&NextHop) -> bool,
    ) -> Option<(&Route, Option<NextHop>)> {
        let mut present = self.present;
        while present != 0 {
            let rest = present.trailing_zeros();
            present &= present - 1;
            let network = Prefix::new(destination, 32 - rest as u8).address;
            let from = (rest as u8, network, 0);
            for (_, route) in self.routes.range(from..=(rest as u8, network, u32::MAX)) {
                if route.kind != RouteKind::Unicast {
                    return Some((route, None));
                }
                let mut hops = route.hops.iter().filter(|hop| usable(hop));
                let Some(first) = hops.next() else { continue };
                let others = hops.count() as u64;
                let chosen = match others {
                    0 => Some(first),
                    _ => route.hops.iter().filter(|hop| usable(hop)).nth((hash() % (others + 1)) as usize),
                };
                return Some((route, chosen.copied()));
            }
        }
        None
    }
    /// All routes, longest prefix first, then by network and metric.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, u32, &Route)> {
        self.routes.iter().map(|((rest, address, metric), route)| {
            (Prefix { address: *address, len: 32 - rest }, *metric, route)
        })
    }
}

fn key(prefix: Prefix, metric: u32) -> (u8, Ipv4Addr, u32) {
    (32 - prefix.len, prefix.address, metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Prefix {
        text.parse::<InterfaceAddress>().unwrap().network()
    }
    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_know_their_addresses() {
        assert_eq!(net("10.1.2.3/24").to_string(), "10.1.2.0/24");
        assert_eq!(net("10.1.2.3/24").broadcast(), Some(ip("10.1.2.255")));
        assert_eq!((net("10.0.0.5/31").broadcast(), net("1.2.3.4").broadcast()), (None, None));
        assert_eq!(net("10.0.0.5/31").stations().collect::<Vec<_>>(), [ip("10.0.0.4"), ip("10.0.0.5")]);
        assert_eq!(net("10.0.0.0/30").stations().collect::<Vec<_>>(), [ip("10.0.0.1"), ip("10.0.0.2")]);
        assert_eq!(net("0.0.0.0/0"), Prefix::ALL);
        assert!(
            net("10.0.0.0/8").overlaps(&net("10.9.0.0/16"))
                && !net("10.0.0.0/9").overlaps(&net("10.128.0.0/9"))
        );
        for wrong in ["10.0.0.0/33", "10.0.0/8", "10.0.0.1/", ""] {
            assert!(wrong.parse::<InterfaceAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_longest_prefix_then_the_least_metric_wins() {
        let mut table = RouteTable::default();
        table.insert(Prefix::ALL, 0, Route::by(1, Some(ip("10.0.0.1")), protocol::BOOT));
        table.insert(net("10.2.0.0/16"), 20, Route::by(2, None, protocol::BOOT));
        table.insert(net("10.2.0.0/16"), 10, Route::by(3, None, protocol::BOOT));
        table.insert(net("10.2.7.0/24"), 90, Route::by(4, None, protocol::BOOT));
        let to = |table: &RouteTable, text: &str, down: usize| {
            table.lookup(ip(text), || 0, |hop| hop.interface != down).map(|(_, hop)| hop.unwrap().interface)
        };
        assert_eq!(
            [to(&table, "10.2.7.1", 0), to(&table, "10.2.8.1", 0), to(&table, "11.0.0.1", 0)],
            [Some(4), Some(3), Some(1)]
        );
        assert_eq!(
            [to(&table, "10.2.7.1", 4), to(&table, "10.2.8.1", 3), to(&table, "11.0.0.1", 1)],
            [Some(3), Some(2), None]
        );
        assert!(
            table.remove(net("10.2.7.0/24"), 90).is_some() && table.remove(net("10.2.7.0/24"), 90).is_none()
        );
        assert_eq!(to(&table, "10.2.7.1", 0), Some(3));
        table.retain(|_, metric, _| metric == 0);
        assert_eq!((to(&table, "10.2.7.1", 0), table.iter().count()), (Some(1), 1));
    }

    #[test]
    fn flows_spread_over_equal_next_hops_and_stay_on_theirs() {
        let hop = |interface| NextHop { interface, gateway: None };
        let route = Route { hops: vec![hop(1), hop(2), hop(3)], ..Route::by(0, None, protocol::STATIC) };
        let mut table = RouteTable::default();
        table.insert(Prefix::ALL, 0, route);
        let by = |hash, down| {
            table.lookup(ip("1.1.1.1"), || hash, |hop| hop.interface != down).unwrap().1.unwrap().interface
        };
        assert_eq!([by(0, 0), by(1, 0), by(2, 0), by(3, 0)], [1, 2, 3, 1]);
        assert_eq!([by(0, 2), by(1, 2), by(2, 2)], [1, 3, 1]);
    }
}
