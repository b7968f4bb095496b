//! Socket operations, dispatched to the socket's family. All family modules have the same functions, except
//! that only TCP and UNIX sockets can listen.

use super::message::{Attempt, Incoming, OutgoingMessage, RawAddress, ReceivedMessage};
use super::{netlink, packet, ping, raw, tcp, udp, unix};
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::Stack;
use belljar_netstack::socket::{Socket, SocketKind};

/// Calls `$function` of the family's module.
macro_rules! by_family {
    ($host:expr, $key:expr, $function:ident($($argument:expr),*)) => {
        match $host.stack_of($key).sockets[$key.0].kind {
            SocketKind::Udp(_) => udp::$function($($argument),*),
            SocketKind::Tcp(_) => tcp::$function($($argument),*),
            SocketKind::Ping(_) => ping::$function($($argument),*),
            SocketKind::Raw(_) => raw::$function($($argument),*),
            SocketKind::Other => match $host.stack_of($key).sockets[$key.0].domain {
                c::AF_UNIX => unix::$function($($argument),*),
                c::AF_NETLINK => netlink::$function($($argument),*),
                _ => packet::$function($($argument),*),
            },
        }
    };
}

/// Calls `$function` of the family's module with the stack or, for the host's own families, with the host.
macro_rules! by_kind {
    ($host:ident, $key:expr, $function:ident, $stack:expr) => {
        match $host.stack_of($key).sockets[$key.0].kind {
            SocketKind::Udp(_) => udp::$function($stack, $key),
            SocketKind::Tcp(_) => tcp::$function($stack, $key),
            SocketKind::Ping(_) => ping::$function($stack, $key),
            SocketKind::Raw(_) => raw::$function($stack, $key),
            SocketKind::Other => match $host.stack_of($key).sockets[$key.0].domain {
                c::AF_UNIX => unix::$function($host, $key),
                c::AF_NETLINK => netlink::$function($host, $key),
                _ => packet::$function($host, $key),
            },
        }
    };
}

impl Host {
    /// Present readiness, `EPOLL*` bits (equal to `POLL*`).
    pub(crate) fn socket_readiness(&self, key: SocketKey) -> u32 {
        by_kind!(self, key, readiness, self.stack_of(key))
    }
    /// Handles the close of a socket's last open file. The family removes the socket when its protocol has
    /// finished.
    pub(crate) fn close_socket(&mut self, key: SocketKey) {
        by_kind!(self, key, close, self.stack_of_mut(key))
    }
    /// Address for `getsockname(2)`.
    pub(crate) fn socket_local_name(&mut self, key: SocketKey) -> Result<RawAddress, Errno> {
        by_kind!(self, key, local_name, self.stack_of_mut(key))
    }
    /// Address for `getpeername(2)`: `ENOTCONN` without a peer.
    pub(crate) fn socket_peer_name(&mut self, key: SocketKey) -> Result<RawAddress, Errno> {
        by_kind!(self, key, peer_name, self.stack_of_mut(key))
    }
    /// Peer address of a socket that has just been accepted.
    pub(crate) fn socket_accepted_name(&mut self, key: SocketKey) -> Result<RawAddress, Errno> {
        match self.stack_of(key).sockets[key.0].kind {
            SocketKind::Tcp(_) => self.stack_of_mut(key).tcp_accepted_name(key).ok_or(Errno::ECONNABORTED),
            _ => self.socket_peer_name(key),
        }
    }
    /// `FIONREAD`: number of readable bytes, or the length of the next datagram.
    pub(crate) fn socket_readable_bytes(&mut self, key: SocketKey) -> Result<usize, Errno> {
        by_kind!(self, key, readable_bytes, self.stack_of_mut(key))
    }
    /// `SIOCOUTQ`: number of bytes not sent, or for TCP not acknowledged.
    pub(crate) fn socket_unsent_bytes(&mut self, key: SocketKey) -> Result<usize, Errno> {
        by_kind!(self, key, unsent_bytes, self.stack_of_mut(key))
    }
}

/// `bind(2)`.
pub fn bind(call: &mut Call<'_>, key: SocketKey, address: &[u8]) -> Result<(), Errno> {
    by_family!(call.host, key, bind(call, key, address))
}
/// `connect(2)`. `again` is true for attempts after one that returned [`Attempt::Wait`].
pub fn connect(
    call: &mut Call<'_>,
    key: SocketKey,
    address: &[u8],
    again: bool,
) -> Result<Attempt<()>, Errno> {
    by_family!(call.host, key, connect(call, key, address, again))
}
/// `listen(2)`; `backlog` is at most `SOMAXCONN`.
pub fn listen(call: &mut Call<'_>, key: SocketKey, backlog: usize) -> Result<(), Errno> {
    let Socket { domain, kind, .. } = &call.host.stack_of(key).sockets[key.0];
    match kind {
        SocketKind::Tcp(_) => tcp::listen(call, key, backlog),
        SocketKind::Other if *domain == c::AF_UNIX => unix::listen(call, key, backlog),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
/// `accept(2)`: returns the new socket, which has no open file yet. `waits` is true for a blocking call.
pub fn accept(call: &mut Call<'_>, key: SocketKey, waits: bool) -> Result<Attempt<SocketKey>, Errno> {
    let Socket { domain, kind, .. } = &call.host.stack_of(key).sockets[key.0];
    match kind {
        SocketKind::Tcp(_) => tcp::accept(call, key),
        SocketKind::Other if *domain == c::AF_UNIX => unix::accept(call, key, waits),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
/// `send(2)` and its variants: sends bytes from offset `done` and returns the number sent by this attempt.
/// Only streams send less than the whole message.
pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
) -> Result<Attempt<usize>, Errno> {
    // UDP and UNIX sockets check other errors before the control messages.
    let Socket { domain, kind, .. } = call.host.socket(key);
    if !matches!(kind, SocketKind::Udp(_)) && *domain != c::AF_UNIX {
        message.check_control()?;
    }
    by_family!(call.host, key, send(call, key, message, done))
}
/// `recv(2)` and its variants. Bytes are stored from buffer offset `done`, which is nonzero only for a stream
/// read with `MSG_WAITALL`.
pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    by_family!(call.host, key, receive(call, key, room, done))
}
/// `shutdown(2)`; `how` is `SHUT_RD`, `SHUT_WR` or `SHUT_RDWR`.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    by_family!(call.host, key, shutdown(call, key, how))
}

/// Highest socket type, obsolete.
const SOCK_PACKET: i32 = 10;

/// `socket(2)`: creates a socket in a network from a domain, a type without flags and a protocol.
pub fn create(
    host: &mut Host,
    network: u32,
    (domain, type_, protocol): (i32, i32, i32),
) -> Result<SocketKey, Errno> {
    match domain {
        c::AF_UNIX => unix::create(host, network, type_, protocol),
        c::AF_NETLINK => netlink::create(host, network, type_, protocol),
        c::AF_PACKET => packet::create(host, network, type_, protocol),
        c::AF_INET | c::AF_INET6 => create_inet(host.stack_mut(network), domain, type_, protocol),
        // Linux checks the range of the type before it looks up the family.
        _ if type_ > SOCK_PACKET => Err(Errno::EINVAL),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

fn create_inet(net: &mut Stack, domain: i32, type_: i32, protocol: i32) -> Result<SocketKey, Errno> {
    let icmp = if domain == c::AF_INET { c::IPPROTO_ICMP } else { c::IPPROTO_ICMPV6 };
    match (type_, protocol) {
        (c::SOCK_STREAM, 0 | c::IPPROTO_TCP) => tcp::create(net, domain),
        (c::SOCK_DGRAM, 0 | c::IPPROTO_UDP) => udp::create(net, domain, udp::Protocol::Udp),
        (c::SOCK_DGRAM, c::IPPROTO_UDPLITE) => udp::create(net, domain, udp::Protocol::Lite),
        (c::SOCK_DGRAM, p) if p == icmp => ping::create(net, domain),
        (c::SOCK_RAW, p) => raw::create(net, domain, p),
        (c::SOCK_STREAM | c::SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        (c::SOCK_SEQPACKET | c::SOCK_RDM | c::SOCK_DCCP | SOCK_PACKET | 0, _) => Err(Errno::ESOCKTNOSUPPORT),
        _ => Err(Errno::EINVAL),
    }
}
