//! One simulation in several processes: each *cell* runs some of the plan's groups, and all of them open
//! the same windows. Between two windows they meet, hand over what they have sent each other and learn
//! what the next window depends on. Where windows end makes no difference to nodes, so neither does which
//! cell runs them.

use crate::Outgoing;
use belljar_base::SimTime;

/// State that the next window depends on, of one cell or of all that have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellStatus {
    /// The earliest event.
    pub first: SimTime,
    /// Lower bound on the timestamps of future messages to other groups (LBTS).
    pub lbts: SimTime,
    /// Number of groups that have not finished.
    pub unfinished: u64,
    /// When the last of the others did.
    pub last_finish: SimTime,
    /// True if to stop here.
    pub stop: bool,
}

impl CellStatus {
    /// The state of both together.
    pub fn with(self, other: CellStatus) -> CellStatus {
        CellStatus {
            first: self.first.min(other.first),
            lbts: self.lbts.min(other.lbts),
            unfinished: self.unfinished + other.unfinished,
            last_finish: self.last_finish.max(other.last_finish),
            stop: self.stop | other.stop,
        }
    }
}

/// Error: a peer cell exited. Its own message says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeersGone;

/// Exchange of a cell with the others.
pub trait Exchange<M>: Sync {
    /// Takes over `sent`, messages with the cell that gets them at the next exchange. Called by any thread, while what it
    /// has sent is still in its cache.
    fn send(&self, sent: &mut Vec<(u32, Outgoing<M>)>);

    /// Hands over what has been sent, and appends to `received` what the others have for this cell. Returns when all
    /// cells have come, with what holds for all of them. Called by one thread at a time, when nobody sends.
    fn synchronize(&self, mine: CellStatus, received: &mut Vec<Outgoing<M>>)
    -> Result<CellStatus, PeersGone>;
}

/// The part that one cell has in a simulation.
pub struct Cell<'a, M> {
    /// Its number.
    pub me: u32,
    /// The cell of each group of the plan.
    pub of_group: &'a [u32],
    /// Its exchange with the others.
    pub exchange: &'a dyn Exchange<M>,
}

impl<M> Clone for Cell<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Cell<'_, M> {}
