//! P4 programs on the v1model switch, sans-IO: packets, ports and times in; packets, digests, notifications and timers
//! out.
//!
//! Nothing in here reads a clock or opens a socket.
#![forbid(unsafe_code)]

mod error;
pub mod json;

pub use error::LoadError;
