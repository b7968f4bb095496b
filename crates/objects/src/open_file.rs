//! Open file descriptions, `open(2)` "Open file descriptions", and descriptor tables.

use crate::file_kind::FileKind;
use crate::file_owner::FileOwner;
use crate::ids::{FileKey, MountKey};
use crate::inode::FormerEntry;
use crate::mounts::BASE;
use belljar_linux_abi::{Errno, c};

/// An open file description, shared by duplicated and inherited descriptors.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// Number of references from descriptors, shared mappings and calls in progress.
    pub references: u32,
    /// Status flags and access mode (`O_RDONLY`, `O_APPEND`, `O_NONBLOCK`, ...).
    pub flags: i32,
    /// File offset.
    pub offset: u64,
    /// The object that the description refers to.
    pub kind: FileKind,
    /// Set for a file opened without a name (`O_TMPFILE`): events on this description are reported under this
    /// entry, not under names that the file was linked to later.
    pub unnamed: Option<FormerEntry>,
    /// Recipient of its I/O signals, `F_SETOWN`.
    pub owner: Option<Box<FileOwner>>,
    /// Set once `splice(2)` has used it: a pipe then no longer supports `RWF_NOWAIT`.
    pub spliced: bool,
    /// True if accesses through this description generate no events (`FMODE_NONOTIFY`): it was opened for a reader of
    /// fanotify.
    pub silent: bool,
    /// True if the call that opened it created the file, `F_CREATED_QUERY`.
    pub created: bool,
    /// Mount through which it was opened; `None` if it was not opened by a path.
    pub mount: Option<MountKey>,
    /// `landlock(7)` rights that the opener lacked.
    pub withheld: u64,
}

impl OpenFile {
    /// Mount through which it was opened; the first mount if it was not opened by a path.
    #[inline]
    pub fn mount_key(&self) -> MountKey {
        self.mount.unwrap_or(BASE)
    }
    /// True if `O_NONBLOCK` is set.
    #[inline]
    pub fn is_nonblocking(&self) -> bool {
        self.flags & c::O_NONBLOCK != 0
    }
    /// True if the access mode permits reading; never with `O_PATH`.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.flags & c::O_PATH == 0 && matches!(self.flags & c::O_ACCMODE, c::O_RDONLY | c::O_RDWR)
    }
    /// True if the access mode permits writing; never with `O_PATH`.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.flags & c::O_PATH == 0 && matches!(self.flags & c::O_ACCMODE, c::O_WRONLY | c::O_RDWR)
    }
}

/// Initial `fs.nr_open`.
pub const MOST_DESCRIPTORS: u64 = 1 << 20;

/// An entry of a descriptor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdEntry {
    /// Open file description.
    pub file: FileKey,
    /// `FD_CLOEXEC`.
    pub close_on_exec: bool,
}

/// Descriptor table of a process, shared by its threads.
#[derive(Clone, Debug, Default)]
pub struct FdTable {
    /// Number of processes that share the table.
    pub users: u32,
    /// Entries by descriptor number.
    pub entries: Vec<Option<FdEntry>>,
}

impl FdTable {
    /// Size of a copy of the table without the entries from `end` on.
    pub fn copied_size(&self, end: usize) -> usize {
        /// Tables grow in steps of this many entries.
        const STEP: usize = 64;
        let last = self.entries[..end.min(self.entries.len())].iter().rposition(Option::is_some);
        last.map_or(0, |last| (last + 1).next_multiple_of(STEP))
    }
    /// Lowest free descriptor not below `from`.
    pub fn lowest_free(&self, from: usize) -> usize {
        let entries = &self.entries;
        (from..entries.len()).find(|fd| entries[*fd].is_none()).unwrap_or(entries.len().max(from))
    }
    /// Sets the entry of a descriptor; returns the former one.
    pub fn replace(&mut self, fd: usize, entry: FdEntry) -> Option<FdEntry> {
        if fd >= self.entries.len() {
            self.entries.resize(fd + 1, None);
        }
        self.entries[fd].replace(entry)
    }
    /// Sets or clears `FD_CLOEXEC`; `EBADF` if the descriptor is not open.
    pub fn set_close_on_exec(&mut self, fd: i32, close_on_exec: bool) -> Result<(), Errno> {
        let fd = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        let entry = self.entries.get_mut(fd).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        entry.close_on_exec = close_on_exec;
        Ok(())
    }
}
