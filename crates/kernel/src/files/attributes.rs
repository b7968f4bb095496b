//! File attributes, `stat(2)`, `statx(2)` and `statfs(2)`.

use super::tree::Target;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey};
use belljar_linux_abi::c;
use belljar_linux_abi::file::{FileTime, Stat, Statfs, Statx, StatxTime};
use belljar_linux_net::socket_inode;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{DISK, Meta, NAMESPACE, Node, PROC, PTS, SYS};
use belljar_objects::mounts::statmount::UNIQUE;

/// Magic numbers of file systems that `libc` does not list.
const DEVPTS_SUPER_MAGIC: i64 = 0x1cd1;
const SYSFS_MAGIC: i64 = 0x6265_6572;
const PIPEFS_MAGIC: i64 = 0x5049_5045;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
const BLOCK: u64 = 4_096;
/// `STATX_MNT_ID`, `STATX_MNT_ID_UNIQUE`, `STATX_ATTR_MOUNT_ROOT`.
const MOUNT_ID: u32 = 0x1000;
const UNIQUE_MOUNT_ID: u32 = 0x4000;
const MOUNT_ROOT: u64 = 0x2000;
/// Device number of files without inodes: pipes, sockets and the like.
const ANONYMOUS_DEVICE: u64 = 0xd;
/// Base of the inode numbers of the simulator's own standard streams.
const STREAM_NUMBERS: u64 = 9_000_000;

/// File attributes from which `stat(2)` and `statx(2)` are answered.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct FileAttributes {
    pub device: u64,
    pub number: u64,
    pub links: u64,
    /// File type and permission bits.
    pub mode: u32,
    pub meta: Meta,
    pub rdev: u64,
    pub size: u64,
    /// Allocated bytes.
    pub allocated: u64,
    /// Mount id, and true if the file is the root of that mount.
    pub mount: (u32, bool),
    /// Flags as in `stx_attributes`, and the mask of flags that the file system supports.
    pub flags: (u64, u64),
}

impl Files {
    /// Inode of an open FIFO.
    pub(super) fn fifo_inode(&mut self, file: FileKey) -> Option<InodeKey> {
        self.pipe_of(file)?.fifo?.inode
    }

    /// Magic number (`f_type`) of the file system with this device number.
    pub(crate) fn file_system_kind(&self, device: u64) -> i64 {
        let system = self.mounts.system(device).filter(|system| !system.seed);
        match device {
            DISK => c::EXT4_SUPER_MAGIC,
            PROC => c::PROC_SUPER_MAGIC,
            SYS => SYSFS_MAGIC,
            PTS => DEVPTS_SUPER_MAGIC,
            ANONYMOUS_DEVICE => PIPEFS_MAGIC,
            NAMESPACE => c::NSFS_MAGIC,
            _ if system.is_some_and(|system| system.kind == "ramfs") => RAMFS_MAGIC,
            _ => c::TMPFS_MAGIC,
        }
    }

    /// `statfs(2)` of the file system with device number `device`, in `mount`.
    pub(crate) fn file_system(&self, mount: MountKey, device: u64) -> Statfs {
        let flags = Files::statfs_flags(self.mounts.flags(mount, device));
        let blocks = match device {
            DISK => 16 << 20,
            PROC | SYS | PTS | ANONYMOUS_DEVICE | NAMESPACE => 0,
            _ => 1 << 19,
        };
        let system = self.mounts.system(device).filter(|system| !system.seed);
        let room = system.map(|system| system.room.unwrap_or_default());
        let (blocks, used, files, used_files) = match room {
            Some(room) => (room.bytes / BLOCK, room.used_bytes / BLOCK, room.files, room.used_files),
            None => (blocks, blocks / 2, blocks / 4, blocks / 8),
        };
        // An unlimited file system reports totals and use of 0.
        let (used, used_files) = (used.min(blocks), used_files.min(files));
        Statfs {
            kind: self.file_system_kind(device),
            bsize: BLOCK as i64,
            blocks,
            bfree: blocks - used,
            bavail: blocks - used,
            files,
            ffree: files - used_files,
            fsid: device,
            namelen: 255,
            frsize: BLOCK as i64,
            flags,
            spare: [0; 4],
        }
    }
}

impl Host {
    /// Attributes of the target of a resolved path.
    pub(crate) fn attributes(&mut self, target: Target) -> FileAttributes {
        match target {
            Target::Inode(inode) => self.inode_attributes(inode),
            Target::File(file) => self.file_attributes(file),
        }
    }
    /// Attributes of an open file.
    pub(crate) fn file_attributes(&mut self, file: FileKey) -> FileAttributes {
        if let Some(inode) = self.files.open(file).kind.inode().or_else(|| self.files.fifo_inode(file)) {
            return self.inode_attributes(inode);
        }
        let (mode, number) = match &self.files.open[file.0].kind {
            FileKind::PipeReader(n) | FileKind::PipeWriter(n) | FileKind::PipeBoth(n) => {
                (c::S_IFIFO | 0o600, n.0 as u64)
            }
            FileKind::Socket(n) => (c::S_IFSOCK | 0o777, socket_inode(self.stack_of(*n), *n) - 1),
            FileKind::NativeStream(n) => (c::S_IFIFO | 0o600, STREAM_NUMBERS + u64::from(*n)),
            _ => (0o600, 0),
        };
        let place = self.files.open[file.0].kind.place();
        let changed = self.files.unnamed.get(&place).and_then(|unnamed| unnamed.meta);
        FileAttributes {
            device: ANONYMOUS_DEVICE,
            number: number + 1,
            links: 1,
            mode: changed.map_or(mode, |meta| mode & c::S_IFMT | meta.mode),
            meta: changed.unwrap_or_default(),
            rdev: 0,
            size: 0,
            allocated: 0,
            mount: (1, false),
            flags: (0, 0),
        }
    }
    /// Link count of a directory: its name, its own `.` and the `..` of its subdirectories.
    fn directory_links(&mut self, key: InodeKey) -> u64 {
        if self.files.inode(key).is_nameless() {
            return 0;
        }
        if matches!(self.files.inode(key).device, PROC | SYS) {
            return 2;
        }
        // An unreadable directory counts no subdirectories.
        let entries = self.list(key).unwrap_or_default();
        2 + entries.iter().filter(|entry| entry.format == c::S_IFDIR).count() as u64
    }
    fn inode_attributes(&mut self, key: InodeKey) -> FileAttributes {
        // The size of a shared file may have changed; on an error the last known size stands.
        let _ = self.size_of(key);
        let owner = self.files.owner_of(&self.processes, key);
        let directory_links = match self.files.inode(key).node.is_directory() {
            true => self.directory_links(key),
            false => 0,
        };
        // Virtual files on other file systems report the length of their content; those of /proc and /sys
        // report 0.
        let made_up = matches!(self.files.inode(key).node, Node::Virtual(_))
            && !matches!(self.files.inode(key).device, PROC | SYS);
        let made_up =
            if made_up { self.virtual_content(key).map_or(0, |bytes| bytes.len() as u64) } else { 0 };
        let memory = self.files.mounts.mounted_kind(self.files.inodes[key.0].device);
        let inode = self.files.inode(key);
        let (size, rdev) = match &inode.node {
            Node::Regular(content) => (content.size, 0),
            Node::Virtual(_) => (made_up, 0),
            Node::Directory(_) if matches!(inode.device, PROC | SYS) => (0, 0),
            Node::Directory(_) if memory == Some("ramfs") => (0, 0),
            Node::Directory(directory) if memory.is_some() => (20 * (2 + directory.entries.len() as u64), 0),
            Node::Directory(_) => (BLOCK, 0),
            Node::Symlink { target, .. } => (target.len() as u64, 0),
            Node::Magic(_) => (64, 0),
            Node::Device(device) => (0, device.number()),
            Node::Fifo | Node::Socket => (0, 0),
        };
        let allocated = match &inode.node {
            Node::Regular(content) => content.extents.allocated(size),
            Node::Directory(_) if memory.is_none() => size,
            Node::Virtual(_) => size.next_multiple_of(BLOCK),
            _ => 0,
        };
        let links = if inode.node.is_directory() {
            directory_links
        } else if inode.device == NAMESPACE {
            1
        } else {
            let unseen = inode.lower_links.map_or(0, |(_, unseen)| unseen);
            inode.links.len() as u64 + u64::from(unseen)
        };
        let mut meta = inode.meta;
        (meta.uid, meta.gid) = owner;
        FileAttributes {
            device: inode.device,
            number: inode.number,
            links,
            mode: inode.node.format() | inode.meta.mode,
            meta,
            rdev,
            size,
            allocated,
            mount: (1, false),
            flags: meta.flags.attributes(self.files.flag_system(key)),
        }
    }
}

impl FileAttributes {
    fn blocks(&self) -> u64 {
        self.allocated / 512
    }
    /// Attributes as `struct stat`.
    pub fn stat(&self) -> Stat {
        let times = self.meta.times;
        Stat {
            dev: self.device,
            ino: self.number,
            nlink: self.links,
            mode: self.mode,
            uid: self.meta.uid,
            gid: self.meta.gid,
            rdev: self.rdev,
            size: self.size as i64,
            blksize: BLOCK as i64,
            blocks: self.blocks() as i64,
            atime: FileTime::from_nanos(times.access),
            mtime: FileTime::from_nanos(times.modify),
            ctime: FileTime::from_nanos(times.change),
            ..Stat::default()
        }
    }
    /// Attributes as `struct statx`: all that are supported, whatever the mask requests. Of `wanted` only
    /// `STATX_MNT_ID_UNIQUE` matters.
    pub fn statx(&self, wanted: u32) -> Statx {
        let unique = wanted & UNIQUE_MOUNT_ID != 0;
        let time = |ns: i64| {
            let time = FileTime::from_nanos(ns);
            StatxTime { sec: time.sec, nsec: time.nsec as u32, pad: 0 }
        };
        Statx {
            mask: c::STATX_BASIC_STATS | c::STATX_BTIME | if unique { UNIQUE_MOUNT_ID } else { MOUNT_ID },
            blksize: BLOCK as u32,
            attributes: self.flags.0 | if self.mount.1 { MOUNT_ROOT } else { 0 },
            nlink: self.links as u32,
            uid: self.meta.uid,
            gid: self.meta.gid,
            mode: self.mode as u16,
            pad: 0,
            ino: self.number,
            size: self.size,
            blocks: self.blocks(),
            attributes_mask: self.flags.1 | MOUNT_ROOT,
            atime: time(self.meta.times.access),
            btime: time(self.meta.times.birth),
            ctime: time(self.meta.times.change),
            mtime: time(self.meta.times.modify),
            rdev_major: c::major(self.rdev),
            rdev_minor: c::minor(self.rdev),
            dev_major: c::major(self.device),
            dev_minor: c::minor(self.device),
            mnt_id: u64::from(self.mount.0) + if unique { UNIQUE } else { 0 },
            dio_mem_align: 0,
            dio_offset_align: 0,
            spare: [0; 12],
        }
    }
}
