//! State of a raw socket.

use crate::ip_socket::IpSocket;
use std::net::IpAddr;

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
