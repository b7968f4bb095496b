//! UDP, udp(7), and UDP-Lite, udplite(7), whose header gives the checksum coverage of a datagram.

mod calls;
mod control;
mod coverage;
mod input;
mod send;
pub(crate) use send::Bytes;
pub use send::{NamedDestination, OutgoingDatagram};

pub use calls::*;
pub use control::{CmsgContext, SendOptions};
pub use coverage::{Coverage, covered_bytes};

use super::bind::Bound;
use super::error_queue::ErrorQueue;
use super::ip::IpOptions;
use crate::SocketKey;
use belljar_base::{Map, SimTime};
use belljar_wire::protocol;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// `UDP_SEGMENT`, option and control message: payload length of each datagram of a send
/// (`include/uapi/linux/udp.h`).
pub const UDP_SEGMENT: i32 = 103;
/// `UDP_GRO`, option and control message: payload length of each coalesced datagram received.
pub const UDP_GRO: i32 = 104;
/// `UDP_ENCAP_ESPINUDP`, a value of the option `UDP_ENCAP`.
pub const UDP_ENCAP_ESPINUDP: i32 = 2;
/// Length of a UDP header in bytes.
pub const HEADER_LEN: usize = 8;

/// The protocol of a socket. Each protocol has its own port numbers and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// UDP (RFC 768).
    #[default]
    Udp,
    /// UDP-Lite (RFC 3828).
    Lite,
}

impl Protocol {
    /// The IP protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Udp => protocol::UDP,
            Protocol::Lite => protocol::UDP_LITE,
        }
    }
    /// Index of the protocol in per-protocol tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Counters of one protocol and IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams delivered to a socket.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams to a port without a socket.
    pub no_port: u64,
    /// Datagrams that were malformed or corrupted, or whose checksum coverage was insufficient.
    pub wrong: u64,
    /// Datagrams with a wrong checksum, included in `wrong`.
    pub wrong_checksum: u64,
    /// Datagrams dropped because a socket's receive buffer was full.
    pub buffer_full: u64,
}

impl UdpCounters {
    /// The counters under Linux's names.
    pub fn columns(&self) -> [(&'static str, u64); 9] {
        [
            ("InDatagrams", self.received),
            ("NoPorts", self.no_port),
            ("InErrors", self.wrong + self.buffer_full),
            ("OutDatagrams", self.sent),
            ("RcvbufErrors", self.buffer_full),
            ("SndbufErrors", 0),
            ("InCsumErrors", self.wrong_checksum),
            ("IgnoredMulti", 0),
            ("MemErrors", 0),
        ]
    }
}

/// State of a UDP socket.
#[derive(Debug, Default)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct UdpSocket {
    /// The receive queue.
    pub queue: VecDeque<Datagram>,
    /// The local endpoint, if bound.
    pub bound: Option<Bound>,
    /// Charge of the receive queue against `SO_RCVBUF`, in bytes.
    pub queued_charge: u32,
    /// Charge of datagrams in the interface's queue against `SO_SNDBUF`, in bytes.
    pub sending_charge: u32,
    /// Number of datagrams passed to interfaces that report departures.
    pub packets_given: u64,
    /// Number of these datagrams that have departed.
    pub packets_left: u64,
    /// UDP or UDP-Lite.
    pub protocol: Protocol,
    /// Checksum coverage (UDP-Lite).
    pub coverage: Coverage,
    /// True after `shutdown(SHUT_RD)`.
    pub read_closed: bool,
    /// True after `shutdown(SHUT_WR)`.
    pub write_closed: bool,
    /// `UDP_CORK`.
    pub cork: bool,
    /// `UDP_GRO`: coalesced datagrams are received together.
    pub joins: bool,
    /// `UDP_SEGMENT`: payload length of each datagram of a send, in bytes; 0 for a single datagram.
    pub segment: u16,
    /// `UDP_NO_CHECK6_TX` and `UDP_NO_CHECK6_RX`: IPv6 datagrams are sent, and accepted, without a checksum.
    pub no_check6: (bool, bool),
    /// `UDP_ENCAP`: type of encapsulated packets that are not delivered to the program.
    pub encapsulation: i32,
    /// The peer, if the socket is connected.
    pub peer: Option<SocketAddr>,
    /// The error queue (`MSG_ERRQUEUE`).
    pub errors: ErrorQueue,
    /// Options of the levels IPPROTO_IP and IPPROTO_IPV6.
    pub ip: IpOptions,
    /// Charge of the corked data against `SO_SNDBUF`, in bytes.
    pub corked_charge: u32,
    /// Number of datagrams dropped because the receive buffer was full.
    pub drops: u64,
    /// Data corked by `MSG_MORE` or `UDP_CORK`, with the destination and control messages of its first part.
    pub corked: Option<(SocketAddr, SendOptions, Vec<u8>)>,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// The bytes of the packet.
    pub packet: Vec<u8>,
    /// Range of the payload in the packet.
    pub payload: Range<usize>,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The number of the input interface.
    pub interface: usize,
    /// Time of arrival.
    pub arrived: SimTime,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Payload length of each coalesced datagram, in bytes; 0 for a single datagram.
    pub segment: u16,
}

/// The sockets of each port, in the order of binding.
#[derive(Debug, Default)]
pub struct UdpPorts(pub Map<u16, SmallVec<[SocketKey; 2]>>);

impl UdpPorts {
    fn add(&mut self, port: u16, key: SocketKey) {
        self.0.entry(port).or_default().push(key);
    }
    fn remove(&mut self, port: u16, key: SocketKey) {
        if let Some(keys) = self.0.get_mut(&port) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.0.remove(&port);
            }
        }
    }
}

/// Charge of a packet created by a socket, in bytes (`skb->truesize`): `struct sk_buff` and its buffer,
/// rounded up by the allocator; most of a long packet is in pages, charged byte for byte. Measured with
/// `/proc/net/udp` on Linux 6.18.
pub fn charge(packet_len: usize) -> u32 {
    const SK_BUFF: usize = 256;
    const HEADROOM: usize = 31;
    const SHARED_INFO: usize = 320;
    /// `SKB_SMALL_HEAD_CACHE_SIZE`.
    const SMALL: usize = 576;
    /// `SKB_MAX_ALLOC`.
    const MAX_LINEAR: usize = 16_064;
    const HEADERS: usize = 28;
    let data = packet_len + HEADROOM;
    let buffer = if data >= MAX_LINEAR {
        SMALL + packet_len - HEADERS
    } else {
        match data.next_multiple_of(64) + SHARED_INFO {
            small if small <= SMALL => SMALL,
            larger => larger.next_power_of_two(),
        }
    };
    (SK_BUFF + buffer) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_of_linux() {
        for (payload, charged) in [
            (1, 832),
            (197, 832),
            (198, 1_280),
            (645, 1_280),
            (646, 2_304),
            (1_669, 2_304),
            (1_670, 4_352),
            (3_717, 4_352),
            (3_718, 8_448),
            (7_813, 8_448),
            (7_814, 16_640),
            (16_004, 16_640),
            (16_005, 16_837),
            (65_507, 66_339),
        ] {
            assert_eq!(charge(28 + payload), charged, "{payload} bytes");
        }
    }
}
