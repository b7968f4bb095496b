//! A link of an experiment whose frames pass through this process: two ports, a line in each direction, and the scheduled
//! changes of the queues before the lines. (Those of the directions themselves act in
//! [`LinkDirection`](belljar_net::link::LinkDirection).)

use crate::adapt::{Late, Pressure};
use crate::clock::ExperimentClock;
use crate::relay::{Relay, Rest};
use crate::truth::harmless;
use crate::{Clock, Lateness, Line, LineCounters};
use belljar_base::{SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_net::NicChange;
use belljar_packetio::Port;
use belljar_plan::{DeviceChange, HostChange, LinkChange, Schedule, link_direction, link_nic};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The pause after a port had an error: an interface that is down comes up again when an event says so.
const PAUSE: Duration = Duration::from_millis(2);
/// The share of a link's latency by which frames may be late so that they leave together: one part of so many. No more, either, than one part
/// of so many of the lateness that does no harm.
const SLACK: u64 = 40;
const SLACK_OF_HARMLESS: u64 = 4;

/// Scheduled changes of the queue at one end, the next one last.
type NicChanges = Vec<(SimTime, NicChange)>;

/// A link whose frames pass through this process.
pub struct RelayedLink {
    link: usize,
    /// By the end where the direction begins.
    lines: [Line; 2],
    changes: [NicChanges; 2],
}

/// Counts of a direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Frames by what became of them.
    pub counters: LineCounters,
    /// Frames that the kernel dropped before they came here, or that found no room behind the line.
    pub missed: u64,
}

/// Counts of a link.
pub struct LinkReport {
    /// Index of the link.
    pub link: usize,
    /// By the end where they begin.
    pub directions: [DirectionReport; 2],
    /// Lateness of frames handed out.
    pub lateness: Lateness,
}

/// A link between two ports, which moves frames.
pub struct RunningLink {
    link: usize,
    changes: [NicChanges; 2],
    relay: Relay,
    clocks: [ExperimentClock; 2],
    errors: u64,
    seen: Late,
    /// The longest time by which its frames may be late so that they leave together.
    most_slack: SimDuration,
}

/// Next step of a link that has moved what was due.
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

impl RelayedLink {
    /// The link of this index, with its changes.
    pub fn new(experiment: &Experiment, schedule: &Schedule, link: usize) -> RelayedLink {
        let settings = &experiment.topology.links[link];
        let lines = [0, 1].map(|end| {
            let (node, port) = (settings.ends[end].node, settings.ends[end].port);
            let nic = link_nic(experiment, &experiment.node_interfaces(node)[port]);
            Line::new(&nic, link_direction(experiment, &schedule.network, link, end))
        });
        let changes = [0, 1].map(|end| nic_changes(experiment, schedule, link, end));
        RelayedLink { link, lines, changes }
    }

    /// Index of the link.
    pub fn link(&self) -> usize {
        self.link
    }

    /// Begins to move frames between the two ports. Each end has a clock. `least` is the shortest latency of the experiment.
    pub fn start(
        self,
        ports: [Box<dyn Port>; 2],
        clocks: [ExperimentClock; 2],
        least: Option<SimDuration>,
    ) -> RunningLink {
        let RelayedLink { link, lines: [there, back], changes } = self;
        let [near, far] = ports;
        let mut relay = Relay::new((near, there), (far, back));
        let harmless = harmless(least);
        [0, 1].into_iter().for_each(|end| relay.line(end).set_harmless(harmless));
        let most_slack = harmless.div(SLACK_OF_HARMLESS);
        RunningLink { link, changes, relay, clocks, errors: 0, seen: Late::default(), most_slack }
    }
}

impl RunningLink {
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
        // Frames that came before a change pass the queue as it was then, however late their port is looked at.
        let is_due = |(changes, clock): (&NicChanges, &ExperimentClock)| {
            changes.last().is_some_and(|(at, _)| *at <= clock.time())
        };
        if self.changes.iter().zip(&self.clocks).any(is_due) {
            self.errors += u64::from(self.relay.work(clocks).is_err());
        }
        for (end, changes) in self.changes.iter_mut().enumerate().filter(|(_, changes)| !changes.is_empty()) {
            let now = self.clocks[end].time();
            while let Some((_, change)) = changes.pop_if(|(at, _)| *at <= now) {
                self.relay.line(end).change_nic(now, &change);
            }
            if let Some((at, _)) = changes.last() {
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
    pub fn report(mut self) -> LinkReport {
        let relay = &mut self.relay;
        let mut lateness = Lateness::default();
        let directions = [0, 1].map(|end| {
            lateness.merge(relay.line(end).lateness());
            let port = relay.port(end).counters();
            let beyond = relay.port(1 - end).counters();
            DirectionReport {
                counters: relay.line(end).counters(),
                missed: port.dropped_kernel
                    + port.dropped_port
                    + relay.refused(end)
                    + if self.errors == 0 { beyond.failed } else { 0 },
            }
        });
        LinkReport { link: self.link, directions, lateness }
    }
}

/// Seconds of processor time of the calling thread.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The changes of the queue at end 0 or 1 of a link.
fn nic_changes(experiment: &Experiment, schedule: &Schedule, link: usize, end: usize) -> NicChanges {
    let near = &experiment.topology.links[link].ends[end];
    let own = |change: &LinkChange| match change {
        LinkChange::Nic(port, change) if *port == near.port => Some(change.clone()),
        _ => None,
    };
    let mut changes: NicChanges = match near.node.index().checked_sub(experiment.hosts.len()) {
        Some(device) => {
            let changes = schedule.devices[device].iter().filter_map(|(at, change)| match change {
                DeviceChange::Link(change) => Some((*at, own(change)?)),
                DeviceChange::P4(_) => None,
            });
            changes.collect()
        }
        None => {
            let changes = schedule.hosts[near.node.index()].iter().filter_map(|(at, change)| match change {
                HostChange::Link(change) => Some((*at, own(change)?)),
                _ => None,
            });
            changes.collect()
        }
    };
    // Changes of one time keep their order when they are taken from the end.
    changes.sort_by_key(|(at, _)| *at);
    changes.reverse();
    changes
}
