//! A crash: native files are brought to the drawn state.

use super::{KEPT, LAYER, Native, Observer, UNNAMED, losses, sidecar};
use crate::{Contents, Disk, FileState, InodeId, PAGE, Slot, Tearing};
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, OpenHow, trees};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries of all known files.
type Names = Map<Slot, InodeId>;

/// Known files before or after the crash, by paths relative to the host's folder.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) paths: Map<PathBuf, InodeId>,
    slots: Map<Slot, PathBuf>,
}

/// Difference of a file's content to the one before the crash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Difference {
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) bytes: u64,
}

impl Tree {
    fn new(names: &Names) -> Tree {
        let mut tree = Tree::default();
        tree.walk(names, InodeId(0), Path::new(""));
        tree
    }
    fn walk(&mut self, names: &Names, directory: InodeId, path: &Path) {
        let first: Slot = (directory, Box::default());
        for (slot, inode) in names.range(first..).take_while(|(slot, _)| slot.0 == directory) {
            let path = path.join(OsStr::from_bytes(&slot.1));
            self.walk(names, *inode, &path);
            self.slots.insert(slot.clone(), path.clone());
            self.paths.insert(path, *inode);
        }
    }
}

impl Observer {
    /// Draws the state that the crash leaves and brings the native files and the sidecar to it. No native file is open.
    /// `realtime_ns` is the time of files that come back.
    pub(super) fn crash(
        &mut self,
        files: &mut dyn HostFiles,
        tearing: Tearing,
        at: SimTime,
        realtime_ns: i64,
    ) -> Result<(), Errno> {
        self.compare_all(files);
        let state = self.disk.crash(tearing, &mut self.draw);
        let live: Names = self.disk.entries().map(|(slot, inode)| (slot.clone(), inode)).collect();
        let mut drawn = live.clone();
        for (slot, inode) in &state.entries {
            match inode {
                Some(inode) => drawn.insert(slot.clone(), *inode),
                None => drawn.remove(slot),
            };
        }
        let (before, after) = (Tree::new(&live), Tree::new(&drawn));
        let locations: Map<InodeId, &PathBuf> =
            before.paths.iter().map(|(path, inode)| (*inode, path)).collect();
        let mut differences = Map::new();
        for (inode, file) in &state.files {
            let path = match locations.get(inode) {
                Some(path) => self.folder.join(path),
                None if self.kept.contains_key(inode) => self.kept_path(*inode),
                None => continue,
            };
            differences.insert(*inode, self.restore(files, &path, *inode, file)?);
        }
        let is_directory = |inode: &InodeId| self.directories.contains_key(inode);
        let losses =
            losses::between(&before, &after, &differences, &is_directory, &|inode| self.disk.size(inode));
        let changed: Vec<Slot> =
            state.entries.keys().filter(|slot| live.get(*slot) != drawn.get(*slot)).cloned().collect();
        self.rearrange(files, &changed, (&before, &live), (&after, &drawn))?;
        sidecar::restore(files, &self.folder, &before, &after, &is_directory, realtime_ns)?;
        self.losses.push((at, losses));
        for own in [KEPT, UNNAMED] {
            trees::remove_tree(files, &self.folder.join(LAYER).join(own));
        }
        self.restart(files);
        Ok(())
    }
    /// Forgets all files: they are declared anew when they are seen.
    fn restart(&mut self, files: &mut dyn HostFiles) {
        for mapped in std::mem::take(&mut self.mapped).into_values() {
            files.close(mapped.file);
        }
        self.disk = Disk::new(self.disk.profile());
        self.open.clear();
        self.symlinks.clear();
        self.linked.clear();
        self.directories.clear();
        self.unnamed.clear();
        self.kept.clear();
        (self.is_replacing, self.exchanged) = (false, None);
    }

    /// Writes a file's drawn content to its native file.
    fn restore(
        &self,
        files: &mut dyn HostFiles,
        path: &Path,
        inode: InodeId,
        state: &FileState,
    ) -> Result<Difference, Errno> {
        let before = self.disk.size(inode);
        let mut difference = Difference { before, after: state.size, bytes: before.abs_diff(state.size) };
        let file = files.open(path, OpenHow { write: true, ..OpenHow::default() })?;
        let mut old = vec![0; PAGE as usize];
        let written = files.set_len(file, state.size).and_then(|()| {
            for (offset, part) in state.parts() {
                old.fill(0);
                Native { files, file, copy: None }.read(inode, offset, &mut old);
                let common = part.len().min(before.saturating_sub(offset) as usize);
                difference.bytes += (0..common).filter(|at| old[*at] != part[*at]).count() as u64;
                files.write_at(file, offset, part)?;
            }
            Ok(())
        });
        files.close(file);
        written.map(|()| difference)
    }

    /// Moves files from the entries before the crash to those after it.
    fn rearrange(
        &self,
        files: &mut dyn HostFiles,
        changed: &[Slot],
        (before, live): (&Tree, &Names),
        (after, drawn): (&Tree, &Names),
    ) -> Result<(), Errno> {
        if changed.is_empty() {
            return Ok(());
        }
        match files.create_dir(&self.folder.join(LAYER), 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        match files.create_dir(&self.folder.join(LAYER).join(KEPT), 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        // What is in a directory leaves it before the directory moves.
        let mut leaving: Vec<(&PathBuf, InodeId)> =
            changed.iter().filter_map(|slot| Some((before.slots.get(slot)?, *live.get(slot)?))).collect();
        leaving.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        let mut kept: Map<InodeId, ()> = self.kept.clone();
        let mut moved: Vec<(PathBuf, PathBuf)> = Vec::new();
        for (path, inode) in leaving {
            let native = self.folder.join(path);
            if self.symlinks.contains_key(&inode) || kept.contains_key(&inode) {
                files.remove_file(&native)?;
                continue;
            }
            let aside = self.kept_path(inode);
            files.rename(&native, &aside)?;
            kept.insert(inode, ());
            moved.push((native, aside));
        }
        let present = |path: &Path| {
            let inside =
                moved.iter().rev().find_map(|(old, new)| Some(new.join(path.strip_prefix(old).ok()?)));
            inside.unwrap_or_else(|| path.to_owned())
        };
        // Parents come before what is in them.
        let mut arriving: Vec<(&PathBuf, InodeId)> =
            changed.iter().filter_map(|slot| Some((after.slots.get(slot)?, *drawn.get(slot)?))).collect();
        arriving
            .sort_by_key(|(path, inode)| (!self.directories.contains_key(inode), path.components().count()));
        for (path, inode) in arriving {
            let native = self.folder.join(path);
            if let Some(target) = self.symlinks.get(&inode) {
                files.create_symlink(target, &native)?;
            } else if self.directories.contains_key(&inode) {
                match kept.contains_key(&inode) {
                    true => files.rename(&self.kept_path(inode), &native)?,
                    false => files.create_dir(&native, 0o755)?,
                }
            } else if kept.contains_key(&inode) {
                files.create_link(&self.kept_path(inode), &native)?;
            } else {
                // It has another name, which did not change but may have moved with its directory.
                let names =
                    || before.paths.iter().filter(|(_, named)| **named == inode).map(|(path, _)| path);
                let all = names().map(|path| present(&self.folder.join(path)));
                let all = all.chain(
                    after
                        .paths
                        .iter()
                        .filter(|(_, named)| **named == inode)
                        .map(|(path, _)| self.folder.join(path)),
                );
                let other = all.into_iter().find(|path| files.stat(path).is_ok()).ok_or(Errno::ENOENT)?;
                files.create_link(&other, &native)?;
            }
        }
        Ok(())
    }
}
