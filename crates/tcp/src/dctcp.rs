//! DCTCP (RFC 8257): the window is reduced by half the fraction of marked segments, so that a switch with a
//! low marking threshold keeps its queue short. Growth is that of Reno.

use crate::congestion::{AckSample, CongestionControl, Window};
use belljar_base::SimTime;

/// Fixed-point one, for fractions.
const ONE: u64 = 1 << 10;
/// RFC 8257, section 4.2: "g SHOULD be 1/16".
const GAIN_SHIFT: u32 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    /// Smoothed fraction of marked segments. It starts at one, for caution.
    alpha: u64,
    window_end: u64,
    delivered: u64,
    marked: u64,
    before_loss: u32,
}

impl Dctcp {
    pub(crate) fn new(next: u64) -> Dctcp {
        Dctcp { alpha: ONE, window_end: next, delivered: 0, marked: 0, before_loss: 0 }
    }
}

impl CongestionControl for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
    }

    // RFC 8257, section 3.3: "cwnd = cwnd * (1 - DCTCP.Alpha / 2)"
    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.before_loss = window.cwnd;
        let less = (u64::from(window.cwnd) * self.alpha) >> 11;
        (window.cwnd - less as u32).max(2)
    }

    fn on_sample(&mut self, _: &mut Window, sample: &AckSample, _: SimTime) {
        if sample.una < self.window_end {
            return;
        }
        // RFC 8257, section 3.3: "DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M"
        let (delivered, marked) =
            (sample.total_delivered - self.delivered, sample.total_marked - self.marked);
        let fade = self.alpha >> GAIN_SHIFT;
        self.alpha -= if fade == 0 { self.alpha } else { fade };
        if marked > 0 {
            self.alpha = (self.alpha + (marked << (10 - GAIN_SHIFT)) / delivered.max(1)).min(ONE);
        }
        self.window_end = sample.nxt;
        self.delivered = sample.total_delivered;
        self.marked = sample.total_marked;
    }

    fn on_ack(&mut self, window: &mut Window, acked: u32, _: &AckSample, _: SimTime) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.increase_additively(window.cwnd, left);
        }
    }

    // RFC 8257, section 3.5: "a DCTCP sender MUST react to loss episodes in the same way as
    // conventional TCP".
    fn on_recovery(&mut self, window: &mut Window) {
        self.before_loss = window.cwnd;
        window.ssthresh = (window.cwnd / 2).max(2);
    }

    fn undo(&mut self, window: &Window, _: u32) -> u32 {
        window.cwnd.max(self.before_loss)
    }

    fn needs_ecn(&self) -> bool {
        true
    }
}
