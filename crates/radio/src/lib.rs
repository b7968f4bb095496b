//! A shared radio channel as a state machine: frames, times and positions in; deliveries, failures and timers out.
//!
//! From the bottom up: [`Track`] says where a station is at a time; [`RandomWaypoint`], [`ns2`] and [`bonnmotion`] make
//! tracks; [`Settings`] says how frames are sent and how far they are heard; [`Medium`] is the channel with the queue and the
//! backoff of every station.
//!
//! Nothing here knows of hosts or files.
#![forbid(unsafe_code)]

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
