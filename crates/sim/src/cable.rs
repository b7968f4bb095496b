//! One direction of a link, kept by the node that sends: what becomes of a frame once its last bit has left,
//! as the link is at that time.

use crate::message::Message;
use belljar_base::{HostId, Map, Seed, SimTime, Stream};
use belljar_config::topology::Line;
use belljar_config::{Experiment, LineChange};
use belljar_net::{DropReason, Flow, FrameImpairment, Impairments, Packet, Path, flip};
use belljar_plan::{Direction, NetChange, PathState};
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
    /// Random stream of the jitter.
    stream: Stream,
    line: Line,
    impairments: Impairments,
    state: PathState,
    blocked: Option<DropReason>,
    /// The changes of this direction, in order.
    changes: Arc<[(SimTime, NetChange)]>,
    seen: usize,
    /// Frames lost on it, by reason.
    pub drops: Map<DropReason, u64>,
    /// Frames on it that were impaired otherwise.
    pub impairment_counts: ImpairmentCounts,
}

/// Counts of impaired frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImpairmentCounts {
    /// Number delayed behind later ones.
    pub reordered: u64,
    /// Number that arrived twice.
    pub duplicated: u64,
    /// Number that arrived with a wrong bit.
    pub corrupted: u64,
}

impl Cable {
    /// A direction of a link of the experiment; `changes` are those of the whole network.
    pub fn new(experiment: &Experiment, link: usize, end: usize, changes: &[(SimTime, NetChange)]) -> Cable {
        let ends = &experiment.topology.links[link].ends;
        let (near, far) = (&ends[end], &ends[1 - end]);
        let direction = Direction { link, nodes: (near.node, far.node) };
        let own = changes.iter().filter(|(_, change)| PathState::default().apply_to_line(direction, change));
        let name = &experiment.topology.links[link].name;
        let usual = path(&near.line);
        let (seed, owner) = (Seed(experiment.general.seed), ["link", name, experiment.node_name(near.node)]);
        let mut impairments = Impairments::new(near.line.loss, seed, owner);
        impair(&mut impairments, &near.line, &LineChange::default());
        Cable {
            to: far.node,
            port: far.port,
            direction,
            usual,
            flow: Flow::new(usual),
            stream: seed.stream(&owner),
            line: near.line.clone(),
            impairments,
            state: PathState::default(),
            blocked: None,
            changes: own.cloned().collect(),
            seen: 0,
            drops: Map::new(),
            impairment_counts: ImpairmentCounts::default(),
        }
    }

    /// Sends a frame whose last bit leaves at `departs`: what arrives where and when goes to `deliver`. Frames
    /// are given in the order in which they leave.
    pub fn carry(
        &mut self,
        departs: SimTime,
        loss_free: bool,
        mut packet: Packet,
        mut deliver: impl FnMut(HostId, SimTime, Message),
    ) {
        let before = self.seen;
        while let Some((at, change)) = self.changes.get(self.seen)
            && *at <= departs
        {
            self.state.apply_to_line(self.direction, change);
            self.seen += 1;
        }
        if self.seen != before {
            match self.state.path(Some(self.usual)) {
                Ok(path) => {
                    self.blocked = None;
                    self.flow.set_path(path);
                }
                Err(reason) => self.blocked = Some(reason),
            }
            impair(&mut self.impairments, &self.line, self.state.line());
        }
        let impairment = if loss_free { FrameImpairment::default() } else { self.impairments.draw() };
        let lost = self.blocked.or(impairment.lost.then_some(DropReason::PathLoss));
        if let Some(reason) = lost {
            *self.drops.entry(reason).or_default() += 1;
            self.flow.pass_over(&mut self.stream);
            return;
        }
        let mut time = self.flow.carry_without_loss(departs, &mut self.stream);
        if let Some(delay) = impairment.reordered {
            time += delay;
            self.impairment_counts.reordered += 1;
        }
        if let Some(number) = impairment.corrupted_bit {
            flip(packet.bytes_mut(), number);
            self.impairment_counts.corrupted += 1;
        }
        let message = |packet| Message { port: Some(self.port), packet };
        if impairment.duplicated {
            self.impairment_counts.duplicated += 1;
            deliver(self.to, time, message(packet.clone()));
        }
        deliver(self.to, time, message(packet));
    }
}

/// Sets what befalls frames to that of the line, with these changes.
fn impair(impairments: &mut Impairments, line: &Line, change: &LineChange) {
    impairments.loss = change.loss.unwrap_or(line.loss);
    impairments.reordering = change.reordering.unwrap_or(line.reordering);
    impairments.duplication = change.duplication.unwrap_or(line.duplication);
    impairments.corruption = change.corruption.unwrap_or(line.corruption);
}

fn path(line: &Line) -> Path {
    let least_latency = line.latency.saturating_sub(line.jitter);
    Path { latency: line.latency, jitter: line.jitter, loss: 0.0, least_latency }
}
