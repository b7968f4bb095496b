//! Outgoing links and paths of a node: a [`LinkDirection`] or [`GraphPath`] with the node and interface at its
//! far end.

use crate::fabric::Fabric;
use crate::message::Message;
use belljar_base::{HostId, Map, Seed, SimTime};
use belljar_config::Experiment;
use belljar_net::link::{GraphPath, LinkDirection};
use belljar_net::{DropReason, Packet};
use belljar_plan::{NetChange, link_direction};

/// Path over the graph from one host to another.
pub struct OutboundPath {
    /// Host at the far end.
    pub to: HostId,
    path: GraphPath,
    /// Packets lost, by reason.
    pub drops: Map<DropReason, u64>,
}

impl OutboundPath {
    /// Creates the path from one host to another.
    pub fn new(from: HostId, to: HostId, seed: Seed, fabric: &Fabric) -> OutboundPath {
        let path = GraphPath::new(seed, fabric.name(from), fabric.name(to));
        OutboundPath { to, path, drops: Map::new() }
    }

    /// Sends a packet of host `from` whose last bit departs at `departs`. Returns its arrival time, or
    /// `None` if it is lost, which is counted.
    pub fn carry(
        &mut self,
        fabric: &Fabric,
        from: HostId,
        departs: SimTime,
        loss_free_until: SimTime,
    ) -> Option<SimTime> {
        let to = self.to;
        let change = |change: &NetChange| change.of_path(from, to);
        let usual = |graph| fabric.path(from, to, graph);
        match self.path.carry(departs, loss_free_until, fabric.changes(), change, usual) {
            Ok(at) => Some(at),
            Err(reason) => {
                *self.drops.entry(reason).or_default() += 1;
                None
            }
        }
    }
}

/// Outgoing direction of a link, with the interface at its far end.
pub struct OutboundLink {
    /// Node at the far end.
    pub to: HostId,
    /// Index of the interface at the far end.
    port: usize,
    /// Direction behind the queue.
    pub direction: LinkDirection,
}

impl OutboundLink {
    /// Creates the direction of an experiment's link that begins at end 0 or 1; `changes` are those of the
    /// whole network.
    pub fn new(
        experiment: &Experiment,
        link: usize,
        end: usize,
        changes: &[(SimTime, NetChange)],
    ) -> OutboundLink {
        let far = &experiment.topology.links[link].ends[1 - end];
        OutboundLink {
            to: far.node,
            port: far.port,
            direction: link_direction(experiment, changes, link, end),
        }
    }

    /// Sends a frame whose last bit departs at `departs`; `deliver` is called for each arrival.
    #[inline]
    pub fn carry(
        &mut self,
        departs: SimTime,
        mut packet: Packet,
        mut deliver: impl FnMut(HostId, SimTime, Message),
    ) {
        let Ok(arrival) = self.direction.carry(departs, &mut packet) else { return };
        if arrival.duplicated {
            deliver(self.to, arrival.at, Message { port: Some(self.port), packet: packet.clone() });
        }
        deliver(self.to, arrival.at, Message { port: Some(self.port), packet });
    }
}

#[cfg(test)]
#[path = "outbound_tests.rs"]
mod tests;
