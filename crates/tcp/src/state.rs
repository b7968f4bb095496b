/// State of a connection (RFC 9293, section 3.3.2), without LISTEN: a listening socket is a
/// [`Listener`](crate::Listener), not a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

impl State {
    /// Value of `tcpi_state` and of `/proc/net/tcp` (`net/tcp_states.h`).
    pub const fn linux_number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Closing => 11,
        }
    }

    /// True if the initial sequence numbers of both sides are known and acknowledged.
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// True if new data can be added to the send buffer.
    pub const fn may_send(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }

    /// True if the peer has not sent its FIN, so that data may arrive.
    pub const fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// True if our FIN is queued or sent.
    pub const fn has_sent_fin(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait)
    }
}
