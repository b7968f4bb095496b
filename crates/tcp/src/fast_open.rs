//! TCP Fast Open (RFC 7413) as Linux does it: data in the SYN, which a server delivers to its program and
//! answers before the handshake is complete if the SYN carries a valid cookie. The caller manages the
//! cookies: it stores those of servers, and generates and verifies its own.

use crate::connection::Connection;
use crate::received::Payload;
use crate::{Config, Events, Repr, State, seq64};
use belljar_base::SimTime;
use belljar_wire::tcp::FastOpen;
use std::net::SocketAddr;

/// Bytes that a SYN with data leaves free for options that middleboxes may add (Linux's
/// `MAX_TCP_OPTION_SPACE`).
const OPTION_SPACE: usize = 40;
/// Maximum length of the data in a SYN, in bytes; Linux holds it in one page fragment
/// (`SKB_FRAG_PAGE_ORDER`).
const SYN_DATA_MAX: usize = 32_768;

/// Reason for which data was not sent in the SYN or not accepted there (`tcpi_fastopen_client_fail`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastOpenFailure {
    /// The data was accepted, or Fast Open was not requested.
    #[default]
    None,
    /// There was no cookie for the server.
    CookieUnavailable,
    /// The SYN-ACK acknowledged only the SYN.
    DataNotAcknowledged,
    /// The SYN had to be sent again.
    SynRetransmitted,
}

/// Fast Open option of a server's SYN-ACK, to be cached for the next connection to that server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenAnswer {
    /// MSS that the server announced.
    pub mss: u16,
    /// Cookie that the server issued.
    pub cookie: Option<FastOpen>,
    /// Nonzero if the server was asked for a cookie and issued none: 1, or 2 for a request in the
    /// experimental form.
    pub refused: u8,
}

/// Fast Open state of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct FastOpening {
    /// Option that our SYN or SYN-ACK carries.
    pub option: Option<FastOpen>,
    /// True if the SYN is held back until there is data for it.
    pub deferred: bool,
    /// `Some` if our SYN carried the option; true if in its experimental form.
    pub asked: Option<bool>,
    /// True if our SYN carried data.
    pub sent_data: bool,
    /// True if the receiver accepted the data in the SYN.
    pub data_taken: bool,
    /// True if the connection was opened by a SYN with a cookie.
    pub child: bool,
    /// True if the SYN-ACK of a Fast Open connection is not acknowledged yet.
    pub unconfirmed: bool,
    pub failure: FastOpenFailure,
    pub answer: Option<FastOpenAnswer>,
    /// True if timeouts indicate a middlebox that drops Fast Open connections.
    pub black_hole: bool,
}

impl FastOpening {
    /// Suspects a black hole after the third timeout in succession, or after the last
    /// (`tcp_fastopen_active_detect_blackhole`).
    pub(crate) fn suspect(&mut self, timeouts: u8, exhausted: bool) {
        let used = self.asked.is_some() || self.sent_data || self.data_taken;
        self.black_hole |= used && (timeouts == 2 || (timeouts < 2 && exhausted));
    }
}

impl Connection {
    /// Holds back the SYN of [`connect`](Self::connect) until [`fast_open`](Self::fast_open) supplies its
    /// data (`TCP_FASTOPEN_CONNECT`).
    pub fn defer(&mut self) {
        self.pending.syn = false;
        self.fast_open.deferred = true;
    }

    /// True if the SYN is held back.
    pub fn is_deferred(&self) -> bool {
        self.fast_open.deferred
    }

    /// Puts `option` into the SYN, which must not have been transmitted yet. With a cookie, or with `None`
    /// (data without a cookie), the SYN also carries as much of `data` as fits; `mss` is the MSS cached for
    /// the server. Returns the number of bytes added to the send buffer.
    /// [`take_fast_open_answer`](Self::take_fast_open_answer) returns the server's answer.
    pub fn fast_open(
        &mut self,
        option: Option<FastOpen>,
        mss: Option<u16>,
        data: &[u8],
        now: SimTime,
    ) -> usize {
        self.fast_open.deferred = false;
        self.opened_at = now;
        self.pending.syn = true;
        self.fast_open.option = option;
        self.fast_open.asked = option.map(|option| option.experimental);
        if option.is_some_and(|option| option.is_request()) {
            self.fast_open.failure = FastOpenFailure::CookieUnavailable;
            return 0;
        }
        self.tx.snd.mss_limit = mss.unwrap_or(u16::MAX).min(self.tx.config.send_mss());
        self.tx.set_mss();
        let room = usize::from(self.tx.snd.mss_limit).saturating_sub(OPTION_SPACE).min(SYN_DATA_MAX);
        let mut taken = 0;
        while taken < data.len().min(room) {
            match self.tx.snd.write(&data[taken..data.len().min(room)]) {
                0 => break,
                n => taken += n,
            }
        }
        self.tx.snd.push_after(true);
        self.fast_open.sent_data = taken > 0;
        taken
    }

    /// True, once, if timeouts indicate a middlebox that drops Fast Open connections.
    pub fn take_fast_open_black_hole(&mut self) -> bool {
        std::mem::take(&mut self.fast_open.black_hole)
    }

    /// Outcome of data in the SYN.
    pub fn fast_open_failure(&self) -> FastOpenFailure {
        self.fast_open.failure
    }

    /// True if the data in the SYN, ours or the peer's, was accepted.
    pub fn syn_data_taken(&self) -> bool {
        self.fast_open.data_taken
    }

    /// The Fast Open answer of the server's SYN-ACK, returned once.
    pub fn take_fast_open_answer(&mut self) -> Option<FastOpenAnswer> {
        self.fast_open.answer.take()
    }

    /// The sequence range of the data that the SYN carries, empty for a retransmission. The data counts as in
    /// flight from then on.
    pub(crate) fn syn_payload(&mut self, now: SimTime) -> (u64, u64) {
        let (start, end) = (self.tx.snd.initial + 1, self.tx.snd.data_end());
        if !self.fast_open.sent_data || self.tx.recovery.timeouts > 0 || end == start {
            return (0, 0);
        }
        let rate = self.tx.delivery.stamp(true, now);
        self.tx.snd.flight.push(start, end, now, rate);
        self.tx.snd.nxt = end;
        self.tx.stats.data_sent_at = now;
        self.tx.stats.data_segments_out = self.tx.stats.data_segments_out.wrapping_add(1);
        self.tx.stats.bytes_sent += end - start;
        (start, end)
    }

    /// Processes the SYN-ACK that answers a SYN with the option or with data (`tcp_rcv_fastopen_synack`).
    /// False if the data must be retransmitted; the caller then does nothing else.
    pub(crate) fn on_fast_open_answer(&mut self, segment: &Repr) -> bool {
        if self.fast_open.asked.is_none() && !self.fast_open.sent_data {
            return true;
        }
        let ack = seq64::unwrap(segment.ack, self.tx.snd.nxt);
        while self.tx.snd.flight.pop_acked(ack).is_some() {}
        self.tx.stats.bytes_acked += ack - self.tx.snd.una;
        let freed = self.tx.snd.release(ack);
        if freed > 0 {
            self.wake_writer();
        }
        let retransmitted = self.tx.stats.total_retransmitted > 0;
        let asked = self.fast_open.asked;
        let cookie =
            segment.options.fast_open.filter(|option| asked.is_some() && !option.cookie().is_empty());
        let refused = match asked {
            Some(experimental) if !retransmitted && cookie.is_none() && !self.fast_open.sent_data => {
                1 + u8::from(experimental)
            }
            _ => 0,
        };
        self.fast_open.answer = Some(FastOpenAnswer { mss: self.tx.snd.mss_limit, cookie, refused });
        if self.tx.snd.flight.is_empty() {
            self.fast_open.data_taken = self.fast_open.sent_data;
            return true;
        }
        self.fast_open.failure = if retransmitted {
            FastOpenFailure::SynRetransmitted
        } else {
            FastOpenFailure::DataNotAcknowledged
        };
        for index in 0..self.tx.snd.flight.len() as usize {
            self.tx.snd.flight.mark_lost(index);
        }
        self.tx.enter_loss_without_reduction();
        false
    }

    /// Opens a connection passively for a SYN with a valid cookie. The connection is in SYN-RECEIVED with its
    /// SYN-ACK pending, and the program may read `payload` and write at once. `syn` must have SYN and neither
    /// ACK, RST nor FIN. `option` is the option of the SYN-ACK.
    #[allow(clippy::too_many_arguments)]
    pub fn accept_fast_open(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Repr,
        payload: &[u8],
        option: Option<FastOpen>,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        let mut connection = Connection::accept_syn(config, local, remote, syn, isn, now);
        connection.fast_open = FastOpening {
            option,
            child: true,
            unconfirmed: true,
            data_taken: !payload.is_empty(),
            ..FastOpening::default()
        };
        connection.tx.snd.una = connection.tx.snd.initial + 1;
        connection.tx.snd.nxt = connection.tx.snd.una;
        if !payload.is_empty() {
            let _ = connection.rcv.insert(connection.rcv.nxt, &mut Payload::Lent(payload), false);
            connection.rcv.acked = connection.rcv.nxt;
            connection.stats.data_segments_in = 1;
            connection.events |= Events::READABLE;
        }
        let synchronised = connection.may_exchange();
        connection.tx.start_congestion_control(synchronised, now);
        connection.tx.rtt.fall_back();
        connection
    }

    /// Puts a cookie into the SYN-ACK of [`accept_syn`](Self::accept_syn).
    pub fn give_cookie(&mut self, option: FastOpen) {
        self.fast_open.option = Some(option);
    }

    /// True if a SYN with a cookie opened the connection and the SYN-ACK is not acknowledged yet.
    pub fn is_unconfirmed(&self) -> bool {
        self.fast_open.unconfirmed
    }

    /// True if data may be sent and received: after the handshake, or during it with Fast Open.
    pub(crate) fn may_exchange(&self) -> bool {
        self.state.is_synchronised() || self.fast_open.unconfirmed && self.state == State::SynReceived
    }
}
