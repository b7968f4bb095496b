//! Instances of `io_uring(7)` as state machines: submission entries and the system calls that perform them
//! ([`entry`], with the arguments of [`futexes`] and [`timeouts`]), shared memory ([`memory`]), blocked
//! requests ([`instance`]) with snapshots of their arguments ([`snapshot`]), registered files ([`slots`]),
//! provided buffers ([`buffers`]), registered buffers and tags ([`resources`]), other registrations
//! ([`registered`]), queries ([`query`]), arguments of waits ([`waits`]), and arguments of `io_uring_setup(2)` ([`setup`]).
//!
//! The crate neither executes system calls nor wakes waiters: the kernel does.
#![forbid(unsafe_code)]

pub mod buffers;
pub mod entry;
pub mod futexes;
pub mod instance;
pub mod memory;
pub mod query;
pub mod registered;
pub mod resources;
pub mod setup;
pub mod slots;
pub mod snapshot;
pub mod timeouts;
pub mod waits;
