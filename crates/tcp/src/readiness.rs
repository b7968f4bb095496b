use bitflags::bitflags;

bitflags! {
    /// Readiness of a connection: see the table in the [crate's documentation](crate).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Readiness: u8 {
        /// `EPOLLIN`: a read would not block.
        const READABLE = 1;
        /// `EPOLLOUT`: a write would not block.
        const WRITABLE = 2;
        /// `EPOLLRDHUP`: nothing more will arrive.
        const READ_CLOSED = 4;
        /// `EPOLLHUP`: both directions are closed.
        const HANG_UP = 8;
        /// `EPOLLERR`: an error waits to be taken.
        const ERROR = 16;
        /// `EPOLLPRI`: an urgent byte waits to be taken.
        const URGENT = 32;
    }

    /// Events since the last [`take_events`](crate::Connection::take_events): the points at
    /// which Linux wakes a socket's waiters, and so the edges of edge-triggered epoll.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u16 {
        /// In-order data arrived, or the peer's FIN.
        const READABLE = 1;
        /// The send buffer was too full for a write or a poll, and a third of it is free again.
        const WRITABLE = 2;
        /// The handshake is complete.
        const CONNECTED = 4;
        /// The peer sent its FIN.
        const READ_CLOSED = 8;
        /// An error ended the connection (or a soft one was reported).
        const ERROR = 16;
        /// The state became CLOSED or TIME-WAIT: nothing will be sent or received any more.
        const CLOSED = 32;
        /// Everything sent, FIN included, was acknowledged: what `SO_LINGER` waits for.
        const DRAINED = 64;
        /// An urgent byte has arrived.
        const URGENT = 128;
        /// The peer has announced one: `SIGURG`.
        const URGENT_MARK = 256;
    }
}
