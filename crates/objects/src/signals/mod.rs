//! Signals: those that are pending and what a process does with each, and the timers that send them.

pub mod frame;
mod state;
mod timers;

pub use state::*;
pub use timers::*;
