//! Crash states of a host's disk, sans-IO: operations of a file system in, states that a crash may leave out.
//!
//! Problem: a program that forgets an `fsync(2)` works until the power fails at the wrong moment. A simulator whose files
//! keep every write never shows that, and one that loses all of them shows states that no disk leaves.
//!
//! Model: a file system is a map of *entries* (directory and name to inode) and inodes with a size and pages. Every
//! change has a position in one log. A page, an entry and an inode's attributes have a history of versions since they were
//! last on disk. A crash chooses one version of each; the [`Profile`] says which choices are allowed. What is synced
//! loses its history, so memory holds only what a crash could take away.
//!
//! # `Ordered`: ext4 with `data=ordered`, its default
//!
//! 1. Metadata is journalled in order (Documentation/filesystems/ext4/journal.rst): a crash leaves the changes of
//!    entries, truncations and attributes before one position of the log, the *cut*, and none after it.
//! 2. `fsync` of a file or directory that changed since the last commit commits the whole running transaction
//!    (`ext4_fsync_journal` in fs/ext4/fsync.c), so the cut lies behind it. `fdatasync` commits only if the size or the
//!    allocation changed, or the file is new (`i_datasync_tid`).
//! 3. Blocks are allocated when data is written back, not at `write` (delayed allocation,
//!    Documentation/admin-guide/ext4.rst, `delalloc`): a file may be renamed on disk and still be empty there.
//! 4. Data is on disk before the transaction that allocates its blocks commits (`data=ordered`): below a size that is on
//!    disk, a file has the data that it had when it was extended to that size, or newer. Extension is in the order of pages.
//! 5. Overwritten pages are no metadata: each is on disk in any version since the last sync, whatever the cut.
//! 6. `auto_da_alloc` (same document): a rename that replaces a file, and the last `close` of a file that was truncated
//!    to zero, allocate the file's blocks; so once that operation is before the cut, so is the data.
//!
//! Simplifications: the bytes that are appended to a partly filled last page and the size come together, where ext4 may
//! show zeros for a block that was allocated before; a range that is punched or zeroed is data of zeros.
//!
//! # `Any`: POSIX and no more
//!
//! Each page, each file's size, each entry and each inode's attributes is in any version since it was synced,
//! independently of all others. `fsync` of a file says nothing about its entry; `fsync` of a directory says nothing
//! about what its entries refer to. What was synced is not lost, though: a name is not removed on disk
//! before the names that the file got earlier are there (after `rename` there may be both names, not none), directories are
//! renamed in order and as a whole, and a directory is not removed before the entries in it are.
//!
//! # Tearing
//!
//! With [`Tearing`], a page may be part of one version and part of an older one, parted at a sector (or byte). Under
//! `Ordered` only overwritten pages are: new blocks are complete before they belong to the file.
#![forbid(unsafe_code)]

mod any;
mod disk;
mod entries;
mod file;
mod observed;
mod observer;
mod ordered;
mod page;
mod state;
#[cfg(test)]
mod tests;

pub use disk::{Disk, Operation, Sync};
pub use entries::Slot;
pub use observed::Observed;
pub use observer::Observer;
pub use page::{PAGE, SECTOR, Tearing};
pub use state::{FileState, State};

/// Identifier of an inode, chosen by the caller and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InodeId(pub u64);

/// Rules of what may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// ext4 with `data=ordered`.
    Ordered,
    /// Anything that is not synced.
    Any,
}

/// Current contents of files, which the log reads before they change.
pub trait Contents {
    /// Reads the bytes at `offset`; those beyond the end of the file are left as they are.
    fn read(&mut self, inode: InodeId, offset: u64, out: &mut [u8]);
}
