//! Flags of mounts and file systems.

use bitflags::bitflags;

bitflags! {
    /// Mount and superblock flags, with the values of `mount(2)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MountFlags: u64 {
        /// `MS_RDONLY`.
        const READ_ONLY = 1;
        /// `MS_NOSUID`: set-user-ID and set-group-ID bits have no effect.
        const NO_SUID = 2;
        /// `MS_NODEV`: device files cannot be opened.
        const NO_DEVICES = 4;
        /// `MS_NOEXEC`: files cannot be executed.
        const NO_EXEC = 8;
        /// `MS_SYNCHRONOUS`.
        const SYNCHRONOUS = 16;
        /// `MS_MANDLOCK`.
        const MANDATORY_LOCKS = 64;
        /// `MS_DIRSYNC`.
        const DIRECTORIES_SYNCHRONOUS = 128;
        /// `MS_NOSYMFOLLOW`: symbolic links are not followed.
        const NO_LINKS = 256;
        /// `MS_NOATIME`.
        const NO_ACCESS_TIME = 1 << 10;
        /// `MS_NODIRATIME`.
        const NO_DIRECTORY_ACCESS_TIME = 1 << 11;
        /// `MS_RELATIME`.
        const RELATIVE_ACCESS_TIME = 1 << 21;
        /// `MS_LAZYTIME`.
        const LAZY_TIME = 1 << 25;
    }
}

impl MountFlags {
    /// Restricting flags.
    pub const FORBIDDING: MountFlags = MountFlags::READ_ONLY
        .union(MountFlags::NO_SUID)
        .union(MountFlags::NO_DEVICES)
        .union(MountFlags::NO_EXEC);
    /// Per-mount flags.
    pub const OF_MOUNT: MountFlags = MountFlags::READ_ONLY
        .union(MountFlags::NO_SUID)
        .union(MountFlags::NO_DEVICES)
        .union(MountFlags::NO_EXEC)
        .union(MountFlags::NO_LINKS)
        .union(MountFlags::ACCESS_TIMES);
    /// Access time flags.
    pub const ACCESS_TIMES: MountFlags = MountFlags::NO_ACCESS_TIME
        .union(MountFlags::NO_DIRECTORY_ACCESS_TIME)
        .union(MountFlags::RELATIVE_ACCESS_TIME);
    /// Superblock flags.
    pub const OF_FILE_SYSTEM: MountFlags = MountFlags::READ_ONLY
        .union(MountFlags::SYNCHRONOUS)
        .union(MountFlags::MANDATORY_LOCKS)
        .union(MountFlags::DIRECTORIES_SYNCHRONOUS)
        .union(MountFlags::LAZY_TIME);

    /// Flags as shown in `/proc/mounts` after `rw` or `ro`.
    pub fn shown(self) -> String {
        const NAMES: [(MountFlags, &str); 11] = [
            (MountFlags::SYNCHRONOUS, ",sync"),
            (MountFlags::DIRECTORIES_SYNCHRONOUS, ",dirsync"),
            (MountFlags::MANDATORY_LOCKS, ",mand"),
            (MountFlags::LAZY_TIME, ",lazytime"),
            (MountFlags::NO_SUID, ",nosuid"),
            (MountFlags::NO_DEVICES, ",nodev"),
            (MountFlags::NO_EXEC, ",noexec"),
            (MountFlags::NO_ACCESS_TIME, ",noatime"),
            (MountFlags::NO_DIRECTORY_ACCESS_TIME, ",nodiratime"),
            (MountFlags::RELATIVE_ACCESS_TIME, ",relatime"),
            (MountFlags::NO_LINKS, ",nosymfollow"),
        ];
        NAMES.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| *name).collect()
    }
}
