//! A link of an experiment whose frames pass through this process: two ports, the lines between them, and what events
//! make of them in the course of the run.

use crate::adapt::{Late, Pressure};
use crate::clock::ExperimentClock;
use crate::relay::{Relay, Rest};
use crate::truth::harmless;
use crate::{Clock, Lateness, Line, LineConfig, LineCounters};
use belljar_base::{Seed, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::Line as LineSettings;
use belljar_net::{Loss, NicChange, Path};
use belljar_packetio::Port;
use belljar_plan::{DeviceChange, Direction, LinkChange, NetChange, PathState, Schedule};
use belljar_wire::ethernet::HEADER_LEN;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The pause after a port had an error: an interface that is down comes up again when an event says so.
const PAUSE: Duration = Duration::from_millis(2);
/// The share of a link's latency by which frames may be late so that they leave together: one part of so many. No more, either, than one part
/// of so many of the lateness that does no harm.
const SLACK: u64 = 40;
const SLACK_OF_HARMLESS: u64 = 4;

/// A change of one direction.
enum Change {
    Path(NetChange),
    Nic(NicChange),
}

/// One direction.
struct Lane {
    direction: Direction,
    settings: LineSettings,
    max_frame: usize,
    state: PathState,
    /// Changes to come, the next one last.
    changes: Vec<(SimTime, Change)>,
}

/// A link whose frames pass through this process.
pub struct Cable {
    link: usize,
    lanes: [Lane; 2],
    lines: [Line; 2],
}

/// Counts of a direction.
#[derive(Clone, Debug, Default)]
pub struct LaneReport {
    /// Frames by what became of them.
    pub counters: LineCounters,
    /// Frames that the kernel dropped before they came here, or that found no room behind the line.
    pub missed: u64,
}

/// Counts of a link.
pub struct CableReport {
    /// The link's place among all.
    pub link: usize,
    /// By the end where they begin.
    pub lanes: [LaneReport; 2],
    /// Lateness of frames handed out.
    pub lateness: Lateness,
}

/// A link between two ports, which moves frames.
pub struct RunningCable {
    link: usize,
    lanes: [Lane; 2],
    relay: Relay,
    clocks: [ExperimentClock; 2],
    errors: u64,
    seen: Late,
    /// The longest time by which its frames may be late so that they leave together.
    most_slack: SimDuration,
}

/// Next step of a cable that has moved what was due.
pub enum Next {
    /// There may be more to do at once.
    More,
    /// Nothing is to be done for that time.
    Rest(Rest),
    /// Nor may its ports be waited for.
    Pause(Duration),
    /// A port is gone.
    Gone,
}

impl Cable {
    /// The link of this place, with its changes.
    pub fn new(experiment: &Experiment, schedule: &Schedule, link: usize) -> Cable {
        let settings = &experiment.topology.links[link];
        let seed = Seed(experiment.general.seed);
        let lanes = [0, 1].map(|end| lane(experiment, schedule, link, end));
        let lines = [0, 1].map(|end| {
            let config = lanes[end].config();
            let node = experiment.node_name(settings.ends[end].node);
            Line::of_link(&config, seed, &settings.name, node)
        });
        Cable { link, lanes, lines }
    }

    /// The link's place among all.
    pub fn link(&self) -> usize {
        self.link
    }

    /// Begins to move frames between the two ports. Each end has a clock. `least` is the shortest latency of the experiment.
    pub fn start(
        self,
        ports: [Box<dyn Port>; 2],
        clocks: [ExperimentClock; 2],
        least: Option<SimDuration>,
    ) -> RunningCable {
        let Cable { link, lanes, lines: [there, back] } = self;
        let [near, far] = ports;
        let mut relay = Relay::new((near, there), (far, back));
        let harmless = harmless(least);
        [0, 1].into_iter().for_each(|end| relay.line(end).set_harmless(harmless));
        let most_slack = harmless.div(SLACK_OF_HARMLESS);
        RunningCable { link, lanes, relay, clocks, errors: 0, seen: Late::default(), most_slack }
    }
}

impl RunningCable {
    /// The descriptor of port 0 or 1, which is readable when frames have come.
    pub fn fd(&mut self, at: usize) -> BorrowedFd<'_> {
        self.relay.port(at).fd()
    }

    /// The real time by which frames may be late so that they leave together with others.
    pub fn slack(&mut self) -> Duration {
        let slack = self.slack_of_clock();
        self.clocks[0].span(slack)
    }

    /// The same in the experiment's time.
    fn slack_of_clock(&mut self) -> SimDuration {
        let [there, back] = [0, 1].map(|end| self.relay.line(end).least_latency());
        there.min(back).div(SLACK).min(self.most_slack)
    }

    /// Moves what is due. Returns the number of frames, and the next step, which comes after `nap` at the latest. `together` is true if
    /// frames may wait for others.
    pub fn work(&mut self, nap: Duration, together: bool, pressure: &Pressure) -> (usize, Next) {
        let mut nap = nap;
        let clocks: [&dyn Clock; 2] = [&self.clocks[0], &self.clocks[1]];
        // Frames that came before a change go by what was before it, however late their port is looked at.
        let is_due = |(lane, clock): (&Lane, &ExperimentClock)| {
            lane.changes.last().is_some_and(|(at, _)| *at <= clock.time())
        };
        if self.lanes.iter().zip(&self.clocks).any(is_due) {
            self.errors += u64::from(self.relay.work(clocks).is_err());
        }
        for (end, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.changes.is_empty()) {
            let now = self.clocks[end].time();
            lane.apply(now, self.relay.line(end));
            if let Some((at, _)) = lane.changes.last() {
                nap = nap.min(clocks[end].real(at.since(now)));
            }
        }
        match self.relay.work(clocks) {
            Ok(moved) => {
                if moved.frames > 0 {
                    let [there, back] = [0, 1].map(|end| self.relay.line(end).late());
                    pressure.grow(&mut self.seen, there.with(back));
                }
                if moved.more {
                    return (moved.frames, Next::More);
                }
                let slack = if together { self.slack_of_clock() } else { SimDuration::ZERO };
                let clocks: [&dyn Clock; 2] = [&self.clocks[0], &self.clocks[1]];
                (moved.frames, Next::Rest(self.relay.rest(clocks, nap, slack)))
            }
            Err(error) if error.is_fatal() => (0, Next::Gone),
            Err(_) => {
                self.errors += 1;
                (0, Next::Pause(PAUSE))
            }
        }
    }

    /// Its counts, in the end.
    pub fn report(mut self) -> CableReport {
        let relay = &mut self.relay;
        let mut lateness = Lateness::default();
        let lanes = [0, 1].map(|end| {
            lateness.merge(relay.line(end).lateness());
            let port = relay.port(end).counters();
            let beyond = relay.port(1 - end).counters();
            LaneReport {
                counters: relay.line(end).counters(),
                missed: port.dropped_kernel
                    + port.dropped_port
                    + relay.refused(end)
                    + if self.errors == 0 { beyond.failed } else { 0 },
            }
        });
        CableReport { link: self.link, lanes, lateness }
    }
}

/// Seconds of processor time of the calling thread.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn lane(experiment: &Experiment, schedule: &Schedule, link: usize, end: usize) -> Lane {
    let settings = &experiment.topology.links[link];
    let (near, far) = (&settings.ends[end], &settings.ends[1 - end]);
    let direction = Direction { link, nodes: (near.node, far.node) };
    let of_path = schedule.network.iter().filter(|(_, change)| {
        !matches!(change, NetChange::Graph(_)) && PathState::default().apply_to_line(direction, change)
    });
    let of_path = of_path.map(|(at, change)| (*at, Change::Path(change.clone())));
    let mut changes: Vec<(SimTime, Change)> = of_path.collect();
    let hosts = experiment.hosts.len();
    let nic = |change: &LinkChange| match change {
        LinkChange::Nic(port, change) if *port == near.port => Some(Change::Nic(change.clone())),
        _ => None,
    };
    match near.node.index().checked_sub(hosts) {
        Some(device) => {
            changes.extend(schedule.devices[device].iter().filter_map(|(at, change)| match change {
                DeviceChange::Link(change) => Some((*at, nic(change)?)),
                DeviceChange::P4(_) => None,
            }));
        }
        None => {
            changes.extend(schedule.hosts[near.node.index()].iter().filter_map(|(at, change)| match change {
                belljar_plan::HostChange::Link(change) => Some((*at, nic(change)?)),
                _ => None,
            }))
        }
    }
    // Changes of one time keep their order when they are taken from the end.
    changes.sort_by_key(|(at, _)| *at);
    changes.reverse();
    let max_frame = settings.mtu + HEADER_LEN;
    Lane { direction, settings: near.line.clone(), max_frame, state: PathState::default(), changes }
}

impl Lane {
    /// Makes the changes that are due.
    fn apply(&mut self, now: SimTime, line: &mut Line) {
        while let Some((at, _)) = self.changes.last()
            && *at <= now
            && let Some((_, change)) = self.changes.pop()
        {
            match change {
                Change::Nic(change) => line.change_nic(now, &change),
                Change::Path(change) => {
                    self.state.apply_to_line(self.direction, &change);
                    line.set_blocked(now, self.path().is_none());
                    line.change_path(now, &self.config());
                }
            }
        }
    }

    fn path(&self) -> Option<Path> {
        let line = &self.settings;
        let least_latency = line.latency.saturating_sub(line.jitter);
        let usual = Path { latency: line.latency, jitter: line.jitter, loss: 0.0, least_latency };
        self.state.path(Some(usual)).ok()
    }

    /// The line in its present state.
    fn config(&self) -> LineConfig {
        let (line, change) = (&self.settings, self.state.line());
        let path = self.path();
        let loss: Loss = change.loss.unwrap_or(line.loss);
        LineConfig {
            latency: path.map_or(line.latency, |path| path.latency),
            jitter: path.map_or(line.jitter, |path| path.jitter),
            loss,
            reordering: change.reordering.unwrap_or(line.reordering),
            duplication: change.duplication.unwrap_or(line.duplication),
            corruption: change.corruption.unwrap_or(line.corruption),
            rate: line.rate,
            overhead: line.overhead,
            queue: line.queue.clone(),
            token_bucket: line.token_bucket,
            max_frame: self.max_frame,
            ..LineConfig::default()
        }
    }
}
