//! Ports against the real kernel, in network namespaces that each test creates and deletes. Tests that need
//! root or a facility that the machine lacks print this and pass.
#![allow(missing_docs, clippy::disallowed_methods)]

mod errors;
mod fixture;
mod interfaces;
mod lifetime;
mod offloads;
mod options;
mod tap;
mod unix;
