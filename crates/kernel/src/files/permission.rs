//! File permission checks: mode bits against the credentials of the calling process, `path_resolution(7)`
//! "Permissions". The superuser passes all checks, except execution of a file without any execute bit.

use crate::credentials::capability;
use crate::files::Files;
use crate::ids::{InodeKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::proc::NetworkFile;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::inode::{NAMESPACE, Node, PROC, SYS};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::protected::ProtectedKind;
use belljar_objects::virtual_files::VirtualFile;

/// Read permission.
pub const READ: u32 = 4;
/// Write permission; on a directory, entries can be created and removed.
pub const WRITE: u32 = 2;
/// Execute permission; on a directory, search permission.
pub const EXEC: u32 = 1;

/// The set-group-ID bit; files created in a directory with this bit belong to the directory's group.
const SET_GID: u32 = 0o2000;
/// The set-user-ID bit.
const SET_USER: u32 = 0o4000;
/// The sticky bit; in a directory with this bit only owners can remove entries.
const STICKY: u32 = 0o1000;

/// Clears the set-user-ID bit of a mode, and the set-group-ID bit if the group can execute the file or the
/// caller is not a member of the group.
pub fn without_ids(mode: u32, is_of_group: bool) -> u32 {
    let keeps_group = mode & c::S_IXGRP == 0 && is_of_group;
    mode & if keeps_group { !SET_USER } else { !(SET_USER | SET_GID) }
}

impl Files {
    /// `EPERM` for files whose mode, owner and times are fixed by the kernel.
    pub(crate) fn check_changeable(&mut self, key: InodeKey) -> Result<(), Errno> {
        if matches!(self.inode(key).device, PROC | SYS | NAMESPACE) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// User and group of a file. Files of `/proc/<pid>` belong to the effective user and group of the
    /// process.
    pub(crate) fn owner_of(&self, processes: &Processes, key: InodeKey) -> (u32, u32) {
        let inode = &self.inodes[key.0];
        match inode.node.process().and_then(|pid| processes.by_pid.get(&pid)) {
            Some(process) => {
                let who = &processes[process.0].credentials;
                (who.euid, who.egid)
            }
            None => (inode.meta.uid, inode.meta.gid),
        }
    }

    /// `EACCES` unless a process has all permissions in `wanted`, `EPERM` for writing to an immutable file.
    pub(crate) fn check_permission(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
        wanted: u32,
    ) -> Result<(), Errno> {
        let who = &processes[process.0].credentials;
        let overrides = |capability| processes.overrides(process, capability, self.owner_of(processes, key));
        let searches = wanted & WRITE == 0 && overrides(capability::DAC_READ_SEARCH) && {
            let directory = self.inodes[key.0].node.is_directory();
            directory || wanted & EXEC == 0
        };
        // Network settings are accessible with `CAP_NET_ADMIN` in the network namespace.
        let administers =
            matches!(
                self.inodes[key.0].node,
                Node::Virtual(
                    VirtualFile::Network(NetworkFile::Tunable(_) | NetworkFile::Conntrack(_))
                        | VirtualFile::InterfaceSetting(_)
                )
            ) && processes.require_for(process, NamespaceKind::Net, capability::NET_ADMIN).is_ok();
        let superuser = overrides(capability::DAC_OVERRIDE) || searches || administers;
        if wanted & WRITE != 0 && self.inodes[key.0].meta.flags.contains(FileFlags::IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        if superuser {
            return self.inodes[key.0].check_superuser(wanted);
        }
        let owner = self.owner_of(processes, key);
        if self.inodes[key.0].allows(who, owner, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// `EPERM` unless a process owns a file or has `CAP_FOWNER`.
    pub(crate) fn check_owns(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
    ) -> Result<(), Errno> {
        let (owner, own) = (self.owner_of(processes, key), processes[process.0].credentials.fsuid);
        if processes.overrides(process, capability::FOWNER, owner) || own == owner.0 {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// `EPERM` unless a process may add a hard link to a file (`fs.protected_hardlinks`): to one that it
    /// owns, or to a regular file without privilege bits that it can read and write.
    pub(crate) fn check_may_link(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
    ) -> Result<(), Errno> {
        let inode = &self.inodes[key.0];
        let for_group = SET_GID | c::S_IXGRP;
        let is_plain = inode.node.format() == c::S_IFREG
            && inode.meta.mode & SET_USER == 0
            && inode.meta.mode & for_group != for_group;
        let is_safe = self.protected.get(ProtectedKind::Hardlinks) == 0
            || is_plain && self.check_permission(processes, process, key, READ | WRITE).is_ok();
        if is_safe { Ok(()) } else { self.check_owns(processes, process, key) }
    }

    /// User of the process, owner of the entry, and mode and owner of the directory; `None` if the directory
    /// is not sticky.
    fn in_sticky(
        &self,
        processes: &Processes,
        process: ProcessKey,
        directory: InodeKey,
        key: InodeKey,
    ) -> Option<(u32, u32, (u32, u32))> {
        let mode = self.inodes[directory.0].meta.mode;
        let user = processes[process.0].credentials.fsuid;
        (mode & STICKY != 0)
            .then(|| (user, self.owner_of(processes, key).0, (mode, self.owner_of(processes, directory).0)))
    }

    /// `EACCES` unless a process may follow a symbolic link at the end of a path (`fs.protected_symlinks`).
    pub(crate) fn check_may_follow_last(
        &self,
        processes: &Processes,
        process: ProcessKey,
        directory: InodeKey,
        link: InodeKey,
    ) -> Result<(), Errno> {
        match self.in_sticky(processes, process, directory, link) {
            Some((user, owner, place)) if !self.protected.may_follow(user, owner, place) => {
                Err(Errno::EACCES)
            }
            _ => Ok(()),
        }
    }

    /// `EACCES` unless a process may open an existing entry of a directory with `O_CREAT`
    /// (`fs.protected_regular`, `fs.protected_fifos`).
    pub(crate) fn check_may_open_to_create(
        &self,
        processes: &Processes,
        process: ProcessKey,
        directory: InodeKey,
        key: InodeKey,
    ) -> Result<(), Errno> {
        let kind = self.inodes[key.0].node.format();
        let protected = &self.protected;
        match self.in_sticky(processes, process, directory, key) {
            Some((user, owner, place)) if !protected.may_open_to_create(user, kind, owner, place) => {
                Err(Errno::EACCES)
            }
            _ => Ok(()),
        }
    }

    /// Checks that a process may remove or replace the entry `key` of a directory. `EACCES` without write
    /// permission in the directory; `EPERM` for append-only directories, for entries of others in a sticky
    /// directory, and for immutable or append-only files.
    pub(crate) fn check_may_remove(
        &self,
        processes: &Processes,
        process: ProcessKey,
        directory: InodeKey,
        key: InodeKey,
    ) -> Result<(), Errno> {
        self.check_permission(processes, process, directory, WRITE | EXEC)?;
        let parent = &self.inodes[directory.0].meta;
        if parent.flags.contains(FileFlags::APPEND) {
            return Err(Errno::EPERM);
        }
        if parent.mode & STICKY != 0 {
            self.check_owns(processes, process, directory)
                .or_else(|_| self.check_owns(processes, process, key))?;
        }
        self.inodes[key.0].check_flags(FileFlags::FIXED)
    }

    /// `EPERM` unless a process may change the owner of a file to this user and group (`u32::MAX`:
    /// unchanged).
    pub(crate) fn check_may_give(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
        uid: u32,
        gid: u32,
    ) -> Result<(), Errno> {
        processes.check_may_give(process, self.owner_of(processes, key), uid, gid)?;
        // Only the owner may cause the loss of the set-ID bits.
        let is_kept = self.mode_without_ids(processes, process, key) == self.inodes[key.0].meta.mode;
        if is_kept { Ok(()) } else { self.check_owns(processes, process, key) }
    }

    /// Mode that `chmod(2)` sets: without the set-group-ID bit if the process is not in the file's group.
    pub(crate) fn mode_to_set(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
        mode: u32,
    ) -> u32 {
        let owner = self.owner_of(processes, key);
        if processes.may_set_group(process, owner) { mode & 0o7777 } else { mode & 0o7777 & !SET_GID }
    }

    /// Mode of a file after a change of owner or a write ([`without_ids`]). The mode of a directory is
    /// unchanged.
    pub(crate) fn mode_without_ids(&self, processes: &Processes, process: ProcessKey, key: InodeKey) -> u32 {
        let inode = &self.inodes[key.0];
        let mode = inode.meta.mode;
        let is_of_group = || processes.may_set_group(process, self.owner_of(processes, key));
        if inode.node.is_directory() { mode } else { without_ids(mode, is_of_group()) }
    }

    /// Clears the set-user-ID and set-group-ID bits of a file written by a process without `CAP_FSETID`.
    pub(crate) fn written_by(&mut self, processes: &Processes, process: ProcessKey, key: InodeKey) {
        let mode = self.inodes[key.0].meta.mode;
        if mode & (SET_USER | SET_GID) != 0
            && !processes.overrides(process, capability::FSETID, self.owner_of(processes, key))
        {
            self.inode(key).meta.mode = self.mode_without_ids(processes, process, key);
        }
    }
}
