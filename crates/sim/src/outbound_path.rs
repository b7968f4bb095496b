//! Outbound paths: one direction from a node to another, over a link or over the graph, kept by the node that sends. A path
//! decides which packets are lost and when the others arrive, as it is at the time at which their last bits leave.
//!
//! Links and the graph are two [`Medium`]s. Both follow the scheduled changes of the network by one [`PathState`], in
//! [`OutboundPath::follow`]; a medium says which changes concern it, what the path is without them, and what befalls a packet on
//! the way.

use crate::fabric::Fabric;
use crate::message::Message;
use belljar_base::{HostId, Map, Seed, SimTime, Stream};
use belljar_config::topology::Line;
use belljar_config::{Experiment, LineChange};
use belljar_net::{DropReason, Flow, FlowStreams, FrameImpairment, Impairments, Packet, Path, flip};
use belljar_plan::{Direction, NetChange, PathState};
use std::sync::Arc;

/// One direction from a node to another.
pub struct OutboundPath<M> {
    /// The node at the other end.
    pub to: HostId,
    medium: M,
    /// Not there before there is a way.
    flow: Option<Flow>,
    state: PathState,
    /// Number of the medium's changes that the state has in it.
    seen: usize,
    /// True once flow and medium are as the state says.
    followed: bool,
    blocked: Option<DropReason>,
    /// Packets lost on it, by reason.
    pub drops: Map<DropReason, u64>,
}

/// A direction of a link.
pub type Cable = OutboundPath<Link>;

/// The kind of an outbound path.
pub trait Medium {
    /// State that all paths of this kind share, if the path does not keep it.
    type Network;
    /// The changes that are to come, in order.
    fn changes<'a>(&'a self, network: &'a Self::Network) -> &'a [(SimTime, NetChange)];
    /// Takes a change into a path's state; false if it does not concern the path.
    fn apply(&self, state: &mut PathState, to: HostId, change: &NetChange) -> bool;
    /// The path without changes, in a state of the graph; `None` if there is none.
    fn usual(&self, network: &Self::Network, to: HostId, graph: usize) -> Option<Path>;
    /// Takes what else a state has changed.
    fn follow(&mut self, _state: &PathState) {}
    /// Sends a packet: what arrives, and when, goes to `deliver`. Fails with the reason for which it is lost.
    fn transmit(
        &mut self,
        flow: Option<&mut Flow>,
        blocked: Option<DropReason>,
        departs: SimTime,
        loss_free: bool,
        packet: Packet,
        deliver: impl FnMut(SimTime, Message),
    ) -> Result<(), DropReason>;
}

impl<M: Medium> OutboundPath<M> {
    /// Sends a packet whose last bit leaves at `departs`: what arrives where and when goes to `deliver`. Packets are given in the
    /// order in which they leave.
    #[inline]
    pub fn carry(
        &mut self,
        network: &M::Network,
        departs: SimTime,
        loss_free: bool,
        packet: Packet,
        mut deliver: impl FnMut(HostId, SimTime, Message),
    ) {
        self.follow(network, departs);
        let to = self.to;
        let deliver = |time, message| deliver(to, time, message);
        let sent =
            self.medium.transmit(self.flow.as_mut(), self.blocked, departs, loss_free, packet, deliver);
        if let Err(reason) = sent {
            *self.drops.entry(reason).or_default() += 1;
        }
    }

    /// Takes the changes up to a time into account.
    #[inline]
    fn follow(&mut self, network: &M::Network, until: SimTime) {
        let mut changed = !self.followed;
        let changes = self.medium.changes(network);
        while let Some((at, change)) = changes.get(self.seen)
            && *at <= until
        {
            changed |= self.medium.apply(&mut self.state, self.to, change);
            self.seen += 1;
        }
        if !changed {
            return;
        }
        self.followed = true;
        let found = self.state.path(self.medium.usual(network, self.to, self.state.graph));
        self.blocked = found.err();
        match (found, &mut self.flow) {
            (Ok(path), Some(flow)) => flow.set_path(path),
            (Ok(path), flow) => *flow = Some(Flow::new(path)),
            (Err(_), _) => {}
        }
        self.medium.follow(&self.state);
    }
}

/// The graph as a medium: packets between two hosts.
pub struct Graph {
    from: HostId,
    streams: FlowStreams,
}

impl OutboundPath<Graph> {
    /// The path over the graph from one host to another.
    pub fn over_graph(from: HostId, to: HostId, seed: Seed, fabric: &Fabric) -> OutboundPath<Graph> {
        OutboundPath {
            to,
            medium: Graph { from, streams: FlowStreams::new(seed, fabric.name(from), fabric.name(to)) },
            flow: None,
            state: PathState::default(),
            seen: 0,
            followed: false,
            blocked: None,
            drops: Map::new(),
        }
    }
}

impl Medium for Graph {
    type Network = Fabric;

    fn changes<'a>(&'a self, fabric: &'a Fabric) -> &'a [(SimTime, NetChange)] {
        fabric.changes()
    }
    fn apply(&self, state: &mut PathState, to: HostId, change: &NetChange) -> bool {
        state.apply(self.from, to, change)
    }
    fn usual(&self, fabric: &Fabric, to: HostId, graph: usize) -> Option<Path> {
        fabric.path(self.from, to, graph)
    }
    fn transmit(
        &mut self,
        flow: Option<&mut Flow>,
        blocked: Option<DropReason>,
        departs: SimTime,
        loss_free: bool,
        packet: Packet,
        mut deliver: impl FnMut(SimTime, Message),
    ) -> Result<(), DropReason> {
        if let Some(reason) = blocked {
            return Err(reason);
        }
        let flow = flow.ok_or(DropReason::NoRoute)?;
        let time = match loss_free {
            true => flow.carry_without_loss(departs, &mut self.streams.jitter),
            false => flow.carry(departs, &mut self.streams).ok_or(DropReason::PathLoss)?,
        };
        deliver(time, Message { port: None, packet });
        Ok(())
    }
}

/// A link as a medium: frames from one of its ends to the other.
pub struct Link {
    /// The number of the interface at the other end.
    port: usize,
    direction: Direction,
    usual: Path,
    /// Random stream of the jitter.
    stream: Stream,
    line: Line,
    impairments: Impairments,
    /// The changes of this direction.
    changes: Arc<[(SimTime, NetChange)]>,
    counts: ImpairmentCounts,
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
    pub fn over_link(
        experiment: &Experiment,
        link: usize,
        end: usize,
        changes: &[(SimTime, NetChange)],
    ) -> Cable {
        let ends = &experiment.topology.links[link].ends;
        let (near, far) = (&ends[end], &ends[1 - end]);
        let direction = Direction { link, nodes: (near.node, far.node) };
        let own = changes.iter().filter(|(_, change)| PathState::default().apply_to_line(direction, change));
        let name = &experiment.topology.links[link].name;
        let usual = path(&near.line);
        let (seed, owner) = (Seed(experiment.general.seed), ["link", name, experiment.node_name(near.node)]);
        let medium = Link {
            port: far.port,
            direction,
            usual,
            stream: seed.stream(&owner),
            line: near.line.clone(),
            impairments: Impairments::new(near.line.loss, seed, owner),
            changes: own.cloned().collect(),
            counts: ImpairmentCounts::default(),
        };
        OutboundPath {
            to: far.node,
            medium,
            flow: Some(Flow::new(usual)),
            state: PathState::default(),
            seen: 0,
            followed: false,
            blocked: None,
            drops: Map::new(),
        }
    }
    /// Frames on it that were impaired, other than lost.
    pub fn impairment_counts(&self) -> &ImpairmentCounts {
        &self.medium.counts
    }
}

impl Medium for Link {
    type Network = ();

    fn changes<'a>(&'a self, (): &'a ()) -> &'a [(SimTime, NetChange)] {
        &self.changes
    }
    fn apply(&self, state: &mut PathState, _to: HostId, change: &NetChange) -> bool {
        state.apply_to_line(self.direction, change)
    }
    fn usual(&self, (): &(), _to: HostId, _graph: usize) -> Option<Path> {
        Some(self.usual)
    }
    fn follow(&mut self, state: &PathState) {
        impair(&mut self.impairments, &self.line, state.line());
    }
    fn transmit(
        &mut self,
        flow: Option<&mut Flow>,
        blocked: Option<DropReason>,
        departs: SimTime,
        loss_free: bool,
        mut packet: Packet,
        mut deliver: impl FnMut(SimTime, Message),
    ) -> Result<(), DropReason> {
        let flow = flow.expect("a link has a flow from the start");
        let impairment = if loss_free { FrameImpairment::default() } else { self.impairments.draw() };
        let lost = blocked.or(impairment.lost.then_some(DropReason::PathLoss));
        if let Some(reason) = lost {
            flow.pass_over(&mut self.stream);
            return Err(reason);
        }
        let mut time = flow.carry_without_loss(departs, &mut self.stream);
        if let Some(delay) = impairment.reordered {
            time += delay;
            self.counts.reordered += 1;
        }
        if let Some(number) = impairment.corrupted_bit {
            flip(packet.bytes_mut(), number);
            self.counts.corrupted += 1;
        }
        let message = |packet| Message { port: Some(self.port), packet };
        if impairment.duplicated {
            self.counts.duplicated += 1;
            deliver(time, message(packet.clone()));
        }
        deliver(time, message(packet));
        Ok(())
    }
}

/// Sets the impairments of frames to those of the line, with these changes.
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
