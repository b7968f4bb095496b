//! Permission checks of files: mode bits against the identity of the calling process, `path_resolution(7)`
//! "Permissions". The superuser may do everything but execute a file that nobody may execute.

use super::tree::{DirectorySource, NAMESPACE, Node, PROC, SYS};
use super::virtual_files::{MagicLink, VirtualFile};
use crate::credentials::{Credentials, capability};
use crate::files::Files;
use crate::ids::{InodeKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_flags::FileFlags;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::protected::ProtectedKind;

/// May be read.
pub const READ: u32 = 4;
/// May be written; in a directory, names may be made and removed.
pub const WRITE: u32 = 2;
/// May be executed; a directory may be passed through.
pub const EXEC: u32 = 1;

/// The set-group-id bit; on a directory, what is made in it belongs to its group.
const SET_GID: u32 = 0o2000;
/// The set-user-id bit.
const SET_USER: u32 = 0o4000;
/// On a directory, only owners remove.
const STICKY: u32 = 0o1000;

/// A mode without the set-user-ID bit, and without the set-group-ID bit if the group may execute the file or whoever asks is not of it.
pub fn without_ids(mode: u32, is_of_group: bool) -> u32 {
    let keeps_group = mode & c::S_IXGRP == 0 && is_of_group;
    mode & if keeps_group { !SET_USER } else { !(SET_USER | SET_GID) }
}

impl Files {
    fn check_superuser_access(&self, key: InodeKey, wanted: u32) -> Result<(), Errno> {
        let inode = &self.inodes[key.0];
        let allowed = wanted & EXEC == 0 || inode.node.is_directory() || inode.meta.mode & 0o111 != 0;
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Group and mode of what is made in a directory by a process of group `gid`: a set-group-id
    /// directory passes its group on, and the bit to directories.
    pub(crate) fn inherited(
        &self,
        directory: InodeKey,
        gid: u32,
        mode: u32,
        makes_directory: bool,
    ) -> (u32, u32) {
        let parent = &self.inodes[directory.0].meta;
        match parent.mode & SET_GID {
            0 => (gid, mode),
            bit => (parent.gid, if makes_directory { mode | bit } else { mode }),
        }
    }

    /// `EPERM` for files with any of these flags.
    pub(crate) fn check_flags(&self, key: InodeKey, flags: FileFlags) -> Result<(), Errno> {
        if self.inodes[key.0].meta.flags.intersects(flags) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `EPERM` for files whose mode, owner and times are the system's.
    pub(crate) fn check_changeable(&mut self, key: InodeKey) -> Result<(), Errno> {
        if matches!(self.inode(key).device, PROC | SYS | NAMESPACE) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// User and group of a file. Those of `/proc/<pid>` are the process's.
    pub(crate) fn owner_of(&self, processes: &Processes, key: InodeKey) -> (u32, u32) {
        let inode = &self.inodes[key.0];
        let pid = match &inode.node {
            Node::Directory(directory) => match directory.source {
                DirectorySource::Process(pid)
                | DirectorySource::Thread(pid, _)
                | DirectorySource::Descriptors { pid, .. }
                | DirectorySource::Tasks(pid)
                | DirectorySource::Namespaces(pid) => Some(pid),
                _ => None,
            },
            Node::Virtual(
                VirtualFile::Process(pid, _)
                | VirtualFile::Thread(pid, ..)
                | VirtualFile::DescriptorInfo(pid, _),
            )
            | Node::Magic(
                MagicLink::Executable(pid)
                | MagicLink::WorkingDirectory(pid)
                | MagicLink::Root(pid)
                | MagicLink::Namespace(pid, _)
                | MagicLink::Descriptor(pid, _),
            ) => Some(*pid),
            _ => None,
        };
        match pid.and_then(|pid| processes.by_pid.get(&pid)) {
            Some(process) => {
                let who = &processes[process.0].credentials;
                (who.euid, who.egid)
            }
            None => (inode.meta.uid, inode.meta.gid),
        }
    }

    /// True if the mode bits let somebody do with a file all that `wanted` says.
    fn allows(&self, processes: &Processes, who: &Credentials, key: InodeKey, wanted: u32) -> bool {
        let mode = self.inodes[key.0].meta.mode;
        let (owner, group) = self.owner_of(processes, key);
        let granted = if who.fsuid == owner {
            mode >> 6
        } else if who.fsgid == group || who.groups.contains(&group) {
            mode >> 3
        } else {
            mode
        };
        granted & wanted == wanted
    }

    /// `EACCES` unless a process may do all that `wanted` says.
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
        // Settings of a network are its administrator's.
        let administers =
            matches!(
                self.inodes[key.0].node,
                Node::Virtual(VirtualFile::Tunable(_) | VirtualFile::InterfaceSetting(_))
            ) && processes.require_for(process, NamespaceKind::Net, capability::NET_ADMIN).is_ok();
        let superuser = overrides(capability::DAC_OVERRIDE) || searches || administers;
        if wanted & WRITE != 0 && self.inodes[key.0].meta.flags.contains(FileFlags::IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        if superuser {
            return self.check_superuser_access(key, wanted);
        }
        if self.allows(processes, who, key, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// `EPERM` unless a process owns a file.
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

    /// `EPERM` unless a process may give a file another name (`fs.protected_hardlinks`): its own, or one that it may read and write, and
    /// that is nobody's program with rights.
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

    /// The user of a process, the owner of something in a directory, and mode and owner of the directory, if only owners remove from it.
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

    /// `EACCES` unless a process may follow the symbolic link that ends a path (`fs.protected_symlinks`).
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

    /// `EACCES` unless a process may open with `O_CREAT` what is in a directory already (`fs.protected_regular`, `fs.protected_fifos`).
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

    /// Checks that a process may remove or replace the name of `key` in a directory: `EACCES` without
    /// the right to write there, `EPERM` where only owners may.
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
        self.check_flags(key, FileFlags::FIXED)
    }

    /// `EPERM` unless a process may give a file to this user and group (`u32::MAX`: as they are).
    pub(crate) fn check_may_give(
        &self,
        processes: &Processes,
        process: ProcessKey,
        key: InodeKey,
        uid: u32,
        gid: u32,
    ) -> Result<(), Errno> {
        processes.check_may_give(process, self.owner_of(processes, key), uid, gid)?;
        // The bits that a file loses are its owner's.
        let is_kept = self.mode_without_ids(processes, process, key) == self.inodes[key.0].meta.mode;
        if is_kept { Ok(()) } else { self.check_owns(processes, process, key) }
    }

    /// The mode that `chmod(2)` gives: a group that the process is not in loses its bit.
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

    /// The mode of a file whose owner changes, or that is written to ([`without_ids`]). Directories keep theirs.
    pub(crate) fn mode_without_ids(&self, processes: &Processes, process: ProcessKey, key: InodeKey) -> u32 {
        let inode = &self.inodes[key.0];
        let mode = inode.meta.mode;
        let is_of_group = || processes.may_set_group(process, self.owner_of(processes, key));
        if inode.node.is_directory() { mode } else { without_ids(mode, is_of_group()) }
    }

    /// Clears the set-user-id and set-group-id bits of a file that another program writes to.
    pub(crate) fn written_by(&mut self, processes: &Processes, process: ProcessKey, key: InodeKey) {
        let mode = self.inodes[key.0].meta.mode;
        if mode & (SET_USER | SET_GID) != 0
            && !processes.overrides(process, capability::FSETID, self.owner_of(processes, key))
        {
            self.inode(key).meta.mode = self.mode_without_ids(processes, process, key);
        }
    }
}
