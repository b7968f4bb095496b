//! Raw sockets, raw(7): they send and receive the IP payload of one protocol, or with `IP_HDRINCL` send
//! complete packets.

mod input;
mod output;
mod socket;

pub use self::socket::RawSocket;
use super::address;
pub use super::ip_socket_calls::{peer_name, readable_bytes, readiness, unsent_bytes};
use super::socket::SocketKind;
use crate::SocketKey;
use crate::Stack;
use crate::address::RawAddress;
use belljar_linux_abi::{Errno, c};
pub use output::RawError;
use std::net::SocketAddr;

/// The capability that raw and packet sockets need.
pub const CAP_NET_RAW: u32 = 13;

/// Creates a raw socket.
pub fn create(net: &mut Stack, domain: i32, protocol: i32) -> Result<SocketKey, Errno> {
    let number = u8::try_from(protocol).map_err(|_| Errno::EINVAL)?;
    if number == 0 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let raw = RawSocket {
        protocol: number,
        header_included: protocol == c::IPPROTO_RAW,
        // RFC 3542, section 2.1: the kernel always computes the checksum of ICMPv6.
        checksum_at: (domain == c::AF_INET6 && protocol == c::IPPROTO_ICMPV6).then_some(2),
        ..RawSocket::default()
    };
    Ok(net.add_socket(domain, c::SOCK_RAW, protocol, SocketKind::Raw(Box::new(raw))))
}

/// The address returned by `getsockname`.
pub fn local_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let raw = net.sockets.raw(key);
    // Linux returns the protocol in the port field.
    let local = SocketAddr::new(raw.local.unwrap_or(address::unspecified(domain)), raw.protocol.into());
    Ok(address::emit(domain, local))
}

/// Closes a socket: its last file was closed.
pub fn close(net: &mut Stack, key: SocketKey) {
    net.leave_all_groups(key);
    net.remove_socket(key);
}
