//! State of UNIX sockets, unix(7), their messages in flight, their names, and the charges for messages.
//!
//! Sockets refer to one another by key and serial number, which distinguishes a closed peer from a later
//! socket with the same key.

use crate::ids::{FileKey, InodeKey, SocketKey};
use crate::landlock::Domain;
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::Stack;
use std::collections::VecDeque;
use std::sync::Arc;

/// `sizeof(struct sk_buff)` as allocated.
const BUFFER_HEAD: usize = 256;
/// `sizeof(struct skb_shared_info)`.
const SHARED_INFO: usize = 320;
/// Bytes that a one-page buffer holds next to its shared info (`SKB_MAX_HEAD(0)`): the linear part of a
/// stream segment.
const STREAM_LINEAR: usize = PAGE - SHARED_INFO;
/// Bytes that a four-page buffer holds (`SKB_MAX_ALLOC`): the usual linear part of a message.
const MESSAGE_LINEAR: usize = 4 * PAGE - SHARED_INFO;
/// Maximum paged bytes of a stream segment (`UNIX_SKB_FRAGS_SZ`).
const STREAM_PAGED: usize = 32_768;
/// Maximum paged bytes of a message (`MAX_SKB_FRAGS`); the rest is linear.
const MESSAGE_PAGED: usize = 17 * PAGE;
const PAGE: usize = 4_096;
/// `net.unix.max_dgram_qlen` as set by systemd: maximum number of messages queued on a datagram socket.
const INBOX_MAX: usize = 512;

/// Reference to a socket that may be closed by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRef {
    /// Key.
    pub key: SocketKey,
    /// Serial number of the socket with that key.
    pub serial: u32,
}

/// Process, user and group of a sender or peer: `struct ucred`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl PeerCredentials {
    /// Credentials of a message for which neither end had set `SO_PASSCRED`: pid 0 and the overflow ids.
    pub const NOBODY: PeerCredentials = PeerCredentials { pid: 0, uid: 65_534, gid: 65_534 };
}

/// Queued message, or stream segment.
#[derive(Debug)]
pub struct UnixMessage {
    /// Payload.
    pub data: Vec<u8>,
    /// Bytes already read (streams only).
    pub taken: usize,
    /// Open files sent with the message, each retained.
    pub files: Vec<FileKey>,
    /// Credentials of the sender.
    pub credentials: PeerCredentials,
    /// Sender's address, if it was bound.
    pub source: Option<UnixAddress>,
    /// Sender.
    pub sender: PeerRef,
    /// Bytes charged to the sender.
    pub charge: usize,
}

/// Connection state of a socket.
#[derive(Debug, Default)]
pub enum UnixRole {
    /// Neither listening nor connected; datagram sockets are always in this state.
    #[default]
    Unconnected,
    /// Accepts connections; `waiting` holds the established ones that have not been accepted.
    Listening {
        /// Maximum number of connections in `waiting`.
        backlog: usize,
        /// Connections in order of arrival.
        waiting: VecDeque<SocketKey>,
    },
    /// Connected to a peer, which may be closed by now.
    Connected,
}

/// State of a UNIX socket.
#[derive(Debug, Default)]
pub struct UnixSocket {
    /// Address, if it is bound.
    pub address: Option<UnixAddress>,
    /// Inode that it is bound to.
    pub inode: Option<InodeKey>,
    /// Inode number and device of the file that the address, or the listener's address, names.
    pub file: Option<(u64, u64)>,
    /// Connection state.
    pub role: UnixRole,
    /// True if the socket belongs to a connection that has not been accepted.
    pub embryo: bool,
    /// Peer.
    pub peer: Option<PeerRef>,
    /// Last known address of the peer.
    pub peer_address: Option<UnixAddress>,
    /// Credentials that the peer reported.
    pub peer_credentials: Option<PeerCredentials>,
    /// Credentials reported to the peer: those of the process that called `listen(2)`, `connect(2)` or
    /// `socketpair(2)`.
    pub credentials: PeerCredentials,
    /// Messages that have arrived and not been read.
    pub inbox: VecDeque<UnixMessage>,
    /// Total charge in bytes of messages sent and not yet read.
    pub charged: usize,
    /// True if the socket is shut for reading.
    pub shut_read: bool,
    /// True if the socket is shut for writing.
    pub shut_write: bool,
    /// Landlock domain of the process that called `bind(2)`.
    pub restrictions: Option<Arc<Domain>>,
    /// Datagram sockets connected to this one; notified when it has room.
    pub connected_from: Vec<PeerRef>,
}

impl PeerRef {
    /// Reference to a socket, valid to hold after the socket is closed.
    #[inline]
    pub fn to(net: &Stack, key: SocketKey) -> PeerRef {
        PeerRef { key, serial: net.sockets[key.0].serial }
    }
    /// Key of the socket if it still exists.
    #[inline]
    pub fn alive(self, net: &Stack) -> Option<SocketKey> {
        net.sockets.get(self.key.0).filter(|socket| socket.serial == self.serial).map(|_| self.key)
    }
}

impl UnixSocket {
    /// True if it accepts connections.
    pub fn is_listening(&self) -> bool {
        matches!(self.role, UnixRole::Listening { .. })
    }
    /// Connections that have not been accepted.
    pub fn waiting(&self) -> Vec<SocketKey> {
        match &self.role {
            UnixRole::Listening { waiting, .. } => waiting.iter().copied().collect(),
            _ => Vec::new(),
        }
    }
    /// True if its queue is full (`unix_recvq_full`).
    pub fn is_full(&self) -> bool {
        match &self.role {
            UnixRole::Listening { backlog, waiting } => waiting.len() > *backlog,
            _ => self.inbox.len() > INBOX_MAX,
        }
    }
    /// Bytes that can be read: all of a connection's, or those of the first datagram. `EINVAL` for a listening
    /// socket.
    pub fn readable(&self, datagrams: bool) -> Result<usize, Errno> {
        if self.is_listening() {
            return Err(Errno::EINVAL);
        }
        let mut lengths = self.inbox.iter().map(|message| message.data.len() - message.taken);
        Ok(if datagrams { lengths.next().unwrap_or(0) } else { lengths.sum() })
    }
    /// True if it has unread data. A single empty packet does not count: Linux takes it for out-of-band data
    /// that was read.
    pub fn has_unread(&self) -> bool {
        self.inbox.front().is_some_and(|first| self.inbox.len() > 1 || !first.data[first.taken..].is_empty())
    }
}

/// Scope of abstract names: network and socket type.
pub type UnixScope = (u32, i32);

/// Bound UNIX sockets of a host.
#[derive(Debug, Default)]
pub struct UnixNames {
    /// Abstract names, by scope and name.
    in_abstract: Map<(UnixScope, Vec<u8>), PeerRef>,
    by_inode: Map<InodeKey, PeerRef>,
    next_automatic: u32,
}

impl UnixNames {
    /// Binds a socket to an abstract name: `EADDRINUSE` if it is taken.
    pub fn bind_abstract(&mut self, scope: UnixScope, name: &[u8], socket: PeerRef) -> Result<(), Errno> {
        let name = (scope, name.to_vec());
        if self.in_abstract.contains_key(&name) {
            return Err(Errno::EADDRINUSE);
        }
        self.in_abstract.insert(name, socket);
        Ok(())
    }
    /// Binds a socket to a free abstract name of five hexadecimal digits, which is returned.
    pub fn bind_free(&mut self, scope: UnixScope, socket: PeerRef) -> Vec<u8> {
        loop {
            let name = format!("{:05x}", self.next_automatic & 0xf_ffff).into_bytes();
            self.next_automatic = self.next_automatic.wrapping_add(1);
            if self.bind_abstract(scope, &name, socket).is_ok() {
                return name;
            }
        }
    }
    /// Binds a socket to the inode of its node in the file tree.
    pub fn bind_inode(&mut self, inode: InodeKey, socket: PeerRef) {
        self.by_inode.insert(inode, socket);
    }
    /// Socket bound to an abstract name.
    pub fn in_abstract(&self, scope: UnixScope, name: &[u8]) -> Option<PeerRef> {
        self.in_abstract.get(&(scope, name.to_vec())).copied()
    }
    /// Socket bound to an inode.
    pub fn at_inode(&self, inode: InodeKey) -> Option<PeerRef> {
        self.by_inode.get(&inode).copied()
    }
    /// Releases an abstract name if it is this socket's. An accepted connection has its listener's name without
    /// owning it.
    pub fn release_abstract(&mut self, scope: UnixScope, name: &[u8], socket: PeerRef) {
        let name = (scope, name.to_vec());
        if self.in_abstract.get(&name) == Some(&socket) {
            self.in_abstract.remove(&name);
        }
    }
    /// Releases the name of an inode.
    pub fn release_inode(&mut self, inode: InodeKey) {
        self.by_inode.remove(&inode);
    }
}

/// Linux's charge for a message of `len` bytes (`skb->truesize`), in bytes.
pub fn charge(len: usize, stream: bool) -> usize {
    let (linear, most) = if stream { (STREAM_LINEAR, STREAM_PAGED) } else { (MESSAGE_LINEAR, MESSAGE_PAGED) };
    let paged = len.saturating_sub(linear).min(most).next_multiple_of(PAGE);
    let linear = len.saturating_sub(paged);
    BUFFER_HEAD + (linear.next_multiple_of(64) + SHARED_INFO).next_power_of_two() + paged
}

/// Maximum length in bytes of a stream segment for a socket with this `SO_SNDBUF`.
pub fn piece_max(send_buffer: usize) -> usize {
    (send_buffer / 2 - 64).min(STREAM_LINEAR + STREAM_PAGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_of_linux() {
        // Ratio of SIOCOUTQ to the number of sends until EAGAIN, measured on Linux 6.18.
        for (len, stream, message) in [
            (1, 768, 768),
            (192, 768, 768),
            (193, 1_280, 1_280),
            (1_000, 2_304, 2_304),
            (3_776, 4_352, 4_352),
            (3_777, 4_864, 8_448),
            (5_000, 6_400, 8_448),
            (8_192, 8_960, 16_640),
            (30_000, 30_976, 33_024),
            (36_544, 37_120, 37_120),
        ] {
            assert_eq!((charge(len, true), charge(len, false)), (stream, message), "{len} bytes");
        }
        assert_eq!(charge(65_536, false), 69_888);
        assert_eq!(charge(200_000, false), 200_960);
        assert_eq!(charge(212_960, false), 332_032);
    }

    #[test]
    fn an_abstract_name_has_one_owner_in_its_scope() {
        let [own, other] = [1, 2].map(|serial| PeerRef { key: SocketKey::default(), serial });
        let mut names = UnixNames::default();
        assert_eq!(names.bind_free((0, 1), own), b"00000");
        assert_eq!(names.bind_abstract((0, 1), b"00000", other), Err(Errno::EADDRINUSE));
        assert_eq!(names.bind_abstract((0, 2), b"00000", other), Ok(()));
        names.release_abstract((0, 1), b"00000", other);
        assert_eq!(names.in_abstract((0, 1), b"00000"), Some(own));
        names.release_abstract((0, 1), b"00000", own);
        assert_eq!(names.in_abstract((0, 1), b"00000"), None);
        assert_eq!(names.bind_free((0, 1), other), b"00001");
    }
}
