//! The tree of files that a host's programs see, kept as inodes in memory and filled from the
//! machine on first sight.
//!
//! It is a union: below lies the machine's file system, or the one that the host has as its root instead, which is only ever read; above it the
//! host's own layer, the native folder `<directory>/fs`, laid out by the same paths. A regular file
//! is copied up when it is first opened for writing; everything else about it (names, modes, owners,
//! times) lives in the inode alone, so that no change of it touches the machine. A directory keeps
//! the lower directory that it shows even when it is renamed. The host's working directory is passed
//! through: what lies there natively is what programs see.

mod inode;
mod layer;
mod lookup;
mod resolve;
mod seeds;
mod withheld;

pub use inode::{
    Child, Content, Directory, DirectorySource, FormerEntry, Inode, Memfd, Meta, Node, Store, Times,
};
pub use lookup::ROOT;
pub use resolve::{Found, Place, Step, Target, Walk};
pub use seeds::{DEV, DISK, MEMORY, NAMESPACE, PROC, PTS, RUN, SHM, SYS, new_tree};
