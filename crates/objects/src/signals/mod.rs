//! Signals: pending signals and dispositions, signal frames, and the timers that send signals.

pub mod frame;
mod state;
mod timers;

pub use state::*;
pub use timers::*;
