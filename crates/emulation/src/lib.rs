//! Emulation of experiments on the real kernel, by the same plan as in a simulation: namespaces are the
//! hosts, kernel interfaces the links, and components of the network simulator provide what the kernel
//! lacks.
//!
//! Bottom-up:
//!
//! * [`Line`]: one direction of a link, sans-IO: frames and the time in, due frames out.
//! * [`Lateness`]: lateness of scheduled operations.
//! * `relay`: both directions of a link between two ports of real interfaces, driven by a [`Clock`].
//!   `relayed_link` adds the scheduled events of an experiment's link; `pool` has the threads for all
//!   links; `graph` is the graph network.
//! * `netlink`, `nodes`, `network`: namespaces and their interfaces, addresses, routes and rates.
//! * `files`, `init`, `protocol`: root and first process of a host, and the protocol to that process.
//! * [`attach`]: programs that users add to a running host.
//! * `ids`: users and groups without root.
//! * `gateways`: links that end at interfaces of the machine.
//! * `captures`, `resolver`, `advertise`, `p4`: packet captures, name server, router advertisements, P4
//!   switches.
//! * [`stage`], [`world`], `run`, `timeline`: entry into the namespaces, and the run from setup to results.
//! * `dilation`: slower clocks for hosts. `meter`: processor usage of the nodes; `load`: load of the machine by
//!   the network, `senders`: sockets that always have data; `adapt`: adaptation of the
//!   factor; [`quanta`]: scheduling of hosts in turns, which `control` sets up for a run; [`freeze`]:
//!   freezing of the waiting hosts; `wake`: wakeup of threads that wait for a stopped clock.
//! * [`probe`]: facilities of a machine.
//! * [`check`], [`truth`], `outcome`, `account`: limitations of emulations, fidelity of a run, its
//!   statistics and the accounts of its packets.
//!
//! [`Line`] and the relay read no clock: the time is an argument, so that it may be dilated.
#![forbid(unsafe_code)]

mod account;
mod adapt;
mod advertise;
pub mod attach;
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
mod load;
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
mod senders;
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
