//! Guests of a few instructions, and their exits from the platform.
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
