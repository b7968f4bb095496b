//! Mounts: the places of file systems in a host's tree, `mount_namespaces(7)`.
//!
//! A *file system* is known by the device number of its files. A *mount* shows a directory (or file) of one, its root, in
//! place of a directory of its parent mount, its mount point; so a place in the tree is a mount and an inode. Each mount
//! namespace is a tree of mounts of its own, and a mount is in one of them.
//!
//! The host's first file system is the root of the first namespace. `/proc`, `/dev` and others lie in it as directories
//! of other devices since the host started: they are *seeds*, which can neither be moved nor taken away.

mod file_systems;
mod flags;
pub mod options;
pub mod requests;
pub mod statmount;
pub mod text;

pub use file_systems::{FileSystem, Room};
pub use flags::MountFlags;

use crate::ids::{InodeKey, MountKey};
use belljar_base::{Map, Set};
use belljar_linux_abi::Errno;
use slab::Slab;

/// The answer to what is mounted elsewhere, `MS_SHARED` and its relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Nothing is passed on.
    Private,
    /// What is mounted in a mount is mounted in all of its peer group.
    Shared,
    /// What is mounted in the peer group that it was of is mounted in it.
    Slave,
    /// As private ones; and it cannot be bound.
    Unbindable,
}

/// One mount.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Its number in `mountinfo`.
    pub id: u32,
    /// Its namespace; `None` for one that is in none: not attached yet, or detached.
    pub namespace: Option<u32>,
    /// The mount that it is attached to, and the inode that it hides there. Roots of namespaces have none.
    pub at: Option<(MountKey, InodeKey)>,
    /// What it shows.
    pub root: InodeKey,
    /// The device of its file system.
    pub device: u64,
    /// What was given as its source.
    pub source: Box<[u8]>,
    /// Its flags.
    pub flags: MountFlags,
    /// True if it must not be bound elsewhere, `MS_UNBINDABLE`.
    pub unbindable: bool,
    /// Its peer group, if it is shared: what is mounted in one of the group is mounted in all.
    pub group: Option<u32>,
    /// The peer group whose mounts it gets, if it is a slave.
    pub master: Option<u32>,
    /// Open files in it.
    pub opens: u32,
    /// Open files in it that can be written.
    pub writers: u32,
    /// `MNT_EXPIRE` has found it unused, and nobody has used it since.
    pub expiring: bool,
    /// It came with a copy of a namespace of more rights: it cannot be taken away by itself.
    pub locked: bool,
    /// The flags that it came with so, which cannot be taken from it.
    pub locked_flags: MountFlags,
}

/// Extent of a copy of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyExtent {
    /// The mount alone.
    One,
    /// What is mounted in it too, but for what must not be bound.
    Bindable,
    /// All that is mounted in it, as a new namespace has it: there it can be bound.
    All,
}

/// The first mount: the root of the first namespace.
pub const BASE: MountKey = MountKey(0);
/// The first device number of file systems that are mounted, `0:32`.
const FIRST_DEVICE: u64 = 32;
/// The number in `mountinfo` of the first mount that is none of the seeds.
const FIRST_ID: u32 = 32;
/// The most mounts of a namespace, `fs.mount-max`.
const MOST: usize = 100_000;

/// All mounts of a host.
#[derive(Debug)]
pub struct Mounts {
    all: Slab<Mount>,
    /// The mount that hides a place.
    hidden: Map<(MountKey, InodeKey), MountKey>,
    /// File systems by device.
    systems: Map<u64, FileSystem>,
    /// Number of changes of each namespace's table.
    changes: Map<u32, u64>,
    /// A table has changed since it was last asked.
    touched: bool,
    /// The roots of namespaces and the processes in them.
    namespaces: Map<u32, Namespace>,
    last_id: u32,
    last_device: u64,
    last_group: u32,
    /// Numbers of namespaces do not come again: programs tell namespaces by them.
    last_namespace: u32,
}

#[derive(Clone, Copy, Debug)]
struct Namespace {
    root: MountKey,
    users: u32,
}

impl Mounts {
    /// The first namespace, with a root on `device`.
    pub fn new(root: InodeKey, device: u64, kind: &'static str, source: &[u8]) -> Mounts {
        let flags = MountFlags::RELATIVE_ACCESS_TIME;
        let mount = Mount {
            id: 1,
            namespace: Some(0),
            at: None,
            root,
            device,
            source: source.into(),
            flags,
            unbindable: false,
            group: None,
            master: None,
            opens: 0,
            writers: 0,
            expiring: false,
            locked: false,
            locked_flags: MountFlags::empty(),
        };
        let mut all = Slab::new();
        all.insert(mount);
        let mut mounts = Mounts {
            all,
            hidden: Map::new(),
            systems: Map::new(),
            changes: Map::new(),
            touched: false,
            namespaces: Map::new(),
            last_id: FIRST_ID - 1,
            last_device: FIRST_DEVICE - 1,
            last_group: 0,
            last_namespace: 0,
        };
        mounts.namespaces.insert(0, Namespace { root: BASE, users: 1 });
        mounts.add_seed(root, device, kind);
        mounts
    }

    /// A directory of the first file system that is another since the host started.
    pub fn add_seed(&mut self, root: InodeKey, device: u64, kind: &'static str) {
        let flags = MountFlags::RELATIVE_ACCESS_TIME;
        let system =
            FileSystem { kind, root, flags, seed: true, owner: 0, room: None, options: String::new() };
        self.systems.insert(device, system);
    }

    /// A new file system; its device number. Whoever makes it mounts it.
    pub fn add_file_system(&mut self, system: impl FnOnce(u64) -> FileSystem) -> u64 {
        self.last_device += 1;
        self.systems.insert(self.last_device, system(self.last_device));
        self.last_device
    }

    /// A mount.
    pub fn get(&self, mount: MountKey) -> &Mount {
        &self.all[mount.0]
    }
    /// A mount, to be changed.
    pub fn get_mut(&mut self, mount: MountKey) -> &mut Mount {
        &mut self.all[mount.0]
    }
    /// The file system of a device.
    pub fn system(&self, device: u64) -> Option<&FileSystem> {
        self.systems.get(&device)
    }
    /// The same, to be changed.
    pub fn system_mut(&mut self, device: u64) -> Option<&mut FileSystem> {
        self.systems.get_mut(&device)
    }
    /// The device of the first file system of a kind.
    pub fn device_of_kind(&self, kind: &str) -> Option<u64> {
        self.systems.iter().find(|(_, system)| system.kind == kind).map(|(device, _)| *device)
    }
    /// The room of a tmpfs that has been mounted; `None` for any other device.
    pub fn room(&mut self, device: u64) -> Option<&mut Room> {
        if device < FIRST_DEVICE || device > self.last_device {
            return None;
        }
        self.systems.get_mut(&device)?.room.as_mut()
    }
    /// The root of a namespace.
    pub fn root_of(&self, namespace: u32) -> MountKey {
        self.namespaces.get(&namespace).map_or(BASE, |found| found.root)
    }
    /// What is found at a place: the root of the topmost mount that hides it, or the place itself.
    pub fn top(&self, mut mount: MountKey, mut inode: InodeKey) -> (MountKey, InodeKey) {
        while let Some(over) = self.hidden.get(&(mount, inode)) {
            (mount, inode) = (*over, self.get(*over).root);
        }
        (mount, inode)
    }
    /// The place that a root of a mount hides, and the places that this hides in turn; any other place is itself.
    pub fn under(&self, mut mount: MountKey, mut inode: InodeKey) -> (MountKey, InodeKey) {
        while let Mount { root, at: Some(at), .. } = self.get(mount)
            && *root == inode
        {
            (mount, inode) = *at;
        }
        (mount, inode)
    }
    /// True if an inode is the root or the place of a mount other than the first: it stays as long as that does.
    pub fn uses(&self, inode: InodeKey) -> bool {
        let of = |mount: &Mount| mount.root == inode || mount.at.is_some_and(|(_, point)| point == inode);
        self.all.len() > 1 && self.all.iter().any(|(_, mount)| of(mount))
    }
    /// True if something is mounted on an inode in a namespace.
    pub fn is_point(&self, inode: InodeKey, namespace: Option<u32>) -> bool {
        let here = |mount: MountKey| namespace.is_none() || self.get(mount).namespace == namespace;
        self.hidden.iter().any(|((mount, point), _)| *point == inode && here(*mount))
    }
    /// The flags that apply to files of a device in a mount: its own and its file system's.
    pub fn flags(&self, mount: MountKey, device: u64) -> MountFlags {
        let mount = self.get(mount);
        match self.systems.get(&device) {
            // A seed has only these.
            Some(system) if system.seed && mount.device != device => system.flags,
            Some(system) => mount.flags | system.flags & MountFlags::OF_FILE_SYSTEM,
            None => mount.flags,
        }
    }

    /// A mount that is attached nowhere.
    pub fn add(&mut self, root: InodeKey, device: u64, source: &[u8], flags: MountFlags) -> MountKey {
        self.last_id += 1;
        MountKey(self.all.insert(Mount {
            id: self.last_id,
            namespace: None,
            at: None,
            root,
            device,
            source: source.into(),
            flags: flags & MountFlags::OF_MOUNT,
            unbindable: false,
            group: None,
            master: None,
            opens: 0,
            writers: 0,
            expiring: false,
            locked: false,
            locked_flags: MountFlags::empty(),
        }))
    }
    /// Attaches a mount, with what is mounted in it, to a place that nothing hides, and copies of it to the same place in
    /// the peers and slaves of the mount that it comes into, if `shows` says that their roots show it. `ENOSPC` if there
    /// are too many mounts.
    pub fn attach(
        &mut self,
        mount: MountKey,
        at: (MountKey, InodeKey),
        shows: &dyn Fn(InodeKey, InodeKey) -> bool,
    ) -> Result<(), Errno> {
        self.check_room(mount, at, shows)?;
        if let Some(group) = self.get(at.0).group {
            self.set_propagation(mount, Propagation::Shared, true);
            let root = self.get(mount).root;
            for other in self.takers(at, shows) {
                let copy = self.copy(mount, root, CopyExtent::Bindable, &|_| true);
                if self.get(other).group != Some(group) {
                    // What a slave gets is a slave: what it mounts there is its own.
                    for part in self.tree(copy) {
                        let part = self.get_mut(part);
                        part.master = part.group.take().or(part.master);
                    }
                }
                self.attach_here(copy, (other, at.1));
            }
        }
        self.attach_here(mount, at);
        Ok(())
    }
    /// `ENOSPC` if attaching a mount to a place would make too many, its copies in peers and slaves included. To be asked before a
    /// mount is taken out of its place to be attached elsewhere.
    pub fn check_room(
        &self,
        mount: MountKey,
        at: (MountKey, InodeKey),
        shows: &dyn Fn(InodeKey, InodeKey) -> bool,
    ) -> Result<(), Errno> {
        let copies = self.takers(at, shows).len() * self.tree(mount).len();
        if self.all.len() + copies > MOST { Err(Errno::ENOSPC) } else { Ok(()) }
    }
    /// The mounts that get a copy of what is attached to a place.
    fn takers(&self, at: (MountKey, InodeKey), shows: &dyn Fn(InodeKey, InodeKey) -> bool) -> Vec<MountKey> {
        let Some(group) = self.get(at.0).group else { return Vec::new() };
        let mut others = self.receivers(group, at.0);
        others
            .retain(|other| shows(self.get(*other).root, at.1) && !self.hidden.contains_key(&(*other, at.1)));
        others
    }
    /// The other attached mounts that get what is mounted in one of a peer group.
    fn receivers(&self, group: u32, but: MountKey) -> Vec<MountKey> {
        let receives = |mount: &Mount| mount.group == Some(group) || mount.master == Some(group);
        let others = self
            .all
            .iter()
            .filter(|(key, mount)| *key != but.0 && mount.namespace.is_some() && receives(mount));
        others.map(|(key, _)| MountKey(key)).collect()
    }
    fn attach_here(&mut self, mount: MountKey, at: (MountKey, InodeKey)) {
        // What lies on the place already stays below.
        let at = self.top(at.0, at.1);
        let namespace = self.get(at.0).namespace;
        for part in self.tree(mount) {
            self.get_mut(part).namespace = namespace;
        }
        self.get_mut(mount).at = Some(at);
        self.hidden.insert(at, mount);
        self.touch(mount);
    }
    /// Attaches a mount, with what is mounted in it, where another one is; that one then lies over it.
    pub fn attach_beneath(&mut self, mount: MountKey, over: MountKey) {
        let Some(at) = self.get(over).at else { return };
        let namespace = self.get(over).namespace;
        let root = (mount, self.get(mount).root);
        self.hidden.remove(&at);
        self.attach_here(mount, at);
        self.get_mut(over).at = Some(root);
        self.hidden.insert(root, over);
        debug_assert_eq!(self.get(mount).namespace, namespace);
    }
    /// Changes what a mount passes on, and all that are mounted in it if `deep`.
    pub fn set_propagation(&mut self, mount: MountKey, to: Propagation, deep: bool) {
        let tree = if deep { self.tree(mount) } else { vec![mount] };
        for part in tree {
            let group = self.get(part).group;
            let new = self.last_group + 1;
            let has_peers = group.is_some_and(|group| {
                self.receivers(group, part).iter().any(|other| self.get(*other).group == Some(group))
            });
            let mount = self.get_mut(part);
            mount.unbindable = to == Propagation::Unbindable;
            match to {
                Propagation::Shared if group.is_none() => {
                    mount.group = Some(new);
                    self.last_group = new;
                }
                Propagation::Shared => {}
                Propagation::Slave => {
                    mount.group = None;
                    mount.master = if has_peers { group } else { mount.master };
                }
                Propagation::Private | Propagation::Unbindable => (mount.group, mount.master) = (None, None),
            }
        }
    }
    /// Takes a mount out of its place; what is mounted in it stays there.
    pub fn detach(&mut self, mount: MountKey) {
        self.touch(mount);
        if let Some(at) = self.get_mut(mount).at.take() {
            self.hidden.remove(&at);
        }
        for part in self.tree(mount) {
            self.get_mut(part).namespace = None;
        }
    }
    /// A mount has come, gone or changed: whoever watches the table of its namespace is to be told.
    pub fn touch(&mut self, mount: MountKey) {
        if let Some(namespace) = self.get(mount).namespace {
            *self.changes.entry(namespace).or_default() += 1;
            self.touched = true;
        }
    }
    /// Number of changes of a namespace's table.
    pub fn changes(&self, namespace: u32) -> u64 {
        self.changes.get(&namespace).copied().unwrap_or(0)
    }
    /// True if a table has changed since the last call.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }
    /// A mount and all that are mounted in it, parents before children, in the order of their numbers.
    pub fn tree(&self, mount: MountKey) -> Vec<MountKey> {
        let mut tree = vec![mount];
        let mut next = 0;
        while let Some(parent) = tree.get(next).copied() {
            let mut children: Vec<MountKey> = self.children(parent);
            children.sort_by_key(|child| self.get(*child).id);
            tree.extend(children);
            next += 1;
        }
        tree
    }
    /// The mounts whose mount points are in a mount.
    pub fn children(&self, parent: MountKey) -> Vec<MountKey> {
        let from = (parent, InodeKey(0));
        let to = (parent, InodeKey(usize::MAX));
        self.hidden.range(from..=to).map(|(_, child)| *child).collect()
    }
    /// True if something is mounted in a mount.
    pub fn has_children(&self, mount: MountKey) -> bool {
        !self.children(mount).is_empty()
    }
    /// A copy of the part of a mount from `root` on, and of what is mounted in it as far as `extent` and, of a mount point,
    /// `includes` say.
    pub fn copy(
        &mut self,
        mount: MountKey,
        root: InodeKey,
        extent: CopyExtent,
        includes: &dyn Fn(InodeKey) -> bool,
    ) -> MountKey {
        let copy = self.copy_one(mount, root);
        self.get_mut(copy).locked = false;
        let mut pairs = vec![(mount, copy)];
        let mut next = 0;
        while let Some((from, to)) = pairs.get(next).copied().filter(|_| extent != CopyExtent::One) {
            for child in self.children(from) {
                let Mount { at: Some((_, point)), root, unbindable, .. } = *self.get(child) else { continue };
                if unbindable && extent != CopyExtent::All {
                    continue;
                }
                if from == mount && !includes(point) {
                    continue;
                }
                let copied = self.copy_one(child, root);
                self.get_mut(copied).at = Some((to, point));
                self.hidden.insert((to, point), copied);
                pairs.push((child, copied));
            }
            next += 1;
        }
        copy
    }
    fn copy_one(&mut self, mount: MountKey, root: InodeKey) -> MountKey {
        let Mount { device, flags, source, group, master, locked, locked_flags, .. } =
            self.get(mount).clone();
        let copy = self.add(root, device, &source, flags);
        let made = self.get_mut(copy);
        (made.group, made.master) = (group, master);
        (made.locked, made.locked_flags) = (locked, locked_flags);
        copy
    }
    /// True if `inner` is `outer` or is mounted somewhere in it.
    pub fn is_within(&self, inner: MountKey, outer: MountKey) -> bool {
        let mut at = Some(inner);
        while let Some(mount) = at {
            if mount == outer {
                return true;
            }
            at = self.get(mount).at.map(|(parent, _)| parent);
        }
        false
    }

    /// A new namespace with a copy of another's mounts, for one process.
    ///
    /// One with fewer rights than the other (`locks`) takes part in what is mounted there as a slave, and cannot take mounts away
    /// one by one: that would show what they hide.
    pub fn copy_namespace(&mut self, from: u32, locks: bool) -> u32 {
        self.last_namespace += 1;
        let number = self.last_namespace;
        let old = self.root_of(from);
        let root = self.get(old).root;
        let copy = self.copy(old, root, CopyExtent::All, &|_| true);
        for part in self.tree(copy) {
            let mount = self.get_mut(part);
            mount.namespace = Some(number);
            if locks {
                mount.locked = part != copy;
                mount.locked_flags = mount.flags & MountFlags::FORBIDDING;
                if let Some(group) = mount.group.take() {
                    mount.master = Some(group);
                }
            }
        }
        self.namespaces.insert(number, Namespace { root: copy, users: 1 });
        number
    }
    /// Mounts a file system that lies in a namespace's root from the start by itself, where its root is: in `parent`. What is mounted
    /// on its files, of which `is_on` tells, is mounted in it from now on.
    pub fn expose(
        &mut self,
        (root, parent): (MountKey, MountKey),
        (device, source): (u64, &[u8]),
        locks: bool,
        is_on: &dyn Fn(InodeKey) -> bool,
    ) -> MountKey {
        let Some((point, flags)) = self.systems.get(&device).map(|system| (system.root, system.flags)) else {
            return parent;
        };
        let moved: Vec<MountKey> = self
            .children(root)
            .into_iter()
            .filter(|child| self.get(*child).at.is_some_and(|(_, point)| is_on(point)))
            .collect();
        let made = self.add(point, device, source, flags);
        let Mount { namespace, group, master, .. } = *self.get(root);
        for child in moved {
            if let Some((from, point)) = self.get(child).at {
                self.hidden.remove(&(from, point));
                self.hidden.insert((made, point), child);
                self.get_mut(child).at = Some((made, point));
            }
        }
        let mount = self.get_mut(made);
        (mount.namespace, mount.group, mount.master) = (namespace, group, master);
        (mount.at, mount.locked) = (Some((parent, point)), locks);
        mount.locked_flags = if locks { flags & MountFlags::FORBIDDING } else { MountFlags::empty() };
        self.hidden.insert((parent, point), made);
        made
    }
    /// One more process is in a namespace.
    pub fn enter(&mut self, namespace: u32) {
        if let Some(entered) = self.namespaces.get_mut(&namespace) {
            entered.users += 1;
        }
    }
    /// One process less is; with the last its mounts go. Those that nobody uses are given, to be ended by [`end`](Self::end).
    pub fn leave(&mut self, namespace: u32) -> Vec<MountKey> {
        let Some(left) = self.namespaces.get_mut(&namespace) else { return Vec::new() };
        left.users -= 1;
        if left.users > 0 || namespace == 0 {
            return Vec::new();
        }
        let root = left.root;
        self.namespaces.remove(&namespace);
        let unused = self.take_down(root);
        self.changes.remove(&namespace);
        unused
    }
    /// The namespaces that programs have made.
    pub fn later_namespaces(&self) -> Vec<u32> {
        self.namespaces.keys().copied().filter(|number| *number != 0).collect()
    }
    /// Ends a namespace, whoever is in it.
    pub fn abandon(&mut self, namespace: u32) -> Vec<MountKey> {
        match self.namespaces.remove(&namespace) {
            Some(gone) => {
                let unused = self.take_down(gone.root);
                self.changes.remove(&namespace);
                unused
            }
            None => Vec::new(),
        }
    }
    /// True if there is such a namespace.
    pub fn has_namespace(&self, namespace: u32) -> bool {
        self.namespaces.contains_key(&namespace)
    }
    /// The root of a namespace is another one of its mounts, which is attached nowhere.
    pub fn set_root(&mut self, namespace: u32, root: MountKey) {
        for part in self.tree(root) {
            self.get_mut(part).namespace = Some(namespace);
        }
        if let Some(changed) = self.namespaces.get_mut(&namespace) {
            changed.root = root;
        }
    }
    /// Takes a mount and all that are mounted in it apart, and its copies in peers and slaves of the mount that it is in. Those
    /// that nobody uses are given, to be ended by [`end`](Self::end).
    pub fn take_down(&mut self, mount: MountKey) -> Vec<MountKey> {
        let mut tree = self.tree(mount);
        let mut found: Set<MountKey> = tree.iter().copied().collect();
        if let Some((parent, point)) = self.get(mount).at
            && let Some(group) = self.get(parent).group
        {
            for other in self.receivers(group, parent) {
                if let Some(copy) = self.hidden.get(&(other, point)) {
                    // A peer may lie in what goes already.
                    let more = self.tree(*copy);
                    tree.extend(more.into_iter().filter(|part| found.insert(*part)));
                }
            }
        }
        for part in tree.iter().rev() {
            self.detach(*part);
        }
        tree.into_iter().filter(|part| *part != BASE && self.get(*part).opens == 0).collect()
    }
    /// Forgets a detached mount that nobody uses. The file system that goes with it, if no other mount shows it.
    pub fn end(&mut self, mount: MountKey) -> Option<(u64, FileSystem)> {
        let device = self.all.remove(mount.0).device;
        let shown = self.all.iter().any(|(_, other)| other.device == device);
        match self.systems.get(&device) {
            Some(system) if !shown && !system.seed => {
                self.systems.remove(&device).map(|system| (device, system))
            }
            _ => None,
        }
    }
    /// A file of a mount is open, to be written if `writes`.
    pub fn opened(&mut self, mount: MountKey, writes: bool) {
        let mount = self.get_mut(mount);
        mount.opens += 1;
        mount.writers += u32::from(writes);
        mount.expiring = false;
    }
    /// It is no more. True if the mount is detached, by itself, and this was its last. The first one is never ended.
    pub fn closed(&mut self, mount: MountKey, writes: bool) -> bool {
        let is_first = mount == BASE;
        let mount = self.get_mut(mount);
        mount.opens -= 1;
        mount.writers -= u32::from(writes);
        mount.opens == 0 && mount.namespace.is_none() && mount.at.is_none() && !is_first
    }
    /// Open files that can be written in any mount of a file system.
    pub fn writers_of(&self, device: u64) -> u32 {
        self.all.iter().filter(|(_, mount)| mount.device == device).map(|(_, mount)| mount.writers).sum()
    }
    /// True if there is such a mount, and an inode is its root.
    pub fn shows(&self, mount: MountKey, root: InodeKey) -> bool {
        self.all.get(mount.0).is_some_and(|found| found.root == root)
    }
    /// The first attached mount that shows an inode as its root.
    pub fn showing(&self, root: InodeKey) -> Option<MountKey> {
        let found = self.all.iter().find(|(_, mount)| mount.root == root && mount.namespace.is_some());
        found.map(|(key, _)| MountKey(key))
    }
}

impl Mount {
    /// True if other flags would allow what the mount came with a prohibition of.
    pub fn frees_locked(&self, wanted: MountFlags) -> bool {
        self.locked_flags.intersects(!wanted)
    }
}

#[cfg(test)]
mod tests;
