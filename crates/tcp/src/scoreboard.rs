//! Scoreboard: the segments in flight with their state, which combines RFC 2018's scoreboard and Linux's
//! retransmission queue. All operations are amortised O(1) or O(log n) in the window.

use belljar_base::SimTime;
use std::collections::VecDeque;

/// Segment that has been sent and not cumulatively acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub start: u64,
    /// End: the sequence number after the last byte or the FIN.
    pub end: u64,
    /// Time of the last transmission.
    pub sent_at: SimTime,
    /// Number of the last transmission, which matches its entry in the transmission order.
    pub transmission: u64,
    pub sacked: bool,
    pub lost: bool,
    /// True if a retransmission is in flight.
    pub retransmitted: bool,
    pub ever_retransmitted: bool,
    pub rate: RateStamp,
}

/// Delivery state at the transmission of a segment (Linux's `tcp_rate_skb_sent`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateStamp {
    pub delivered: u64,
    pub delivered_at: SimTime,
    pub first_sent_at: SimTime,
    pub app_limited: bool,
}

/// Segments in flight in order of sequence number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    /// Number of segments marked lost so far (Linux's `tp->lost`).
    ever_lost: u64,
    retransmitted: u32,
    /// Number of lost segments that have not been retransmitted since.
    to_retransmit: u32,
    /// Lower bound of the start of the next segment to retransmit.
    retransmit_from: u64,
    /// Transmissions as `(end, number)` in order. Entries of segments that have been resent, acknowledged or
    /// marked lost are stale and are removed when they reach the front.
    order: VecDeque<(u64, u64)>,
    transmissions: u64,
    /// End of the highest segment selectively acknowledged.
    highest_sacked: u64,
}

impl Scoreboard {
    pub(crate) fn len(&self) -> u32 {
        self.segments.len() as u32
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }
    pub(crate) fn ever_lost(&self) -> u64 {
        self.ever_lost
    }
    pub(crate) fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    pub(crate) fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }
    pub(crate) fn get(&self, index: usize) -> &Sent {
        &self.segments[index]
    }
    pub(crate) fn has_to_retransmit(&self) -> bool {
        self.to_retransmit > 0
    }

    /// RFC 6675's pipe: the number of segments estimated to be in the network.
    pub(crate) fn in_flight(&self) -> u32 {
        self.len() + self.retransmitted - self.sacked - self.lost
    }

    /// Adds a segment that has been sent.
    pub(crate) fn push(&mut self, start: u64, end: u64, now: SimTime, rate: RateStamp) {
        let transmission = self.note_transmission(end);
        self.segments.push_back(Sent {
            start,
            end,
            sent_at: now,
            transmission,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
            rate,
        });
    }

    fn note_transmission(&mut self, end: u64) -> u64 {
        self.transmissions += 1;
        self.order.push_back((end, self.transmissions));
        if self.order.len() > 4 * self.segments.len() + 64 {
            let order = std::mem::take(&mut self.order);
            let is_live = |&(end, transmission): &(u64, u64)| {
                transmission == self.transmissions || self.live(end, transmission).is_some()
            };
            self.order = order.into_iter().filter(is_live).collect();
        }
        self.transmissions
    }

    /// Index of the segment whose last transmission this is, if it is still outstanding.
    fn live(&self, end: u64, transmission: u64) -> Option<usize> {
        if self.segments.front().is_none_or(|first| end <= first.start) {
            return None;
        }
        let index = self.find(end - 1)?;
        let segment = &self.segments[index];
        let awaited = !segment.sacked && (!segment.lost || segment.retransmitted);
        (segment.transmission == transmission && awaited).then_some(index)
    }

    /// Index of the segment that contains `seq`.
    pub(crate) fn find(&self, seq: u64) -> Option<usize> {
        // Usually the first one matches; a binary search would touch a dozen others.
        let index = match self.segments.front() {
            Some(first) if first.end > seq => 0,
            _ => self.segments.partition_point(|segment| segment.end <= seq),
        };
        self.segments.get(index).filter(|segment| segment.start <= seq).map(|_| index)
    }

    /// Oldest outstanding transmission.
    pub(crate) fn oldest_transmission(&mut self) -> Option<usize> {
        while let Some(&(end, transmission)) = self.order.front() {
            if let Some(index) = self.live(end, transmission) {
                return Some(index);
            }
            self.order.pop_front();
        }
        None
    }

    /// Removes the first segment if `ack` covers it; a partly covered segment is trimmed and stays.
    pub(crate) fn pop_acked(&mut self, ack: u64) -> Option<Sent> {
        let first = self.segments.front_mut()?;
        if first.end > ack {
            first.start = first.start.max(ack);
            return None;
        }
        let segment = self.segments.pop_front()?;
        self.forget_counts(&segment);
        if self.segments.is_empty() {
            self.order.clear();
        }
        Some(segment)
    }

    fn forget_counts(&mut self, segment: &Sent) {
        self.sacked -= u32::from(segment.sacked);
        self.lost -= u32::from(segment.lost);
        self.retransmitted -= u32::from(segment.retransmitted);
        self.to_retransmit -= u32::from(segment.lost && !segment.retransmitted);
    }

    /// Index of the first segment that starts at or after `seq`.
    pub(crate) fn first_from(&self, seq: u64) -> usize {
        self.segments.partition_point(|segment| segment.start < seq)
    }

    /// Marks a segment as selectively acknowledged; returns its previous state, or `None` if it was marked
    /// already.
    pub(crate) fn mark_sacked(&mut self, index: usize) -> Option<Sent> {
        if self.segments[index].sacked {
            return None;
        }
        let before = self.segments[index].clone();
        self.forget_counts(&before);
        let segment = &mut self.segments[index];
        segment.sacked = true;
        segment.lost = false;
        segment.retransmitted = false;
        self.sacked += 1;
        self.highest_sacked = self.highest_sacked.max(segment.end);
        Some(before)
    }

    /// Clears the SACK marks after reneging by the receiver (RFC 2018, section 8).
    pub(crate) fn forget_sacks(&mut self) {
        for segment in &mut self.segments {
            segment.sacked = false;
        }
        self.sacked = 0;
        self.highest_sacked = 0;
    }

    /// Marks a segment or its retransmission as lost.
    pub(crate) fn mark_lost(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        if segment.sacked || (segment.lost && !segment.retransmitted) {
            return;
        }
        self.lost += u32::from(!segment.lost);
        self.ever_lost += 1;
        self.retransmitted -= u32::from(segment.retransmitted);
        self.to_retransmit += 1;
        segment.lost = true;
        segment.retransmitted = false;
        self.retransmit_from = self.retransmit_from.min(segment.start);
    }

    /// Clears all loss marks after a spurious timeout or recovery.
    pub(crate) fn unmark_lost(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost = 0;
        self.to_retransmit = 0;
        // Segments that were marked lost are outstanding again.
        let awaited = self.segments.iter().filter(|segment| !segment.sacked);
        let mut order: Vec<(u64, u64)> = awaited.map(|segment| (segment.end, segment.transmission)).collect();
        order.sort_unstable_by_key(|&(_, transmission)| transmission);
        self.order = order.into();
    }

    /// Index of the next lost segment to retransmit.
    pub(crate) fn next_to_retransmit(&mut self) -> Option<usize> {
        if self.to_retransmit == 0 {
            self.retransmit_from = u64::MAX;
            return None;
        }
        let mut index = self.segments.partition_point(|segment| segment.end <= self.retransmit_from);
        while let Some(segment) = self.segments.get(index) {
            if segment.lost && !segment.retransmitted {
                self.retransmit_from = segment.start;
                return Some(index);
            }
            index += 1;
        }
        debug_assert!(false, "a segment to retransmit lies before the hint");
        None
    }

    /// Records the retransmission of a segment.
    pub(crate) fn note_retransmission(&mut self, index: usize, now: SimTime, rate: RateStamp) {
        let end = self.segments[index].end;
        let transmission = self.note_transmission(end);
        let segment = &mut self.segments[index];
        self.to_retransmit -= u32::from(segment.lost && !segment.retransmitted);
        self.retransmitted += u32::from(!segment.retransmitted);
        segment.transmission = transmission;
        segment.sent_at = now;
        segment.retransmitted = true;
        segment.ever_retransmitted = true;
        segment.rate = rate;
    }

    /// Records the retransmission of a segment as a probe: the earlier transmission is not considered lost,
    /// and the segment counts once (Linux's `__tcp_retransmit_skb` without `tcp_retransmit_skb`).
    pub(crate) fn note_probe(&mut self, index: usize, now: SimTime, rate: RateStamp) {
        let end = self.segments[index].end;
        let transmission = self.note_transmission(end);
        let segment = &mut self.segments[index];
        segment.transmission = transmission;
        segment.sent_at = now;
        segment.ever_retransmitted = true;
        segment.rate = rate;
    }

    /// Splits a segment at `at`, after the path MTU has decreased.
    pub(crate) fn split(&mut self, index: usize, at: u64) {
        let mut tail = self.segments[index].clone();
        self.segments[index].end = at;
        tail.start = at;
        self.sacked += u32::from(tail.sacked);
        self.lost += u32::from(tail.lost);
        self.retransmitted += u32::from(tail.retransmitted);
        self.to_retransmit += u32::from(tail.lost && !tail.retransmitted);
        self.order.push_back((at, tail.transmission)); // the old entry is the tail's now
        self.segments.insert(index + 1, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(n: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for i in 0..n {
            board.push(i * 10, i * 10 + 10, SimTime::from_nanos(i), RateStamp::default());
        }
        board
    }

    /// Compares the counters with a recount.
    fn check(board: &Scoreboard) {
        let count = |f: &dyn Fn(&Sent) -> bool| board.segments.iter().filter(|s| f(s)).count() as u32;
        assert_eq!(board.sacked, count(&|s| s.sacked));
        assert_eq!(board.lost, count(&|s| s.lost));
        assert_eq!(board.retransmitted, count(&|s| s.retransmitted));
        assert_eq!(board.to_retransmit, count(&|s| s.lost && !s.retransmitted));
    }

    #[test]
    fn counts_follow_a_loss_and_its_repair() {
        let mut board = board(5);
        for index in 2..5 {
            assert!(board.mark_sacked(index).is_some());
        }
        board.mark_lost(0);
        board.mark_lost(1);
        board.mark_lost(2);
        check(&board);
        assert_eq!(board.in_flight(), 0);
        assert_eq!(board.next_to_retransmit(), Some(0));
        board.note_retransmission(0, SimTime::from_nanos(9), RateStamp::default());
        assert_eq!(board.next_to_retransmit(), Some(1));
        check(&board);
        assert_eq!(board.in_flight(), 1);
        board.mark_lost(0);
        assert_eq!(board.next_to_retransmit(), Some(0));
        assert!(board.pop_acked(25).is_some());
        assert!(board.pop_acked(25).is_some());
        assert!(board.pop_acked(25).is_none());
        assert_eq!(board.front().unwrap().start, 25);
        check(&board);
        assert_eq!(board.next_to_retransmit(), None);
    }

    #[test]
    fn order_of_transmission_skips_the_dead() {
        let mut board = board(3);
        assert_eq!(board.oldest_transmission(), Some(0));
        board.mark_lost(0);
        board.note_retransmission(0, SimTime::from_nanos(7), RateStamp::default());
        assert_eq!(board.oldest_transmission(), Some(1));
        board.mark_sacked(1);
        board.mark_sacked(2);
        assert_eq!(board.oldest_transmission(), Some(0));
        board.split(0, 4);
        check(&board);
        board.mark_lost(0);
        board.mark_lost(1);
        check(&board);
        assert_eq!(board.oldest_transmission(), None);
    }
}
