//! One host's Linux, in ordinary safe Rust.
//!
//! Nothing in here knows where the guest's code runs, which worker runs the host or what lies
//! beyond its interfaces. The kernel never blocks, never locks and never reads a real clock.
#![forbid(unsafe_code)]

pub mod machine;
