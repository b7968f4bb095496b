//! Faults: what is drawn for a run.

use crate::upgrades;
use belljar_base::{HostId, Seed, SimDuration, SimTime, Stream};
use belljar_config::topology::DeviceKind;
use belljar_config::{
    Action, CallFault, CpuShare, DiskFault, DiskFaultKind, Event, Experiment, Exploration, FaultKind,
    FinalState, Host, HostSet, ProcessRef, Signal, Target, When,
};
use belljar_net::Loss;
use belljar_net::dns::DnsFault;
use belljar_net::link::{LinkOverrides, PathChange};

/// A fault, which shrinking removes as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Name of the fault's kind; the name of the event for an event of the file.
    pub kind: &'static str,
    /// True if it was drawn, false if it is an event of the file.
    pub is_drawn: bool,
    /// Events of the fault, each at a fixed time.
    pub events: Vec<Event>,
}

/// Experiment that is explored, with what its faults are drawn from: computed once for all runs.
pub struct Explored<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The distribution of faults.
    pub explore: &'a Exploration,
    /// Directions of paths and links that may fail.
    paths: Vec<Target>,
    /// Pairs of an explored host and another one, whose connections may be reset.
    pairs: Vec<(HostId, HostId)>,
}

impl<'a> Explored<'a> {
    /// Computes what the faults of an experiment are drawn from.
    pub fn new(experiment: &'a Experiment, explore: &'a Exploration) -> Explored<'a> {
        let running = running(experiment);
        let paths = paths(experiment, explore, &running);
        let is_among = |id: &HostId| explore.hosts.binary_search(id).is_ok();
        let others = |one: &HostId| {
            let (one, after) = (*one, is_among(one));
            // A pair of two explored hosts is there once.
            let is_other =
                move |other: &&HostId| **other != one && (!is_among(other) || !after || one < **other);
            running.iter().filter(is_other).map(move |other| (one, *other))
        };
        let has_machine = |id: HostId| experiment.hosts[id.index()].machine.is_some();
        let pairs = explore.hosts.iter().flat_map(others);
        let pairs = pairs.filter(|(one, other)| !has_machine(*one) && !has_machine(*other)).collect();
        Explored { experiment, explore, paths, pairs }
    }

    /// Draws the faults of the run with a number. Run 0 has none: it shows whether the experiment holds by itself. Each other run draws
    /// from a random half of the kinds (swarm testing): kinds that hide each other's effects are apart in some runs.
    pub fn draw(&self, run: u64) -> Vec<Fault> {
        if run == 0 {
            return Vec::new();
        }
        let explore = self.explore;
        let mut stream = Seed(self.experiment.general.seed).stream(&["explore", &run.to_string()]);
        let has_kernel = |id: &HostId| self.experiment.hosts[id.index()].machine.is_none();
        let applies = |kind: &&FaultKind| match kind {
            FaultKind::Dns { .. } => true,
            FaultKind::Partition => explore.hosts.len() > 1,
            FaultKind::Lossy { .. } | FaultKind::OneWay | FaultKind::Slow { .. } => !self.paths.is_empty(),
            FaultKind::Reset { .. } => !self.pairs.is_empty(),
            FaultKind::Calls { .. }
            | FaultKind::Disk { .. }
            | FaultKind::Kill { .. }
            | FaultKind::Memory { .. }
            | FaultKind::Cpu { .. }
            | FaultKind::PauseProcess { .. } => explore.hosts.iter().any(has_kernel),
            FaultKind::Clock { .. } | FaultKind::Crash { .. } | FaultKind::Pause | FaultKind::Stop => true,
            FaultKind::Upgrade { upgrades } => !upgrades.is_empty(),
        };
        let all: Vec<&FaultKind> = explore.kinds.iter().filter(applies).collect();
        if all.is_empty() {
            return Vec::new();
        }
        let mut kinds: Vec<&FaultKind> = all.iter().copied().filter(|_| stream.chance(0.5)).collect();
        if kinds.is_empty() {
            kinds.push(*pick(&all, &mut stream));
        }
        let (least, most) = explore.faults;
        let count = u64::from(least) + stream.below(u64::from(most - least) + 1);
        let mut faults = Vec::new();
        for _ in 0..count {
            let kind = *pick(&kinds, &mut stream);
            let (at, lasting) = times(explore, &mut stream);
            if let FaultKind::Upgrade { upgrades } = kind {
                faults.extend(upgrades::draw(self.experiment, upgrades, (at, lasting), &mut stream));
                continue;
            }
            let events = self.events(kind, (at, lasting), &mut stream);
            faults.push(Fault { kind: kind.name(), is_drawn: true, events });
        }
        faults.sort_by_key(|fault| fault.events[0].first());
        faults
    }

    /// Explored host whose kernel is simulated.
    fn with_kernel(&self, stream: &mut Stream) -> HostId {
        let has_kernel = |id: &&HostId| self.experiment.hosts[id.index()].machine.is_none();
        let hosts: Vec<HostId> = self.explore.hosts.iter().filter(has_kernel).copied().collect();
        *pick(&hosts, stream)
    }

    /// Explored host and a process of it: one of its list, or all that have one of the names.
    fn process(&self, names: &[String], stream: &mut Stream) -> (HostId, ProcessRef) {
        let host = self.with_kernel(stream);
        let process = match names.is_empty() {
            true => ProcessRef::Number(*pick(&killable(&self.experiment.hosts[host.index()]), stream)),
            false => ProcessRef::Program(pick(names, stream).clone()),
        };
        (host, process)
    }

    /// Events of a fault.
    fn events(
        &self,
        kind: &FaultKind,
        (at, lasting): (SimTime, SimDuration),
        stream: &mut Stream,
    ) -> Vec<Event> {
        let Explored { experiment, explore, paths, pairs } = self;
        let event = |at: SimTime, lasting: Option<SimDuration>, action: Action| Event {
            number: 0,
            name: None,
            when: When::At(at),
            lasting,
            action,
        };
        let once = |action: Action| vec![event(at, Some(lasting), action)];
        let one = |id: HostId| HostSet::Some(vec![id]);
        match kind {
            FaultKind::Calls { results, share: (least, most) } => {
                let hosts = one(self.with_kernel(stream));
                let rate = octave_of(*least, *most, stream);
                once(Action::CallFault { hosts, fault: CallFault::Drawn { results: results.clone(), rate } })
            }
            FaultKind::Disk { faults, sync_time: (least, most) } => {
                let hosts = one(self.with_kernel(stream));
                let mut fault = DiskFault::default();
                match pick(faults, stream) {
                    DiskFaultKind::SyncTime => {
                        let nanos = octaves(least.as_nanos(), most.as_nanos(), stream);
                        let time = SimDuration::from_nanos(rounded(nanos, least.as_nanos()));
                        fault.sync_time = Some((time, time));
                    }
                    DiskFaultKind::SyncErrors => fault.sync_errors = 1,
                    DiskFaultKind::Full => fault.full = true,
                    DiskFaultKind::ReadErrors => fault.read_errors = octave_of(0.001, 0.1, stream),
                    DiskFaultKind::BitRot => fault.bit_rot = octave_of(0.001, 0.1, stream),
                }
                once(Action::DiskFault { hosts, fault: Box::new(fault) })
            }
            FaultKind::Dns { names, answers } => {
                let hosts = one(*pick(&explore.hosts, stream));
                let fault = DnsFault { names: names.clone(), answer: pick(answers, stream).clone() };
                once(Action::DnsAnswers { hosts, fault })
            }
            FaultKind::Reset { ends } => {
                let (first, second) = *pick(pairs, stream);
                let ends = *pick(ends, stream);
                let between = [one(first), one(second)];
                vec![event(at, None, Action::ConnectionReset { between, ends })]
            }
            &FaultKind::Clock { step } => {
                let host = *pick(&explore.hosts, stream);
                let step = rounded(within(1, step.as_nanos().max(1), stream), 1) as i64;
                let step = if stream.chance(0.5) { -step } else { step };
                let action = Action::Clock { hosts: one(host), step_ns: Some(step), drift_ppb: None };
                vec![event(at, None, action)]
            }
            FaultKind::Crash { files } => {
                let host = *pick(&explore.hosts, stream);
                once(Action::Crash { hosts: one(host), files: *pick(files, stream) })
            }
            FaultKind::Kill { names } => {
                let (host, process) = self.process(names, stream);
                once(Action::Kill(one(host), process))
            }
            FaultKind::PauseProcess { names } => {
                let (host, process) = self.process(names, stream);
                once(Action::PauseProcess(one(host), process))
            }
            FaultKind::Cpu { share: (least, most), period: (shortest, longest) } => {
                let hosts = one(self.with_kernel(stream));
                let share = octave_of(*least, *most, stream);
                let period = octaves(shortest.as_nanos(), longest.as_nanos(), stream);
                let period = SimDuration::from_nanos(rounded(period, shortest.as_nanos()));
                once(Action::Cpu { hosts, share: CpuShare::new(share, period) })
            }
            &FaultKind::Lossy { loss: (least, most) } => {
                let target = both_ways(pick(paths, stream));
                let loss = ((least + stream.unit() * (most - least)) * 1_000.0).round() / 1_000.0;
                let link = match target {
                    Target::Links { .. } => {
                        LinkOverrides { loss: Some(Loss::Independent(loss)), ..Default::default() }
                    }
                    _ => LinkOverrides::default(),
                };
                let path = matches!(target, Target::Paths { .. } | Target::Edge(..)).then_some(loss);
                once(Action::Change(
                    target,
                    PathChange { loss: path, link: Box::new(link), ..Default::default() },
                ))
            }
            &FaultKind::Memory { limit: (least, most) } => {
                let hosts = one(self.with_kernel(stream));
                let bytes = octaves(least, most, stream);
                let whole = bytes >> 20 << 20;
                once(Action::Memory { hosts, limit: if whole < least { bytes } else { whole } })
            }
            FaultKind::OneWay => once(Action::LinkDown(pick(paths, stream).clone())),
            FaultKind::Partition => {
                // One host for each group, so that none is empty; the others by chance.
                let count = explore.hosts.len() as u64;
                let one = stream.below(count);
                let other = (one + 1 + stream.below(count - 1)) % count;
                let mut groups = [Vec::new(), Vec::new()];
                for (index, host) in (0..).zip(&explore.hosts) {
                    let group =
                        if index == one || index == other { index == other } else { stream.chance(0.5) };
                    groups[usize::from(group)].push(*host);
                }
                once(Action::Partition(groups.map(HostSet::Some).to_vec()))
            }
            FaultKind::Pause => once(Action::Pause(one(*pick(&explore.hosts, stream)))),
            &FaultKind::Slow { latency: (least, most) } => {
                let target = both_ways(pick(paths, stream));
                let latency = rounded(octaves(least.as_nanos(), most.as_nanos(), stream), least.as_nanos());
                let latency = Some(SimDuration::from_nanos(latency));
                once(Action::Change(target, PathChange { latency, ..Default::default() }))
            }
            FaultKind::Stop => {
                let host = *pick(&explore.hosts, stream);
                let processes = 0..experiment.hosts[host.index()].programs().len();
                let signals = |at: SimTime, name: &str| -> Vec<Event> {
                    let signal = Signal::from_name(name).expect("the name of a signal");
                    let send = |n| Action::Signal(one(host), ProcessRef::Number(n), signal);
                    processes.clone().map(|n| event(at, None, send(n))).collect()
                };
                [signals(at, "SIGSTOP"), signals(at + lasting, "SIGCONT")].concat()
            }
            FaultKind::Upgrade { .. } => unreachable!("an upgrade is several faults"),
        }
    }
}

/// Processes of a host that may be killed: those that are expected to run at the end, or all if there are none.
fn killable(host: &Host) -> Vec<usize> {
    let all = 0..host.programs().len();
    let serves = |n: &usize| host.programs()[*n].expected_final_state == FinalState::Running;
    let servers: Vec<usize> = all.clone().filter(serves).collect();
    if servers.is_empty() { all.collect() } else { servers }
}

pub(crate) fn pick<'a, T>(among: &'a [T], stream: &mut Stream) -> &'a T {
    &among[stream.below(among.len() as u64) as usize]
}

/// Number from `least` to `most`.
pub(crate) fn within(least: u64, most: u64, stream: &mut Stream) -> u64 {
    least + stream.below(most.saturating_sub(least).saturating_add(1))
}

/// Start and duration of a fault. Durations are equally likely in each octave. Both are whole milliseconds where that fits.
fn times(explore: &Exploration, stream: &mut Stream) -> (SimTime, SimDuration) {
    let (from, until) = explore.between;
    let room = until.since(from).as_nanos();
    let (shortest, longest) = (explore.lasting.0.as_nanos(), explore.lasting.1.as_nanos().min(room));
    let lasting = octaves(shortest, longest, stream);
    let start = from.as_nanos() + within(0, room.saturating_sub(lasting), stream);
    (
        SimTime::from_nanos(rounded(start, from.as_nanos())),
        SimDuration::from_nanos(rounded(lasting, shortest)),
    )
}

/// Number from `least` to `most`, with the same probability for each doubling.
pub(crate) fn octaves(least: u64, most: u64, stream: &mut Stream) -> u64 {
    let doublings = (most / least.max(1)).checked_ilog2().unwrap_or(0);
    let low = least.max(1) << stream.below(u64::from(doublings) + 1);
    within(low, low.saturating_mul(2).min(most).max(low), stream)
}

/// Probability from `least` to `most`, not 0, with the same probability for each doubling; of three digits.
fn octave_of(least: f64, most: f64, stream: &mut Stream) -> f64 {
    const PARTS: f64 = 1e6;
    let parts = octaves((least * PARTS).ceil() as u64, (most * PARTS) as u64, stream) as f64;
    let grain = 10f64.powi(parts.log10().floor() as i32 - 2);
    ((parts / grain).round() * grain / PARTS).clamp(least.min(most), most)
}

/// Rounds down to whole milliseconds, unless that is below `least`.
pub(crate) fn rounded(nanos: u64, least: u64) -> u64 {
    const MILLISECOND: u64 = 1_000_000;
    let whole = nanos / MILLISECOND * MILLISECOND;
    if whole < least.max(1) { nanos } else { whole }
}

/// Hosts with programs or models.
fn running(experiment: &Experiment) -> Vec<HostId> {
    let runs = |id: &HostId| {
        let host = &experiment.hosts[id.index()];
        !host.programs().is_empty() || !host.models.is_empty()
    };
    (0..experiment.hosts.len() as u32).map(HostId).filter(runs).collect()
}

/// Directions that may fail: the paths of the graph from and to the explored hosts, and all links of the network.
fn paths(experiment: &Experiment, explore: &Exploration, hosts: &[HostId]) -> Vec<Target> {
    let is_on_graph = |id: HostId| experiment.hosts[id.index()].node.is_some();
    let is_among = |id: HostId| explore.hosts.binary_search(&id).is_ok();
    let mut paths = Vec::new();
    for &from in hosts {
        for &to in hosts.iter().filter(|to| **to != from) {
            let is_explored = is_among(from) || is_among(to);
            if is_explored && is_on_graph(from) && is_on_graph(to) {
                let set = |id| HostSet::Some(vec![id]);
                paths.push(Target::Paths { from: set(from), to: set(to), both: false });
            }
        }
    }
    let is_simulator = |id: HostId| {
        experiment.device(id).is_some_and(|device| matches!(device.kind, DeviceKind::Simulator(_)))
    };
    for (index, link) in experiment.topology.links.iter().enumerate() {
        if link.pci.is_none() && !link.ends.iter().any(|end| is_simulator(end.node)) {
            let from = |end: usize| Target::Links { links: vec![index], from: Some(link.ends[end].node) };
            paths.extend([from(0), from(1)]);
        }
    }
    paths
}

/// Target with both directions of its paths or links.
fn both_ways(target: &Target) -> Target {
    match target.clone() {
        Target::Paths { from, to, .. } => Target::Paths { from, to, both: true },
        Target::Links { links, .. } => Target::Links { links, from: None },
        edge @ Target::Edge(..) => edge,
    }
}
