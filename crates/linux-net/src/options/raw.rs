//! Options specific to raw sockets: level `SOL_RAW`, and `ICMP6_FILTER`.

use super::{Value, int, to_int};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use belljar_netstack::Stack;

/// `ICMP_FILTER`, `ICMP6_FILTER`.
const ICMP_FILTER: i32 = 1;
/// `IPV6_CHECKSUM`.
pub const IPV6_CHECKSUM: i32 = 7;

/// Sets an option of this level.
pub fn set(net: &mut Stack, key: SocketKey, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let domain = net.socket(key).domain;
    let raw = net.sockets.raw(key);
    match (level, name) {
        (c::SOL_RAW, ICMP_FILTER) if i32::from(raw.protocol) == c::IPPROTO_ICMP => {
            // A short value replaces only the first bytes of the mask.
            let mut mask = raw.icmp_filter.to_ne_bytes();
            let len = value.len().min(mask.len());
            mask[..len].copy_from_slice(&value[..len]);
            raw.icmp_filter = u32::from_ne_bytes(mask);
        }
        (c::SOL_RAW, ICMP_FILTER) => return Err(Errno::EOPNOTSUPP),
        (c::SOL_RAW | c::IPPROTO_IPV6, IPV6_CHECKSUM) if domain == c::AF_INET6 => {
            let at = to_int(value)?;
            // RFC 3542, section 3.1: the offset is even, and fixed for ICMPv6. Linux allows a change by `SOL_RAW`.
            let fixed = level == c::IPPROTO_IPV6 && i32::from(raw.protocol) == c::IPPROTO_ICMPV6;
            if fixed || at > 0 && at % 2 != 0 {
                return Err(Errno::EINVAL);
            }
            raw.checksum_at = usize::try_from(at).ok();
        }
        (c::IPPROTO_ICMPV6, ICMP_FILTER) if i32::from(raw.protocol) == c::IPPROTO_ICMPV6 => {
            for (word, bytes) in raw.icmp6_filter.iter_mut().zip(value.chunks_exact(4)) {
                *word = u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
            }
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Gets an option of this level.
pub fn get(net: &mut Stack, key: SocketKey, level: i32, name: i32) -> Result<Value, Errno> {
    let raw = net.sockets.raw(key);
    match (level, name) {
        (c::SOL_RAW, ICMP_FILTER) if i32::from(raw.protocol) == c::IPPROTO_ICMP => {
            Ok(int(raw.icmp_filter as i32))
        }
        (c::SOL_RAW | c::IPPROTO_IPV6, IPV6_CHECKSUM) => Ok(int(raw.checksum_at.map_or(-1, |at| at as i32))),
        (c::IPPROTO_ICMPV6, ICMP_FILTER) => {
            Ok(raw.icmp6_filter.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}
