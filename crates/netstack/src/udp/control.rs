//! Control messages of one datagram, ip(7), ipv6(7), udp(7). Messages of levels that do not apply to the
//! socket are ignored.

use std::net::IpAddr;

/// Per-datagram settings, from control messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The source address.
    pub source: Option<IpAddr>,
    /// The index of the output interface.
    pub interface: Option<u32>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// `UDP_SEGMENT`: payload length of each datagram, in bytes; 0 for a single datagram.
    pub segment: Option<u16>,
    /// `SO_TIMESTAMPING`: the timestamps to take of this datagram.
    pub stamps: Option<u32>,
    /// `SCM_TS_OPT_ID`: the identifier of its timestamps.
    pub stamp_id: Option<u32>,
}

/// Context of control messages: determines the levels that apply.
#[derive(Clone, Copy, Debug)]
pub struct CmsgContext {
    /// True for an IPv6 socket.
    pub v6: bool,
    /// True if the datagram is sent over IPv4.
    pub over_v4: bool,
    /// True for a UDP socket.
    pub udp: bool,
}
