//! CUBIC (RFC 9438) with HyStart, the default of Linux.
//!
//! Linux computes in whole segments, in jiffies and in 1/1024 s, and evaluates the curve only at intervals.
//! The truncation makes windows grow a few per cent faster below the plateau than the real numbers of RFC
//! 9438, so it is reproduced here (net/ipv4/tcp_cubic.c with HZ = 250).

use crate::congestion::{AckSample, CongestionControl, Phase, Restart, Window};
use belljar_base::{HZ, SimDuration, SimTime};

/// RFC 9438, section 4.6: the multiplicative decrease, in 1024ths.
const BETA: u64 = 717;
/// RFC 9438, section 5: "C SHOULD be set to 0.4"; in 1024ths.
const C: u64 = 410;
/// RFC 9438, section 4.3: eighths of a window that must be acknowledged for `W_est` to grow by one, 8 (1+beta)/(3 (1-beta)).
const FRIENDLY: u64 = 8 * (1024 + BETA) / 3 / (1024 - BETA);
/// Maximum number of acknowledged segments per segment of growth before the first loss: the window grows by
/// at least a twentieth per round trip.
const SLOWEST_BEFORE_LOSS: u64 = 20;
/// Minimum window for HyStart.
const HYSTART_LOW_WINDOW: u32 = 16;
/// Number of round-trip samples that HyStart uses in a round.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Maximum gap between ACKs of one train.
const HYSTART_ACK_GAP: SimDuration = SimDuration::from_millis(2);
const HYSTART_DELAY_MIN: SimDuration = SimDuration::from_millis(4);
const HYSTART_DELAY_MAX: SimDuration = SimDuration::from_millis(16);
/// Extra length of a train for the bytes that a sender with offloads sends together: their duration at the
/// pacing rate, at most [`HYSTART_HELD_MAX`].
const HYSTART_HELD: u64 = 4 * 65536;
const HYSTART_HELD_MAX: SimDuration = SimDuration::from_millis(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// `W_max`: the window before the last reduction; 0 before the first.
    w_max: u64,
    epoch: Option<Epoch>,
    /// Time of the last evaluation of the curve, in jiffies.
    looked: u64,
    /// Window at the last evaluation.
    looked_at: u64,
    /// Acknowledged segments needed for the window to grow by one.
    per_increase: u64,
    hystart: HyStart,
    delay_min: Option<SimDuration>,
}

/// Period of congestion avoidance without loss.
#[derive(Clone, Debug)]
struct Epoch {
    /// Start time in jiffies.
    start: u64,
    /// K: time from `start` at which the curve reaches its plateau, in 1/1024 s.
    k: u64,
    /// Height of the plateau in segments.
    origin: u64,
    /// `W_est`: the window of a Reno flow, and the segments acknowledged towards its next increase.
    w_est: u64,
    acked: u64,
}

impl Cubic {
    pub(crate) fn new() -> Cubic {
        Cubic::default()
    }

    /// Number of acknowledged segments for the window to grow by one.
    fn acked_per_increase(&mut self, window: &Window, acked: u32, now: SimTime) -> u32 {
        let (cwnd, now) = (u64::from(window.cwnd), now.jiffies());
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += u64::from(acked);
        }
        // With an unchanged window, the curve is evaluated again only after a thirty-second of a second.
        if self.looked_at == cwnd && now - self.looked <= HZ / 32 {
            return self.per_increase as u32;
        }
        if self.epoch.is_none() || now != self.looked {
            self.per_increase = self.look(cwnd, acked, now);
            (self.looked, self.looked_at) = (now, cwnd);
        }
        if let Some(epoch) = &mut self.epoch {
            let window = (cwnd * FRIENDLY / 8).max(1);
            epoch.w_est += (epoch.acked.saturating_sub(1)) / window;
            epoch.acked -= (epoch.acked.saturating_sub(1)) / window * window;
            if epoch.w_est > cwnd {
                self.per_increase = self.per_increase.min(cwnd / (epoch.w_est - cwnd));
            }
        }
        // At most half the rate of slow start.
        self.per_increase = self.per_increase.clamp(2, u64::from(u32::MAX));
        self.per_increase as u32
    }

    /// Evaluates the curve at a time in jiffies; returns the acknowledged segments per increase.
    fn look(&mut self, cwnd: u64, acked: u32, now: u64) -> u64 {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k, origin) = match w_max.checked_sub(cwnd) {
                Some(lost) if lost > 0 => (cube_root((1 << 40) / C * lost), w_max),
                _ => (0, cwnd),
            };
            Epoch { start: now, k, origin, w_est: cwnd, acked: u64::from(acked) }
        });
        // RFC 9438, section 4.2: the target is W_cubic(t + RTT).
        let ahead = self.delay_min.map_or(0, |delay| delay.as_nanos().div_ceil(1_000_000_000 / HZ));
        let t = (now - epoch.start + ahead) * 1024 / HZ;
        let offset = u128::from(t.abs_diff(epoch.k));
        let difference = u64::try_from((u128::from(C) * offset * offset * offset) >> 40).unwrap_or(u64::MAX);
        let target = if t < epoch.k {
            epoch.origin.saturating_sub(difference)
        } else {
            epoch.origin.saturating_add(difference)
        };
        let per_increase = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if w_max == 0 { per_increase.min(SLOWEST_BEFORE_LOSS) } else { per_increase }
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let cwnd = u64::from(window.cwnd);
        // RFC 9438, section 4.7, fast convergence: a flow whose window has shrunk releases more bandwidth.
        self.w_max = if cwnd < self.w_max { cwnd * (1024 + BETA) / 2048 } else { cwnd };
        ((cwnd * BETA / 1024) as u32).max(2)
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample, now: SimTime) {
        let Some(rtt) = sample.rtt else { return };
        // Delays in the second after a loss include the remaining queue rather than only the path.
        if self.epoch.as_ref().is_some_and(|epoch| now.jiffies().saturating_sub(epoch.start) < HZ) {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(delay_min);
        if window.in_slow_start()
            && sample.phase < Phase::Recovery
            && self.hystart.should_leave(window.cwnd, rtt, delay_min, sample, now)
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
        *self = Cubic::new();
    }

    // RFC 9438, section 4.2: time in which the application sent nothing does not count as growth.
    fn on_restart(&mut self, _: &mut Window, restart: Restart, now: SimTime) {
        if let Some(epoch) = &mut self.epoch {
            let idle = restart.idle.as_nanos() / (1_000_000_000 / HZ);
            epoch.start = (epoch.start + idle).min(now.jiffies());
        }
    }
}

/// HyStart: leaves slow start before queues overflow, when the ACKs of a round extend over half the minimum
/// round-trip time, or when its round-trip times exceed the minimum by an eighth. It is inactive afterwards
/// until a timeout.
#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    round_end: u64,
    round_start: SimTime,
    last_ack: SimTime,
    samples: u32,
    least: Option<SimDuration>,
}

impl HyStart {
    fn should_leave(
        &mut self,
        cwnd: u32,
        rtt: SimDuration,
        min: SimDuration,
        ack: &AckSample,
        now: SimTime,
    ) -> bool {
        if self.found {
            return false;
        }
        // Rounds are counted from the first, so that each begins with a flight.
        if ack.una > self.round_end {
            *self = HyStart { round_end: ack.nxt, round_start: now, last_ack: now, ..HyStart::default() };
        }
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        if now.since(self.last_ack) <= HYSTART_ACK_GAP {
            self.last_ack = now;
            let held = SimDuration::from_micros(HYSTART_HELD * 1_000_000 / ack.pacing_rate.max(1))
                .min(HYSTART_HELD_MAX);
            // Pacing alone spreads a window over up to half a round trip.
            let longest = if ack.paced { min + held } else { (min + held).div(2) };
            self.found = now.since(self.round_start) > longest;
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
        } else {
            let margin = min.div(8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
            self.found |= self.least.is_some_and(|least| least > min + margin);
        }
        self.found
    }
}

/// Integer part of the cube root, by Newton's method from above.
fn cube_root(x: u64) -> u64 {
    if x == 0 {
        return 0;
    }
    let mut root = 1u64 << (64 - x.leading_zeros()).div_ceil(3);
    loop {
        let next = (2 * root + x / (root * root)) / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> AckSample {
        AckSample::quiet()
    }

    #[test]
    fn cube_roots() {
        for x in [0u64, 1, 7, 8, 26, 27, 1_000_000, (1 << 40) / C * 300, u64::MAX / 2] {
            let root = u128::from(cube_root(x));
            let x = u128::from(x);
            assert!(root * root * root <= x && (root + 1) * (root + 1) * (root + 1) > x, "{x}: {root}");
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
        let k = cube_root((1 << 40) / C * 300) as f64 / 1024.0;
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
        assert_eq!(cubic.w_max, 100);
        cubic.ssthresh(&Window { cwnd: 80, ..window });
        assert!(cubic.w_max < 70, "{}", cubic.w_max);
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
                // The ACKs are too far apart to form a train.
                cubic.on_sample(&mut window, &ack, SimTime::ZERO + ms(round * 1000 + i * 3));
            }
            assert_eq!(window.ssthresh == window.cwnd, round == 3, "round {round}");
        }
    }

    /// Round of ACKs whose delay exceeds that of the path.
    fn slow_round(cubic: &mut Cubic, window: &mut Window, round: u64, rtt: u64) {
        for i in 0..20 {
            let rtt = Some(SimDuration::from_millis(rtt));
            let ack = AckSample { rtt, una: round * 100, nxt: round * 100 + 50, ..sample() };
            cubic.on_sample(window, &ack, SimTime::ZERO + SimDuration::from_millis(round * 1000 + i * 3));
        }
    }

    #[test]
    fn hystart_works_once_until_a_timeout() {
        let mut cubic = Cubic::new();
        let mut window = Window { cwnd: 100, ssthresh: 0x7fff_ffff, acked_towards_increase: 0 };
        slow_round(&mut cubic, &mut window, 1, 40);
        slow_round(&mut cubic, &mut window, 2, 50);
        assert_eq!(window.ssthresh, 100);
        window.ssthresh = 200;
        slow_round(&mut cubic, &mut window, 3, 60);
        assert_eq!(window.ssthresh, 200);
        cubic.on_timeout();
        slow_round(&mut cubic, &mut window, 4, 40);
        slow_round(&mut cubic, &mut window, 5, 50);
        assert_eq!(window.ssthresh, 100);
    }

    #[test]
    fn delays_in_the_second_after_a_loss_are_not_the_paths() {
        let mut cubic = Cubic::new();
        let mut window = Window { cwnd: 100, ssthresh: 50, acked_towards_increase: 0 };
        let at = |ms| SimTime::ZERO + SimDuration::from_millis(ms);
        let ack = |ms| AckSample { rtt: Some(SimDuration::from_millis(ms)), ..sample() };
        cubic.on_sample(&mut window, &ack(40), at(1000));
        cubic.ssthresh(&window);
        cubic.on_ack(&mut window, 1, &sample(), at(2000));
        cubic.on_sample(&mut window, &ack(30), at(2900));
        assert_eq!(cubic.delay_min, Some(SimDuration::from_millis(40)));
        cubic.on_sample(&mut window, &ack(30), at(3000));
        assert_eq!(cubic.delay_min, Some(SimDuration::from_millis(30)));
    }

    /// The ACKs of a flight of 40 segments extend over more than half a round-trip time of 40 ms, those of
    /// earlier flights over less. Rounds coincide with flights (the kernel leaves slow start at 76 segments
    /// over 20 Mbit/s).
    #[test]
    fn rounds_begin_with_flights() {
        let mut cubic = Cubic::new();
        let mut window = Window { cwnd: 10, ssthresh: 0x7fff_ffff, acked_towards_increase: 0 };
        let (mut una, mut nxt) = (0u64, 10u64);
        for flight in 1..4u64 {
            for i in 0..window.cwnd {
                una += 1;
                let now = SimTime::ZERO
                    + SimDuration::from_millis(40 * flight)
                    + SimDuration::from_micros(605 * u64::from(i));
                let ack = AckSample {
                    rtt: Some(SimDuration::from_micros(40_600)),
                    una,
                    nxt,
                    pacing_rate: 4_000_000,
                    ..sample()
                };
                cubic.on_sample(&mut window, &ack, now);
                cubic.on_ack(&mut window, 1, &ack, now);
                nxt += 2;
            }
        }
        assert_eq!(window.ssthresh, 75);
    }

    /// Truncating the curve's distance from the plateau leaves the target higher below it.
    #[test]
    fn distance_from_the_plateau_is_whole_segments() {
        let mut cubic = Cubic { w_max: 100, ..Cubic::new() };
        // 410/1024 * 4.215^3 = 29.98 below 100 at the beginning: the target is one above the window.
        assert_eq!(cubic.look(70, 1, 0), 70);
        assert_eq!(cubic.epoch.as_ref().map(|epoch| (epoch.k, epoch.origin)), Some((4316, 100)));
    }
}
