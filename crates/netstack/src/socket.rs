//! State common to all sockets, whatever their family: type, options of level `SOL_SOCKET` and pending error,
//! socket(7).

use super::filter::SocketFilter;
use super::interface::cookie;
use super::ip::IpOptions;
use super::send_charge::SendCharge;
use super::tcp::{Role, TcpSocket};
use super::udp::UdpSocket;
use super::zero_copy::ZeroCopy;
use super::{ping::PingSocket, raw::RawSocket};
use crate::{Effect, SocketKey, Stack};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use std::sync::Arc;

/// `net.core.rmem_default` and `net.core.wmem_default`.
pub const DEFAULT_BUFFER: u32 = 212_992;
/// `SOCK_MIN_RCVBUF` of Linux.
pub const MIN_RECEIVE_BUFFER: u32 = 2_304;
/// `SOCK_MIN_SNDBUF` of Linux.
pub const MIN_SEND_BUFFER: u32 = 4_608;

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// `AF_INET`, `AF_INET6`, `AF_UNIX`, `AF_NETLINK` or `AF_PACKET`.
    pub domain: i32,
    /// `SOCK_STREAM`, `SOCK_DGRAM`, `SOCK_SEQPACKET` or `SOCK_RAW`, without flags.
    pub type_: i32,
    /// `SO_PROTOCOL`.
    pub protocol: i32,
    /// Options of level `SOL_SOCKET`.
    pub options: SocketOptions,
    /// The pending error, reported once by the next call or by `SO_ERROR`. A connected TCP socket stores its
    /// error in the connection.
    pub error: Option<Errno>,
    /// Serial number: distinguishes successive sockets of the same key.
    pub serial: u32,
    /// The number of the stack that the socket belongs to.
    pub network: u32,
    /// UID of the creator, shown by `ss` and `/proc/net` and matched by policy rules.
    pub uid: u32,
    /// State of `MSG_ZEROCOPY` sends, from the first one on.
    pub zero_copy: Option<Box<ZeroCopy>>,
    /// State of the socket's protocol.
    pub kind: SocketKind,
}

/// State of a socket by protocol.
#[derive(Debug)]
pub enum SocketKind {
    /// UDP over IPv4 or IPv6.
    Udp(Box<UdpSocket>),
    /// TCP over IPv4 or IPv6.
    Tcp(Box<TcpSocket>),
    /// A ping socket (ICMP or ICMPv6).
    Ping(Box<PingSocket>),
    /// A raw socket: a protocol above IP, or IP itself.
    Raw(Box<RawSocket>),
    /// A socket of a family that the stack does not implement; its owner holds its state.
    Other,
}

/// Options of level `SOL_SOCKET` common to all families.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// `SO_REUSEADDR`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`.
    pub reuse_port: bool,
    /// `SO_KEEPALIVE`.
    pub keep_alive: bool,
    /// `SO_BROADCAST`.
    pub broadcast: bool,
    /// `F_SETOWN`: the process ID, or the negated process group ID, that receives `SIGURG` on urgent data.
    pub owner: i32,
    /// `SO_OOBINLINE`.
    pub out_of_band_inline: bool,
    /// `SO_DONTROUTE`.
    pub dont_route: bool,
    /// `SO_PASSCRED`.
    pub pass_credentials: bool,
    /// `SO_TIMESTAMP` and `SO_TIMESTAMPNS`.
    pub timestamp: Timestamping,
    /// Arrival time of the data read last: `SIOCGSTAMP`.
    pub last_arrival: Option<SimTime>,
    /// `SO_RCVBUF` as returned by `getsockopt`.
    pub receive_buffer: u32,
    /// True if the program has set `SO_RCVBUF`.
    pub receive_buffer_set: bool,
    /// `SO_SNDBUF` as returned by `getsockopt`.
    pub send_buffer: u32,
    /// True if the program has set `SO_SNDBUF`.
    pub send_buffer_set: bool,
    /// `SO_RCVTIMEO`; `None` for no timeout.
    pub receive_timeout: Option<SimDuration>,
    /// `SO_SNDTIMEO`; `None` for no timeout.
    pub send_timeout: Option<SimDuration>,
    /// `SO_RCVLOWAT`.
    pub receive_low_water: i32,
    /// `SO_LINGER`.
    pub linger: Option<SimDuration>,
    /// `SO_PRIORITY`.
    pub priority: i32,
    /// `SO_MARK`.
    pub mark: u32,
    /// `SO_BINDTODEVICE`: the interface's index.
    pub bound_device: Option<u32>,
    /// `SO_ATTACH_FILTER`.
    pub filter: Option<Arc<SocketFilter>>,
    /// `SO_LOCK_FILTER`.
    pub filter_locked: bool,
    /// Values of `SO_INCOMING_CPU`, `SO_BUSY_POLL` and other options that are only stored, by option.
    pub kept: smallvec::SmallVec<[(i32, i32); 1]>,
}

/// Format of the arrival timestamps returned by `recvmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamping {
    /// No timestamps.
    Off,
    /// `SO_TIMESTAMP`: a `struct timeval`.
    Micros,
    /// `SO_TIMESTAMPNS`: a `struct timespec`.
    Nanos,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            reuse_address: false,
            reuse_port: false,
            keep_alive: false,
            broadcast: false,
            owner: 0,
            out_of_band_inline: false,
            dont_route: false,
            pass_credentials: false,
            timestamp: Timestamping::Off,
            last_arrival: None,
            receive_buffer: DEFAULT_BUFFER,
            receive_buffer_set: false,
            send_buffer: DEFAULT_BUFFER,
            send_buffer_set: false,
            receive_timeout: None,
            send_timeout: None,
            receive_low_water: 1,
            linger: None,
            priority: 0,
            mark: 0,
            bound_device: None,
            filter: None,
            filter_locked: false,
            kept: smallvec::SmallVec::new(),
        }
    }
}

impl SocketOptions {
    /// True if an option that is only stored is nonzero.
    pub fn is_kept(&self, name: i32) -> bool {
        self.kept.iter().any(|(kept, value)| *kept == name && *value != 0)
    }
}

impl Socket {
    /// The local and the remote port; 0 where there is none.
    pub fn ports(&self) -> (u16, u16) {
        match &self.kind {
            SocketKind::Udp(udp) => {
                (udp.bound.map_or(0, |bound| bound.port), udp.peer.map_or(0, |peer| peer.port()))
            }
            SocketKind::Tcp(tcp) => match &tcp.role {
                Role::Connection(connection) => (connection.local().port(), connection.remote().port()),
                _ => (tcp.bound.map_or(0, |bound| bound.port), 0),
            },
            _ => (0, 0),
        }
    }

    /// Options of the levels IPPROTO_IP and IPPROTO_IPV6; `None` for other families.
    pub fn ip_options(&self) -> Option<&IpOptions> {
        match &self.kind {
            SocketKind::Udp(udp) => Some(&udp.ip),
            SocketKind::Tcp(tcp) => Some(&tcp.ip),
            SocketKind::Ping(ping) => Some(&ping.end.ip),
            SocketKind::Raw(raw) => Some(&raw.end.ip),
            SocketKind::Other => None,
        }
    }
    /// Options of the levels IPPROTO_IP and IPPROTO_IPV6, mutable; `None` for other families.
    pub fn ip_options_mut(&mut self) -> Option<&mut IpOptions> {
        match &mut self.kind {
            SocketKind::Udp(udp) => Some(&mut udp.ip),
            SocketKind::Tcp(tcp) => Some(&mut tcp.ip),
            SocketKind::Ping(ping) => Some(&mut ping.end.ip),
            SocketKind::Raw(raw) => Some(&mut raw.end.ip),
            SocketKind::Other => None,
        }
    }
    /// The address that the socket is bound to.
    pub fn local_ip(&self) -> Option<std::net::IpAddr> {
        match &self.kind {
            SocketKind::Udp(udp) => udp.bound.and_then(|bound| bound.reach.ip),
            SocketKind::Tcp(tcp) => tcp.bound.and_then(|bound| bound.reach.ip),
            SocketKind::Ping(ping) => ping.local.map(|local| local.ip()),
            SocketKind::Raw(raw) => raw.local,
            SocketKind::Other => None,
        }
    }
    /// True for a stream socket: partial sends are continued, and `SIGPIPE` is raised.
    pub fn is_stream(&self) -> bool {
        self.type_ == c::SOCK_STREAM
    }
    /// Clears the pending error and fails with it.
    pub fn take_error(&mut self) -> Result<(), Errno> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Stack {
    /// Adds a socket with default options. Returns its key.
    pub fn add_socket(&mut self, domain: i32, type_: i32, protocol: i32, kind: SocketKind) -> SocketKey {
        self.next_serial = self.next_serial.wrapping_add(1);
        let serial = self.next_serial;
        let [receive_buffer, _, send_buffer, _] = self.sysctls.core_buffers;
        let options = SocketOptions { receive_buffer, send_buffer, ..SocketOptions::default() };
        self.raw_sockets += usize::from(matches!(kind, SocketKind::Raw(_)));
        let network = self.number;
        let mut socket = Socket {
            domain,
            type_,
            protocol,
            options,
            error: None,
            serial,
            network,
            uid: 0,
            zero_copy: None,
            kind,
        };
        if self.sysctls.bind_v6_only
            && let Some(ip) = socket.ip_options_mut()
        {
            ip.v6_only = true;
        }
        SocketKey(self.sockets.insert(socket))
    }
    /// Removes a socket and reports its key as free.
    pub fn remove_socket(&mut self, key: SocketKey) -> Socket {
        let socket = self.sockets.remove(key.0);
        self.raw_sockets -= usize::from(matches!(socket.kind, SocketKind::Raw(_)));
        self.effects.push(Effect::Closed(key));
        socket
    }
    /// The socket of a key.
    #[inline]
    pub fn socket(&mut self, key: SocketKey) -> &mut Socket {
        &mut self.sockets[key.0]
    }
}

impl SocketKind {
    /// Packets of a UDP, raw or ping socket in the queues of interfaces.
    pub fn sending(&mut self) -> Option<&mut SendCharge> {
        match self {
            SocketKind::Udp(udp) => Some(&mut udp.sending),
            SocketKind::Raw(raw) => Some(&mut raw.end.sending),
            SocketKind::Ping(ping) => Some(&mut ping.end.sending),
            _ => None,
        }
    }
}

impl Socket {
    /// True if the send buffer of a UDP, raw or ping socket is full: a send waits.
    pub fn is_send_buffer_full(&mut self) -> bool {
        let send_buffer = self.options.send_buffer;
        self.kind.sending().is_some_and(|sending| sending.bytes >= send_buffer)
    }

    /// Charges a packet of `len` bytes. Returns its cookie, by which the interface reports its departure.
    pub(crate) fn charge(&mut self, key: SocketKey, len: usize) -> u64 {
        let Some(sending) = self.kind.sending() else { return 0 };
        sending.give(len);
        cookie(key, self)
    }

    /// [`SendCharge::check_fragments`] of this socket.
    pub(crate) fn check_fragments(&mut self, len: usize, mtu: usize) -> Result<(), Errno> {
        let send_buffer = self.options.send_buffer;
        self.kind.sending().map_or(Ok(()), |sending| sending.check_fragments(len, mtu, send_buffer))
    }
}
