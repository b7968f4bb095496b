//! Memory that processes share, and sleeping on words of it.
#![warn(missing_docs)]

pub mod futex;
mod memory;
mod mesh;

pub use memory::SharedMemory;
pub use mesh::Mesh;
