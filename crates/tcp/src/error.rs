use thiserror::Error;

/// Error of a connection, as `SO_ERROR` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TcpError {
    /// A reset in response to our SYN: `ECONNREFUSED`.
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
    /// ICMP error: host unreachable, `EHOSTUNREACH`.
    #[error("no route to host")]
    HostUnreachable,
    /// ICMP error: network unreachable, `ENETUNREACH`.
    #[error("network is unreachable")]
    NetworkUnreachable,
    /// ICMP error: communication prohibited, `EACCES`.
    #[error("permission denied")]
    Prohibited,
    /// ICMP error: malformed packet, `EPROTO`.
    #[error("protocol error")]
    Protocol,
    /// ICMP error: protocol unreachable, `ENOPROTOOPT`.
    #[error("protocol not available")]
    NoProtocol,
    /// [`abort`](crate::Connection::abort) during a blocked call: `ECONNABORTED`.
    #[error("connection aborted")]
    Aborted,
}
