//! Memory that processes share, and sleeping on words of it.
#![warn(missing_docs)]

pub mod futex;
mod memory;

pub use memory::SharedMemory;
