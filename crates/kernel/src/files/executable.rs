//! Opening of programs for `execve(2)`, of files for `mmap(2)` and of the standard streams of new processes.

use super::open::{OpenRequest, Opened};
use super::permission::{EXEC, READ};
use super::tree::Walk;
use crate::config::Output;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{InodeKey, ProcessKey};
use crate::mm::map::MapSource;
use belljar_linux_abi::landlock::{ACCESS_FS_EXECUTE, ACCESS_FS_READ_FILE};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{NativeFile, OpenHow, Prot};
use belljar_objects::devices::Device;
use belljar_objects::extents::Extents;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::PROC;
use belljar_objects::mounts::{MountFlags, Place};
use belljar_objects::open_file::OpenFile;
use belljar_objects::space::AddressSpace;
use slab::Slab;
use std::os::unix::ffi::OsStrExt;

/// An opened program file.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Native file, owned: the caller closes it.
    pub native: NativeFile,
    /// Mount and inode that the path resolved to.
    pub place: Place,
    /// Absolute guest path with all links resolved, shown as `/proc/self/exe`.
    pub path: Vec<u8>,
    /// Device and inode number as shown to guests.
    pub identity: (u64, u64),
    /// File size in bytes.
    pub size: u64,
    /// User and group of the file.
    pub owner: (u32, u32),
    /// User id that the process assumes, if the file has the set-user-ID bit.
    pub set_uid: Option<u32>,
    /// Group id that the process assumes, if the file has the set-group-ID bit.
    pub set_gid: Option<u32>,
    /// True if the calling process has read permission.
    pub readable: bool,
}

impl Files {
    /// Path of an inode as `/proc` shows it: its former name followed by ` (deleted)` if it has no name any
    /// more.
    pub(crate) fn shown_path(&self, inode: InodeKey) -> Vec<u8> {
        if let Some(path) = self.path_of(inode) {
            return path;
        }
        let inode = &self.inodes[inode.0];
        let name = match (inode.content().and_then(|content| content.memfd.as_deref()), &inode.former_path) {
            (Some(memfd), _) => [b"/memfd:", &memfd.name[..]].concat(),
            (None, Some(path)) => path.to_vec(),
            (None, None) => format!("/tmp/#{}", inode.number).into_bytes(),
        };
        [&name[..], b" (deleted)"].concat()
    }

    /// True if the file is open for writing.
    pub(crate) fn is_written(&self, key: InodeKey) -> bool {
        let written =
            |open: &OpenFile| matches!(open.kind, FileKind::Regular(of) if of == key) && open.is_writable();
        self.open.iter().any(|(_, open)| written(open))
    }
    /// `ETXTBSY` if the file is open for writing. Files that can be sealed (memfd) are exempt.
    fn check_not_written(&mut self, key: InodeKey) -> Result<(), Errno> {
        if self.inode(key).seals().is_err() && self.is_written(key) { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// `ETXTBSY` if a process executes the file, which therefore cannot be written.
    pub(crate) fn check_not_executed(
        &mut self,
        spaces: &Slab<AddressSpace>,
        key: InodeKey,
    ) -> Result<(), Errno> {
        let identity = Some(self.inode(key).identity());
        let executed = spaces.iter().any(|(_, mm)| mm.executes == identity);
        if executed { Err(Errno::ETXTBSY) } else { Ok(()) }
    }
}

impl Host {
    /// Opens the regular file `path`, relative to the process's working directory, for execution. Errors as
    /// for `execve(2)`: `ENOENT`, `EACCES` (no execute permission, not a regular file), `ELOOP`, ...
    pub(crate) fn open_executable(&mut self, process: ProcessKey, path: &[u8]) -> Result<Executable, Errno> {
        self.open_executable_at(process, c::AT_FDCWD, path, Walk::FOLLOW)
    }
    /// Opens a program for `execveat(2)`, relative to `dirfd`. Errors as for
    /// [`open_executable`](Self::open_executable).
    pub(crate) fn open_executable_at(
        &mut self,
        process: ProcessKey,
        dirfd: i32,
        path: &[u8],
        walk: Walk,
    ) -> Result<Executable, Errno> {
        let found = self.resolve(process, dirfd, path, walk)?;
        let place = found.place().map_err(|errno| match errno {
            Errno::EINVAL => Errno::EACCES,
            other => other,
        })?;
        let (flags, key) = (self.files.mount_flags(place), place.1);
        if flags.contains(MountFlags::NO_EXEC) && self.files.inode(key).content().is_some() {
            return Err(Errno::EACCES);
        }
        let native_path = self.content_path(key)?.ok_or(Errno::ENOENT)?;
        self.files.check_permission(&self.processes, process, key, EXEC)?;
        self.files.check_restricted(&self.processes, &found, ACCESS_FS_EXECUTE | ACCESS_FS_READ_FILE)?;
        self.files.check_not_written(key)?;
        let readable = self.files.check_permission(&self.processes, process, key, READ).is_ok();
        let inode = self.files.inode(key);
        let meta = &inode.meta;
        let has_rights = !flags.contains(MountFlags::NO_SUID);
        let set_uid = (has_rights && meta.mode & c::S_ISUID != 0).then_some(meta.uid);
        let with_group = c::S_ISGID | c::S_IXGRP;
        let set_gid = (has_rights && meta.mode & with_group == with_group).then_some(meta.gid);
        let owner = (meta.uid, meta.gid);
        let (identity, size) = (inode.identity(), inode.content().map_or(0, |content| content.size));
        let native = self.open_native(&native_path, OpenHow::default())?;
        let path = self.files.path_of_place(place).unwrap_or_else(|| self.files.shown_path(key));
        Ok(Executable { native, place, path, identity, size, owner, set_uid, set_gid, readable })
    }
    /// Object that `mmap(2)` of a descriptor maps; `None` for `/dev/zero`, which is anonymous memory.
    /// `EBADF`; `EACCES` if not open for the access that the mapping needs; `ENODEV` if the file cannot be
    /// mapped.
    pub(crate) fn map_source(
        &mut self,
        process: ProcessKey,
        fd: i32,
        (offset, len): (u64, u64),
        prot: Prot,
        shared: bool,
    ) -> Result<Option<MapSource>, Errno> {
        let file = self.file_of(process, fd)?;
        let no_exec = self.files.file_flags(file).contains(MountFlags::NO_EXEC);
        let open = self.files.open(file);
        if matches!(open.kind, FileKind::Path(_)) {
            return Err(Errno::EBADF);
        }
        let (readable, writable) = (open.is_readable(), open.is_writable());
        if !readable || (shared && prot.contains(Prot::WRITE) && !writable) {
            return Err(Errno::EACCES);
        }
        if no_exec && prot.contains(Prot::EXEC) {
            return Err(Errno::EPERM);
        }
        let mut may_write = shared && writable;
        if let FileKind::Virtual { inode, .. } = open.kind {
            self.take_over(inode)?;
        }
        let inode = match &self.files.open[file.0].kind {
            FileKind::Regular(inode) => *inode,
            FileKind::Device { device: Device::Zero, .. } => return Ok(None),
            FileKind::Uring(n) if shared => {
                let n = *n;
                return crate::uring::map_source(&self.urings, n, len, offset).map(Some);
            }
            FileKind::Socket(socket) if shared => {
                let socket = *socket;
                return self.packet_ring_source(socket, len, offset).map(Some);
            }
            // As in procfs, `proc_reg_mmap`.
            FileKind::Virtual { inode, .. } if self.files.inodes[inode.0].device == PROC => {
                return Err(Errno::EIO);
            }
            _ => return Err(Errno::ENODEV),
        };
        if may_write && self.files.inode(inode).check_flags(FileFlags::APPEND).is_err() {
            return Err(Errno::EACCES);
        }
        if may_write && let Some(content) = self.files.inode(inode).content_mut() {
            let sealed = content.memfd.as_ref().map_or(0, |memfd| memfd.seals);
            let sealed = sealed & (c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE) != 0;
            if sealed && prot.contains(Prot::WRITE) {
                return Err(Errno::EPERM);
            }
            may_write = !sealed;
            // Writes through the mapping are not seen here, so the whole file counts as allocated.
            if may_write {
                content.extents = Extents::Everything;
            }
        }
        let native = self.native_of(inode)?;
        let path = self.files.shown_path(inode);
        let identity = self.files.inode(inode).identity();
        Ok(Some(MapSource { native, offset, path: path.into(), identity, file: Some(file), may_write }))
    }

    /// Opens descriptors 0, 1 and 2 of a new process according to the `Output` of its spec.
    pub(crate) fn open_standard_streams(&mut self, process: ProcessKey, spec: usize) -> Result<(), Errno> {
        match self.config.processes[spec].output {
            Output::PassedThrough => {
                for stream in 0..3u8 {
                    let flags = if stream == 0 { c::O_RDONLY } else { c::O_WRONLY };
                    let file = self.files.open_file(FileKind::NativeStream(stream), flags);
                    self.install_fd(process, file, false, usize::from(stream))?;
                }
            }
            Output::Terminal(size) => crate::attended::open_terminal(self, process, spec, size)?,
            Output::Pipes => crate::attended::open_pipes(self, process, spec)?,
            Output::Files => {
                let program = self.config.processes[spec].output_name();
                let stem = format!("{program}.{}", self.processes[process.0].pid);
                let mut path = self.config.directory.as_os_str().as_bytes().to_vec();
                path.push(b'/');
                path.extend_from_slice(stem.as_bytes());
                self.open_stream(process, b"/dev/null", c::O_RDONLY, 0)?;
                for (fd, suffix) in [(1, ".stdout"), (2, ".stderr")] {
                    let path = [&path, suffix.as_bytes()].concat();
                    self.open_stream(
                        process,
                        &path,
                        c::O_WRONLY | c::O_CREAT | c::O_TRUNC | c::O_APPEND,
                        fd,
                    )?;
                }
            }
        }
        Ok(())
    }
    fn open_stream(&mut self, process: ProcessKey, path: &[u8], flags: i32, fd: usize) -> Result<(), Errno> {
        let request =
            OpenRequest { dirfd: c::AT_FDCWD, path, flags, mode: 0o644, walk: Walk::empty(), again: false };
        // Opened with the experiment's own rights, not those of the process's user.
        let who = std::mem::take(&mut self.process(process).credentials);
        let is_full = std::mem::take(&mut self.files.disk_is_full);
        let opened = self.open_path(process, request);
        self.files.disk_is_full = is_full;
        self.process(process).credentials = who;
        if let Opened::File(file) = opened? {
            self.install_fd(process, file, false, fd)?;
        }
        Ok(())
    }
}
