//! One host's Linux, in ordinary safe Rust.
//!
//! Bottom-up: [`machine`] is what runs guest code below the kernel. [`thread`] and [`process`] are
//! what is run; `run` is the loop that resumes threads, `scheduler` decides whose turn it is, exits become
//! [`call`]s, and those that block stand in [`wait`] queues; [`clock`] and [`timer`] are its time. `mm` keeps mappings,
//! `exec` starts programs, `signal` interrupts them, `files` and `net` are what calls work on, and
//! `debug` serves debuggers outside, `trace` is guests that trace others, and
//! `syscall` is the table of calls with one thin handler each.
//!
//! Nothing in here knows where the guest's code runs, which worker runs the host or what lies
//! beyond its interfaces. The kernel never blocks, never locks and never reads a real clock.
#![forbid(unsafe_code)]

mod answers;
pub mod call;
pub use belljar_netstack::clock;
pub use belljar_objects::credentials;
mod debug;
mod events;
mod exec;
mod files;
mod footprint;
mod futex;
mod guest;
pub mod host;
pub use belljar_objects::ids;
use belljar_tasks::outcome;
pub use belljar_tasks::process;
use belljar_tasks::rights;
pub use belljar_tasks::thread;
mod ipc;
mod mm;
mod models;
mod net;
mod network;
mod power;
mod reaper;
mod run;
mod scheduler;
mod signal;
pub mod spin;
mod strace;
pub mod syscall;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timer;
mod trace;
mod uring;
pub mod wait;
mod wall_clock;
mod watched;

pub use debug::{DebugProcess, DebugResume, DebugStop, DebugThread};
pub use files::virtual_files::tunable;
pub use host::{Host, HostConfig, Output, ProcessReport, ProcessSpec};
pub use process::WaitStatus;
