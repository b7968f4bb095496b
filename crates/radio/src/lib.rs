//! Shared radio channel as a state machine: the inputs are frames, times and positions; the outputs are
//! deliveries, failures and timers.
//!
//! Bottom-up: [`Track`] gives the position of a station over time; [`RandomWaypoint`], [`ns2`] and
//! [`bonnmotion`] create tracks; [`Settings`] defines modulation timing and propagation; [`Medium`] is the
//! channel with the queue and backoff of every station.
//!
//! The crate does not depend on hosts or files.
#![forbid(unsafe_code)]

#[cfg(test)]
mod account_tests;
pub mod bonnmotion;
mod contention;
mod medium;
#[cfg(test)]
mod medium_tests;
pub mod ns2;
mod settings;
mod track;
mod vicinity;
mod waypoint;

pub use contention::StationCounters;
pub use medium::{Medium, Output};
pub use settings::{LogDistance, Propagation, Settings};
pub use track::{Point, Positions, Track, TrackError, Waypoint};
pub use waypoint::RandomWaypoint;
