//! Puts a world together from an experiment, runs it and collects the results.
//!
//! `fabric` is the network between hosts, `plan` says which of them a worker runs together, `node` is
//! one host as the engine sees it, `world` builds them all, `run` runs them, `outcome` judges how the
//! processes ended; `cells` are several processes that run one world together. `debug` lets gdb come to
//! the processes of hosts.
#![forbid(unsafe_code)]

mod cells;
mod debug;
mod fabric;
mod faults;
mod flows;
mod manifest;
mod metrics;
mod node;
mod outcome;
mod plan;
mod run;
mod schedule;
mod world;

pub use belljar_kernel::{DebugProcess, Output};
pub use cells::Meeting;
pub use debug::{DebugError, DebugHub, Debuggee, ELSEWHERE};
pub use run::{Finished, Part, RunOptions, SimError, conclude, run, run_part};
