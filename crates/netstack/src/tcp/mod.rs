//! Sockets over `belljar_tcp`, tcp(7): the tables of connections and listeners, and the calls.
//!
//! A socket that has a connection goes on living when its last file is closed, as an orphan, until
//! the connection is finished; one that was started by a listener lives from its SYN on.

mod calls;
mod connect;
mod cookie;
pub mod fast_open;
mod input;
mod listen;
mod options;
mod pump;
mod table;
mod transfer;

pub use calls::{
    close, create, is_at_mark, local_name, never_sent_bytes, peer_name, readable_bytes, readiness,
    unsent_bytes,
};
pub use options::TcpOptions;
pub use table::TcpTable;

use self::fast_open::FastOpenQueue;
use super::bind::Bound;
use super::error_queue::ErrorQueue;
use super::ip::IpOptions;
use crate::SocketKey;
use crate::TimerId;
use belljar_linux_abi::Errno;
use belljar_tcp::{Connection, Listener, TcpError};
use std::net::SocketAddr;

/// State of a TCP socket.
#[derive(Default)]
pub struct TcpSocket {
    /// Its local end, once it has one.
    pub bound: Option<Bound>,
    /// The local end that it had before, while it has none.
    pub former_name: Option<SocketAddr>,
    /// Its local end was bound when its connection had ended.
    pub is_renamed: bool,
    /// Its role.
    pub role: Role,
    /// Options of level `IPPROTO_TCP`.
    pub options: TcpOptions,
    /// Options of the IP levels.
    pub ip: IpOptions,
    /// The timer of its connection.
    pub timer: Option<TimerId>,
    /// Bytes of its packets in the interface's queue.
    pub in_device: usize,
    /// The `EPOLL*` bits of its connection when it was last looked at.
    pub ready: u32,
    /// Its handshake was begun by `connect` and its end has not been reported by `connect`.
    pub connecting: bool,
    /// The listener that it waits to be accepted at.
    pub parent: Option<SocketKey>,
    /// It is in the listener's accept queue.
    pub queued_for_accept: bool,
    /// It was opened by a SYN with a Fast Open cookie at this listener, by its serial number, and waits for its ACK.
    pub fast_open_listener: Option<(SocketKey, u32)>,
    /// A listener's state of such connections.
    pub fast_open_queue: FastOpenQueue,
    /// Retransmissions and timeouts of its connection that the host's counters have.
    pub counted: (u32, u32),
    /// The failure of its connection is counted.
    pub failure_counted: bool,
    /// Directions that `shutdown(2)` has shut while there was no connection: reading, writing.
    pub shut: (bool, bool),
    /// `shutdown(2)` came when its handshake had failed and nobody had asked: it connects no more (`SS_DISCONNECTING`).
    pub disconnecting: bool,
    /// Its last file is closed.
    pub orphan: bool,
    /// Linux would have replaced its socket by a smaller one (`inet_timewait_sock`): it was in TIME-WAIT when it was last looked at, or
    /// without a file in FIN-WAIT-2.
    pub is_remainder: bool,
    /// The error queue (`MSG_ERRQUEUE`).
    pub errors: ErrorQueue,
}

/// The role of a TCP socket.
#[derive(Default)]
pub enum Role {
    /// Neither of the others yet, or no longer.
    #[default]
    Idle,
    /// It listens.
    Listening(Listener<SocketKey>),
    /// It has a connection, in whatever state.
    Connection(Box<Connection>),
}

impl TcpSocket {
    /// Its connection.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.role {
            Role::Connection(connection) => Some(connection),
            _ => None,
        }
    }
}

impl std::fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = match &self.role {
            Role::Idle => "idle".to_owned(),
            Role::Listening(listener) => format!("listening {:?}", listener.queue_lengths()),
            Role::Connection(connection) => format!("{:?}", connection.state()),
        };
        f.debug_struct("TcpSocket").field("bound", &self.bound).field("role", &role).finish_non_exhaustive()
    }
}

/// The errno of a connection's error.
pub fn errno(error: TcpError) -> Errno {
    match error {
        TcpError::Refused => Errno::ECONNREFUSED,
        TcpError::Reset => Errno::ECONNRESET,
        TcpError::BrokenPipe => Errno::EPIPE,
        TcpError::TimedOut => Errno::ETIMEDOUT,
        TcpError::HostUnreachable => Errno::EHOSTUNREACH,
        TcpError::Prohibited => Errno::EACCES,
        TcpError::Protocol => Errno::EPROTO,
        TcpError::NetworkUnreachable => Errno::ENETUNREACH,
        TcpError::NoProtocol => Errno::ENOPROTOOPT,
        TcpError::Aborted => Errno::ECONNABORTED,
    }
}
