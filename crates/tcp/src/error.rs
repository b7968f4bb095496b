use thiserror::Error;

/// Error of a connection, as `SO_ERROR` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TcpError {
    /// A reset answered our SYN: `ECONNREFUSED`.
    #[error("connection refused")]
    Refused,
    /// A reset from the peer: `ECONNRESET`.
    #[error("connection reset by peer")]
    Reset,
    /// A reset after the peer's FIN was received: `EPIPE`.
    #[error("broken pipe")]
    BrokenPipe,
    /// Retransmissions, keepalive probes or the user timeout ran out: `ETIMEDOUT`.
    #[error("connection timed out")]
    TimedOut,
    /// The network said that the host cannot be reached: `EHOSTUNREACH`.
    #[error("no route to host")]
    HostUnreachable,
    /// The network said that the network cannot be reached: `ENETUNREACH`.
    #[error("network is unreachable")]
    NetworkUnreachable,
    /// The network said that it is prohibited to go there: `EACCES`.
    #[error("permission denied")]
    Prohibited,
    /// The network said that something about the packet is wrong: `EPROTO`.
    #[error("protocol error")]
    Protocol,
    /// The peer's host does not speak TCP: `ENOPROTOOPT`.
    #[error("protocol not available")]
    NoProtocol,
    /// [`abort`](crate::Connection::abort) while a call was waiting: `ECONNABORTED`.
    #[error("connection aborted")]
    Aborted,
}
