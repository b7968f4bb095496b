//! Loss recovery: loss detection (RACK, RFC 8985; NewReno, RFC 6582, for peers without SACK), the congestion
//! window during recovery (PRR, RFC 6937), and the detection of spurious recovery (Eifel detection by
//! timestamps, RFC 3522; DSACK, RFC 3708).

use crate::counts::Counted;
use crate::sender::Sender;
use crate::timers::Retransmit;
use belljar_base::{SimDuration, SimTime};

/// Number of duplicate ACKs that indicate a loss (RFC 5681), and the minimum reordering assumed, in segments.
pub(crate) const DUP_THRESHOLD: u32 = 3;

/// Linux's `TCP_CA_*` states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No sign of loss.
    Open,
    /// Duplicate ACKs or SACKs, too few to indicate a loss.
    Disorder,
    /// The window is being reduced without loss: after a mark or a tail loss.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// Recovery from a retransmission timeout.
    Loss,
}

/// The state of loss recovery.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// SND.NXT at the start of the present phase, which ends when this number is acknowledged.
    pub high: u64,
    /// Number of timeouts in succession.
    pub timeouts: u8,
    /// Time of the first retransmission of this recovery.
    pub retransmit_stamp: Option<SimTime>,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    /// Set while the last reduction may still prove spurious.
    undo: Option<Undo>,
    prr_delivered: u32,
    prr_sent: u32,
    /// Number of duplicate ACKs, for a peer without SACK.
    pub duplicates: u32,
    pub rack: Rack,
    /// True while the last timeout may prove spurious (RFC 5682), depending on the next acknowledgments.
    frto: bool,
    /// Number of segments judged lost before the present ACK.
    pub lost_before_ack: u64,
    /// F-RTO: until the next ACK only new data is sent, whose acknowledgment decides the test.
    pub new_data_only: bool,
    /// SND.NXT at the transmission of a tail loss probe, and whether the probe was a retransmission.
    pub tail_probe: Option<(u64, bool)>,
    /// True if the retransmission of a timeout is still due. It is not counted as a slow-start retransmission.
    pub head_due: bool,
}

/// Condition under which a reduction proves spurious (Linux's `undo_marker` and `undo_retrans`).
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// SND.UNA at the reduction; only retransmissions after it count.
    from: u64,
    /// Number of retransmissions not yet reported as duplicates; `None` before the first.
    outstanding: Option<u32>,
}

/// State of RACK (RFC 8985, section 5.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    /// Transmission time and end of the most recently sent segment that was delivered.
    latest: Option<(SimTime, u64)>,
    rtt: SimDuration,
    pub reordering_seen: bool,
    /// Number of reorderings.
    pub reorderings: u32,
    /// Reordering window, in quarters of the minimum round trip.
    window_steps: u32,
}

impl Rack {
    /// Updates RACK for one newly delivered segment (RFC 8985, section 6.2, steps 2 and 3).
    pub(crate) fn on_delivered(
        &mut self,
        sent_at: SimTime,
        end: u64,
        retransmitted: bool,
        min_rtt: Option<SimDuration>,
        now: SimTime,
    ) {
        let rtt = now.since(sent_at);
        // "If the RTT is less than the minimum, the ACK was likely for the original."
        if retransmitted && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        if self.latest.is_none_or(|latest| (sent_at, end) > latest) {
            self.latest = Some((sent_at, end));
            self.rtt = rtt;
        }
    }
}

impl Recovery {
    pub(crate) fn new() -> Recovery {
        Recovery {
            phase: Phase::Open,
            high: 0,
            timeouts: 0,
            retransmit_stamp: None,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            undo: None,
            prr_delivered: 0,
            prr_sent: 0,
            duplicates: 0,
            rack: Rack { window_steps: 1, ..Rack::default() },
            frto: false,
            lost_before_ack: 0,
            new_data_only: false,
            tail_probe: None,
            head_due: false,
        }
    }

    /// True in Open and Reduced, the phases without a suspected loss, in which a tail loss probe is useful.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Reduced)
    }

    /// Records a retransmission.
    pub(crate) fn on_retransmitted(&mut self, now: SimTime) {
        self.on_sent();
        self.retransmit_stamp.get_or_insert(now);
        if let Some(undo) = &mut self.undo {
            undo.outstanding = Some(undo.outstanding.unwrap_or(0) + 1);
        }
    }

    /// Records the transmission of a new segment.
    pub(crate) fn on_sent(&mut self) {
        if matches!(self.phase, Phase::Recovery | Phase::Reduced) {
            self.prr_sent += 1;
        }
    }
}

/// Results of one ACK that loss recovery needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// True if SND.UNA advanced.
    pub advanced: bool,
    /// Number of segments newly delivered, by cumulative or selective acknowledgment.
    pub delivered: u32,
    /// Number of segments newly selectively acknowledged.
    pub newly_sacked: u32,
    /// True if a segment below [`Recovery::high`] was delivered that was sent only once.
    pub original_delivered: bool,
    /// True if SND.UNA advanced by less than a full segment.
    pub small_step: bool,
    /// True if the ACK carried neither data, nor a window update, nor a new acknowledgment.
    pub duplicate: bool,
    /// End of the range that a DSACK reports as received twice.
    pub dsack: Option<u64>,
    /// True if the ACK echoed a congestion mark.
    pub mark_echoed: bool,
    /// True if the echoed timestamp is older than the first retransmission (RFC 3522).
    pub echoes_original: bool,
}

impl Sender {
    /// Runs the state machine of loss recovery for one ACK.
    pub(crate) fn recover(&mut self, ack: &AckSummary, now: SimTime) {
        self.recovery.new_data_only = false;
        self.on_tail_probe_acked(ack);
        if let Some(end) = ack.dsack {
            self.on_dsack(end);
        }
        if self.recovery.phase == Phase::Loss {
            self.test_timeout(ack);
        }
        if self.recovery.phase >= Phase::Reduced && self.snd.una >= self.recovery.high {
            // RFC 6582, section 4.1: without SACK, duplicate ACKs of retransmissions could start another
            // recovery. In the Reduced phase, CWR must reach the receiver. So the phase lasts until data
            // above `high` is acknowledged.
            let held = self.recovery.phase == Phase::Reduced || !self.sack_enabled;
            if !held || self.snd.una > self.recovery.high {
                self.leave(ack);
            }
        }
        if !self.sack_enabled {
            self.count_duplicates(ack);
        }
        match self.recovery.phase {
            Phase::Recovery if ack.advanced && ack.echoes_original => self.undo(Counted::PartialUndo),
            Phase::Loss if ack.advanced && ack.echoes_original => self.undo(Counted::LossUndo),
            Phase::Recovery | Phase::Loss
                if ack.advanced
                    && !self.sack_enabled
                    && self.snd.una < self.recovery.high
                    && !self.snd.flight.is_empty() =>
            {
                // RFC 6582, section 3.2, step 3: "If this ACK does not acknowledge all of the data
                // [..], then this is a partial ACK [..] retransmit the first unacknowledged segment".
                self.snd.flight.mark_lost(0);
            }
            _ => {}
        }
        self.detect_losses(now);
        if self.recovery.phase < Phase::Recovery {
            if ack.mark_echoed && self.snd.flight.lost() == 0 {
                self.on_mark_echoed();
            }
            if self.snd.flight.lost() > 0 {
                if self.probe_has_failed(now) {
                    return;
                }
                self.enter_recovery();
            } else if self.recovery.phase != Phase::Reduced {
                let suspicious = self.snd.flight.sacked() > 0 || self.recovery.duplicates > 0;
                self.recovery.phase = if suspicious { Phase::Disorder } else { Phase::Open };
            }
        }
        if matches!(self.recovery.phase, Phase::Recovery | Phase::Reduced) && !self.congestion.rules_window()
        {
            self.reduce_proportionally(ack, self.snd.flight.ever_lost() > self.recovery.lost_before_ack);
        }
    }

    /// Counts duplicate ACKs of a peer without SACK, its only sign of loss (RFC 6582).
    fn count_duplicates(&mut self, ack: &AckSummary) {
        if ack.advanced {
            self.recovery.duplicates = 0;
        } else if ack.duplicate && !self.snd.flight.is_empty() {
            self.recovery.duplicates += 1;
            if self.recovery.duplicates == DUP_THRESHOLD && self.recovery.phase < Phase::Recovery {
                self.snd.flight.mark_lost(0);
            }
        }
    }

    /// Tests whether the timeout was spurious: F-RTO (RFC 5682, section 3.1, the version with SACK).
    fn test_timeout(&mut self, ack: &AckSummary) {
        if !self.recovery.frto {
            return;
        }
        if ack.original_delivered {
            // Step 3b: data that was not retransmitted has arrived.
            self.tally.count(Counted::LossUndo);
            self.tally.count(Counted::SpuriousTimeout);
            return self.restore();
        }
        if self.snd.nxt > self.recovery.high {
            // Step 3a: the new data has arrived and the old data has not.
            self.recovery.frto &= ack.newly_sacked == 0 && !ack.duplicate;
        } else if ack.advanced && self.snd.una < self.recovery.high {
            // Step 2b: "transmit up to two new (previously unsent) segments".
            self.recovery.high = self.snd.nxt;
            let has_new = self.snd.nxt < self.snd.end() && self.snd.nxt < self.snd.window_end();
            self.recovery.new_data_only = has_new;
            self.recovery.frto = has_new;
        }
    }

    /// Abandons F-RTO because no new data could be sent. Recovery continues as usual.
    pub(crate) fn give_up_timeout_test(&mut self) {
        self.recovery.new_data_only = false;
        self.recovery.frto = false;
    }

    /// Number of segments in the network. Without SACK each duplicate ACK counts as one segment that left it.
    pub(crate) fn in_flight(&self) -> u32 {
        let pipe = self.snd.flight.in_flight();
        if self.sack_enabled { pipe } else { pipe.saturating_sub(self.recovery.duplicates) }
    }

    /// Marks lost segments (RFC 8985, section 6.2, step 5): those sent long enough before a segment that was
    /// delivered.
    fn detect_losses(&mut self, now: SimTime) {
        let Some(latest) = self.recovery.rack.latest.filter(|_| self.sack_enabled) else { return };
        let patience = self.recovery.rack.rtt + self.reordering_window();
        if self.timers.is_retransmit(Retransmit::Reordering) {
            self.rearm_rto(now);
        }
        while let Some(index) = self.snd.flight.oldest_transmission() {
            let segment = self.snd.flight.get(index);
            if (segment.sent_at, segment.end) >= latest {
                return;
            }
            let deadline = segment.sent_at + patience;
            if deadline > now {
                let at = deadline + SimDuration::from_micros(1);
                self.timers.retransmit = Some((at, Retransmit::Reordering));
                return;
            }
            self.snd.flight.mark_lost(index);
        }
    }

    /// Reordering window (RFC 8985, section 6.2, step 4).
    fn reordering_window(&self) -> SimDuration {
        let rack = &self.recovery.rack;
        if !rack.reordering_seen
            && (self.recovery.phase >= Phase::Recovery || self.snd.flight.sacked() >= DUP_THRESHOLD)
        {
            return SimDuration::ZERO;
        }
        let Some(min) = self.rtt.min() else { return SimDuration::ZERO };
        let window = min.div(4).saturating_mul(u64::from(rack.window_steps));
        window.min(self.rtt.srtt().unwrap_or(SimDuration::MAX))
    }

    /// Processes the expiry of the reordering timer.
    pub(crate) fn on_reordering_timer(&mut self, now: SimTime) {
        self.detect_losses(now);
        if self.snd.flight.has_to_retransmit() && self.recovery.phase < Phase::Recovery {
            self.enter_recovery();
            if !self.congestion.rules_window() {
                let window = self.in_flight() + 1;
                self.window.cwnd = window.min(self.window.cwnd);
            }
        }
        if self.timers.retransmit.is_none() {
            self.rearm_rto(now);
        }
    }

    fn save_for_undo(&mut self) {
        self.recovery.prior_cwnd = self.window.cwnd;
        self.recovery.prior_ssthresh = self.window.ssthresh;
        self.recovery.undo = Some(Undo { from: self.snd.una, outstanding: None });
        self.recovery.retransmit_stamp = None;
    }

    fn enter_recovery(&mut self) {
        if self.recovery.phase < Phase::Reduced {
            self.save_for_undo();
            self.window.ssthresh = self.congestion.ssthresh(&self.window);
        }
        self.congestion.on_recovery(&mut self.window);
        self.tally.count(if self.sack_enabled { Counted::SackRecovery } else { Counted::RenoRecovery });
        self.start_reduction(Phase::Recovery);
    }

    /// Enters Loss for a retransmission that congestion did not cause, without a reduction.
    pub(crate) fn enter_loss_without_reduction(&mut self) {
        if self.recovery.phase == Phase::Loss {
            return;
        }
        self.recovery.high = self.snd.nxt;
        // `tcp_current_ssthresh`
        self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4);
        self.recovery.prior_ssthresh = 0;
        self.recovery.undo = None;
        self.recovery.phase = Phase::Loss;
    }

    /// Reduces the window without a loss to repair.
    pub(crate) fn enter_reduced(&mut self) {
        if self.recovery.phase >= Phase::Reduced {
            return;
        }
        self.recovery.prior_cwnd = self.window.cwnd;
        self.recovery.undo = None;
        self.window.ssthresh = self.congestion.ssthresh(&self.window);
        self.start_reduction(Phase::Reduced);
    }

    fn start_reduction(&mut self, phase: Phase) {
        self.recovery.phase = phase;
        self.recovery.high = self.snd.nxt;
        self.recovery.prr_delivered = 0;
        self.recovery.prr_sent = 0;
        self.recovery.tail_probe = None;
        self.window.acked_towards_increase = 0;
        self.ecn.queue_cwr();
    }

    /// Sets the window during recovery by proportional rate reduction (RFC 6937, section 3.1).
    fn reduce_proportionally(&mut self, ack: &AckSummary, lost_more: bool) {
        let delivered = ack.delivered > 0 || (ack.duplicate && !self.sack_enabled);
        if !delivered {
            return;
        }
        let in_flight = self.in_flight();
        let recovery = &mut self.recovery;
        recovery.prr_delivered += ack.delivered;
        let ssthresh = self.window.ssthresh;
        let allowed = if in_flight > ssthresh {
            // "Proportional Rate Reduction": ceil(prr_delivered * ssthresh / RecoverFS) - prr_out
            let prior = u64::from(recovery.prior_cwnd.max(1));
            let due = (u64::from(ssthresh) * u64::from(recovery.prr_delivered)).div_ceil(prior) as u32;
            due.saturating_sub(recovery.prr_sent)
        } else {
            // "PRR-SSRB": slow start up to ssthresh, if recovery makes progress
            let mut allowed = recovery.prr_delivered.saturating_sub(recovery.prr_sent).max(ack.delivered);
            if ack.advanced && !lost_more {
                allowed += 1;
            }
            allowed.min(ssthresh - in_flight)
        };
        // "Force a fast retransmit upon entering recovery."
        let allowed = allowed.max(u32::from(recovery.prr_sent == 0));
        self.window.cwnd = in_flight + allowed;
    }

    /// Leaves the phase: all data in flight at its start is acknowledged.
    fn leave(&mut self, ack: &AckSummary) {
        if ack.echoes_original && ack.advanced {
            let in_loss = self.recovery.phase == Phase::Loss;
            self.undo(if in_loss { Counted::LossUndo } else { Counted::FullUndo });
        }
        match self.recovery.phase {
            Phase::Recovery | Phase::Reduced if !self.congestion.rules_window() => {
                self.window.cwnd = self.window.ssthresh.max(1);
            }
            _ => {}
        }
        self.recovery.phase = Phase::Open;
        self.recovery.retransmit_stamp = None;
        self.recovery.duplicates = 0;
    }

    /// Undoes the loss of a SYN-ACK that had timed out: its ACK has arrived and no data is in flight.
    pub(crate) fn end_handshake_loss(&mut self) {
        if self.recovery.phase == Phase::Loss && self.snd.flight.is_empty() {
            self.undo(Counted::LossUndo);
            self.recovery.phase = Phase::Open;
        }
    }

    /// Undoes a spurious reduction: restores the state before it.
    fn undo(&mut self, why: Counted) {
        if self.recovery.undo.is_some() {
            self.tally.count(why);
            self.restore();
        }
    }

    fn restore(&mut self) {
        self.recovery.undo = None;
        self.snd.flight.unmark_lost();
        if self.recovery.prior_ssthresh != 0 {
            self.ecn.withdraw_cwr();
            self.window.cwnd = self.congestion.undo(&self.window, self.recovery.prior_cwnd);
            self.window.ssthresh = self.window.ssthresh.max(self.recovery.prior_ssthresh);
        }
        self.recovery.phase = Phase::Open;
        self.recovery.retransmit_stamp = None;
        self.recovery.timeouts = 0;
    }

    /// Processes a DSACK. Each retransmission that arrives as a duplicate was needless; if all were, the
    /// reduction is undone (RFC 3708). Also widens the reordering window (RFC 8985, section 6.2, step 4).
    pub(crate) fn on_dsack(&mut self, end: u64) {
        let rack = &mut self.recovery.rack;
        if self.recovery.tail_probe.is_none() {
            rack.window_steps = (rack.window_steps + 1).min(255);
        }
        let Some(undo) = self.recovery.undo.as_mut().filter(|undo| end > undo.from) else { return };
        if let Some(outstanding) = &mut undo.outstanding {
            *outstanding = outstanding.saturating_sub(1);
            // Also after the end of recovery: the duplicates are reported a round trip later.
            if *outstanding == 0 {
                let over = self.recovery.phase >= Phase::Recovery && self.snd.una >= self.recovery.high;
                self.undo(match self.recovery.phase {
                    Phase::Loss => Counted::LossUndo,
                    _ if over => Counted::FullUndo,
                    _ => Counted::DsackUndo,
                });
            }
        }
    }

    /// Processes the ACK of a tail loss probe (RFC 8985, section 7.4.2): a probe that repaired a loss has
    /// hidden it from recovery.
    fn on_tail_probe_acked(&mut self, ack: &AckSummary) {
        let Some((high, retransmission)) = self.recovery.tail_probe else { return };
        if self.snd.una < high {
            return;
        }
        if !retransmission || ack.dsack.is_some() {
            // The original and the probe have both arrived, or the probe was new data.
            self.recovery.tail_probe = None;
        } else if self.snd.una > high {
            self.recovery.tail_probe = None;
            self.tally.count(Counted::LossProbeRecovery);
            self.enter_reduced();
            self.leave(&AckSummary::default());
        } else if !ack.advanced && ack.duplicate {
            // "If the ACK is a duplicate of the probe's, the original was delivered."
            self.recovery.tail_probe = None;
        }
    }

    /// Processes a retransmission timeout (RFC 5681, section 3.1; Linux's `tcp_enter_loss`).
    pub(crate) fn enter_loss(&mut self, now: SimTime) {
        let first = self.recovery.phase < Phase::Recovery
            || self.snd.una >= self.recovery.high
            || (self.recovery.phase == Phase::Loss && self.recovery.timeouts == 0);
        let repeated = self.recovery.phase < Phase::Recovery || self.recovery.timeouts > 0;
        self.recovery.frto = self.config.frto > 0 && repeated;
        self.recovery.new_data_only = false;
        if first {
            if self.recovery.phase <= Phase::Disorder || self.recovery.undo.is_none() {
                self.save_for_undo();
            }
            // "ssthresh MUST be set to [..]; for a retransmitted segment that is retransmitted again
            // ssthresh is held constant."
            self.window.ssthresh = self.congestion.ssthresh(&self.window);
            self.congestion.on_timeout();
        }
        let flight = &mut self.snd.flight;
        if flight.front().is_some_and(|segment| segment.sacked) {
            // RFC 2018, section 8: the receiver reneged.
            flight.forget_sacks();
        }
        let patience = self.recovery.rack.rtt;
        for index in 0..flight.len() as usize {
            // Segments sent within the last round trip may still be delivered.
            if index == 0 || flight.get(index).sent_at + patience <= now {
                flight.mark_lost(index);
            }
        }
        self.recovery.phase = Phase::Loss;
        self.recovery.high = self.snd.nxt;
        self.recovery.tail_probe = None;
        self.recovery.duplicates = 0;
        self.window.acked_towards_increase = 0;
        self.window.cwnd = self.snd.flight.in_flight() + 1;
        self.ecn.queue_cwr();
    }
}
