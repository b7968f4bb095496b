//! Mounts made by programs: `tmpfs` and `ramfs` in memory, and the restrictions that mount flags impose.
//!
//! The tables are in [`belljar_objects::mounts`]. An in-memory file system is a nameless directory whose
//! content is stored natively in the folder of nameless files, like that of removed files. It is deleted when
//! the file system is unmounted or the simulation ends.

use super::readiness::MOUNTS_CHANGED;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, ProcessKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};
use belljar_machine::trees;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::inode::{Child, DISK, Directory, Inode, Meta, Node, ROOT, Times, is_below};
use belljar_objects::mounts::options::MemoryOptions;
use belljar_objects::mounts::{BASE, CopyExtent, FileSystem, MountFlags, Place, Room, SEEDS};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::notify::Subject;

impl Files {
    /// Records the mount through which a file was opened.
    pub(crate) fn opened_in(&mut self, mount: MountKey, file: FileKey) {
        let open = self.open(file);
        if open.mount.is_none() && open.kind.inode().is_some() {
            open.mount = Some(mount);
            let writes = open.is_writable();
            self.mounts.opened(mount, writes);
        }
    }
    /// Sets the access time of a file read through an open file to `now`, subject to the `noatime`,
    /// `nodiratime` and `relatime` rules of the mount and the file's flags.
    pub(crate) fn accessed(&mut self, file: FileKey, inode: InodeKey, now: i64) {
        /// With `relatime`, access times older than a day (in nanoseconds) are updated regardless.
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
    /// Flags that apply to a location.
    pub(crate) fn mount_flags(&self, (mount, inode): Place) -> MountFlags {
        self.mounts.flags(mount, self.inodes[inode.0].device)
    }
    /// `EROFS` if the location is read-only.
    pub(crate) fn check_writable(&self, place: Place) -> Result<(), Errno> {
        if self.mount_flags(place).contains(MountFlags::READ_ONLY) { Err(Errno::EROFS) } else { Ok(()) }
    }
    /// `EROFS` if an open file is on a read-only mount or file system.
    pub(crate) fn check_file_writable(&mut self, file: FileKey) -> Result<(), Errno> {
        if self.file_flags(file).contains(MountFlags::READ_ONLY) { Err(Errno::EROFS) } else { Ok(()) }
    }
    /// Flags that apply to an open file.
    pub(crate) fn file_flags(&mut self, file: FileKey) -> MountFlags {
        let mount = self.open(file).mount_key();
        self.open(file).kind.inode().map_or(MountFlags::empty(), |inode| self.mount_flags((mount, inode)))
    }
    /// Mount id of a location as `mountinfo` shows it.
    pub(crate) fn shown_mount(&self, (mount, inode): Place) -> u32 {
        let device = self.inodes[inode.0].device;
        let mount = self.mounts.get(mount);
        match SEEDS.iter().position(|(_, of, ..)| *of == device) {
            // In later namespaces the seeds are separate mounts.
            Some(seed) if mount.device != device && mount.namespace.is_none_or(|number| number == 0) => {
                seed as u32 + 1
            }
            _ => mount.id,
        }
    }
    /// Mount id of an open file as `mountinfo` shows it.
    pub(crate) fn shown_mount_of(&mut self, file: FileKey) -> u32 {
        let mount = self.open(file).mount_key();
        self.open(file).kind.inode().map_or(1, |inode| self.shown_mount((mount, inode)))
    }
    /// True if a location is the root of its mount or of a seed.
    pub(crate) fn is_mount_root(&self, (mount, inode): Place) -> bool {
        self.mounts.get(mount).root == inode || self.seed_at((mount, inode)).is_some()
    }
    /// Device number of the seed whose root the location is.
    pub(crate) fn seed_at(&self, (mount, inode): Place) -> Option<u64> {
        let device = self.inodes[inode.0].device;
        let system = self.mounts.system(device)?;
        (system.seed && system.root == inode && self.mounts.get(mount).root != inode).then_some(device)
    }
    /// Mounts and seed devices to which a flag change at `place` applies; with `deep`, those below it too.
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
    /// True if a locked mount lies below the location.
    pub(crate) fn hides_locked(&self, place: Place) -> bool {
        let (below, _) = self.mounts_at(place, true);
        below.into_iter().any(|mount| mount != place.0 && self.mounts.get(mount).locked)
    }
    /// Updates the space accounting of a tmpfs after a file's allocation changed.
    pub(crate) fn recharge(&mut self, key: InodeKey) {
        let inode = &mut self.inodes[key.0];
        let Some(room) = self.mounts.room(inode.device) else { return };
        if let Some(content) = inode.content_mut() {
            let now = content.extents.allocated(content.size);
            room.used_bytes = (room.used_bytes + now).saturating_sub(content.charged);
            content.charged = now;
        }
    }
    /// Offset up to which a write at `start` fits into the file system, limited by the size of a tmpfs.
    /// `ENOSPC` if none of it fits.
    pub(crate) fn room_end(&mut self, key: InodeKey, start: u64) -> Result<u64, Errno> {
        let inode = &self.inodes[key.0];
        let is_full = self.disk_is_full && inode.device == DISK && !self.is_output(key);
        let left = match self.mounts.room(inode.device) {
            _ if is_full => 0,
            Some(room) => room.bytes_left(),
            None => return Ok(u64::MAX),
        };
        let end = inode
            .content()
            .map_or(u64::MAX, |content| content.extents.end_of_room(start, content.size, left));
        self.no_room += u64::from(is_full && end <= start);
        if end <= start { Err(Errno::ENOSPC) } else { Ok(end) }
    }
    /// True for the output file of a program of the experiment, for which there is always room.
    fn is_output(&self, key: InodeKey) -> bool {
        let Some((directory, name)) = self.inodes[key.0].links.first() else { return false };
        let is_first = match &self.inodes[directory.0].node {
            Node::Directory(directory) => directory.own_root.is_some(),
            _ => false,
        };
        is_first && (name.ends_with(b".stdout") || name.ends_with(b".stderr"))
    }
    /// Adds the seed file systems to the mount table of a new host.
    pub(crate) fn seed_mounts(&mut self) {
        for (path, device, kind, _) in SEEDS.iter().skip(1) {
            let mut at = ROOT;
            for part in path.split('/').skip(1) {
                if let Some(Child::Known(inode)) = self.directory(at).entries.get(part.as_bytes()) {
                    at = *inode;
                }
            }
            self.mounts.add_seed(at, *device, kind);
        }
    }
    /// Copies a location as the root of a detached mount; with `deep`, including all mounts below it.
    pub(crate) fn copy_mount(&mut self, (mount, root): Place, deep: bool) -> MountKey {
        let flags = self.mount_flags((mount, root)) & MountFlags::OF_MOUNT;
        let device = self.inode(root).device;
        let Files { mounts, inodes, .. } = self;
        let extent = if deep { CopyExtent::Bindable } else { CopyExtent::One };
        let copy = mounts.copy(mount, root, extent, &|point| is_below(inodes, root, point));
        let made = mounts.get_mut(copy);
        if made.device != device {
            // The copy of a location within a seed belongs to that seed's file system, not to that of the
            // mount.
            let source = SEEDS.iter().find(|(_, of, ..)| *of == device).map_or("none", |(.., source)| source);
            (made.device, made.source, made.flags) = (device, source.as_bytes().into(), flags);
        }
        copy
    }
}

impl Host {
    /// Creates an in-memory file system; returns its device number and root.
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

    /// Notifies the pollers of mount tables if a table has changed.
    pub(crate) fn mounts_changed(&mut self) {
        if self.files.mounts.take_touched() {
            self.notify_events(WaitQueueId::Mounts, MOUNTS_CHANGED);
        }
    }
    /// Ends detached mounts. A file system without remaining mounts is destroyed with its content.
    pub(crate) fn end_mounts(&mut self, mounts: Vec<MountKey>) {
        self.mounts_changed();
        // A mount may have held a reference to a network namespace.
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
                // The inode of a bound socket stays.
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

    /// Closes a file system context; a file system that it created and that was never mounted is destroyed.
    pub(crate) fn close_context(&mut self, number: usize) {
        let context = self.files.contexts.remove(number);
        if let Some((device, root)) = context.created.filter(|_| !context.mounted) {
            let mount = self.files.mounts.add(root, device, b"", MountFlags::empty());
            self.end_mounts(vec![mount]);
        }
    }
    /// Moves a process to a new mount namespace with copies of the mounts of its present one.
    pub(crate) fn own_mounts(&mut self, process: ProcessKey) {
        let before = self.processes[process.0].mount_namespace;
        let owner = self.processes[process.0].credentials.user_namespace;
        let plain = &mut self.processes.namespaces.plain;
        let locks = plain.get(NamespaceKind::Mounts, before).owner != owner;
        let new = self.files.mounts.copy_namespace(before, locks);
        plain.made(NamespaceKind::Mounts, new, owner);
        let Files { mounts, inodes, .. } = &mut self.files;
        mounts.expose_seeds(new, locks, |inode| inodes[inode.0].device);
        self.process(process).mount_namespace = new;
        let gone = self.files.mounts.leave(before);
        self.end_mounts(gone);
    }
    /// Moves a process to a mount namespace, at its root.
    pub(crate) fn enter_mounts(&mut self, process: ProcessKey, namespace: u32) {
        self.files.mounts.enter(namespace);
        let before = std::mem::replace(&mut self.process(process).mount_namespace, namespace);
        let entered = self.process(process);
        (entered.root, entered.cwd) = (b"/".to_vec(), b"/".to_vec());
        let gone = self.files.mounts.leave(before);
        self.end_mounts(gone);
    }
    /// Handles a power failure of the host: unmounts everything except the seeds.
    pub(crate) fn unmount_all(&mut self) {
        for number in self.files.loops.bound() {
            self.unbind_loop(number);
        }
        for namespace in self.files.mounts.later_namespaces() {
            let gone = self.files.mounts.abandon(namespace);
            self.end_mounts(gone);
        }
        // pivot_root(2) may have replaced the root mount.
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

    /// True if a mount is in use: by an open file, a mount below it, a running program, a working directory
    /// or root, or a socket bound in its file system.
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
    /// Mount flags as `f_flags` of `statfs(2)`.
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
