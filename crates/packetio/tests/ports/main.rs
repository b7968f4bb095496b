//! Ports against the real kernel, in network namespaces that each test makes and removes. Tests that need root or a
//! facility that the machine lacks say so and pass.
#![allow(missing_docs, clippy::disallowed_methods)]

mod errors;
mod fixture;
mod interfaces;
mod lifetime;
mod offloads;
mod options;
mod tap;
mod unix;
