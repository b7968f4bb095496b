//! The host's own layer: native paths in it, copying files up into it, and the native descriptor
//! that an inode holds while it is open.

use super::lookup::{ROOT, join};
use super::{Content, Node, Store};
use crate::host::Host;
use crate::ids::InodeKey;
use crate::machine::{NativeFile, OpenHow};
use belljar_linux_abi::Errno;
use std::path::{Path, PathBuf};

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;
/// Native modes in the own layer: the guest's modes live in the inodes, and the results must stay
/// readable whatever a guest does to its files.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

impl Host {
    /// The native path of a file in the own layer; `None` if it has no name any more.
    pub(crate) fn own_path(&self, key: InodeKey) -> Option<PathBuf> {
        if let Node::Directory(dir) = &self.files.inodes[key.0].node
            && let Some(root) = &dir.own_root
        {
            return Some(root.clone());
        }
        let (parent, name) = self.files.inodes[key.0].links.first()?;
        self.own_path_in(*parent, name)
    }
    /// The native path of `name` in a directory of the own layer.
    pub(crate) fn own_path_in(&self, directory: InodeKey, name: &[u8]) -> Option<PathBuf> {
        Some(join(&self.own_path(directory)?, name))
    }
    /// Makes a directory exist natively in the own layer, and gives its path.
    pub(crate) fn ensure_own(&mut self, directory: InodeKey) -> Result<PathBuf, Errno> {
        let path = self.own_path(directory).ok_or(Errno::ENOENT)?;
        if self.directory(directory).own {
            return Ok(path);
        }
        if directory != ROOT {
            let parent = self.directory(directory).parent;
            self.ensure_own(parent)?;
        }
        match self.machine.create_dir(&path, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.directory(directory).own = true;
        Ok(path)
    }
    /// Creates an empty native file for the new name `name` in the own layer; it stays open.
    pub(crate) fn create_own_file(&mut self, directory: InodeKey, name: &[u8]) -> Result<Content, Errno> {
        let path = join(&self.ensure_own(directory)?, name);
        let native = self.create_native(&path)?;
        Ok(Content { store: Store::Own, size: 0, native: Some(native) })
    }
    fn create_native(&mut self, path: &Path) -> Result<NativeFile, Errno> {
        let how = OpenHow { write: true, create: Some(FILE_MODE), exclusive: false, truncate: true };
        self.machine.open(path, how)
    }

    /// The native descriptor of a regular file, opened if it is not open.
    pub(crate) fn native_of(&mut self, key: InodeKey) -> Result<NativeFile, Errno> {
        let content = self.inode(key).content().ok_or(Errno::EINVAL)?;
        if let Some(native) = content.native {
            return Ok(native);
        }
        let native = match content.store.clone() {
            Store::Lower(path) => self.machine.open(&path, OpenHow::default())?,
            Store::Own => {
                let path = self.own_path(key).ok_or(Errno::ENOENT)?;
                self.machine.open(&path, OpenHow { write: true, ..OpenHow::default() })?
            }
            Store::Unnamed => return Err(Errno::EIO),
        };
        if let Some(content) = self.inode(key).content_mut() {
            content.native = Some(native);
        }
        Ok(native)
    }
    /// Closes an inode's native descriptor.
    pub(crate) fn close_native(&mut self, key: InodeKey) {
        if let Some(native) = self.inode(key).content_mut().and_then(|content| content.native.take()) {
            self.machine.close(native);
        }
    }

    /// Makes a regular file one of the own layer, so that it can be written: copies the first
    /// `keep` bytes of the machine's.
    pub(crate) fn copy_up(&mut self, key: InodeKey, keep: u64) -> Result<(), Errno> {
        let inode = self.inode(key);
        let Some(content) = inode.content() else { return Ok(()) };
        if !matches!(content.store, Store::Lower(_)) {
            return Ok(());
        }
        let size = content.size.min(keep);
        let links = inode.links.clone();
        let lower = self.native_of(key)?;
        let (store, upper) = match links.first() {
            Some((directory, name)) => {
                let path = join(&self.ensure_own(*directory)?, name);
                (Store::Own, self.create_native(&path)?)
            }
            None => (Store::Unnamed, self.machine.shared_memory(0)?),
        };
        let copied = self.copy_bytes(lower, upper, size);
        self.machine.close(lower);
        if let Some(content) = self.inode(key).content_mut() {
            *content = Content { store, size, native: Some(upper) };
        }
        copied?;
        let identity = self.inode(key).identity();
        self.remap_file(identity, upper)?;
        for (directory, name) in links.iter().skip(1) {
            self.link_own(key, *directory, name)?;
        }
        if self.inode(key).opens == 0 {
            self.close_native(key);
        }
        Ok(())
    }
    pub(crate) fn copy_bytes(&mut self, from: NativeFile, to: NativeFile, size: u64) -> Result<(), Errno> {
        let mut buffer = vec![0; CHUNK.min(size as usize)];
        let mut at = 0;
        while at < size {
            let part = buffer.len().min((size - at) as usize);
            let read = self.machine.read_at(from, at, &mut buffer[..part])?;
            if read == 0 {
                break;
            }
            self.machine.write_at(to, at, &buffer[..read])?;
            at += read as u64;
        }
        Ok(())
    }
    /// A second native name for a file of the own layer.
    pub(crate) fn link_own(&mut self, key: InodeKey, directory: InodeKey, name: &[u8]) -> Result<(), Errno> {
        if self.inode(key).content().is_some_and(|content| content.store == Store::Own) {
            let existing = self.own_path(key).ok_or(Errno::ENOENT)?;
            let path = join(&self.ensure_own(directory)?, name);
            self.machine.create_link(&existing, &path)?;
        }
        Ok(())
    }
    /// Whether a file has a native counterpart in the own layer that must go with its name.
    pub(crate) fn has_own_name(&self, key: InodeKey) -> bool {
        match &self.files.inodes[key.0].node {
            Node::Regular(content) => content.store == Store::Own,
            Node::Directory(dir) => dir.own,
            Node::Symlink { own, .. } => *own,
            _ => false,
        }
    }
}
