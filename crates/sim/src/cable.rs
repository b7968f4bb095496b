//! One direction of a link, kept by the node that sends: what becomes of a frame once its last bit has left,
//! as the link is at that time.

use crate::faults::{NetChange, WayState, least_delay};
use belljar_base::{HostId, Map, Seed, SimDuration, SimTime, Stream};
use belljar_config::topology::Line;
use belljar_config::{Experiment, PathChange};
use belljar_net::{DropReason, Flow, Path};
use std::sync::Arc;

/// See the [module](self).
pub struct Cable {
    /// The node at the other end.
    pub to: HostId,
    /// The number of its interface.
    pub port: usize,
    direction: Direction,
    usual: Path,
    flow: Flow,
    stream: Stream,
    state: WayState,
    blocked: Option<DropReason>,
    /// The changes of this direction, in order.
    changes: Arc<[(SimTime, NetChange)]>,
    seen: usize,
    /// What was lost on it.
    pub drops: Map<DropReason, u64>,
}

/// Which direction of which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The link's place among all.
    pub link: usize,
    /// The nodes that it leads from and to.
    pub nodes: (HostId, HostId),
}

impl Cable {
    /// A direction of a link of the experiment; `changes` are those of the whole network.
    pub fn new(experiment: &Experiment, link: usize, end: usize, changes: &[(SimTime, NetChange)]) -> Cable {
        let ends = &experiment.topology.links[link].ends;
        let (near, far) = (&ends[end], &ends[1 - end]);
        let direction = Direction { link, nodes: (near.node, far.node) };
        let own = changes.iter().filter(|(_, change)| WayState::default().apply_to_line(direction, change));
        let name = &experiment.topology.links[link].name;
        let usual = path(&near.line);
        Cable {
            to: far.node,
            port: far.port,
            direction,
            usual,
            flow: Flow::new(usual),
            stream: Seed(experiment.general.seed).stream(&["link", name, experiment.node_name(near.node)]),
            state: WayState::default(),
            blocked: None,
            changes: own.cloned().collect(),
            seen: 0,
            drops: Map::new(),
        }
    }

    /// When a frame arrives whose last bit leaves at `departs`; `None` if it is lost. Frames are given in
    /// the order in which they leave.
    pub fn carry(&mut self, departs: SimTime, loss_free: bool) -> Option<SimTime> {
        let before = self.seen;
        while let Some((at, change)) = self.changes.get(self.seen)
            && *at <= departs
        {
            self.state.apply_to_line(self.direction, change);
            self.seen += 1;
        }
        if self.seen != before {
            match self.state.way(Some(self.usual)) {
                Ok(path) => {
                    self.blocked = None;
                    self.flow.set_path(path);
                }
                Err(reason) => self.blocked = Some(reason),
            }
        }
        let arrival = match self.blocked {
            Some(reason) => Err(reason),
            None if loss_free => Ok(self.flow.carry_without_loss(departs, &mut self.stream)),
            None => self.flow.carry(departs, &mut self.stream).ok_or(DropReason::PathLoss),
        };
        arrival.inspect_err(|reason| *self.drops.entry(*reason).or_default() += 1).ok()
    }
}

fn path(line: &Line) -> Path {
    let least_latency = line.latency.saturating_sub(line.jitter);
    Path { latency: line.latency, jitter: line.jitter, loss: line.loss, least_latency }
}

/// The least time that a frame takes in a direction at any time of the run.
pub fn least_latency(line: &Line, direction: Direction, changes: &[(SimTime, NetChange)]) -> SimDuration {
    let usual = path(line).least_latency;
    let least = changes.iter().filter_map(|(_, change)| match change {
        NetChange::Set(_, new) if WayState::default().apply_to_line(direction, change) => {
            Some(least_delay(&PathChange { rate: None, ..*new }, usual))
        }
        _ => None,
    });
    least.chain([usual]).min().unwrap_or(usual)
}
