//! Routing of one host: its own addresses lead to `lo`, everything else out of `eth0`.

use crate::net::{ETH0, LO};
use belljar_linux_abi::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where packets to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface: [`LO`] or [`ETH0`].
    pub interface: usize,
    /// The source address unless the socket has one.
    pub source: IpAddr,
    /// The destination; no address stands for this host.
    pub destination: IpAddr,
}

/// Whether packets for `ip` are for the host whose address is `own`.
pub fn is_local(own: Ipv4Addr, ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4 == own || v4.is_loopback(),
        IpAddr::V6(v6) => v6 == Ipv6Addr::LOCALHOST,
    }
}

/// Whether `ip` names no single host.
pub fn is_multipoint(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Finds the route to `destination` for a socket bound to `source` (if it is), or to an interface.
/// `ENETUNREACH` for IPv6 beyond the host, `EINVAL` for a loopback source on the way out.
pub fn route(own: Ipv4Addr, destination: IpAddr, source: Option<IpAddr>) -> Result<Route, Errno> {
    let destination = match destination {
        IpAddr::V4(v4) if v4.is_unspecified() => {
            source.filter(IpAddr::is_ipv4).unwrap_or(Ipv4Addr::LOCALHOST.into())
        }
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let (interface, preferred) = match destination {
        IpAddr::V4(v4) if v4.is_loopback() => (LO, IpAddr::from(Ipv4Addr::LOCALHOST)),
        IpAddr::V4(v4) if v4 == own => (LO, own.into()),
        IpAddr::V4(_) => (ETH0, own.into()),
        IpAddr::V6(v6) if v6 == Ipv6Addr::LOCALHOST => (LO, destination),
        IpAddr::V6(_) => return Err(Errno::ENETUNREACH),
    };
    let source = source.unwrap_or(preferred);
    if source.is_ipv4() != destination.is_ipv4() {
        return Err(Errno::ENETUNREACH);
    }
    if interface == ETH0 && source.is_loopback() {
        return Err(Errno::EINVAL);
    }
    Ok(Route { interface, source, destination })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_stay_inside() {
        let own = Ipv4Addr::new(11, 0, 0, 1);
        let to =
            |ip: &str| route(own, ip.parse().unwrap(), None).map(|r| (r.interface, r.source.to_string()));
        assert_eq!(to("127.0.0.5"), Ok((LO, "127.0.0.1".into())));
        assert_eq!(to("11.0.0.1"), Ok((LO, "11.0.0.1".into())));
        assert_eq!(to("0.0.0.0"), Ok((LO, "127.0.0.1".into())));
        assert_eq!(to("11.0.0.2"), Ok((ETH0, "11.0.0.1".into())));
        assert_eq!(to("::1"), Ok((LO, "::1".into())));
        assert_eq!(to("2001:db8::1"), Err(Errno::ENETUNREACH));
        let loopback = Some(Ipv4Addr::LOCALHOST.into());
        assert_eq!(route(own, [11, 0, 0, 2].into(), loopback), Err(Errno::EINVAL));
    }
}
