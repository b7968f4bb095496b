//! Control messages of one datagram, ip(7), ipv6(7), udp(7). Those of a level that is not the socket's are ignored.

use std::net::IpAddr;

/// The settings of one datagram, from control messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The source address.
    pub source: Option<IpAddr>,
    /// The index of the interface that it leaves by.
    pub interface: Option<u32>,
    /// The TOS byte.
    pub tos: Option<u8>,
    /// The TTL.
    pub ttl: Option<u8>,
    /// The payload of each datagram that it is cut into, in bytes; 0 for one datagram.
    pub segment: Option<u16>,
}

/// Context of control messages: it decides which levels are read.
#[derive(Clone, Copy, Debug)]
pub struct CmsgContext {
    /// True if the socket is one of IPv6.
    pub v6: bool,
    /// True if the datagram is sent over IPv4.
    pub over_v4: bool,
    /// True if it is one of UDP.
    pub udp: bool,
}
