//! Congestion control: the interface of the algorithms. Windows count segments, as Linux's do.

use crate::CongestionAlgorithm;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::dctcp::Dctcp;
pub use crate::recovery::Phase;
use crate::reno::Reno;
use belljar_base::{SimDuration, SimTime};
use std::fmt::Debug;

/// RFC 6928: the initial window.
pub(crate) const INITIAL_WINDOW: u32 = 10;
/// A slow-start threshold that was never set.
pub(crate) const SSTHRESH_UNSET: u32 = 0x7fff_ffff;

/// The congestion window, shared between loss recovery and the algorithm.
#[derive(Clone, Debug)]
pub struct Window {
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The slow-start threshold in segments.
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

    /// One segment for each one acknowledged, up to the threshold; gives what is left of `acked`.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// One segment for each `per_increase` acknowledged.
    pub fn increase_additively(&mut self, per_increase: u32, acked: u32) {
        let per_increase = per_increase.max(1);
        // A credit saved up under a slower rate is worth one segment, not many.
        if self.acked_towards_increase >= per_increase {
            self.acked_towards_increase = 0;
            self.cwnd += 1;
        }
        self.acked_towards_increase += acked;
        self.cwnd += self.acked_towards_increase / per_increase;
        self.acked_towards_increase %= per_increase;
    }
}

/// Sample: the information of one ACK for an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Segments that this ACK newly delivered, selectively acknowledged ones included.
    pub delivered: u32,
    /// Segments delivered in all, and those of them that were acknowledged with a mark's echo.
    pub total_delivered: u64,
    /// See `total_delivered`.
    pub total_marked: u64,
    /// Time of the last delivery.
    pub delivered_at: SimTime,
    /// Segments found lost with this ACK, and in all.
    pub losses: u32,
    /// See `losses`.
    pub total_lost: u64,
    /// The round trip of the segment that was sent last of those; `None` if it was retransmitted.
    pub rtt: Option<SimDuration>,
    /// The smoothed round trip.
    pub srtt: Option<SimDuration>,
    /// The delivery rate is of `interval_delivered` segments in `interval`, after `prior_delivered` had
    /// been delivered; zero when the sample says nothing.
    pub interval: SimDuration,
    /// See `interval`.
    pub interval_delivered: u64,
    /// See `interval`.
    pub prior_delivered: u64,
    /// The rate was limited by the program rather than by the path.
    pub app_limited: bool,
    /// The ACK was delayed, as far as can be told.
    pub ack_was_delayed: bool,
    /// Phase of loss recovery.
    pub phase: Phase,
    /// Segments in flight before the ACK.
    pub prior_in_flight: u32,
    /// Segments in flight now.
    pub in_flight: u32,
    /// The rate to send at in bytes a second, and whether segments wait for it.
    pub pacing_rate: u64,
    /// See `pacing_rate`.
    pub paced: bool,
    /// Time for which pacing holds the next segment back.
    pub until_next_send: SimDuration,
    /// The payload of a full segment.
    pub mss: usize,
    /// The first unacknowledged sequence number, and the next to be sent.
    pub una: u64,
    /// The next sequence number to be sent.
    pub nxt: u64,
}

#[cfg(test)]
impl AckSample {
    /// An ACK of one segment that says nothing else.
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

/// A congestion control algorithm. Loss recovery decides when windows shrink; the algorithm says by
/// how much, and how they grow.
pub trait CongestionControl: Debug + Send {
    /// The name in `TCP_CONGESTION`.
    fn name(&self) -> &'static str;
    /// The threshold after a loss or a mark, in segments.
    fn ssthresh(&mut self, window: &Window) -> u32;
    /// Every ACK that delivered something, in every state.
    fn on_sample(&mut self, window: &mut Window, sample: &AckSample, now: SimTime);
    /// `acked` segments were delivered while the window was in use: let it grow.
    fn on_ack(&mut self, window: &mut Window, acked: u32, sample: &AckSample, now: SimTime);
    /// A retransmission timeout.
    fn on_timeout(&mut self) {}
    /// Sending starts again after nothing was in flight for `idle`; `app_limited` if for want of data.
    fn on_restart(&mut self, _window: &mut Window, _restart: Restart, _now: SimTime) {}
    /// The window to restore after a reduction that proved needless, given the one before it.
    fn undo(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }
    /// Fast recovery begins.
    fn on_recovery(&mut self, _window: &mut Window) {}
    /// True if the algorithm sets the window itself with every sample, through loss recovery, too.
    fn rules_window(&self) -> bool {
        false
    }
    /// The rate to send at in bytes a second, for algorithms that pace.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// The least number of segments that are sent together, if the algorithm has an opinion.
    fn min_packet_segments(&self) -> Option<u32> {
        None
    }
    /// Windows that the send buffer should hold.
    fn send_buffer_windows(&self) -> usize {
        2
    }
    /// True if the algorithm itself keeps what is in flight below what the path would take.
    fn holds_back(&self) -> bool {
        false
    }
    /// True if every segment carries an ECN codepoint, ECN is asked for whatever the sysctl says, and
    /// marks are echoed one for one (RFC 8257).
    fn needs_ecn(&self) -> bool {
        false
    }
}

/// A pause in sending.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// Time for which nothing was in flight.
    pub idle: SimDuration,
    /// The program had nothing to send.
    pub app_limited: bool,
    /// The payload of a full segment.
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

/// A fresh instance.
pub(crate) fn instantiate(algorithm: CongestionAlgorithm, start: &Start) -> Box<dyn CongestionControl> {
    match algorithm {
        CongestionAlgorithm::Cubic => Box::new(Cubic::new()),
        CongestionAlgorithm::Reno => Box::new(Reno),
        CongestionAlgorithm::Dctcp => Box::new(Dctcp::new(start.next)),
        CongestionAlgorithm::Bbr => Box::new(Bbr::new(start)),
    }
}
