//! Inode flags: `FS_IOC_SETFLAGS` and its relatives, file_getattr(2), file_setattr(2).

use super::stat::walk_of;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::Files;
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_flags::{ExtendedFlags, FileFlags, FlagSystem, NewFlags};
use belljar_objects::inode::{DEV, DISK, Node, RUN, SHM};
use belljar_objects::mounts::Place;

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`, `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`.
const GET: u64 = 0x8008_6601;
const SET: u64 = 0x4008_6602;
const GET_EXTENDED: u64 = 0x801c_581f;
const SET_EXTENDED: u64 = 0x401c_5820;
/// Size of `struct file_attr` in bytes.
const ATTRIBUTES: usize = size_of::<[u32; 6]>();

impl Files {
    /// File-system type of an inode with flags: files and directories on the disk or in memory; `None` for
    /// others.
    pub(crate) fn flag_system(&self, key: InodeKey) -> Option<FlagSystem> {
        let inode = &self.inodes[key.0];
        let made_up = self.is_made_up_on_disk(key);
        if !made_up && !matches!(inode.node, Node::Regular(_) | Node::Directory(_)) {
            return None;
        }
        match (inode.device, self.mounts.mounted_kind(inode.device)) {
            (DISK, _) => Some(FlagSystem::Disk),
            (DEV | RUN | SHM, _) | (_, Some("tmpfs")) => Some(FlagSystem::Memory),
            _ => None,
        }
    }
}

/// Flag requests of `ioctl(2)` on a file or directory; `ENOTTY` for other requests.
pub(crate) fn ioctl(call: &mut Call<'_>, file: FileKey, inode: InodeKey, request: u64, at: u64) -> SysResult {
    let system = call.host.files.flag_system(inode).ok_or(Errno::ENOTTY)?;
    let flags = call.host.files.inode(inode).meta.flags;
    let new = match request {
        GET => {
            call.write(at, &flags.shown(system))?;
            return done(0);
        }
        GET_EXTENDED => {
            call.write(at, &flags.extended().as_ioctl())?;
            return done(0);
        }
        SET => NewFlags::Plain(call.read(at)?),
        SET_EXTENDED => NewFlags::Extended(ExtendedFlags::of_ioctl(call.read(at)?)),
        _ => return Err(Errno::ENOTTY),
    };
    call.host.files.check_file_writable(file)?;
    set(call, inode, system, new)
}

fn set(call: &mut Call<'_>, key: InodeKey, system: FlagSystem, new: NewFlags) -> SysResult {
    call.host.files.check_owns(&call.host.processes, call.process, key)?;
    let inode = call.host.files.inode(key);
    let (old, directory) = (inode.meta.flags, inode.node.is_directory());
    let flags = old.changed(new, system, directory);
    // The privilege check precedes the check for unsupported flags.
    let wanted = match new {
        NewFlags::Plain(flags) => FileFlags::from_bits_truncate(flags),
        NewFlags::Extended(_) => flags.unwrap_or(old),
    };
    if (wanted ^ old).intersects(FileFlags::FIXED) {
        call.host.processes.require(call.process, capability::LINUX_IMMUTABLE)?;
    }
    let flags = flags?;
    call.host.take_over(key)?;
    call.host.files.inode(key).meta.flags = flags;
    call.host.inode_changed(key);
    done(0)
}

fn place_at(call: &mut Call<'_>) -> Result<Place, Errno> {
    let (dirfd, path, flags) = (call.int(0), call.args[1], call.int(4));
    let walk = walk_of(flags, c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH)?;
    let path = if path == 0 && flags & c::AT_EMPTY_PATH != 0 { Vec::new() } else { call.read_path(path)? };
    call.host.resolve(call.process, dirfd, &path, walk)?.place()
}

/// Validates flags and structure size: `EINVAL` for unknown flags, or an error of `check_extensible`.
fn check(call: &Call<'_>) -> Result<(), Errno> {
    walk_of(call.int(4), c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH)?;
    crate::guest::check_extensible(call.args[3], ATTRIBUTES)
}

/// file_getattr(2).
pub fn sys_file_getattr(call: &mut Call<'_>) -> SysResult {
    check(call)?;
    let (_, inode) = place_at(call)?;
    call.host.files.flag_system(inode).ok_or(Errno::EOPNOTSUPP)?;
    let words = call.host.files.inode(inode).meta.flags.extended().as_attributes();
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(call.args[3] as usize, 0);
    call.write_bytes(call.args[2], &bytes)?;
    done(0)
}

/// file_setattr(2).
pub fn sys_file_setattr(call: &mut Call<'_>) -> SysResult {
    check(call)?;
    let words: [u32; 6] = call.read_extensible(call.args[2], call.args[3], ATTRIBUTES)?;
    let new = ExtendedFlags::of_attributes(words)?;
    let place = place_at(call)?;
    call.host.files.check_writable(place)?;
    let system = call.host.files.flag_system(place.1).ok_or(Errno::EOPNOTSUPP)?;
    set(call, place.1, system, NewFlags::Extended(new))
}
