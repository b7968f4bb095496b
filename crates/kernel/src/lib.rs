//! Linux kernel of one host, in safe Rust.
//!
//! Bottom-up: [`machine`] runs guest code below the kernel. [`thread`] and [`process`] are the entities that
//! run; `run` is the loop that resumes threads, and `scheduler` selects the next. Exits become [`call`]s, and
//! blocked calls wait in [`wait`] queues; [`clock`] and [`timer`] are the host's time. `mm` keeps mappings,
//! `exec` starts programs, `signal` interrupts them, `files` and `net` are the objects of calls, `debug`
//! serves debuggers outside, `trace` implements `ptrace(2)`, and `syscall` is the call table with one thin
//! handler each.
//!
//! The kernel does not know where the guest's code runs, which worker runs the host or what lies beyond its
//! interfaces. It never blocks, never locks and never reads a real clock.
#![forbid(unsafe_code)]

mod answers;
pub mod attended;
pub mod call;
pub mod call_faults;
pub use belljar_netstack::clock;
mod config;
pub use belljar_objects::credentials;
mod debug;
mod events;
mod exec;
mod files;
mod footprint;
mod futex;
mod guest;
pub mod host;
mod host_names;
pub use belljar_objects::ids;
pub use belljar_tasks::process;
pub use belljar_tasks::thread;
use belljar_tasks::{outcome, rights};
mod ipc;
pub mod kill;
pub mod memory;
mod mm;
mod models;
mod net;
mod network;
pub mod new_root;
mod power;
mod preemption;
mod reaper;
mod refusals;
mod run;
mod scheduler;
mod signal;
pub mod spin;
mod start;
mod strace;
pub mod suspension;
pub mod syscall;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timer;
mod trace;
pub mod upgrade;
mod uring;
pub mod wait;
mod wall_clock;
mod watched;

pub use belljar_linux_abi::terminal::Winsize;
pub use belljar_linux_net::proc::tunable;
pub use belljar_objects::networks::Networks;
pub use belljar_objects::processors::Processors;
pub use belljar_tasks::debuggers::{DebugResume, DebugStop};
pub use belljar_tasks::priorities::Preemption;
pub use belljar_tasks::strategy::Order;
pub use config::{HostConfig, Output, ProcessSpec};
pub use debug::{DebugProcess, DebugThread};
pub use files::disk_faults;
pub use host::{Host, ProcessReport};
pub use host_names::HostNames;
pub use process::WaitStatus;
