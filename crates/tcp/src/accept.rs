//! The passive open: SYN-RECEIVED.

use crate::connection::Connection;
use crate::input::CHALLENGE_INTERVAL;
use crate::{Config, Flags, Repr, State, TcpError, seq64};
use belljar_base::SimTime;
use std::net::SocketAddr;

/// Disposition of a segment in SYN-RECEIVED.
pub(crate) enum Handshake {
    /// The segment was processed completely.
    Done,
    /// The segment acknowledges our SYN; processing continues as in ESTABLISHED.
    Complete,
}

impl Connection {
    /// Opens a connection passively for `syn`, which arrived at `local` from `remote`. The connection is in
    /// SYN-RECEIVED, with its SYN-ACK pending. `syn` must have SYN and neither ACK nor RST.
    pub fn accept_syn(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Repr,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        let mut connection = Connection::new(config, local, remote, isn, State::SynReceived, now);
        connection.passive = true;
        connection.take_syn(syn, now);
        connection.rcv.fit_window();
        connection.pending.syn = true;
        connection.stats.segments_in = 1;
        connection
    }

    /// Opens a connection passively for the ACK of a SYN cookie, from which the caller has reconstructed the
    /// SYN. The connection is in SYN-RECEIVED; its SYN-ACK was sent at an unknown time.
    pub fn accept_cookie(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Repr,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        let mut connection = Connection::accept_syn(config, local, remote, syn, isn, now);
        connection.pending.syn = false;
        connection.tx.snd.nxt = connection.tx.snd.initial + 1;
        connection.from_cookie = true;
        connection
    }

    /// Processes a segment in SYN-RECEIVED that passed the checks of sequence, RST and timestamps.
    pub(crate) fn on_segment_syn_received(
        &mut self,
        segment: &Repr,
        payload_len: usize,
        now: SimTime,
    ) -> Handshake {
        let ack = seq64::unwrap(segment.ack, self.tx.snd.nxt);
        // RFC 9293, section 3.10.7.4: "If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state
        // [..] If the segment acknowledgment is not acceptable, form a reset segment
        // <SEQ=SEG.ACK><CTL=RST> and send it."
        if ack <= self.tx.snd.initial || ack > self.tx.snd.nxt {
            self.pending.reset = crate::reset_for(segment, payload_len);
            return Handshake::Done;
        }
        self.tx.snd.release(self.tx.snd.initial + 1);
        let data_acknowledged = ack > self.tx.snd.initial + 1;
        if !self.from_cookie && !data_acknowledged {
            self.tx.sample_handshake(segment, now);
        }
        let fast = self.fast_open.unconfirmed;
        self.establish(now);
        let window = u64::from(segment.window);
        // RFC 7323, section 2.2: the window of a SYN is not scaled.
        self.tx.snd.window = if segment.has(Flags::SYN) { window } else { window << self.tx.snd.scale };
        // Linux: a passive open discards the window of the SYN.
        let before = if self.passive && !fast { 0 } else { self.tx.snd.max_window };
        self.tx.snd.max_window = before.max(self.tx.snd.window);
        self.tx.set_mss();
        self.tx.begin_mtu_search(now);
        self.tx.end_handshake_loss();
        self.tx.rearm_rto(now);
        Handshake::Complete
    }

    /// Retransmits the SYN-ACK for a duplicate SYN, which indicates that the SYN-ACK was lost. Limited in
    /// rate like all answers to invalid segments.
    pub(crate) fn repeat_syn_ack(&mut self, now: SimTime) {
        let recently = self.stats.answered_again_at.is_some_and(|at| now.since(at) < CHALLENGE_INTERVAL);
        if !recently {
            self.stats.answered_again_at = Some(now);
            self.pending.syn = true;
        }
    }

    /// Processes a reset in SYN-RECEIVED. The error is `Reset` for a passive open and `Refused` for an active
    /// one.
    pub(crate) fn on_reset_in_handshake(&mut self) {
        self.fail(if self.passive { TcpError::Reset } else { TcpError::Refused });
    }
}
