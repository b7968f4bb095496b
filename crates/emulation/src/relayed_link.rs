//! Link of an experiment whose frames pass through this process: two ports, a line in each direction, and
//! the scheduled changes of the queues of the lines. (The lines'
//! [`LinkDirection`](belljar_net::link::LinkDirection)s apply changes of the directions themselves.)

use crate::account;
use crate::adapt::{Late, Pressure};
use crate::clock::ExperimentClock;
use crate::relay::{Relay, Rest};
use crate::truth::harmless;
use crate::{Clock, Lateness, Line, LineCounters};
use belljar_base::{PacketAccount, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_net::NicChange;
use belljar_packetio::Port;
use belljar_plan::{LinkChange, Schedule, link_direction, link_nic};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Pause after an error of a port: an interface that is down may come up again by an event.
const PAUSE: Duration = Duration::from_millis(2);
/// Slack, by which frames may be late to be sent together: this fraction of the link's latency, and at most
/// this fraction of the harmless lateness.
const SLACK: u64 = 40;
const SLACK_OF_HARMLESS: u64 = 4;

/// Scheduled changes of the queue at one end, the next one last.
type NicChanges = Vec<(SimTime, NicChange)>;

/// Link whose frames pass through this process, before its start.
pub struct RelayedLink {
    link: usize,
    /// Lines, by the end where the direction begins.
    lines: [Line; 2],
    changes: [NicChanges; 2],
}

/// Statistics of a direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Counters of the line.
    pub counters: LineCounters,
    /// Frames that the kernel dropped before they reached this process, or for which the far port had no
    /// room.
    pub missed: u64,
    /// Account of the packets between the two ports.
    pub account: PacketAccount,
}

/// Statistics of a link.
pub struct LinkReport {
    /// Index of the link.
    pub link: usize,
    /// Statistics of the directions, by the end where they begin.
    pub directions: [DirectionReport; 2],
    /// Lateness of delivered frames.
    pub lateness: Lateness,
}

/// Link in operation between two ports.
pub struct RunningLink {
    link: usize,
    changes: [NicChanges; 2],
    relay: Relay,
    clocks: [ExperimentClock; 2],
    seen: Late,
    /// Upper bound of the slack.
    most_slack: SimDuration,
}

/// Next step of a link after its due frames have been moved.
pub enum Next {
    /// Serve it again at once: there may be more frames.
    More,
    /// Wait as the relay's rest states.
    Rest(Rest),
    /// Wait for this time, without waiting for the ports.
    Pause(Duration),
    /// Stop serving it: a port has failed for good.
    Gone,
}

impl RelayedLink {
    /// Creates the link of this index, with its changes.
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

    /// Starts the link between two ports, with a clock for each end. `least` is the shortest latency of the
    /// experiment.
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
        RunningLink { link, changes, relay, clocks, seen: Late::default(), most_slack }
    }
}

impl RunningLink {
    /// Descriptor of port 0 or 1, which is readable when frames have arrived.
    pub fn fd(&mut self, at: usize) -> BorrowedFd<'_> {
        self.relay.port(at).fd()
    }

    /// Slack in real time: the lateness allowed to frames so that they are sent together.
    pub fn slack(&mut self) -> Duration {
        let slack = self.slack_of_clock();
        self.clocks[0].span(slack)
    }

    /// Slack in experiment time.
    fn slack_of_clock(&mut self) -> SimDuration {
        let [there, back] = [0, 1].map(|end| self.relay.line(end).least_latency());
        there.min(back).div(SLACK).min(self.most_slack)
    }

    /// Moves the frames that are due. Returns their number and the next step, which follows after `nap` at
    /// the latest. `together` permits the slack.
    pub fn work(&mut self, nap: Duration, together: bool, pressure: &Pressure) -> (usize, Next) {
        let mut nap = nap;
        let clocks: [&dyn Clock; 2] = [&self.clocks[0], &self.clocks[1]];
        // Frames that arrived before a change pass the queue in its earlier state, however late their port
        // is polled.
        let is_due = |(changes, clock): (&NicChanges, &ExperimentClock)| {
            changes.last().is_some_and(|(at, _)| *at <= clock.time())
        };
        if self.changes.iter().zip(&self.clocks).any(is_due) {
            // The error recurs below.
            let _ = self.relay.work(clocks);
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
            Err(_) => (0, Next::Pause(PAUSE)),
        }
    }

    /// Final statistics of the link.
    pub fn report(mut self) -> LinkReport {
        let relay = &mut self.relay;
        let mut lateness = Lateness::default();
        let left = [0, 1].map(|end| relay.port(end).finish());
        let directions = [0, 1].map(|end| {
            lateness.merge(relay.line(end).lateness());
            let ports = [end, 1 - end].map(|end| relay.port(end).counters());
            let counters = relay.line(end).counters();
            let refused = relay.refused(end);
            let missed = ports[0].dropped_kernel + ports[0].dropped_port + refused.full + ports[1].failed
                - ports[1].failed_down;
            let mut account = account::of_ports(ports, [left[end], left[1 - end]], missed);
            account.held += relay.line(end).pending() as u64;
            account::add_line(&mut account, &counters);
            account.drop_for(account::INTERFACE_DOWN, refused.unfit + ports[1].failed_down);
            DirectionReport { counters, missed, account }
        });
        LinkReport { link: self.link, directions, lateness }
    }
}

/// Processor time of the calling thread in seconds.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Scheduled changes of the queue at end 0 or 1 of a link.
fn nic_changes(experiment: &Experiment, schedule: &Schedule, link: usize, end: usize) -> NicChanges {
    let near = &experiment.topology.links[link].ends[end];
    let own = |change: &LinkChange| match change {
        LinkChange::Nic(port, change) if *port == near.port => Some(change.clone()),
        _ => None,
    };
    schedule.of_links(near.node).rev().filter_map(|(at, change)| Some((at, own(change)?))).collect()
}
