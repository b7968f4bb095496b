//! Pacing: segments leave spread over time rather than in bursts. Linux's TCP paces itself unless a queueing
//! discipline does. Pacing is enabled by congestion control algorithms that set a rate, and by
//! `SO_MAX_PACING_RATE`.
//!
//! The segments of a [device packet](crate::tso), about a millisecond's worth of data, leave together. The
//! next packet waits until that time has passed.

use crate::sender::Sender;
use belljar_base::{SimDuration, SimTime};

/// Number of segments at the start of a flow that are not paced.
const UNPACED_SEGMENTS: u32 = 10;

/// Pacing state.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// `SO_MAX_PACING_RATE`, in bytes per second.
    pub max_rate: Option<u64>,
    /// Time of the last transmission or, if later, of the next permitted one (`tcp_wstamp_ns`).
    at: SimTime,
    /// Rate that the congestion window yields, in bytes per second, and the window, factor (per cent) and
    /// round trip from which it was computed.
    rate: u64,
    of: [u64; 3],
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing { max_rate: None, at: SimTime::ZERO, rate: u64::MAX, of: [0; 3] }
    }
}

impl Pacing {
    /// Time of the last transmission or, if later, of the next permitted one.
    pub(crate) fn last_sent(&self) -> SimTime {
        self.at
    }

    /// Records the transmission of a segment, with or without data.
    pub(crate) fn note_sent(&mut self, now: SimTime) {
        self.at = self.at.max(now);
    }
}

impl Sender {
    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.max_rate.is_some() || self.congestion.pacing_rate().is_some()
    }

    /// True if the next segment must wait for pacing. Sets the pacing timer in that case.
    pub(crate) fn must_pace(&mut self, now: SimTime) -> bool {
        if self.pacing.at <= now || !self.is_paced() {
            return false;
        }
        self.timers.pacing = Some(self.pacing.at);
        true
    }

    /// Accounts for a device packet of `bytes` (`tcp_update_skb_after_send`).
    pub(crate) fn note_paced(&mut self, bytes: usize, now: SimTime) {
        let late = now.since(self.pacing.at).as_nanos();
        self.pacing.note_sent(now);
        if bytes == 0 || !self.is_paced() {
            return;
        }
        let rate = self.pacing_rate();
        let segments = bytes.div_ceil(self.snd.mss) as u32;
        let so_far = self.stats.data_segments_out.saturating_add(segments);
        if rate == 0 || rate == u64::MAX || so_far < UNPACED_SEGMENTS {
            return;
        }
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate;
        self.pacing.at += SimDuration::from_nanos(nanos - late.min(nanos / 2));
    }

    /// Time until pacing permits the next segment.
    pub(crate) fn until_next_send(&self, now: SimTime) -> SimDuration {
        self.pacing.at.since(now)
    }

    /// Pacing rate in bytes per second: that of the congestion control algorithm, or else that computed at
    /// the last ACK.
    pub(crate) fn pacing_rate(&self) -> u64 {
        let most = self.pacing.max_rate.unwrap_or(u64::MAX);
        self.congestion.pacing_rate().unwrap_or(self.pacing.rate).min(most)
    }

    /// Computes the pacing rate from the window and the round trip: 2 times the window per round trip in slow
    /// start, 1.2 times otherwise (`tcp_update_pacing_rate`).
    pub(crate) fn update_pacing_rate(&mut self) {
        let Some(srtt) = self.rtt.srtt() else { return };
        let window = u64::from(self.window.cwnd.max(self.snd.flight.len())) * self.snd.mss as u64;
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let of = [window, percent, srtt.as_nanos().max(1)];
        if of == self.pacing.of {
            return;
        }
        self.pacing.of = of;
        let nanos = of[2];
        self.pacing.rate = match window.checked_mul(percent * 10_000_000) {
            Some(product) => product / nanos,
            None => (u128::from(window) * u128::from(percent) * 10_000_000 / u128::from(nanos)) as u64,
        };
    }
}
