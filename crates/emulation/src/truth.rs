//! Fidelity of an emulation: lateness of frames and events, load of the processors by the network, missed
//! frames. The verdict derived from them states whether the results can be trusted.
//!
//! The verdict is to doubt rather than to flatter: results are wrong where processors, not links, set the
//! rates, even if no frame was late or lost, because TCP has adapted to what the machine could carry.

use crate::load::LINES;
pub use crate::load::{Cpu, Load};
use crate::quanta::QuantaReport;
use belljar_base::{Map, SimDuration};
use belljar_results::Quantiles;
use serde::{Deserialize, Serialize};

/// Harmless lateness of the 99th percentile: the larger of this duration and this share of the shortest
/// delay.
const HARMLESS: SimDuration = SimDuration::from_micros(500);
const HARMLESS_SHARE: f64 = 0.05;
/// Thresholds from which on results are doubtful, and wrong, as shares of time: of a node that lacks a
/// processor, of saturated processors while links are loaded, of processes that wait for memory.
const DOUBTFUL_SHORTAGE: f64 = 0.10;
const WRONG_SHORTAGE: f64 = 0.50;
/// Thresholds of the share of missed frames, as above: doubtful, wrong.
const DOUBTFUL_MISSED: f64 = 0.0001;
const WRONG_MISSED: f64 = 0.01;
/// Thresholds of the share of its rate that a link carries while it has a queue: doubtful, wrong. Losses leave
/// a link idle for moments.
const DOUBTFUL_CARRIED: f64 = 0.80;
const WRONG_CARRIED: f64 = 0.50;
/// Lateness of events, in seconds.
const DOUBTFUL_SCHEDULE: f64 = 0.1;
const WRONG_SCHEDULE: f64 = 1.0;
/// Rate in bit/s beyond which a link without a rate is limited by processors alone.
const UNLIMITED: f64 = 1e9;
/// Share of interrupts of the processors' time from which on they are named.
const INTERRUPTS: f64 = 0.05;
/// Processor time in seconds that a frame costs on a link, and at a P4 switch.
const LINE_COST: f64 = 12e-6;
const SWITCH_COST: f64 = 30e-6;
/// Share of the processors' time that frames may take.
const WELL_BUSY: f64 = 0.7;
/// Utilization of a direction, relative to that of the most utilized one, from which on a flow may fill it.
const FILLED: f64 = 0.2;
/// Least ratio of a proposed factor to the one of the run, ratio without an estimate, and highest factor.
const STEP: f64 = 1.5;
const STEP_BLIND: f64 = 2.0;
const MOST: f64 = 500.0;

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
    /// Load by the network.
    #[serde(default)]
    pub load: Load,
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
    /// Time dilation factor: real time per time of the hosts; the mean if the factor changed.
    #[serde(default)]
    pub tdf: Option<f64>,
    /// True if the factor was adapted to the machine's load.
    #[serde(default)]
    pub tdf_auto: bool,
    /// Factor at which the machine would probably keep up, if it did not.
    #[serde(default)]
    pub tdf_needed: Option<f64>,
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
    /// Locations without an account of their packets, with the reason.
    #[serde(default)]
    pub unaccounted: Map<String, String>,
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

/// Direction of a link with a rate, or uplink of a host on the graph, for the estimate of a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// Rate in bit/s.
    pub rate: u64,
    /// Bytes carried.
    pub bytes: u64,
    /// Length of a full-size frame.
    pub frame: usize,
    /// True if the direction ends at a P4 switch.
    pub to_switch: bool,
}

/// Estimates the time dilation factor at which `processors` fill the directions that were used in a run:
/// frames of full size cost what lines and switches usually take. `None` if no direction was used.
pub fn needed_factor(directions: &[Direction], processors: usize) -> Option<f64> {
    let utilization = |direction: &Direction| direction.bytes as f64 / direction.rate.max(1) as f64;
    let most = directions.iter().map(utilization).fold(0.0, f64::max);
    let filled = directions.iter().filter(|d| most > 0.0 && utilization(d) >= FILLED * most);
    let work = filled.map(|direction| {
        let frames = direction.rate as f64 / 8.0 / direction.frame.max(1) as f64;
        frames * if direction.to_switch { SWITCH_COST } else { LINE_COST }
    });
    Some(work.sum::<f64>() / (processors.max(1) as f64 * WELL_BUSY)).filter(|factor| *factor > 0.0)
}

/// Mean of a factor over an experiment of `seconds` that began with `first`, by its changes.
pub fn mean_factor(first: f64, changes: &[FactorChange], seconds: f64) -> f64 {
    let mut real = 0.0;
    let (mut tdf, mut since) = (first, 0.0);
    for change in changes.iter().filter(|change| change.node.is_none()) {
        let at = change.at.clamp(since, seconds.max(since));
        real += tdf * (at - since);
        (tdf, since) = (change.tdf, at);
    }
    real += tdf * (seconds - since).max(0.0);
    if seconds > 0.0 { real / seconds } else { first }
}

/// Reasons of a verdict.
#[derive(Default)]
struct Reasons {
    texts: Vec<String>,
    is_wrong: bool,
    /// Factor by which slower time would help, and the reason to which that is added.
    slower: Option<(usize, f64)>,
}

impl Reasons {
    fn add(&mut self, is_wrong: bool, text: String) {
        self.is_wrong |= is_wrong;
        self.texts.push(text);
    }

    /// Adds a reason that slower time, by this ratio to the time of the run, would remove.
    fn add_slow(&mut self, is_wrong: bool, ratio: f64, text: String) {
        let (first, most) = self.slower.unwrap_or((self.texts.len(), ratio));
        self.slower = Some((first, most.max(ratio)));
        self.add(is_wrong, text);
    }

    /// Adds a reason if a share exceeds the thresholds of shortage.
    fn add_share(&mut self, share: f64, ratio: f64, text: impl FnOnce(f64) -> String) {
        if share > DOUBTFUL_SHORTAGE {
            self.add_slow(share > WRONG_SHORTAGE, ratio, text(share * 100.0));
        }
    }
}

impl Truthfulness {
    /// Derives the verdict from the other fields. `least_latency` is the shortest delay of a line, `needed`
    /// the [estimate](needed_factor) of a factor at which the machine fills the links that were used.
    pub fn judge(&mut self, least_latency: Option<SimDuration>, needed: Option<f64>) {
        let mut reasons = Reasons::default();
        self.judge_load(needed, &mut reasons);
        self.judge_processors(&mut reasons);
        self.judge_lateness(least_latency, &mut reasons);
        self.judge_rates(&mut reasons);
        if self.load.memory_waits > DOUBTFUL_SHORTAGE {
            let percent = self.load.memory_waits * 100.0;
            let text = format!("processes waited for memory for {percent:.0} % of the time");
            reasons.add(self.load.memory_waits > WRONG_SHORTAGE, text);
        }
        if let Some(late) = self.schedule_lateness.filter(|late| late.max > DOUBTFUL_SCHEDULE) {
            let text = format!("an event or the start of a process was {:.0} ms late", late.max * 1e3);
            reasons.add(late.max > WRONG_SCHEDULE, text);
        }
        self.verdict = match (reasons.texts.is_empty(), reasons.is_wrong) {
            (true, _) => "truthful",
            (false, false) => "doubtful",
            (false, true) => "untruthful",
        }
        .to_owned();
        self.tdf_needed = reasons.slower.map(|(_, ratio)| {
            let now = self.tdf.unwrap_or(1.0);
            (now * ratio.max(STEP)).max(needed.unwrap_or(0.0)).ceil().min(MOST)
        });
        if let (Some((number, _)), Some(tdf)) = (reasons.slower, self.tdf_needed) {
            reasons.texts[number] += &format!("; --tdf {tdf} would do");
        }
        self.reasons = reasons.texts;
    }

    fn judge_lateness(&self, least_latency: Option<SimDuration>, reasons: &mut Reasons) {
        let limit = harmless(least_latency).as_nanos() as f64 / 1e3;
        if let Some(late) = self.lateness.filter(|late| late.p99 * 1e6 > limit) {
            let text = format!(
                "1 frame of 100 was later than {:.0} us (at most {limit:.0} us do no harm)",
                late.p99 * 1e6
            );
            // Where processors are busy, their queues make frames late, which slack of any size removes.
            let ratio = if reasons.slower.is_some() { STEP_BLIND } else { late.p99 * 1e6 / limit };
            reasons.add_slow(late.p90 * 1e6 > 4.0 * limit, ratio, text);
        }
    }

    /// Processors that are busy while links are loaded set the rates, unless a link was filled that carries
    /// less than the processors can.
    fn judge_load(&self, needed: Option<f64>, reasons: &mut Reasons) {
        let (cpu, load) = (&self.cpu, &self.load);
        let is_excused = needed.is_some_and(|needed| needed <= self.tdf.unwrap_or(1.0));
        let filled = if is_excused { 0.0 } else { load.saturated_filled };
        let count = cpu.processors;
        let interrupts = match cpu.interrupts > INTERRUPTS {
            true => format!(
                " (the kernel's network took {:.0} % of them, charged to no host)",
                cpu.interrupts * 100.0
            ),
            false => String::new(),
        };
        let set = "processors, not links, set the rates";
        // The largest share decides: two processors that carry one flow leave each other pauses.
        let (share, busy) = [
            (load.saturated + filled, format!("all {count} processors were busy")),
            (load.nearly_saturated, format!("all {count} processors were at least 90 % busy")),
            (load.one_saturated, format!("one of {count} processors was busy with the kernel's work")),
            (
                load.pressed,
                "processors were busy and TCP senders always had data, for which no link was the limit,"
                    .to_owned(),
            ),
        ]
        .into_iter()
        .rev()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or_default();
        reasons.add_share(share, STEP_BLIND, |percent| {
            format!("{busy} for {percent:.0} % of the time in which links were loaded{interrupts}: {set}")
        });
        if reasons.texts.is_empty() && load.saturated_filled > DOUBTFUL_SHORTAGE {
            let text = format!(
                "processors were busy for {:.0} % of the time in which links were loaded: one link carried its \
                 rate, others may not have",
                load.saturated_filled * 100.0
            );
            reasons.add_slow(false, STEP_BLIND, text);
        }
        if let Some((name, share)) = load.busy.iter().max_by(|a, b| a.1.total_cmp(b.1)) {
            let name = if name == LINES { name.clone() } else { format!("'{name}'") };
            reasons.add_share(*share, STEP_BLIND, |percent| {
                format!(
                    "{name} never paused for {percent:.0} % of the time in which links were loaded: {set}"
                )
            });
        }
    }

    /// Busy processors are harmless where links carry little and programs get the processor time that they
    /// need.
    fn judge_processors(&self, reasons: &mut Reasons) {
        let (cpu, count) = (&self.cpu, self.cpu.processors);
        match cpu.short.iter().max_by(|a, b| a.1.total_cmp(b.1)) {
            Some((name, share)) => reasons.add_share(*share, 1.2 / (1.0 - share.min(0.9)), |percent| {
                format!("'{name}' waited for a processor for {percent:.0} % of the time")
            }),
            None => reasons.add_share(cpu.saturated, STEP_BLIND, |percent| {
                format!("all {count} processors were busy for {percent:.0} % of the time")
            }),
        }
        // In dilated time, programs that compute have all processors at every factor.
        if reasons.texts.is_empty() && self.tdf.is_none() && cpu.saturated > WRONG_SHORTAGE {
            let percent = cpu.saturated * 100.0;
            reasons.add_slow(
                false,
                STEP_BLIND,
                format!("all {count} processors were busy for {percent:.0} % of the time"),
            );
        }
        if cpu.stolen > DOUBTFUL_SHORTAGE {
            let text =
                format!("the hypervisor gave {:.0} % of the processors' time to others", cpu.stolen * 100.0);
            reasons.add(cpu.stolen > WRONG_SHORTAGE, text);
        }
    }

    /// Frames and rates that were offered to the machine and not carried.
    fn judge_rates(&self, reasons: &mut Reasons) {
        let missed = self.missed as f64 / self.frames.max(1) as f64;
        if missed > DOUBTFUL_MISSED {
            let text = format!("{} of {} frames were missed: rates were not kept", self.missed, self.frames);
            reasons.add_slow(missed > WRONG_MISSED, STEP_BLIND, text);
        }
        let load = &self.load;
        let dropped = load.dropped as f64 / (load.packets + load.dropped).max(1) as f64;
        if dropped > DOUBTFUL_MISSED {
            let text = format!(
                "the kernel dropped {} of {} packets, because processors were too slow for its backlog",
                load.dropped,
                load.packets + load.dropped
            );
            reasons.add_slow(dropped > WRONG_MISSED, STEP_BLIND, text);
        }
        if let Some((name, share)) = load.carried.iter().min_by(|a, b| a.1.total_cmp(b.1))
            && *share < DOUBTFUL_CARRIED
        {
            let percent = share * 100.0;
            let text = format!("link '{name}' had a queue and carried {percent:.0} % of its rate");
            reasons.add_slow(*share < WRONG_CARRIED, 1.0 / share.max(0.01), text);
        }
        let rate = |name: &&String| load.direct_rates.get(*name).copied().unwrap_or_default();
        if let Some(name) = load.unlimited.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))
            && rate(&name) > UNLIMITED
        {
            reasons.add(
                false,
                format!(
                    "link '{name}' has no rate and carried {:.1} Gbit/s, as much as processors could: give it a \
                     rate",
                    rate(&name) / 1e9
                ),
            );
        }
    }

    /// True if the factor of all nodes without one of their own changed.
    pub fn has_changed(&self) -> bool {
        self.tdf_changes.iter().any(|change| change.node.is_none())
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
        let changes = self.tdf_changes.len();
        let slow = match self.tdf {
            None => String::new(),
            Some(tdf) if self.tdf_auto || self.has_changed() => {
                format!("time dilated by {tdf:.2} in the mean ({changes} changes); ")
            }
            Some(tdf) => format!("time dilated by {tdf}; "),
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

#[cfg(test)]
mod tests;
