//! Address families, and the attributes of packets that determine their routes.

use crate::LO;
use crate::v6::USER_METRIC;
use belljar_linux_abi::{Errno, c};
use belljar_net::policy::Action;
use belljar_net::routes::Ip;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family.
pub trait Family: Ip {
    /// `AF_INET` or `AF_INET6`.
    const AF: i32;
    /// Metric of routes added without one.
    const METRIC: u32;
    /// Converts an address of this family; `None` for one of the other family.
    fn of(ip: IpAddr) -> Option<Self>;
}

impl Family for Ipv4Addr {
    const AF: i32 = c::AF_INET;
    const METRIC: u32 = 0;
    fn of(ip: IpAddr) -> Option<Ipv4Addr> {
        if let IpAddr::V4(ip) = ip { Some(ip) } else { None }
    }
}

impl Family for Ipv6Addr {
    const AF: i32 = c::AF_INET6;
    const METRIC: u32 = USER_METRIC;
    fn of(ip: IpAddr) -> Option<Ipv6Addr> {
        if let IpAddr::V6(ip) = ip { Some(ip) } else { None }
    }
}

/// Route lookup key: the packet attributes that determine the route.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<A> {
    /// Destination address.
    pub to: A,
    /// Source address, if it is already chosen.
    pub source: Option<A>,
    /// Number of the input interface; [`LO`] for the host's own packets.
    pub arrived: usize,
    /// Number of the only permitted output interface, if any.
    pub device: Option<usize>,
    /// Mark of the socket.
    pub mark: u32,
    /// Type of service.
    pub tos: u8,
    /// Protocol, ports and socket owner.
    pub sender: FlowKey,
}

/// Selector: the packet attributes other than its addresses that a policy rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowKey {
    /// The IP protocol number.
    pub protocol: u8,
    /// Source and destination port; 0 for protocols without ports.
    pub ports: (u16, u16),
    /// UID of the socket's owner; 0 for packets without a socket.
    pub uid: u32,
}

impl FlowKey {
    /// The selector of a forwarded packet; `payload` is the beginning of its IP payload, of `protocol`.
    pub fn of_forwarded(protocol: u8, payload: &[u8]) -> FlowKey {
        let ports = match (i32::from(protocol), payload) {
            (c::IPPROTO_TCP | c::IPPROTO_UDP | c::IPPROTO_UDPLITE, [a, b, x, y, ..]) => {
                (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*x, *y]))
            }
            _ => (0, 0),
        };
        FlowKey { protocol, ports, uid: 0 }
    }
}

impl<A> RouteQuery<A> {
    /// The query for a packet of this host.
    pub fn own(to: A, source: Option<A>) -> RouteQuery<A> {
        RouteQuery { to, source, arrived: LO, device: None, mark: 0, tos: 0, sender: FlowKey::default() }
    }
}

/// The errno for a packet that a policy rule rejects.
pub fn refused(action: Action) -> Errno {
    match action {
        Action::Blackhole | Action::Other(_) => Errno::EINVAL,
        Action::Prohibit => Errno::EACCES,
        _ => Errno::ENETUNREACH,
    }
}
