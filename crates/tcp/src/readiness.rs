use bitflags::bitflags;

bitflags! {
    /// Readiness of a connection: see the table in the [crate's documentation](crate).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Readiness: u8 {
        /// `EPOLLIN`: a read would not block.
        const READABLE = 1;
        /// `EPOLLOUT`: a write would not block.
        const WRITABLE = 2;
        /// `EPOLLRDHUP`: no more data will arrive.
        const READ_CLOSED = 4;
        /// `EPOLLHUP`: both directions are closed.
        const HANG_UP = 8;
        /// `EPOLLERR`: a pending error.
        const ERROR = 16;
        /// `EPOLLPRI`: a pending urgent byte.
        const URGENT = 32;
    }

    /// Events since the last [`take_events`](crate::Connection::take_events): the points at which Linux wakes
    /// a socket's waiters, and hence the edges of edge-triggered epoll.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u16 {
        /// In-order data or a FIN arrived.
        const READABLE = 1;
        /// A third of the send buffer is free again after it was too full for a write or a poll.
        const WRITABLE = 2;
        /// The handshake completed.
        const CONNECTED = 4;
        /// The peer sent its FIN.
        const READ_CLOSED = 8;
        /// An error ended the connection, or a soft error was reported.
        const ERROR = 16;
        /// The state changed to CLOSED or TIME-WAIT: no more data will be sent or received.
        const CLOSED = 32;
        /// All data and the FIN were acknowledged, as `SO_LINGER` requires.
        const DRAINED = 64;
        /// An urgent byte arrived.
        const URGENT = 128;
        /// The peer announced an urgent byte: `SIGURG`.
        const URGENT_MARK = 256;
    }
}
