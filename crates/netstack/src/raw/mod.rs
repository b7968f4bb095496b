//! Raw sockets, raw(7): they send and receive what follows the IP header, of one protocol, or with
//! `IP_HDRINCL` whole packets.

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
    /// The protocol that it speaks.
    pub protocol: u8,
    /// Its local address; `None` is any.
    pub local: Option<IpAddr>,
    /// The program chose the address: it outlives a disconnect.
    pub address_chosen: bool,
    /// Peer, options, what it has received.
    pub end: IpSocket,
    /// `IP_HDRINCL`: what is sent begins with an IP header.
    pub header_included: bool,
    /// `ICMP_FILTER`: a bit for each type of ICMP that is not wanted.
    pub icmp_filter: u32,
    /// `ICMP6_FILTER`: the same for ICMPv6.
    pub icmp6_filter: [u32; 8],
    /// `IPV6_CHECKSUM`: where the kernel puts the checksum of what an IPv6 socket sends.
    pub checksum_at: Option<usize>,
}

/// A new raw socket.
pub fn create(net: &mut Stack, domain: i32, protocol: i32) -> Result<SocketKey, Errno> {
    let number = u8::try_from(protocol).map_err(|_| Errno::EINVAL)?;
    if number == 0 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let raw = RawSocket {
        protocol: number,
        header_included: protocol == c::IPPROTO_RAW,
        // RFC 3542, section 2.1: ICMPv6's checksum is always the kernel's.
        checksum_at: (domain == c::AF_INET6 && protocol == c::IPPROTO_ICMPV6).then_some(2),
        ..RawSocket::default()
    };
    Ok(net.add_socket(domain, c::SOCK_RAW, protocol, SocketKind::Raw(Box::new(raw))))
}

/// The address that `getsockname` gives.
pub fn local_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let raw = net.raw(key);
    // Linux keeps the protocol where others have their port.
    let local = SocketAddr::new(raw.local.unwrap_or(address::unspecified(domain)), raw.protocol.into());
    Ok(address::emit(domain, local))
}

/// The last open file of a socket is closed.
pub fn close(net: &mut Stack, key: SocketKey) {
    net.leave_all_groups(key);
    net.remove_socket(key);
}

impl Stack {
    /// The raw part of a socket that is known to be one.
    pub fn raw(&mut self, key: SocketKey) -> &mut RawSocket {
        match &mut self.sockets[key.0].kind {
            SocketKind::Raw(raw) => raw,
            other => unreachable!("not a raw socket: {other:?}"),
        }
    }
}
