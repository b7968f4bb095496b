//! Local addresses and ports: what a bound socket receives, who may share a port, and the ports
//! that the kernel chooses, ip(7).

use super::Stack;
use super::address;
use crate::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// `net.ipv4.ip_local_port_range`.
pub const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// The destination addresses that a bound socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Only this one; `None` is any.
    pub ip: Option<IpAddr>,
    v4: bool,
    v6: bool,
}

impl Reach {
    /// The addresses of a socket of `domain` bound to `ip`.
    pub fn new(domain: i32, v6_only: bool, ip: Option<IpAddr>) -> Reach {
        let (v4, v6) = match ip {
            Some(ip) => (ip.is_ipv4(), ip.is_ipv6()),
            None => (domain == c::AF_INET || !v6_only, domain == c::AF_INET6),
        };
        Reach { ip, v4, v6 }
    }
    /// True if packets to `dst` are taken.
    pub fn takes(&self, dst: IpAddr) -> bool {
        match self.ip {
            Some(ip) => ip == dst,
            None => (dst.is_ipv4() && self.v4) || (dst.is_ipv6() && self.v6),
        }
    }
    /// True if some destination is taken by both.
    pub fn overlaps(&self, other: &Reach) -> bool {
        let families = (self.v4 && other.v4) || (self.v6 && other.v6);
        families && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// The local end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The destinations that it takes.
    pub reach: Reach,
    /// Its port.
    pub port: u16,
    /// The program chose the address: it outlives a disconnect.
    pub address_chosen: bool,
    /// The program chose the port, or had `bind` or `listen` choose one: no connection of another socket takes it.
    /// It outlives the disconnect of a UDP socket.
    pub port_chosen: bool,
    /// The program named the port: it outlives the disconnect of a TCP socket.
    pub port_named: bool,
}

impl Bound {
    /// The address that `getsockname` shows.
    pub fn shown(&self, domain: i32) -> SocketAddr {
        SocketAddr::new(self.reach.ip.unwrap_or(address::unspecified(domain)), self.port)
    }
}

/// Reads and checks the argument of `bind(2)`: an address of this host (`None`: any) and a port
/// (0: to be chosen).
pub fn parse_bind(net: &Stack, key: SocketKey, raw: &[u8]) -> Result<(Option<IpAddr>, u16), Errno> {
    let socket = &net.sockets[key.0];
    let (domain, options) = (socket.domain, socket.ip_options().ok_or(Errno::EINVAL)?);
    let least = if domain == c::AF_INET6 { 24 } else { 16 };
    if raw.len() < least {
        return Err(Errno::EINVAL);
    }
    let given = match address::family(raw)? {
        family if family == domain => address::parse(raw)?,
        // Compatibility of Linux: AF_UNSPEC with INADDR_ANY is taken for AF_INET.
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
        // An address of one link says nothing without it.
        let interface = net.interfaces.by_index(device.ok_or(Errno::EINVAL)?).ok_or(Errno::ENODEV)?;
        let has =
            |own: &belljar_net::InterfaceAddress<_>| own.ip == v6 && !net.v6.is_tentative(interface, v6);
        let usable = v6.is_multicast() || net.interfaces[interface].addresses6.iter().any(has);
        return if usable || options.free_bind {
            Ok((Some(ip), given.port()))
        } else {
            Err(Errno::EADDRNOTAVAIL)
        };
    }
    let usable = net.is_local(ip) || net.interfaces.is_multipoint(ip) || options.free_bind;
    if !usable {
        return Err(Errno::EADDRNOTAVAIL);
    }
    Ok((Some(ip), given.port()))
}

/// A socket that is bound to an address of one link is bound to that link.
pub fn bind_to_link(net: &mut Stack, key: SocketKey, ip: Option<IpAddr>, raw: &[u8]) {
    if let (Some(IpAddr::V6(v6)), Some(scope)) = (ip, address::scope(raw))
        && ipv6::is_link_scope(v6)
    {
        net.socket(key).options.bound_device = Some(scope);
    }
}

impl Stack {
    /// A port of the ephemeral range for which `is_free` holds: a random one, or the next free one
    /// after it. `EADDRINUSE` if there is none.
    pub fn choose_port(&mut self, is_free: impl Fn(&Stack, u16) -> bool) -> Result<u16, Errno> {
        let count = u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
        let start = self.ports.below(count);
        (0..count)
            .map(|n| EPHEMERAL.start() + ((start + n) % count) as u16)
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
