//! Reno (RFC 5681) with appropriate byte counting in segments.

use crate::congestion::{AckSample, CongestionControl, Window};
use belljar_base::SimTime;

/// Reno congestion control; all state is in the [`Window`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reno;

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    // RFC 5681, (4): "ssthresh = max (FlightSize / 2, 2*SMSS)"; Linux halves the window.
    fn ssthresh(&mut self, window: &Window) -> u32 {
        (window.cwnd / 2).max(2)
    }

    fn on_sample(&mut self, _: &mut Window, _: &AckSample, _: SimTime) {}

    fn on_ack(&mut self, window: &mut Window, acked: u32, _: &AckSample, _: SimTime) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.increase_additively(window.cwnd, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_one_segment_a_window_above_the_threshold() {
        let mut window = Window { cwnd: 10, ssthresh: 10, acked_towards_increase: 0 };
        for _ in 0..10 {
            window.increase_additively(window.cwnd, 1);
        }
        assert_eq!(window.cwnd, 11);
        assert_eq!(Reno.ssthresh(&window), 5);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut window = Window { cwnd: 10, ssthresh: 12, acked_towards_increase: 0 };
        assert_eq!(window.slow_start(5), 3);
        assert_eq!(window.cwnd, 12);
    }
}
