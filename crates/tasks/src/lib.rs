//! Processes and threads of a host's kernel as state: processes ([`process`]) with who may do what to whom ([`rights`]), their
//! [`limits`], [`children`] and [`namespaces`]; threads ([`thread`]), the loops in which they wait ([`spin`]), the run queue and who is next
//! ([`scheduler`]); what a call has come to and is continued from ([`outcome`]), and those who wait, in queues of objects
//! ([`waits`]) and on words of memory ([`futexes`]).
//!
//! Nothing here makes a call, reads guest memory or wakes anybody: the kernel does, by what it finds here.
#![forbid(unsafe_code)]

pub mod children;
pub mod futexes;
pub mod limits;
pub mod namespaces;
pub mod outcome;
pub mod process;
pub mod rights;
pub mod scheduler;
pub mod spin;
pub mod thread;
pub mod waits;
