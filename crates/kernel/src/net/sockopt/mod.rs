//! Socket options by level. A level answers `ENOPROTOOPT` for an option that it does not have.

mod ip;
mod multicast;
mod raw;
mod socket;
mod tcp;
mod udp;

pub use tcp::get as tcp_option;

use super::packet;
use super::socket::{Socket, SocketKind};
use crate::call::Call;
use crate::credentials::capability;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use smallvec::SmallVec;
use zerocopy::{Immutable, IntoBytes};

/// `SOL_UDP` and `SOL_UDPLITE`, which are the same to sockets of either protocol.
const SOL_UDP: i32 = c::IPPROTO_UDP;
const SOL_UDPLITE: i32 = c::IPPROTO_UDPLITE;
/// The longest option value that is looked at.
const VALUE_MAX: usize = 2_048;

/// The value of an option.
pub type Value = SmallVec<[u8; 16]>;

/// An `int` as a value.
pub(in crate::net) fn int(value: i32) -> Value {
    Value::from_slice(&value.to_ne_bytes())
}

/// A truth as a value.
fn flag(value: bool) -> Value {
    int(i32::from(value))
}

/// A structure as a value.
fn structure(value: &(impl IntoBytes + Immutable)) -> Value {
    Value::from_slice(value.as_bytes())
}

/// The `int` at the start of a value: `EINVAL` if it is shorter.
pub(in crate::net) fn to_int(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.get(..4).ok_or(Errno::EINVAL)?;
    Ok(i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

/// `setsockopt(2)` with the value at `addr`.
pub fn set_option(
    call: &mut Call<'_>,
    key: SocketKey,
    (level, name): (i32, i32),
    addr: u64,
    len: usize,
) -> Result<(), Errno> {
    let value = call.read_vec(addr, len.min(VALUE_MAX))?;
    let Socket { kind, domain, .. } = call.host.net.socket(key);
    match (level, &*kind) {
        (c::IPPROTO_IPV6, _) if *domain == c::AF_INET => Err(Errno::ENOPROTOOPT),
        (c::SOL_SOCKET, _) => socket::set(call, key, name, &value),
        (c::IPPROTO_TCP, SocketKind::Tcp(_)) => tcp::set(call.host, key, name, &value),
        (c::IPPROTO_IPV6, SocketKind::Raw(_)) if name == raw::IPV6_CHECKSUM => {
            raw::set(call.host, key, level, name, &value)
        }
        (
            c::IPPROTO_IP | c::IPPROTO_IPV6,
            SocketKind::Udp(_) | SocketKind::Tcp(_) | SocketKind::Ping(_) | SocketKind::Raw(_),
        ) => {
            let transparent = matches!((level, name), (c::IPPROTO_IP, c::IP_TRANSPARENT))
                || matches!((level, name), (c::IPPROTO_IPV6, c::IPV6_TRANSPARENT));
            if transparent && to_int(&value).is_ok_and(|on| on != 0) {
                call.host.require_either(call.process, capability::NET_RAW, capability::NET_ADMIN)?;
            }
            ip::set(call.host, key, level, name, &value)
        }
        (SOL_UDP | SOL_UDPLITE, SocketKind::Udp(_)) => udp::set(call.host, key, name, &value),
        (c::SOL_RAW | c::IPPROTO_ICMPV6, SocketKind::Raw(_)) => raw::set(call.host, key, level, name, &value),
        // As `icmp_filter` of a ping socket, which has none.
        (c::SOL_RAW | c::IPPROTO_ICMPV6, SocketKind::Ping(_)) => Ok(()),
        (c::SOL_PACKET, SocketKind::Other) if *domain == c::AF_PACKET => {
            packet::set_option(call, key, name, &value)
        }
        (c::SOL_NETLINK, SocketKind::Other) if *domain == c::AF_NETLINK => {
            crate::net::netlink::set_option(call.host, key, name, to_int(&value)? as u32);
            Ok(())
        }
        (_, SocketKind::Other) if *domain == c::AF_UNIX => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// `getsockopt(2)`.
/// The value is stored at `at` by the caller; some options read an argument there.
pub fn get_option(
    call: &mut Call<'_>,
    key: SocketKey,
    (level, name): (i32, i32),
    at: u64,
) -> Result<Value, Errno> {
    let Socket { kind, domain, .. } = call.host.net.socket(key);
    match (level, &*kind) {
        (c::SOL_SOCKET, _) => socket::get(call, key, name),
        (c::IPPROTO_IPV6, _) if *domain == c::AF_INET => Err(Errno::EOPNOTSUPP),
        (c::IPPROTO_TCP, SocketKind::Tcp(_)) => tcp::get(call.host, key, name),
        (c::IPPROTO_IPV6, SocketKind::Raw(_)) if name == raw::IPV6_CHECKSUM => {
            raw::get(call.host, key, level, name)
        }
        (
            c::IPPROTO_IP | c::IPPROTO_IPV6,
            SocketKind::Udp(_) | SocketKind::Tcp(_) | SocketKind::Ping(_) | SocketKind::Raw(_),
        ) => match (level, name) {
            (c::IPPROTO_IP, c::IP_MSFILTER) => {
                // A whole filter is read: it says how many sources there is room for.
                let mut value = [0; 16];
                call.read_bytes(at, &mut value)?;
                multicast::get_filter(call.host, key, &value).map(Value::from_vec)
            }
            _ => ip::get(call.host, key, level, name),
        },
        (c::SOL_RAW | c::IPPROTO_ICMPV6, SocketKind::Raw(_)) => raw::get(call.host, key, level, name),
        (c::SOL_PACKET, SocketKind::Other) if *domain == c::AF_PACKET => {
            packet::get_option(call, key, name, at)
        }
        (SOL_UDP | SOL_UDPLITE, SocketKind::Udp(udp)) => udp::get(udp, name),
        // `ipv6_getsockopt` says otherwise than `ip_getsockopt`.
        (_, SocketKind::Udp(_) | SocketKind::Tcp(_)) if *domain == c::AF_INET6 => Err(Errno::ENOPROTOOPT),
        (_, SocketKind::Udp(_) | SocketKind::Tcp(_)) => Err(Errno::EOPNOTSUPP),
        (_, SocketKind::Other) if *domain == c::AF_UNIX => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOPROTOOPT),
    }
}
