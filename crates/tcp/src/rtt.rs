//! Round-trip time and retransmission timeout: RFC 6298 with Linux's constants and its slower decay of the
//! variation.

use belljar_base::{SimDuration, SimTime};

/// RFC 6298, (2.1): timeout before the first sample.
pub(crate) const RTO_INITIAL: SimDuration = SimDuration::from_secs(1);
/// Retransmission timeout after a handshake without a round-trip time sample (Linux's
/// `TCP_TIMEOUT_FALLBACK`).
const RTO_FALLBACK: SimDuration = SimDuration::from_secs(3);
/// Linux's `TCP_RTO_MIN`: minimum of the **variation** term, so the RTO is at least this plus the SRTT.
pub(crate) const RTO_MIN: SimDuration = SimDuration::from_millis(200);
/// Linux's `TCP_RTO_MAX`.
pub(crate) const RTO_MAX: SimDuration = SimDuration::from_secs(120);
/// Lifetime of the minimum round-trip time (`net.ipv4.tcp_min_rtt_wlen`).
const MIN_RTT_LIFE: SimDuration = SimDuration::from_secs(300);

/// Estimator of the round-trip time. Variations are stored as four times the mean deviation.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: SimDuration,
    deviation: SimDuration,
    /// Maximum deviation in the round trip that ends at `round_end`.
    deviation_max: SimDuration,
    variation: SimDuration,
    round_end: u64,
    min: Option<(SimDuration, SimTime)>,
    rto: SimDuration,
    backoff: u8,
}

impl RttEstimator {
    pub(crate) fn new() -> RttEstimator {
        RttEstimator {
            srtt: SimDuration::ZERO,
            deviation: SimDuration::ZERO,
            deviation_max: SimDuration::ZERO,
            variation: SimDuration::ZERO,
            round_end: 0,
            min: None,
            rto: RTO_INITIAL,
            backoff: 0,
        }
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<SimDuration> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// Mean deviation.
    pub(crate) fn mean_deviation(&self) -> SimDuration {
        self.deviation.div(4)
    }

    /// Minimum round-trip time of the last five minutes.
    pub(crate) fn min(&self) -> Option<SimDuration> {
        self.min.map(|(rtt, _)| rtt)
    }

    /// Retransmission timeout, including the backoff.
    pub(crate) fn rto(&self) -> SimDuration {
        let doublings = u32::from(self.backoff.min(16));
        self.rto.saturating_mul(1 << doublings).min(RTO_MAX)
    }

    /// RFC 6298, (5.7): without a measurement in the handshake, whose timeout may have been too short, "the
    /// RTO MUST be re-initialized to 3 seconds when data transmission begins".
    pub(crate) fn fall_back(&mut self) {
        if self.srtt().is_none() {
            self.rto = RTO_FALLBACK;
            self.backoff = 0;
        }
    }

    /// RFC 6298, (5.5): "The host MUST set RTO <- RTO * 2".
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Resets the backoff after new data has been acknowledged.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Adds a sample. `una` and `nxt` delimit the round trips for the maximum deviation.
    pub(crate) fn sample(&mut self, rtt: SimDuration, una: u64, nxt: u64, now: SimTime) {
        let rtt = rtt.max(SimDuration::from_nanos(1));
        match self.min {
            Some((min, at)) if rtt > min && now.since(at) < MIN_RTT_LIFE => {}
            _ => self.min = Some((rtt, now)),
        }
        if self.srtt.is_zero() {
            // RFC 6298, (2.2): "SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max(G, K*RTTVAR)"
            self.srtt = rtt;
            self.deviation = rtt.saturating_mul(2);
            self.variation = self.deviation.max(RTO_MIN);
            self.deviation_max = self.variation;
            self.round_end = nxt;
        } else {
            self.update(rtt, una, nxt);
        }
        self.rto = (self.srtt + self.variation).min(RTO_MAX);
    }

    fn update(&mut self, rtt: SimDuration, una: u64, nxt: u64) {
        let (old, m) = (self.srtt.as_picos() as i64, rtt.as_picos() as i64);
        let error = m - old;
        self.srtt = SimDuration::from_picos((old + error / 8).max(1) as u64);
        let deviation = self.deviation.as_picos() as i64;
        let mut change = error.abs() - deviation / 4;
        if error < 0 && change > 0 {
            // A sudden decrease of the round-trip time must raise the timeout less than an increase.
            change /= 8;
        }
        self.deviation = SimDuration::from_picos((deviation + change).max(0) as u64);
        if self.deviation > self.deviation_max {
            self.deviation_max = self.deviation;
            self.variation = self.variation.max(self.deviation_max);
        }
        // The variation rises immediately but falls only once per round trip.
        if una > self.round_end {
            if self.deviation_max < self.variation {
                let excess = self.variation.saturating_sub(self.deviation_max);
                self.variation = self.variation.saturating_sub(excess.div(4));
            }
            self.round_end = nxt;
            self.deviation_max = RTO_MIN;
        }
    }
}

/// Duration of retransmissions: Linux converts a number of retries into their total time with a first timeout
/// of `base` that doubles up to the maximum (`tcp_model_timeout`).
pub(crate) fn retries_to_time(retries: u8, base: SimDuration) -> SimDuration {
    let doublings = (RTO_MAX.as_picos() / base.as_picos()).ilog2();
    let retries = u32::from(retries);
    if retries <= doublings {
        base.saturating_mul((2 << retries) - 1)
    } else {
        base.saturating_mul((2 << doublings) - 1) + RTO_MAX.saturating_mul(u64::from(retries - doublings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> SimDuration = SimDuration::from_millis;

    #[test]
    fn steady_path_settles_at_srtt_plus_200_ms() {
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.rto(), MS(1000));
        for i in 0..200u64 {
            rtt.sample(MS(50), i * 10, i * 10 + 10, SimTime::ZERO);
        }
        assert_eq!(rtt.srtt(), Some(MS(50)));
        assert_eq!(rtt.rto(), MS(250));
    }

    #[test]
    fn backoff_doubles_up_to_two_minutes() {
        let mut rtt = RttEstimator::new();
        let mut seen = Vec::new();
        for _ in 0..9 {
            seen.push(rtt.rto().as_millis() / 1000);
            rtt.back_off();
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), RTO_INITIAL);
    }

    #[test]
    fn fifteen_retries_are_924_seconds() {
        assert_eq!(retries_to_time(15, RTO_MIN), MS(924_600));
        assert_eq!(retries_to_time(6, RTO_INITIAL), SimDuration::from_secs(127));
    }

    #[test]
    fn variation_rises_at_once() {
        let mut rtt = RttEstimator::new();
        rtt.sample(MS(100), 0, 10, SimTime::ZERO);
        assert_eq!(rtt.rto(), MS(300));
        rtt.sample(MS(400), 5, 10, SimTime::ZERO);
        assert!(rtt.rto() > MS(500), "{}", rtt.rto());
        assert_eq!(rtt.min(), Some(MS(100)));
    }
}
