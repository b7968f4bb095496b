//! Shared memory between processes: futexes, rings and slots in it, and forking such processes.
#![warn(missing_docs)]

mod fork;
pub mod futex;
mod memory;
mod mesh;
mod slots;

pub use fork::fork;
pub use memory::SharedMemory;
pub use mesh::Mesh;
pub use slots::{Region, SlotRing};
