//! Native paths and the entries that they stand for.

use super::{EXCHANGE, KEPT, LAYER, Nothing, Observer, UNNAMED};
use crate::{InodeId, Operation, Slot};
use belljar_linux_abi::c;
use belljar_machine::HostFiles;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name endings of the simulator's own files in a host's folder.
const OUTPUT: [&str; 5] = ["stdout", "stderr", "strace", "pcap", "mtree"];

/// What a native path stands for.
#[derive(Debug)]
pub enum Found {
    /// Known inode.
    Inode(InodeId),
    /// Entry that is not known.
    Free(Slot),
    /// Nameless file that is not known.
    Unnamed,
    /// File of the simulator, or outside the host's folder.
    Untracked,
}

impl Observer {
    pub(super) fn new_inode(&mut self) -> InodeId {
        self.last_inode += 1;
        InodeId(self.last_inode)
    }
    /// Inode or entry of a native path. Directories on the way that are not known are on disk. `None` if a part of
    /// the path is no directory.
    pub fn find(&mut self, files: &mut dyn HostFiles, path: &Path) -> Option<Found> {
        let Ok(inside) = path.strip_prefix(&self.folder) else { return Some(Found::Untracked) };
        let parts: Vec<&[u8]> = inside.components().map(|part| part.as_os_str().as_bytes()).collect();
        let (name, directories) = match parts.split_last() {
            None => return Some(Found::Inode(InodeId(0))),
            Some((name, directories)) => (*name, directories),
        };
        let is_output = |name: &[u8]| {
            Path::new(OsStr::from_bytes(name))
                .extension()
                .is_some_and(|kind| OUTPUT.iter().any(|known| kind == *known))
        };
        match directories {
            [] if is_output(name) => return Some(Found::Untracked),
            [layer, unnamed, ..] if *layer == LAYER.as_bytes() && *unnamed == UNNAMED.as_bytes() => {
                let known = self.unnamed.get(path).copied();
                return Some(known.map_or(Found::Unnamed, Found::Inode));
            }
            [layer]
                if *layer == LAYER.as_bytes() && [UNNAMED, KEPT].iter().any(|own| own.as_bytes() == name) =>
            {
                return Some(Found::Untracked);
            }
            _ => {}
        }
        let mut at = InodeId(0);
        for part in directories {
            let slot: Slot = (at, (*part).into());
            at = match self.disk.lookup(&slot) {
                Some(inode) => inode,
                None => {
                    let inode = self.new_inode();
                    self.disk.declare(slot, inode, true, 0);
                    self.directories.insert(inode, ());
                    inode
                }
            };
        }
        let slot: Slot = (at, name.into());
        if let Some(inode) = self.disk.lookup(&slot) {
            return Some(Found::Inode(inode));
        }
        // A file that was there before is declared when it is first seen.
        let Ok(stat) = files.stat(path) else { return Some(Found::Free(slot)) };
        let is_directory = stat.mode & c::S_IFMT == c::S_IFDIR;
        let other = (stat.dev, stat.ino);
        let inode = match self.linked.get(&other).copied().filter(|_| stat.nlink > 1 && !is_directory) {
            Some(known) => known,
            None => self.new_inode(),
        };
        if stat.nlink > 1 && !is_directory {
            self.linked.insert(other, inode);
        }
        match stat.mode & c::S_IFMT {
            c::S_IFDIR => drop(self.directories.insert(inode, ())),
            c::S_IFLNK => drop(self.symlinks.insert(inode, files.read_link(path).ok()?)),
            _ => {}
        }
        self.disk.declare(slot, inode, is_directory, stat.size);
        Some(Found::Inode(inode))
    }
    /// Entry of a native path in the tracked part of the host's folder, whether it exists or not.
    fn entry(&mut self, files: &mut dyn HostFiles, path: &Path) -> Option<(Slot, Option<InodeId>)> {
        let (parent, name) = (path.parent()?, path.file_name()?.as_bytes());
        match self.find(files, path)? {
            Found::Free(slot) => Some((slot, None)),
            Found::Inode(inode) if !self.is_unnamed(path) => match self.find(files, parent)? {
                Found::Inode(directory) => Some(((directory, name.into()), Some(inode))),
                _ => None,
            },
            _ => None,
        }
    }
    fn is_unnamed(&self, path: &Path) -> bool {
        path.starts_with(self.folder.join(LAYER).join(UNNAMED))
    }
    /// Native path of an inode: by its first entry, or in the folder of nameless files.
    pub(super) fn path_of(&self, inode: InodeId) -> Option<PathBuf> {
        if inode == InodeId(0) {
            return Some(self.folder.clone());
        }
        if let Some((path, _)) = self.unnamed.iter().find(|(_, known)| **known == inode) {
            return Some(path.clone());
        }
        let (slot, _) = self.disk.entries().find(|(_, named)| *named == inode)?;
        Some(self.path_of(slot.0)?.join(OsStr::from_bytes(&slot.1)))
    }

    /// Entry that a native path is about to get; `None` if it exists or is not tracked.
    pub fn free_entry(&mut self, files: &mut dyn HostFiles, path: &Path) -> Option<Slot> {
        match self.find(files, path)? {
            Found::Free(slot) => Some(slot),
            _ => None,
        }
    }
    /// A directory was created natively.
    pub fn created_directory(&mut self, slot: Slot) {
        let inode = self.new_inode();
        self.directories.insert(inode, ());
        self.disk.apply(Operation::Create { slot, inode, is_directory: true }, &mut Nothing);
    }
    /// A symbolic link was created natively.
    pub fn created_symlink(&mut self, slot: Slot, target: &[u8]) {
        let inode = self.new_inode();
        self.symlinks.insert(inode, target.into());
        self.disk.apply(Operation::Create { slot, inode, is_directory: false }, &mut Nothing);
    }
    /// A native path was on disk before, with its present content: the kernel copied it from the machine.
    pub(super) fn existing(&mut self, files: &mut dyn HostFiles, path: &Path) {
        if let Some((slot, Some(_))) = self.entry(files, path) {
            self.disk.settle(&slot);
        }
    }
    /// A native hard link was created.
    pub fn linked(&mut self, files: &mut dyn HostFiles, existing: &Path, slot: Slot) {
        if let Some(Found::Inode(inode)) = self.find(files, existing) {
            self.disk.apply(Operation::Link { slot, inode }, &mut Nothing);
        }
    }
    /// Entry that a native path has; `None` if it has none or is not tracked.
    pub fn known_entry(&mut self, files: &mut dyn HostFiles, path: &Path) -> Option<Slot> {
        let (slot, inode) = self.entry(files, path)?;
        inode.map(|_| slot)
    }
    /// A native file is about to be removed. Returns the path to which it is to be moved instead, if a crash may
    /// bring it back.
    pub fn removing(&mut self, files: &mut dyn HostFiles, path: &Path) -> Option<PathBuf> {
        if self.is_unnamed(path) {
            let inode = self.unnamed.remove(path)?;
            return self.keep(files, inode);
        }
        let (slot, inode) = self.entry(files, path)?;
        let inode = inode?;
        if std::mem::take(&mut self.is_replacing) {
            // It stays in the log until the rename; another name keeps the content.
            return if self.disk.links(inode) == 1 { self.kept(files, inode) } else { None };
        }
        self.disk.apply(Operation::Unlink { slot }, &mut Nothing);
        self.keep(files, inode)
    }
    /// Path to which a file without names is moved; `None` if it has names or is not needed.
    fn keep(&mut self, files: &mut dyn HostFiles, inode: InodeId) -> Option<PathBuf> {
        if self.disk.links(inode) > 0 || !self.disk.gone(&mut [inode].into_iter()).is_empty() {
            return None;
        }
        self.kept(files, inode)
    }
    fn kept(&mut self, files: &mut dyn HostFiles, inode: InodeId) -> Option<PathBuf> {
        if self.symlinks.contains_key(&inode) {
            return None;
        }
        let path = self.kept_path(inode);
        let folder = path.parent()?;
        // A host whose programs wrote to their working directory only has no layer of its own yet.
        for directory in [folder.parent()?, folder] {
            let _ = files.create_dir(directory, 0o755);
        }
        self.kept.insert(inode, ());
        Some(path)
    }
    /// A native directory was removed.
    pub fn removed_directory(&mut self, slot: Slot) {
        // What a rename replaces stays in the log until then.
        if !std::mem::take(&mut self.is_replacing) {
            self.disk.apply(Operation::Unlink { slot }, &mut Nothing);
        }
    }

    /// A native file is about to be renamed.
    pub fn renaming(&mut self, files: &mut dyn HostFiles, from: &Path, to: &Path) {
        match (self.is_unnamed(from), self.is_unnamed(to)) {
            (true, true) => {}
            (true, false) => {
                let (Some(inode), Some((slot, _))) = (self.unnamed.remove(from), self.entry(files, to))
                else {
                    return;
                };
                self.disk.apply(Operation::Link { slot, inode }, &mut Nothing);
            }
            (false, true) => {
                let Some((slot, Some(inode))) = self.entry(files, from) else { return };
                self.unnamed.insert(to.into(), inode);
                if !std::mem::take(&mut self.is_replacing) {
                    self.disk.apply(Operation::Unlink { slot }, &mut Nothing);
                }
            }
            (false, false) => self.renaming_entry(files, from, to),
        }
    }
    fn renaming_entry(&mut self, files: &mut dyn HostFiles, from: &Path, to: &Path) {
        let is_aside = |path: &Path| path.file_name().is_some_and(|name| name == EXCHANGE);
        if is_aside(to) {
            self.exchanged = self.entry(files, from).map(|(slot, _)| [slot.clone(), slot]);
            return;
        }
        if let Some([one, _]) = self.exchanged.take() {
            let Some((slot, _)) = self.entry(files, if is_aside(from) { to } else { from }) else { return };
            match is_aside(from) {
                true => self.disk.apply(Operation::Exchange { slots: [one, slot] }, &mut Nothing),
                false => self.exchanged = Some([one, slot]),
            }
            return;
        }
        self.is_replacing = false;
        let (Some((from, Some(_))), Some((to, _))) = (self.entry(files, from), self.entry(files, to)) else {
            return;
        };
        self.disk.apply(Operation::Rename { from, to }, &mut Nothing);
    }
}
