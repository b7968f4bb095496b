//! Waiting between the experiment and other simulators, in both directions. Sampled by polling the state of
//! their channels.

use belljar_base::{Map, SimTime};
use belljar_sim::{Outlook, Watched};
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Time after which a simulator without progress is reported; each further report takes twice as long.
const STANDSTILL: Duration = Duration::from_secs(5);
/// Time without a poll after which the experiment is taken to be busy elsewhere.
const BUSY: Duration = Duration::from_secs(1);
/// Number of samples summarized by the progress line.
const RECENT: usize = 20;

/// Shares of samples at a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wait {
    /// Name of the simulator.
    pub simulator: String,
    /// Name of the port.
    pub port: String,
    /// Share of all samples in which the experiment waited for the simulator at this port.
    pub waited_for: f64,
    /// Share of all samples in which the simulator had consumed all input at this port, so that it waited for
    /// the experiment.
    pub waits: f64,
}

/// Counts of samples.
#[derive(Default)]
pub struct Waits {
    looks: u64,
    /// By simulator and port: samples in which the experiment waited, and in which the simulator did.
    counts: Map<(String, String), (u64, u64)>,
}

impl Waits {
    /// Samples all simulators.
    pub fn look(&mut self, outlook: &Outlook) {
        self.looks += 1;
        for simulator in outlook.simulators() {
            let mut count = |port: &str, held: bool| {
                let seen = self.counts.entry((simulator.name.clone(), port.to_owned())).or_default();
                *(if held { &mut seen.0 } else { &mut seen.1 }) += 1;
            };
            match (simulator.waited_for(), simulator.waits_at()) {
                (Some((port, _)), _) => count(port, true),
                (None, Some(port)) => count(port, false),
                (None, None) => {}
            }
        }
    }

    /// Returns the shares, in descending order of the experiment's waiting.
    pub fn shares(&self) -> Vec<Wait> {
        let share = |count: u64| count as f64 / self.looks.max(1) as f64;
        let wait = |((simulator, port), (held, waits)): (&(String, String), &(u64, u64))| Wait {
            simulator: simulator.clone(),
            port: port.clone(),
            waited_for: share(*held),
            waits: share(*waits),
        };
        let mut all: Vec<Wait> = self.counts.iter().map(wait).collect();
        all.sort_by(|a, b| b.waited_for.total_cmp(&a.waited_for));
        all
    }
}

/// Appends the shares as a table for the terminal.
pub fn table(text: &mut String, waits: &[Wait]) {
    if waits.is_empty() {
        return;
    }
    let _ = writeln!(text, "simulators, at each look:");
    for Wait { simulator, port, waited_for, waits } in waits {
        let _ = writeln!(
            text,
            "    {:26} {:5.1} % waited for, {:5.1} % waiting for the experiment",
            format!("{simulator}:{port}"),
            100.0 * waited_for,
            100.0 * waits
        );
    }
}

/// Monitor of simulators during a run, for the progress line.
#[derive(Default)]
pub struct Lookout {
    /// Simulators that the experiment waited for, in each of the last samples.
    recent: VecDeque<Vec<String>>,
    /// Stalled simulators, by name.
    standing: Map<String, Standstill>,
}

/// Simulator without progress while the experiment waits for it.
#[derive(Clone, Copy)]
struct Standstill {
    at: SimTime,
    since: Instant,
    /// Stall duration at which the next report is due.
    next: Duration,
    /// Number of times that the experiment has polled for its messages.
    looks: u64,
    /// Time of the last sample at which this number had grown.
    polled: Instant,
}

impl Lookout {
    /// Samples all simulators. Returns the reports on stalled ones.
    pub fn look(&mut self, outlook: &Outlook, now: Instant) -> Vec<String> {
        let (mut waited_for, mut notes) = (Vec::new(), Vec::new());
        for simulator in outlook.simulators() {
            let Some((port, at)) = simulator.waited_for() else {
                self.standing.remove(&simulator.name);
                continue;
            };
            waited_for.push(simulator.name.clone());
            let fresh =
                Standstill { at, since: now, next: STANDSTILL, looks: simulator.looks(), polled: now };
            let standing = self.standing.entry(simulator.name.clone()).or_insert(fresh);
            if standing.looks != fresh.looks {
                (standing.looks, standing.polled) = (fresh.looks, now);
            }
            // An experiment that does not poll for a while is busy elsewhere and does not wait. On a busy machine it does not come to it
            // between any two samples.
            if standing.at != at || now - standing.polled >= BUSY {
                *standing = fresh;
            }
            let stood = now - standing.since;
            if stood >= standing.next {
                standing.next *= 2;
                notes.push(standstill(&simulator, port, at, stood));
            }
        }
        self.recent.push_back(waited_for);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        notes
    }

    /// Returns the simulator that the experiment waits for most, with its share of the recent samples.
    pub fn most(&self) -> Option<(&str, f64)> {
        let mut counts: Map<&str, usize> = Map::new();
        self.recent.iter().flatten().for_each(|name| *counts.entry(name).or_default() += 1);
        let (name, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some((name, count as f64 / self.recent.len() as f64))
    }
}

/// Formats the report on a stalled simulator.
fn standstill(simulator: &Watched, port: &str, at: SimTime, stood: Duration) -> String {
    let process = match simulator.process.map(|id| (id, state(id))) {
        None => String::new(),
        Some((id, Some('R'))) => format!("; its process {id} computes"),
        Some((id, Some('T'))) => format!("; its process {id} is stopped"),
        Some((id, Some('S' | 'D'))) => format!("; its process {id} sleeps"),
        Some((id, _)) => format!("; its process {id} has ended"),
    };
    let taken = match simulator.waits_at() {
        Some(_) => "it has taken all that it was sent",
        None => "it has not taken all that it was sent",
    };
    format!(
        "simulator '{}', port '{port}', has stood at {:.9} s for {} s, and the experiment waits for it: stuck or slow? {taken}{process}",
        simulator.name,
        at.as_secs_f64(),
        stood.as_secs(),
    )
}

/// Returns the state of a process, as in ps(1).
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}
