//! Puts a world together from an experiment, runs it and collects the results.
//!
//! `belljar_plan` works out what is to happen; `world` builds the nodes of the engine from that: `node` is a host
//! and the paths from it, `simulated_host` its kernel or its traffic models (configured by `host_config`), `device` whatever else is at the ends of links; `simulators` starts and ends other simulators, `gateways` opens interfaces of this machine. `fabric` is the graph between
//! hosts, `outbound` the outgoing links and paths of a node; `grouping` says which nodes a worker runs together, `run` runs them, `outcome`
//! makes the statistics; `cells` are several processes, on one machine or several, that run one world together. `debug` lets gdb come to the
//! processes of hosts, `live` others look at a run and pause it.
#![forbid(unsafe_code)]

mod captures;
mod cells;
mod debug;
mod device;
mod fabric;
mod flows;
mod gateways;
mod grouping;
mod host_config;
mod live;
mod manifest;
mod message;
mod metrics;
mod node;
mod options;
mod outbound;
mod outcome;
mod output;
mod partition;
mod pci;
mod run;
mod simulated_host;
mod simulators;
mod world;
mod world_node;

pub use belljar_cosim::turns::Places;
pub use belljar_kernel::{DebugProcess, Output};
pub use cells::{CellExchange, Way};
pub use debug::{DebugError, DebugHub, Debuggee, ELSEWHERE};
pub use gateways::RealClock;
pub use live::{Goal, HostView, LinkView, Live, NodeView, Picture, Position, Table, TablesOf};
pub use manifest::{Difference, differences, hashes};
pub use options::RunOptions;
pub use outcome::call_name;
pub use run::{Finished, Part, SimError, conclude, run_part};
pub use simulators::{Outlook, SimulatorOptions, Watched};
