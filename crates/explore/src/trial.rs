//! Trials: runs that are described by a seed and a list of faults.

use crate::choices::ForcedChoice;
use crate::faults::{Explored, Fault, octaves};
use crate::upgrades;
use crate::verdict::ForcedCall;
use belljar_base::choices::ChoiceFile;
use belljar_base::{HostId, Seed, SimTime};
use belljar_config::{Action, CallFault, Event, Experiment, Exploration, HostSet, Preemption, Scheduling};
use belljar_net::units::format_duration;
use belljar_plan::with_fixed_events;
use std::sync::Arc;

/// Bounds of points of preemption.
const MOST_POINTS: u32 = 4;
const LEAST_CALLS: u64 = 8;
const MOST_CALLS: u64 = 1_024;
const LEAST_INSTRUCTIONS: u64 = 16;
const MOST_INSTRUCTIONS: u64 = 8_192;

/// A run to be executed.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The experiment with the trial's seed, whose own events are among the faults.
    base: Arc<Experiment>,
    /// Faults by the time of their first event.
    pub faults: Vec<Fault>,
    /// Hosts whose programs and models do not run.
    pub idle: Vec<HostId>,
    /// End of the simulation.
    pub stop: SimTime,
    /// Order of the threads of all hosts.
    pub scheduling: Scheduling,
    /// Choices that are forced while all others take their default; `None` if all are drawn.
    pub choices: Option<Vec<ForcedChoice>>,
}

impl Trial {
    /// The trial of the run with a number: the experiment's seed plus this number, the events of the file as that seed draws them,
    /// and the drawn faults.
    pub fn of_run(explored: &Explored, run: u64) -> Trial {
        let (experiment, explore) = (explored.experiment, explored.explore);
        let mut seeded = experiment.clone();
        seeded.general.seed = experiment.general.seed.wrapping_add(run);
        // Each trial is executed on one processor, beside others.
        seeded.general.parallelism = 1;
        seeded.explore = None;
        let mut base = with_fixed_events(&seeded);
        // Without events of the file, properties would no longer count from the last fault, which may be a drawn one.
        base.properties = seeded.properties;
        let own = std::mem::take(&mut base.events).into_iter();
        let own = own.map(|event| Fault { kind: "event", is_drawn: false, events: vec![event] });
        let mut faults: Vec<Fault> = own.chain(explored.draw(run)).collect();
        faults.sort_by_key(|fault| fault.events[0].first());
        upgrades::remove_impossible(experiment, &mut faults);
        let stop = base.general.stop_time;
        let scheduling = scheduling(experiment, explore, run);
        Trial { base: Arc::new(base), faults, idle: Vec::new(), stop, scheduling, choices: None }
    }

    /// The experiment of the trial.
    pub fn experiment(&self) -> Experiment {
        let mut experiment = Experiment::clone(&self.base);
        experiment.general.stop_time = self.stop;
        let mut faults: Vec<&Fault> = self.faults.iter().collect();
        // An upgrade may follow from one that shrinking has removed or moved.
        faults.sort_by_key(|fault| fault.events[0].first());
        upgrades::remove_impossible(&self.base, &mut faults);
        let events = faults.iter().flat_map(|fault| &fault.events);
        experiment.events = events.filter(|event| event.first() < self.stop).cloned().collect();
        experiment.events.sort_by_key(Event::first);
        Event::remove_idle(&mut experiment.events);
        for (number, event) in experiment.events.iter_mut().enumerate() {
            event.number = number as u32;
        }
        experiment.settle_properties();
        if self.scheduling != Scheduling::Fifo {
            for host in experiment.hosts.iter_mut().filter(|host| host.machine.is_none()) {
                let own = &mut host.options.scheduling;
                // The file may have numbers that suit the host.
                if !matches!((*own, self.scheduling), (Scheduling::Priorities(_), Scheduling::Priorities(_)))
                {
                    *own = self.scheduling;
                }
            }
        }
        for id in &self.idle {
            let host = &mut experiment.hosts[id.index()];
            host.processes.clear();
            host.models.clear();
        }
        experiment
    }

    /// The same trial with drawn results of calls replaced by the calls that had them, one fault each; `None` if there are no such faults.
    pub fn with_forced_calls(&self, forced: &[ForcedCall]) -> Option<Trial> {
        let is_drawn =
            |event: &Event| matches!(event.action, Action::CallFault { fault: CallFault::Drawn { .. }, .. });
        let mut faults = Vec::new();
        let mut has_changed = false;
        for fault in &self.faults {
            let [event] = &fault.events[..] else {
                faults.push(fault.clone());
                continue;
            };
            let Action::CallFault { hosts: HostSet::Some(hosts), .. } = &event.action else {
                faults.push(fault.clone());
                continue;
            };
            if !is_drawn(event) {
                faults.push(fault.clone());
                continue;
            }
            has_changed = true;
            let is_of_it = |one: &&ForcedCall| {
                let names = hosts.iter().any(|id| self.base.hosts[id.index()].name == one.host);
                names && (one.since - event.first().as_secs_f64()).abs() < 1e-9
            };
            for one in forced.iter().filter(is_of_it) {
                let Some(result) = one.result() else { continue };
                let action =
                    Action::CallFault { hosts: HostSet::Some(hosts.clone()), fault: CallFault::One(result) };
                faults.push(Fault { events: vec![Event { action, ..event.clone() }], ..fault.clone() });
            }
        }
        has_changed.then(|| Trial { faults, ..self.clone() })
    }

    /// The same trial without its drawn faults, and with threads in the order of their arrival.
    pub fn without_drawn_faults(&self) -> Trial {
        let faults = self.faults.iter().filter(|fault| !fault.is_drawn).cloned().collect();
        let choices = self.choices.as_ref().map(|_| Vec::new());
        Trial { faults, scheduling: Scheduling::Fifo, choices, ..self.clone() }
    }

    /// True if both trials have as many faults and choices, and the same order of threads.
    pub(crate) fn has_same_causes(&self, other: &Trial) -> bool {
        let causes = |trial: &Trial| {
            (trial.faults.len(), trial.scheduling, trial.choices.as_ref().map_or(0, Vec::len))
        };
        causes(self) == causes(other)
    }

    /// The file of its forced choices, if choices are not drawn.
    pub fn choice_file(&self) -> Option<ChoiceFile> {
        self.choices.as_deref().map(ForcedChoice::file)
    }

    /// Each forced choice on one line.
    pub fn choice_lines(&self) -> Vec<String> {
        let choices = self.choices.iter().flatten();
        choices.map(|ForcedChoice { stream, index, value }| format!("{stream} {index} {value}")).collect()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.base.general.seed
    }

    /// Hosts whose programs and models run.
    pub fn busy_hosts(&self) -> Vec<HostId> {
        let hosts = self.base.hosts.iter().enumerate();
        let runs = hosts.filter(|(_, host)| !host.processes.is_empty() || !host.models.is_empty());
        runs.map(|(index, _)| HostId(index as u32)).filter(|id| !self.idle.contains(id)).collect()
    }

    /// Each event with its time, on one line.
    pub fn event_lines(&self) -> Vec<String> {
        let experiment = self.experiment();
        let line = |event: &Event| {
            format!(
                "{} {}",
                format_duration(event.first().since(SimTime::ZERO)),
                experiment.event_text(event)
            )
        };
        experiment.events.iter().map(line).collect()
    }
}

/// Order of threads of the run with a number. Run 0 has those of the experiment.
fn scheduling(experiment: &Experiment, explore: &Exploration, run: u64) -> Scheduling {
    if run == 0 {
        return Scheduling::Fifo;
    }
    let mut stream = Seed(experiment.general.seed).stream(&["explore", &run.to_string(), "scheduling"]);
    let order = explore.scheduling[stream.below(explore.scheduling.len() as u64) as usize];
    let Scheduling::Priorities(_) = order else { return order };
    // The number of points and their range decide which races are likely to show: each octave is as likely as the others.
    Scheduling::Priorities(Preemption {
        points: 1 + stream.below(u64::from(MOST_POINTS)) as u32,
        calls: octaves(LEAST_CALLS, MOST_CALLS, &mut stream) as u32,
        instructions: octaves(LEAST_INSTRUCTIONS, MOST_INSTRUCTIONS, &mut stream) as u32,
    })
}
