//! Schedule of a run: events with a known time, in order of time.

use belljar_base::{Map, SimTime};
use belljar_config::{Experiment, When};
use belljar_plan::with_fixed_events;
use serde::Serialize;

/// Number of hosts listed by name where several programs start at one time.
const NAMED: usize = 3;

/// Event of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Simulated time in nanoseconds.
    pub at_ns: u64,
    /// Text of the event, as in the experiment.
    pub text: String,
}

/// Returns the scheduled events, with all random choices made, their ends, and the starts and shutdowns of
/// programs.
pub fn entries(experiment: &Experiment) -> Vec<Entry> {
    let mut all: Vec<(SimTime, String)> = Vec::new();
    for event in &with_fixed_events(experiment).events {
        let When::At(at) = event.when else { continue };
        let text = experiment.event_text(event);
        if let Some(lasting) = event.lasting {
            all.push((at + lasting, format!("end of {text}")));
        }
        all.push((at, text));
    }
    let (mut starts, mut shutdowns): (Map<SimTime, Vec<String>>, Map<SimTime, Vec<String>>) =
        Default::default();
    for host in &experiment.hosts {
        for process in &host.processes {
            let name = || format!("{} on {}", process.program_name(), host.name);
            if process.start_time < experiment.general.stop_time {
                starts.entry(process.start_time).or_default().push(name());
            }
            if let Some(at) = process.shutdown_time {
                shutdowns.entry(at).or_default().push(name());
            }
        }
    }
    let programs = |verb: &'static str| {
        move |(at, names): (SimTime, Vec<String>)| match names.len() {
            0..=NAMED => (at, format!("{verb} {}", names.join(", "))),
            count => (at, format!("{verb} {count} programs: {}, ...", names[..NAMED].join(", "))),
        }
    };
    all.extend(starts.into_iter().map(programs("start")));
    all.extend(shutdowns.into_iter().map(programs("shut down")));
    all.retain(|(at, _)| *at <= experiment.general.stop_time);
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(at, text)| Entry { at_ns: at.as_nanos(), text }).collect()
}
