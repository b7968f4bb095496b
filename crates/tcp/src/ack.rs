//! Processing of the acknowledgment field of an arriving segment: data acknowledged, round-trip and
//! delivery-rate samples, and the send and congestion windows.

use crate::congestion::AckSample;
use crate::connection::Connection;
use crate::counts::Counted;
use crate::recovery::{AckSummary, Phase};
use crate::scoreboard::{RateStamp, Sent};
use crate::sender::Sender;
use crate::timers::Retransmit;
use crate::{Events, Flags, Repr, seq64};
use belljar_base::{SimDuration, SimTime};

/// Segments that one ACK newly delivers, summarised over the scoreboard.
#[derive(Default)]
struct Delivery {
    segments: u32,
    newly_sacked: u32,
    /// Transmission times of the first and the last of these segments that were sent only once.
    first_sent: Option<SimTime>,
    last_sent: Option<SimTime>,
    /// Transmission time of a segment that was newly selectively acknowledged and sent only once.
    sacked_sent: Option<SimTime>,
    /// Transmission time and rate stamp of the most recently sent of these segments.
    newest: Option<(SimTime, RateStamp)>,
    retransmission_acked: bool,
    /// Start of the lowest segment newly delivered that was never retransmitted.
    lowest_original: Option<u64>,
    /// Lowest end of such a segment.
    lowest_original_end: Option<u64>,
}

impl Delivery {
    fn note(&mut self, segment: &Sent) {
        self.segments += 1;
        if self.newest.is_none_or(|(at, _)| segment.sent_at >= at) {
            self.newest = Some((segment.sent_at, segment.rate));
        }
        if !segment.ever_retransmitted {
            let lowest = self.lowest_original.unwrap_or(u64::MAX);
            self.lowest_original = Some(lowest.min(segment.start));
            let end = self.lowest_original_end.unwrap_or(u64::MAX);
            self.lowest_original_end = Some(end.min(segment.end));
        }
    }
}

impl Connection {
    /// Processes the ACK field of an acceptable segment. False if the segment must be dropped.
    pub(crate) fn process_ack(&mut self, segment: &Repr, payload_len: usize, now: SimTime) -> bool {
        let ack = seq64::unwrap(segment.ack, self.tx.snd.una);
        let seq = seq64::unwrap(segment.seq, self.rcv.nxt);
        if ack > self.tx.snd.nxt {
            // RFC 9293, section 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK >
            // SND.NXT), then send an ACK, drop the segment, and return."
            self.send_challenge_ack(now);
            return false;
        }
        if ack + self.tx.snd.max_window.max(1) < self.tx.snd.una {
            // RFC 5961, section 5.2: "The ACK value is considered acceptable only if it is in the
            // range of ((SND.UNA - MAX.SND.WND) <= SEG.ACK <= SND.NXT)."
            self.send_challenge_ack(now);
            return false;
        }
        self.stats.ack_received_at = now;
        self.tx.probes_sent = 0;
        let prior_una = self.tx.snd.una;
        self.tx.recovery.lost_before_ack = self.tx.snd.flight.ever_lost();
        let prior_in_flight = self.tx.in_flight();
        let had_flight = !self.tx.snd.flight.is_empty();
        let window_changed = ack >= prior_una && self.tx.update_window(segment, seq, ack);

        let mut delivery = Delivery::default();
        let mut summary = AckSummary::default();
        if self.tx.sack_enabled && !segment.options.sack.is_empty() {
            summary.dsack = self.tx.process_sack(segment, ack, &mut delivery, now);
            self.tx.stats.dsacks += u32::from(summary.dsack.is_some());
            if let Some(end) = summary.dsack {
                let old = end <= ack;
                self.tx.tally.count(if old {
                    Counted::DsackReceived
                } else {
                    Counted::DsackOutOfOrderReceived
                });
            }
        }
        if ack > prior_una {
            summary.advanced = true;
            summary.small_step = ack - prior_una < self.tx.snd.mss as u64;
            self.tx.recovery.timeouts = 0;
            if self.tx.advance(ack, &mut delivery, now) {
                self.make_room(now);
            }
            self.tx.check_mtu_probe();
        }
        summary.delivered = delivery.segments;
        self.tx.tally.count_more(Counted::Delivered, delivery.segments);
        self.progress |= delivery.segments > 0;
        summary.newly_sacked = delivery.newly_sacked;
        summary.original_delivered =
            delivery.lowest_original_end.is_some_and(|end| end <= self.tx.recovery.high);
        let plain = payload_len == 0 && !window_changed && !segment.flags.intersects(Flags::SYN | Flags::FIN);
        summary.duplicate = ack == prior_una && plain;
        if !had_flight {
            if let Some(end) = summary.dsack {
                self.tx.on_dsack(end);
            }
            self.tx.after_probe_ack(now);
            return true;
        }
        summary.echoes_original = self.tx.echoes_original(segment);
        summary.mark_echoed = self.tx.ecn.echoes_mark(segment);
        self.tx.note_reordering(&delivery);
        let rtt = self.tx.measure(segment, &delivery, summary.advanced, now);
        self.tx.recover(&summary, now);
        self.tx.control_congestion(&summary, &delivery, rtt, prior_in_flight, now);
        self.tx.update_pacing_rate();
        self.tx.set_timer_after_ack(summary.advanced || delivery.newly_sacked > 0, now);
        if self.tx.snd.is_drained() && summary.advanced {
            self.events |= Events::DRAINED;
        }
        true
    }
}

impl Sender {
    /// Processes an ACK that arrives with nothing in flight: the answer to a probe, or a window update.
    fn after_probe_ack(&mut self, now: SimTime) {
        if self.snd.nxt >= self.snd.end() {
            return;
        }
        if self.snd.window > 0 {
            self.probing_since = None;
        }
        let next = (self.snd.nxt + self.snd.mss as u64).min(self.snd.end());
        if next <= self.snd.window_end() {
            self.rtt.reset_backoff();
            self.timers.retransmit = None;
        } else {
            self.arm_window_probe(now);
        }
    }

    /// RFC 9293, section 3.10.7.4: "If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and SND.WL2 =<
    /// SEG.ACK)), set SND.WND". Linux: also whenever the ACK is new. True if the window changed.
    fn update_window(&mut self, segment: &Repr, seq: u64, ack: u64) -> bool {
        let window = u64::from(segment.window) << self.snd.scale;
        let newer = ack > self.snd.una
            || seq > self.snd.window_seq
            || (seq == self.snd.window_seq && window > self.snd.window);
        if !newer {
            return false;
        }
        self.snd.window_seq = seq;
        let changed = self.snd.window != window;
        self.snd.window = window;
        if window > self.snd.max_window {
            self.snd.max_window = window;
            self.set_mss();
        }
        changed
    }

    /// Removes the data that `ack` covers from the scoreboard and the send buffer. True if that frees buffer
    /// space.
    fn advance(&mut self, ack: u64, delivery: &mut Delivery, now: SimTime) -> bool {
        let min_rtt = self.rtt.min();
        while let Some(sent) = self.snd.flight.pop_acked(ack) {
            if sent.ever_retransmitted {
                delivery.retransmission_acked = true;
            } else if !sent.sacked {
                delivery.first_sent.get_or_insert(sent.sent_at);
                delivery.last_sent = Some(sent.sent_at);
            }
            if !sent.sacked {
                delivery.note(&sent);
                self.recovery.rack.on_delivered(
                    sent.sent_at,
                    sent.end,
                    sent.ever_retransmitted,
                    min_rtt,
                    now,
                );
            }
        }
        // Linux counts SYN and FIN as well.
        self.stats.bytes_acked += ack - self.snd.una;
        self.snd.release(ack) > 0
    }

    /// Marks the segments that the SACK blocks cover (RFC 2018). Returns the end of the first block if it is
    /// a DSACK (RFC 2883).
    fn process_sack(
        &mut self,
        segment: &Repr,
        ack: u64,
        delivery: &mut Delivery,
        now: SimTime,
    ) -> Option<u64> {
        let mut blocks = [(0, 0); 4];
        let mut len = 0;
        for &(left, right) in segment.options.sack.as_slice() {
            let left = seq64::unwrap(left, self.snd.una);
            blocks[len] = (left, left + u64::from(right.0.wrapping_sub(seq64::wire(left).0)));
            len += 1;
        }
        let blocks = &blocks[..len];
        let (first_left, first_right) = blocks[0];
        // RFC 2883, section 4: the first block lies below the ACK or within the second.
        let dsack = first_right <= ack
            || blocks.get(1).is_some_and(|&(left, right)| left <= first_left && first_right <= right);
        for &(left, right) in &blocks[usize::from(dsack)..] {
            if left >= right || right > self.snd.nxt || left < self.snd.una {
                continue;
            }
            self.mark_block(left.max(ack), right, delivery, now);
        }
        self.sack_cache = [(0, 0); 4];
        self.sack_cache[..len].copy_from_slice(blocks);
        if dsack {
            self.sack_cache[0] = (0, 0);
        }
        dsack.then_some(first_right)
    }

    /// Marks the segments within `left..right`, except those that the previous ACK already reported.
    fn mark_block(&mut self, left: u64, right: u64, delivery: &mut Delivery, now: SimTime) {
        let min_rtt = self.rtt.min();
        let mut at = left;
        while at < right {
            if let Some(&(_, known)) = self.sack_cache.iter().find(|&&(l, r)| l <= at && at < r) {
                at = known;
                continue;
            }
            let stop =
                self.sack_cache.iter().map(|&(l, _)| l).filter(|&l| l > at).min().unwrap_or(right).min(right);
            let mut index = self.snd.flight.first_from(at);
            while (index as u32) < self.snd.flight.len() && self.snd.flight.get(index).end <= stop {
                if let Some(before) = self.snd.flight.mark_sacked(index) {
                    if !before.ever_retransmitted {
                        delivery.sacked_sent = Some(before.sent_at);
                    }
                    delivery.newly_sacked += 1;
                    delivery.note(&before);
                    let retransmitted = before.ever_retransmitted;
                    self.recovery.rack.on_delivered(before.sent_at, before.end, retransmitted, min_rtt, now);
                }
                index += 1;
            }
            at = stop;
        }
    }

    /// Detects reordering (RFC 8985, section 6.2, step 3): a segment sent only once was delivered after a
    /// segment sent later.
    fn note_reordering(&mut self, delivery: &Delivery) {
        if let Some(lowest) = delivery.lowest_original
            && self.highest_delivered > lowest
        {
            self.recovery.rack.reordering_seen = true;
            self.recovery.rack.reorderings += 1;
        }
        self.highest_delivered =
            self.highest_delivered.max(self.snd.flight.highest_sacked()).max(self.snd.una);
    }

    /// True if the echoed timestamp is older than the first retransmission (RFC 3522).
    fn echoes_original(&self, segment: &Repr) -> bool {
        match (segment.options.timestamps, self.recovery.retransmit_stamp) {
            (Some(stamps), Some(at)) if self.stamps.enabled && stamps.echo != 0 => {
                (stamps.echo.wrapping_sub(self.stamps.clock(at)) as i32) < 0
            }
            _ => false,
        }
    }

    /// Takes a round-trip sample, from a retransmitted segment only by its echoed timestamp (Karn's
    /// algorithm, RFC 6298, section 3). Returns the sample for congestion control.
    fn measure(
        &mut self,
        segment: &Repr,
        delivery: &Delivery,
        advanced: bool,
        now: SimTime,
    ) -> Option<SimDuration> {
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        if let (Some(first), Some(last), false) =
            (delivery.first_sent, delivery.last_sent, delivery.retransmission_acked)
        {
            self.rtt.sample(now.since(first), una, nxt, now);
            self.rtt.reset_backoff();
            return Some(now.since(last));
        }
        if let Some(sent_at) = delivery.sacked_sent {
            let rtt = now.since(sent_at);
            self.rtt.sample(rtt, una, nxt, now);
            self.rtt.reset_backoff();
            return Some(rtt);
        }
        if advanced && let Some(rtt) = self.stamps.echoed_rtt(segment, now) {
            self.rtt.sample(rtt.max(SimDuration::from_millis(1)), una, nxt, now);
            self.rtt.reset_backoff();
        }
        None
    }

    fn control_congestion(
        &mut self,
        summary: &AckSummary,
        delivery: &Delivery,
        rtt: Option<SimDuration>,
        prior_in_flight: u32,
        now: SimTime,
    ) {
        let rate =
            self.delivery.sample(delivery.segments, delivery.newest, self.snd.mss, self.rtt.min(), now);
        if summary.mark_echoed {
            self.delivery.marked += u64::from(summary.delivered);
        }
        let sample = AckSample {
            delivered: summary.delivered,
            total_delivered: self.delivery.delivered,
            total_marked: self.delivery.marked,
            delivered_at: self.delivery.delivered_at(),
            losses: (self.snd.flight.ever_lost() - self.recovery.lost_before_ack) as u32,
            total_lost: self.snd.flight.ever_lost(),
            rtt,
            srtt: self.rtt.srtt(),
            interval: rate.interval,
            interval_delivered: rate.delivered,
            prior_delivered: rate.prior_delivered,
            app_limited: rate.app_limited,
            ack_was_delayed: summary.delivered == 1 && summary.small_step,
            phase: self.recovery.phase,
            prior_in_flight,
            in_flight: self.in_flight(),
            pacing_rate: self.pacing_rate(),
            paced: self.is_paced(),
            until_next_send: self.until_next_send(now),
            mss: self.snd.mss,
            una: self.snd.una,
            nxt: self.snd.nxt,
        };
        self.congestion.on_sample(&mut self.window, &sample, now);
        if self.congestion.holds_back() {
            self.delivery.note_app_limited(self.in_flight());
        }
        if self.congestion.rules_window() {
            return;
        }
        let may_grow = match self.recovery.phase {
            Phase::Open | Phase::Loss => summary.advanced,
            Phase::Disorder => summary.advanced || self.recovery.rack.reordering_seen,
            Phase::Reduced | Phase::Recovery => false,
        };
        if may_grow
            && summary.delivered > 0
            && (self.is_window_limited() || self.recovery.phase == Phase::Loss)
        {
            self.congestion.on_ack(&mut self.window, summary.delivered, &sample, now);
        }
    }

    fn set_timer_after_ack(&mut self, progress: bool, now: SimTime) {
        if self.snd.flight.is_empty() {
            self.timers.retransmit = None;
            return;
        }
        if !progress || self.timers.is_retransmit(Retransmit::Reordering) {
            return;
        }
        if !self.arm_tail_probe(now, true) {
            self.timers.retransmit = None;
            self.rearm_rto(now);
        }
    }
}
