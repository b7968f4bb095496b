//! Local endpoints of sockets: the destinations that a bound socket accepts, and the choice of ephemeral ports,
//! ip(7).

use crate::address;
use crate::{LO, interface_index};
use belljar_base::Stream;
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Default of `net.ipv4.ip_local_port_range`.
pub const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// The destination addresses that a bound socket accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The only address accepted; `None` for any.
    pub ip: Option<IpAddr>,
    v4: bool,
    v6: bool,
}

impl Reach {
    /// The destinations of a socket of `domain` bound to `ip`.
    pub fn new(domain: i32, v6_only: bool, ip: Option<IpAddr>) -> Reach {
        let (v4, v6) = match ip {
            Some(ip) => (ip.is_ipv4(), ip.is_ipv6()),
            None => (domain == c::AF_INET || !v6_only, domain == c::AF_INET6),
        };
        Reach { ip, v4, v6 }
    }
    /// True if packets to `dst` are accepted.
    pub fn takes(&self, dst: IpAddr) -> bool {
        match self.ip {
            Some(ip) => ip == dst,
            None => (dst.is_ipv4() && self.v4) || (dst.is_ipv6() && self.v6),
        }
    }
    /// True if both accept a common destination.
    pub fn overlaps(&self, other: &Reach) -> bool {
        let families = (self.v4 && other.v4) || (self.v6 && other.v6);
        families && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// The local endpoint of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The destinations that the socket accepts.
    pub reach: Reach,
    /// The local port.
    pub port: u16,
    /// True if the program chose the address. Such an address is kept at a disconnect.
    pub address_chosen: bool,
    /// True if the program chose the port, or `bind` or `listen` allocated it. No connection of another
    /// socket may use it, and a UDP socket keeps it at a disconnect.
    pub port_chosen: bool,
    /// True if the program named the port. A TCP socket keeps such a port at a disconnect.
    pub port_named: bool,
}

impl Bound {
    /// The address that `getsockname` returns.
    pub fn shown(&self, domain: i32) -> SocketAddr {
        SocketAddr::new(self.reach.ip.unwrap_or(address::unspecified(domain)), self.port)
    }
}

/// Interface by which a packet arrived, as sockets bound to a device see it.
#[derive(Clone, Copy, Debug)]
pub struct Ingress {
    /// Number of the interface.
    pub interface: usize,
    /// Number of its VRF, if it has one.
    pub vrf: Option<usize>,
}

impl Ingress {
    /// True if a socket bound to the device of this index, or to none, receives the packet (`inet_bound_dev_eq`). Packets
    /// over `lo` reach the sockets of all devices, as on Linux those of a sender that is bound to the same one.
    #[inline]
    pub fn reaches(self, bound: Option<u32>) -> bool {
        let is = |index, number| index == interface_index(number);
        bound.is_none_or(|bound| {
            self.interface == LO || is(bound, self.interface) || self.vrf.is_some_and(|vrf| is(bound, vrf))
        })
    }
}

/// True if sockets bound to these devices, or to none, may both receive a packet.
pub fn devices_overlap(one: Option<u32>, other: Option<u32>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Allocates a port of the range `first..=last` for which `is_free` holds: a random one, or the next free one after
/// it. Fails with `EADDRINUSE` if there is none.
pub fn choose_port(
    random: &mut Stream,
    [first, last]: [u32; 2],
    is_free: impl Fn(u16) -> bool,
) -> Result<u16, Errno> {
    let count = u64::from(last - first) + 1;
    let start = random.below(count);
    (0..count)
        .map(|n| (u64::from(first) + (start + n) % count) as u16)
        .find(|port| is_free(*port))
        .ok_or(Errno::EADDRINUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dual_stack_sockets_reach_both_families() {
        let any6 = Reach::new(c::AF_INET6, false, None);
        let only6 = Reach::new(c::AF_INET6, true, None);
        let any4 = Reach::new(c::AF_INET, false, None);
        let one4 = Reach::new(c::AF_INET6, false, Some([127, 0, 0, 1].into()));
        assert!(any6.overlaps(&any4) && any6.overlaps(&one4) && any4.overlaps(&one4));
        assert!(!only6.overlaps(&any4) && only6.overlaps(&any6));
        assert!(any6.takes([11, 0, 0, 1].into()) && !only6.takes([11, 0, 0, 1].into()));
        assert!(!one4.takes([11, 0, 0, 1].into()));
    }
}
