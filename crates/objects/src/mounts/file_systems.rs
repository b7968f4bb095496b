//! Mounted file systems, and the space accounting of those in memory.

use super::MountFlags;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;

/// Mounted file system.
#[derive(Clone, Debug)]
pub struct FileSystem {
    /// File system type as passed to `mount(2)`.
    pub kind: &'static str,
    /// Root inode.
    pub root: InodeKey,
    /// Superblock flags.
    pub flags: MountFlags,
    /// True for a seed.
    pub seed: bool,
    /// User namespace of the process that mounted it.
    pub owner: u32,
    /// Limits and usage of a tmpfs.
    pub room: Option<Room>,
    /// Further options as shown in `/proc/mounts`.
    pub options: String,
}

/// Limits and usage of a tmpfs: bytes and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Maximum bytes; 0 for unlimited.
    pub bytes: u64,
    /// Bytes used.
    pub used_bytes: u64,
    /// Maximum inodes; 0 for unlimited.
    pub files: u64,
    /// Inodes used.
    pub used_files: u64,
}

impl Room {
    /// Bytes available.
    pub fn bytes_left(&self) -> u64 {
        if self.bytes == 0 { u64::MAX } else { self.bytes.saturating_sub(self.used_bytes) }
    }
    /// Checks that another file fits: `ENOSPC`.
    pub fn check_file(&self) -> Result<(), Errno> {
        if self.files != 0 && self.used_files >= self.files { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}
