//! Instances of `io_uring(7)` as state machines: submission entries and the system calls that they stand for ([`entry`],
//! with arguments of their own in [`futexes`] and [`timeouts`]), the shared memory ([`memory`]), requests that wait
//! ([`instance`]) with what entries named when they were submitted ([`snapshot`]), registered files ([`slots`]), buffers to
//! choose from ([`buffers`]), other registrations ([`registered`]) and arguments of `io_uring_setup(2)` ([`setup`]).
//!
//! Nothing here makes a call or wakes anybody: the kernel does.
#![forbid(unsafe_code)]

pub mod buffers;
pub mod entry;
pub mod futexes;
pub mod instance;
pub mod memory;
pub mod registered;
pub mod setup;
pub mod slots;
pub mod snapshot;
pub mod timeouts;
