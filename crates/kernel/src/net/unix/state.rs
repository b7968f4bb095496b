//! State of UNIX sockets: what each keeps, messages on their way, and names.

use crate::ids::{FileKey, InodeKey, SocketKey};
use belljar_base::Map;
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::Stack;
use belljar_objects::landlock::Domain;
use std::collections::VecDeque;
use std::sync::Arc;

/// A reference to a socket that may be gone.
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
    /// The credentials of a message whose sender and receiver had not asked for them: the overflow ids.
    pub(super) const NOBODY: PeerCredentials = PeerCredentials { pid: 0, uid: 65_534, gid: 65_534 };
}

/// A message, or a piece of a stream, on its way.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) data: Vec<u8>,
    /// Bytes of it already read (streams only).
    pub(super) taken: usize,
    /// Open files that travel with it, each with a reference of its own.
    pub(super) files: Vec<FileKey>,
    pub(super) credentials: PeerCredentials,
    /// Where it came from, if that had a name.
    pub(super) source: Option<UnixAddress>,
    pub(super) sender: PeerRef,
    /// Its charge to the sender.
    pub(super) charge: usize,
}

/// A socket's role.
#[derive(Debug, Default)]
pub(super) enum Role {
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
    pub(super) address: Option<UnixAddress>,
    pub(super) inode: Option<InodeKey>,
    /// Number and device of the file that its address, or the one it was accepted at, names.
    pub(super) file: Option<(u64, u64)>,
    pub(super) role: Role,
    /// It was made by a connection that has not been accepted.
    pub(super) embryo: bool,
    pub(super) peer: Option<PeerRef>,
    pub(super) peer_address: Option<UnixAddress>,
    pub(super) peer_credentials: Option<PeerCredentials>,
    /// Whom a client sees as its peer: who called `listen`.
    pub(super) credentials: PeerCredentials,
    pub(super) inbox: VecDeque<Message>,
    /// Charges for messages sent and not yet read.
    pub(super) charged: usize,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    /// The restrictions of whoever gave it its name.
    pub(super) restrictions: Option<Arc<Domain>>,
    /// Datagram sockets that have this one as their peer: they have room when it has.
    pub(super) connected_from: Vec<PeerRef>,
}

impl PeerRef {
    /// A reference to a socket that outlives it.
    pub(super) fn to(net: &Stack, key: SocketKey) -> PeerRef {
        PeerRef { key, serial: net.sockets[key.0].serial }
    }
    /// The socket if it still exists.
    pub(super) fn alive(self, net: &Stack) -> Option<SocketKey> {
        net.sockets.get(self.key.0).filter(|socket| socket.serial == self.serial).map(|_| self.key)
    }
}

/// The sockets of a host that have names.
#[derive(Debug, Default)]
pub struct UnixNames {
    /// Each network and type of socket has names of its own here.
    pub(super) in_abstract: Map<(u32, i32, Vec<u8>), PeerRef>,
    pub(super) by_inode: Map<InodeKey, PeerRef>,
    pub(super) next_automatic: u32,
}
