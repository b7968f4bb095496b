//! The host's own layer: native paths in it, copying files up into it, and its nameless files.

use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;
use belljar_machine::{DiskEvent, Machine, NativeFile, OpenHow, trees};
use belljar_objects::inode::{Content, DirectorySource, Node, ROOT, Store, join};
use std::path::{Path, PathBuf};

/// Native modes in the own layer. The guest's modes are kept in the inodes, and the results must remain
/// readable whatever modes a guest sets.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// Folder of nameless files in the own layer.
const UNNAMED: &str = ".unnamed";

impl Files {
    /// Native path of a file in the own layer; `None` if it has no name any more.
    pub(crate) fn own_path(&self, key: InodeKey) -> Option<PathBuf> {
        if let Node::Directory(dir) = &self.inodes[key.0].node
            && let Some(root) = &dir.own_root
        {
            return Some(root.clone());
        }
        let (parent, name) = self.inodes[key.0].links.first()?;
        self.own_path_in(*parent, name)
    }

    /// Native path of `name` in a directory of the own layer.
    pub(crate) fn own_path_in(&self, directory: InodeKey, name: &[u8]) -> Option<PathBuf> {
        Some(join(&self.own_path(directory)?, name))
    }

    /// Creates a directory natively in the own layer, if it does not exist, and returns its path.
    pub(crate) fn ensure_own(
        &mut self,
        machine: &mut dyn Machine,
        directory: InodeKey,
    ) -> Result<PathBuf, Errno> {
        let path = self.own_path(directory).ok_or(Errno::ENOENT)?;
        if self.directory(directory).own {
            return Ok(path);
        }
        if directory != ROOT {
            let parent = self.directory(directory).parent;
            self.ensure_own(machine, parent)?;
        }
        match machine.create_dir(&path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.directory(directory).own = true;
        if self.directory(directory).source != DirectorySource::None {
            machine.disk_event(DiskEvent::Existing(&path))?;
        }
        Ok(path)
    }

    /// Adds a native hard link to a file of the own layer.
    pub(crate) fn link_own(
        &mut self,
        machine: &mut dyn Machine,
        key: InodeKey,
        directory: InodeKey,
        name: &[u8],
    ) -> Result<(), Errno> {
        if self.inodes[key.0].node.has_own_name() {
            let existing = self.own_path(key).ok_or(Errno::ENOENT)?;
            let path = join(&self.ensure_own(machine, directory)?, name);
            machine.create_link(&existing, &path)?;
        }
        Ok(())
    }
}

impl Host {
    /// Folder of nameless files: removed files that are still open, and those of `O_TMPFILE` and
    /// `memfd_create(2)`. It is deleted when the simulation ends.
    fn unnamed_folder(&self) -> PathBuf {
        self.config.directory.join("fs").join(UNNAMED)
    }
    /// Allocates the number and native path of a nameless file, creating the folder if necessary.
    pub(crate) fn new_unnamed(&mut self) -> Result<(u64, PathBuf), Errno> {
        let folder = self.unnamed_folder();
        if self.files.last_unnamed == 0 {
            self.files.ensure_own(&mut *self.machine, ROOT)?;
            match self.machine.create_dir(&folder, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.files.last_unnamed += 1;
        let number = self.files.last_unnamed;
        Ok((number, folder.join(number.to_string())))
    }
    /// Creates an empty nameless native file; the caller owns the descriptor.
    pub(crate) fn create_unnamed(&mut self) -> Result<(Content, NativeFile), Errno> {
        let (number, path) = self.new_unnamed()?;
        let native = self.create_native(&path)?;
        Ok((Content::empty(Store::Unnamed(number)), native))
    }
    /// Moves a file of the own layer that loses its last name while in use to the folder of nameless files.
    pub(crate) fn set_aside(&mut self, key: InodeKey, path: &Path) -> Result<(), Errno> {
        let (number, aside) = self.new_unnamed()?;
        self.machine.rename(path, &aside)?;
        if let Some(content) = self.files.inode(key).content_mut() {
            content.store = Store::Unnamed(number);
        }
        Ok(())
    }
    /// Deletes the native file of a nameless inode that is freed.
    pub(super) fn remove_unnamed(&mut self, key: InodeKey) {
        if let Some(Content { store: Store::Unnamed(number), .. }) = self.files.inodes[key.0].content() {
            let path = self.unnamed_folder().join(number.to_string());
            // A failure is harmless: the whole folder is deleted at the end.
            let _ = self.machine.remove_file(&path);
        }
    }
    /// Deletes all nameless files at the end of the simulation.
    pub(crate) fn remove_all_unnamed(&mut self) {
        if self.files.last_unnamed == 0 {
            return;
        }
        let folder = self.unnamed_folder();
        trees::remove_tree(&mut *self.machine, &folder);
        // Removes the layer too if it is empty.
        let _ = self.machine.remove_dir(&self.config.directory.join("fs"));
    }

    /// Creates an empty native file for the new name `name` in the own layer.
    pub(crate) fn create_own_file(
        &mut self,
        directory: InodeKey,
        name: &[u8],
    ) -> Result<(Content, NativeFile), Errno> {
        let path = join(&self.files.ensure_own(&mut *self.machine, directory)?, name);
        let native = self.create_native(&path)?;
        let shared = self.files.directory(directory).shared;
        Ok((Content { shared, ..Content::empty(Store::Own) }, native))
    }
    fn create_native(&mut self, path: &Path) -> Result<NativeFile, Errno> {
        let how = OpenHow { write: true, create: Some(FILE_MODE), exclusive: false, truncate: true };
        self.open_native(path, how)
    }

    /// Native path of a regular file's content; `None` if it is lost. `ELOOP` for a symbolic link, `EACCES`
    /// for other types.
    pub(crate) fn content_path(&mut self, key: InodeKey) -> Result<Option<PathBuf>, Errno> {
        match &self.files.inode(key).node {
            Node::Regular(Content { store: Store::Lower(path), .. }) => Ok(Some(path.clone())),
            Node::Regular(Content { store: Store::Own, .. }) => Ok(self.files.own_path(key)),
            Node::Regular(Content { store: Store::Unnamed(number), .. }) => {
                let number = number.to_string();
                Ok(Some(self.unnamed_folder().join(number)))
            }
            Node::Symlink { .. } | Node::Magic(_) => Err(Errno::ELOOP),
            _ => Err(Errno::EACCES),
        }
    }

    /// Copies a regular file of the machine to the own layer, so that it can be written: only its first
    /// `keep` bytes.
    pub(crate) fn copy_up(&mut self, key: InodeKey, keep: u64) -> Result<(), Errno> {
        let inode = self.files.inode(key);
        let Some(content) = inode.content() else { return Ok(()) };
        if content.store.is_upper() {
            return Ok(());
        }
        let is_observed = self.machine.is_observed();
        let size = if is_observed { content.size } else { content.size.min(keep) };
        let links = inode.links.clone();
        // An empty or truncated file need not be read.
        let lower = if size > 0 { Some(self.native_of(key)?) } else { None };
        let (store, upper) = match links.first() {
            Some((directory, name)) => {
                let path = join(&self.files.ensure_own(&mut *self.machine, *directory)?, name);
                (Store::Own, self.create_native(&path)?)
            }
            None => {
                let (content, native) = self.create_unnamed()?;
                (content.store, native)
            }
        };
        let copied = lower.map_or(Ok(()), |lower| trees::copy_bytes(&mut *self.machine, lower, upper, size));
        if copied.is_err() {
            // The program sees no change, and a partial copy must not remain.
            self.machine.close(upper);
            if let Some((directory, name)) = links.first()
                && let Some(path) = self.files.own_path_in(*directory, name)
            {
                let _ = self.machine.remove_file(&path);
            }
            return copied;
        }
        self.files.close_native(&mut *self.machine, key);
        if let Some(content) = self.files.inode(key).content_mut() {
            *content = Content::new(store, size);
        }
        self.files.keep_native(&mut *self.machine, key, upper);
        let identity = self.files.inode(key).identity();
        self.remap_file(identity, upper)?;
        for (directory, name) in links.iter().skip(1) {
            self.files.link_own(&mut *self.machine, key, *directory, name)?;
        }
        for (directory, name) in links.iter().filter(|_| is_observed) {
            let path = self.files.own_path_in(*directory, name).ok_or(Errno::ENOENT)?;
            self.machine.disk_event(DiskEvent::Existing(&path))?;
        }
        if self.files.inode(key).opens == 0 {
            self.files.close_native(&mut *self.machine, key);
        }
        Ok(())
    }
}
