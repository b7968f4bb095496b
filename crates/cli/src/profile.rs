//! `belljar run --profile`: distribution of a run's real time over its activities.
//!
//! Workers publish their current activity (`base::activity`). A thread of the command samples it a thousand
//! times a second with the real clock, and attributes the time since the last sample to the sampled activity.
//! So no simulated code reads a clock, and the measurement does not slow down the measured code.

use crate::progress;
use crate::waits::{self, Wait, Waits};
use crate::workers;
use belljar_base::Map;
use belljar_base::activity::{Activity, Board, CallWays, Phase, Program};
use belljar_config::Experiment;
use belljar_engine::Profile;
use belljar_results::Statistics;
use belljar_sim::Outlook;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval of real time between two samples of the workers.
const EVERY: Duration = Duration::from_millis(1);
/// Upper bound on the lines of each table.
const LINES: usize = 10;

/// Sampled activities of the workers, in seconds per activity.
#[derive(Default)]
pub struct WorkerTimes {
    times: Map<Activity, f64>,
    /// Number of samples.
    looks: u64,
    programs: Vec<Program>,
    waits: Waits,
}

impl WorkerTimes {
    /// Samples the workers' activities until `over` is set.
    pub fn watch(board: &Board, outlook: &Outlook, over: &AtomicBool) -> WorkerTimes {
        let mut seen = WorkerTimes::default();
        let mut last = progress::now();
        while !over.load(Relaxed) {
            std::thread::sleep(EVERY);
            let now = progress::now();
            seen.looks += 1;
            for activity in board.look() {
                *seen.times.entry(activity).or_default() += (now - last).as_secs_f64();
            }
            last = now;
            seen.waits.look(outlook);
        }
        seen.programs = board.programs();
        seen
    }
}

/// Times at which the phases of the command before and after the workers' begin.
pub struct Clock {
    start: Instant,
    loaded: Instant,
    ended: Option<Instant>,
}

impl Clock {
    /// Records that the command has started at `start`, and loaded its experiment now.
    pub fn loaded(start: Instant) -> Clock {
        Clock { start, loaded: progress::now(), ended: None }
    }
    /// Records that all workers have ended.
    pub fn simulated(&mut self) {
        self.ended = Some(progress::now());
    }
}

/// Content of `profile.json`. Times are in seconds; workers' times are sums over all workers.
#[derive(Serialize)]
struct Report<'a> {
    /// Real time from the start of the command to its end.
    wall_seconds: f64,
    workers: usize,
    /// Number of samples of workers' activities.
    looks: u64,
    /// Real time of the command before the workers start, and below after they have ended.
    loading_seconds: f64,
    concluding_seconds: f64,
    phases: Vec<Line>,
    hosts: Vec<Line>,
    programs: Vec<Line>,
    syscalls: Vec<Line>,
    /// Number of trapped and of rewritten system calls, by program.
    ways: Vec<Ways<'a>>,
    /// Waiting times between the experiment and other simulators, by port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    simulators: Vec<Wait>,
    /// CPU time of windows.
    windows: Option<Windows<'a>>,
}

#[derive(Serialize)]
struct Windows<'a> {
    count: u64,
    runs: u64,
    messages: u64,
    run_ns: u64,
    prepare_ns: u64,
    longest_ns: u64,
    estimates: &'a [Map<&'static str, f64>],
}

#[derive(Serialize)]
struct Ways<'a> {
    name: &'a str,
    #[serde(flatten, with = "PlainWays")]
    ways: CallWays,
}

/// Serialized fields of [`CallWays`].
#[derive(Serialize)]
#[serde(remote = "CallWays")]
struct PlainWays {
    rewritten: u64,
    trapped: u64,
}

#[derive(Serialize)]
struct Line {
    name: String,
    seconds: f64,
    /// Parts of the time. For a host: guests, system calls and network; for a program: its own code and its
    /// system calls.
    #[serde(skip_serializing_if = "Map::is_empty")]
    parts: Map<&'static str, f64>,
    /// Number of calls, in a line about a system call.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Renders the tables for the terminal, and the content of `profile.json`.
pub fn report(
    seen: &WorkerTimes,
    clock: &Clock,
    workers: usize,
    experiment: &Experiment,
    statistics: &Statistics,
    engine: Option<&Profile>,
) -> (String, String) {
    let end = progress::now();
    let ended = clock.ended.unwrap_or(end);
    let total: f64 = seen.times.values().sum();
    let program = |activity: &Activity| {
        let place = (activity.program as usize).checked_sub(1)?;
        Some(seen.programs.get(place)?.name.clone())
    };
    let call =
        |activity: &Activity| (activity.phase == Phase::Call).then(|| belljar_sim::call_name(activity.call));
    let node = |activity: &Activity| {
        let id = activity.node.filter(|id| (*id as usize) < experiment.node_count())?;
        Some(experiment.node_name(belljar_base::HostId(id)).to_owned())
    };
    let mut syscalls = lines(seen, call, false);
    for line in &mut syscalls {
        line.count = statistics.syscalls.get(&line.name).copied();
    }
    let estimates: Vec<Map<&'static str, f64>> = engine
        .map(|profile| {
            let estimate = |e: belljar_engine::Estimate| {
                let seconds = |ns: u64| ns as f64 / 1e9;
                Map::from([
                    ("workers", e.workers as f64),
                    ("at_least_seconds", seconds(e.at_least_ns)),
                    ("at_most_seconds", seconds(e.at_most_ns)),
                ])
            };
            profile.estimates().map(estimate).collect()
        })
        .unwrap_or_default();
    let report = Report {
        wall_seconds: (end - clock.start).as_secs_f64(),
        workers,
        looks: seen.looks,
        loading_seconds: (clock.loaded - clock.start).as_secs_f64(),
        concluding_seconds: (end - ended).as_secs_f64(),
        phases: lines(seen, |activity| Some(activity.phase.name().to_owned()), false),
        hosts: lines(seen, node, true),
        programs: lines(seen, program, true),
        syscalls,
        ways: ways(seen),
        simulators: seen.waits.shares(),
        windows: engine.map(|profile| Windows {
            count: profile.windows,
            runs: profile.runs,
            messages: profile.messages,
            run_ns: profile.run_ns,
            prepare_ns: profile.prepare_ns,
            longest_ns: profile.longest_ns,
            estimates: &estimates,
        }),
    };
    let mut text = format!(
        "where {:.3} s went: {:.3} s to read the experiment, {:.3} s of {} worker{} (looked at {} times), {:.3} s to conclude\n",
        report.wall_seconds,
        report.loading_seconds,
        total / workers.max(1) as f64,
        workers,
        if workers == 1 { "" } else { "s" },
        seen.looks,
        report.concluding_seconds,
    );
    let sections = [
        ("of the workers' time", &report.phases),
        ("for hosts, switches and routers", &report.hosts),
        ("for programs", &report.programs),
        ("in system calls", &report.syscalls),
    ];
    for (title, lines) in sections {
        table_text(&mut text, title, lines, total);
    }
    ways_text(&mut text, &report.ways);
    waits::table(&mut text, &report.simulators);
    if let Some(profile) = engine {
        text += &workers::profile_text(profile);
    }
    let mut json = serde_json::to_string_pretty(&report).expect("plain data can be serialised");
    json.push('\n');
    (text, json)
}

/// Sums samples by name, in descending order, with the parts by phase if `parts` is set.
fn lines(seen: &WorkerTimes, name: impl Fn(&Activity) -> Option<String>, parts: bool) -> Vec<Line> {
    let mut sums: Map<String, (f64, Map<&'static str, f64>)> = Map::new();
    for (activity, seconds) in &seen.times {
        let Some(name) = name(activity) else { continue };
        let sum = sums.entry(name).or_default();
        sum.0 += seconds;
        if parts {
            *sum.1.entry(activity.phase.name()).or_default() += seconds;
        }
    }
    let line = |(name, (seconds, parts))| Line { name, seconds, parts, count: None };
    let mut lines: Vec<Line> = sums.into_iter().map(line).collect();
    lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    lines
}

/// Trapped and rewritten calls of each program, in descending order of traps.
fn ways(seen: &WorkerTimes) -> Vec<Ways<'_>> {
    let called = seen.programs.iter().filter(|program| program.ways.all() > 0);
    let mut ways: Vec<Ways> =
        called.map(|program| Ways { name: &program.name, ways: program.ways }).collect();
    ways.sort_by(|a, b| b.ways.trapped.cmp(&a.ways.trapped).then(a.name.cmp(b.name)));
    ways
}

fn ways_text(text: &mut String, programs: &[Ways]) {
    if programs.is_empty() {
        return;
    }
    let mut together = CallWays::default();
    programs.iter().for_each(|program| together += program.ways);
    let share = |ways: CallWays| 100.0 * ways.trapped as f64 / ways.all() as f64;
    let _ = writeln!(
        text,
        "  calls that came by a trap, not by a rewritten call site: {:.1} % of {}",
        share(together),
        together.all()
    );
    for Ways { name, ways } in programs.iter().take(LINES) {
        let (part, trapped, all) = (share(*ways), ways.trapped, ways.all());
        let _ = writeln!(text, "    {name:<24} {part:5.1} % {trapped:>9}    of {all}");
    }
    if programs.len() > LINES {
        let _ = writeln!(text, "    and {} more", programs.len() - LINES);
    }
}

fn table_text(text: &mut String, title: &str, lines: &[Line], total: f64) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}");
    for line in lines.iter().take(LINES) {
        let share = 100.0 * line.seconds / total.max(1e-9);
        let mut parts: Vec<(&str, f64)> =
            line.parts.iter().map(|(name, seconds)| (*name, *seconds)).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = parts.iter().take(3).map(|(name, seconds)| format!("{name} {seconds:.3}"));
        let more = match line.count {
            Some(count) => format!("{count} times"),
            None => shown.collect::<Vec<_>>().join(", "),
        };
        let _ = writeln!(text, "    {:<24} {share:5.1} % {:9.3} s  {more}", line.name, line.seconds);
        if text.ends_with("s  \n") {
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    if lines.len() > LINES {
        let _ = writeln!(text, "    and {} more", lines.len() - LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up_by_name_the_longest_first() {
        let mut seen = WorkerTimes {
            programs: vec![Program { name: "sh".into(), ways: CallWays { rewritten: 995, trapped: 5 } }],
            ..WorkerTimes::default()
        };
        let guest = Activity { phase: Phase::Guest, node: Some(0), program: 1, call: 0 };
        seen.times = Map::from([
            (guest, 1.0),
            (Activity { phase: Phase::Call, call: 1, ..guest }, 2.0),
            (Activity::of(Phase::Network, 1), 2.5),
        ]);
        let hosts = lines(&seen, |a| a.node.map(|node| node.to_string()), true);
        assert_eq!((hosts[0].name.as_str(), hosts[0].seconds, hosts.len()), ("0", 3.0, 2));
        assert_eq!(hosts[0].parts, Map::from([("guests", 1.0), ("system calls", 2.0)]));
        let mut text = String::new();
        ways_text(&mut text, &ways(&seen));
        assert_eq!(
            text,
            "  calls that came by a trap, not by a rewritten call site: 0.5 % of 1000\n    \
             sh                         0.5 %         5    of 1000\n"
        );
        let mut text = String::new();
        table_text(&mut text, "for hosts", &hosts, 5.5);
        assert_eq!(
            text,
            "  for hosts\n    0                         54.5 %     3.000 s  system calls 2.000, guests 1.000\n    \
             1                         45.5 %     2.500 s  network 2.500\n"
        );
    }
}
