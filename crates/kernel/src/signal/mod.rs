//! Signals: what is pending, what is masked, what happens on delivery.

mod delivery;
mod state;
mod timers;

pub(crate) use state::{IGNORED_BY_DEFAULT, STOPPING, UNBLOCKABLE};
pub use state::{JobControl, Pending, ProcessSignals, ThreadSignals};
pub use timers::ProcessTimers;
