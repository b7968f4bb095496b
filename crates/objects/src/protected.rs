//! Protection of links and files in world-writable directories such as `/tmp`: `/proc/sys/fs/protected_*`,
//! `proc_sys_fs(5)`.
//!
//! Another user may have created a link there, or a file under a name that a program is about to create. The
//! initial settings are Debian's; those of Linux are off.

use belljar_linux_abi::{Errno, c};

/// Sticky bit: only owners remove entries.
const STICKY: u32 = 0o1000;
/// Write permission for others, and for the group.
const BY_OTHERS: u32 = 0o002;
const BY_GROUP: u32 = 0o020;

/// Setting by file type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectedKind {
    /// `protected_fifos`: existing FIFOs opened with `O_CREAT`.
    Fifos,
    /// `protected_hardlinks`: hard links to files of other users.
    Hardlinks,
    /// `protected_regular`: existing regular files opened with `O_CREAT`.
    Regular,
    /// `protected_symlinks`: symbolic links of other users.
    Symlinks,
}

/// Settings of a host; 0 is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    values: [u8; 4],
}

impl Default for Protected {
    fn default() -> Protected {
        Protected { values: [1, 1, 2, 1] }
    }
}

impl Protected {
    /// Value of a setting.
    pub fn get(&self, which: ProtectedKind) -> u8 {
        self.values[which as usize]
    }

    /// Changes a setting. `EINVAL` if the value is out of range.
    pub fn set(&mut self, which: ProtectedKind, value: u64) -> Result<(), Errno> {
        let most = if matches!(which, ProtectedKind::Fifos | ProtectedKind::Regular) { 2 } else { 1 };
        if value > most {
            return Err(Errno::EINVAL);
        }
        self.values[which as usize] = value as u8;
        Ok(())
    }

    /// True if `user` may follow a trailing symbolic link owned by `owner`; `directory` is the mode and owner
    /// of its directory.
    pub fn may_follow(&self, user: u32, owner: u32, directory: (u32, u32)) -> bool {
        let (mode, directory_owner) = directory;
        let everybodys = mode & (STICKY | BY_OTHERS) == STICKY | BY_OTHERS;
        self.get(ProtectedKind::Symlinks) == 0 || !everybodys || owner == user || owner == directory_owner
    }

    /// True if `user` may open with `O_CREAT` an existing file of type `kind` (`S_IFMT`) owned by `owner`;
    /// `directory` is the mode and owner of its directory.
    pub fn may_open_to_create(&self, user: u32, kind: u32, owner: u32, directory: (u32, u32)) -> bool {
        let (mode, directory_owner) = directory;
        let level = match kind {
            c::S_IFIFO => self.get(ProtectedKind::Fifos),
            c::S_IFREG => self.get(ProtectedKind::Regular),
            _ => 1,
        };
        let writable = match level {
            0 => 0,
            1 => mode & BY_OTHERS,
            _ => mode & (BY_OTHERS | BY_GROUP),
        };
        mode & STICKY == 0 || writable == 0 || owner == directory_owner || owner == user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_others_are_not_followed_where_everybody_may_make_them() {
        let mut settings = Protected::default();
        assert!(!settings.may_follow(1, 2, (0o1777, 0)));
        assert!(settings.may_follow(2, 2, (0o1777, 0)) && settings.may_follow(1, 0, (0o1777, 0)));
        assert!(settings.may_follow(1, 2, (0o777, 0)) && settings.may_follow(1, 2, (0o1770, 0)));
        settings.set(ProtectedKind::Symlinks, 0).unwrap();
        assert!(settings.may_follow(1, 2, (0o1777, 0)));
        assert_eq!(settings.set(ProtectedKind::Symlinks, 2), Err(Errno::EINVAL));
    }

    #[test]
    fn what_others_made_is_not_taken_for_ones_own() {
        let mut settings = Protected::default();
        let file = |settings: &Protected, mode| settings.may_open_to_create(0, c::S_IFREG, 2, (mode, 0));
        let fifo = |settings: &Protected, mode| settings.may_open_to_create(0, c::S_IFIFO, 2, (mode, 0));
        assert!(!file(&settings, 0o1777) && !file(&settings, 0o1775) && file(&settings, 0o775));
        assert!(!fifo(&settings, 0o1777) && fifo(&settings, 0o1775));
        settings.set(ProtectedKind::Regular, 1).unwrap();
        settings.set(ProtectedKind::Fifos, 0).unwrap();
        assert!(file(&settings, 0o1775) && fifo(&settings, 0o1777));
        assert!(settings.may_open_to_create(2, c::S_IFREG, 2, (0o1777, 0)));
    }
}
