//! CUBIC (RFC 9438) with HyStart, as Linux runs it by default.
//!
//! Floating point is confined to the four basic operations, which IEEE 754 defines to the last
//! bit, so that runs agree on every machine; the cube root is computed from them.

use crate::congestion::{AckSample, CongestionControl, Phase, Restart, Window};
use belljar_base::{SimDuration, SimTime};

/// RFC 9438, section 4.6: the multiplicative decrease; Linux's 717/1024.
const BETA: f64 = 717.0 / 1024.0;
/// RFC 9438, section 5: "C SHOULD be set to 0.4".
const C: f64 = 0.4;
/// Before the first loss the window grows by at least a twentieth a round trip.
const SLOWEST_BEFORE_LOSS: u32 = 20;
/// HyStart is not trusted below this window.
const HYSTART_LOW_WINDOW: u32 = 16;
/// Round-trip samples that HyStart looks at in a round.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// ACKs further apart than this are not one train.
const HYSTART_ACK_GAP: SimDuration = SimDuration::from_millis(2);
const HYSTART_DELAY_MIN: SimDuration = SimDuration::from_millis(4);
const HYSTART_DELAY_MAX: SimDuration = SimDuration::from_millis(16);

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    /// `W_max`: the window before the last reduction; 0 before the first.
    w_max: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
    delay_min: Option<SimDuration>,
}

/// A stretch of congestion avoidance without loss.
#[derive(Clone, Debug)]
struct Epoch {
    start: SimTime,
    /// When the curve reaches its plateau, in seconds after `start`.
    k: f64,
    /// The height of the plateau.
    origin: f64,
    /// `W_est`: what Reno would have by now.
    w_est: f64,
}

impl Cubic {
    pub(crate) fn new() -> Cubic {
        Cubic { w_max: 0.0, epoch: None, hystart: HyStart::default(), delay_min: None }
    }

    /// How many segments must be acknowledged for the window to grow by one.
    fn acked_per_increase(&mut self, window: &Window, acked: u32, now: SimTime) -> u32 {
        let cwnd = f64::from(window.cwnd);
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k, origin) = if w_max > cwnd { (cube_root((w_max - cwnd) / C), w_max) } else { (0.0, cwnd) };
            Epoch { start: now, k, origin, w_est: cwnd }
        });
        // RFC 9438, section 4.2: the target is W_cubic(t + RTT).
        let ahead = self.delay_min.unwrap_or(SimDuration::ZERO);
        let t = (now.since(epoch.start) + ahead).as_secs_f64() - epoch.k;
        let target = epoch.origin + C * t * t * t;
        let mut per_increase = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if w_max == 0.0 {
            per_increase = per_increase.min(f64::from(SLOWEST_BEFORE_LOSS));
        }
        // RFC 9438, section 4.3: W_est grows by alpha = 3(1-beta)/(1+beta) a window.
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        epoch.w_est += alpha * f64::from(acked) / cwnd;
        if epoch.w_est > cwnd {
            per_increase = per_increase.min(cwnd / (epoch.w_est - cwnd));
        }
        // Never faster than half a slow start.
        (per_increase as u32).max(2)
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let cwnd = f64::from(window.cwnd);
        // RFC 9438, section 4.7, fast convergence: a flow that lost ground gives up some more.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        ((cwnd * BETA) as u32).max(2)
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample, now: SimTime) {
        let Some(rtt) = sample.rtt else { return };
        let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(delay_min);
        if window.in_slow_start()
            && sample.phase < Phase::Recovery
            && window.cwnd >= HYSTART_LOW_WINDOW
            && self.hystart.should_leave(rtt, delay_min, sample, now)
        {
            window.ssthresh = window.cwnd;
        }
    }

    fn on_ack(&mut self, window: &mut Window, acked: u32, _: &AckSample, now: SimTime) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            let per_increase = self.acked_per_increase(window, left, now);
            window.increase_additively(per_increase, left);
        }
    }

    fn on_timeout(&mut self) {
        *self = Cubic { delay_min: self.delay_min, ..Cubic::new() };
    }

    // RFC 9438, section 4.2: time in which the program sent nothing must not count as growth.
    fn on_restart(&mut self, _: &mut Window, restart: Restart, _: SimTime) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += restart.idle;
        }
    }
}

/// HyStart: leaves slow start before queues overflow, when a round's ACKs stretch over half the
/// least round trip or when its round trips are longer than the least by an eighth.
#[derive(Clone, Debug, Default)]
struct HyStart {
    round_end: u64,
    round_start: SimTime,
    last_ack: SimTime,
    samples: u32,
    least: Option<SimDuration>,
}

impl HyStart {
    fn should_leave(&mut self, rtt: SimDuration, min: SimDuration, ack: &AckSample, now: SimTime) -> bool {
        if ack.una > self.round_end {
            *self = HyStart { round_end: ack.nxt, round_start: now, last_ack: now, samples: 0, least: None };
        }
        if now.since(self.last_ack) <= HYSTART_ACK_GAP {
            self.last_ack = now;
            if now.since(self.round_start) > min.div(2) {
                return true;
            }
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let margin = min.div(8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
        self.least.is_some_and(|least| least > min + margin)
    }
}

/// Newton's method from above; 40 steps are enough for every window below 2^32.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    for _ in 0..64 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> AckSample {
        AckSample::quiet()
    }

    #[test]
    fn cube_roots() {
        for x in [0.001, 0.5, 1.0, 27.0, 1e6, 4e9] {
            let root = cube_root(x);
            assert!((root * root * root - x).abs() <= x * 1e-9, "{x}: {root}");
        }
    }

    /// RFC 9438, section 4.2: after a reduction the window is back at W_max after K seconds and
    /// grows beyond it only slowly at first.
    #[test]
    fn curve_returns_to_w_max_at_k() {
        let mut cubic = Cubic::new();
        let mut window = Window { cwnd: 1000, ssthresh: 1000, acked_towards_increase: 0 };
        window.ssthresh = cubic.ssthresh(&window);
        window.cwnd = window.ssthresh;
        assert_eq!(window.cwnd, 700);
        let k = cube_root(300.0 / C);
        let rtt = SimDuration::from_millis(100);
        let mut now = SimTime::ZERO;
        while now.as_secs_f64() < k {
            for _ in 0..window.cwnd {
                cubic.on_ack(&mut window, 1, &sample(), now);
            }
            now += rtt;
        }
        assert!((980..1010).contains(&window.cwnd), "{} after {k} s", window.cwnd);
    }

    #[test]
    fn losing_ground_lowers_the_plateau() {
        let mut cubic = Cubic::new();
        let window = Window { cwnd: 100, ssthresh: 50, acked_towards_increase: 0 };
        cubic.ssthresh(&window);
        assert_eq!(cubic.w_max, 100.0);
        cubic.ssthresh(&Window { cwnd: 80, ..window });
        assert!(cubic.w_max < 70.0, "{}", cubic.w_max);
    }

    #[test]
    fn hystart_leaves_when_delay_grows() {
        let mut cubic = Cubic::new();
        let mut window = Window { cwnd: 100, ssthresh: 0x7fff_ffff, acked_towards_increase: 0 };
        let ms = SimDuration::from_millis;
        for (round, rtt) in [(1u64, 40u64), (2, 40), (3, 50)] {
            for i in 0..20 {
                let ack =
                    AckSample { rtt: Some(ms(rtt)), una: round * 100, nxt: round * 100 + 50, ..sample() };
                // ACKs are too far apart to be a train.
                cubic.on_sample(&mut window, &ack, SimTime::ZERO + ms(round * 1000 + i * 3));
            }
            assert_eq!(window.ssthresh == window.cwnd, round == 3, "round {round}");
        }
    }
}
