//! The file tree that a host's programs see: inodes in memory, loaded from the machine when they are first
//! looked up.
//!
//! It is a union of two layers. The lower one is the machine's file system, or the image that the host has as
//! its root instead, and is only ever read. The upper one is the host's own layer, the native folder
//! `<directory>/fs` with the same paths. A regular file is copied up when it is first opened for writing. All
//! its metadata (names, modes, owners, times) is in the inode, so that changes never touch the machine. A
//! directory keeps its lower directory even when it is renamed. The host's working directory is passed
//! through: programs see its native content.

mod layer;
mod lookup;
mod resolve;
mod seeds;
mod withheld;

pub use resolve::{Found, Step, Target, Walk};
pub use seeds::new_tree;
