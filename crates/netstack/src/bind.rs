//! The argument of `bind(2)`, ip(7).

use crate::{SocketKey, Stack, address};
use belljar_linux_abi::{Errno, c};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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
