//! Shared memory between processes (futexes, rings, slots), forking of processes that share it, and the
//! sockets through which they connect.
#![warn(missing_docs)]

mod fork;
pub mod futex;
mod inherited;
mod memory;
mod mesh;
mod slots;
mod socket_path;

pub use fork::fork;
pub use inherited::inherited_socket;
pub use memory::SharedMemory;
pub use mesh::Mesh;
pub use slots::{Region, SlotRing};
pub use socket_path::{SOCKET_NAME_MAX, SOCKET_PATH_MAX, is_socket_path, with_socket_path};
