//! The P4_16 compiler: programs of our own, and the conformance suite where it is.

mod conformance;
mod constructs;
mod equivalence;
mod messages;
mod p4info;
mod robustness;
mod samples;
mod warnings;
