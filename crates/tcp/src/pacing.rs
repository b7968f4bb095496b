//! Pacing: segments leave spread over time rather than in bursts, as Linux's TCP does itself where no
//! queueing discipline does it for it. Algorithms that set a rate ask for it, or `SO_MAX_PACING_RATE`.
//!
//! A chunk of about a millisecond's worth leaves together, as one packet that the device would cut up;
//! the next one waits until that much time has passed.

use crate::connection::Connection;
use belljar_base::{SimDuration, SimTime};
use std::cell::Cell;

/// `sk_pacing_shift`: a chunk is 1/1024 s of the rate.
const CHUNK_SHIFT: u32 = 10;
/// The most in a chunk (`sk_gso_max_size`).
const CHUNK_MAX: u64 = 65_215;
/// By how much more a chunk may be where the round trip is short: half for each 512 us
/// (`net.ipv4.tcp_tso_rtt_log`).
const CHUNK_RTT_SHIFT: u32 = 9;
/// `net.ipv4.tcp_min_tso_segs`.
const CHUNK_SEGMENTS: u32 = 2;
/// A flow's first segments are not paced.
const UNPACED_SEGMENTS: u32 = 10;

/// Where pacing stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacing {
    /// `SO_MAX_PACING_RATE` in bytes a second.
    pub max_rate: Option<u64>,
    /// When the next chunk may leave.
    at: SimTime,
    /// How late the present chunk began.
    credit: SimDuration,
    /// Segments that may still join it, and its bytes.
    left: u32,
    bytes: u64,
    /// The rate that was worked out last, and from which window, per cent and round trip: it is asked for several times for
    /// each segment.
    worked_out: Cell<([u64; 3], u64)>,
}

impl Connection {
    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.max_rate.is_some() || self.congestion.pacing_rate().is_some()
    }

    /// Whether the next segment has to wait; the timer is set then.
    pub(crate) fn must_pace(&mut self, now: SimTime) -> bool {
        if self.pacing.left > 0 || self.pacing.at <= now || !self.is_paced() {
            return false;
        }
        self.timers.pacing = Some(self.pacing.at);
        true
    }

    /// A segment was sent.
    pub(crate) fn note_paced(&mut self, bytes: usize, now: SimTime) {
        if !self.is_paced() {
            return;
        }
        if self.pacing.left == 0 {
            self.pacing.left = self.chunk_segments();
            self.pacing.credit = now.since(self.pacing.at);
            self.pacing.at = self.pacing.at.max(now);
        }
        self.pacing.bytes += bytes as u64;
        self.pacing.left -= 1;
        if self.pacing.left == 0 {
            self.end_chunk();
        }
    }

    /// The chunk is complete, or nothing more can be sent now.
    pub(crate) fn end_chunk(&mut self) {
        self.pacing.left = 0;
        let bytes = std::mem::take(&mut self.pacing.bytes);
        if bytes == 0 {
            return;
        }
        let rate = self.pacing_rate();
        if rate == 0 || rate == u64::MAX || self.stats.data_segments_out < UNPACED_SEGMENTS {
            return;
        }
        let nanos = bytes.saturating_mul(1_000_000_000) / rate;
        let late = self.pacing.credit.as_nanos().min(nanos / 2);
        self.pacing.at += SimDuration::from_nanos(nanos - late);
    }

    /// How long pacing holds the next segment back.
    pub(crate) fn until_next_send(&self, now: SimTime) -> SimDuration {
        self.pacing.at.since(now)
    }

    /// How many segments Linux hands to the device as one packet (`tcp_tso_autosize`).
    pub(crate) fn chunk_segments(&self) -> u32 {
        let mut bytes = (self.pacing_rate() >> CHUNK_SHIFT).min(CHUNK_MAX);
        if let Some(rtt) = self.rtt.min() {
            let shift = (rtt.as_micros() >> CHUNK_RTT_SHIFT).min(63) as u32;
            bytes = (bytes + (CHUNK_MAX >> shift)).min(CHUNK_MAX);
        }
        let least = self.congestion.least_chunk().unwrap_or(CHUNK_SEGMENTS);
        ((bytes / self.snd.mss as u64) as u32).max(least)
    }

    /// The pacing rate in bytes a second: the algorithm's, or twice (in slow start) or 1.2 times the
    /// window per round trip (`tcp_update_pacing_rate`).
    pub(crate) fn pacing_rate(&self) -> u64 {
        let most = self.pacing.max_rate.unwrap_or(u64::MAX);
        if let Some(rate) = self.congestion.pacing_rate() {
            return rate.min(most);
        }
        let Some(srtt) = self.rtt.srtt() else { return most };
        let window = u64::from(self.window.cwnd.max(self.snd.flight.len())) * self.snd.mss as u64;
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
        let nanos = srtt.as_nanos().max(1);
        let (of, rate) = self.pacing.worked_out.get();
        if of == [window, percent, nanos] {
            return rate.min(most);
        }
        let rate = match window.checked_mul(percent * 10_000_000) {
            Some(product) => product / nanos,
            None => (u128::from(window) * u128::from(percent) * 10_000_000 / u128::from(nanos)) as u64,
        };
        self.pacing.worked_out.set(([window, percent, nanos], rate));
        rate.min(most)
    }
}
