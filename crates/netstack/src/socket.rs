//! State common to all sockets, whatever their family: type, options of level `SOL_SOCKET` and pending error,
//! socket(7).

use super::filter::{Metadata, SocketFilter};
use super::ip::IpOptions;
use super::send_charge::SendCharge;
use super::tcp::Role;
use super::tcp::TcpSocket;
use super::udp::UdpSocket;
use super::zero_copy::ZeroCopy;
use super::{ping::PingSocket, raw::RawSocket};
use crate::SocketKey;
use crate::error_queue::ErrorQueue;
use crate::ip::ident::{Ident, Idents};
use crate::ip_socket::IpSocket;
use crate::keyed::Keyed;
use crate::timestamps::{Stamping, Timestamping};
use belljar_base::{SimDuration, SimTime, Stream};
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
    /// Timestamps of sent frames, for a family that the stack does not implement.
    pub stamps: Option<Box<StampQueue>>,
    /// State of the socket's protocol.
    pub kind: SocketKind,
}

/// Error queue of a packet socket.
#[derive(Debug, Default)]
pub struct StampQueue(pub(crate) ErrorQueue);

impl StampQueue {
    /// True if there are no timestamps to read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
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
    /// True after an option of timestamps with the suffix `_NEW`.
    pub new_stamps: bool,
    /// `SO_TIMESTAMPING`.
    pub stamping: Option<Box<Stamping>>,
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
            new_stamps: false,
            stamping: None,
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
        self.cookie(key)
    }

    /// Cookie by which an interface reports the departure of the socket's packet.
    pub fn cookie(&self, key: SocketKey) -> u64 {
        u64::from(self.serial) << 32 | (key.0 as u64 + 1)
    }

    /// [`SendCharge::check_fragments`] of this socket.
    pub(crate) fn check_fragments(&mut self, len: usize, mtu: usize) -> Result<(), Errno> {
        let send_buffer = self.options.send_buffer;
        self.kind.sending().map_or(Ok(()), |sending| sending.check_fragments(len, mtu, send_buffer))
    }

    /// Runs the socket's filter on a packet. Returns the number of bytes that the socket may receive; `None`
    /// drops the packet.
    pub fn filtered(&self, random: &mut Stream, packet: &[u8], mut metadata: Metadata) -> Option<usize> {
        let Some(filter) = &self.options.filter else { return Some(packet.len()) };
        if filter.is_random {
            metadata.random = random.next_u32();
        }
        let kept = filter.run(packet, &metadata).min(packet.len());
        (kept > 0).then_some(kept)
    }

    /// The identification of the next `packets` IPv4 packets of a UDP, raw or ping socket.
    pub fn next_ident(&mut self, idents: &mut Idents, packets: usize) -> Ident {
        let (ip, to_peer) = match &mut self.kind {
            SocketKind::Udp(udp) => (&mut udp.ip, udp.peer.is_some()),
            SocketKind::Raw(raw) => (&mut raw.end.ip, raw.end.peer.is_some()),
            SocketKind::Ping(ping) => (&mut ping.end.ip, ping.end.peer.is_some()),
            _ => return Ident::OfAll,
        };
        if to_peer {
            return Ident::Own(ip.next_ident(idents, packets));
        }
        // `ip_sk_ignore_df`: such packets may still be fragmented locally.
        let cut_here =
            matches!(ip.mtu_discover, c::IP_PMTUDISC_DONT | c::IP_PMTUDISC_WANT | c::IP_PMTUDISC_OMIT);
        if cut_here { Ident::Shared } else { Ident::OfAll }
    }

    /// Fails with the pending error, or with `EPIPE` if the sending direction of a UDP socket is shut down.
    #[inline(always)]
    pub(crate) fn may_send(&mut self) -> Result<(), Errno> {
        self.take_error()?;
        match &self.kind {
            SocketKind::Udp(udp) if udp.write_closed => Err(Errno::EPIPE),
            _ => Ok(()),
        }
    }
}

impl Keyed<Socket> {
    /// The sockets of a network namespace, with their keys.
    pub fn of_network(&self, number: u32) -> impl Iterator<Item = (usize, &Socket)> {
        self.iter().filter(move |(_, socket)| socket.network == number)
    }

    /// Socket of a packet's cookie; `None` if it was closed.
    #[inline]
    pub fn of_cookie(&self, cookie: u64) -> Option<SocketKey> {
        let key = SocketKey((cookie & 0xffff_ffff) as usize - 1);
        let socket = self.get(key.0)?;
        (u64::from(socket.serial) == cookie >> 32).then_some(key)
    }

    /// The TCP state of a socket that is known to be a TCP socket.
    pub fn tcp(&mut self, key: SocketKey) -> &mut TcpSocket {
        match &mut self[key.0].kind {
            SocketKind::Tcp(tcp) => tcp,
            other => unreachable!("not a TCP socket: {other:?}"),
        }
    }

    /// The UDP state of a socket that is known to be a UDP socket.
    #[inline]
    pub fn udp(&mut self, key: SocketKey) -> &mut UdpSocket {
        match &mut self[key.0].kind {
            SocketKind::Udp(udp) => udp,
            other => unreachable!("not a UDP socket: {other:?}"),
        }
    }

    /// The ping state of a socket that is known to be a ping socket.
    pub fn ping(&mut self, key: SocketKey) -> &mut PingSocket {
        match &mut self[key.0].kind {
            SocketKind::Ping(ping) => ping,
            other => unreachable!("not an ICMP socket: {other:?}"),
        }
    }

    /// The raw state of a socket that is known to be a raw socket.
    pub fn raw(&mut self, key: SocketKey) -> &mut RawSocket {
        match &mut self[key.0].kind {
            SocketKind::Raw(raw) => raw,
            other => unreachable!("not a raw socket: {other:?}"),
        }
    }

    /// The shared state of a socket that is known to be a raw or ping socket.
    pub fn ip_socket(&mut self, key: SocketKey) -> &mut IpSocket {
        match &mut self[key.0].kind {
            SocketKind::Raw(raw) => &mut raw.end,
            SocketKind::Ping(ping) => &mut ping.end,
            other => unreachable!("a socket with ports: {other:?}"),
        }
    }
}
