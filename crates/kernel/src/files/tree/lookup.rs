//! Inodes, directory entries, and loading of files from the machine when they are first looked up.

use super::Found;
use crate::files::Files;
use crate::files::virtual_files::is_of_interfaces;
use crate::host::Host;
use crate::ids::{InodeKey, MountKey};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{Machine, NativeStat};
use belljar_objects::devices::Device;
use belljar_objects::inode::{
    Child, Content, Directory, DirectorySource, FormerEntry, Inode, Meta, Node, ROOT, Store, Times, join,
    path_number,
};
use belljar_objects::listing::ListedEntry;
use belljar_objects::mounts::Place;
use smallvec::SmallVec;
use std::path::{Path, PathBuf};

/// Owner of a file of the machine as hosts see it: files of the user who runs the simulator belong to root.
fn shown_owner(stat: &NativeStat) -> (u32, u32) {
    if stat.is_own { (0, 0) } else { (stat.uid, stat.gid) }
}

impl Files {
    /// Absolute path of an inode by its first name; `None` if it has no name.
    pub(crate) fn path_of(&self, key: InodeKey) -> Option<Vec<u8>> {
        self.path_from(None, key)
    }

    /// Absolute path of a location in its mount namespace; `None` for a nameless file or in a detached mount.
    pub(crate) fn path_of_place(&self, (mount, inode): Place) -> Option<Vec<u8>> {
        self.path_from(Some(mount), inode)
    }

    fn path_from(&self, mut mount: Option<MountKey>, key: InodeKey) -> Option<Vec<u8>> {
        let mut parts: SmallVec<[&[u8]; 8]> = SmallVec::new();
        let mut at = key;
        loop {
            if let Some(of) = mount {
                let (of, under) = self.mounts.under(of, at);
                (mount, at) = (Some(of), under);
                let of = self.mounts.get(of);
                if of.root == at && of.at.is_none() {
                    of.namespace?;
                    break;
                }
            }
            match self.inodes[at.0].links.first() {
                Some((parent, name)) => {
                    parts.push(name);
                    at = *parent;
                }
                None if at == ROOT => break,
                // At the root of a file system the path continues at the first mount that shows it.
                None if mount.is_none() => mount = Some(self.mounts.showing(at)?),
                None => return None,
            }
        }
        if parts.is_empty() {
            return Some(b"/".to_vec());
        }
        let mut path = Vec::new();
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        Some(path)
    }

    /// Inode of a key.
    pub(crate) fn inode(&mut self, key: InodeKey) -> &mut Inode {
        &mut self.inodes[key.0]
    }

    /// Directory of an inode. Panics for other types.
    pub(crate) fn directory(&mut self, key: InodeKey) -> &mut Directory {
        match &mut self.inode(key).node {
            Node::Directory(directory) => directory,
            other => unreachable!("not a directory: {other:?}"),
        }
    }

    /// Adds a name to an inode; the name must not exist.
    pub(crate) fn add_name(&mut self, directory: InodeKey, name: &[u8], inode: InodeKey) {
        self.directory(directory).entries.insert(name.into(), Child::Known(inode));
        self.inode(inode).links.push((directory, name.into()));
        if let Node::Directory(moved) = &mut self.inode(inode).node {
            moved.parent = directory;
        }
    }

    /// Removes a name, with a whiteout if the directory's source has it.
    pub(crate) fn remove_name(&mut self, directory: InodeKey, name: &[u8]) -> Option<InodeKey> {
        let dir = self.directory(directory);
        let child = match dir.entries.get(name) {
            Some(Child::Known(inode)) => Some(*inode),
            _ => None,
        };
        match dir.source {
            DirectorySource::Lower(_) => dir.entries.insert(name.into(), Child::Whiteout),
            _ => dir.entries.remove(name),
        };
        if let Some(inode) = child {
            let former = if self.inode(inode).links.len() == 1 { self.path_of(inode) } else { None };
            let entry =
                FormerEntry { directory: (directory, self.inode(directory).number), name: name.into() };
            let inode = self.inode(inode);
            inode.links.retain(|(parent, n)| *parent != directory || &n[..] != name);
            inode.former_path = former.map(Vec::into_boxed_slice);
            inode.former_entry = inode.links.is_empty().then_some(entry);
        }
        child
    }
}

impl Found {
    /// Mode of a new file at a resolved path: without the umask bits, and without the set-group-ID bit if the
    /// group can execute the file and the process is not a member of the group that the file inherits.
    pub(crate) fn mode_of_new(&self, host: &Host, mode: u32) -> u32 {
        let for_group = c::S_ISGID | c::S_IXGRP;
        let (group, _) = host.files.inodes[self.parent.0].meta.inherited(self.owner.1, mode, false);
        let strips = mode & for_group == for_group
            && !host.processes.may_set_group(self.process, (self.owner.0, group));
        let kept = if strips { mode & !c::S_ISGID } else { mode };
        kept & !host.processes[self.process.0].umask & 0o7777
    }
}

impl Files {
    /// Adds another name to a file of the machine that was looked up before.
    fn link_seen(
        &mut self,
        machine: &mut dyn Machine,
        directory: InodeKey,
        name: &[u8],
        known: InodeKey,
    ) -> Result<InodeKey, Errno> {
        self.link_own(machine, known, directory, name)?;
        self.add_name(directory, name, known);
        if let Some((_, unseen)) = &mut self.inode(known).lower_links {
            *unseen = unseen.saturating_sub(1);
        }
        Ok(known)
    }

    /// Node that guests see for a native file. Sockets, FIFOs and devices of the machine have only their
    /// type.
    fn node_of(
        &mut self,
        machine: &mut dyn Machine,
        native: &Path,
        store: Store,
        stat: &NativeStat,
        parent: InodeKey,
    ) -> Result<Node, Errno> {
        let shared = store == Store::Own && self.directory(parent).shared;
        Ok(match stat.mode & c::S_IFMT {
            c::S_IFDIR => {
                let (own, source) = match store {
                    Store::Lower(path) => (false, DirectorySource::Lower(path)),
                    _ => (true, DirectorySource::Own),
                };
                Node::Directory(Directory { parent, source, own, shared, ..Directory::default() })
            }
            c::S_IFLNK => Node::Symlink { target: machine.read_link(native)?, own: store == Store::Own },
            c::S_IFIFO => Node::Fifo,
            c::S_IFSOCK => Node::Socket,
            c::S_IFREG => Node::Regular(Content { shared, ..Content::new(store, stat.size) }),
            _ => Node::Device(Device::Absent(stat.rdev)),
        })
    }
}

impl Host {
    /// Creates a nameless inode on the device of `near`.
    pub(crate) fn new_inode(&mut self, near: InodeKey, node: Node, mode: u32) -> InodeKey {
        let now = self.net.clock.realtime_ns() as i64;
        let device = self.files.inode(near).device;
        let flags = self.files.inode(near).meta.flags.inherited(node.is_directory());
        let meta = Meta { mode: mode & 0o7777, uid: 0, gid: 0, times: Times::all(now), flags };
        self.files.add_inode(device, node, meta)
    }
    /// Creates an inode for a resolved path, not yet linked there; it is owned by the calling process.
    pub(crate) fn new_inode_at(&mut self, found: &Found, node: Node, mode: u32) -> InodeKey {
        let (uid, gid) = found.owner;
        let (gid, mode) = self.files.inode(found.parent).meta.inherited(gid, mode, node.is_directory());
        let key = self.new_inode(found.parent, node, mode);
        let inode = self.files.inode(key);
        (inode.meta.uid, inode.meta.gid) = (uid, gid);
        inode.changed = true;
        key
    }
    /// Frees an inode without a name, open files or mounts.
    pub(crate) fn forget_if_unused(&mut self, key: InodeKey) {
        let inode = self.files.inode(key);
        if inode.is_nameless() && inode.opens == 0 && !self.files.mounts.uses(key) {
            self.forget_watches(key);
            self.files.close_native(&mut *self.machine, key);
            self.remove_unnamed(key);
            let inode = self.files.inodes.remove(key.0);
            if let Some(room) = self.files.mounts.room(inode.device) {
                room.used_files -= 1;
                let charged = inode.content().map_or(0, |content| content.charged);
                room.used_bytes = room.used_bytes.saturating_sub(charged);
            }
            if let Some((identity, _)) = inode.lower_links {
                self.files.lower_links.remove(&identity);
            }
        }
    }

    /// File `name` in a directory; `None` if it does not exist. `ENOTDIR` if `directory` is not a directory.
    pub(crate) fn lookup(&mut self, directory: InodeKey, name: &[u8]) -> Result<Option<InodeKey>, Errno> {
        let Node::Directory(dir) = &self.files.inode(directory).node else { return Err(Errno::ENOTDIR) };
        if dir.shared
            && let Some(Child::Known(inode)) = dir.entries.get(name)
        {
            let inode = *inode;
            if self.refresh(directory, name, inode)? {
                return Ok(Some(inode));
            }
        }
        let Node::Directory(dir) = &self.files.inode(directory).node else { return Err(Errno::ENOTDIR) };
        if let Some(Child::Known(inode)) = dir.entries.get(name) {
            let inode = *inode;
            if self.still_there(inode) {
                return Ok(Some(inode));
            }
            if !is_of_interfaces(&self.files.inode(inode).node) {
                return Ok(None);
            }
            // Another interface may have the name now.
            self.files.remove_name(directory, name);
        }
        let Node::Directory(dir) = &self.files.inode(directory).node else { return Err(Errno::ENOTDIR) };
        let number = match dir.entries.get(name) {
            Some(Child::Known(inode)) => return Ok(Some(*inode)),
            Some(Child::Whiteout) if !dir.shared => return Ok(None),
            Some(Child::Whiteout) => None,
            Some(Child::Listed(number, _)) => Some(*number),
            Some(Child::Lower(path)) => {
                let path = path.clone();
                return self.load(directory, name, path.clone(), Store::Lower(path), None);
            }
            None if dir.complete => return Ok(None),
            None => None,
        };
        let (native, store) = match &dir.source {
            DirectorySource::None => return Ok(None),
            DirectorySource::Lower(path) => {
                let path = join(path, name);
                (path.clone(), Store::Lower(path))
            }
            DirectorySource::Own => {
                let Some(path) = self.files.own_path_in(directory, name) else { return Ok(None) };
                (path, Store::Own)
            }
            _ => return self.lookup_made_up(directory, name),
        };
        self.load(directory, name, native, store, number)
    }

    /// Creates an inode for the native file `name` in a directory; `None` if it does not exist.
    fn load(
        &mut self,
        directory: InodeKey,
        name: &[u8],
        native: PathBuf,
        store: Store,
        number: Option<u64>,
    ) -> Result<Option<InodeKey>, Errno> {
        let stat = match self.machine.stat(&native) {
            Ok(stat) => stat,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            Err(Errno::EACCES) if matches!(store, Store::Lower(_)) => {
                self.withheld_name(&native);
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        };
        let linked =
            matches!(store, Store::Lower(_)) && stat.nlink > 1 && stat.mode & c::S_IFMT == c::S_IFREG;
        if linked && let Some(known) = self.files.lower_links.get(&(stat.dev, stat.ino)).copied() {
            return self.files.link_seen(&mut *self.machine, directory, name, known).map(Some);
        }
        let number = match &store {
            Store::Lower(path) => Some(path_number(&self.files.root, path)),
            _ => number,
        };
        let node = match self.stand_in(&native, &stat) {
            Some(node) => node,
            None => self.files.node_of(&mut *self.machine, &native, store, &stat, directory)?,
        };
        let (uid, gid) = shown_owner(&stat);
        let meta =
            Meta { mode: stat.mode & 0o7777, uid, gid, times: Times::all(stat.mtime_ns), ..Meta::default() };
        let device = self.files.inode(directory).device;
        let inode = self.files.add_inode(device, node, meta);
        if let Some(number) = number {
            self.files.inode(inode).number = number;
        }
        if linked {
            let identity = (stat.dev, stat.ino);
            self.files.inode(inode).lower_links = Some((identity, stat.nlink as u32 - 1));
            self.files.lower_links.insert(identity, inode);
        }
        self.files.add_name(directory, name, inode);
        Ok(Some(inode))
    }

    /// Updates size and times of a shared file from the machine. False if the name now refers to another file
    /// or to none; the old inode is then unlinked.
    fn refresh(&mut self, directory: InodeKey, name: &[u8], key: InodeKey) -> Result<bool, Errno> {
        let Some(path) = self.files.own_path_in(directory, name) else { return Ok(false) };
        let found = match self.machine.stat(&path) {
            Ok(stat) => Some(stat),
            Err(Errno::ENOENT | Errno::ENOTDIR) => None,
            Err(errno) => return Err(errno),
        };
        let inode = self.files.inode(key);
        match found {
            Some(stat) if stat.mode & c::S_IFMT == inode.node.format() => {
                if let Some(content) = inode.content_mut() {
                    content.size = stat.size;
                }
                inode.meta.times.modify = stat.mtime_ns;
                Ok(true)
            }
            // Special files that programs create exist in the tree only.
            None if matches!(inode.node, Node::Socket | Node::Fifo | Node::Device(_)) => Ok(true),
            _ => {
                self.files.remove_name(directory, name);
                self.forget_if_unused(key);
                Ok(false)
            }
        }
    }

    /// All entries of a directory, sorted by name.
    pub(crate) fn list(&mut self, directory: InodeKey) -> Result<Vec<ListedEntry>, Errno> {
        self.complete(directory)?;
        let Node::Directory(dir) = &self.files.inodes[directory.0].node else { return Err(Errno::ENOTDIR) };
        let mut list = Vec::with_capacity(dir.entries.len());
        for (name, child) in &dir.entries {
            let (number, format) = match child {
                Child::Known(key) => {
                    let inode = &self.files.inodes[key.0];
                    if inode.directory().is_some_and(|dir| dir.hidden) || !self.still_there(*key) {
                        continue;
                    }
                    (inode.number, inode.node.format())
                }
                Child::Listed(number, format) => (*number, *format),
                // Exposed files and whiteouts are not listed.
                Child::Lower(_) | Child::Whiteout => continue,
            };
            list.push(ListedEntry { name: name.clone(), number, format });
        }
        Ok(list)
    }

    /// Lists a directory's source once, so that `entries` is complete.
    fn complete(&mut self, directory: InodeKey) -> Result<(), Errno> {
        let Node::Directory(dir) = &self.files.inode(directory).node else { return Err(Errno::ENOTDIR) };
        if dir.complete {
            return Ok(());
        }
        let native = match &dir.source {
            DirectorySource::None => return Ok(()),
            DirectorySource::Lower(path) => path.clone(),
            DirectorySource::Own => self.files.own_path(directory).ok_or(Errno::ENOENT)?,
            _ => return self.complete_made_up(directory),
        };
        let lower = matches!(self.files.directory(directory).source, DirectorySource::Lower(_));
        let listed = match self.machine.read_dir(&native) {
            Err(Errno::EACCES) if lower => {
                self.withheld_directory(&native);
                Vec::new()
            }
            listed => listed?,
        };
        let root = self.files.root.clone();
        for entry in listed {
            if !self.files.directory(directory).entries.contains_key(&entry.name[..]) {
                let number = match &self.files.directory(directory).source {
                    DirectorySource::Lower(path) => path_number(&root, &join(path, &entry.name)),
                    _ => self.files.next_inode_number(),
                };
                let child = Child::Listed(number, entry.kind);
                self.files.directory(directory).entries.insert(entry.name.into(), child);
            }
        }
        // A pass-through directory is never complete: entries may be added outside the tree, such as streams
        // of processes.
        let dir = self.files.directory(directory);
        dir.complete = dir.source != DirectorySource::Own;
        Ok(())
    }

    /// True if a directory has no entries.
    pub(crate) fn is_empty_directory(&mut self, directory: InodeKey) -> Result<bool, Errno> {
        Ok(self.list(directory)?.is_empty())
    }
}
