//! Socket options by level. A level returns `ENOPROTOOPT` for an unknown option.

mod socket;

use super::packet;
use crate::call::Call;
use crate::credentials::capability;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::options::{Value, ip, multicast, raw, tcp, to_int, udp};
use belljar_netstack::socket::{Socket, SocketKind};

/// `SOL_UDP` and `SOL_UDPLITE`, which sockets of either protocol treat alike.
const SOL_UDP: i32 = c::IPPROTO_UDP;
const SOL_UDPLITE: i32 = c::IPPROTO_UDPLITE;
/// Maximum number of bytes read from an option value.
const VALUE_MAX: usize = 2_048;

/// `setsockopt(2)` with the value at `addr`.
pub fn set_option(
    call: &mut Call<'_>,
    key: SocketKey,
    (level, name): (i32, i32),
    addr: u64,
    len: usize,
) -> Result<(), Errno> {
    let value = call.read_vec(addr, len.min(VALUE_MAX))?;
    let Socket { kind, domain, .. } = call.host.socket(key);
    match (level, &*kind) {
        (c::IPPROTO_IPV6, _) if *domain == c::AF_INET => Err(Errno::ENOPROTOOPT),
        (c::SOL_SOCKET, _) => socket::set(call, key, name, &value),
        (c::IPPROTO_TCP, SocketKind::Tcp(_)) => tcp::set(call.host.stack_of_mut(key), key, name, &value),
        (c::IPPROTO_IPV6, SocketKind::Raw(_)) if name == raw::IPV6_CHECKSUM => {
            raw::set(call.host.stack_of_mut(key), key, level, name, &value)
        }
        (
            c::IPPROTO_IP | c::IPPROTO_IPV6,
            SocketKind::Udp(_) | SocketKind::Tcp(_) | SocketKind::Ping(_) | SocketKind::Raw(_),
        ) => {
            let transparent = matches!((level, name), (c::IPPROTO_IP, c::IP_TRANSPARENT))
                || matches!((level, name), (c::IPPROTO_IPV6, c::IPV6_TRANSPARENT));
            if transparent && to_int(&value).is_ok_and(|on| on != 0) {
                call.host.processes.require_either(
                    call.process,
                    capability::NET_RAW,
                    capability::NET_ADMIN,
                )?;
            }
            if (level, name) == (c::IPPROTO_IP, c::IP_OPTIONS) && !value.is_empty() {
                call.host.warn("IP_OPTIONS is accepted without effect");
            }
            ip::set(call.host.stack_of_mut(key), key, level, name, &value)
        }
        (SOL_UDP | SOL_UDPLITE, SocketKind::Udp(_)) => {
            udp::set(call.host.stack_of_mut(key), key, name, &value)
        }
        (c::SOL_RAW | c::IPPROTO_ICMPV6, SocketKind::Raw(_)) => {
            raw::set(call.host.stack_of_mut(key), key, level, name, &value)
        }
        // Accepted without effect, as `icmp_filter` on a ping socket, which has no filter.
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
    let Socket { kind, domain, .. } = call.host.socket(key);
    match (level, &*kind) {
        (c::SOL_SOCKET, _) => socket::get(call, key, name),
        (c::IPPROTO_IPV6, _) if *domain == c::AF_INET => Err(Errno::EOPNOTSUPP),
        (c::IPPROTO_TCP, SocketKind::Tcp(_)) => tcp::get(call.host.stack_of_mut(key), key, name),
        (c::IPPROTO_IPV6, SocketKind::Raw(_)) if name == raw::IPV6_CHECKSUM => {
            raw::get(call.host.stack_of_mut(key), key, level, name)
        }
        (
            c::IPPROTO_IP | c::IPPROTO_IPV6,
            SocketKind::Udp(_) | SocketKind::Tcp(_) | SocketKind::Ping(_) | SocketKind::Raw(_),
        ) => match (level, name) {
            (c::IPPROTO_IP, c::IP_MSFILTER) => {
                // The call reads a whole `struct ip_msfilter`, which gives the room for sources.
                let mut value = [0; 16];
                call.read_bytes(at, &mut value)?;
                multicast::get_filter(call.host.stack_of_mut(key), key, &value).map(Value::from_vec)
            }
            _ => ip::get(call.host.stack_of_mut(key), key, level, name),
        },
        (c::SOL_RAW | c::IPPROTO_ICMPV6, SocketKind::Raw(_)) => {
            raw::get(call.host.stack_of_mut(key), key, level, name)
        }
        (c::SOL_PACKET, SocketKind::Other) if *domain == c::AF_PACKET => {
            packet::get_option(call, key, name, at)
        }
        (SOL_UDP | SOL_UDPLITE, SocketKind::Udp(udp)) => udp::get(udp, name),
        // `ipv6_getsockopt` and `ip_getsockopt` return different errors.
        (_, SocketKind::Udp(_) | SocketKind::Tcp(_)) if *domain == c::AF_INET6 => Err(Errno::ENOPROTOOPT),
        (_, SocketKind::Udp(_) | SocketKind::Tcp(_)) => Err(Errno::EOPNOTSUPP),
        (_, SocketKind::Other) if *domain == c::AF_UNIX => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOPROTOOPT),
    }
}
