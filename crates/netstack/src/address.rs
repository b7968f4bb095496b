//! Socket addresses of the INET families, ip(7) and ipv6(7).
//!
//! Inside the stack an IPv4-mapped IPv6 address is represented by the IPv4 address. It is converted back to
//! the mapped form for `AF_INET6` sockets.

use belljar_linux_abi::socket::{SockaddrIn, SockaddrIn6};
use belljar_linux_abi::{Errno, c};
use belljar_wire::ipv6;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use zerocopy::{FromBytes, IntoBytes};

/// A socket address in the layout of guest memory: a `struct sockaddr_*` of its actual length.
pub type RawAddress = SmallVec<[u8; 32]>;

/// Minimum length of a `struct sockaddr_in6`: without `sin6_scope_id` (`SIN6_LEN_RFC2133`).
pub const SIN6_LEN_MIN: usize = 24;

/// The address family in the first two bytes.
pub fn family(raw: &[u8]) -> Result<i32, Errno> {
    let (bytes, _) = raw.split_first_chunk::<2>().ok_or(Errno::EINVAL)?;
    Ok(i32::from(u16::from_ne_bytes(*bytes)))
}

/// Parses a `struct sockaddr_in` or `sockaddr_in6` according to its family. Fails with `EAFNOSUPPORT` for
/// other families and with `EINVAL` for a truncated address.
pub fn parse(raw: &[u8]) -> Result<SocketAddr, Errno> {
    match family(raw)? {
        c::AF_INET => {
            let (sin, _) = SockaddrIn::read_from_prefix(raw).map_err(|_| Errno::EINVAL)?;
            Ok(SocketAddr::new(Ipv4Addr::from(sin.addr).into(), u16::from_be_bytes(sin.port)))
        }
        c::AF_INET6 if raw.len() >= SIN6_LEN_MIN => {
            let mut whole = [0; size_of::<SockaddrIn6>()];
            let len = raw.len().min(whole.len());
            whole[..len].copy_from_slice(&raw[..len]);
            let (sin6, _) = SockaddrIn6::read_from_prefix(&whole).map_err(|_| Errno::EINVAL)?;
            let ip = canonical(Ipv6Addr::from(sin6.addr).into());
            Ok(SocketAddr::new(ip, u16::from_be_bytes(sin6.port)))
        }
        c::AF_INET6 => Err(Errno::EINVAL),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Encodes an address for a socket of `domain`.
pub fn emit(domain: i32, address: SocketAddr) -> RawAddress {
    let port = address.port().to_be_bytes();
    match (domain, address.ip()) {
        (c::AF_INET6, ip) => {
            let addr = match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let sin6 =
                SockaddrIn6 { family: c::AF_INET6 as u16, port, addr: addr.octets(), ..Default::default() };
            RawAddress::from_slice(sin6.as_bytes())
        }
        (_, ip) => {
            let addr = match ip {
                IpAddr::V4(v4) => v4.octets(),
                IpAddr::V6(_) => [0; 4],
            };
            let sin = SockaddrIn { family: c::AF_INET as u16, port, addr, zero: [0; 8] };
            RawAddress::from_slice(sin.as_bytes())
        }
    }
}

/// The interface index of a link-scope address (`sin6_scope_id`); `None` for addresses of wider scope.
pub fn scope(raw: &[u8]) -> Option<u32> {
    let (sin6, _) = SockaddrIn6::read_from_prefix(raw).ok()?;
    let v6 = i32::from(sin6.family) == c::AF_INET6 && ipv6::is_link_scope(Ipv6Addr::from(sin6.addr));
    Some(sin6.scope_id).filter(|scope| v6 && *scope != 0)
}

/// Encodes an address as [`emit`] does, with the interface index if the address has link scope.
pub fn emit_on(domain: i32, address: SocketAddr, device: Option<u32>) -> RawAddress {
    let mut raw = emit(domain, address);
    if let (IpAddr::V6(ip), Some(device)) = (address.ip(), device)
        && ipv6::is_link_scope(ip)
    {
        raw[24..28].copy_from_slice(&device.to_ne_bytes());
    }
    raw
}

/// Converts an IPv4-mapped address to IPv4; other addresses are unchanged.
pub fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// The unspecified address of `domain`.
pub fn unspecified(domain: i32) -> IpAddr {
    if domain == c::AF_INET6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_ipv4_inside() {
        let v4: SocketAddr = "11.0.0.1:80".parse().unwrap();
        let shown = emit(c::AF_INET6, v4);
        assert_eq!(shown.len(), 28);
        assert_eq!(&shown[8..24], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 11, 0, 0, 1]);
        assert_eq!(parse(&shown), Ok(v4));
        assert_eq!(parse(&emit(c::AF_INET, v4)), Ok(v4));
        let v6: SocketAddr = "[::1]:8".parse().unwrap();
        assert_eq!(parse(&emit(c::AF_INET6, v6)), Ok(v6));
    }

    #[test]
    fn short_and_foreign_addresses_are_refused() {
        assert_eq!(parse(&[2]), Err(Errno::EINVAL));
        assert_eq!(parse(&[2, 0, 0, 80]), Err(Errno::EINVAL));
        assert_eq!(parse(&[10, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Errno::EINVAL));
        assert_eq!(parse(&[5; 16]), Err(Errno::EAFNOSUPPORT));
    }
}
