//! Observer of a host's native files: it feeds the log with what the kernel does to them, and after a crash brings
//! them to the drawn state.
//!
//! A host's files are native files below its folder: those in its working directory, and its own layer in `fs`. The
//! kernel calls [`HostFiles`] by native paths and descriptors; [`Observed`](crate::Observed) passes these calls through and tells
//! the observer. Removed files are moved to a folder of *kept* files for as long as a crash may bring them back, so
//! their contents take no memory. Programs' writes to shared mappings are not calls: a file that is mapped for writing has a copy in
//! memory, which is compared when the file is synced and at the crash.

mod crash;
mod losses;
mod names;
mod read_only;
mod sidecar;
#[cfg(test)]
mod tests;

use crate::{Contents, Disk, InodeId, Operation, PAGE, Profile, Slot, Sync, Tearing};
use belljar_base::{Map, SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_machine::{DiskEvent, HostFiles, NativeFile, OpenHow, Prot, SpaceId};
use losses::Loss;
pub use names::Found;
use read_only::ReadOnly;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Folder of the own layer in the host's folder.
const LAYER: &str = "fs";
/// Folder of nameless files in the own layer.
const UNNAMED: &str = ".unnamed";
/// Folder of removed files that a crash may bring back, in the own layer.
const KEPT: &str = ".kept";
/// Name by which the kernel exchanges two entries.
const EXCHANGE: &str = ".belljar-exchange";
/// Bytes of mapped files that are copied.
const MOST_MAPPED: u64 = 256 << 20;
/// Bytes that are compared or copied at a time.
const CHUNK: usize = 1 << 20;

/// State of the observer of one host.
#[derive(Debug)]
pub struct Observer {
    /// Folder of the host.
    folder: PathBuf,
    disk: Disk,
    last_inode: u64,
    /// Inodes of native descriptors.
    open: Map<i32, InodeId>,
    /// Targets of symbolic links.
    symlinks: Map<InodeId, Vec<u8>>,
    /// Files with several names that were there before, by device and inode number.
    linked: Map<(u64, u64), InodeId>,
    /// Inodes that are directories.
    directories: Map<InodeId, ()>,
    /// Nameless files by number.
    unnamed: Map<PathBuf, InodeId>,
    /// Removed files that are kept.
    kept: Map<InodeId, ()>,
    /// Files that programs have mapped for shared writing.
    mapped: Map<InodeId, Mapped>,
    /// Shared mappings that may only be read.
    read_only: ReadOnly,
    /// True if the next removal of a name is part of a rename.
    is_replacing: bool,
    /// Entries whose exchange is under way.
    exchanged: Option<[Slot; 2]>,
    /// Files that are too large to be compared.
    unwatched: Vec<PathBuf>,
    draw: Stream,
    losses: Vec<(SimTime, Vec<Loss>)>,
}

/// File with shared mappings.
#[derive(Debug)]
struct Mapped {
    file: NativeFile,
    copy: Vec<u8>,
}

/// Contents of native files, or of the copies of mapped ones.
struct Native<'a> {
    files: &'a mut dyn HostFiles,
    file: NativeFile,
    copy: Option<&'a [u8]>,
}

impl Contents for Native<'_> {
    fn read(&mut self, _: InodeId, offset: u64, out: &mut [u8]) {
        match self.copy {
            Some(copy) => {
                let rest = copy.get(offset as usize..).unwrap_or_default();
                let len = rest.len().min(out.len());
                out[..len].copy_from_slice(&rest[..len]);
            }
            // A file that cannot be read is zeros in the log; its write fails as well.
            None => drop(self.files.read_at(self.file, offset, out)),
        }
    }
}

/// Contents for operations that need none.
struct Nothing;

impl Contents for Nothing {
    fn read(&mut self, _: InodeId, _: u64, _: &mut [u8]) {}
}

impl Observer {
    /// Observer of the host whose folder this is.
    pub fn new(folder: PathBuf, profile: Profile, draw: Stream) -> Observer {
        Observer {
            folder,
            disk: Disk::new(profile),
            last_inode: 0,
            open: Map::new(),
            symlinks: Map::new(),
            linked: Map::new(),
            directories: Map::new(),
            unnamed: Map::new(),
            kept: Map::new(),
            mapped: Map::new(),
            read_only: ReadOnly::default(),
            is_replacing: false,
            exchanged: None,
            unwatched: Vec::new(),
            draw,
            losses: Vec::new(),
        }
    }
    fn kept_path(&self, inode: InodeId) -> PathBuf {
        self.folder.join(LAYER).join(KEPT).join(inode.0.to_string())
    }

    /// A native file was opened, whose path stood for this before.
    pub fn opened(&mut self, found: Found, path: &Path, how: OpenHow, file: NativeFile) {
        let inode = match found {
            Found::Inode(inode) => {
                if how.truncate {
                    self.disk.apply(Operation::Resize { inode, size: 0 }, &mut Nothing);
                }
                inode
            }
            Found::Free(slot) => {
                let inode = self.new_inode();
                self.disk.apply(Operation::Create { slot, inode, is_directory: false }, &mut Nothing);
                inode
            }
            Found::Unnamed => {
                let inode = self.new_inode();
                self.unnamed.insert(path.into(), inode);
                inode
            }
            Found::Untracked => return,
        };
        self.open.insert(file.0, inode);
    }
    /// A native file was closed.
    pub fn closed(&mut self, file: NativeFile) {
        self.open.remove(&file.0);
    }

    /// Bytes of a native file are about to be written.
    pub fn writing(&mut self, files: &mut dyn HostFiles, file: NativeFile, offset: u64, data: &[u8]) {
        self.change(files, file, |inode| Operation::Write { inode, offset, data });
        if let Some(mapped) = self.open.get(&file.0).and_then(|inode| self.mapped.get_mut(inode)) {
            let end = offset as usize + data.len();
            mapped.copy.resize(mapped.copy.len().max(end), 0);
            mapped.copy[offset as usize..end].copy_from_slice(data);
        }
    }
    /// Bytes of a native file are about to be zeroed.
    pub fn zeroing(&mut self, files: &mut dyn HostFiles, file: NativeFile, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let part = (end - at).min(CHUNK as u64);
            self.writing(files, file, at, &vec![0; part as usize]);
            at += part;
        }
    }
    /// The size of a native file is about to change.
    pub fn resizing(&mut self, files: &mut dyn HostFiles, file: NativeFile, size: u64) {
        self.change(files, file, |inode| Operation::Resize { inode, size });
        if let Some(mapped) = self.open.get(&file.0).and_then(|inode| self.mapped.get_mut(inode)) {
            mapped.copy.resize(size as usize, 0);
        }
    }
    fn change<'a>(
        &mut self,
        files: &mut dyn HostFiles,
        file: NativeFile,
        operation: impl FnOnce(InodeId) -> Operation<'a>,
    ) {
        let Some(inode) = self.open.get(&file.0).copied() else { return };
        let copy = self.mapped.get(&inode).map(|mapped| &mapped.copy[..]);
        self.disk.apply(operation(inode), &mut Native { files, file, copy });
    }

    /// Something is mapped in a range of an address space: a native file with its writes shared, if one is given.
    pub fn mapping(
        &mut self,
        files: &mut dyn HostFiles,
        (space, range): (SpaceId, Range<u64>),
        prot: Prot,
        file: Option<NativeFile>,
    ) {
        match file.and_then(|file| self.open.get(&file.0).copied()) {
            Some(inode) if prot.contains(Prot::WRITE) => {
                self.read_only.remove(space, &range);
                self.watch(files, inode);
            }
            Some(inode) => self.read_only.add(space, range, inode),
            None => self.read_only.remove(space, &range),
        }
    }
    /// A range of an address space is unmapped.
    pub fn unmapping(&mut self, space: SpaceId, range: &Range<u64>) {
        self.read_only.remove(space, range);
    }
    /// What is mapped in a range is moved.
    pub fn relocating(&mut self, space: SpaceId, from: &Range<u64>, to: Range<u64>) {
        self.read_only.relocate(space, from, to);
    }
    /// The protection of a range changes.
    pub fn protecting(&mut self, files: &mut dyn HostFiles, space: SpaceId, range: &Range<u64>, prot: Prot) {
        if prot.contains(Prot::WRITE) {
            for inode in self.read_only.files(space, range) {
                self.watch(files, inode);
            }
        }
    }
    /// An address space was copied.
    pub fn forked(&mut self, space: SpaceId, child: SpaceId) {
        self.read_only.fork(space, child);
    }
    /// An address space has ended.
    pub fn ended(&mut self, space: SpaceId) {
        self.read_only.end(space);
    }
    /// Compares a file with its copy from now on, because programs may write to it without a call.
    fn watch(&mut self, files: &mut dyn HostFiles, inode: InodeId) {
        if self.mapped.contains_key(&inode) {
            return;
        }
        let size = self.disk.size(inode);
        let all: u64 = self.mapped.values().map(|mapped| mapped.copy.len() as u64).sum();
        let Some(path) = self.path_of(inode) else { return };
        let opened = files.open(&path, OpenHow::default());
        match opened {
            Ok(own) if all + size <= MOST_MAPPED => {
                let mut copy = vec![0; size as usize];
                let _ = files.read_at(own, 0, &mut copy);
                self.mapped.insert(inode, Mapped { file: own, copy });
            }
            _ => self.unwatched.push(path),
        }
    }
    /// Adds what programs wrote to a mapping of the file to the log.
    fn compare(&mut self, files: &mut dyn HostFiles, inode: InodeId) {
        let Some(Mapped { file, mut copy }) = self.mapped.remove(&inode) else { return };
        let mut chunk = vec![0; CHUNK.min(copy.len())];
        let mut at = 0;
        while at < copy.len() {
            let part = chunk.len().min(copy.len() - at);
            let read = files.read_at(file, at as u64, &mut chunk[..part]).unwrap_or(0);
            for start in (0..read).step_by(PAGE as usize) {
                let page = &chunk[start..read.min(start + PAGE as usize)];
                let old = at + start..at + start + page.len();
                if copy[old.clone()] != *page {
                    let operation = Operation::Write { inode, offset: old.start as u64, data: page };
                    self.disk.apply(operation, &mut Native { files, file, copy: Some(&copy) });
                    copy[old].copy_from_slice(page);
                }
            }
            at += part;
        }
        self.mapped.insert(inode, Mapped { file, copy });
    }
    fn compare_all(&mut self, files: &mut dyn HostFiles) {
        for inode in self.mapped.keys().copied().collect::<Vec<_>>() {
            self.compare(files, inode);
        }
    }

    /// Something that the kernel reports.
    pub fn event(&mut self, files: &mut dyn HostFiles, event: DiskEvent<'_>) -> Result<(), Errno> {
        match event {
            DiskEvent::Existing(path) => self.existing(files, path),
            DiskEvent::Replacing => self.is_replacing = true,
            DiskEvent::Synced { path, data_only } => self.synced(files, path, data_only),
            DiskEvent::SyncedAll => self.synced_all(files),
            DiskEvent::SyncFailed { path } => {
                if let Some(Found::Inode(inode)) = self.find(files, path) {
                    self.compare(files, inode);
                    self.disk.fail_sync(inode);
                }
            }
            DiskEvent::Rotted { file, offset, byte } => self.rotted(files, file, offset, byte)?,
            DiskEvent::Closed(path) => self.released(files, path),
            DiskEvent::Crash { torn, at, realtime_ns } => {
                let tearing = match (torn, self.disk.profile()) {
                    (false, _) => Tearing::None,
                    (true, Profile::Ordered) => Tearing::Sector,
                    (true, Profile::Any) => Tearing::Byte,
                };
                self.crash(files, tearing, at, realtime_ns)?;
            }
            DiskEvent::Finished => self.finish(files)?,
        }
        Ok(())
    }

    /// A byte on the disk is another one than was written. Pages that are not synced are read from memory, and stay as they are.
    fn rotted(
        &mut self,
        files: &mut dyn HostFiles,
        file: NativeFile,
        offset: u64,
        byte: u8,
    ) -> Result<(), Errno> {
        if let Some(inode) = self.open.get(&file.0).copied() {
            if self.disk.is_changed(inode, offset / PAGE) {
                return Ok(());
            }
            if let Some(copied) =
                self.mapped.get_mut(&inode).and_then(|map| map.copy.get_mut(offset as usize))
            {
                *copied = byte;
            }
        }
        files.write_at(file, offset, &[byte])
    }

    /// A program synced the file or directory at a native path.
    fn synced(&mut self, files: &mut dyn HostFiles, path: &Path, data_only: bool) {
        let Some(Found::Inode(inode)) = self.find(files, path) else { return };
        self.compare(files, inode);
        self.disk.sync(if data_only { Sync::Data(inode) } else { Sync::Inode(inode) });
        self.forget(files);
    }
    /// A program synced everything.
    fn synced_all(&mut self, files: &mut dyn HostFiles) {
        self.compare_all(files);
        self.disk.sync(Sync::All);
        self.forget(files);
    }
    /// A program closed the file at a native path, which it had open for writing.
    fn released(&mut self, files: &mut dyn HostFiles, path: &Path) {
        if let Some(Found::Inode(inode)) = self.find(files, path) {
            self.disk.apply(Operation::Close { inode }, &mut Nothing);
        }
    }
    /// Removes kept files that no crash brings back any more.
    fn forget(&mut self, files: &mut dyn HostFiles) {
        for inode in self.disk.gone(&mut self.kept.keys().copied()) {
            let _ = files.remove_file(&self.kept_path(inode));
            self.kept.remove(&inode);
            self.symlinks.remove(&inode);
        }
        let named: Vec<InodeId> = self.unnamed.values().copied().collect();
        let gone = self.disk.gone(&mut self.mapped.keys().copied().filter(|inode| !named.contains(inode)));
        for inode in gone {
            if let Some(mapped) = self.mapped.remove(&inode) {
                files.close(mapped.file);
            }
        }
    }
    /// Warning about files that were mapped for shared writing and are too large to be compared.
    pub fn warning(&mut self) -> Option<String> {
        let path = self.unwatched.pop()?;
        let path = losses::guest_path(path.strip_prefix(&self.folder).unwrap_or(&path));
        Some(format!(
            "writes through a mapping of {path} that count as synced: the mapped files are larger than 256 MiB"
        ))
    }
    /// Removes the observer's own files at the end, and writes the losses of all crashes to the host's folder.
    fn finish(&mut self, files: &mut dyn HostFiles) -> Result<(), Errno> {
        belljar_machine::trees::remove_tree(files, &self.folder.join(LAYER).join(KEPT));
        let _ = files.remove_dir(&self.folder.join(LAYER));
        losses::write(files, &self.folder, &self.losses)
    }
}
