//! UDP, udp(7), and UDP-Lite, udplite(7): the same sockets, whose header says how much of a datagram its checksum covers.

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

/// An option and a control message: the payload of each datagram of a send (`include/uapi/linux/udp.h`).
pub const UDP_SEGMENT: i32 = 103;
/// The same of what is received.
pub const UDP_GRO: i32 = 104;
/// `UDP_ENCAP_ESPINUDP` of the option `UDP_ENCAP`.
pub const UDP_ENCAP_ESPINUDP: i32 = 2;
/// The length of a UDP header.
pub const HEADER_LEN: usize = 8;

/// The protocol of a socket. Each has port numbers and counters of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// UDP (RFC 768).
    #[default]
    Udp,
    /// UDP-Lite (RFC 3828).
    Lite,
}

impl Protocol {
    /// The number that IP has for it.
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Udp => protocol::UDP,
            Protocol::Lite => protocol::UDP_LITE,
        }
    }
    /// Its place in tables of both.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Counters of a protocol's sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams received by a socket.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams for a port that nobody has bound.
    pub no_port: u64,
    /// Datagrams that were wrong, or covered less than their receiver asks for.
    pub wrong: u64,
    /// Datagrams of these with a wrong checksum.
    pub wrong_checksum: u64,
    /// Datagrams lost because a socket's receive buffer was full.
    pub buffer_full: u64,
}

impl UdpCounters {
    /// By the names of Linux.
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
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct UdpSocket {
    /// Datagrams to be received.
    pub queue: VecDeque<Datagram>,
    /// Its local end, once it has one.
    pub bound: Option<Bound>,
    /// Their charge against `SO_RCVBUF`.
    pub queued_charge: u32,
    /// Charge of datagrams in the interface's queue against `SO_SNDBUF`.
    pub sending_charge: u32,
    /// Datagrams that were given to an interface which tells when they have left.
    pub packets_given: u64,
    /// Datagrams of these that have left.
    pub packets_left: u64,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its checksum coverage; of UDP-Lite alone.
    pub coverage: Coverage,
    /// `shutdown(SHUT_RD)`.
    pub read_closed: bool,
    /// `shutdown(SHUT_WR)`.
    pub write_closed: bool,
    /// `UDP_CORK`.
    pub cork: bool,
    /// `UDP_GRO`: datagrams that have stayed together are received together.
    pub joins: bool,
    /// `UDP_SEGMENT`: the payload of each datagram that a send is cut into, in bytes; 0 for as many as are sent.
    pub segment: u16,
    /// `UDP_NO_CHECK6_TX` and `UDP_NO_CHECK6_RX`: over IPv6, datagrams are sent, and received, without a checksum.
    pub no_check6: (bool, bool),
    /// `UDP_ENCAP`: what it takes out of its datagrams.
    pub encapsulation: i32,
    /// Its peer, if it is connected.
    pub peer: Option<SocketAddr>,
    /// Errors for `MSG_ERRQUEUE` (`IP_RECVERR`).
    pub errors: ErrorQueue,
    /// Options of the IP levels.
    pub ip: IpOptions,
    /// Charge of the data being collected against `SO_SNDBUF`.
    pub corked_charge: u32,
    /// Datagrams lost because the receive buffer was full.
    pub drops: u64,
    /// Bytes collected under `MSG_MORE` or `UDP_CORK`, where they go, and what their first part's message said.
    pub corked: Option<(SocketAddr, SendOptions, Vec<u8>)>,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// The whole packet.
    pub packet: Vec<u8>,
    /// Where in it the payload lies.
    pub payload: Range<usize>,
    /// The sender's address.
    pub source: SocketAddr,
    /// The address that it was sent to.
    pub destination: IpAddr,
    /// The interface that it came by.
    pub interface: usize,
    /// When it was received.
    pub arrived: SimTime,
    /// The TOS byte of its IP header.
    pub tos: u8,
    /// The TTL of its IP header.
    pub ttl: u8,
    /// The payload of each datagram that it is made of, in bytes; 0 if it is one.
    pub segment: u16,
}

/// The sockets by port, each port's in the order in which they were bound.
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

/// The charge of a packet that a socket has made, in bytes (`skb->truesize`): `struct sk_buff` and its buffer, which
/// the allocator rounds up; most of a long one lies in pages, byte for byte. Measured by `/proc/net/udp` on Linux 6.18.
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
