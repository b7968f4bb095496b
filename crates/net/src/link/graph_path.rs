//! Path over the graph from one host to another.

use super::{CurrentPath, DirectionChange};
use crate::{DropReason, FlowStreams, Path};
use belljar_base::{Seed, SimTime};

/// Path over the graph from one host to another, with its scheduled changes and random streams.
///
/// All paths of an experiment share one list of changes, which is therefore passed with each packet.
#[derive(Clone, Debug)]
pub struct GraphPath {
    current: CurrentPath,
    streams: FlowStreams,
}

impl GraphPath {
    /// Creates the path from host `from` to host `to`, whose names identify its random streams.
    pub fn new(seed: Seed, from: &str, to: &str) -> GraphPath {
        GraphPath { current: CurrentPath::default(), streams: FlowStreams::new(seed, from, to) }
    }

    /// Sends a packet whose last bit departs at `departs`. Returns its arrival time, or the reason for
    /// which it is lost. Packets must be in the order of departure. A packet that departs before
    /// `loss_free_until` is not subject to the path's loss.
    ///
    /// `changes`, `change` and `usual` are as in [`CurrentPath::follow`].
    #[inline]
    pub fn carry<C>(
        &mut self,
        departs: SimTime,
        loss_free_until: SimTime,
        changes: &[(SimTime, C)],
        change: impl Fn(&C) -> Option<DirectionChange>,
        usual: impl FnOnce(usize) -> Option<Path>,
    ) -> Result<SimTime, DropReason> {
        self.current.follow(changes, departs, change, usual);
        if let Some(reason) = self.current.blocked() {
            return Err(reason);
        }
        let flow = self.current.flow().ok_or(DropReason::NoRoute)?;
        match departs < loss_free_until {
            true => Ok(flow.carry_without_loss(departs, &mut self.streams.jitter)),
            false => flow.carry(departs, &mut self.streams).ok_or(DropReason::PacketLoss),
        }
    }
}
