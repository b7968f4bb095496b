//! Memory that processes share, sleeping on words of it, and making such processes.
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
