//! Processing of an arriving segment (RFC 9293, section 3.10.7), from the acceptability checks to the
//! delivery of its data.

use crate::accept::Handshake;
use crate::connection::{Connection, Disposition};
use crate::counts::Counted;
use crate::rcv::Arrival;
use crate::received::Payload;
use crate::{Ecn, Events, Flags, Repr, State, TcpError, seq64};
use belljar_base::{SimDuration, SimTime};

/// `net.ipv4.tcp_invalid_ratelimit`: the minimum interval between answers to invalid segments.
pub(crate) const CHALLENGE_INTERVAL: SimDuration = SimDuration::from_millis(500);

impl Connection {
    /// Processes a segment of this connection. The caller has verified its checksum.
    pub fn on_segment<'a>(
        &mut self,
        segment: &Repr,
        payload: impl Into<Payload<'a>>,
        ecn: Ecn,
        now: SimTime,
    ) -> Disposition {
        self.take_segment(segment, &mut payload.into(), ecn, now)
    }

    fn take_segment(
        &mut self,
        segment: &Repr,
        payload: &mut Payload<'_>,
        ecn: Ecn,
        now: SimTime,
    ) -> Disposition {
        self.stats.segments_in = self.stats.segments_in.wrapping_add(1);
        match self.state {
            State::Closed => {
                self.pending.reset = crate::reset_for(segment, payload.len());
                Disposition::Consumed
            }
            State::SynSent => self.on_segment_syn_sent(segment, payload, now),
            State::TimeWait => self.on_segment_time_wait(segment, payload, now),
            _ => {
                self.on_segment_synchronised(segment, payload, ecn, now);
                Disposition::Consumed
            }
        }
    }

    fn on_segment_synchronised(&mut self, segment: &Repr, payload: &mut Payload<'_>, ecn: Ecn, now: SimTime) {
        let seq = seq64::unwrap(segment.seq, self.rcv.nxt);
        let end = seq + u64::from(segment.sequence_len(payload.len()));
        let handshaking = self.state == State::SynReceived || self.fast_open.unconfirmed;
        if handshaking && segment.has(Flags::SYN) && seq == self.rcv.initial {
            if !segment.has(Flags::ACK) {
                return self.repeat_syn_ack(now);
            }
            if let Handshake::Complete = self.on_segment_syn_received(segment, payload.len(), now) {
                // Simultaneous open: the SYN-ACK acknowledges our SYN. Linux treats it as a duplicate and
                // reports a DSACK (RFC 2883).
                self.tx.stamps.update_recent(segment, seq, self.rcv.acked, now);
                if self.tx.sack_enabled {
                    self.rcv.note_duplicate(seq, end);
                }
                self.pending.ack = true;
            }
            return;
        }
        if !self.is_acceptable(segment, seq, end, now) {
            return;
        }
        self.stats.heard_at = now;
        self.tx.stamps.update_recent(segment, seq, self.rcv.acked, now);
        // "if the ACK bit is off, drop the segment and return"
        if !segment.has(Flags::ACK) {
            return;
        }
        let mut just_opened = false;
        if handshaking {
            match self.on_segment_syn_received(segment, payload.len(), now) {
                // With Fast Open, data may already be in flight.
                Handshake::Complete => just_opened = self.tx.snd.flight.is_empty(),
                Handshake::Done => return,
            }
        }
        if !just_opened && !self.process_ack(segment, payload.len(), now) {
            return;
        }
        self.on_fin_acknowledged(now);
        if self.state == State::Closed || self.state == State::TimeWait && payload.is_empty() {
            return;
        }
        if segment.has(Flags::URG) || self.urgent.mark.is_some() {
            self.process_urgent(seq, segment, payload);
        }
        if !payload.is_empty() || segment.has(Flags::FIN) {
            if !payload.is_empty() {
                self.stats.data_segments_in = self.stats.data_segments_in.wrapping_add(1);
                self.on_data_ecn(segment, ecn);
            }
            self.process_text(seq, segment, payload, now);
        }
    }

    /// Checks PAWS, the window, RST and SYN. True if processing of the segment continues.
    fn is_acceptable(&mut self, segment: &Repr, seq: u64, end: u64, now: SimTime) -> bool {
        // RFC 7323, section 5.3, R1: "If there is a Timestamps option in the arriving segment,
        // SEG.TSval < TS.Recent [..], and the RST bit is not set, treat the arriving segment as not
        // acceptable: Send an acknowledgment in reply [..] and drop the segment."
        if self.tx.stamps.is_old(segment, now) && !segment.has(Flags::RST) {
            self.tx.tally.count(Counted::Paws);
            self.answer_invalid(segment, seq, end, now);
            return false;
        }
        // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
        // (unless the RST bit is set [..])"
        if end < self.rcv.acked || seq > self.rcv.window_end() {
            if !segment.has(Flags::RST) {
                self.answer_invalid(segment, seq, end, now);
            }
            return false;
        }
        if segment.has(Flags::RST) {
            self.on_reset(seq, now);
            return false;
        }
        // RFC 5961, section 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP
        // MUST send an ACK (also referred to as challenge ACK) to the remote peer".
        if segment.has(Flags::SYN) {
            self.send_challenge_ack(now);
            return false;
        }
        true
    }

    /// Processes a reset. RFC 5961, section 3.2: only a reset at exactly RCV.NXT is valid; one elsewhere in
    /// the window causes a challenge ACK.
    fn on_reset(&mut self, seq: u64, now: SimTime) {
        if seq != self.rcv.nxt {
            return self.send_challenge_ack(now);
        }
        match self.state {
            State::SynReceived => self.on_reset_in_handshake(),
            // Linux: a reset after the peer's FIN refuses the data that we still send.
            State::CloseWait => self.fail(TcpError::BrokenPipe),
            _ => self.fail(TcpError::Reset),
        }
    }

    /// Answers a segment that is not acceptable with an ACK, which carries a DSACK for data received before.
    /// Answers to segments without data are limited in rate.
    fn answer_invalid(&mut self, segment: &Repr, seq: u64, end: u64, now: SimTime) {
        if segment.has(Flags::SYN) || end == seq {
            return self.send_challenge_ack(now);
        }
        if seq < self.rcv.nxt {
            self.delack.enter_quick(self.rcv.window, self.rcv.mss);
            if self.tx.sack_enabled {
                self.rcv.note_duplicate(seq, end.min(self.rcv.nxt));
            }
        }
        self.pending.ack = true;
    }

    pub(crate) fn send_challenge_ack(&mut self, now: SimTime) {
        let recently = self.stats.challenged_at.is_some_and(|at| now.since(at) < CHALLENGE_INTERVAL);
        if !recently {
            self.stats.challenged_at = Some(now);
            self.tx.tally.count(Counted::ChallengeAck);
            self.pending.ack = true;
        }
    }

    /// "seventh, process the segment text" and "eighth, check the FIN bit".
    pub(crate) fn process_text(&mut self, seq: u64, segment: &Repr, payload: &mut Payload<'_>, now: SimTime) {
        let fin = segment.has(Flags::FIN);
        let len = payload.len();
        if !self.state.may_receive() {
            // "This should not occur since a FIN has been received from the remote side. Ignore the
            // Retransmitted text is acknowledged again.
            self.pending.ack = true;
            return;
        }
        let is_new = seq + payload.len() as u64 > self.rcv.nxt;
        if (self.orphan || self.read_shut && self.state != State::Established)
            && is_new
            && !payload.is_empty()
        {
            // RFC 9293, section 3.6.1: "If [..] new data is received after CLOSE is called, its TCP
            // implementation SHOULD send a RST to show that data was lost."
            self.pending.reset = crate::reset_for(segment, payload.len());
            // Linux: a connection that was shut down but not closed reports the error of a reset by the peer.
            return if self.orphan { self.enter_closed() } else { self.fail(TcpError::Reset) };
        }
        let had_holes = self.rcv.has_holes();
        let was_empty = self.rcv.readable() == 0;
        // Samples the round trip at the receiver: from our ACK to the arrival of the data that the ACK permitted.
        if let Some(rtt) = self.tx.stamps.newly_echoed_rtt(segment, now)
            && len as u32 >= self.rcv.mss
        {
            self.rcv.sample_rtt(rtt);
        }
        match self.rcv.insert(seq, payload, fin) {
            Arrival::InOrder => self.on_in_order(segment, len, had_holes, was_empty, now),
            arrival @ (Arrival::OutOfOrder | Arrival::Useless) => {
                self.stats.out_of_order += u32::from(arrival == Arrival::OutOfOrder);
                // RFC 5681, section 4.2: "Out-of-order data segments SHOULD be acknowledged
                // immediately, in order to accelerate loss recovery."
                if seq < self.rcv.nxt {
                    self.delack.enter_quick(self.rcv.window, self.rcv.mss);
                    self.pending.ack = true;
                } else {
                    self.schedule_ack(now);
                }
                self.rcv.grow_for_holes();
            }
        }
        if self.rcv.finished && self.state.may_receive() {
            self.on_fin(now);
        }
    }

    fn on_in_order(&mut self, segment: &Repr, len: usize, had_holes: bool, was_empty: bool, now: SimTime) {
        self.measure_peer_mss(segment, len);
        if len > 0 {
            self.rcv.sample_rtt_by_window(now);
            let rto = self.tx.rtt.rto();
            self.delack.on_data(self.rcv.window, self.rcv.mss, rto, now);
            if self.rcv.grow_window(len) {
                self.delack.announce_growth();
            }
            if was_empty || self.rcv.readable() >= self.settings.receive_low_water {
                self.events |= Events::READABLE;
            }
        }
        if had_holes && !self.rcv.has_holes() {
            // RFC 5681, section 4.2: "a TCP receiver SHOULD send an immediate ACK when the incoming
            // segment fills in all or part of a gap in the sequence space."
            self.pending.ack = true;
        }
        self.schedule_ack(now);
    }

    /// `__tcp_ack_snd_check`.
    fn schedule_ack(&mut self, now: SimTime) {
        let unacked = (self.rcv.nxt - self.rcv.acked) as u32;
        // RFC 5681, section 4.2: "an ACK SHOULD be generated for at least every second full-sized
        // segment"; Linux: if there is also room for more.
        let window_open = self.rcv.readable() < self.settings.receive_low_water
            || self.rcv.select_window() >= self.rcv.window;
        if (unacked > self.rcv.mss && window_open) || self.delack.is_quick() {
            self.pending.ack = true;
            return;
        }
        if self.rcv.has_holes() {
            return self.compress_ack(now);
        }
        if !self.pending.ack {
            let at = now + self.delack.delay(self.tx.rtt.srtt());
            let earlier = self.timers.delayed_ack.is_some_and(|armed| armed <= at);
            if !earlier {
                self.timers.delayed_ack = Some(at);
            }
        }
    }

    /// Delays the ACK of out-of-order data, so that one ACK covers several segments in close succession: by
    /// at most a twentieth of the round trip, and at most 1 ms. Otherwise the ACK is sent at once.
    fn compress_ack(&mut self, now: SimTime) {
        let most = self.tx.config.compressed_acks;
        if !self.tx.sack_enabled || !self.delack.may_compress(self.rcv.nxt, most) {
            self.pending.ack = true;
            return;
        }
        let rtt = self.tx.rtt.srtt().map_or(self.rcv.rtt(), |srtt| srtt.min(self.rcv.rtt()));
        let delay = rtt.div(20).min(self.tx.config.compressed_ack_delay);
        self.timers.compressed_ack.get_or_insert(now + delay);
    }

    /// `tcp_measure_rcv_mss`: takes the largest payload seen as the peer's full segment size.
    fn measure_peer_mss(&mut self, segment: &Repr, len: usize) {
        let len = len as u32;
        if len >= self.rcv.mss {
            self.rcv.measure_segment(len);
            // A segment that its message fills exactly: the peer may wait for the ACK.
            self.delack.pushed |= segment.has(Flags::PSH);
        } else if len > 0 {
            self.delack.pushed = true;
        }
    }
}
