//! The timers of a connection and what their expiry does.

use crate::connection::{Connection, Probe};
use crate::counts::Counted;
use crate::recovery::Phase;
use crate::rtt::{RTO_INITIAL, RTO_MAX, RTO_MIN, retries_to_time};
use crate::sender::Sender;
use crate::{State, TcpError};
use belljar_base::{SimDuration, SimTime};

/// Minimum delay of a timer (Linux's `TCP_TIMEOUT_MIN`).
const TIMEOUT_MIN: SimDuration = SimDuration::from_millis(2);

/// Purpose of the retransmission timer; as in Linux, one timer serves all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retransmit {
    /// The SYN or the SYN-ACK.
    Handshake,
    /// The retransmission timeout of RFC 6298.
    Timeout,
    /// The tail loss probe of RFC 8985, section 7.
    TailProbe,
    /// The end of the reordering window of RFC 8985.
    Reordering,
    /// The zero-window probe, also used to send a corked segment that has waited long enough.
    WindowProbe,
}

/// The timers of the sending half.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendTimers {
    pub retransmit: Option<(SimTime, Retransmit)>,
    /// Time at which pacing permits the next segment.
    pub pacing: Option<SimTime>,
}

impl SendTimers {
    pub(crate) fn is_retransmit(&self, kind: Retransmit) -> bool {
        self.retransmit.is_some_and(|(_, armed)| armed == kind)
    }
}

/// The other timers of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    pub delayed_ack: Option<SimTime>,
    /// Time at which the delayed ACK of out-of-order data is sent.
    pub compressed_ack: Option<SimTime>,
    pub keepalive: Option<SimTime>,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    pub lifetime: Option<SimTime>,
}

impl Connection {
    /// The timer that Linux reports for a connection (`inet_sk_diag_fill`): its number (`idiag_timer` of
    /// sock_diag(7)), the number of expiries in succession, and the time of its next expiry.
    pub fn shown_timer(&self) -> Option<(u8, u8, SimTime)> {
        const RETRANSMISSION: u8 = 1;
        const KEEPALIVE: u8 = 2;
        const TIME_WAIT: u8 = 3;
        const WINDOW_PROBE: u8 = 4;
        if let Some((at, kind)) = self.tx.timers.retransmit {
            return Some(match kind {
                Retransmit::WindowProbe => (WINDOW_PROBE, self.tx.probes_sent, at),
                _ => (RETRANSMISSION, self.tx.recovery.timeouts, at),
            });
        }
        if let Some(at) = self.timers.lifetime {
            return Some((TIME_WAIT, 0, at));
        }
        self.timers.keepalive.map(|at| (KEEPALIVE, self.tx.probes_sent, at))
    }

    /// Time at which [`on_timer`](Self::on_timer) must be called.
    pub fn next_timer(&self) -> Option<SimTime> {
        let (timers, sending) = (&self.timers, &self.tx.timers);
        let mut next = sending.retransmit.map_or(SimTime::MAX, |(at, _)| at);
        for timer in
            [timers.delayed_ack, timers.compressed_ack, sending.pacing, timers.keepalive, timers.lifetime]
        {
            next = next.min(timer.unwrap_or(SimTime::MAX));
        }
        Some(next).filter(|at| *at < SimTime::MAX)
    }

    /// Processes the timers that have expired at `now`. A call before the time of
    /// [`next_timer`](Self::next_timer) has no effect.
    pub fn on_timer(&mut self, now: SimTime) {
        if self.timers.lifetime.is_some_and(|at| at <= now) {
            self.timers.lifetime = None;
            self.tx.tally.count(Counted::TimeWait);
            self.enter_closed();
        }
        if self.timers.delayed_ack.is_some_and(|at| at <= now) {
            self.timers.delayed_ack = None;
            if self.delack.scheduled {
                self.delack.on_delay_expired(self.tx.rtt.rto());
                self.tx.tally.count(Counted::DelayedAck);
                self.pending.ack = true;
            }
        }
        self.tx.timers.pacing = self.tx.timers.pacing.filter(|&at| at > now);
        if self.timers.compressed_ack.is_some_and(|at| at <= now) {
            self.timers.compressed_ack = None;
            self.pending.ack |= self.delack.compressed > 0;
        }
        if let Some((_, kind)) = self.tx.timers.retransmit.filter(|&(at, _)| at <= now) {
            self.tx.timers.retransmit = None;
            match kind {
                Retransmit::Handshake => self.on_handshake_timeout(now),
                Retransmit::Timeout => self.on_retransmission_timeout(now),
                Retransmit::TailProbe => self.on_tail_probe_timer(now),
                Retransmit::Reordering => self.tx.on_reordering_timer(now),
                Retransmit::WindowProbe => self.on_window_probe_timer(now),
            }
        }
        if self.timers.keepalive.is_some_and(|at| at <= now) {
            self.timers.keepalive = None;
            self.on_keepalive_timer(now);
        }
    }

    fn on_handshake_timeout(&mut self, now: SimTime) {
        let passive = self.state != State::SynSent && self.passive;
        let exhausted = if passive {
            // Linux: one more retransmission where data was taken.
            self.tx.recovery.timeouts >= self.tx.config.synack_retries + u8::from(self.fast_open.unconfirmed)
        } else {
            // Linux converts the number of retries to the time that they take with exponential backoff.
            now.since(self.tx.handshake_sent_at) >= retries_to_time(self.tx.config.syn_retries, RTO_INITIAL)
        };
        let user_limit =
            self.tx.settings.user_timeout.is_some_and(|limit| now.since(self.opened_at) >= limit);
        if !passive {
            self.fast_open.suspect(self.tx.recovery.timeouts, exhausted || user_limit);
        }
        if exhausted || user_limit {
            self.time_out();
            return;
        }
        if self.fast_open.unconfirmed && self.tx.recovery.timeouts == 1 {
            // `tcp_fastopen_synack_timer`: as `tcp_init_transfer` does after as many timeouts of a SYN-ACK.
            self.tx.enter_loss(now);
        }
        self.tx.recovery.timeouts += 1;
        self.tx.stats.total_retransmitted += 1;
        self.tx.tally.count(Counted::HandshakeRetransmission);
        self.pending.syn = true;
    }

    fn on_tail_probe_timer(&mut self, now: SimTime) {
        if self.tx.snd.flight.is_empty() {
            return;
        }
        if self.tx.recovery.tail_probe.is_some() {
            // "At most one probe per flight."
            let left = self.tx.rto_left(now).max(SimDuration::from_millis(1));
            self.tx.timers.retransmit = Some((now + left, Retransmit::Timeout));
            return;
        }
        self.pending.probe = Some(Probe::Tail);
        // The probe has a full timeout for its acknowledgment.
        self.tx.timers.retransmit = Some((now + self.tx.rtt.rto(), Retransmit::Timeout));
    }

    fn on_retransmission_timeout(&mut self, now: SimTime) {
        if self.tx.snd.flight.is_empty() {
            return;
        }
        let exhausted = self.retransmissions_exhausted(now);
        self.fast_open.suspect(self.tx.recovery.timeouts, exhausted);
        if exhausted {
            self.time_out();
            return;
        }
        self.tx.suspect_black_hole(now);
        self.tx.stats.timeouts = self.tx.stats.timeouts.wrapping_add(1);
        self.tx.count_first_timeout();
        self.tx.recovery.head_due = true;
        self.tx.enter_loss(now);
        self.tx.recovery.timeouts = self.tx.recovery.timeouts.saturating_add(1);
        self.tx.rtt.back_off();
        self.tx.arm_timeout(self.tx.rtt.rto(), now);
    }

    /// Ends the connection because the peer no longer answers (`tcp_write_err`).
    fn time_out(&mut self) {
        self.tx.tally.count(Counted::AbortOnTimeout);
        self.fail(self.soft_error.unwrap_or(TcpError::TimedOut));
    }

    /// True if the retransmissions of a connection past its handshake are exhausted (Linux's
    /// `tcp_write_timeout`).
    fn retransmissions_exhausted(&self, now: SimTime) -> bool {
        let Some(since) = self.tx.recovery.retransmit_stamp else { return false };
        if self.tx.recovery.timeouts == 0 {
            return false;
        }
        let limit = match self.tx.settings.user_timeout {
            Some(limit) if !self.orphan => limit,
            _ => retries_to_time(self.tx.retry_limit(self.orphan), RTO_MIN),
        };
        now.since(since) >= limit
    }

    /// RFC 9293, section 3.8.6.1: "The transmitting host SHOULD send the first zero-window probe
    /// when a zero window has existed for the retransmission timeout period".
    fn on_window_probe_timer(&mut self, now: SimTime) {
        if !self.tx.snd.flight.is_empty() || self.tx.snd.nxt >= self.tx.snd.end() {
            self.tx.probes_sent = 0;
            return;
        }
        let user_limit = match (self.tx.settings.user_timeout, self.tx.probing_since) {
            (Some(limit), Some(since)) => now.since(since) >= limit,
            _ => false,
        };
        if self.tx.probes_sent >= self.tx.retry_limit(self.orphan) || user_limit {
            self.time_out();
            return;
        }
        self.tx.probing_since.get_or_insert(now);
        self.pending.probe = Some(Probe::Window);
    }

    pub(crate) fn start_keepalive(&mut self, now: SimTime) {
        self.timers.keepalive = match self.settings.keepalive {
            Some(keepalive) if self.state.is_synchronised() && self.state != State::TimeWait => {
                Some(now + keepalive.idle)
            }
            _ => None,
        };
    }

    /// Processes the keepalive timer (RFC 9293, section 3.8.4), with Linux's times.
    fn on_keepalive_timer(&mut self, now: SimTime) {
        let Some(keepalive) = self.settings.keepalive else { return };
        let state_probes = self.state.is_synchronised() && self.state != State::TimeWait;
        if !state_probes {
            return;
        }
        if !self.tx.snd.flight.is_empty() || self.tx.snd.nxt < self.tx.snd.end() {
            // Retransmissions already test whether the peer is alive.
            self.timers.keepalive = Some(now + keepalive.idle);
            return;
        }
        let silence = now.since(self.stats.heard_at);
        if silence < keepalive.idle {
            self.timers.keepalive = Some(self.stats.heard_at + keepalive.idle);
            return;
        }
        let exhausted = match self.tx.settings.user_timeout {
            Some(limit) => silence >= limit && self.tx.probes_sent > 0,
            None => self.tx.probes_sent >= keepalive.probes,
        };
        if exhausted {
            self.send_reset(now);
            self.time_out();
            return;
        }
        self.pending.probe = Some(Probe::Keepalive);
        self.timers.keepalive = Some(now + keepalive.interval);
    }
}

impl Sender {
    /// Retry limit: `tcp_retries2`, or `tcp_orphan_retries` for an orphan.
    fn retry_limit(&self, orphan: bool) -> u8 {
        match (orphan, self.config.orphan_retries) {
            (false, _) => self.config.retries2,
            (true, 0) => 8,
            (true, retries) => retries,
        }
    }

    /// Starts the timer of the handshake. `is_syn` is true for a SYN, false for a SYN-ACK.
    pub(crate) fn arm_handshake_timer(&mut self, is_syn: bool, now: SimTime) {
        let linear = if is_syn { self.config.syn_linear_timeouts } else { 0 };
        let doublings = u32::from(self.recovery.timeouts.saturating_sub(linear).min(16));
        let rto = RTO_INITIAL.saturating_mul(1 << doublings).min(RTO_MAX);
        self.timers.retransmit = Some((now + rto, Retransmit::Handshake));
    }

    /// Starts the retransmission timer for the oldest segment in flight. If another timer has run instead,
    /// the time already waited counts (`tcp_rearm_rto`).
    pub(crate) fn rearm_rto(&mut self, now: SimTime) {
        if self.timers.is_retransmit(Retransmit::Handshake) {
            // The SYN-ACK is to be acknowledged first.
            return;
        }
        if self.snd.flight.is_empty() {
            self.timers.retransmit = None;
            return;
        }
        let stand_in = self.timers.is_retransmit(Retransmit::TailProbe)
            || self.timers.is_retransmit(Retransmit::Reordering);
        let rto = if stand_in { self.rto_left(now).max(SimDuration::from_millis(1)) } else { self.rtt.rto() };
        self.arm_timeout(rto, now);
    }

    /// Sets the retransmission timeout, or the earlier expiry of `TCP_USER_TIMEOUT`, which is counted from
    /// the first retransmission (`tcp_clamp_rto_to_user_timeout`).
    fn arm_timeout(&mut self, rto: SimDuration, now: SimTime) {
        let mut at = now + rto;
        if let (Some(limit), Some(since)) = (self.settings.user_timeout, self.recovery.retransmit_stamp) {
            at = at.min((since + limit).max(now + SimDuration::from_millis(1)));
        }
        self.timers.retransmit = Some((at, Retransmit::Timeout));
    }

    /// Remaining time of the oldest segment's retransmission timeout.
    fn rto_left(&self, now: SimTime) -> SimDuration {
        let sent_at = self.snd.flight.front().map_or(now, |segment| segment.sent_at);
        (sent_at + self.rtt.rto()).since(now)
    }

    /// Arms the tail loss probe instead of the retransmission timer under the conditions of RFC 8985, section
    /// 7.2. False if they do not hold.
    pub(crate) fn arm_tail_probe(&mut self, now: SimTime, advancing: bool) -> bool {
        let flight = self.snd.flight.len();
        if flight == 0
            || !self.sack_enabled
            || !self.recovery.is_open()
            || self.timers.is_retransmit(Retransmit::Handshake)
        {
            return false;
        }
        // "PTO = 2 * SRTT"; with a single segment in flight, plus time for a delayed ACK.
        let mut timeout = match self.rtt.srtt() {
            Some(srtt) => srtt.saturating_mul(2) + if flight == 1 { RTO_MIN } else { TIMEOUT_MIN },
            None => RTO_INITIAL,
        };
        let rto = if advancing { self.rtt.rto() } else { self.rto_left(now) };
        if !rto.is_zero() {
            timeout = timeout.min(rto);
        }
        self.timers.retransmit = Some((now + timeout, Retransmit::TailProbe));
        true
    }

    /// Counts the first timeout of a series by the recovery phase.
    fn count_first_timeout(&mut self) {
        let suspicious = self.recovery.phase == Phase::Disorder || self.snd.flight.sacked() > 0;
        let event = match (self.recovery.phase, self.sack_enabled) {
            _ if self.recovery.timeouts > 0 => return,
            (Phase::Recovery, true) => Counted::SackRecoveryFail,
            (Phase::Recovery, false) => Counted::RenoRecoveryFail,
            (Phase::Loss, _) => Counted::LossFailure,
            (_, true) if suspicious => Counted::SackFailure,
            (_, false) if suspicious => Counted::RenoFailure,
            _ => return,
        };
        self.tally.count(event);
    }

    /// Arms the window probe; the first probe is sent after one retransmission timeout.
    pub(crate) fn arm_window_probe(&mut self, now: SimTime) {
        let timeout = self.rtt.rto().max(RTO_MIN);
        self.timers.retransmit = Some((now + timeout, Retransmit::WindowProbe));
    }
}
