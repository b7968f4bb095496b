//! Occurrences of events: random schedules and choices of hosts, drawn from the seed.
//!
//! Each event has a random stream of its own, named after the event, so that an additional event does not
//! affect the others.

use belljar_base::{HostId, SimTime, Stream};
use belljar_config::{Action, Event, Experiment, HostSet, When};

/// An occurrence of an event, or the end of a lasting event, with all choices made.
pub struct Occurrence {
    /// Time of the occurrence.
    pub at: SimTime,
    /// Index of the event in the experiment.
    pub event: u32,
    /// The change.
    pub action: Action,
    /// True if the occurrence ends the effect of an earlier one.
    pub ends: bool,
}

/// All occurrences of an experiment, in order of time.
pub fn all(experiment: &Experiment) -> Vec<Occurrence> {
    let mut occurrences = Vec::new();
    for (number, event) in experiment.events.iter().enumerate() {
        draw(experiment, number as u32, event, &mut occurrences);
    }
    occurrences.sort_by_key(|occurrence| (occurrence.at, occurrence.event));
    occurrences
}

/// The experiment with every event at a fixed time, with named hosts, and with the tracks of all stations: no
/// decision is left to the seed. It produces the same results.
pub fn with_fixed_events(experiment: &Experiment) -> Experiment {
    let events = experiment.events.iter().enumerate();
    let mut events: Vec<Event> =
        events.flat_map(|(number, event)| fixed(experiment, number as u32, event)).collect();
    // Those that undo what was not drawn.
    Event::remove_idle(&mut events);
    renumber(&mut events);
    let mut fixed = Experiment { events, ..experiment.clone() };
    crate::tracks::fix(&mut fixed);
    fixed.settle_properties();
    fixed
}

/// Events that the seed has drawn, by time, each at a fixed time and with named hosts: as events of an
/// experiment they have the same effects.
pub fn drawn_events(experiment: &Experiment) -> Vec<Event> {
    let is_drawn = |event: &Event| {
        let by_chance = matches!(event.when, When::Every { probability, .. } if probability < 1.0);
        let mut action = event.action.clone();
        by_chance || action.hosts_mut().into_iter().any(|hosts| matches!(hosts, HostSet::OneOf(_)))
    };
    let events = experiment.events.iter().enumerate().filter(|(_, event)| is_drawn(event));
    let mut events: Vec<Event> =
        events.flat_map(|(number, event)| fixed(experiment, number as u32, event)).collect();
    events.sort_by_key(Event::first);
    renumber(&mut events);
    events
}

/// Events of which the seed has drawn occurrences, all of them after `end`, with the first times.
pub fn unreached(experiment: &Experiment, end: SimTime) -> Vec<(SimTime, &Event)> {
    let mut found = Vec::new();
    for (number, event) in experiment.events.iter().enumerate() {
        let mut drawn = Vec::new();
        draw(experiment, number as u32, event, &mut drawn);
        let first = drawn.iter().map(|occurrence| occurrence.at).min();
        found.extend(first.filter(|at| *at > end).map(|at| (at, event)));
    }
    found.sort_by_key(|(at, _)| *at);
    found
}

/// Gives events their positions in a list of their own.
fn renumber(events: &mut [Event]) {
    for (number, event) in events.iter_mut().enumerate() {
        event.number = number as u32;
    }
}

/// The occurrences of an event as events of their own.
fn fixed(experiment: &Experiment, number: u32, event: &Event) -> Vec<Event> {
    let mut drawn = Vec::new();
    draw(experiment, number, event, &mut drawn);
    // A partition that occurs again while it lasts is replaced, and ends at the earliest end, because it
    // belongs to one event.
    let times: Vec<SimTime> = drawn.iter().map(|occurrence| occurrence.at).collect();
    let cut = |at: SimTime| times.iter().filter(|other| **other > at).min().map(|end| end.since(at));
    let starts = drawn.into_iter().filter(|start| !start.ends && start.at < experiment.general.stop_time);
    let fix = |Occurrence { at, action, .. }: Occurrence| {
        let lasting = if matches!(action, Action::Partition(_)) { cut(at) } else { event.lasting };
        Event { number: event.number, name: event.name.clone(), when: When::At(at), lasting, action }
    };
    starts.map(fix).collect()
}

/// Draws the times and hosts of an event.
fn draw(experiment: &Experiment, number: u32, event: &Event, occurrences: &mut Vec<Occurrence>) {
    let owner = event.name.clone().unwrap_or_else(|| event.number.to_string());
    let mut stream = experiment.seed().stream(&["event", &owner]);
    let mut add = |at: SimTime, stream: &mut Stream| {
        let action = drawn(&event.action, experiment.hosts.len() as u32, stream);
        let end = event.lasting.map(|lasting| (at + lasting, action.ending()));
        occurrences.push(Occurrence { at, event: number, action, ends: false });
        if let Some((at, action)) = end {
            occurrences.push(Occurrence { at, event: number, action, ends: true });
        }
    };
    match event.when {
        When::At(at) => add(at, &mut stream),
        When::Every { interval, from, until, probability } => {
            let mut at = from;
            while at <= until && at < experiment.general.stop_time {
                if stream.chance(probability) {
                    add(at, &mut stream);
                }
                at += interval;
            }
        }
    }
}

/// The action with all choices of hosts made.
fn drawn(action: &Action, count: u32, stream: &mut Stream) -> Action {
    let mut action = action.clone();
    for hosts in action.hosts_mut() {
        if let HostSet::OneOf(among) = hosts {
            let one = among[stream.below(among.len() as u64) as usize];
            *hosts = HostSet::Some(vec![one]);
        }
    }
    if let Action::Partition(groups) = &mut action
        && let [HostSet::Some(alone)] = &groups[..]
    {
        let others = (0..count).map(HostId).filter(|id| !alone.contains(id)).collect();
        groups.push(HostSet::Some(others));
    }
    action
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schedule;
    use belljar_config::PathContext;

    const EVENTS: &str = "\
        - { every: 7 s, probability: 0.5, crash: { one_of: all }, for: 9 s, name: monkey }\n\
        - { every: 10 s, partition: { one_of: all }, for: 15 s, name: split }\n\
        - { at: 60 s, heal: split }\n\
        - { every: 11 s, link_down: [a, b], for: 30 s }\n\
        - { at: 65 s, clock: { one_of: [b, c] }, drift_ppm: 3, for: 5 s }\n";

    fn load(text: &str) -> Experiment {
        let loaded = Experiment::parse_in("test.yaml", text, &PathContext::default());
        loaded.unwrap_or_else(|e| panic!("{e}\n{text}"))
    }
    fn experiment(seed: u64, events: &str) -> Experiment {
        load(&format!(
            "general: {{ stop_time: 100, seed: {seed} }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\n\
            hosts:\n  a: &h {{ network_node_id: 0, processes: [] }}\n  b: *h\n  c: *h\nevents:\n{events}"
        ))
    }
    /// The changes of each host, and over time the pairs of hosts that can reach each other.
    fn effects(experiment: &Experiment) -> (String, Vec<(SimTime, Vec<bool>)>) {
        let schedule = Schedule::new(experiment);
        let mut states = vec![belljar_net::link::PathState::default(); 9];
        let reach = schedule.network.iter().map(|(at, change)| {
            for (pair, state) in states.iter_mut().enumerate() {
                let change = change.of_path(HostId(pair as u32 / 3), HostId(pair as u32 % 3));
                change.iter().for_each(|change| state.apply(change));
            }
            let path = experiment.network.graph.path(belljar_net::NodeIndex(0), belljar_net::NodeIndex(0));
            (*at, states.iter().map(|state| state.path(path).is_ok()).collect())
        });
        let mut reach: Vec<(SimTime, Vec<bool>)> = reach.collect();
        // Only the last state of each time is effective, and equal states are merged.
        reach.reverse();
        reach.dedup_by_key(|(at, _)| *at);
        reach.reverse();
        reach.dedup_by(|later, first| later.1 == first.1);
        (format!("{:?}", schedule.hosts), reach)
    }

    #[test]
    fn drawn_events_are_those_that_depend_on_the_seed() {
        let fixed_ones = "\
            - { at: 5 s, crash: a, for: 2 s }\n\
            - { every: 40 s, crash: c, for: 2 s }\n";
        assert_eq!(drawn_events(&experiment(1, fixed_ones)), []);
        let both = experiment(1, &format!("{fixed_ones}{EVENTS}"));
        let drawn = drawn_events(&both);
        assert!(
            drawn.len() > 10
                && drawn.is_sorted_by_key(|event| match event.when {
                    When::At(at) => at,
                    When::Every { .. } => SimTime::MAX,
                })
        );
        assert_ne!(
            drawn,
            drawn_events(&Experiment {
                general: belljar_config::General { seed: 2, ..both.general.clone() },
                ..both.clone()
            })
        );
        let text = both.events_yaml(&drawn);
        assert_eq!(
            load(&format!(
                "general: {{ stop_time: 100 }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\n\
            hosts:\n  a: &h {{ network_node_id: 0, processes: [] }}\n  b: *h\n  c: *h\n{text}"
            ))
            .events,
            drawn
        );
    }

    #[test]
    fn fixed_events_have_the_effects_of_the_drawn_ones() {
        for seed in 1..30 {
            let drawn = experiment(seed, EVENTS);
            let fixed = with_fixed_events(&drawn);
            assert_ne!(fixed.events, drawn.events);
            assert_eq!(effects(&fixed), effects(&drawn), "seed {seed}");
            // The emitted experiment is equal, and the seed has no influence any more.
            let printed = load(&fixed.to_yaml());
            assert_eq!(printed.events, fixed.events);
            let other = Experiment { general: experiment(seed + 1, EVENTS).general, ..printed };
            assert_eq!(effects(&other), effects(&drawn));
        }
    }
}
