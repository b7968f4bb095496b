//! Guests made of a few instructions, and what the platform makes of them.
#![allow(unsafe_code, missing_docs)]

mod basic;
mod fixture;
mod footprint;
mod loader;
mod process;
mod programs;
mod rewriting;
mod shared;
mod vector;
