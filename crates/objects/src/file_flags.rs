//! Inode flags: those of `FS_IOC_SETFLAGS` and `chattr(1)`, and their extended form in `FS_IOC_FSSETXATTR`
//! and `file_setattr(2)`.

use belljar_linux_abi::Errno;

bitflags::bitflags! {
    /// Inode flags, `FS_*_FL`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FileFlags: u32 {
        /// `FS_SECRM_FL`, `FS_UNRM_FL`, `FS_COMPR_FL`: stored without effect.
        const KEPT = 0x7;
        /// `FS_SYNC_FL`.
        const SYNC = 0x8;
        /// `FS_IMMUTABLE_FL`: the file cannot be changed.
        const IMMUTABLE = 0x10;
        /// `FS_APPEND_FL`: the file is append-only.
        const APPEND = 0x20;
        /// `FS_NODUMP_FL`.
        const NO_DUMP = 0x40;
        /// `FS_NOATIME_FL`: the access time is not updated.
        const NO_ACCESS_TIME = 0x80;
        /// `FS_NOTAIL_FL`.
        const NO_TAIL = 0x8000;
        /// `FS_DIRSYNC_FL`.
        const DIRECTORY_SYNC = 0x1_0000;
        /// `FS_TOPDIR_FL`.
        const TOP_DIRECTORY = 0x2_0000;
    }
}

/// `FS_EXTENT_FL`: reported for all files of a disk.
const EXTENTS: u32 = 0x8_0000;
/// `FS_XFLAG_*` bits and their inode flags.
const EXTENDED: [(u32, FileFlags); 5] = [
    (0x8, FileFlags::IMMUTABLE),
    (0x10, FileFlags::APPEND),
    (0x20, FileFlags::SYNC),
    (0x40, FileFlags::NO_ACCESS_TIME),
    (0x80, FileFlags::NO_DUMP),
];
/// `FS_XFLAG_DAX` and `FS_XFLAG_PROJINHERIT`, the other bits of `FS_XFLAG_COMMON`.
const OTHER_COMMON: u32 = 0x8000 | 0x200;
/// `FS_XFLAG_EXTSIZE`, `FS_XFLAG_EXTSZINHERIT`, `FS_XFLAG_COWEXTSIZE`.
const EXTENT_SIZE: u32 = 0x800;
const EXTENT_SIZE_INHERITED: u32 = 0x1000;
const COPIED_EXTENT_SIZE: u32 = 0x1_0000;
/// `FS_XFLAGS_MASK`.
const KNOWN: u64 = 0x8001_fffb;

/// Flag names of mtree(5).
const NAMES: [(&str, FileFlags); 11] = [
    ("secrm", FileFlags::from_bits_retain(0x1)),
    ("unrm", FileFlags::from_bits_retain(0x2)),
    ("compr", FileFlags::from_bits_retain(0x4)),
    ("schg", FileFlags::IMMUTABLE),
    ("sappnd", FileFlags::APPEND),
    ("nodump", FileFlags::NO_DUMP),
    ("noatime", FileFlags::NO_ACCESS_TIME),
    ("sync", FileFlags::SYNC),
    ("notail", FileFlags::NO_TAIL),
    ("dirsync", FileFlags::DIRECTORY_SYNC),
    ("topdir", FileFlags::TOP_DIRECTORY),
];

/// Kind of file system, which determines the flags that its files support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagSystem {
    /// Disk file system, ext4.
    Disk,
    /// A tmpfs.
    Memory,
}

/// Extended file attributes: `struct fsxattr`, `struct file_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedFlags {
    /// `FS_XFLAG_*`.
    pub flags: u32,
    /// Extent size hint.
    pub extent_size: u32,
    /// Project id.
    pub project: u32,
    /// Extent size hint for copy-on-write.
    pub copied_extent_size: u32,
}

/// Flags that a call sets on a file.
#[derive(Clone, Copy, Debug)]
pub enum NewFlags {
    /// Flags of `FS_IOC_SETFLAGS`.
    Plain(u32),
    /// Attributes of `FS_IOC_FSSETXATTR` or `file_setattr(2)`.
    Extended(ExtendedFlags),
}

impl ExtendedFlags {
    /// Decodes `struct file_attr`; `EINVAL` for unknown flags.
    pub fn of_attributes(words: [u32; 6]) -> Result<ExtendedFlags, Errno> {
        let [low, high, extent_size, _, project, copied_extent_size] = words;
        if (u64::from(high) << 32 | u64::from(low)) & !KNOWN != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(ExtendedFlags { flags: low, extent_size, project, copied_extent_size })
    }
    /// Encodes `struct file_attr`.
    pub fn as_attributes(self) -> [u32; 6] {
        [self.flags, 0, self.extent_size, 0, self.project, self.copied_extent_size]
    }
    /// Decodes `struct fsxattr`.
    pub fn of_ioctl(words: [u32; 7]) -> ExtendedFlags {
        let [flags, extent_size, _, project, copied_extent_size, _, _] = words;
        ExtendedFlags { flags, extent_size, project, copied_extent_size }
    }
    /// Encodes `struct fsxattr`.
    pub fn as_ioctl(self) -> [u32; 7] {
        [self.flags, self.extent_size, 0, self.project, self.copied_extent_size, 0, 0]
    }
}

impl FileFlags {
    /// Flags that block every change of a file except `FS_IOC_SETFLAGS`.
    pub const FIXED: FileFlags = FileFlags::IMMUTABLE.union(FileFlags::APPEND);

    /// Comma-separated mtree(5) names of the flags.
    pub fn names(self) -> String {
        let set = NAMES.iter().filter(|(_, flag)| self.contains(*flag));
        set.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }
    /// Parses comma-separated mtree(5) names; unknown names are ignored.
    pub fn of_names(names: &str) -> FileFlags {
        let flag = |name| NAMES.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag);
        names.split(',').filter_map(flag).fold(FileFlags::empty(), FileFlags::union)
    }
    /// Flags that a new file inherits from its directory.
    pub fn inherited(self, directory: bool) -> FileFlags {
        let kept = self - (FileFlags::FIXED | FileFlags::TOP_DIRECTORY);
        if directory { kept } else { kept - FileFlags::DIRECTORY_SYNC }
    }
    /// Value that `FS_IOC_GETFLAGS` reports.
    pub fn shown(self, system: FlagSystem) -> u32 {
        self.bits() | if system == FlagSystem::Disk { EXTENTS } else { 0 }
    }
    /// Extended form of the flags.
    pub fn extended(self) -> ExtendedFlags {
        let set = EXTENDED.iter().filter(|(_, flag)| self.contains(*flag));
        ExtendedFlags { flags: set.fold(0, |all, (bit, _)| all | bit), ..ExtendedFlags::default() }
    }
    /// `STATX_ATTR_*` values, and the mask of attributes that the kind of file system supports.
    pub fn attributes(self, system: Option<FlagSystem>) -> (u64, u64) {
        let mask = match system {
            // Compressed, encrypted and verity besides immutable, append and nodump.
            Some(FlagSystem::Disk) => 0x10_0874,
            Some(FlagSystem::Memory) => 0x70,
            None => 0,
        };
        // `STATX_ATTR_*` has the same bit values, except that of compressed files.
        let compressed = if self.bits() & 0x4 != 0 { 0x4 } else { 0 };
        (u64::from((self & (FileFlags::FIXED | FileFlags::NO_DUMP)).bits() | compressed) & mask, mask)
    }
    /// Flags of a file after a call that sets `new`, checked as in Linux's `vfs_fileattr_set` and the file
    /// systems.
    pub fn changed(self, new: NewFlags, system: FlagSystem, directory: bool) -> Result<FileFlags, Errno> {
        let wanted = match new {
            NewFlags::Plain(flags) => flags,
            NewFlags::Extended(new) => self.of_extended(new, system, directory)?,
        };
        let known = match system {
            FlagSystem::Disk => FileFlags::all().bits() | EXTENTS,
            FlagSystem::Memory => (FileFlags::FIXED | FileFlags::NO_DUMP | FileFlags::NO_ACCESS_TIME).bits(),
        };
        if wanted & !known != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let flags = FileFlags::from_bits_truncate(wanted);
        let of_directories = FileFlags::DIRECTORY_SYNC | FileFlags::TOP_DIRECTORY;
        Ok(if directory { flags } else { flags - of_directories })
    }
    fn of_extended(self, new: ExtendedFlags, system: FlagSystem, directory: bool) -> Result<u32, Errno> {
        let has = |flag| new.flags & flag != 0;
        if has(EXTENT_SIZE) && directory || has(EXTENT_SIZE_INHERITED) && !directory {
            return Err(Errno::EINVAL);
        }
        let common = EXTENDED.iter().fold(OTHER_COMMON, |all, (bit, _)| all | bit);
        let mut rest = new.flags & !common & !0x8000_0002;
        if new.extent_size == 0 {
            rest &= !(EXTENT_SIZE | EXTENT_SIZE_INHERITED);
        }
        if new.copied_extent_size == 0 {
            rest &= !COPIED_EXTENT_SIZE;
        }
        // A disk ignores extent sizes.
        let sizes = (rest, new.extent_size, new.copied_extent_size) != (0, 0, 0);
        if new.project != 0 || has(OTHER_COMMON) || sizes && system == FlagSystem::Memory {
            return Err(Errno::EOPNOTSUPP);
        }
        let kept = EXTENDED.iter().fold(self, |flags, (_, flag)| flags - *flag);
        let set = EXTENDED.iter().filter(|(bit, _)| has(*bit));
        Ok(set.fold(kept, |flags, (_, flag)| flags | *flag).bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let flags = FileFlags::IMMUTABLE | FileFlags::NO_DUMP;
        assert_eq!(flags.extended().flags, 0x88);
        let new = NewFlags::Extended(flags.extended());
        assert_eq!(FileFlags::empty().changed(new, FlagSystem::Memory, false), Ok(flags));
        let old = FileFlags::APPEND | FileFlags::NO_TAIL;
        assert_eq!(old.changed(new, FlagSystem::Disk, false), Ok(flags | FileFlags::NO_TAIL));
        assert_eq!(ExtendedFlags::of_attributes([0x88, 0, 0, 0, 0, 0]), Ok(flags.extended()));
        assert_eq!(ExtendedFlags::of_attributes([0, 1, 0, 0, 0, 0]), Err(Errno::EINVAL));
        assert_eq!((flags.names().as_str(), FileFlags::of_names("schg,x,nodump")), ("schg,nodump", flags));
        assert_eq!(FileFlags::of_names(&FileFlags::all().names()), FileFlags::all());
        assert_eq!(ExtendedFlags::of_ioctl(flags.extended().as_ioctl()), flags.extended());
    }

    #[test]
    fn a_file_system_takes_what_it_knows() {
        let none = FileFlags::empty();
        assert_eq!(none.changed(NewFlags::Plain(EXTENTS), FlagSystem::Disk, false), Ok(none));
        assert_eq!(none.changed(NewFlags::Plain(EXTENTS), FlagSystem::Memory, false), Err(Errno::EOPNOTSUPP));
        let hint = ExtendedFlags { flags: EXTENT_SIZE, extent_size: 4096, ..ExtendedFlags::default() };
        assert_eq!(none.changed(NewFlags::Extended(hint), FlagSystem::Memory, false), Err(Errno::EOPNOTSUPP));
        assert_eq!(none.changed(NewFlags::Extended(hint), FlagSystem::Disk, false), Ok(none));
        assert_eq!(none.changed(NewFlags::Extended(hint), FlagSystem::Disk, true), Err(Errno::EINVAL));
        let sync = NewFlags::Plain(FileFlags::DIRECTORY_SYNC.bits());
        assert_eq!(none.changed(sync, FlagSystem::Disk, false), Ok(none));
        assert_eq!(none.changed(sync, FlagSystem::Disk, true), Ok(FileFlags::DIRECTORY_SYNC));
        assert_eq!(FileFlags::APPEND.attributes(Some(FlagSystem::Memory)), (0x20, 0x70));
    }
}
