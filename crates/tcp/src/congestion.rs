//! Interface of the congestion control algorithms. As in Linux, windows are in segments.

use crate::CongestionAlgorithm;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::dctcp::Dctcp;
pub use crate::recovery::Phase;
use crate::reno::Reno;
use belljar_base::{SimDuration, SimTime};
use std::fmt::Debug;

/// Initial window (RFC 6928).
pub(crate) const INITIAL_WINDOW: u32 = 10;
/// Initial value of the slow-start threshold.
pub(crate) const SSTHRESH_UNSET: u32 = 0x7fff_ffff;

/// Congestion window, shared by loss recovery and the algorithm.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next increase of `cwnd`.
    pub acked_towards_increase: u32,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window { cwnd: INITIAL_WINDOW, ssthresh: SSTHRESH_UNSET, acked_towards_increase: 0 }
    }

    /// True if `cwnd` is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Increases the window by one segment for each acknowledged one, up to the threshold; returns the
    /// remainder of `acked`.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// Increases the window by one segment for each `per_increase` acknowledged ones.
    pub fn increase_additively(&mut self, per_increase: u32, acked: u32) {
        let per_increase = per_increase.max(1);
        // Credit accumulated at a lower rate of increase counts for one segment only.
        if self.acked_towards_increase >= per_increase {
            self.acked_towards_increase = 0;
            self.cwnd += 1;
        }
        self.acked_towards_increase += acked;
        self.cwnd += self.acked_towards_increase / per_increase;
        self.acked_towards_increase %= per_increase;
    }
}

/// Sample: information from one ACK for an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Segments newly delivered by this ACK, including selectively acknowledged ones.
    pub delivered: u32,
    /// Total number of segments delivered.
    pub total_delivered: u64,
    /// Total number of delivered segments whose ACK echoed a congestion mark.
    pub total_marked: u64,
    /// Time of the last delivery.
    pub delivered_at: SimTime,
    /// Segments found lost with this ACK.
    pub losses: u32,
    /// Total number of segments found lost.
    pub total_lost: u64,
    /// Round-trip time of the most recently sent of the delivered segments; `None` if it was retransmitted.
    pub rtt: Option<SimDuration>,
    /// Smoothed round-trip time.
    pub srtt: Option<SimDuration>,
    /// Interval of the delivery rate sample; zero if there is no sample.
    pub interval: SimDuration,
    /// Segments delivered in `interval`.
    pub interval_delivered: u64,
    /// Segments delivered before `interval`.
    pub prior_delivered: u64,
    /// True if the application limited the rate.
    pub app_limited: bool,
    /// True if the ACK was probably delayed.
    pub ack_was_delayed: bool,
    /// Phase of loss recovery.
    pub phase: Phase,
    /// Segments in flight before the ACK.
    pub prior_in_flight: u32,
    /// Segments in flight now.
    pub in_flight: u32,
    /// Pacing rate in bytes per second.
    pub pacing_rate: u64,
    /// True if pacing delays segments.
    pub paced: bool,
    /// Time until pacing releases the next segment.
    pub until_next_send: SimDuration,
    /// Payload of a full segment in bytes.
    pub mss: usize,
    /// First unacknowledged sequence number.
    pub una: u64,
    /// Next sequence number to be sent.
    pub nxt: u64,
}

#[cfg(test)]
impl AckSample {
    /// Sample of an ACK of one segment without further information.
    pub(crate) fn quiet() -> AckSample {
        AckSample {
            delivered: 1,
            total_delivered: 0,
            total_marked: 0,
            delivered_at: SimTime::ZERO,
            losses: 0,
            total_lost: 0,
            rtt: None,
            srtt: None,
            interval: SimDuration::ZERO,
            interval_delivered: 0,
            prior_delivered: 0,
            app_limited: false,
            ack_was_delayed: false,
            phase: Phase::Open,
            prior_in_flight: 0,
            in_flight: 0,
            pacing_rate: 10_000_000,
            paced: false,
            until_next_send: SimDuration::ZERO,
            mss: 1448,
            una: 0,
            nxt: 0,
        }
    }
}

/// Congestion control algorithm. Loss recovery decides when to reduce the window; the algorithm determines
/// the reduction and the growth.
pub trait CongestionControl: Debug + Send {
    /// Name in `TCP_CONGESTION`.
    fn name(&self) -> &'static str;
    /// Slow-start threshold after a loss or a mark, in segments.
    fn ssthresh(&mut self, window: &Window) -> u32;
    /// Called for every ACK that delivers segments, in every phase.
    fn on_sample(&mut self, window: &mut Window, sample: &AckSample, now: SimTime);
    /// Increases the window after `acked` segments were delivered while it was in use.
    fn on_ack(&mut self, window: &mut Window, acked: u32, sample: &AckSample, now: SimTime);
    /// Called on a retransmission timeout.
    fn on_timeout(&mut self) {}
    /// Called when sending resumes after an idle period.
    fn on_restart(&mut self, _window: &mut Window, _restart: Restart, _now: SimTime) {}
    /// Window to restore after an unnecessary reduction from `prior_cwnd`.
    fn undo(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }
    /// Called when fast recovery begins.
    fn on_recovery(&mut self, _window: &mut Window) {}
    /// True if the algorithm sets the window itself with every sample, even during loss recovery.
    fn rules_window(&self) -> bool {
        false
    }
    /// Pacing rate in bytes per second, for algorithms that pace.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// Minimum number of segments sent together, if the algorithm prescribes one.
    fn min_packet_segments(&self) -> Option<u32> {
        None
    }
    /// Size of the send buffer in congestion windows.
    fn send_buffer_windows(&self) -> usize {
        2
    }
    /// True if the algorithm itself limits the data in flight below the capacity of the path.
    fn holds_back(&self) -> bool {
        false
    }
    /// True if every segment carries an ECN codepoint, ECN is requested regardless of the sysctl, and each
    /// mark is echoed individually (RFC 8257).
    fn needs_ecn(&self) -> bool {
        false
    }
}

/// Resumption of sending after an idle period.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// Time without data in flight.
    pub idle: SimDuration,
    /// True if the application had no data to send.
    pub app_limited: bool,
    /// Payload of a full segment in bytes.
    pub mss: usize,
}

/// Initial parameters of an algorithm.
pub(crate) struct Start {
    pub random: u32,
    pub srtt: Option<SimDuration>,
    pub min_rtt: Option<SimDuration>,
    pub cwnd: u32,
    pub mss: usize,
    pub next: u64,
    pub now: SimTime,
}

impl Start {
    /// Parameters before the handshake.
    pub(crate) fn unknown(next: u64, random: u32, now: SimTime) -> Start {
        Start { random, srtt: None, min_rtt: None, cwnd: INITIAL_WINDOW, mss: 536, next, now }
    }
}

/// Creates an instance of an algorithm.
pub(crate) fn instantiate(algorithm: CongestionAlgorithm, start: &Start) -> Box<dyn CongestionControl> {
    match algorithm {
        CongestionAlgorithm::Cubic => Box::new(Cubic::new()),
        CongestionAlgorithm::Reno => Box::new(Reno),
        CongestionAlgorithm::Dctcp => Box::new(Dctcp::new(start.next)),
        CongestionAlgorithm::Bbr => Box::new(Bbr::new(start)),
    }
}
