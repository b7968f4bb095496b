//! Sockets of the UNIX family, unix(7).
//!
//! A message goes straight into the receiver's queue. Until it is read there, it is charged to the
//! sender, whose `SO_SNDBUF` limits what may lie about unread; the charges are Linux's `truesize`,
//! since programs see them as the number of writes until `EAGAIN`.
//!
//! Sockets name one another by key and serial, so that a peer that is gone is told apart from a
//! later socket with its key.

mod accounting;
mod address;
mod connect;
mod control;
mod names;
mod receive;
mod send;
mod shown;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use connect::{accept, connect, listen};
pub use names::{Names, bind};
pub use receive::receive;
pub use send::send;
pub use shown::ShownUnix;

use super::message::RawAddress;
use super::socket::Socket;
use crate::call::Call;
use crate::files::readiness::{
    EPOLLERR, EPOLLHUP, EPOLLPRI, EPOLLRDBAND, EPOLLRDHUP, EPOLLWRBAND, READABLE, WRITABLE,
};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, SocketKey};
use crate::net::OwnKind;
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// Events by the arrival of data (`sock_def_readable`).
const ARRIVED: u32 = READABLE | EPOLLPRI | EPOLLRDBAND;
/// Events by new room (`unix_write_space`).
const ROOM: u32 = WRITABLE | EPOLLWRBAND;

/// A reference to a socket that may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRef {
    key: SocketKey,
    serial: u32,
}

/// Process, user and group of a sender or peer: `struct ucred`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pid: i32,
    uid: u32,
    gid: u32,
}

impl Credentials {
    /// The credentials of a message whose sender and receiver had not asked for them: the overflow ids.
    const NOBODY: Credentials = Credentials { pid: 0, uid: 65_534, gid: 65_534 };

    /// The credentials of the calling process.
    fn of(call: &Call<'_>) -> Credentials {
        let process = &call.host.processes[call.process.0];
        Credentials { pid: process.pid, uid: process.credentials.euid, gid: process.credentials.egid }
    }
}

/// A message, or a piece of a stream, on its way.
#[derive(Debug)]
struct Message {
    data: Vec<u8>,
    /// Bytes of it already read (streams only).
    taken: usize,
    /// Open files that travel with it, each with a reference of its own.
    files: Vec<FileKey>,
    credentials: Credentials,
    /// Where it came from, if that had a name.
    source: Option<Address>,
    sender: PeerRef,
    /// Its charge to the sender.
    charge: usize,
}

/// A socket's role.
#[derive(Debug, Default)]
enum Role {
    /// Neither of the others; a datagram socket is always this.
    #[default]
    Unconnected,
    /// It accepts connections: those made and not yet accepted.
    Listening { backlog: usize, waiting: VecDeque<SocketKey> },
    /// It has, or had, a peer for good.
    Connected,
}

/// State of a UNIX socket.
#[derive(Debug, Default)]
pub struct UnixSocket {
    address: Option<Address>,
    inode: Option<InodeKey>,
    /// Number and device of the file that its address, or the one it was accepted at, names.
    file: Option<(u64, u64)>,
    role: Role,
    /// It was made by a connection that has not been accepted.
    embryo: bool,
    peer: Option<PeerRef>,
    peer_address: Option<Address>,
    peer_credentials: Option<Credentials>,
    /// Whom a client sees as its peer: who called `listen`.
    credentials: Credentials,
    inbox: VecDeque<Message>,
    /// Charges for messages sent and not yet read.
    charged: usize,
    shut_read: bool,
    shut_write: bool,
    /// Datagram sockets that have this one as their peer: they have room when it has.
    connected_from: Vec<PeerRef>,
}

impl Host {
    fn unix(&self, key: SocketKey) -> &UnixSocket {
        match self.own.get(key) {
            Some(OwnKind::Unix(socket)) => socket,
            other => unreachable!("not a UNIX socket: {other:?}"),
        }
    }
    fn unix_mut(&mut self, key: SocketKey) -> &mut UnixSocket {
        match self.own.get_mut(key) {
            Some(OwnKind::Unix(socket)) => socket,
            other => unreachable!("not a UNIX socket: {other:?}"),
        }
    }
    /// A reference to a socket that outlives it.
    fn unix_ref(&self, key: SocketKey) -> PeerRef {
        PeerRef { key, serial: self.net.sockets[key.0].serial }
    }
    /// The socket if it still exists.
    fn unix_alive(&self, peer: PeerRef) -> Option<SocketKey> {
        self.net.sockets.get(peer.key.0).filter(|socket| socket.serial == peer.serial).map(|_| peer.key)
    }
    /// The name that a socket has by now, if it still exists and has one.
    fn unix_name_of(&self, peer: PeerRef) -> Option<Address> {
        self.unix_alive(peer).and_then(|key| self.unix(key).address.clone())
    }
    /// The peer if there is one that still exists.
    fn unix_peer(&self, key: SocketKey) -> Option<SocketKey> {
        let peer = self.unix(key).peer?;
        self.unix_alive(peer)
    }
}

/// `socket(2)`.
pub fn create(host: &mut Host, type_: i32, protocol: i32) -> Result<SocketKey, Errno> {
    if protocol != 0 && protocol != c::AF_UNIX {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let type_ = match type_ {
        c::SOCK_STREAM | c::SOCK_DGRAM | c::SOCK_SEQPACKET => type_,
        // As BSD's SOCK_RAW, which nobody can have meant.
        c::SOCK_RAW => c::SOCK_DGRAM,
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    Ok(new_socket(host, type_))
}

fn new_socket(host: &mut Host, type_: i32) -> SocketKey {
    host.add_own_socket(c::AF_UNIX, type_, 0, OwnKind::Unix(Box::default()))
}

/// `socketpair(2)`.
pub fn create_pair(call: &mut Call<'_>, type_: i32, protocol: i32) -> Result<(SocketKey, SocketKey), Errno> {
    let credentials = Credentials::of(call);
    let host = &mut *call.host;
    let (a, b) = (create(host, type_, protocol)?, create(host, type_, protocol)?);
    for (own, other) in [(a, b), (b, a)] {
        let peer = host.unix_ref(other);
        let connected = host.net.socket(own).type_ != c::SOCK_DGRAM;
        let socket = host.unix_mut(own);
        socket.peer = Some(peer);
        socket.peer_credentials = Some(credentials);
        socket.credentials = credentials;
        if connected {
            socket.role = Role::Connected;
        } else {
            socket.connected_from.push(peer);
        }
    }
    Ok((a, b))
}

/// `shutdown(2)`: the peer of a connection sees the other direction shut.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let read = how != c::SHUT_WR;
    let write = how != c::SHUT_RD;
    let host = &mut *call.host;
    let socket = host.unix_mut(key);
    socket.shut_read |= read;
    socket.shut_write |= write;
    host.net.notify_socket(key, u32::MAX);
    if host.net.socket(key).type_ != c::SOCK_DGRAM
        && let Some(peer) = host.unix_peer(key)
    {
        let other = host.unix_mut(peer);
        other.shut_read |= write;
        other.shut_write |= read;
        host.net.notify_socket(peer, u32::MAX);
    }
    Ok(())
}

/// The address that `getsockname` gives.
pub fn local_name(host: &Host, key: SocketKey) -> Result<RawAddress, Errno> {
    Ok(Address::raw(host.unix(key).address.as_ref()))
}

/// The address that `getpeername` gives, that of a peer which is gone included.
pub fn peer_name(host: &Host, key: SocketKey) -> Result<RawAddress, Errno> {
    if host.unix(key).peer.is_none() {
        return Err(Errno::ENOTCONN);
    }
    match host.unix_peer(key) {
        Some(peer) => Ok(Address::raw(host.unix(peer).address.as_ref())),
        None => Ok(Address::raw(host.unix(key).peer_address.as_ref())),
    }
}

/// `SO_ACCEPTCONN`.
pub fn is_listening(host: &Host, key: SocketKey) -> bool {
    match host.own.get(key) {
        Some(OwnKind::Unix(socket)) => matches!(socket.role, Role::Listening { .. }),
        _ => false,
    }
}

/// `SO_PEERCRED`: process, user and group of the peer when it connected or listened.
pub fn peer_credentials(host: &Host, key: SocketKey) -> Result<(i32, u32, u32), Errno> {
    // Linux answers for a socket without a peer too: no process and the invalid ids.
    let nobody = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let Credentials { pid, uid, gid } = host.unix(key).peer_credentials.unwrap_or(nobody);
    Ok((pid, uid, gid))
}

/// The `EPOLL*` bits that hold now, as `unix_poll` and `unix_dgram_poll` have them.
pub fn readiness(host: &Host, key: SocketKey) -> u32 {
    let Socket { type_, error, .. } = host.net.sockets[key.0];
    let mut events = if error.is_some() { EPOLLERR } else { 0 };
    let socket = host.unix(key);
    if socket.shut_read {
        events |= EPOLLRDHUP | READABLE;
    }
    if socket.shut_read && socket.shut_write {
        events |= EPOLLHUP;
    }
    let (unconnected, listening, waiting) = match &socket.role {
        Role::Listening { waiting, .. } => (false, true, !waiting.is_empty()),
        Role::Connected => (false, false, false),
        Role::Unconnected => (true, false, false),
    };
    if waiting || !socket.inbox.is_empty() {
        events |= READABLE;
    }
    if unconnected && type_ != c::SOCK_DGRAM {
        events |= EPOLLHUP;
    }
    if !listening && host.unix_has_room(key) && !(type_ == c::SOCK_DGRAM && host.unix_peer_full(key)) {
        events |= ROOM;
    }
    events
}

/// `FIONREAD`: all bytes of a connection, those of the first datagram otherwise.
pub fn readable_bytes(host: &Host, key: SocketKey) -> Result<usize, Errno> {
    let summed = host.net.sockets[key.0].type_ != c::SOCK_DGRAM;
    let socket = host.unix(key);
    if matches!(socket.role, Role::Listening { .. }) {
        return Err(Errno::EINVAL);
    }
    let mut lengths = socket.inbox.iter().map(|message| message.data.len() - message.taken);
    Ok(if summed { lengths.sum() } else { lengths.next().unwrap_or(0) })
}

/// `SIOCOUTQ`: what is charged for messages that have not been read.
pub fn unsent_bytes(host: &Host, key: SocketKey) -> Result<usize, Errno> {
    Ok(host.unix(key).charged)
}

/// The last open file is closed: the peer of a connection sees its end, or `ECONNRESET` if
/// something was left unread here.
pub fn close(host: &mut Host, key: SocketKey) {
    let type_ = host.net.socket(key).type_;
    host.forget_name(key);
    let was_full = host.unix_inbox_full(key);
    let socket = std::mem::take(host.unix_mut(key));
    // One empty packet at the head does not count: the kernel takes it for out-of-band data that was read.
    let unread = match socket.inbox.front() {
        Some(first) => socket.inbox.len() > 1 || !first.data[first.taken..].is_empty(),
        None => false,
    };
    for message in socket.inbox {
        host.settle(&message);
        for file in message.files {
            host.release_file(file);
        }
    }
    if let Role::Listening { waiting, .. } = socket.role {
        for embryo in waiting {
            refuse(host, embryo);
        }
    }
    // It may have lain in the inbox, and be closed by now.
    let peer = socket.peer.and_then(|peer| host.unix_alive(peer));
    if let Some(peer) = peer.filter(|_| type_ != c::SOCK_DGRAM) {
        let other = host.unix_mut(peer);
        other.shut_read = true;
        other.shut_write = true;
        if unread {
            host.net.socket(peer).error = Some(Errno::ECONNRESET);
        }
        host.net.notify_socket(peer, u32::MAX);
    }
    if let Some(peer) = peer {
        host.unix_mut(peer).connected_from.retain(|from| from.key != key);
    }
    // Whoever connects to a listener, or sends to a socket that is full, tries again and fails.
    host.net.notify_socket(key, u32::MAX);
    host.remove_own_socket(key);
    // Others are not told that their receiver is gone before they send.
    if was_full {
        host.wake_senders(&socket.connected_from);
    }
}

/// Ends a connection that was made and never accepted.
fn refuse(host: &mut Host, embryo: SocketKey) {
    if let Some(client) = host.unix_peer(embryo) {
        host.net.socket(client).error = Some(Errno::ECONNRESET);
    }
    close(host, embryo);
}
