//! Distribution of one simulation over several processes. Each *cell* runs some of the plan's groups, and all
//! cells open the same windows. Between two windows they exchange messages and agree on the state that
//! determines the next window. Window boundaries do not affect nodes, so neither does the assignment of
//! groups to cells.

use crate::Outgoing;
use belljar_base::SimTime;

/// State that determines the next window, of one cell or combined over all cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellStatus {
    /// Earliest event.
    pub first: SimTime,
    /// Lower bound on the timestamps of future messages to other groups (LBTS).
    pub lbts: SimTime,
    /// Number of unfinished groups.
    pub unfinished: u64,
    /// Time at which the last finished group finished.
    pub last_finish: SimTime,
    /// True to stop the run here.
    pub stop: bool,
}

impl CellStatus {
    /// Combines the states of two cells.
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

/// Error: a peer cell exited. The peer reports the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeersGone;

/// Connection of a cell to the others.
pub trait Exchange<M>: Sync {
    /// Takes the messages in `sent`, each with its destination cell, for the next exchange. Called by any
    /// thread, while the messages are still in its cache.
    fn send(&self, sent: &mut Vec<(u32, Outgoing<M>)>);

    /// Exchanges the messages sent, appends those for this cell to `received`, and returns the combined state
    /// once all cells have called. Called by one thread at a time, with no concurrent [`send`](Self::send).
    fn synchronize(&self, mine: CellStatus, received: &mut Vec<Outgoing<M>>)
    -> Result<CellStatus, PeersGone>;
}

/// Role of a cell in a simulation.
pub struct Cell<'a, M> {
    /// Number of the cell.
    pub me: u32,
    /// Cell of each group of the plan.
    pub of_group: &'a [u32],
    /// Connection to the other cells.
    pub exchange: &'a dyn Exchange<M>,
}

impl<M> Clone for Cell<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Cell<'_, M> {}
