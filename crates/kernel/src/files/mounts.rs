//! File systems that programs mount: `tmpfs` and `ramfs` in memory, and what their flags forbid.
//!
//! The tables are in [`belljar_objects::mounts`]. A file system in memory is a directory without a name whose bytes lie, like
//! those of removed files, in the folder of files without a name; they are gone when it is unmounted or the simulation ends.

use super::readiness::MOUNTS_CHANGED;
use super::tree::{DEV, DISK, Directory, Inode, Meta, Node, PROC, PTS, Place, RUN, SHM, SYS, Times};
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, ProcessKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};
use belljar_machine::trees;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::mounts::options::MemoryOptions;
use belljar_objects::mounts::{BASE, CopyExtent, FileSystem, MountFlags, Mounts, Room};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::notify::Subject;
use slab::Slab;

/// File systems that a host has from the start: where, device, kind, and the source that they show.
pub const SEEDS: &[(&str, u64, &str, &str)] = &[
    ("/", DISK, "ext4", "/dev/sda1"),
    ("/dev", DEV, "devtmpfs", "devtmpfs"),
    ("/dev/pts", PTS, "devpts", "devpts"),
    ("/dev/shm", SHM, "tmpfs", "tmpfs"),
    ("/proc", PROC, "proc", "proc"),
    ("/run", RUN, "tmpfs", "tmpfs"),
    ("/sys", SYS, "sysfs", "sysfs"),
];

/// A file system that is being made, or changed, step by step: `fsopen(2)`, `fspick(2)`.
#[derive(Clone, Debug, Default)]
pub struct FileSystemContext {
    /// Its kind.
    pub kind: Vec<u8>,
    /// The source that it was given.
    pub source: Option<Vec<u8>>,
    /// Its flags.
    pub flags: MountFlags,
    /// Its other options, a comma before each.
    pub options: Vec<u8>,
    /// The root of the mount whose file system is changed.
    pub picked: Option<Place>,
    /// Its device and root, once it is made.
    pub created: Option<(u64, InodeKey)>,
    /// True once it has a mount.
    pub mounted: bool,
}

/// True if an inode is `root` or lies below it in the same file system.
pub(crate) fn is_below(inodes: &Slab<Inode>, root: InodeKey, inode: InodeKey) -> bool {
    let mut at = inode;
    while at != root {
        match inodes[at.0].links.first() {
            Some((parent, _)) => at = *parent,
            None => return false,
        }
    }
    true
}

impl Files {
    /// The mount that an open file is in.
    pub(crate) fn mount_of(&mut self, file: FileKey) -> MountKey {
        self.open(file).mount.unwrap_or(BASE)
    }
    /// An open file is in a mount.
    pub(crate) fn opened_in(&mut self, mount: MountKey, file: FileKey) {
        let open = self.open(file);
        if open.mount.is_none() && open.kind.inode().is_some() {
            open.mount = Some(mount);
            let writes = open.is_writable();
            self.mounts.opened(mount, writes);
        }
    }
    /// A file has been read by way of an open file: its access time is now, as far as the mount has it kept.
    pub(crate) fn accessed(&mut self, file: FileKey, inode: InodeKey, now: i64) {
        /// Access times that are older are renewed even where they are kept relatively.
        const DAY: i64 = 86_400 * 1_000_000_000;
        if self.open(file).flags & c::O_NOATIME != 0 {
            return;
        }
        let flags = self.file_flags(file);
        let found = &mut self.inodes[inode.0];
        let skipped = MountFlags::READ_ONLY | MountFlags::NO_ACCESS_TIME;
        let stays = found.meta.flags.contains(FileFlags::NO_ACCESS_TIME);
        let skips_directory =
            found.node.is_directory() && flags.contains(MountFlags::NO_DIRECTORY_ACCESS_TIME);
        let times = &mut found.meta.times;
        let is_newer = times.access > times.modify && times.access > times.change && now - times.access < DAY;
        let is_kept = flags.contains(MountFlags::RELATIVE_ACCESS_TIME) && is_newer;
        if !stays && !flags.intersects(skipped) && !skips_directory && !is_kept {
            times.access = now;
        }
    }
    /// The flags that apply to a place.
    pub(crate) fn mount_flags(&self, (mount, inode): Place) -> MountFlags {
        self.mounts.flags(mount, self.inodes[inode.0].device)
    }
    /// `EROFS` where nothing can be changed.
    pub(crate) fn check_writable(&self, place: Place) -> Result<(), Errno> {
        if self.mount_flags(place).contains(MountFlags::READ_ONLY) { Err(Errno::EROFS) } else { Ok(()) }
    }
    /// The same for the file behind a descriptor.
    pub(crate) fn check_file_writable(&mut self, file: FileKey) -> Result<(), Errno> {
        if self.file_flags(file).contains(MountFlags::READ_ONLY) { Err(Errno::EROFS) } else { Ok(()) }
    }
    /// The flags that apply to an open file.
    pub(crate) fn file_flags(&mut self, file: FileKey) -> MountFlags {
        let mount = self.mount_of(file);
        self.open(file).kind.inode().map_or(MountFlags::empty(), |inode| self.mount_flags((mount, inode)))
    }
    /// True if a file's file system is read-only itself, not only the mount that shows it.
    pub(crate) fn is_read_only_system(&self, inode: InodeKey) -> bool {
        let system = self.mounts.system(self.inodes[inode.0].device);
        system.is_some_and(|system| system.flags.contains(MountFlags::READ_ONLY))
    }
    /// The number of the mount of a place, as `mountinfo` has it.
    pub(crate) fn shown_mount(&self, (mount, inode): Place) -> u32 {
        let device = self.inodes[inode.0].device;
        let mount = self.mounts.get(mount);
        match SEEDS.iter().position(|(_, of, ..)| *of == device) {
            // In later namespaces they are mounts of their own.
            Some(seed) if mount.device != device && mount.namespace.is_none_or(|number| number == 0) => {
                seed as u32 + 1
            }
            _ => mount.id,
        }
    }
    /// The same for an open file.
    pub(crate) fn shown_mount_of(&mut self, file: FileKey) -> u32 {
        let mount = self.mount_of(file);
        self.open(file).kind.inode().map_or(1, |inode| self.shown_mount((mount, inode)))
    }
    /// The kind of the file system that programs have mounted and a file lies on.
    pub(crate) fn kind_of_system(&self, inode: InodeKey) -> Option<&'static str> {
        let system = self.mounts.system(self.inodes[inode.0].device).filter(|system| !system.seed);
        system.map(|system| system.kind)
    }
    /// True if a place is the root of its mount or of one of the seeds.
    pub(crate) fn is_mount_root(&self, (mount, inode): Place) -> bool {
        self.mounts.get(mount).root == inode || self.seed_at((mount, inode)).is_some()
    }
    /// The device of the seed that a place is the root of.
    pub(crate) fn seed_at(&self, (mount, inode): Place) -> Option<u64> {
        let device = self.inodes[inode.0].device;
        let system = self.mounts.system(device)?;
        (system.seed && system.root == inode && self.mounts.get(mount).root != inode).then_some(device)
    }
    /// The mounts and the devices of seeds whose flags a change at a place is about, those below included if it is `deep`.
    pub(crate) fn mounts_at(&self, place: Place, deep: bool) -> (Vec<MountKey>, Vec<u64>) {
        let seed = self.seed_at(place);
        let own = if seed.is_none() { vec![place.0] } else { Vec::new() };
        if !deep {
            return (own, seed.into_iter().collect());
        }
        let below = |inode| is_below(&self.inodes, place.1, inode);
        let children = self.mounts.children(place.0).into_iter();
        let within =
            children.filter(|child| self.mounts.get(*child).at.is_some_and(|(_, point)| below(point)));
        let tree = own.into_iter().chain(within.flat_map(|child| self.mounts.tree(child))).collect();
        let here = self.mounts.get(place.0).device;
        let seeds = SEEDS.iter().map(|(_, device, ..)| *device);
        let seeds = seeds.filter(|device| {
            *device != here && self.mounts.system(*device).is_some_and(|system| below(system.root))
        });
        (tree, seeds.collect())
    }
    /// True if something below a place is mounted that must not be taken away.
    pub(crate) fn hides_locked(&self, place: Place) -> bool {
        let (below, _) = self.mounts_at(place, true);
        below.into_iter().any(|mount| mount != place.0 && self.mounts.get(mount).locked)
    }
    /// Accounts for what a file of a tmpfs takes now.
    pub(crate) fn recharge(&mut self, key: InodeKey) {
        let inode = &mut self.inodes[key.0];
        let Some(room) = self.mounts.room(inode.device) else { return };
        if let Some(content) = inode.content_mut() {
            let now = content.extents.allocated(content.size);
            room.used_bytes = (room.used_bytes + now).saturating_sub(content.charged);
            content.charged = now;
        }
    }
    /// The end of what may be written to a file from `start` on: a tmpfs may be full. `ENOSPC` if nothing may.
    pub(crate) fn room_end(&mut self, key: InodeKey, start: u64) -> Result<u64, Errno> {
        let inode = &self.inodes[key.0];
        let Some(room) = self.mounts.room(inode.device) else { return Ok(u64::MAX) };
        let left = room.bytes_left();
        let end = inode
            .content()
            .map_or(u64::MAX, |content| content.extents.end_of_room(start, content.size, left));
        if end <= start { Err(Errno::ENOSPC) } else { Ok(end) }
    }
    /// The file systems that a host has from the start are mounts of their own in a later namespace.
    fn expose_seeds(&mut self, namespace: u32, locks: bool) {
        let root = self.mounts.root_of(namespace);
        let first = self.mounts.get(root);
        if (first.device, first.root) != (DISK, super::tree::ROOT) {
            return;
        }
        let Files { mounts, inodes, .. } = self;
        let mut devices = root;
        for (path, device, _, source) in SEEDS.iter().skip(1) {
            let parent = if path.starts_with("/dev/") { devices } else { root };
            let is_on = |point: InodeKey| inodes[point.0].device == *device;
            let made = mounts.expose((root, parent), (*device, source.as_bytes()), locks, &is_on);
            devices = if *device == DEV { made } else { devices };
        }
    }
    /// Fills the table with what a new host has.
    pub(crate) fn seed_mounts(&mut self) {
        for (path, device, kind, _) in SEEDS.iter().skip(1) {
            let mut at = super::tree::ROOT;
            for part in path.split('/').skip(1) {
                if let Some(super::tree::Child::Known(inode)) =
                    self.directory(at).entries.get(part.as_bytes())
                {
                    at = *inode;
                }
            }
            self.mounts.add_seed(at, *device, kind);
        }
    }
    /// The table of a host whose tree is empty still.
    pub(crate) fn first_mounts() -> Mounts {
        let (_, device, kind, source) = SEEDS[0];
        Mounts::new(super::tree::ROOT, device, kind, source.as_bytes())
    }

    /// A copy of a place as the root of a mount that is attached nowhere; with all that is mounted below it if `deep`.
    pub(crate) fn copy_mount(&mut self, (mount, root): Place, deep: bool) -> MountKey {
        let flags = self.mount_flags((mount, root)) & MountFlags::OF_MOUNT;
        let device = self.inode(root).device;
        let Files { mounts, inodes, .. } = self;
        let extent = if deep { CopyExtent::Bindable } else { CopyExtent::One };
        let copy = mounts.copy(mount, root, extent, &|point| is_below(inodes, root, point));
        let made = mounts.get_mut(copy);
        if made.device != device {
            // A part of a seed is one of its file system, not of the one that it lies in.
            let source = SEEDS.iter().find(|(_, of, ..)| *of == device).map_or("none", |(.., source)| source);
            (made.device, made.source, made.flags) = (device, source.as_bytes().into(), flags);
        }
        copy
    }
}

impl Host {
    /// A new file system in memory; its device number and root.
    pub(crate) fn make_memory_system(
        &mut self,
        kind: &'static str,
        options: MemoryOptions,
        flags: MountFlags,
    ) -> Result<(u64, InodeKey), Errno> {
        let (_, folder) = self.new_unnamed()?;
        let owner = self.caller.map_or(0, |(_, of)| self.processes.namespace(of, NamespaceKind::User));
        self.machine.create_dir(&folder, 0o755)?;
        let now = self.net.clock.realtime_ns() as i64;
        let meta = Meta {
            mode: options.mode,
            uid: options.uid,
            gid: options.gid,
            times: Times::all(now),
            ..Meta::default()
        };
        let directory =
            Directory { own: true, own_root: Some(folder), is_root: true, ..Directory::default() };
        let root = self.files.add_inode(0, Node::Directory(directory), meta);
        self.files.directory(root).parent = root;
        let room = options.room.map(|room| Room { used_files: 1, ..room });
        let device = self.files.mounts.add_file_system(|_| FileSystem {
            kind,
            root,
            flags: flags & MountFlags::OF_FILE_SYSTEM,
            seed: false,
            owner,
            room,
            options: options.shown,
        });
        let inode = self.files.inode(root);
        (inode.device, inode.number) = (device, 1);
        Ok((device, root))
    }

    /// Those who watch the tables of mounts are told of changes.
    pub(crate) fn mounts_changed(&mut self) {
        if self.files.mounts.take_touched() {
            self.notify_events(WaitQueueId::Mounts, MOUNTS_CHANGED);
        }
    }
    /// Ends mounts that have been taken away; file systems that nothing shows any more go with all that is in them.
    pub(crate) fn end_mounts(&mut self, mounts: Vec<MountKey>) {
        self.mounts_changed();
        // One of them may have held a network.
        self.networks.left |= !mounts.is_empty();
        for mount in mounts {
            let (root, id) = (self.files.mounts.get(mount).root, self.files.mounts.get(mount).id);
            self.files.notify.end_subject(Subject::Mount(id));
            let Some((device, system)) = self.files.mounts.end(mount) else {
                if self.files.inodes.contains(root.0) {
                    self.forget_if_unused(root);
                }
                continue;
            };
            let inodes = self.files.inodes.iter().filter(|(_, inode)| inode.device == device);
            let inodes: Vec<InodeKey> = inodes.map(|(key, _)| InodeKey(key)).collect();
            let folder = self.files.own_path(system.root);
            self.files.notify.end_subject(Subject::System(device));
            for inode in inodes {
                self.unmounted_watches(inode);
                // A socket that is bound there keeps its entry.
                if self.files.inode(inode).opens == 0 {
                    self.files.close_native(&mut *self.machine, inode);
                    self.files.inodes.remove(inode.0);
                }
            }
            if let Some(folder) = folder {
                trees::remove_tree(&mut *self.machine, &folder);
            }
        }
    }

    /// A context has been closed; a file system that it made and nobody has mounted goes.
    pub(crate) fn close_context(&mut self, number: usize) {
        let context = self.files.contexts.remove(number);
        if let Some((device, root)) = context.created.filter(|_| !context.mounted) {
            let mount = self.files.mounts.add(root, device, b"", MountFlags::empty());
            self.end_mounts(vec![mount]);
        }
    }
    /// A process gets a mount namespace of its own, with copies of the mounts that it saw.
    pub(crate) fn own_mounts(&mut self, process: ProcessKey) {
        let before = self.processes[process.0].mount_namespace;
        let owner = self.processes[process.0].credentials.user_namespace;
        let plain = &mut self.processes.namespaces.plain;
        let locks = plain.get(NamespaceKind::Mounts, before).owner != owner;
        let new = self.files.mounts.copy_namespace(before, locks);
        plain.made(NamespaceKind::Mounts, new, owner);
        self.files.expose_seeds(new, locks);
        self.process(process).mount_namespace = new;
        let gone = self.files.mounts.leave(before);
        self.end_mounts(gone);
    }
    /// A process enters a mount namespace, at its root.
    pub(crate) fn enter_mounts(&mut self, process: ProcessKey, namespace: u32) {
        self.files.mounts.enter(namespace);
        let before = std::mem::replace(&mut self.process(process).mount_namespace, namespace);
        let entered = self.process(process);
        (entered.root, entered.cwd) = (b"/".to_vec(), b"/".to_vec());
        let gone = self.files.mounts.leave(before);
        self.end_mounts(gone);
    }
    /// The host has lost its power: nothing is mounted but what there is from the start.
    pub(crate) fn unmount_all(&mut self) {
        for number in self.files.loops.bound() {
            self.unbind_loop(number);
        }
        for namespace in self.files.mounts.later_namespaces() {
            let gone = self.files.mounts.abandon(namespace);
            self.end_mounts(gone);
        }
        // pivot_root(2) may have put another in its place.
        let root = self.files.mounts.root_of(0);
        if root != BASE {
            self.files.mounts.detach(BASE);
            self.files.mounts.set_root(0, BASE);
            let gone = self.files.mounts.take_down(root);
            self.end_mounts(gone);
        }
        for mount in self.files.mounts.children(BASE) {
            let gone = self.files.mounts.take_down(mount);
            self.end_mounts(gone);
        }
        let first = self.files.mounts.get_mut(BASE);
        first.flags = MountFlags::RELATIVE_ACCESS_TIME;
        (first.group, first.master, first.unbindable) = (None, None, false);
        for (_, device, ..) in SEEDS {
            if let Some(system) = self.files.mounts.system_mut(*device) {
                system.flags = MountFlags::RELATIVE_ACCESS_TIME;
            }
        }
    }

    /// True if somebody uses a mount: an open file, a program that runs, a working directory or root, a socket bound there.
    pub(crate) fn is_mount_busy(&mut self, mount: MountKey) -> bool {
        let (opens, device) = (self.files.mounts.get(mount).opens, self.files.mounts.get(mount).device);
        let own = self.files.mounts.system(device).is_some_and(|system| !system.seed);
        let bound = |(_, inode): (usize, &Inode)| {
            inode.device == device && inode.opens > 0 && matches!(inode.node, Node::Socket)
        };
        if opens > 0 || self.files.mounts.has_children(mount) || own && self.files.inodes.iter().any(bound) {
            return true;
        }
        let namespace = self.files.mounts.get(mount).namespace;
        let here = |(_, process): &(usize, &crate::process::Process)| {
            Some(process.mount_namespace) == namespace && process.ended.is_none()
        };
        let processes: Vec<ProcessKey> =
            self.processes.iter().filter(here).map(|(key, _)| ProcessKey(key)).collect();
        processes.into_iter().any(|process| {
            let of = &self.processes[process.0];
            let paths = [of.cwd.clone(), of.root.clone(), of.exe.clone()];
            let mut lies =
                |path: &[u8]| self.resolve_absolute(process, path).is_ok_and(|place| place.0 == mount);
            paths.iter().any(|path| path != b"/" && lies(path))
        })
    }
}

impl Files {
    /// `statfs(2)`'s answer for flags.
    pub(crate) fn statfs_flags(flags: MountFlags) -> i64 {
        const VALID: i64 = 0x20;
        const SHOWN: [(MountFlags, i64); 8] = [
            (MountFlags::READ_ONLY, c::ST_RDONLY as i64),
            (MountFlags::NO_SUID, c::ST_NOSUID as i64),
            (MountFlags::NO_DEVICES, c::ST_NODEV as i64),
            (MountFlags::NO_EXEC, c::ST_NOEXEC as i64),
            (MountFlags::SYNCHRONOUS, c::ST_SYNCHRONOUS as i64),
            (MountFlags::NO_ACCESS_TIME, c::ST_NOATIME as i64),
            (MountFlags::NO_DIRECTORY_ACCESS_TIME, c::ST_NODIRATIME as i64),
            (MountFlags::RELATIVE_ACCESS_TIME, 0x1000),
        ];
        let links = if flags.contains(MountFlags::NO_LINKS) { 0x2000 } else { 0 };
        SHOWN.iter().filter(|(flag, _)| flags.contains(*flag)).fold(VALID | links, |all, (_, bit)| all | bit)
    }
}
