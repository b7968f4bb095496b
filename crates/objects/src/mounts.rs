//! Mounts and mount namespaces, `mount_namespaces(7)`.
//!
//! A *file system* is identified by the device number of its files. A *mount* covers a directory of its
//! parent mount, the mount point, with a directory or file of a file system, its root. A location in the tree
//! is therefore a pair of mount and inode. Each mount namespace is a tree of mounts, and each attached mount
//! belongs to one namespace.
//!
//! The host's initial file system is the root of the initial namespace. `/proc`, `/dev` and others are
//! directories of it with their own device numbers, called *seeds*; they cannot be moved or unmounted.

mod contexts;
mod file_systems;
mod flags;
pub mod options;
pub mod requests;
mod seeds;
pub mod statmount;
pub mod text;

pub use contexts::FileSystemContext;
pub use file_systems::{FileSystem, Room};
pub use flags::MountFlags;
pub use seeds::SEEDS;

use crate::ids::{InodeKey, MountKey};
use crate::inode::{DEV, DISK, ROOT};
use belljar_base::{Map, Set};
use belljar_linux_abi::Errno;
use slab::Slab;

/// A location in the tree: a mount, and an inode of its file system.
pub type Place = (MountKey, InodeKey);

/// Propagation type of a mount, `MS_SHARED` and related flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Mount events are neither sent nor received.
    Private,
    /// Mount events are shared with the peer group.
    Shared,
    /// Mount events are received from the peer group of the master.
    Slave,
    /// Private, and cannot be bind-mounted.
    Unbindable,
}

/// A mount.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Mount id in `mountinfo`.
    pub id: u32,
    /// Mount namespace; `None` while it is not attached, or detached.
    pub namespace: Option<u32>,
    /// Parent mount and mount point; `None` for the root of a namespace.
    pub at: Option<(MountKey, InodeKey)>,
    /// Root inode.
    pub root: InodeKey,
    /// Device number of the file system.
    pub device: u64,
    /// Source given to `mount(2)`.
    pub source: Box<[u8]>,
    /// Mount flags.
    pub flags: MountFlags,
    /// True if it cannot be bind-mounted, `MS_UNBINDABLE`.
    pub unbindable: bool,
    /// Peer group of a shared mount, which receives its mount events.
    pub group: Option<u32>,
    /// Peer group of the master, for a slave mount.
    pub master: Option<u32>,
    /// Number of open files.
    pub opens: u32,
    /// Number of files open for writing.
    pub writers: u32,
    /// True if the mount is marked by `MNT_EXPIRE` and not used since.
    pub expiring: bool,
    /// True if the mount was copied from a more privileged namespace: it cannot be unmounted on its own.
    pub locked: bool,
    /// Flags inherited with such a copy, which cannot be cleared.
    pub locked_flags: MountFlags,
}

/// Extent of a copy of a mount tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyExtent {
    /// Only the mount.
    One,
    /// The mount and its submounts, except unbindable ones.
    Bindable,
    /// The mount and all submounts, as for a new namespace.
    All,
}

/// Root mount of the initial namespace.
pub const BASE: MountKey = MountKey(0);
/// First device number of file systems that programs mount, `0:32`.
const FIRST_DEVICE: u64 = 32;
/// First mount id after those of the seeds.
const FIRST_ID: u32 = 32;
/// Maximum number of mounts in a namespace, `fs.mount-max`.
const MOST: usize = 100_000;

/// Mount table of a host.
#[derive(Debug)]
pub struct Mounts {
    all: Slab<Mount>,
    /// Mount that covers a location.
    hidden: Map<(MountKey, InodeKey), MountKey>,
    /// File systems by device number.
    systems: Map<u64, FileSystem>,
    /// Number of changes to each namespace's mount table.
    changes: Map<u32, u64>,
    /// True if a mount table has changed since the last query.
    touched: bool,
    /// Root mount and number of processes of each namespace.
    namespaces: Map<u32, Namespace>,
    last_id: u32,
    last_device: u64,
    last_group: u32,
    /// Last namespace number. Numbers are not reused, since programs identify namespaces by them.
    last_namespace: u32,
}

#[derive(Clone, Copy, Debug)]
struct Namespace {
    root: MountKey,
    users: u32,
}

impl Mounts {
    /// Creates the initial namespace with a root on `device`.
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

    /// Adds a seed: a directory of the initial file system with its own device number.
    pub fn add_seed(&mut self, root: InodeKey, device: u64, kind: &'static str) {
        let flags = MountFlags::RELATIVE_ACCESS_TIME;
        let system =
            FileSystem { kind, root, flags, seed: true, owner: 0, room: None, options: String::new() };
        self.systems.insert(device, system);
    }

    /// Adds a file system, which the caller mounts; returns its device number.
    pub fn add_file_system(&mut self, system: impl FnOnce(u64) -> FileSystem) -> u64 {
        self.last_device += 1;
        self.systems.insert(self.last_device, system(self.last_device));
        self.last_device
    }

    /// Mount by key.
    pub fn get(&self, mount: MountKey) -> &Mount {
        &self.all[mount.0]
    }
    /// Mutable mount by key.
    pub fn get_mut(&mut self, mount: MountKey) -> &mut Mount {
        &mut self.all[mount.0]
    }
    /// File system by device number.
    pub fn system(&self, device: u64) -> Option<&FileSystem> {
        self.systems.get(&device)
    }
    /// Mutable file system by device number.
    pub fn system_mut(&mut self, device: u64) -> Option<&mut FileSystem> {
        self.systems.get_mut(&device)
    }
    /// Device number of the first file system of a kind.
    pub fn device_of_kind(&self, kind: &str) -> Option<u64> {
        self.systems.iter().find(|(_, system)| system.kind == kind).map(|(device, _)| *device)
    }
    /// Mount table of a host before its tree is built.
    pub fn at_start() -> Mounts {
        let (_, device, kind, source) = SEEDS[0];
        Mounts::new(ROOT, device, kind, source.as_bytes())
    }
    /// Turns the seeds into separate mounts in a later namespace. `device_of` gives the device number of an
    /// inode.
    pub fn expose_seeds(&mut self, namespace: u32, locks: bool, device_of: impl Fn(InodeKey) -> u64) {
        let root = self.root_of(namespace);
        let first = self.get(root);
        if (first.device, first.root) != (DISK, ROOT) {
            return;
        }
        let mut devices = root;
        for (path, device, _, source) in SEEDS.iter().skip(1) {
            let parent = if path.starts_with("/dev/") { devices } else { root };
            let is_on = |point: InodeKey| device_of(point) == *device;
            let made = self.expose((root, parent), (*device, source.as_bytes()), locks, &is_on);
            devices = if *device == DEV { made } else { devices };
        }
    }
    /// Type of a file system if a program mounted it; `None` for a seed.
    pub fn mounted_kind(&self, device: u64) -> Option<&'static str> {
        self.system(device).filter(|system| !system.seed).map(|system| system.kind)
    }
    /// True if a file system itself is read-only, not only a mount of it.
    pub fn is_read_only(&self, device: u64) -> bool {
        self.system(device).is_some_and(|system| system.flags.contains(MountFlags::READ_ONLY))
    }
    /// Space accounting of a tmpfs mounted by a program; `None` for any other device.
    pub fn room(&mut self, device: u64) -> Option<&mut Room> {
        if device < FIRST_DEVICE || device > self.last_device {
            return None;
        }
        self.systems.get_mut(&device)?.room.as_mut()
    }
    /// Root mount of a namespace.
    pub fn root_of(&self, namespace: u32) -> MountKey {
        self.namespaces.get(&namespace).map_or(BASE, |found| found.root)
    }
    /// Location visible at a location: the root of the topmost mount that covers it, or itself.
    pub fn top(&self, mut mount: MountKey, mut inode: InodeKey) -> (MountKey, InodeKey) {
        while let Some(over) = self.hidden.get(&(mount, inode)) {
            (mount, inode) = (*over, self.get(*over).root);
        }
        (mount, inode)
    }
    /// Location covered by the root of a mount, through stacked mounts; any other location is returned
    /// unchanged.
    pub fn under(&self, mut mount: MountKey, mut inode: InodeKey) -> (MountKey, InodeKey) {
        while let Mount { root, at: Some(at), .. } = self.get(mount)
            && *root == inode
        {
            (mount, inode) = *at;
        }
        (mount, inode)
    }
    /// True if the inode is the root or the mount point of a mount other than the first, and must be kept.
    pub fn uses(&self, inode: InodeKey) -> bool {
        let of = |mount: &Mount| mount.root == inode || mount.at.is_some_and(|(_, point)| point == inode);
        self.all.len() > 1 && self.all.iter().any(|(_, mount)| of(mount))
    }
    /// True if the inode is a mount point in a namespace, or with `None` in any.
    pub fn is_point(&self, inode: InodeKey, namespace: Option<u32>) -> bool {
        let here = |mount: MountKey| namespace.is_none() || self.get(mount).namespace == namespace;
        self.hidden.iter().any(|((mount, point), _)| *point == inode && here(*mount))
    }
    /// Effective flags for files of a device in a mount: those of the mount and of the file system.
    pub fn flags(&self, mount: MountKey, device: u64) -> MountFlags {
        let mount = self.get(mount);
        match self.systems.get(&device) {
            // A seed has no mount flags.
            Some(system) if system.seed && mount.device != device => system.flags,
            Some(system) => mount.flags | system.flags & MountFlags::OF_FILE_SYSTEM,
            None => mount.flags,
        }
    }

    /// Creates an unattached mount.
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
    /// Attaches a mount tree to an uncovered location, and copies of it to the peers and slaves of the parent
    /// mount whose roots contain the mount point according to `shows`. `ENOSPC` if there would be too many
    /// mounts.
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
                    // A copy in a slave is a slave too: mounts made there do not propagate back.
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
    /// Checks that attaching a mount stays within the limit, copies in peers and slaves included: `ENOSPC`.
    /// To be called before a mount is detached for a move.
    pub fn check_room(
        &self,
        mount: MountKey,
        at: (MountKey, InodeKey),
        shows: &dyn Fn(InodeKey, InodeKey) -> bool,
    ) -> Result<(), Errno> {
        let copies = self.takers(at, shows).len() * self.tree(mount).len();
        if self.all.len() + copies > MOST { Err(Errno::ENOSPC) } else { Ok(()) }
    }
    /// Mounts that receive a copy of a mount attached at a location.
    fn takers(&self, at: (MountKey, InodeKey), shows: &dyn Fn(InodeKey, InodeKey) -> bool) -> Vec<MountKey> {
        let Some(group) = self.get(at.0).group else { return Vec::new() };
        let mut others = self.receivers(group, at.0);
        others
            .retain(|other| shows(self.get(*other).root, at.1) && !self.hidden.contains_key(&(*other, at.1)));
        others
    }
    /// Other attached mounts that receive mount events of a peer group.
    fn receivers(&self, group: u32, but: MountKey) -> Vec<MountKey> {
        let receives = |mount: &Mount| mount.group == Some(group) || mount.master == Some(group);
        let others = self
            .all
            .iter()
            .filter(|(key, mount)| *key != but.0 && mount.namespace.is_some() && receives(mount));
        others.map(|(key, _)| MountKey(key)).collect()
    }
    fn attach_here(&mut self, mount: MountKey, at: (MountKey, InodeKey)) {
        // Mounts that cover the location already stay below.
        let at = self.top(at.0, at.1);
        let namespace = self.get(at.0).namespace;
        for part in self.tree(mount) {
            self.get_mut(part).namespace = namespace;
        }
        self.get_mut(mount).at = Some(at);
        self.hidden.insert(at, mount);
        self.touch(mount);
    }
    /// Attaches a mount tree beneath `over`: at the mount point of `over`, which then covers the tree.
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
    /// Changes the propagation type of a mount or, if `deep`, of its whole tree.
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
    /// Detaches a mount tree from its mount point.
    pub fn detach(&mut self, mount: MountKey) {
        self.touch(mount);
        if let Some(at) = self.get_mut(mount).at.take() {
            self.hidden.remove(&at);
        }
        for part in self.tree(mount) {
            self.get_mut(part).namespace = None;
        }
    }
    /// Records a change of a mount, so that watchers of its namespace's mount table are notified.
    pub fn touch(&mut self, mount: MountKey) {
        if let Some(namespace) = self.get(mount).namespace {
            *self.changes.entry(namespace).or_default() += 1;
            self.touched = true;
        }
    }
    /// Number of changes to a namespace's mount table.
    pub fn changes(&self, namespace: u32) -> u64 {
        self.changes.get(&namespace).copied().unwrap_or(0)
    }
    /// True if a mount table has changed since the last call.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }
    /// Mount tree from a mount down: parents before children, siblings by mount id.
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
    /// Direct submounts of a mount.
    pub fn children(&self, parent: MountKey) -> Vec<MountKey> {
        let from = (parent, InodeKey(0));
        let to = (parent, InodeKey(usize::MAX));
        self.hidden.range(from..=to).map(|(_, child)| *child).collect()
    }
    /// True if the mount has submounts.
    pub fn has_children(&self, mount: MountKey) -> bool {
        !self.children(mount).is_empty()
    }
    /// Copies a mount from the directory `root` down, with the submounts that `extent` and, given the mount
    /// point, `includes` select.
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
    /// True if `inner` is `outer` or one of its submounts at any depth.
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

    /// Creates a namespace for one process with a copy of another's mounts.
    ///
    /// With `locks`, for a less privileged namespace, the copies are slaves of the originals and cannot be
    /// unmounted individually, which would reveal the files that they cover.
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
    /// Mounts a seed of a namespace's root as a separate mount, at its location in `parent`. Submounts of
    /// `root` whose mount points satisfy `is_on` become its submounts.
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
    /// Counts a process that enters a namespace.
    pub fn enter(&mut self, namespace: u32) {
        if let Some(entered) = self.namespaces.get_mut(&namespace) {
            entered.users += 1;
        }
    }
    /// Counts a process that leaves a namespace; after the last, its mounts are detached. Returns the unused
    /// ones, to be passed to [`end`](Self::end).
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
    /// Namespaces created by programs.
    pub fn later_namespaces(&self) -> Vec<u32> {
        self.namespaces.keys().copied().filter(|number| *number != 0).collect()
    }
    /// Removes a namespace regardless of its processes; returns the unused mounts as [`leave`](Self::leave)
    /// does.
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
    /// True if the namespace exists.
    pub fn has_namespace(&self, namespace: u32) -> bool {
        self.namespaces.contains_key(&namespace)
    }
    /// Makes an unattached mount the root of a namespace.
    pub fn set_root(&mut self, namespace: u32, root: MountKey) {
        for part in self.tree(root) {
            self.get_mut(part).namespace = Some(namespace);
        }
        if let Some(changed) = self.namespaces.get_mut(&namespace) {
            changed.root = root;
        }
    }
    /// Detaches a mount tree mount by mount, and its copies in peers and slaves of the parent mount. Returns
    /// the unused mounts, to be passed to [`end`](Self::end).
    pub fn take_down(&mut self, mount: MountKey) -> Vec<MountKey> {
        let mut tree = self.tree(mount);
        let mut found: Set<MountKey> = tree.iter().copied().collect();
        if let Some((parent, point)) = self.get(mount).at
            && let Some(group) = self.get(parent).group
        {
            for other in self.receivers(group, parent) {
                if let Some(copy) = self.hidden.get(&(other, point)) {
                    // A peer may be in the tree already.
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
    /// Removes an unused detached mount. Returns its file system if no other mount shows it.
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
    /// Counts an opened file of a mount, for writing if `writes`.
    pub fn opened(&mut self, mount: MountKey, writes: bool) {
        let mount = self.get_mut(mount);
        mount.opens += 1;
        mount.writers += u32::from(writes);
        mount.expiring = false;
    }
    /// Counts a closed file. True if it was the last of a mount that is detached on its own; never for the
    /// first mount.
    pub fn closed(&mut self, mount: MountKey, writes: bool) -> bool {
        let is_first = mount == BASE;
        let mount = self.get_mut(mount);
        mount.opens -= 1;
        mount.writers -= u32::from(writes);
        mount.opens == 0 && mount.namespace.is_none() && mount.at.is_none() && !is_first
    }
    /// Number of files open for writing in all mounts of a file system.
    pub fn writers_of(&self, device: u64) -> u32 {
        self.all.iter().filter(|(_, mount)| mount.device == device).map(|(_, mount)| mount.writers).sum()
    }
    /// True if the mount exists and the inode is its root.
    pub fn shows(&self, mount: MountKey, root: InodeKey) -> bool {
        self.all.get(mount.0).is_some_and(|found| found.root == root)
    }
    /// First attached mount with the inode as its root.
    pub fn showing(&self, root: InodeKey) -> Option<MountKey> {
        let found = self.all.iter().find(|(_, mount)| mount.root == root && mount.namespace.is_some());
        found.map(|(key, _)| MountKey(key))
    }
}

impl Mount {
    /// True if the flags `wanted` lack a locked flag.
    pub fn frees_locked(&self, wanted: MountFlags) -> bool {
        self.locked_flags.intersects(!wanted)
    }
}

#[cfg(test)]
mod tests;
