//! State of the processes and threads of a host's kernel.
//!
//! - Processes: [`process`], permission checks between them ([`rights`]), attributes set by files ([`settings`]),
//!   resource [`limits`], waiting for [`children`], [`groups`] and sessions, their [`status`] in `/proc`,
//!   [`namespaces`], process descriptors ([`pidfd`]).
//! - Debuggers outside the simulation: [`debuggers`].
//! - Threads: [`threads`], pending signals ([`pending`]), signal descriptors ([`signalfd`]), busy-wait loops
//!   ([`spin`]), the run queue ([`scheduler`]), [`suspension`] by the experiment.
//! - System calls: results and continuations ([`outcome`]), wait queues ([`waits`]), [`futexes`], deadlines
//!   and clock changes ([`clock_shift`]).
//!
//! The crate makes no calls, accesses no guest memory and wakes no threads; the kernel does so according to
//! this state.
#![forbid(unsafe_code)]

pub mod children;
pub mod clock_shift;
pub mod debuggers;
pub mod futexes;
pub mod groups;
pub mod limits;
pub mod namespaces;
pub mod outcome;
pub mod pending;
pub mod pidfd;
pub mod priorities;
pub mod process;
pub mod rights;
pub mod scheduler;
pub mod settings;
pub mod signalfd;
pub mod spin;
pub mod status;
pub mod strategy;
pub mod suspension;
pub mod thread;
pub mod threads;
pub mod waits;
