//! Raw sockets, raw(7): they send and receive the IP payload of one protocol, or with `IP_HDRINCL` send
//! complete packets.

mod input;
mod output;

use super::address;
use super::ip_socket::IpSocket;
pub use super::ip_socket::{peer_name, readable_bytes, readiness, unsent_bytes};
use super::socket::SocketKind;
use crate::SocketKey;
use crate::Stack;
use crate::address::RawAddress;
use belljar_linux_abi::{Errno, c};
pub use output::RawError;
use std::net::{IpAddr, SocketAddr};

/// The capability that raw and packet sockets need.
pub const CAP_NET_RAW: u32 = 13;

/// State of a raw socket.
#[derive(Debug, Default)]
pub struct RawSocket {
    /// The IP protocol number.
    pub protocol: u8,
    /// The local address; `None` for any.
    pub local: Option<IpAddr>,
    /// True if the program chose the address. Such an address is kept at a disconnect.
    pub address_chosen: bool,
    /// State shared with ping sockets: peer, options and receive queue.
    pub end: IpSocket,
    /// `IP_HDRINCL`: sent data includes the IP header.
    pub header_included: bool,
    /// `ICMP_FILTER`: a set bit blocks the ICMP type.
    pub icmp_filter: u32,
    /// `ICMP6_FILTER`: a set bit blocks the ICMPv6 type.
    pub icmp6_filter: [u32; 8],
    /// `IPV6_CHECKSUM`: offset at which the kernel stores the checksum of packets sent over IPv6.
    pub checksum_at: Option<usize>,
}

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
    let raw = net.raw(key);
    // Linux returns the protocol in the port field.
    let local = SocketAddr::new(raw.local.unwrap_or(address::unspecified(domain)), raw.protocol.into());
    Ok(address::emit(domain, local))
}

/// Closes a socket: its last file was closed.
pub fn close(net: &mut Stack, key: SocketKey) {
    net.leave_all_groups(key);
    net.remove_socket(key);
}

impl Stack {
    /// The raw state of a socket that is known to be a raw socket.
    pub fn raw(&mut self, key: SocketKey) -> &mut RawSocket {
        match &mut self.sockets[key.0].kind {
            SocketKind::Raw(raw) => raw,
            other => unreachable!("not a raw socket: {other:?}"),
        }
    }
}
