//! Assembly and execution of simulations: builds the nodes of an experiment, runs them and collects the
//! results.
//!
//! `belljar_plan` derives the plan of a run, from which `world` builds the engine's nodes:
//!
//! - Hosts: `node` is a host with its paths, `simulated_host` its kernel or traffic models, configured by
//!   `host_config`.
//! - Other nodes: `device` has the devices on links; `simulators` starts and ends external simulators,
//!   `gateways` opens interfaces of the machine.
//! - Network: `fabric` is the graph between hosts, `outbound` the outgoing links and paths of a node.
//! - Execution: `grouping` forms the groups that workers run, `run` runs them; `cells` connects the
//!   processes, on one or several machines, that run a simulation together.
//! - Results: `outcome` compiles the statistics, `accounts` the accounts of packets, `times` the times of writes.
//! - Intervention: `attach` adds programs of users to hosts.
//! - Observation: `debug` lets gdb attach to processes of hosts, `live` shows and pauses a run.
#![forbid(unsafe_code)]

mod accounts;
mod attach;
mod captures;
mod cells;
mod debug;
mod device;
mod fabric;
mod flows;
mod gateways;
mod grouping;
mod host_config;
mod judged;
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
mod sdk;
mod shares;
mod simulated_host;
mod simulators;
mod times;
mod world;
mod world_node;

pub use attach::{AttachError, AttachHub, AttachedProgram, Course, Frame, host_names};
pub use belljar_cosim::turns::Places;
pub use belljar_kernel::{DebugProcess, Output, Winsize};
pub use cells::{CellExchange, Way};
pub use debug::{DebugError, DebugHub, Debuggee, ELSEWHERE};
pub use gateways::RealClock;
pub use live::{Goal, HostView, LinkView, Live, NodeView, Picture, Position, Table, TablesOf};
pub use manifest::{Difference, differences, hashes};
pub use options::RunOptions;
pub use outcome::call_name;
pub use run::{Finished, Part, SimError, conclude, run_part};
pub use simulators::{Outlook, SimulatorOptions, Watched};
