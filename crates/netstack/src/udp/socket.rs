//! State of a UDP socket, its datagrams, and the counters of the protocol.

use super::{Coverage, SendOptions};
use crate::endpoint::Bound;
use crate::error_queue::ErrorQueue;
use crate::ip::IpOptions;
use crate::send_charge::SendCharge;
use crate::socket::SocketOptions;
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_wire::protocol;
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
pub use belljar_wire::udp::HEADER_LEN;

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
    /// Datagrams refused because their fragments did not fit the send buffer.
    pub send_buffer_full: u64,
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
            ("SndbufErrors", self.send_buffer_full),
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
    /// Datagrams in the queues of interfaces.
    pub sending: SendCharge,
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
    /// Timestamp by the adapter's clock, or 0.
    pub hardware: i64,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Payload length of each coalesced datagram, in bytes; 0 for a single datagram.
    pub segment: u16,
}

impl UdpSocket {
    /// `sock_writeable` of Linux: at most half of the send buffer is in use.
    pub fn is_writable(&self, send_buffer: u32) -> bool {
        (self.sending.bytes + self.corked_charge) * 2 <= send_buffer
    }

    /// True if the socket's datagrams to an address carry no checksum: `SO_NO_CHECK`, `UDP_NO_CHECK6_TX`.
    /// UDP-Lite datagrams always do.
    #[inline]
    pub fn is_unchecked(&self, options: &SocketOptions, to: IpAddr) -> bool {
        let off = if to.is_ipv4() { options.is_kept(c::SO_NO_CHECK) } else { self.no_check6.0 };
        self.protocol == Protocol::Udp && off
    }
}
