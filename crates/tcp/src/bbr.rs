//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), with the constants and the order of
//! operations of Linux's `tcp_bbr`. It models the path by its maximum delivery rate and its minimum
//! round-trip time, paces at that rate and limits the data in flight to a multiple of their product. Loss
//! recovery leaves the window to this model.
//!
//! Rates are in packets per microsecond in units of 2^-24, gains in units of 1/256.

use crate::congestion::{AckSample, CongestionControl, INITIAL_WINDOW, Phase, Restart, Start, Window};
use belljar_base::{SimDuration, SimTime};

const RATE_SHIFT: u32 = 24;
const UNIT: u64 = 256;
/// 2 / ln 2: the smallest gain that doubles the rate each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const WINDOW_GAIN: u64 = 2 * UNIT;
/// Gain cycle of bandwidth probing.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// A flow starts the cycle at any phase except the draining one.
const CYCLE_STARTS: u64 = 7;
/// Length of the maximum filter for the rate, in round trips.
const RATE_WINDOW: u32 = 10;
const MIN_RTT_LIFE: SimDuration = SimDuration::from_secs(10);
const PROBE_RTT_TIME: SimDuration = SimDuration::from_millis(200);
const LEAST_WINDOW: u32 = 4;
/// The pipe is considered full when the rate has grown by less than a quarter in each of three round trips.
const FULL_GROWTH: u64 = UNIT * 5 / 4;
const FULL_ROUNDS: u32 = 3;
/// Pacing is one per cent below the estimate, so that queues drain.
const MARGIN_PERCENT: u64 = 1;
/// Rate in bytes per second below which single packets are sent.
const SINGLE_RATE: u64 = 1_200_000 / 8;
const CHUNK_MAX: u64 = 65_536 - 1 - 320;
/// Policer detection: minimum length of an interval in rounds, loss threshold, tolerances for equal rates,
/// and the number of rounds for which a detected rate is used.
const POLICER_ROUNDS_MIN: u32 = 4;
const POLICER_LOSS: u64 = 50;
const POLICER_RATIO: u64 = UNIT / 8;
const POLICER_DIFFERENCE: u64 = 4000 / 8;
const POLICER_ROUNDS_MAX: u32 = 48;
/// ACK aggregation: length of the maximum filter in rounds, and bounds of the sample.
const EXTRA_ROUNDS: u32 = 5;
const EXTRA_RESET: u64 = 1 << 20;
const EXTRA_TIME_US: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// Windowed maximum filter of Kathleen Nichols, with three candidates.
#[derive(Clone, Copy, Debug, Default)]
struct WindowedMax([(u32, u64); 3]);

impl WindowedMax {
    fn get(&self) -> u64 {
        self.0[0].1
    }

    fn update(&mut self, window: u32, round: u32, value: u64) {
        let sample = (round, value);
        let s = &mut self.0;
        if value >= s[0].1 || round - s[2].0 > window {
            *s = [sample; 3];
            return;
        }
        if value >= s[1].1 {
            s[1] = sample;
            s[2] = sample;
        } else if value >= s[2].1 {
            s[2] = sample;
        }
        let age = round - s[0].0;
        if age > window {
            *s = [s[1], s[2], sample];
            if round - s[0].0 > window {
                *s = [s[1], s[2], sample];
            }
        } else if s[1].0 == s[0].0 && age > window / 4 {
            s[1] = sample;
            s[2] = sample;
        } else if s[2].0 == s[1].0 && age > window / 2 {
            s[2] = sample;
        }
    }
}

/// Policer detection (long-term sampling): a policer drops traffic above its rate, so a higher sending rate
/// gains nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Policer {
    sampling: bool,
    rounds: u32,
    in_use: bool,
    rate: u64,
    delivered: u64,
    lost: u64,
    since_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    rate: WindowedMax,
    rounds: u32,
    round_start: bool,
    /// Number of delivered segments at which the round ends.
    round_end: u64,
    min_rtt: Option<SimDuration>,
    min_rtt_at: SimTime,
    probe_rtt_until: Option<SimTime>,
    probe_rtt_round_over: bool,
    pacing_gain: u64,
    window_gain: u64,
    phase: usize,
    phase_began: SimTime,
    full_rate: u64,
    full_rounds: u32,
    full: bool,
    prior_phase: Phase,
    prior_window: u32,
    packet_conservation: bool,
    idle_restart: bool,
    app_limited: bool,
    policer: Policer,
    /// Pacing rate in bytes per second.
    pacing_rate: u64,
    seen_rtt: bool,
    extra: [u64; 2],
    extra_slot: usize,
    extra_rounds: u32,
    epoch_acked: u64,
    epoch_began: SimTime,
    dice: u64,
}

impl Bbr {
    pub(crate) fn new(start: &Start) -> Bbr {
        let now = start.now;
        let mut bbr = Bbr {
            mode: Mode::Startup,
            rate: WindowedMax::default(),
            rounds: 0,
            round_start: false,
            round_end: 0,
            min_rtt: start.min_rtt,
            min_rtt_at: now,
            probe_rtt_until: None,
            probe_rtt_round_over: false,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            phase: 0,
            phase_began: now,
            full_rate: 0,
            full_rounds: 0,
            full: false,
            prior_phase: Phase::Open,
            prior_window: 0,
            packet_conservation: false,
            idle_restart: false,
            app_limited: false,
            policer: Policer::default(),
            pacing_rate: 0,
            seen_rtt: false,
            extra: [0; 2],
            extra_slot: 0,
            extra_rounds: 0,
            epoch_acked: 0,
            epoch_began: now,
            dice: u64::from(start.random) << 1 | 1,
        };
        bbr.start_pacing(start.srtt, start.cwnd, start.mss);
        bbr
    }

    /// Sets the initial pacing rate: the initial window per round trip, or per millisecond without a sample.
    fn start_pacing(&mut self, srtt: Option<SimDuration>, cwnd: u32, mss: usize) {
        self.seen_rtt |= srtt.is_some();
        let rtt_us = srtt.map_or(1_000, |srtt| srtt.as_micros().max(1));
        let rate = (u64::from(cwnd) << RATE_SHIFT) / rtt_us;
        self.pacing_rate = bytes_per_second(rate, HIGH_GAIN, mss);
    }

    /// Bandwidth estimate in use.
    fn bandwidth(&self) -> u64 {
        if self.policer.in_use { self.policer.rate } else { self.rate.get() }
    }

    fn update_rate(&mut self, sample: &AckSample) {
        self.round_start = false;
        if sample.interval.is_zero() {
            return;
        }
        if sample.prior_delivered >= self.round_end {
            self.round_end = sample.total_delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.look_for_policer(sample);
        let rate = (sample.interval_delivered << RATE_SHIFT) / sample.interval.as_micros().max(1);
        if !sample.app_limited || rate >= self.rate.get() {
            self.rate.update(RATE_WINDOW, self.rounds, rate);
        }
    }

    fn look_for_policer(&mut self, sample: &AckSample) {
        if self.policer.in_use {
            if self.mode == Mode::ProbeBandwidth && self.round_start {
                self.policer.rounds += 1;
                if self.policer.rounds >= POLICER_ROUNDS_MAX {
                    self.forget_policer(sample);
                    self.probe_bandwidth(sample.delivered_at);
                }
            }
            return;
        }
        if !self.policer.sampling {
            if sample.losses == 0 {
                return;
            }
            self.sample_policer(sample);
            self.policer.sampling = true;
        }
        if sample.app_limited {
            return self.forget_policer(sample);
        }
        self.policer.rounds += u32::from(self.round_start);
        if self.policer.rounds < POLICER_ROUNDS_MIN {
            return;
        }
        if self.policer.rounds > 4 * POLICER_ROUNDS_MIN {
            return self.forget_policer(sample);
        }
        let (lost, delivered) =
            (sample.total_lost - self.policer.lost, sample.total_delivered - self.policer.delivered);
        let time_ms = sample.delivered_at.as_nanos() / 1_000_000 - self.policer.since_ms;
        if sample.losses == 0 || delivered == 0 || (lost << 8) < POLICER_LOSS * delivered || time_ms == 0 {
            return;
        }
        let rate = (delivered << RATE_SHIFT) / (time_ms * 1_000);
        let known = self.policer.rate;
        let difference = rate.abs_diff(known);
        let alike = difference * UNIT <= POLICER_RATIO * known
            || bytes_per_second(difference, UNIT, sample.mss) <= POLICER_DIFFERENCE;
        if known > 0 && alike {
            self.policer.rate = (rate + known) / 2;
            self.policer.in_use = true;
            self.pacing_gain = UNIT;
            self.policer.rounds = 0;
        } else {
            self.policer.rate = rate;
            self.sample_policer(sample);
        }
    }

    fn sample_policer(&mut self, sample: &AckSample) {
        self.policer.since_ms = sample.delivered_at.as_nanos() / 1_000_000;
        self.policer.delivered = sample.total_delivered;
        self.policer.lost = sample.total_lost;
        self.policer.rounds = 0;
    }

    fn forget_policer(&mut self, sample: &AckSample) {
        self.policer = Policer::default();
        self.sample_policer(sample);
    }

    /// Updates the estimate of ACK aggregation: bytes acknowledged recently in excess of the rate.
    fn update_aggregation(&mut self, window: &Window, sample: &AckSample) {
        if sample.delivered == 0 || sample.interval.is_zero() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra_slot = 1 - self.extra_slot;
                self.extra[self.extra_slot] = 0;
            }
        }
        let span = sample.delivered_at.since(self.epoch_began).as_micros();
        let mut expected = times(self.bandwidth(), span);
        let acked = u64::from(sample.delivered);
        if self.epoch_acked <= expected || self.epoch_acked + acked >= EXTRA_RESET {
            self.epoch_acked = 0;
            self.epoch_began = sample.delivered_at;
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(EXTRA_RESET - 1);
        let extra = (self.epoch_acked - expected).min(u64::from(window.cwnd));
        self.extra[self.extra_slot] = self.extra[self.extra_slot].max(extra);
    }

    fn update_phase(&mut self, sample: &AckSample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let full_length =
            sample.delivered_at.since(self.phase_began) > self.min_rtt.unwrap_or(SimDuration::MAX);
        let in_net = self.in_net(sample.prior_in_flight, sample);
        let rate = self.rate.get();
        let over = if self.pacing_gain == UNIT {
            full_length
        } else if self.pacing_gain > UNIT {
            full_length && (sample.losses > 0 || in_net >= self.inflight(rate, self.pacing_gain, sample.mss))
        } else {
            full_length || in_net <= self.inflight(rate, UNIT, sample.mss)
        };
        if over {
            self.next_phase(sample.delivered_at);
        }
    }

    fn next_phase(&mut self, now: SimTime) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_began = now;
    }

    fn probe_bandwidth(&mut self, now: SimTime) {
        // Linear congruential generator, of which the high bits are random.
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.mode = Mode::ProbeBandwidth;
        self.phase = CYCLE.len() - 1 - ((self.dice >> 33) % CYCLE_STARTS) as usize;
        self.next_phase(now);
    }

    /// Number of packets in the network when the next packet can leave.
    fn in_net(&self, in_flight: u32, sample: &AckSample) -> u64 {
        let mut in_flight = u64::from(in_flight);
        if self.pacing_gain > UNIT {
            in_flight += self.chunk(sample.mss);
        }
        in_flight.saturating_sub(times(self.bandwidth(), sample.until_next_send.as_micros()))
    }

    fn product(&self, rate: u64, gain: u64) -> u64 {
        let Some(min_rtt) = self.min_rtt else { return u64::from(INITIAL_WINDOW) };
        let product = u128::from(rate) * u128::from(min_rtt.as_micros());
        ((product * u128::from(gain)) >> 8).div_ceil(1 << RATE_SHIFT) as u64
    }

    /// Adds headroom for data that is queued, segmented and acknowledged in larger units.
    fn quantise(&self, window: u64, mss: usize) -> u64 {
        let window = (window + 3 * self.chunk(mss) + 1) & !1;
        window + if self.mode == Mode::ProbeBandwidth && self.phase == 0 { 2 } else { 0 }
    }

    fn inflight(&self, rate: u64, gain: u64, mss: usize) -> u64 {
        self.quantise(self.product(rate, gain), mss)
    }

    fn chunk(&self, mss: usize) -> u64 {
        let least = if self.pacing_rate < SINGLE_RATE { 1 } else { 2 };
        ((self.pacing_rate >> 10).min(CHUNK_MAX) / mss as u64).clamp(least, 0x7f)
    }

    fn look_for_full_pipe(&mut self, sample: &AckSample) {
        if self.full || !self.round_start || sample.app_limited {
            return;
        }
        let rate = self.rate.get();
        if rate >= (self.full_rate * FULL_GROWTH) >> 8 {
            self.full_rate = rate;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn drain(&mut self, window: &mut Window, sample: &AckSample) {
        let target = self.inflight(self.rate.get(), UNIT, sample.mss);
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            window.ssthresh = target as u32;
        }
        if self.mode == Mode::Drain && self.in_net(sample.in_flight, sample) <= target {
            self.probe_bandwidth(sample.delivered_at);
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, sample: &AckSample, now: SimTime) {
        let expired = now > self.min_rtt_at + MIN_RTT_LIFE;
        if let Some(rtt) = sample.rtt
            && (self.min_rtt.is_none_or(|min| rtt < min) || (expired && !sample.ack_was_delayed))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(window);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
        }
        self.app_limited = self.mode == Mode::ProbeRtt;
        if self.mode == Mode::ProbeRtt {
            match self.probe_rtt_until {
                None if sample.in_flight <= LEAST_WINDOW => {
                    self.probe_rtt_until = Some(now + PROBE_RTT_TIME);
                    self.probe_rtt_round_over = false;
                    self.round_end = sample.total_delivered;
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_over |= self.round_start;
                    if self.probe_rtt_round_over {
                        self.end_probe_rtt(window, now);
                    }
                }
            }
        }
        if sample.interval_delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn end_probe_rtt(&mut self, window: &mut Window, now: SimTime) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_window);
        if self.full {
            self.probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.in_use => (UNIT, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn set_pacing(&mut self, window: &Window, sample: &AckSample) {
        if !self.seen_rtt && sample.srtt.is_some() {
            self.start_pacing(sample.srtt, window.cwnd, sample.mss);
        }
        let rate = bytes_per_second(self.bandwidth(), self.pacing_gain, sample.mss);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn save_window(&mut self, window: &Window) {
        let kept = self.prior_phase < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if kept { window.cwnd } else { self.prior_window.max(window.cwnd) };
    }

    /// Sets the window during loss recovery: packet conservation in its first round trip, and the former
    /// window at its end. True if the window is final for this ACK.
    fn recover(&mut self, window: &mut Window, sample: &AckSample) -> bool {
        let (before, phase) = (self.prior_phase, sample.phase);
        let mut cwnd = window.cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        if phase == Phase::Recovery && before != Phase::Recovery {
            self.packet_conservation = true;
            self.round_end = sample.total_delivered;
            cwnd = sample.in_flight + sample.delivered;
        } else if before >= Phase::Recovery && phase < Phase::Recovery {
            cwnd = cwnd.max(self.prior_window);
            self.packet_conservation = false;
        }
        self.prior_phase = phase;
        if self.packet_conservation {
            cwnd = cwnd.max(sample.in_flight + sample.delivered);
        }
        window.cwnd = cwnd;
        self.packet_conservation
    }

    fn set_window(&mut self, window: &mut Window, sample: &AckSample) {
        if sample.delivered > 0 && !self.recover(window, sample) {
            let rate = self.bandwidth();
            let mut target = self.product(rate, self.window_gain);
            if self.full {
                let extra = self.extra[0].max(self.extra[1]);
                target += extra.min(times(rate, EXTRA_TIME_US));
            }
            let target = self.quantise(target, sample.mss).min(u64::from(u32::MAX / 2)) as u32;
            let mut cwnd = window.cwnd;
            if self.full {
                cwnd = (cwnd + sample.delivered).min(target);
            } else if cwnd < target || sample.total_delivered < u64::from(INITIAL_WINDOW) {
                cwnd += sample.delivered;
            }
            window.cwnd = cwnd.max(LEAST_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(LEAST_WINDOW);
        }
    }
}

/// Number of packets in `micros` microseconds at a rate.
fn times(rate: u64, micros: u64) -> u64 {
    ((u128::from(rate) * u128::from(micros)) >> RATE_SHIFT) as u64
}

fn bytes_per_second(rate: u64, gain: u64, mss: usize) -> u64 {
    let rate = (u128::from(rate) * mss as u128 * u128::from(gain)) >> 8;
    ((rate * u128::from(1_000_000 / 100 * (100 - MARGIN_PERCENT))) >> RATE_SHIFT) as u64
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn rules_window(&self) -> bool {
        true
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.save_window(window);
        window.ssthresh
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample, now: SimTime) {
        self.update_rate(sample);
        self.update_aggregation(window, sample);
        self.update_phase(sample);
        self.look_for_full_pipe(sample);
        self.drain(window, sample);
        self.update_min_rtt(window, sample, now);
        self.update_gains();
        self.set_pacing(window, sample);
        self.set_window(window, sample);
    }

    fn on_ack(&mut self, _: &mut Window, _: u32, _: &AckSample, _: SimTime) {}

    fn on_timeout(&mut self) {
        self.prior_phase = Phase::Loss;
        self.full_rate = 0;
        self.round_start = true;
    }

    fn on_restart(&mut self, window: &mut Window, restart: Restart, now: SimTime) {
        if !restart.app_limited {
            return;
        }
        self.idle_restart = true;
        self.epoch_began = now;
        self.epoch_acked = 0;
        match self.mode {
            Mode::ProbeBandwidth => {
                let rate = bytes_per_second(self.bandwidth(), UNIT, restart.mss);
                if self.full || rate > self.pacing_rate {
                    self.pacing_rate = rate;
                }
            }
            Mode::ProbeRtt => self.end_probe_rtt(window, now),
            _ => {}
        }
    }

    fn undo(&mut self, window: &Window, _: u32) -> u32 {
        self.full_rate = 0;
        self.full_rounds = 0;
        self.policer = Policer::default();
        window.cwnd
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn min_packet_segments(&self) -> Option<u32> {
        Some(if self.pacing_rate < SINGLE_RATE { 1 } else { 2 })
    }

    fn send_buffer_windows(&self) -> usize {
        3
    }

    fn holds_back(&self) -> bool {
        self.app_limited
    }
}
