//! Experiments on the real kernel: the same plan that a simulation runs, with namespaces for hosts, kernel interfaces for
//! links, and what the kernel lacks made of the parts that networks are simulated with.
//!
//! Bottom-up:
//!
//! * [`Line`]: one direction of a link, sans-IO: frames and the time in, frames that are due out.
//! * [`Lateness`]: how late things were done that had a time.
//! * `relay`: the two directions of a link between two ports of real interfaces, driven by a [`Clock`]. `relayed_link` is a link of
//!   an experiment on top of it, with what events make of it; `pool` has the threads for all of them; `graph` is the graph network.
//! * `netlink`, `nodes`, `network`: namespaces and their interfaces, addresses, routes and rates.
//! * `files`, `init`, `protocol`: the root of a host, its first process, and what that is told.
//! * `ids`: users and groups without root.
//! * `gateways`: links that end at interfaces of this machine.
//! * `captures`, `resolver`, `advertise`, `p4`: packets into files, the name server, router advertisements, P4 switches.
//! * [`stage`], [`world`], `run`, `timeline`: the way into the namespaces, the run from its first step to its last.
//! * `dilation`: slower clocks for hosts. `meter`: what nodes use of the processors; `adapt`: how slow clocks are to be;
//!   [`quanta`]: who runs when, `control` that for a run; [`freeze`]: the means to stop the others; `wake`: who waits for a clock that stands.
//! * [`probe`]: what a machine offers.
//! * [`check`], [`truth`], `outcome`: what an emulation cannot do, whether it is to be believed, its statistics.
//!
//! [`Line`] and the relay read no clock: the time is an argument, so that it may be dilated.
#![forbid(unsafe_code)]

mod adapt;
mod advertise;
mod captures;
pub mod check;
pub mod clock;
mod control;
mod dilation;
mod error;
mod files;
pub mod freeze;
mod gateways;
mod graph;
mod ids;
pub mod init;
mod line;
mod longest_path;
mod meter;
mod netlink;
mod network;
pub mod nodes;
mod outcome;
pub mod p4;
mod pool;
pub mod probe;
mod protocol;
pub mod quanta;
mod relay;
mod relayed_link;
mod resolver;
mod run;
pub mod stage;
mod timeline;
pub mod truth;
mod wake;
pub mod world;

pub use belljar_base::Lateness;
pub use error::{Error, Result};
pub use line::{Line, LineCounters};
pub use relay::{Clock, go_first, precise_waits};
pub use wake::Waker;
