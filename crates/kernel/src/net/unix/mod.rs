//! UNIX sockets, unix(7).
//!
//! A message is queued directly on the receiver. Until it is read, it is charged to the sender, whose
//! `SO_SNDBUF` limits its unread messages. The charges equal Linux's `truesize`, since programs observe them
//! as the number of writes until `EAGAIN`.
//!
//! The state of sockets is in [`belljar_objects::unix_sockets`].

mod accounting;
mod connect;
mod control;
mod names;
mod receive;
mod send;
mod shown;
#[cfg(test)]
mod tests;

pub use connect::{accept, connect, listen};
pub use names::bind;
pub use receive::receive;
pub use send::send;

use super::message::RawAddress;
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::own::{OwnKind, OwnSockets};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::Stack;
use belljar_netstack::readiness::{
    EPOLLERR, EPOLLHUP, EPOLLPRI, EPOLLRDBAND, EPOLLRDHUP, EPOLLWRBAND, READABLE, WRITABLE,
};
use belljar_netstack::socket::Socket;
use belljar_objects::unix_sockets::{PeerCredentials, PeerRef, UnixRole, UnixSocket};

/// Events notified when data arrives (`sock_def_readable`).
const ARRIVED: u32 = READABLE | EPOLLPRI | EPOLLRDBAND;
/// Events notified when room becomes available (`unix_write_space`).
const ROOM: u32 = WRITABLE | EPOLLWRBAND;

impl OwnSockets {
    fn unix(&self, key: SocketKey) -> &UnixSocket {
        match self.get(key) {
            Some(OwnKind::Unix(socket)) => socket,
            other => unreachable!("not a UNIX socket: {other:?}"),
        }
    }
    fn unix_mut(&mut self, key: SocketKey) -> &mut UnixSocket {
        match self.get_mut(key) {
            Some(OwnKind::Unix(socket)) => socket,
            other => unreachable!("not a UNIX socket: {other:?}"),
        }
    }
    /// Present address of a socket, if it still exists and is bound.
    fn unix_name_of(&self, net: &Stack, peer: PeerRef) -> Option<UnixAddress> {
        peer.alive(net).and_then(|key| self.unix(key).address.clone())
    }
    /// Peer of a socket, if it still exists.
    fn unix_peer(&self, net: &Stack, key: SocketKey) -> Option<SocketKey> {
        self.unix(key).peer?.alive(net)
    }
}

/// `socket(2)` in a network.
pub fn create(host: &mut Host, network: u32, type_: i32, protocol: i32) -> Result<SocketKey, Errno> {
    if protocol != 0 && protocol != c::AF_UNIX {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let type_ = match type_ {
        c::SOCK_STREAM | c::SOCK_DGRAM | c::SOCK_SEQPACKET => type_,
        // BSD's `SOCK_RAW`, treated as `SOCK_DGRAM` by Linux.
        c::SOCK_RAW => c::SOCK_DGRAM,
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    Ok(new_socket(host, network, type_))
}

fn new_socket(host: &mut Host, network: u32, type_: i32) -> SocketKey {
    host.own.add(&mut host.net, network, (c::AF_UNIX, type_, 0), OwnKind::Unix(Box::default()))
}

/// `socketpair(2)`.
pub fn create_pair(call: &mut Call<'_>, type_: i32, protocol: i32) -> Result<(SocketKey, SocketKey), Errno> {
    let credentials = control::credentials_of(call);
    let network = call.network();
    let host = &mut *call.host;
    let (a, b) = (create(host, network, type_, protocol)?, create(host, network, type_, protocol)?);
    for (own, other) in [(a, b), (b, a)] {
        let peer = PeerRef::to(&host.net, other);
        let connected = host.net.socket(own).type_ != c::SOCK_DGRAM;
        let socket = host.own.unix_mut(own);
        socket.peer = Some(peer);
        socket.peer_credentials = Some(credentials);
        socket.credentials = credentials;
        if connected {
            socket.role = UnixRole::Connected;
        } else {
            socket.connected_from.push(peer);
        }
    }
    Ok((a, b))
}

/// `shutdown(2)`: shuts the opposite direction of a connection's peer.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let read = how != c::SHUT_WR;
    let write = how != c::SHUT_RD;
    let host = &mut *call.host;
    let socket = host.own.unix_mut(key);
    socket.shut_read |= read;
    socket.shut_write |= write;
    host.net.effects.notify_socket(key, u32::MAX);
    if host.net.socket(key).type_ != c::SOCK_DGRAM
        && let Some(peer) = host.own.unix_peer(&host.net, key)
    {
        let other = host.own.unix_mut(peer);
        other.shut_read |= write;
        other.shut_write |= read;
        host.net.effects.notify_socket(peer, u32::MAX);
    }
    Ok(())
}

/// Address for `getsockname(2)`.
pub fn local_name(host: &Host, key: SocketKey) -> Result<RawAddress, Errno> {
    Ok(UnixAddress::raw(host.own.unix(key).address.as_ref()))
}

/// Address for `getpeername(2)`; for a closed peer, its last known address.
pub fn peer_name(host: &Host, key: SocketKey) -> Result<RawAddress, Errno> {
    if host.own.unix(key).peer.is_none() {
        return Err(Errno::ENOTCONN);
    }
    match host.own.unix_peer(&host.net, key) {
        Some(peer) => Ok(UnixAddress::raw(host.own.unix(peer).address.as_ref())),
        None => Ok(UnixAddress::raw(host.own.unix(key).peer_address.as_ref())),
    }
}

/// `SO_ACCEPTCONN`.
pub fn is_listening(host: &Host, key: SocketKey) -> bool {
    match host.own.get(key) {
        Some(OwnKind::Unix(socket)) => socket.is_listening(),
        _ => false,
    }
}

/// `SO_PEERCRED`: pid, user and group of the peer at the time of `connect(2)` or `listen(2)`.
pub fn peer_credentials(host: &Host, key: SocketKey) -> Result<(i32, u32, u32), Errno> {
    // Without a peer Linux returns pid 0 and invalid ids.
    let nobody = PeerCredentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let PeerCredentials { pid, uid, gid } = host.own.unix(key).peer_credentials.unwrap_or(nobody);
    Ok((pid, uid, gid))
}

/// Present readiness, `EPOLL*` bits, as computed by `unix_poll` and `unix_dgram_poll`.
pub fn readiness(host: &Host, key: SocketKey) -> u32 {
    let Socket { type_, error, .. } = host.net.sockets[key.0];
    let mut events = if error.is_some() { EPOLLERR } else { 0 };
    let socket = host.own.unix(key);
    if socket.shut_read {
        events |= EPOLLRDHUP | READABLE;
    }
    if socket.shut_read && socket.shut_write {
        events |= EPOLLHUP;
    }
    let (unconnected, listening, waiting) = match &socket.role {
        UnixRole::Listening { waiting, .. } => (false, true, !waiting.is_empty()),
        UnixRole::Connected => (false, false, false),
        UnixRole::Unconnected => (true, false, false),
    };
    if waiting || !socket.inbox.is_empty() {
        events |= READABLE;
    }
    if unconnected && type_ != c::SOCK_DGRAM {
        events |= EPOLLHUP;
    }
    if !listening
        && host.own.unix_has_room(&host.net, key)
        && !(type_ == c::SOCK_DGRAM && host.own.unix_peer_full(&host.net, key))
    {
        events |= ROOM;
    }
    events
}

/// `FIONREAD`: all queued bytes of a connection, or the length of the first datagram.
pub fn readable_bytes(host: &Host, key: SocketKey) -> Result<usize, Errno> {
    readable(&host.net, &host.own, key)
}

fn readable(net: &Stack, own: &OwnSockets, key: SocketKey) -> Result<usize, Errno> {
    own.unix(key).readable(net.sockets[key.0].type_ == c::SOCK_DGRAM)
}

/// `SIOCOUTQ`: total charge of unread messages in bytes.
pub fn unsent_bytes(host: &Host, key: SocketKey) -> Result<usize, Errno> {
    Ok(host.own.unix(key).charged)
}

/// Closes a socket after its last open file. The peer of a connection sees the end, or `ECONNRESET` if unread
/// data was dropped.
pub fn close(host: &mut Host, key: SocketKey) {
    let type_ = host.net.socket(key).type_;
    host.forget_name(key);
    let was_full = host.own.unix_inbox_full(key);
    let socket = std::mem::take(host.own.unix_mut(key));
    let unread = socket.has_unread();
    for message in socket.inbox {
        host.own.settle(&mut host.net, &message);
        for file in message.files {
            host.release_file(file);
        }
    }
    if let UnixRole::Listening { waiting, .. } = socket.role {
        for embryo in waiting {
            refuse(host, embryo);
        }
    }
    // The peer's file may have been queued in the inbox and closed above.
    let peer = socket.peer.and_then(|peer| peer.alive(&host.net));
    if let Some(peer) = peer.filter(|_| type_ != c::SOCK_DGRAM) {
        let other = host.own.unix_mut(peer);
        other.shut_read = true;
        other.shut_write = true;
        if unread {
            host.net.socket(peer).error = Some(Errno::ECONNRESET);
        }
        host.net.effects.notify_socket(peer, u32::MAX);
    }
    if let Some(peer) = peer {
        host.own.unix_mut(peer).connected_from.retain(|from| from.key != key);
    }
    // Callers waiting to connect to a listener or to send to a full socket retry and fail.
    host.net.effects.notify_socket(key, u32::MAX);
    host.own.remove(&mut host.net, key);
    // Connected senders are notified only if the inbox was full; others learn of the close at their next
    // send.
    if was_full {
        accounting::wake_senders(&mut host.net, &socket.connected_from);
    }
}

/// Resets and closes a connection that was never accepted.
fn refuse(host: &mut Host, embryo: SocketKey) {
    if let Some(client) = host.own.unix_peer(&host.net, embryo) {
        host.net.socket(client).error = Some(Errno::ECONNRESET);
    }
    close(host, embryo);
}
