//! File handles: name_to_handle_at(2), open_by_handle_at(2).

use super::files::open_at;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::tree::Walk;
use crate::ids::InodeKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::inode::{Inode, Node};
use belljar_objects::mounts::statmount::UNIQUE;

/// `MAX_HANDLE_SZ`.
const LONGEST: u32 = 128;
/// Length of a handle's data in bytes, an inode number, and the handle type (Linux's `FILEID_INO32_GEN`).
const HANDLE_BYTES: u32 = 8;
const HANDLE_TYPE: i32 = 1;
/// `AT_HANDLE_FID`: file identifier in the form that `fanotify(7)` reports.
const HANDLE_FID: i32 = 0x200;
/// `AT_HANDLE_MNT_ID_UNIQUE`: return the unique mount id.
const UNIQUE_MOUNT: i32 = 1;
/// `AT_HANDLE_CONNECTABLE`: the file opened by the handle has a known path, which is always true here.
const CONNECTABLE: i32 = 2;
/// `FILEID_IS_CONNECTABLE`, `FILEID_IS_DIR`: type bits of a connectable handle.
const IS_CONNECTABLE: i32 = 0x1_0000;
const IS_DIR: i32 = 0x2_0000;

/// name_to_handle_at(2).
pub fn sys_name_to_handle_at(call: &mut Call<'_>) -> SysResult {
    let [_, path, handle, mount_id, flags, _] = call.args;
    let flags = flags as i32;
    let known = c::AT_SYMLINK_FOLLOW | c::AT_EMPTY_PATH | HANDLE_FID | UNIQUE_MOUNT | CONNECTABLE;
    let without_path = flags & (HANDLE_FID | c::AT_EMPTY_PATH) != 0;
    if flags & !known != 0 || flags & CONNECTABLE != 0 && without_path {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & c::AT_SYMLINK_FOLLOW != 0);
    walk.set(Walk::EMPTY, flags & c::AT_EMPTY_PATH != 0);
    let path = call.read_path(path)?;
    let dirfd = call.int(0);
    let place = call.host.resolve(call.process, dirfd, &path, walk)?.place()?;
    let shown = call.host.files.shown_mount(place);
    let inode = call.host.files.inode(place.1);
    // A handle used only for comparison is available for every file.
    if matches!(inode.node, Node::Virtual(_) | Node::Magic(_)) && flags & HANDLE_FID == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let number = inode.number;
    let kind = match (flags & CONNECTABLE != 0, inode.node.is_directory()) {
        (false, _) => HANDLE_TYPE,
        (true, false) => HANDLE_TYPE | IS_CONNECTABLE,
        (true, true) => HANDLE_TYPE | IS_CONNECTABLE | IS_DIR,
    };
    let room: u32 = call.read(handle)?;
    if room > LONGEST {
        return Err(Errno::EINVAL);
    }
    if flags & UNIQUE_MOUNT != 0 {
        call.write(mount_id, &(UNIQUE + u64::from(shown)))?;
    } else {
        call.write(mount_id, &shown)?;
    }
    call.write(handle, &HANDLE_BYTES)?;
    if room < HANDLE_BYTES {
        return Err(Errno::EOVERFLOW);
    }
    call.write(handle + 4, &kind)?;
    call.write(handle + 8, &number)?;
    done(0)
}

/// open_by_handle_at(2).
pub fn sys_open_by_handle_at(call: &mut Call<'_>) -> SysResult {
    let (dirfd, handle, flags) = (call.int(0), call.args[1], call.int(2));
    call.host.processes.require(call.process, capability::DAC_READ_SEARCH)?;
    let len: u32 = call.read(handle)?;
    if len == 0 || len > LONGEST {
        return Err(Errno::EINVAL);
    }
    let within = call.host.resolve(call.process, dirfd, b"", Walk::EMPTY)?;
    // A file outside any file system gives `ESTALE`.
    let within = within.inode().map_err(|_| Errno::ESTALE)?;
    let device = call.host.files.inode(within).device;
    let kind: i32 = call.read(handle + 4)?;
    let told = kind & !0xffff;
    if told & !(IS_CONNECTABLE | IS_DIR) != 0 {
        return Err(Errno::EINVAL);
    }
    if len != HANDLE_BYTES || kind & 0xffff != HANDLE_TYPE {
        return Err(Errno::ESTALE);
    }
    let number: u64 = call.read(handle + 8)?;
    let named = |(_, inode): &(usize, &Inode)| inode.number == number && inode.device == device;
    let found = call.host.files.inodes.iter().find(named).map(|(key, _)| InodeKey(key));
    let path = found.and_then(|inode| call.host.files.path_of(inode)).ok_or(Errno::ESTALE)?;
    open_at(call, c::AT_FDCWD, &path, flags | c::O_NOFOLLOW, 0, Walk::empty())
}
