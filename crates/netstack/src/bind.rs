//! Local addresses and ports: the destinations that a bound socket accepts, port sharing, and the choice of
//! ephemeral ports, ip(7).

use super::Stack;
use super::address;
use crate::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

/// Parses and validates the argument of `bind(2)`: an address of this host (`None` for any) and a port (0 to
/// allocate one).
pub fn parse_bind(net: &Stack, key: SocketKey, raw: &[u8]) -> Result<(Option<IpAddr>, u16), Errno> {
    let socket = &net.sockets[key.0];
    let (domain, options) = (socket.domain, socket.ip_options().ok_or(Errno::EINVAL)?);
    let least = if domain == c::AF_INET6 { 24 } else { 16 };
    if raw.len() < least {
        return Err(Errno::EINVAL);
    }
    let given = match address::family(raw)? {
        family if family == domain => address::parse(raw)?,
        // Linux accepts AF_UNSPEC with INADDR_ANY as AF_INET for compatibility.
        c::AF_UNSPEC if domain == c::AF_INET && raw[4..8] == [0; 4] => {
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), u16::from_be_bytes([raw[2], raw[3]]))
        }
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    let ip = given.ip();
    if domain == c::AF_INET6 && options.v6_only && ip.is_ipv4() {
        return Err(Errno::EINVAL);
    }
    if ip.is_unspecified() {
        return Ok((None, given.port()));
    }
    let device = socket.options.bound_device.or(address::scope(raw));
    if let IpAddr::V6(v6) = ip
        && ipv6::is_link_scope(v6)
    {
        // A link-scope address is valid only with its interface.
        let interface = net.interfaces.by_index(device.ok_or(Errno::EINVAL)?).ok_or(Errno::ENODEV)?;
        let has =
            |own: &belljar_net::InterfaceAddress<_>| own.ip == v6 && !net.v6.is_tentative(interface, v6);
        let usable = v6.is_multicast() || net.interfaces[interface].addresses6.iter().any(has);
        return if usable || options.free_bind || net.sysctls.nonlocal_bind[1] {
            Ok((Some(ip), given.port()))
        } else {
            Err(Errno::EADDRNOTAVAIL)
        };
    }
    let usable = net.is_local(ip) || net.interfaces.is_multipoint(ip) || options.free_bind;
    let usable = usable || net.sysctls.nonlocal_bind[usize::from(ip.is_ipv6())];
    if !usable {
        return Err(Errno::EADDRNOTAVAIL);
    }
    Ok((Some(ip), given.port()))
}

/// Binds a socket that is bound to a link-scope address to the interface of that link.
pub fn bind_to_link(net: &mut Stack, key: SocketKey, ip: Option<IpAddr>, raw: &[u8]) {
    if let (Some(IpAddr::V6(v6)), Some(scope)) = (ip, address::scope(raw))
        && ipv6::is_link_scope(v6)
    {
        net.socket(key).options.bound_device = Some(scope);
    }
}

impl Stack {
    /// Allocates a port of the ephemeral range for which `is_free` holds: a random one, or the next free one
    /// after it. Fails with `EADDRINUSE` if there is none.
    pub fn choose_port(&mut self, is_free: impl Fn(&Stack, u16) -> bool) -> Result<u16, Errno> {
        let [first, last] = self.sysctls.local_ports;
        let count = u64::from(last - first) + 1;
        let start = self.ports.below(count);
        (0..count)
            .map(|n| (u64::from(first) + (start + n) % count) as u16)
            .find(|port| is_free(self, *port))
            .ok_or(Errno::EADDRINUSE)
    }
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
