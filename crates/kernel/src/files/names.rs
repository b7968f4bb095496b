//! Creating, removing and renaming directory entries: `mkdir(2)`, `link(2)`, `unlink(2)`, `rename(2)`.

use super::permission::{EXEC, WRITE};
use super::tree::Found;
use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use crate::process::Processes;
use belljar_linux_abi::landlock::{ACCESS_FS_MAKE_DIR, ACCESS_FS_MAKE_SYM};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{DiskEvent, Machine};
use belljar_objects::devices::Device;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::inode::{DISK, Directory, DirectorySource, Node, PROC, PTS, SYS, Store};
use belljar_objects::mounts::Place;
use belljar_objects::notify::Happening;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Devices of the file systems in which no entries can be created.
const MADE_UP: [u64; 3] = [PROC, PTS, SYS];

impl Files {
    fn check_move(
        &mut self,
        from: &Found,
        to: &Found,
        inode: InodeKey,
        target: Option<InodeKey>,
    ) -> Result<(), Errno> {
        let device = self.inode(from.parent).device;
        if device != self.inode(to.parent).device {
            return Err(Errno::EXDEV);
        }
        if MADE_UP.contains(&device) {
            return Err(Errno::EPERM);
        }
        for moved in [Some(inode), target].into_iter().flatten() {
            let mounted = self.inode(moved).directory().is_some_and(|dir| dir.own_root.is_some());
            if mounted || self.inode(moved).device != device || self.mounts.is_point(moved, None) {
                return Err(Errno::EBUSY);
            }
        }
        Ok(())
    }

    /// Checks the constraints of a rename that precede permission checks: a trailing slash requires a
    /// directory, and a directory cannot become its own descendant or replace one of its ancestors.
    fn check_places(
        &mut self,
        from: &Found,
        to: &Found,
        inode: InodeKey,
        target: Option<InodeKey>,
        exchange: bool,
    ) -> Result<(), Errno> {
        let target_is_directory = target.is_some_and(|target| self.inode(target).node.is_directory());
        let exchanged_for_no_directory = exchange && !target_is_directory;
        if !self.inode(inode).node.is_directory() && (from.slash || (to.slash && !exchange))
            || to.slash && exchanged_for_no_directory
        {
            return Err(Errno::ENOTDIR);
        }
        if self.is_within(to.parent, inode) {
            return Err(Errno::EINVAL);
        }
        match target.is_some_and(|target| self.is_within(from.parent, target)) {
            true => Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY }),
            false => Ok(()),
        }
    }
    fn is_within(&mut self, directory: InodeKey, of: InodeKey) -> bool {
        let mut at = directory;
        while at != of && !self.directory(at).is_root {
            at = self.directory(at).parent;
        }
        at == of
    }

    /// `EEXIST` if the entry exists, `EROFS` if it lies on a read-only mount.
    fn check_name_is_free(&mut self, found: &Found) -> Result<(), Errno> {
        if found.target.is_some() || found.name.is_empty() {
            return Err(Errno::EEXIST);
        }
        self.check_writable((found.mount, found.parent))
    }

    /// Checks that an entry can be created at a resolved path, which needs `right` of `landlock(7)`. `ENOENT`
    /// in a removed directory.
    pub(crate) fn check_can_create(
        &mut self,
        processes: &Processes,
        found: &Found,
        right: u64,
    ) -> Result<(), Errno> {
        self.check_name_is_free(found)?;
        let parent = self.inode(found.parent);
        if MADE_UP.contains(&parent.device) {
            return Err(Errno::EACCES);
        }
        if parent.is_nameless() {
            return Err(Errno::ENOENT);
        }
        self.check_permission(processes, found.process, found.parent, WRITE | EXEC)?;
        self.check_restricted_in(processes, found, right)?;
        let device = self.inode(found.parent).device;
        if self.disk_is_full && device == DISK {
            self.no_room += 1;
            return Err(Errno::ENOSPC);
        }
        self.mounts.room(device).map_or(Ok(()), |room| room.check_file())
    }
}

impl Files {
    fn move_natively(
        &mut self,
        machine: &mut dyn Machine,
        from: &Found,
        to: &Found,
        inode: InodeKey,
    ) -> Result<(), Errno> {
        if !self.inode(inode).node.has_own_name() {
            return Ok(());
        }
        let old = self.own_path_in(from.parent, &from.name).ok_or(Errno::ENOENT)?;
        self.ensure_own(machine, to.parent)?;
        let new = self.own_path_in(to.parent, &to.name).ok_or(Errno::ENOENT)?;
        machine.rename(&old, &new)
    }
}

impl Host {
    /// `mkdir(2)`.
    pub(crate) fn make_directory(&mut self, found: &Found, mode: u32) -> Result<(), Errno> {
        self.files.check_can_create(&self.processes, found, ACCESS_FS_MAKE_DIR)?;
        let directory = Directory { parent: found.parent, ..Directory::default() };
        let shared = self.files.directory(found.parent).shared;
        let source = if shared { DirectorySource::Own } else { DirectorySource::None };
        let directory = Directory { shared, source, ..directory };
        let inode = self.new_inode_at(found, Node::Directory(directory), mode & 0o1777);
        self.files.add_name(found.parent, &found.name, inode);
        self.content_changed(found.parent);
        if let Err(errno) = self.files.ensure_own(&mut *self.machine, inode) {
            self.files.remove_name(found.parent, &found.name);
            self.forget_if_unused(inode);
            return Err(errno);
        }
        self.created_event(found.parent, &found.name, inode);
        Ok(())
    }

    /// `symlink(2)`.
    pub(crate) fn make_symlink(&mut self, found: &Found, target: Vec<u8>) -> Result<(), Errno> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.files.check_can_create(&self.processes, found, ACCESS_FS_MAKE_SYM)?;
        if found.slash {
            return Err(Errno::ENOENT);
        }
        self.files.ensure_own(&mut *self.machine, found.parent)?;
        let path = self.files.own_path_in(found.parent, &found.name).ok_or(Errno::ENOENT)?;
        self.machine.create_symlink(&target, &path)?;
        let inode = self.new_inode_at(found, Node::Symlink { target, own: true }, 0o777);
        self.files.add_name(found.parent, &found.name, inode);
        self.content_changed(found.parent);
        self.created_event(found.parent, &found.name, inode);
        Ok(())
    }

    /// `mknod(2)` of a file without a native counterpart: a FIFO, a device or the name of a UNIX socket.
    pub(crate) fn make_special(&mut self, found: &Found, node: Node, mode: u32) -> Result<InodeKey, Errno> {
        self.files.check_can_create(&self.processes, found, node.right_to_make())?;
        let inode = self.new_inode_at(found, node, mode);
        self.files.add_name(found.parent, &found.name, inode);
        self.content_changed(found.parent);
        self.created_event(found.parent, &found.name, inode);
        Ok(inode)
    }

    /// `link(2)`: adds a name to a file that is no directory.
    pub(crate) fn make_link(&mut self, (mount, inode): Place, found: &Found) -> Result<(), Errno> {
        self.files.check_name_is_free(found)?;
        if found.slash {
            return Err(Errno::ENOENT);
        }
        if mount != found.mount || self.files.inode(inode).device != self.files.inode(found.parent).device {
            return Err(Errno::EXDEV);
        }
        self.files.check_may_link(&self.processes, found.process, inode)?;
        self.files.check_can_create(&self.processes, found, 0)?;
        if self.files.inode(inode).node.is_directory() {
            return Err(Errno::EPERM);
        }
        self.files.inode(inode).check_flags(FileFlags::FIXED)?;
        let from = (mount, self.files.parent_of(inode));
        self.files.check_refer(
            &self.processes,
            found.process,
            [from, (found.mount, found.parent)],
            (inode, None),
            (false, false),
        )?;
        if self.files.inode(inode).links.is_empty() {
            return self.name_unnamed(inode, found);
        }
        self.take_over(inode)?;
        self.files.inode(inode).changed = true;
        self.files.link_own(&mut *self.machine, inode, found.parent, &found.name)?;
        self.files.add_name(found.parent, &found.name, inode);
        self.inode_changed(inode);
        self.content_changed(found.parent);
        self.self_event(inode, c::IN_ATTRIB);
        self.created_event(found.parent, &found.name, inode);
        Ok(())
    }
    /// Gives an `O_TMPFILE` file its first name.
    fn name_unnamed(&mut self, inode: InodeKey, found: &Found) -> Result<(), Errno> {
        let unnamed = self.files.inode(inode).former_path.is_none() && self.files.inode(inode).changed;
        let from = self.content_path(inode).ok().flatten().filter(|_| unnamed).ok_or(Errno::ENOENT)?;
        let folder = self.files.ensure_own(&mut *self.machine, found.parent)?;
        self.machine.rename(&from, &folder.join(OsStr::from_bytes(&found.name)))?;
        if let Some(content) = self.files.inode(inode).content_mut() {
            content.store = Store::Own;
        }
        self.files.add_name(found.parent, &found.name, inode);
        self.content_changed(found.parent);
        self.created_event(found.parent, &found.name, inode);
        Ok(())
    }

    /// `unlink(2)`, and `rmdir(2)` for `directory`.
    pub(crate) fn remove(&mut self, found: &Found, directory: bool) -> Result<(), Errno> {
        if !found.name.is_empty() {
            self.files.check_writable((found.mount, found.parent))?;
        }
        let inode = found.inode()?;
        if found.name.is_empty() {
            return Err(match (directory, found.dot) {
                (false, _) => Errno::EISDIR,
                (true, true) => Errno::EINVAL,
                (true, false) if self.files.directory(inode).is_root => Errno::EBUSY,
                (true, false) => Errno::ENOTEMPTY,
            });
        }
        let is_directory = self.files.inode(inode).node.is_directory();
        let of_kind = match (directory, is_directory) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (false, false) if found.slash => Err(Errno::ENOTDIR),
            _ => Ok(()),
        };
        if found.slash && !directory {
            of_kind?;
        }
        self.files.check_may_remove(&self.processes, found.process, found.parent, inode)?;
        of_kind?;
        let right = self.files.inode(inode).node.right_to_remove();
        self.files.check_restricted_in(&self.processes, found, right)?;
        self.check_removable(found.parent, inode)?;
        self.drop_name(found.parent, &found.name, inode, true)?;
        self.content_changed(found.parent);
        Ok(())
    }
    fn check_removable(&mut self, parent: InodeKey, inode: InodeKey) -> Result<(), Errno> {
        let device = self.files.inode(parent).device;
        if MADE_UP.contains(&device) {
            return Err(Errno::EPERM);
        }
        if self.files.mounts.is_point(inode, None) {
            return Err(Errno::EBUSY);
        }
        if let Node::Directory(directory) = &self.files.inode(inode).node {
            let mounted = directory.own_root.is_some() || self.files.inode(inode).device != device;
            if mounted {
                return Err(Errno::EBUSY);
            }
            if !self.is_empty_directory(inode)? {
                return Err(Errno::ENOTEMPTY);
            }
        }
        Ok(())
    }
    /// Removes a name, natively too, and with the last name the file itself unless it is in use. `deleted` is
    /// false if another file takes the name over; then no `IN_DELETE` is reported.
    fn drop_name(
        &mut self,
        parent: InodeKey,
        name: &[u8],
        inode: InodeKey,
        deleted: bool,
    ) -> Result<(), Errno> {
        if self.files.inode(inode).node.has_own_name() {
            let path = self.files.own_path_in(parent, name).ok_or(Errno::ENOENT)?;
            let last = self.files.inode(inode).links.len() == 1;
            let is_used = self.files.inode(inode).opens > 0 || self.files.mounts.uses(inode);
            let kept = last && is_used && self.files.inode(inode).content().is_some();
            let removed = match &self.files.inode(inode).node {
                _ if kept => self.set_aside(inode, &path),
                Node::Directory(_) => self.machine.remove_dir(&path),
                _ => self.machine.remove_file(&path),
            };
            match removed {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.files.remove_name(parent, name);
        self.inode_changed(inode);
        let deleted = (deleted && !self.files.notify.is_idle()).then(|| self.happening(inode, c::IN_DELETE));
        let is_directory = self.files.inode(inode).node.is_directory();
        if !is_directory {
            self.self_event(inode, c::IN_ATTRIB);
        }
        self.forget_if_unused(inode);
        self.name_event(deleted, parent, name);
        Ok(())
    }

    /// `renameat2(2)`.
    pub(crate) fn move_name(&mut self, from: &Found, to: &Found, flags: u32) -> Result<(), Errno> {
        if from.mount != to.mount {
            return Err(Errno::EXDEV);
        }
        if from.name.is_empty() {
            return Err(Errno::EBUSY);
        }
        if to.name.is_empty() {
            return Err(if flags & c::RENAME_NOREPLACE != 0 { Errno::EEXIST } else { Errno::EBUSY });
        }
        self.files.check_writable((from.mount, from.parent))?;
        let inode = from.inode()?;
        let target = match to.target {
            Some(_) if flags & c::RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST),
            Some(_) => Some(to.inode()?),
            None if flags & c::RENAME_EXCHANGE != 0 => return Err(Errno::ENOENT),
            None => None,
        };
        if target == Some(inode) {
            return Ok(());
        }
        let exchange = flags & c::RENAME_EXCHANGE != 0;
        self.files.check_places(from, to, inode, target, exchange)?;
        let is_directory = self.files.inode(inode).node.is_directory();
        self.files.check_may_remove(&self.processes, from.process, from.parent, inode)?;
        match target {
            Some(target) => self.files.check_may_remove(&self.processes, to.process, to.parent, target)?,
            None => self.files.check_permission(&self.processes, to.process, to.parent, WRITE | EXEC)?,
        }
        if is_directory && from.parent != to.parent {
            // Its entry `..` changes.
            self.files.check_permission(&self.processes, from.process, inode, WRITE)?;
        }
        self.files.check_move(from, to, inode, target)?;
        let directories = [(from.mount, from.parent), (to.mount, to.parent)];
        self.files.check_refer(
            &self.processes,
            from.process,
            directories,
            (inode, target),
            (true, exchange),
        )?;
        self.take_over(inode)?;
        if exchange {
            let target = target.ok_or(Errno::ENOENT)?;
            self.take_over(target)?;
            return self.exchange(from, to, inode, target);
        }
        if let Some(target) = target {
            match (is_directory, self.files.inode(target).node.is_directory()) {
                (false, true) => return Err(Errno::EISDIR),
                (true, false) => return Err(Errno::ENOTDIR),
                _ => self.check_removable(to.parent, target)?,
            }
            if self.files.inode(inode).node.has_own_name() {
                self.machine.disk_event(DiskEvent::Replacing)?;
            }
            self.drop_name(to.parent, &to.name, target, false)?;
        }
        self.files.move_natively(&mut *self.machine, from, to, inode)?;
        self.relocate(from, to, inode);
        for parent in [from.parent, to.parent] {
            self.content_changed(parent);
        }
        if flags & c::RENAME_WHITEOUT != 0 {
            let whiteout = self.new_inode_at(from, Node::Device(Device::Absent(0)), 0);
            self.files.add_name(from.parent, &from.name, whiteout);
        }
        self.moved_event(from, to, inode);
        Ok(())
    }
    /// Reports a rename to inotify and fanotify.
    fn moved_event(&mut self, from: &Found, to: &Found, inode: InodeKey) {
        let cookie = self.files.next_rename_cookie();
        if self.files.notify.is_idle() {
            return;
        }
        let moved = Some(self.files.notified_name(to.parent, &to.name));
        let renamed = Happening { moved, ..self.happening(inode, c::FAN_RENAME as u32) };
        self.name_event(Some(renamed), from.parent, &from.name);
        for (end, mask) in [(from, c::IN_MOVED_FROM), (to, c::IN_MOVED_TO)] {
            let happening = Happening { cookie, ..self.happening(inode, mask) };
            self.name_event(Some(happening), end.parent, &end.name);
        }
        self.self_event(inode, c::IN_MOVE_SELF);
    }
    /// Moves a name in the tree, and updates working and root directories below it.
    fn relocate(&mut self, from: &Found, to: &Found, inode: InodeKey) {
        let old = self.files.path_of(inode);
        self.files.remove_name(from.parent, &from.name);
        self.files.add_name(to.parent, &to.name, inode);
        self.inode_changed(inode);
        let (Some(old), Some(new)) = (old, self.files.path_of(inode)) else { return };
        if !self.files.inode(inode).node.is_directory() {
            return;
        }
        for (_, process) in self.processes.iter_mut() {
            for path in [&mut process.cwd, &mut process.root] {
                if let Some(rest) = path.strip_prefix(&old[..])
                    && (rest.is_empty() || rest[0] == b'/')
                {
                    *path = [&new, rest].concat();
                }
            }
        }
    }
    /// `RENAME_EXCHANGE`, through a temporary name that no guest can create.
    fn exchange(&mut self, from: &Found, to: &Found, inode: InodeKey, target: InodeKey) -> Result<(), Errno> {
        let aside = Found { name: b"exchanged/".to_vec(), ..from.clone() };
        let native_aside = Found { name: b".belljar-exchange".to_vec(), ..from.clone() };
        self.files.move_natively(&mut *self.machine, from, &native_aside, inode)?;
        self.files.move_natively(&mut *self.machine, to, from, target)?;
        self.files.move_natively(&mut *self.machine, &native_aside, to, inode)?;
        self.relocate(from, &aside, inode);
        self.relocate(to, from, target);
        self.relocate(&aside, to, inode);
        // The temporary name must not remain in the directory.
        self.files.directory(from.parent).entries.remove(&aside.name[..]);
        for parent in [from.parent, to.parent] {
            self.content_changed(parent);
        }
        self.moved_event(from, to, inode);
        self.moved_event(to, from, target);
        Ok(())
    }
}
