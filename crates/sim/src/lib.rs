//! Puts a world together from an experiment, runs it and collects the results.
//!
//! `fabric` is the graph between hosts, `cable` a direction of a link, `routing` what the nodes of links know
//! of each other, `device` what else is at the ends of links (switches, routers), `plan` says which of them a worker runs together, `node` is
//! one host as the engine sees it, `world` builds them all, `run` runs them, `outcome` judges how the
//! processes ended; `cells` are several processes that run one world together. `debug` lets gdb come to
//! the processes of hosts.
#![forbid(unsafe_code)]

mod cable;
mod captures;
mod cells;
mod debug;
mod device;
mod fabric;
mod faults;
mod flows;
mod manifest;
mod message;
mod metrics;
mod node;
mod outcome;
mod output;
mod plan;
mod routing;
mod run;
mod schedule;
mod world;

pub use belljar_kernel::{DebugProcess, Output};
pub use cells::Meeting;
pub use debug::{DebugError, DebugHub, Debuggee, ELSEWHERE};
pub use outcome::call_name;
pub use run::{Finished, Part, RunOptions, SimError, conclude, run_part};
