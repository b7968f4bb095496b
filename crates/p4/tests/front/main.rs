//! The P4_16 compiler: programs of our own, and the conformance suite where it is.

mod conformance;
mod messages;
mod robustness;
