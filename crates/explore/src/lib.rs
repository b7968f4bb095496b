//! Exploration: many runs of an experiment under drawn faults, the symptoms that they show, and the smallest
//! run that shows a symptom.
//!
//! [`Trial::of_run`] is the run with a number: its seed, and the faults that [`Explored::draw`] gives it. [`Verdict::of`]
//! reads the [symptoms](Symptom) from a run's statistics, [`Tally`] adds runs up, and [`shrink`] removes from a
//! trial whatever its symptom does not need.
//!
//! The crate executes nothing and reads no clock: the same experiment and the same verdicts give the same
//! trials, whatever executes them.
#![forbid(unsafe_code)]

mod choices;
mod faults;
mod shrink;
mod tally;
#[cfg(test)]
mod tests;
mod trial;
mod upgrades;
mod verdict;

pub use choices::ForcedChoice;
pub use faults::{Explored, Fault};
pub use shrink::{Executor, Shrunk, shrink};
pub use tally::{Finding, Tally, failure_bound};
pub use trial::Trial;
pub use verdict::{ForcedCall, Observed, Symptom, Verdict};
