//! Opening files by path, `open(2)`.

use super::fifo::FifoOpen;
use super::permission::{EXEC, READ, WRITE};
use super::tree::{Found, Target, Walk};
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, ProcessKey, WaitQueueId};
use belljar_base::SimTime;
use belljar_linux_abi::landlock::{ACCESS_FS_MAKE_REG, ACCESS_FS_READ_FILE, ACCESS_FS_WRITE_FILE};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::offload;
use belljar_netstack::tun::Tun;
use belljar_objects::devices::Device;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{FormerEntry, MEMORY, Memfd, Node, ROOT};
use belljar_objects::mounts::{MountFlags, Place};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::virtual_files::VirtualFile;

/// Status flags and access mode, which stay with an open file and are shown by `F_GETFL`.
const KEPT_FLAGS: i32 = !(c::O_CREAT | c::O_EXCL | c::O_NOCTTY | c::O_TRUNC | c::O_CLOEXEC);
/// `__O_TMPFILE` without `O_DIRECTORY`, which [`c::O_TMPFILE`] includes.
const TMPFILE: i32 = c::O_TMPFILE & !c::O_DIRECTORY;

/// Arguments of an open.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a> {
    /// Directory that a relative path starts from.
    pub dirfd: i32,
    /// Path.
    pub path: &'a [u8],
    /// `O_*`.
    pub flags: i32,
    /// Mode of a file that is created, before the umask is applied.
    pub mode: u32,
    /// Restrictions on resolution, `openat2(2)`.
    pub walk: Walk,
    /// True if the call continues after blocking, for the other end of a FIFO, a lease or a permission.
    pub again: bool,
}

/// Result of an open that did not fail.
#[derive(Debug)]
pub enum Opened {
    /// Opened, with this open file.
    File(FileKey),
    /// Block on this queue: without a deadline for the other end of a FIFO, with one until a lease is
    /// released.
    Wait(WaitQueueId, Option<SimTime>),
    /// Block on this queue until fanotify listeners have answered the permission request.
    Asked(WaitQueueId),
}

impl Files {
    /// Creates an open file over an inode, reached through `mount`, and counts it as a use of the inode.
    fn open_inode(
        &mut self,
        kind: FileKind,
        mount: Option<MountKey>,
        inode: InodeKey,
        flags: i32,
    ) -> FileKey {
        self.inode(inode).opens += 1;
        // `O_LARGEFILE`, which Linux sets for every file that a 64-bit program opens for reading or writing.
        let large = if flags & c::O_PATH == 0 { 0o100000 } else { 0 };
        let file = self.open_file(kind, flags & KEPT_FLAGS | large);
        if let Some(mount) = mount {
            self.opened_in(mount, file);
        }
        file
    }
}

impl Host {
    /// Opens a file by path; the caller installs the descriptor.
    pub(crate) fn open_path(
        &mut self,
        process: ProcessKey,
        request: OpenRequest<'_>,
    ) -> Result<Opened, Errno> {
        let mut flags = request.flags;
        if flags & c::O_PATH != 0 {
            flags &= c::O_PATH | c::O_DIRECTORY | c::O_NOFOLLOW | c::O_CLOEXEC;
        }
        if flags & TMPFILE != 0 && (flags & c::O_DIRECTORY == 0 || flags & c::O_ACCMODE == c::O_RDONLY) {
            return Err(Errno::EINVAL);
        }
        let exclusive = flags & c::O_CREAT != 0 && flags & c::O_EXCL != 0;
        let mut walk = request.walk;
        if flags & c::O_NOFOLLOW == 0 && !exclusive {
            walk |= Walk::FOLLOW;
        }
        let found = self.resolve(process, request.dirfd, request.path, walk)?;
        if flags & TMPFILE != 0 {
            return self.open_unnamed(process, &found, &request).map(Opened::File);
        }
        let inode = match found.target {
            None if flags & c::O_CREAT == 0 => return Err(Errno::ENOENT),
            None => {
                if found.slash {
                    return Err(Errno::EISDIR);
                }
                if flags & c::O_DIRECTORY != 0 {
                    return Err(Errno::EINVAL);
                }
                let mode = found.mode_of_new(self, request.mode);
                let inode = self.create_file(&found, mode)?;
                let rights = self.files.inode(inode).node.rights_to_open(flags & !c::O_TRUNC);
                let withheld = self
                    .files
                    .check_restricted(&self.processes, &found, rights)
                    .inspect_err(|_| self.files.close_native(&mut *self.machine, inode))?;
                if let Some(queue) = self.ask_permission(Some(found.mount), inode, c::FAN_OPEN_PERM)? {
                    return Ok(Opened::Asked(queue));
                }
                let kind = FileKind::Regular(inode);
                let file = self.open_inode_file(kind, Some(found.mount), inode, flags);
                let open = self.files.open(file);
                (open.withheld, open.created) = (withheld, true);
                return Ok(Opened::File(file));
            }
            // A continued call has created the file itself and was blocked before opening it.
            Some(_) if exclusive && !request.again => return Err(Errno::EEXIST),
            Some(Target::File(file)) => {
                // A magic link to an anonymous file yields another reference to the same open file.
                self.files.retain_file(file);
                return Ok(Opened::File(file));
            }
            Some(Target::Inode(inode)) => inode,
        };
        if flags & c::O_CREAT != 0 && !request.again && !self.files.inode(inode).node.is_directory() {
            self.files.check_may_open_to_create(&self.processes, process, found.parent, inode)?;
        }
        let place = (found.target_mount, inode);
        let rights = self.files.inode(inode).node.rights_to_open(flags);
        let withheld = self.files.check_restricted(&self.processes, &found, rights)?;
        let opened = self.open_inode(process, place, flags, found.slash, request.again)?;
        if let Opened::File(file) = opened {
            self.files.open(file).withheld = withheld;
        }
        Ok(opened)
    }

    /// Opens an existing file.
    fn open_inode(
        &mut self,
        process: ProcessKey,
        place: Place,
        flags: i32,
        slash: bool,
        again: bool,
    ) -> Result<Opened, Errno> {
        let key = place.1;
        let flags_here = self.files.mount_flags(place);
        let inode = self.files.inode(key);
        let identity = inode.identity();
        let writes = flags & c::O_ACCMODE != c::O_RDONLY;
        if (flags & c::O_DIRECTORY != 0 || slash) && !inode.node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if flags & c::O_PATH != 0 {
            return Ok(Opened::File(self.open_inode_file(FileKind::Path(key), Some(place.0), key, flags)));
        }
        let changes = writes || flags & (c::O_CREAT | c::O_TRUNC) != 0;
        if changes && inode.node.is_directory() {
            return Err(Errno::EISDIR);
        }
        if !again && !inode.node.is_symlink() {
            let access = match flags & c::O_ACCMODE {
                c::O_RDONLY => READ,
                c::O_WRONLY => WRITE,
                _ => READ | WRITE,
            };
            let cut = if flags & c::O_TRUNC != 0 { WRITE } else { 0 };
            if matches!(inode.node, Node::Device(_)) && flags_here.contains(MountFlags::NO_DEVICES) {
                return Err(Errno::EACCES);
            }
            let special = matches!(inode.node, Node::Device(_) | Node::Fifo | Node::Socket);
            let changes = (access | cut) & WRITE != 0 && !special;
            if changes && (cut != 0 || self.files.mounts.is_read_only(self.files.inodes[key.0].device)) {
                self.files.check_writable(place)?;
            }
            self.files.check_permission(&self.processes, process, key, access | cut)?;
            if changes {
                self.files.check_writable(place)?;
            }
            if writes && flags & c::O_APPEND == 0 || flags & c::O_TRUNC != 0 {
                self.files.inode(key).check_flags(FileFlags::APPEND)?;
            }
            if flags & c::O_NOATIME != 0 {
                self.files.check_owns(&self.processes, process, key)?;
            }
        }
        if let Some(queue) = self.ask_permission(Some(place.0), key, c::FAN_OPEN_PERM)? {
            return Ok(Opened::Asked(queue));
        }
        let broken = self.break_leases(key, writes || flags & c::O_TRUNC != 0, flags & c::O_NONBLOCK == 0)?;
        if let Some((queue, until)) = broken {
            return Ok(Opened::Wait(queue, Some(until)));
        }
        if writes || flags & c::O_TRUNC != 0 {
            if flags & c::O_TRUNC != 0 && self.size_of(key)? > 0 {
                self.files.check_seals(key, c::F_SEAL_SHRINK)?;
            }
            self.files.check_not_executed(&self.spaces, key)?;
            self.take_over(key)?;
        }
        let kind = match &self.files.inode(key).node {
            Node::Symlink { .. } | Node::Magic(_) => return Err(Errno::ELOOP),
            Node::Directory(_) => FileKind::Directory { inode: key, listing: None },
            Node::Socket => return Err(Errno::ENXIO),
            Node::Device(Device::Ptmx) => self.open_ptmx(process, key)?,
            Node::Device(Device::NetTun) => {
                let network = self.network_of_caller();
                let tun = Tun::new(network, offload::HEADER_LEN);
                FileKind::Tun { inode: key, tun: self.stack_mut(network).tuns.insert(tun) }
            }
            Node::Device(Device::Pts(pty, number)) => {
                let (pty, number) = (*pty as usize, *number);
                self.files.open_slave(&mut self.processes, process, pty, number, flags)?
            }
            Node::Device(Device::Tty) => self.files.open_controlling_terminal(&self.processes, process)?,
            Node::Device(device) => {
                device.open()?;
                FileKind::Device { inode: key, device: *device }
            }
            Node::Virtual(VirtualFile::Namespace(..)) if writes => return Err(Errno::EPERM),
            Node::Virtual(file) => {
                if let VirtualFile::Namespace(NamespaceKind::Mounts, number) = *file {
                    self.files.mounts.enter(number);
                }
                FileKind::Virtual {
                    inode: key,
                    content: None,
                    mounts: self.files.watched_mounts(&self.processes, key),
                }
            }
            Node::Fifo => {
                return Ok(match self.open_fifo((key, identity), flags, again)? {
                    FifoOpen::Wait(queue) => Opened::Wait(queue, None),
                    FifoOpen::Opened(kind, offset) => {
                        let file = self.files.open_file(kind, flags & KEPT_FLAGS | 0o100000);
                        self.files.open(file).offset = offset;
                        self.file_event_under(None, Some(Some(place.0)), key, c::IN_OPEN);
                        Opened::File(file)
                    }
                });
            }
            Node::Regular(_) => {
                if flags & c::O_TRUNC != 0 {
                    self.files.written_by(&self.processes, process, key);
                    self.set_size(key, 0)?;
                }
                if writes {
                    self.copy_up(key, u64::MAX)?;
                }
                // A file that the simulator may not read fails here, not at the first read.
                self.native_of(key)?;
                FileKind::Regular(key)
            }
        };
        let key = kind.inode().unwrap_or(key);
        let file = self.open_inode_file(kind, Some(place.0), key, flags);
        if flags & c::O_TRUNC != 0 {
            self.file_event(key, c::IN_MODIFY);
        }
        Ok(Opened::File(file))
    }

    /// Creates an open file over an inode, reached through `mount`, and reports `IN_OPEN` unless `O_PATH` is
    /// set.
    pub(crate) fn open_inode_file(
        &mut self,
        kind: FileKind,
        mount: Option<MountKey>,
        inode: InodeKey,
        flags: i32,
    ) -> FileKey {
        let file = self.files.open_inode(kind, mount, inode, flags);
        if flags & c::O_PATH == 0 {
            self.open_file_event(file, inode, c::IN_OPEN);
        }
        file
    }

    /// Opens the inode of `held` again for the reader of a fanotify event; accesses through the new open file
    /// generate no events.
    pub(crate) fn open_silently(&mut self, held: FileKey, flags: i32) -> Result<FileKey, Errno> {
        let open = self.files.open(held);
        let (mount, inode) = (open.mount, open.kind.inode().ok_or(Errno::EINVAL)?);
        if flags & c::O_ACCMODE != c::O_RDONLY {
            self.files.check_file_writable(held)?;
            self.files.check_not_executed(&self.spaces, inode)?;
            self.take_over(inode)?;
            self.copy_up(inode, u64::MAX)?;
        }
        let kind = match &self.files.inode(inode).node {
            Node::Directory(_) => FileKind::Directory { inode, listing: None },
            Node::Virtual(_) => FileKind::Virtual { inode, content: None, mounts: None },
            _ => {
                self.native_of(inode)?;
                FileKind::Regular(inode)
            }
        };
        let file = self.files.open_inode(kind, mount, inode, flags);
        self.files.open(file).silent = true;
        Ok(file)
    }

    /// Creates an empty regular file at a resolved path; its native descriptor stays cached.
    fn create_file(&mut self, found: &Found, mode: u32) -> Result<InodeKey, Errno> {
        self.files.check_can_create(&self.processes, found, ACCESS_FS_MAKE_REG)?;
        let (content, native) = self.create_own_file(found.parent, &found.name)?;
        let inode = self.new_inode_at(found, Node::Regular(content), mode);
        self.files.add_name(found.parent, &found.name, inode);
        self.files.keep_native(&mut *self.machine, inode, native);
        self.content_changed(found.parent);
        self.created_event(found.parent, &found.name, inode);
        Ok(inode)
    }

    /// `mknod(2)` of a regular file: creates it and closes its native descriptor.
    pub(crate) fn create_closed_file(&mut self, found: &Found, mode: u32) -> Result<InodeKey, Errno> {
        let inode = self.create_file(found, mode)?;
        self.files.close_native(&mut *self.machine, inode);
        Ok(inode)
    }

    /// `O_TMPFILE`: creates and opens a nameless file in the directory that `found` refers to.
    fn open_unnamed(
        &mut self,
        process: ProcessKey,
        found: &Found,
        request: &OpenRequest<'_>,
    ) -> Result<FileKey, Errno> {
        let directory = found.inode()?;
        if !self.files.inode(directory).node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        self.files.check_writable((found.target_mount, directory))?;
        self.files.check_permission(&self.processes, process, directory, WRITE | EXEC)?;
        let reads = if request.flags & c::O_ACCMODE == c::O_RDWR { ACCESS_FS_READ_FILE } else { 0 };
        let withheld = self.files.check_restricted(
            &self.processes,
            found,
            ACCESS_FS_MAKE_REG | ACCESS_FS_WRITE_FILE | reads,
        )?;
        let mode = request.mode & !self.processes[process.0].umask;
        let inode = self.unnamed_file(directory, mode)?;
        let (uid, gid) = found.owner;
        let meta = &mut self.files.inode(inode).meta;
        (meta.uid, meta.gid) = (uid, gid);
        // With `O_EXCL` it can never be given a name.
        self.files.inode(inode).changed = request.flags & c::O_EXCL == 0;
        let directory = (directory, self.files.inode(directory).number);
        let name = format!("#{}", self.files.inode(inode).number).into_bytes().into();
        let entry = FormerEntry { directory, name };
        self.files.inode(inode).former_entry = Some(entry.clone());
        let kind = FileKind::Regular(inode);
        let file = self.open_inode_file(kind, Some(found.target_mount), inode, request.flags);
        self.files.open(file).unnamed = Some(entry);
        self.files.open(file).withheld = withheld;
        Ok(file)
    }

    /// Creates a regular file without a name.
    fn unnamed_file(&mut self, near: InodeKey, mode: u32) -> Result<InodeKey, Errno> {
        let (content, native) = self.create_unnamed()?;
        let inode = self.new_inode(near, Node::Regular(content), mode);
        self.files.keep_native(&mut *self.machine, inode, native);
        Ok(inode)
    }

    /// `memfd_create(2)`: an open file in memory, shown as `/memfd:<name>`.
    pub(crate) fn create_memfd(&mut self, name: Vec<u8>, mode: u32, seals: i32) -> Result<FileKey, Errno> {
        let inode = self.unnamed_file(ROOT, mode)?;
        self.files.inode(inode).device = MEMORY;
        if let Some(content) = self.files.inode(inode).content_mut() {
            content.memfd = Some(Box::new(Memfd { name, seals }));
        }
        Ok(self.open_inode_file(FileKind::Regular(inode), None, inode, c::O_RDWR))
    }
}
