//! Fidelity of an emulation: lateness of frames and events, saturation of the processors, missed frames.
//! The verdict derived from them states whether the results can be trusted.

use crate::clock::{ExperimentClock, monotonic_ns};
use crate::meter::{Counted, Meter};
use crate::quanta::QuantaReport;
use belljar_base::{Map, SimDuration};
use belljar_platform::dilate::clock::FULL_RATE;
use belljar_results::Quantiles;
use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Interval between two samples of processor usage.
const WINDOW: Duration = Duration::from_millis(200);
/// Usage of all processors from which on an interval counts as saturated.
const SATURATED: f64 = 0.97;
/// Harmless lateness of the 99th percentile: the larger of this duration and this share of the shortest
/// delay.
const HARMLESS: SimDuration = SimDuration::from_micros(500);
const HARMLESS_SHARE: f64 = 0.05;
/// Shortest interval between two measurements of the nodes' usage, also as a multiple of the duration of a
/// measurement.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_SHARE: u64 = 50;
/// Thresholds from which on results are doubtful, and wrong: the share of time for which a node lacks a
/// processor, or of saturated intervals where that is unknown; and the share of missed frames.
const DOUBTFUL_SHORTAGE: f64 = 0.10;
const WRONG_SHORTAGE: f64 = 0.50;
const DOUBTFUL_MISSED: f64 = 0.0001;
const WRONG_MISSED: f64 = 0.01;

/// Verdict on a run, and its grounds: `emulation.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Truthfulness {
    /// Verdict: `truthful`, `doubtful` or `untruthful`.
    pub verdict: String,
    /// Reasons for a verdict other than `truthful`.
    pub reasons: Vec<String>,
    /// Lateness of frames that left lines, in seconds beyond their delay in the experiment.
    pub lateness: Option<Quantiles>,
    /// Lateness of process starts and events, in seconds.
    pub schedule_lateness: Option<Quantiles>,
    /// Usage of the processors.
    pub cpu: Cpu,
    /// Number of frames that passed lines or the graph network.
    pub frames: u64,
    /// Number of frames lost by overload rather than by the experiment's definition.
    pub missed: u64,
    /// Number of packets that captures missed.
    pub capture_missed: u64,
    /// Number of links provided by the kernel alone.
    pub direct_links: usize,
    /// Number of links whose frames passed through Belljar.
    pub lines: usize,
    /// Time dilation factor: real time per time of the hosts.
    #[serde(default)]
    pub tdf: Option<f64>,
    /// True if the factor was adapted to the machine's load; `tdf` is then the mean.
    #[serde(default)]
    pub tdf_auto: bool,
    /// Changes of the factor.
    #[serde(default)]
    pub tdf_changes: Vec<FactorChange>,
    /// Statistics of barriers, if hosts ran in turns.
    #[serde(default)]
    pub quanta: Option<QuantaReport>,
    /// Real time that the experiment took, in seconds.
    #[serde(default)]
    pub real_seconds: f64,
    /// Real time from the start of the command to the beginning of the experiment, in seconds.
    pub setup_seconds: f64,
    /// Differences from a simulation of the experiment.
    pub differences: Vec<String>,
}

/// Change of a time dilation factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactorChange {
    /// Experiment time in seconds.
    pub at: f64,
    /// Name of the host or switch, if the factor is that node's own.
    pub node: Option<String>,
    /// New factor.
    pub tdf: f64,
}

/// Usage of the processors during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Number of processors.
    pub processors: usize,
    /// Share of their time that was used, by any process.
    pub busy: f64,
    /// Share of the time in which all of them were busy.
    pub saturated: f64,
    /// Share of their time that the hypervisor gave to other guests.
    pub stolen: f64,
    /// Processor time of Belljar's lines, in seconds.
    pub line_seconds: f64,
    /// Processor time of each host's processes, in seconds.
    pub hosts: Map<String, f64>,
    /// Share of the time for which each host and P4 switch waited for a processor that it would have had on
    /// a machine of its own.
    #[serde(default)]
    pub short: Map<String, f64>,
}

impl Truthfulness {
    /// Derives the verdict from the other fields. `least_latency` is the shortest delay of a line.
    pub fn judge(&mut self, least_latency: Option<SimDuration>) {
        let mut wrong = false;
        let mut reasons = Vec::new();
        let limit = harmless(least_latency).as_nanos() as f64 / 1e3;
        if let Some(late) = self.lateness.filter(|late| late.p99 * 1e6 > limit) {
            wrong |= late.p90 * 1e6 > 4.0 * limit;
            reasons.push(format!(
                "1 frame of 100 was later than {:.0} us (at most {limit:.0} us do no harm)",
                late.p99 * 1e6
            ));
        }
        // Busy processors are harmless where frames are on time and programs get the processor time that
        // they need.
        let shortest = self.cpu.short.iter().max_by(|a, b| a.1.total_cmp(b.1));
        match shortest {
            Some((name, share)) if *share > DOUBTFUL_SHORTAGE => {
                wrong |= *share > WRONG_SHORTAGE;
                let percent = share * 100.0;
                reasons.push(format!("'{name}' waited for a processor for {percent:.0} % of the time"));
            }
            None if self.cpu.saturated > DOUBTFUL_SHORTAGE => {
                wrong |= self.cpu.saturated > WRONG_SHORTAGE;
                let (share, count) = (self.cpu.saturated * 100.0, self.cpu.processors);
                reasons.push(format!("all {count} processors were busy for {share:.0} % of the time"));
            }
            _ => {}
        }
        if self.cpu.stolen > DOUBTFUL_SHORTAGE {
            reasons.push(format!(
                "the hypervisor gave {:.0} % of the processors' time to others",
                self.cpu.stolen * 100.0
            ));
        }
        let missed = self.missed as f64 / self.frames.max(1) as f64;
        if missed > DOUBTFUL_MISSED {
            wrong |= missed > WRONG_MISSED;
            reasons
                .push(format!("{} of {} frames were missed: rates were not kept", self.missed, self.frames));
        }
        if let Some(late) = self.schedule_lateness.filter(|late| late.max > 0.1) {
            reasons.push(format!("an event or the start of a process was {:.0} ms late", late.max * 1e3));
        }
        self.verdict = match (reasons.is_empty(), wrong) {
            (true, _) => "truthful",
            (false, false) => "doubtful",
            (false, true) => "untruthful",
        }
        .to_owned();
        self.reasons = reasons;
    }

    /// Summary of the verdict for the user, of one line or more.
    pub fn summary(&self) -> String {
        let late = match self.lateness {
            None => "no frames went through lines".to_owned(),
            Some(late) => format!(
                "frames late by {:.0} us (median), {:.0} us (99 %), {:.0} us (most)",
                late.median * 1e6,
                late.p99 * 1e6,
                late.max * 1e6
            ),
        };
        let slow = match (self.tdf, self.tdf_auto) {
            (None, _) => String::new(),
            (Some(tdf), false) => format!("time dilated by {tdf}; "),
            (Some(tdf), true) => {
                let changes = self.tdf_changes.len();
                format!("time dilated by {tdf:.2} in the mean ({changes} changes); ")
            }
        };
        let mut text = format!(
            "verdict: {}; {slow}{late}; processors {:.0} % busy, saturated for {:.0} % of the time; {} of {} frames missed",
            self.verdict,
            self.cpu.busy * 100.0,
            self.cpu.saturated * 100.0,
            self.missed,
            self.frames
        );
        if let Some(quanta) = &self.quanta {
            text += &format!(
                "\nquanta: {} barriers, {:.0} us each ({:.1} % of the time), up to {} turns; nobody was frozen for {:.0} % of the time",
                quanta.barriers,
                quanta.barrier_us,
                quanta.barrier_share * 100.0,
                quanta.most_turns,
                quanta.free_share * 100.0
            );
        }
        for reason in &self.reasons {
            text += &format!("\nverdict: {reason}");
        }
        text
    }
}

/// Harmless lateness where `least_latency` is the shortest delay.
pub fn harmless(least_latency: Option<SimDuration>) -> SimDuration {
    let share = least_latency.map_or(0.0, |least| least.as_nanos() as f64 * HARMLESS_SHARE);
    HARMLESS.max(SimDuration::from_nanos(share as u64))
}

/// Samples the usage of the processors, and that of these nodes, until `stop` is set.
pub fn watch(nodes: &[(String, Counted)], clock: &ExperimentClock, stop: &AtomicBool) -> Cpu {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut cpu = Cpu { processors, ..Cpu::default() };
    let (mut windows, mut saturated) = (0u64, 0u64);
    let mut shortage = Shortage::new(nodes);
    let first = ticks();
    let mut last = first;
    let mut due = monotonic_ns();
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        shortage.look(clock);
        if monotonic_ns() < due + WINDOW.as_nanos() as u64 {
            continue;
        }
        due = monotonic_ns();
        let now = ticks();
        let (all, idle) = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
        last = now;
        if all > 0 {
            windows += 1;
            saturated += u64::from(1.0 - idle as f64 / all as f64 >= SATURATED);
        }
    }
    let end = ticks();
    let all = end.0.saturating_sub(first.0).max(1) as f64;
    cpu.busy = 1.0 - end.1.saturating_sub(first.1) as f64 / all;
    cpu.stolen = end.2.saturating_sub(first.2) as f64 / all;
    cpu.saturated = saturated as f64 / windows.max(1) as f64;
    cpu.short = shortage.shares(nodes);
    cpu
}

/// Accumulated time for which nodes lacked a processor.
struct Shortage {
    meter: Meter,
    due: u64,
    last: u64,
    passed: u64,
    short: Vec<f64>,
}

impl Shortage {
    fn new(nodes: &[(String, Counted)]) -> Shortage {
        let counted: Vec<Counted> = nodes.iter().map(|(_, counted)| counted.clone()).collect();
        Shortage { meter: Meter::new(&counted), due: 0, last: 0, passed: 0, short: vec![0.0; nodes.len()] }
    }

    fn look(&mut self, clock: &ExperimentClock) {
        if monotonic_ns() < self.due {
            return;
        }
        let (used, took) = self.meter.look();
        self.due = monotonic_ns() + (LOOK_SHARE * took).max(LOOK.as_nanos() as u64);
        let now = clock.time().as_nanos();
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let tdf = FULL_RATE as f64 / clock.pace().rate as f64;
        self.passed += passed;
        for (short, used) in self.short.iter_mut().zip(used).filter(|_| passed > 0) {
            *short += used.short(passed, tdf) * passed as f64;
        }
    }

    fn shares(&self, nodes: &[(String, Counted)]) -> Map<String, f64> {
        // Without statistics of the kernel the shares are unknown.
        if fs::read("/proc/self/schedstat").is_err() || self.passed == 0 {
            return Map::new();
        }
        let shares = self.short.iter().map(|short| short / self.passed as f64);
        nodes.iter().map(|(name, _)| name.clone()).zip(shares).collect()
    }
}

/// Ticks of the processors that this process may use: total, idle, and stolen.
fn ticks() -> (u64, u64, u64) {
    let own = rustix::thread::sched_getaffinity(None).ok();
    let is_own =
        |cpu: usize| cpu < rustix::thread::CpuSet::MAX_CPU && own.as_ref().is_none_or(|set| set.is_set(cpu));
    parse_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default(), is_own)
}

fn parse_ticks(stat: &str, is_own: impl Fn(usize) -> bool) -> (u64, u64, u64) {
    let mut sum = (0, 0, 0);
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut words = line.split(' ');
        if !words.next().and_then(|cpu| cpu.parse().ok()).is_some_and(&is_own) {
            continue;
        }
        let fields: Vec<u64> = words.filter_map(|field| field.parse().ok()).collect();
        let at = |n: usize| fields.get(n).copied().unwrap_or(0);
        // Fields: user nice system idle iowait irq softirq steal; guest time is part of user time.
        sum = (sum.0 + (0..8).map(at).sum::<u64>(), sum.1 + at(3) + at(4), sum.2 + at(7));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Lateness;

    fn late(us: u64) -> Truthfulness {
        let mut lateness = Lateness::default();
        (0..1_000).for_each(|_| lateness.add(SimDuration::from_micros(us)));
        Truthfulness { lateness: Quantiles::of_lateness(&lateness), frames: 1_000, ..Truthfulness::default() }
    }

    #[test]
    fn verdicts_follow_from_the_grounds() {
        let verdict = |mut truth: Truthfulness, least: u64| {
            truth.judge(Some(SimDuration::from_micros(least)));
            (truth.verdict.clone(), truth.reasons.len())
        };
        assert_eq!(verdict(late(60), 1_000), ("truthful".into(), 0));
        assert_eq!(verdict(late(1_500), 1_000), ("doubtful".into(), 1));
        assert_eq!(
            verdict(late(1_500), 50_000),
            ("truthful".into(), 0),
            "of a long delay it is a small share"
        );
        assert_eq!(verdict(late(9_000), 1_000), ("untruthful".into(), 1));
        assert_eq!(verdict(Truthfulness { missed: 3, ..late(60) }, 1_000), ("doubtful".into(), 1));
        assert_eq!(verdict(Truthfulness { missed: 300, ..late(60) }, 1_000), ("untruthful".into(), 1));
        let busy = |saturated, short: &[f64]| {
            let short = short.iter().enumerate().map(|(host, share)| (format!("h{host}"), *share)).collect();
            Truthfulness { cpu: Cpu { saturated, short, ..Cpu::default() }, ..late(60) }
        };
        assert_eq!(verdict(busy(0.2, &[]), 1_000), ("doubtful".into(), 1));
        assert_eq!(verdict(busy(0.8, &[]), 1_000), ("untruthful".into(), 1));
        assert_eq!(
            verdict(busy(1.0, &[0.02, 0.05]), 1_000),
            ("truthful".into(), 0),
            "nobody was short of them"
        );
        assert_eq!(verdict(busy(0.1, &[0.02, 0.2]), 1_000), ("doubtful".into(), 1));
        assert_eq!(verdict(busy(0.1, &[0.6, 0.2]), 1_000), ("untruthful".into(), 1));
    }

    #[test]
    fn ticks_are_read_as_the_kernel_writes_them() {
        let stat = "cpu  99 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 4 5 6 7 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse_ticks(stat, |cpu| cpu == 0), (353, 304, 7));
        assert_eq!(parse_ticks("", |_| true), (0, 0, 0));
    }
}
