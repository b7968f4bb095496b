//! Decoding of the flags of `mount(2)` and the attributes of `mount_setattr(2)` and `fsmount(2)`.

use super::{MountFlags, Propagation};
use belljar_linux_abi::{Errno, c};

/// Upper half of the flags passed by old programs, `MS_MGC_VAL`.
const MAGIC: u64 = 0xc0ed_0000;
const MAGIC_MASK: u64 = 0xffff_0000;
/// `MS_NOUSER`, reserved for the kernel.
pub const NO_USER: u64 = 1 << 31;
/// `MS_SILENT`.
const SILENT: u64 = 1 << 15;

/// `MOUNT_ATTR_*`; the access time attributes form one field.
const ACCESS_TIMES: u64 = 0x70;
const NO_ACCESS_TIME: u64 = 0x10;
const STRICT_ACCESS_TIME: u64 = 0x20;
const ATTRIBUTES: &[(u64, MountFlags)] = &[
    (1, MountFlags::READ_ONLY),
    (2, MountFlags::NO_SUID),
    (4, MountFlags::NO_DEVICES),
    (8, MountFlags::NO_EXEC),
    (0x80, MountFlags::NO_DIRECTORY_ACCESS_TIME),
    (0x20_0000, MountFlags::NO_LINKS),
];

/// Operation that a call of `mount(2)` requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountChange {
    /// Change of a mount's flags.
    RemountBind,
    /// Change of a file system's flags and options.
    Remount,
    /// Bind mount of a directory or file.
    Bind,
    /// Change of the propagation type.
    Propagation(Propagation),
    /// Move of a mount.
    Move,
    /// New mount.
    New,
}

impl MountChange {
    /// Operation requested by `flags`, with the precedence of Linux.
    pub fn of(flags: u64) -> Result<MountChange, Errno> {
        if flags & c::MS_REMOUNT != 0 {
            return Ok(if flags & c::MS_BIND != 0 { MountChange::RemountBind } else { MountChange::Remount });
        }
        if flags & c::MS_BIND != 0 {
            return Ok(MountChange::Bind);
        }
        if SHARING.iter().any(|(flag, _)| flags & flag != 0) {
            return propagation_of(flags & !(c::MS_REC | SILENT)).map(MountChange::Propagation);
        }
        Ok(if flags & c::MS_MOVE != 0 { MountChange::Move } else { MountChange::New })
    }
}

/// Removes `MS_MGC_VAL` from the flags.
pub fn without_magic(flags: u64) -> u64 {
    if flags & MAGIC_MASK == MAGIC { flags & !MAGIC_MASK } else { flags }
}

/// Propagation flags.
const SHARING: [(u64, Propagation); 4] = [
    (c::MS_SHARED, Propagation::Shared),
    (c::MS_PRIVATE, Propagation::Private),
    (c::MS_SLAVE, Propagation::Slave),
    (c::MS_UNBINDABLE, Propagation::Unbindable),
];

/// Propagation type of a flag. `EINVAL` for other flags.
pub fn propagation_of(flag: u64) -> Result<Propagation, Errno> {
    SHARING.iter().find(|(known, _)| *known == flag).map(|(_, to)| *to).ok_or(Errno::EINVAL)
}

/// Mount flags requested by a call. `MS_RELATIME` is the default, and a remount without access time flags
/// keeps those of `now`.
pub fn wanted_flags(flags: u64, now: MountFlags) -> MountFlags {
    let mut wanted = MountFlags::from_bits_truncate(flags);
    if !wanted.contains(MountFlags::NO_ACCESS_TIME) {
        wanted |= MountFlags::RELATIVE_ACCESS_TIME;
    }
    if flags & c::MS_STRICTATIME != 0 {
        wanted &= !(MountFlags::NO_ACCESS_TIME | MountFlags::RELATIVE_ACCESS_TIME);
    }
    let speaks = flags & (MountFlags::ACCESS_TIMES.bits() | c::MS_STRICTATIME) != 0;
    if flags & c::MS_REMOUNT != 0 && !speaks {
        wanted = wanted & !MountFlags::ACCESS_TIMES | now & MountFlags::ACCESS_TIMES;
    }
    wanted
}

/// Mount flags of `MOUNT_ATTR_*` attributes. `EINVAL` for unknown attributes.
pub fn flags_of(attributes: u64) -> Result<MountFlags, Errno> {
    let known = ATTRIBUTES.iter().fold(ACCESS_TIMES, |all, (bit, _)| all | bit);
    if attributes & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let set = ATTRIBUTES.iter().filter(|(bit, _)| attributes & bit != 0);
    let flags = set.fold(MountFlags::empty(), |all, (_, flag)| all | *flag);
    match attributes & ACCESS_TIMES {
        0 => Ok(flags | MountFlags::RELATIVE_ACCESS_TIME),
        NO_ACCESS_TIME => Ok(flags | MountFlags::NO_ACCESS_TIME),
        STRICT_ACCESS_TIME => Ok(flags),
        _ => Err(Errno::EINVAL),
    }
}

/// Flags to set and to clear, `mount_setattr(2)`.
#[derive(Clone, Copy, Debug)]
pub struct FlagsChange {
    set: MountFlags,
    cleared: MountFlags,
}

impl FlagsChange {
    /// Decodes the attributes. `EINVAL` for unknown or unsupported ones, and for an access time that is set
    /// without clearing the field.
    pub fn of(set: u64, cleared: u64, user_namespace: u64) -> Result<FlagsChange, Errno> {
        const ID_MAPPED: u64 = 0x10_0000;
        if (set | cleared) & ID_MAPPED != 0 || user_namespace > i32::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let times = cleared & ACCESS_TIMES;
        if times != 0 && times != ACCESS_TIMES || times == 0 && set & ACCESS_TIMES != 0 {
            return Err(Errno::EINVAL);
        }
        let plain = |attributes: u64| {
            let flags = flags_of(attributes & !ACCESS_TIMES);
            flags.map(|flags| flags - MountFlags::RELATIVE_ACCESS_TIME)
        };
        let (mut new, mut old) = (plain(set)?, plain(cleared)?);
        if times != 0 {
            new |= flags_of(set & ACCESS_TIMES)?;
            old |= MountFlags::NO_ACCESS_TIME | MountFlags::RELATIVE_ACCESS_TIME;
        }
        Ok(FlagsChange { set: new, cleared: old })
    }
    /// Applies the change to `flags`.
    pub fn applied(self, flags: MountFlags) -> MountFlags {
        (flags - self.cleared) | self.set
    }
}
