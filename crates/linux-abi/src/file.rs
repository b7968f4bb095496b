//! Structures of file system calls.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct stat` of x86-64, `stat(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub nlink: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub pad: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub atime: FileTime,
    pub mtime: FileTime,
    pub ctime: FileTime,
    pub unused: [i64; 3],
}

/// `struct timespec`: time since 1970.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct FileTime {
    pub sec: i64,
    pub nsec: i64,
}

impl FileTime {
    /// Converts nanoseconds since 1970.
    pub fn from_nanos(ns: i64) -> FileTime {
        FileTime { sec: ns.div_euclid(1_000_000_000), nsec: ns.rem_euclid(1_000_000_000) }
    }
}

/// `struct statx`, `statx(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Statx {
    pub mask: u32,
    pub blksize: u32,
    pub attributes: u64,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub mode: u16,
    pub pad: u16,
    pub ino: u64,
    pub size: u64,
    pub blocks: u64,
    pub attributes_mask: u64,
    pub atime: StatxTime,
    pub btime: StatxTime,
    pub ctime: StatxTime,
    pub mtime: StatxTime,
    pub rdev_major: u32,
    pub rdev_minor: u32,
    pub dev_major: u32,
    pub dev_minor: u32,
    pub mnt_id: u64,
    pub dio_mem_align: u32,
    pub dio_offset_align: u32,
    pub spare: [u64; 12],
}

/// `struct statx_timestamp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct StatxTime {
    pub sec: i64,
    pub nsec: u32,
    pub pad: i32,
}

/// `struct statfs`, `statfs(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Statfs {
    pub kind: i64,
    pub bsize: i64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub fsid: u64,
    pub namelen: i64,
    pub frsize: i64,
    pub flags: i64,
    pub spare: [i64; 4],
}

/// `struct flock`, `fcntl(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Flock {
    pub kind: i16,
    pub whence: i16,
    pub pad: u32,
    pub start: i64,
    pub len: i64,
    pub pid: i32,
    pub pad2: u32,
}

/// `struct open_how`, `openat2(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct OpenHow {
    pub flags: u64,
    pub mode: u64,
    pub resolve: u64,
}

const _: () = assert!(size_of::<Stat>() == 144 && size_of::<Statx>() == 256 && size_of::<Statfs>() == 120);
const _: () = assert!(size_of::<Flock>() == 32 && size_of::<OpenHow>() == 24);
