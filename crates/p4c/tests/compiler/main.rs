//! Tests of the P4_16 compiler: own programs, and the conformance suite if present.

mod conformance;
mod constructs;
mod equivalence;
mod messages;
mod p4info;
mod refusals;
mod robustness;
mod samples;
mod warnings;
