//! Experiments on the real kernel: what it lacks, made of the parts that networks are simulated with.
//!
//! * [`Line`]: one direction of a link, sans-IO: frames and the time in, frames that are due out.
//! * [`Lateness`]: how late things were done that had a time.
//! * [`Relay`]: the two directions of a link between two ports of real interfaces, driven by a [`Clock`].
//!
//! Nothing here reads a clock: the time is an argument, so that it may be dilated.
#![forbid(unsafe_code)]

mod lateness;
mod line;
mod relay;

pub use lateness::Lateness;
pub use line::{Line, LineConfig, LineCounters};
pub use relay::{Clock, Relay, precise_waits};
