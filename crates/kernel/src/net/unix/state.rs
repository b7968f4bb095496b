//! State of UNIX sockets, their messages in flight, and their names.

use crate::ids::{FileKey, InodeKey, SocketKey};
use belljar_base::Map;
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::Stack;
use belljar_objects::landlock::Domain;
use std::collections::VecDeque;
use std::sync::Arc;

/// Reference to a socket that may be closed by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRef {
    pub(super) key: SocketKey,
    pub(super) serial: u32,
}

/// Process, user and group of a sender or peer: `struct ucred`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCredentials {
    pub(super) pid: i32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl PeerCredentials {
    /// Credentials of a message for which neither end had set `SO_PASSCRED`: pid 0 and the overflow ids.
    pub(super) const NOBODY: PeerCredentials = PeerCredentials { pid: 0, uid: 65_534, gid: 65_534 };
}

/// Queued message, or stream segment.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) data: Vec<u8>,
    /// Bytes already read (streams only).
    pub(super) taken: usize,
    /// Open files sent with the message, each retained.
    pub(super) files: Vec<FileKey>,
    pub(super) credentials: PeerCredentials,
    /// Sender's address, if it was bound.
    pub(super) source: Option<UnixAddress>,
    pub(super) sender: PeerRef,
    /// Bytes charged to the sender.
    pub(super) charge: usize,
}

/// Connection state of a socket.
#[derive(Debug, Default)]
pub(super) enum Role {
    /// Neither listening nor connected; datagram sockets are always in this state.
    #[default]
    Unconnected,
    /// Accepts connections; `waiting` holds the established ones that have not been accepted.
    Listening { backlog: usize, waiting: VecDeque<SocketKey> },
    /// Connected to a peer, which may be closed by now.
    Connected,
}

/// State of a UNIX socket.
#[derive(Debug, Default)]
pub struct UnixSocket {
    pub(super) address: Option<UnixAddress>,
    pub(super) inode: Option<InodeKey>,
    /// Inode number and device of the file that the address, or the listener's address, names.
    pub(super) file: Option<(u64, u64)>,
    pub(super) role: Role,
    /// The socket belongs to a connection that has not been accepted.
    pub(super) embryo: bool,
    pub(super) peer: Option<PeerRef>,
    pub(super) peer_address: Option<UnixAddress>,
    pub(super) peer_credentials: Option<PeerCredentials>,
    /// Credentials reported to the peer: those of the process that called `listen(2)`, `connect(2)` or
    /// `socketpair(2)`.
    pub(super) credentials: PeerCredentials,
    pub(super) inbox: VecDeque<Message>,
    /// Total charge in bytes of messages sent and not yet read.
    pub(super) charged: usize,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    /// Landlock domain of the process that called `bind(2)`.
    pub(super) restrictions: Option<Arc<Domain>>,
    /// Datagram sockets connected to this one; notified when it has room.
    pub(super) connected_from: Vec<PeerRef>,
}

impl PeerRef {
    /// Reference to a socket, valid to hold after the socket is closed.
    pub(super) fn to(net: &Stack, key: SocketKey) -> PeerRef {
        PeerRef { key, serial: net.sockets[key.0].serial }
    }
    /// Key of the socket if it still exists.
    pub(super) fn alive(self, net: &Stack) -> Option<SocketKey> {
        net.sockets.get(self.key.0).filter(|socket| socket.serial == self.serial).map(|_| self.key)
    }
}

/// Bound UNIX sockets of a host.
#[derive(Debug, Default)]
pub struct UnixNames {
    /// Abstract names, by network, socket type and name.
    pub(super) in_abstract: Map<(u32, i32, Vec<u8>), PeerRef>,
    pub(super) by_inode: Map<InodeKey, PeerRef>,
    pub(super) next_automatic: u32,
}
