//! File systems that are mounted, and the space of those in memory.

use super::MountFlags;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;

/// A mounted file system.
#[derive(Clone, Debug)]
pub struct FileSystem {
    /// Its kind, as `mount(2)` names it.
    pub kind: &'static str,
    /// Its own root.
    pub root: InodeKey,
    /// Its flags.
    pub flags: MountFlags,
    /// True if it is one of the seeds.
    pub seed: bool,
    /// The user namespace that it was mounted from.
    pub owner: u32,
    /// Its limits and their use, if it is a tmpfs.
    pub room: Option<Room>,
    /// Its further options as `/proc/mounts` shows them.
    pub options: String,
}

/// Space and number of files of a tmpfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Most bytes; 0: as many as there are.
    pub bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Most files; 0: as many as there are.
    pub files: u64,
    /// Files in use.
    pub used_files: u64,
}

impl Room {
    /// Bytes that are left.
    pub fn bytes_left(&self) -> u64 {
        if self.bytes == 0 { u64::MAX } else { self.bytes.saturating_sub(self.used_bytes) }
    }
    /// `ENOSPC` if there must not be one more file.
    pub fn check_file(&self) -> Result<(), Errno> {
        if self.files != 0 && self.used_files >= self.files { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}
