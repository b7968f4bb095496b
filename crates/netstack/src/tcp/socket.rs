//! State of a TCP socket.

use super::TcpOptions;
use super::fast_open::FastOpenQueue;
use crate::endpoint::Bound;
use crate::error_queue::ErrorQueue;
use crate::ip::IpOptions;
use crate::{SocketKey, TimerId};
use belljar_linux_abi::Errno;
use belljar_tcp::{Connection, Listener, State, TcpError};
use std::net::SocketAddr;

/// State of a TCP socket.
#[derive(Default)]
pub struct TcpSocket {
    /// The local endpoint, if bound.
    pub bound: Option<Bound>,
    /// The previous local endpoint of a socket that is no longer bound.
    pub former_name: Option<SocketAddr>,
    /// True if the local endpoint was bound after the end of the connection.
    pub is_renamed: bool,
    /// The role of the socket.
    pub role: Role,
    /// Options of level `IPPROTO_TCP`.
    pub options: TcpOptions,
    /// Options of the levels IPPROTO_IP and IPPROTO_IPV6.
    pub ip: IpOptions,
    /// The timer of the connection.
    pub timer: Option<TimerId>,
    /// Bytes of the connection's packets in the interface's queue.
    pub in_device: usize,
    /// The `EPOLL*` bits of the connection at the last evaluation.
    pub ready: u32,
    /// True after `connect` has started a handshake until it has reported the result.
    pub connecting: bool,
    /// The listener at which the connection waits to be accepted.
    pub parent: Option<SocketKey>,
    /// True if the connection is in the listener's accept queue.
    pub queued_for_accept: bool,
    /// For a connection opened by a SYN with a Fast Open cookie that waits for its ACK: the listener, with
    /// its serial number.
    pub fast_open_listener: Option<(SocketKey, u32)>,
    /// A listener's state of Fast Open connections.
    pub fast_open_queue: FastOpenQueue,
    /// Retransmissions and timeouts of the connection already added to the host's counters.
    pub counted: (u32, u32),
    /// True if the failure of the connection has been counted.
    pub failure_counted: bool,
    /// Directions shut by `shutdown(2)` without a connection: reading, writing.
    pub shut: (bool, bool),
    /// True if `shutdown(2)` followed a failed handshake whose error was not yet reported: the socket cannot
    /// connect again (`SS_DISCONNECTING`).
    pub disconnecting: bool,
    /// True if the last file of the socket is closed.
    pub orphan: bool,
    /// True if Linux would have replaced the socket by a smaller one (`inet_timewait_sock`): at the last
    /// evaluation it was in TIME-WAIT, or an orphan in FIN-WAIT-2.
    pub is_remainder: bool,
    /// The error queue (`MSG_ERRQUEUE`).
    pub errors: ErrorQueue,
}

/// The role of a TCP socket.
#[derive(Default)]
pub enum Role {
    /// Neither a listener nor connected.
    #[default]
    Idle,
    /// A listener.
    Listening(Listener<SocketKey>),
    /// A socket with a connection, in any state.
    Connection(Box<Connection>),
}

impl TcpSocket {
    /// The connection, if the socket has one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.role {
            Role::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// True if the accept queue of a listener has room.
    pub fn has_accept_room(&self) -> bool {
        match &self.role {
            Role::Listening(queues) => queues.has_room(),
            _ => true,
        }
    }

    /// True if the socket has a connection in state ESTABLISHED.
    pub fn is_established(&self) -> bool {
        matches!(&self.role, Role::Connection(connection) if connection.state() == State::Established)
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
