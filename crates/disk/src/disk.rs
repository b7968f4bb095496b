//! The log: operations in, histories of what is not synced.

use crate::entries::{Entries, Slot};
use crate::file::{Cause, File};
use crate::page::Tearing;
use crate::{Contents, InodeId, Profile, State};
use belljar_base::{Map, Set, Stream};

/// Bytes of memory from which on everything is written back, as Linux does when too many pages are dirty.
const MEMORY: usize = 64 << 20;
/// Estimate of the memory of a changed entry or attribute.
const ENTRY_MEMORY: usize = 256;

/// Operation of a program on the file system. Sizes and contents are those before the operation when it is
/// [applied](Disk::apply).
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// `open(2)` with `O_CREAT`, `mkdir(2)`, `symlink(2)`, `mknod(2)`: a new inode and its entry.
    Create {
        /// New entry.
        slot: Slot,
        /// New inode.
        inode: InodeId,
        /// True for a directory.
        is_directory: bool,
    },
    /// `link(2)`.
    Link {
        /// New entry.
        slot: Slot,
        /// Inode that exists.
        inode: InodeId,
    },
    /// `unlink(2)`, `rmdir(2)`.
    Unlink {
        /// Entry.
        slot: Slot,
    },
    /// `rename(2)`.
    Rename {
        /// Old entry.
        from: Slot,
        /// New entry, which may exist.
        to: Slot,
    },
    /// `renameat2(2)` with `RENAME_EXCHANGE`.
    Exchange {
        /// Entries.
        slots: [Slot; 2],
    },
    /// `write(2)` and others of file data, also of zeros by `fallocate(2)`.
    Write {
        /// File.
        inode: InodeId,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        data: &'a [u8],
    },
    /// `truncate(2)`, or `fallocate(2)` that extends the file.
    Resize {
        /// File.
        inode: InodeId,
        /// New size in bytes.
        size: u64,
    },
    /// `chmod(2)`, `chown(2)`, `setxattr(2)`: the inode's attributes, named by the caller.
    SetAttributes {
        /// Inode.
        inode: InodeId,
        /// Attributes before.
        old: u64,
        /// New attributes.
        new: u64,
    },
    /// Last `close(2)` of a descriptor for writing.
    Close {
        /// File.
        inode: InodeId,
    },
}

/// Operation that makes others durable. `sync_file_range(2)` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// `fsync(2)` of a file or directory, and a write with `O_SYNC`.
    Inode(InodeId),
    /// `fdatasync(2)`, and a write with `O_DSYNC`.
    Data(InodeId),
    /// `sync(2)`, `syncfs(2)`.
    All,
}

/// Disk of one host. After each program's operation [`apply`](Self::apply) or [`sync`](Self::sync) is called; a crash
/// [draws](Self::crash) a state. After a crash the disk is empty again: files have to be declared anew.
#[derive(Clone, Debug)]
pub struct Disk {
    profile: Profile,
    /// Position of the next operation.
    pub(crate) position: u64,
    /// Position before which the journal is committed.
    pub(crate) committed: u64,
    pub(crate) entries: Entries,
    pub(crate) files: Map<InodeId, File>,
    /// Versions of attributes: those on disk at position 0, later ones.
    pub(crate) attributes: Map<InodeId, Vec<(u64, u64)>>,
    /// Positions of closes and renames that flush a file.
    pub(crate) flushes: Vec<u64>,
    /// Files that were truncated to zero since they were closed.
    truncated: Set<InodeId>,
    /// Inodes that changed since the last commit.
    touched: Set<InodeId>,
    /// Inodes of `touched` with changes that `fdatasync` commits.
    touched_data: Set<InodeId>,
    /// Sizes of files that have a size.
    sizes: Map<InodeId, u64>,
    memory: usize,
    limit: usize,
}

impl Disk {
    /// Disk without files. The root directory is the inode `0`.
    pub fn new(profile: Profile) -> Disk {
        Disk {
            profile,
            position: 1,
            committed: 1,
            entries: Entries::default(),
            files: Map::new(),
            attributes: Map::new(),
            flushes: Vec::new(),
            truncated: Set::default(),
            touched: Set::default(),
            touched_data: Set::default(),
            sizes: Map::new(),
            memory: 0,
            limit: MEMORY,
        }
    }
    /// Rules of what may be lost.
    pub fn profile(&self) -> Profile {
        self.profile
    }
    /// Limits the memory of the log to about `bytes` bytes.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }
    /// Declares an entry that is on disk, and the size of its file.
    pub fn declare(&mut self, slot: Slot, inode: InodeId, is_directory: bool, size: u64) {
        self.entries.declare(slot, inode, is_directory);
        if !is_directory {
            self.sizes.insert(inode, size);
        }
    }

    /// Inode of an entry as programs see it; `None` also for an entry that was never declared.
    pub fn lookup(&self, slot: &Slot) -> Option<InodeId> {
        self.entries.get(slot)
    }
    /// Entries as programs see them, as far as they are known.
    pub fn entries(&self) -> impl Iterator<Item = (&Slot, InodeId)> {
        self.entries.iter()
    }
    /// Size of a file as programs see it.
    pub fn size(&self, inode: InodeId) -> u64 {
        self.sizes.get(&inode).copied().unwrap_or(0)
    }
    /// Bytes of memory of the log, about.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Adds an operation to the log. `contents` has the files' contents before it.
    pub fn apply(&mut self, operation: Operation<'_>, contents: &mut dyn Contents) {
        let position = self.position;
        self.position += 1;
        match operation {
            Operation::Create { slot, inode, is_directory } => {
                self.touch_entry(&[&slot], inode);
                self.touched_data.insert(inode);
                self.entries.add(position, &slot, inode, is_directory);
            }
            Operation::Link { slot, inode } => {
                self.touch_entry(&[&slot], inode);
                self.entries.add(position, &slot, inode, false);
            }
            Operation::Unlink { slot } => {
                let Some(inode) = self.entries.get(&slot) else { return };
                self.touch_entry(&[&slot], inode);
                self.entries.remove(position, &slot);
            }
            Operation::Rename { from, to } => self.rename(position, &from, &to),
            Operation::Exchange { slots: [one, other] } => {
                for inode in [self.entries.get(&one), self.entries.get(&other)].into_iter().flatten() {
                    self.touch_entry(&[&one, &other], inode);
                }
                self.entries.exchange(position, [&one, &other]);
                let moved = [&one, &other].into_iter().filter_map(|slot| self.entries.get(slot));
                if moved.into_iter().any(|inode| self.entries.is_directory(inode)) {
                    self.entries.order_move(position, &one, &other);
                }
            }
            Operation::Write { inode, offset, data } => {
                if data.is_empty() {
                    return;
                }
                self.touched.insert(inode);
                let taken = self.file(inode).write(inode, position, offset, data, contents);
                self.memory += taken;
                let size = self.size(inode).max(offset + data.len() as u64);
                self.sizes.insert(inode, size);
            }
            Operation::Resize { inode, size } => {
                self.touched.insert(inode);
                if size == self.size(inode) {
                    return;
                }
                if size == 0 {
                    self.truncated.insert(inode);
                }
                let taken = self.file(inode).resize(inode, position, size, contents);
                self.memory += taken;
                self.sizes.insert(inode, size);
            }
            Operation::SetAttributes { inode, old, new } => {
                self.touched.insert(inode);
                self.memory += ENTRY_MEMORY;
                self.attributes.entry(inode).or_insert_with(|| vec![(0, old)]).push((position, new));
            }
            Operation::Close { inode } => {
                if self.truncated.remove(&inode)
                    && let Some(file) = self.files.get_mut(&inode)
                {
                    file.flush(position);
                    self.flushes.push(position);
                }
            }
        }
        if self.memory > self.limit {
            self.sync(Sync::All);
        }
    }
    fn rename(&mut self, position: u64, from: &Slot, to: &Slot) {
        let Some(inode) = self.entries.get(from).filter(|inode| self.entries.get(to) != Some(*inode)) else {
            return;
        };
        self.touch_entry(&[from, to], inode);
        if self.entries.get(to).is_some()
            && let Some(file) = self.files.get_mut(&inode)
        {
            file.flush(position);
            self.flushes.push(position);
        }
        let is_directory = self.entries.is_directory(inode);
        self.entries.add(position, to, inode, is_directory);
        self.entries.remove(position, from);
        if is_directory {
            self.entries.order_move(position, from, to);
        }
    }
    /// Marks directories and an inode as changed since the last commit.
    fn touch_entry(&mut self, slots: &[&Slot], inode: InodeId) {
        self.memory += ENTRY_MEMORY * slots.len();
        self.touched.insert(inode);
        for (directory, _) in slots {
            self.touched.insert(*directory);
            self.touched_data.insert(*directory);
        }
    }
    fn file(&mut self, inode: InodeId) -> &mut File {
        let size = self.size(inode);
        self.files.entry(inode).or_insert_with(|| File::new(size))
    }

    /// Makes operations durable.
    pub fn sync(&mut self, sync: Sync) {
        let (inode, data_only) = match sync {
            Sync::All => {
                self.commit();
                let all: Vec<InodeId> = self.files.keys().copied().collect();
                all.into_iter().for_each(|inode| self.store(inode));
                self.memory = 0;
                return;
            }
            Sync::Inode(inode) => (inode, false),
            Sync::Data(inode) => (inode, true),
        };
        match self.profile {
            Profile::Any => {
                if !data_only {
                    self.attributes.remove(&inode);
                }
                self.entries.sync_directory(inode, self.position);
            }
            Profile::Ordered => {
                let is_touched = if data_only { &self.touched_data } else { &self.touched }.contains(&inode);
                let is_resized = |file: &File| file.is_resized(self.committed);
                if is_touched || self.files.get(&inode).is_some_and(is_resized) {
                    self.commit();
                }
            }
        }
        self.store(inode);
        for gone in self.entries.gone(&mut self.files.keys().copied()) {
            self.files.remove(&gone);
        }
        let entries = self.entries.changed.len() + self.attributes.len();
        self.memory = self.files.values().map(File::memory).sum::<usize>() + ENTRY_MEMORY * entries;
    }
    /// Stores the changed pages and the size of a file.
    fn store(&mut self, inode: InodeId) {
        let size = self.size(inode);
        if let Some(left) = self.files.remove(&inode).and_then(|file| file.synced(size)) {
            self.files.insert(inode, left);
        }
    }
    /// Lets a sync of a file fail: its pages count as written, and are not on the disk. A page gets there when it is changed and
    /// synced again. Nothing else becomes durable.
    pub fn fail_sync(&mut self, inode: InodeId) {
        if let Some(file) = self.files.get_mut(&inode) {
            file.lose_pages();
        }
    }
    /// True if a page of a file has changes that are not synced.
    pub fn is_changed(&self, inode: InodeId, page: u64) -> bool {
        self.files.get(&inode).is_some_and(|file| file.pages.contains_key(&page))
    }
    /// Commits the journal: all metadata is durable.
    fn commit(&mut self) {
        self.committed = self.position;
        self.entries.sync();
        self.attributes.clear();
        self.touched.clear();
        self.touched_data.clear();
        self.flushes.clear();
    }
    /// Makes an entry, its file's content and attributes durable: they were on disk before the operations that
    /// made them.
    pub fn settle(&mut self, slot: &Slot) {
        self.entries.settle(slot);
        if let Some(inode) = self.entries.get(slot) {
            self.files.remove(&inode);
            self.attributes.remove(&inode);
        }
    }
    /// Number of entries of an inode as programs see them.
    pub fn links(&self, inode: InodeId) -> u64 {
        self.entries.links(inode)
    }
    /// Inodes of `among` that have no name and that no crash brings back. They are forgotten.
    pub fn gone(&mut self, among: &mut dyn Iterator<Item = InodeId>) -> Vec<InodeId> {
        let gone = self.entries.gone(among);
        for inode in &gone {
            self.files.remove(inode);
            self.sizes.remove(inode);
        }
        gone
    }

    /// Draws a state that a crash at this moment may leave.
    pub fn crash(&self, tearing: Tearing, draw: &mut Stream) -> State {
        let mut state = match self.profile {
            Profile::Any => self.crash_any(tearing, draw),
            Profile::Ordered => self.crash_ordered(tearing, draw),
        };
        for (inode, file) in self.files.iter().filter(|(_, file)| !file.unstored.is_empty()) {
            if let Some(drawn) = state.files.get_mut(inode) {
                drawn.pages.extend(file.unstored.iter().map(|(number, page)| (*number, page.clone())));
            }
        }
        state
    }

    /// Positions after which the journal may end: metadata that is not committed.
    pub(crate) fn cuts(&self) -> Vec<u64> {
        let mut cuts = vec![self.committed];
        cuts.extend(self.entries.positions().map(|at| at + 1));
        cuts.extend(self.attributes.values().flat_map(|versions| versions[1..].iter().map(|(at, _)| at + 1)));
        cuts.extend(self.flushes.iter().map(|at| at + 1));
        for file in self.files.values() {
            let resizes = file.sizes.iter().filter(|resize| resize.cause != Cause::Flush);
            cuts.extend(resizes.map(|resize| resize.position + 1));
        }
        cuts.retain(|cut| *cut >= self.committed);
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }
}
