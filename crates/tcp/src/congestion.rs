//! What a congestion control algorithm sees and decides. Windows count segments, as Linux's do.

use crate::CongestionAlgorithm;
use crate::cubic::Cubic;
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

    /// Whether `cwnd` is below the threshold.
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

/// What one ACK tells an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Segments that this ACK newly delivered, selectively acknowledged ones included.
    pub delivered: u32,
    /// The round trip of the segment that was sent last of those; `None` if it was retransmitted.
    pub rtt: Option<SimDuration>,
    /// The least round trip known.
    pub min_rtt: Option<SimDuration>,
    /// The delivery rate in bytes a second; 0 when the sample says nothing.
    pub delivery_rate: u64,
    /// The rate was limited by the program rather than by the path.
    pub app_limited: bool,
    /// A loss is being repaired: the window is not the algorithm's.
    pub in_recovery: bool,
    /// The ACK echoed a congestion mark.
    pub ecn_echo: bool,
    /// Segments in flight before the ACK.
    pub prior_in_flight: u32,
    /// The first unacknowledged sequence number, and the next to be sent.
    pub una: u64,
    /// The next sequence number to be sent.
    pub nxt: u64,
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
    /// Sending starts again after nothing was in flight for `idle`.
    fn on_restart(&mut self, _idle: SimDuration) {}
    /// The window to restore after a reduction that proved needless, given the one before it.
    fn undo(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }
    /// The rate to send at in bytes a second, for algorithms that pace.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// Whether segments are to be sent with ECN codepoints whatever the sysctl says.
    fn needs_ecn(&self) -> bool {
        false
    }
}

/// A fresh instance.
pub(crate) fn instantiate(algorithm: CongestionAlgorithm) -> Box<dyn CongestionControl> {
    match algorithm {
        CongestionAlgorithm::Cubic => Box::new(Cubic::new()),
        CongestionAlgorithm::Reno => Box::new(Reno),
    }
}
