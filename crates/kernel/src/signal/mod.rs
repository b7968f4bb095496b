//! Signals: what is pending, what is masked, what happens on delivery.

mod delivery;
mod state;

pub use state::{ProcessSignals, ThreadSignals};
