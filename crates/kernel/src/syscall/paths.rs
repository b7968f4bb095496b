//! Calls that create, remove, rename and change files by path.

use super::stat::walk_of;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::permission::{WRITE, without_ids};
use crate::files::tree::{Found, Target, Walk};
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::file::FileTime;
use belljar_linux_abi::{Errno, c};
use belljar_objects::devices::Device;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::inode::{Meta, Node, Times};
use belljar_objects::locks::F_SEAL_EXEC;
use belljar_objects::namespaces::IdKind;

fn found_at(call: &mut Call<'_>, dirfd: i32, path: u64, walk: Walk) -> Result<Found, Errno> {
    let path = call.read_path(path)?;
    call.host.resolve(call.process, dirfd, &path, walk)
}

fn masked(call: &mut Call<'_>, mode: u32) -> u32 {
    mode & !call.host.process(call.process).umask
}

/// `mkdir(2)`.
pub fn sys_mkdir(call: &mut Call<'_>) -> SysResult {
    mkdir(call, c::AT_FDCWD, call.args[0], call.uint(1))
}
/// `mkdirat(2)`.
pub fn sys_mkdirat(call: &mut Call<'_>) -> SysResult {
    mkdir(call, call.int(0), call.args[1], call.uint(2))
}
fn mkdir(call: &mut Call<'_>, dirfd: i32, path: u64, mode: u32) -> SysResult {
    let found = found_at(call, dirfd, path, Walk::NAME)?;
    let mode = masked(call, mode);
    call.host.make_directory(&found, mode)?;
    done(0)
}

/// `rmdir(2)`.
pub fn sys_rmdir(call: &mut Call<'_>) -> SysResult {
    let found = found_at(call, c::AT_FDCWD, call.args[0], Walk::NAME)?;
    call.host.remove(&found, true)?;
    done(0)
}
/// `unlink(2)`.
pub fn sys_unlink(call: &mut Call<'_>) -> SysResult {
    let found = found_at(call, c::AT_FDCWD, call.args[0], Walk::NAME)?;
    call.host.remove(&found, false)?;
    done(0)
}
/// `unlinkat(2)`.
pub fn sys_unlinkat(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(2);
    if flags & !c::AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL);
    }
    let found = found_at(call, call.int(0), call.args[1], Walk::NAME)?;
    call.host.remove(&found, flags & c::AT_REMOVEDIR != 0)?;
    done(0)
}

/// `rename(2)`.
pub fn sys_rename(call: &mut Call<'_>) -> SysResult {
    let [from, to, ..] = call.args;
    rename(call, (c::AT_FDCWD, from), (c::AT_FDCWD, to), 0)
}
/// `renameat(2)`.
pub fn sys_renameat(call: &mut Call<'_>) -> SysResult {
    let [_, from, _, to, ..] = call.args;
    rename(call, (call.int(0), from), (call.int(2), to), 0)
}
/// `renameat2(2)`.
pub fn sys_renameat2(call: &mut Call<'_>) -> SysResult {
    let [_, from, _, to, ..] = call.args;
    let flags = call.uint(4);
    let both = c::RENAME_NOREPLACE | c::RENAME_EXCHANGE;
    let swapped_whiteout = c::RENAME_EXCHANGE | c::RENAME_WHITEOUT;
    if flags & !(both | c::RENAME_WHITEOUT) != 0
        || flags & both == both
        || flags & swapped_whiteout == swapped_whiteout
    {
        return Err(Errno::EINVAL);
    }
    rename(call, (call.int(0), from), (call.int(2), to), flags)
}
fn rename(call: &mut Call<'_>, from: (i32, u64), to: (i32, u64), flags: u32) -> SysResult {
    let from = found_at(call, from.0, from.1, Walk::NAME)?;
    let to = found_at(call, to.0, to.1, Walk::NAME)?;
    call.host.move_name(&from, &to, flags)?;
    done(0)
}

/// `link(2)`.
pub fn sys_link(call: &mut Call<'_>) -> SysResult {
    let [from, to, ..] = call.args;
    link(call, (c::AT_FDCWD, from), (c::AT_FDCWD, to), 0)
}
/// `linkat(2)`.
pub fn sys_linkat(call: &mut Call<'_>) -> SysResult {
    let [_, from, _, to, ..] = call.args;
    link(call, (call.int(0), from), (call.int(2), to), call.int(4))
}
fn link(call: &mut Call<'_>, from: (i32, u64), to: (i32, u64), flags: i32) -> SysResult {
    if flags & !(c::AT_SYMLINK_FOLLOW | c::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & c::AT_SYMLINK_FOLLOW != 0);
    walk.set(Walk::EMPTY, flags & c::AT_EMPTY_PATH != 0);
    let from = found_at(call, from.0, from.1, walk)?;
    let target = from.target()?;
    let to = found_at(call, to.0, to.1, Walk::NAME)?;
    let Target::Inode(inode) = target else {
        // A file outside any file system cannot be linked.
        call.host.files.check_can_create(&call.host.processes, &to, 0)?;
        return Err(Errno::EXDEV);
    };
    call.host.make_link((from.target_mount, inode), &to)?;
    done(0)
}

/// `symlink(2)`.
pub fn sys_symlink(call: &mut Call<'_>) -> SysResult {
    symlink(call, call.args[0], c::AT_FDCWD, call.args[1])
}
/// `symlinkat(2)`.
pub fn sys_symlinkat(call: &mut Call<'_>) -> SysResult {
    symlink(call, call.args[0], call.int(1), call.args[2])
}
fn symlink(call: &mut Call<'_>, target: u64, dirfd: i32, path: u64) -> SysResult {
    let target = call.read_path(target)?;
    let found = found_at(call, dirfd, path, Walk::NAME)?;
    call.host.make_symlink(&found, target)?;
    done(0)
}

/// `readlink(2)`.
pub fn sys_readlink(call: &mut Call<'_>) -> SysResult {
    let [path, buffer, len, ..] = call.args;
    readlink(call, c::AT_FDCWD, path, buffer, len)
}
/// `readlinkat(2)`.
pub fn sys_readlinkat(call: &mut Call<'_>) -> SysResult {
    let [_, path, buffer, len, ..] = call.args;
    readlink(call, call.int(0), path, buffer, len)
}
fn readlink(call: &mut Call<'_>, dirfd: i32, path: u64, buffer: u64, len: u64) -> SysResult {
    if len as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let inode = found_at(call, dirfd, path, Walk::EMPTY)?.inode()?;
    let unnamed = call.read_path(path)?.is_empty();
    let text = match &call.host.files.inode(inode).node {
        Node::Symlink { target, .. } => target.clone(),
        Node::Magic(link) => {
            let link = *link;
            call.host.may_follow(call.process, link)?;
            call.host.magic_text(call.process, link)?
        }
        // An empty path names the descriptor's own file, which is not a symbolic link.
        _ if unnamed => return Err(Errno::ENOENT),
        _ => return Err(Errno::EINVAL),
    };
    let shown = &text[..text.len().min(len as usize)];
    call.write_bytes(buffer, shown)?;
    done(shown.len() as u64)
}

/// `mknod(2)`.
pub fn sys_mknod(call: &mut Call<'_>) -> SysResult {
    mknod(call, c::AT_FDCWD, call.args[0], call.uint(1), call.uint(2))
}
/// `mknodat(2)`.
pub fn sys_mknodat(call: &mut Call<'_>) -> SysResult {
    mknod(call, call.int(0), call.args[1], call.uint(2), call.uint(3))
}
fn mknod(call: &mut Call<'_>, dirfd: i32, path: u64, mode: u32, device: u32) -> SysResult {
    let found = found_at(call, dirfd, path, Walk::NAME)?;
    let permissions = found.mode_of_new(call.host, mode & 0o7777);
    match mode & c::S_IFMT {
        c::S_IFIFO => call.host.make_special(&found, Node::Fifo, permissions)?,
        c::S_IFSOCK => call.host.make_special(&found, Node::Socket, permissions)?,
        0 | c::S_IFREG => call.host.create_closed_file(&found, permissions)?,
        kind @ (c::S_IFCHR | c::S_IFBLK) => {
            call.host.processes.require(call.process, capability::MKNOD)?;
            let device = match kind {
                c::S_IFCHR => Device::of_number(device.into()),
                _ => Device::Block(device.into()),
            };
            call.host.make_special(&found, Node::Device(device), permissions)?
        }
        _ => return Err(Errno::EINVAL),
    };
    done(0)
}

/// Resolves a path to a file whose attributes are to be changed; checks that the mount is writable.
fn changed_at(call: &mut Call<'_>, dirfd: i32, path: u64, walk: Walk) -> Result<Target, Errno> {
    let found = found_at(call, dirfd, path, walk)?;
    if let Ok(place) = found.place() {
        call.host.files.check_writable(place)?;
    }
    found.target()
}
/// Resolves the first two arguments, a directory descriptor and a path. A null path means the descriptor's
/// own file (`futimens(3)`); `EFAULT` with `AT_FDCWD`.
fn changed_by(call: &mut Call<'_>, walk: Walk) -> Result<Target, Errno> {
    match call.args[1] {
        0 if call.int(0) != c::AT_FDCWD => changed_fd(call),
        path => changed_at(call, call.int(0), path, walk),
    }
}
fn changed_fd(call: &mut Call<'_>) -> Result<Target, Errno> {
    let file = call.host.file_of(call.process, call.int(0))?;
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let target = open.kind.inode().map_or(Target::File(file), Target::Inode);
    call.host.files.check_file_writable(file)?;
    Ok(target)
}

/// `chmod(2)`.
pub fn sys_chmod(call: &mut Call<'_>) -> SysResult {
    let inode = changed_at(call, c::AT_FDCWD, call.args[0], Walk::FOLLOW)?;
    chmod(call, inode, call.uint(1), None)
}
/// `fchmod(2)`.
pub fn sys_fchmod(call: &mut Call<'_>) -> SysResult {
    let inode = changed_fd(call)?;
    chmod(call, inode, call.uint(1), Some(call.int(0)))
}
/// `fchmodat(2)`; the system call has no flags argument.
pub fn sys_fchmodat(call: &mut Call<'_>) -> SysResult {
    let inode = changed_at(call, call.int(0), call.args[1], Walk::FOLLOW)?;
    chmod(call, inode, call.uint(2), None)
}
/// `fchmodat2(2)`.
pub fn sys_fchmodat2(call: &mut Call<'_>) -> SysResult {
    let walk = walk_of(call.int(3), c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH)?;
    let inode = changed_at(call, call.int(0), call.args[1], walk)?;
    chmod(call, inode, call.uint(2), None)
}
fn chmod(call: &mut Call<'_>, target: Target, mode: u32, by: Option<i32>) -> SysResult {
    let inode = match target {
        Target::Inode(inode) => inode,
        Target::File(file) => {
            let meta = unnamed_of_caller(call, file)?;
            let owner = (meta.uid, meta.gid);
            let is_of_group = call.host.processes.may_set_group(call.process, owner);
            let strange = if is_of_group { 0 } else { c::S_ISGID };
            call.host.meta_of(file)?.mode = mode & 0o7777 & !strange;
            return done(0);
        }
    };
    if call.host.files.inode(inode).node.is_symlink() {
        return Err(Errno::EOPNOTSUPP);
    }
    call.host.files.check_changeable(inode)?;
    call.host.files.inode(inode).check_flags(FileFlags::FIXED)?;
    call.host.files.check_owns(&call.host.processes, call.process, inode)?;
    call.host.take_over(inode)?;
    if (call.host.files.inode(inode).meta.mode ^ mode) & 0o111 != 0 {
        call.host.files.check_seals(inode, F_SEAL_EXEC)?;
    }
    call.host.files.inode(inode).meta.mode =
        call.host.files.mode_to_set(&call.host.processes, call.process, inode, mode);
    call.host.inode_changed(inode);
    attributes_changed(call, inode, by)
}
/// Reports `IN_ATTRIB`; `by` is the descriptor used for the change, if any.
fn attributes_changed(call: &mut Call<'_>, inode: InodeKey, by: Option<i32>) -> SysResult {
    match by {
        None => call.host.file_event(inode, c::IN_ATTRIB),
        Some(fd) => {
            let file = call.host.file_of(call.process, fd)?;
            call.host.open_file_event(file, inode, c::IN_ATTRIB);
        }
    }
    done(0)
}

/// `chown(2)`.
pub fn sys_chown(call: &mut Call<'_>) -> SysResult {
    let inode = changed_at(call, c::AT_FDCWD, call.args[0], Walk::FOLLOW)?;
    chown(call, inode, call.uint(1), call.uint(2), None)
}
/// `lchown(2)`.
pub fn sys_lchown(call: &mut Call<'_>) -> SysResult {
    let inode = changed_at(call, c::AT_FDCWD, call.args[0], Walk::empty())?;
    chown(call, inode, call.uint(1), call.uint(2), None)
}
/// `fchown(2)`.
pub fn sys_fchown(call: &mut Call<'_>) -> SysResult {
    let inode = changed_fd(call)?;
    chown(call, inode, call.uint(1), call.uint(2), Some(call.int(0)))
}
/// `fchownat(2)`.
pub fn sys_fchownat(call: &mut Call<'_>) -> SysResult {
    let walk = walk_of(call.int(4), c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH)?;
    let inode = changed_at(call, call.int(0), call.args[1], walk)?;
    chown(call, inode, call.uint(2), call.uint(3), None)
}
fn chown(call: &mut Call<'_>, target: Target, uid: u32, gid: u32, by: Option<i32>) -> SysResult {
    let given = |kind, id| call.host.processes.given_id(call.process, kind, id).ok_or(Errno::EINVAL);
    let (uid, gid) = (given(IdKind::User, uid)?, given(IdKind::Group, gid)?);
    let key = match target {
        Target::Inode(inode) => inode,
        Target::File(file) => {
            let meta = call.host.meta_of(file)?;
            let owner = (meta.uid, meta.gid);
            call.host.processes.check_may_give(call.process, owner, uid, gid)?;
            let is_of_group = call.host.processes.may_set_group(call.process, owner);
            let meta = call.host.meta_of(file)?;
            meta.mode = without_ids(meta.mode, is_of_group);
            meta.uid = if uid == u32::MAX { meta.uid } else { uid };
            meta.gid = if gid == u32::MAX { meta.gid } else { gid };
            return done(0);
        }
    };
    call.host.files.check_changeable(key)?;
    if (uid, gid) != (u32::MAX, u32::MAX) {
        call.host.files.inode(key).check_flags(FileFlags::FIXED)?;
    }
    call.host.files.check_may_give(&call.host.processes, call.process, key, uid, gid)?;
    call.host.take_over(key)?;
    let mode = call.host.files.mode_without_ids(&call.host.processes, call.process, key);
    let inode = call.host.files.inode(key);
    // A regular file loses its set-user-id and set-group-id bits, chown(2).
    inode.meta.mode = mode;
    if uid != u32::MAX {
        inode.meta.uid = uid;
    }
    if gid != u32::MAX {
        inode.meta.gid = gid;
    }
    call.host.inode_changed(key);
    attributes_changed(call, key, by)
}

/// Time argument of the `utime` family.
#[derive(Clone, Copy)]
enum NewTime {
    Now,
    Omit,
    At(i64),
}

/// `utime(2)`.
pub fn sys_utime(call: &mut Call<'_>) -> SysResult {
    let times = match call.args[1] {
        0 => [NewTime::Now; 2],
        addr => call.read::<[i64; 2]>(addr)?.map(|sec| NewTime::At(sec.saturating_mul(1_000_000_000))),
    };
    let inode = changed_at(call, c::AT_FDCWD, call.args[0], Walk::FOLLOW)?;
    set_times(call, inode, times)
}
/// `utimes(2)`.
pub fn sys_utimes(call: &mut Call<'_>) -> SysResult {
    let times = read_timevals(call, call.args[1])?;
    let inode = changed_at(call, c::AT_FDCWD, call.args[0], Walk::FOLLOW)?;
    set_times(call, inode, times)
}
/// `futimesat(2)`.
pub fn sys_futimesat(call: &mut Call<'_>) -> SysResult {
    let times = read_timevals(call, call.args[2])?;
    let inode = changed_by(call, Walk::FOLLOW)?;
    set_times(call, inode, times)
}
/// `utimensat(2)`; a null path changes the descriptor's own file, `futimens(3)`.
pub fn sys_utimensat(call: &mut Call<'_>) -> SysResult {
    let given = match call.args[2] {
        0 => None,
        addr => Some(call.read::<[FileTime; 2]>(addr)?),
    };
    // Nothing to change: the path is not even resolved.
    if given.is_some_and(|times| times.iter().all(|time| time.nsec == c::UTIME_OMIT)) {
        return done(0);
    }
    let walk = walk_of(call.int(3), c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH)?;
    if call.args[1] == 0 && call.int(0) != c::AT_FDCWD && call.int(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = changed_by(call, walk)?;
    // Invalid times are reported after the path has been resolved.
    let times = match given {
        None => [NewTime::Now; 2],
        Some([access, modify]) => [new_time(access)?, new_time(modify)?],
    };
    set_times(call, inode, times)
}
fn read_timevals(call: &Call<'_>, addr: u64) -> Result<[NewTime; 2], Errno> {
    if addr == 0 {
        return Ok([NewTime::Now; 2]);
    }
    let [access, modify]: [FileTime; 2] = call.read(addr)?;
    let convert = |time: FileTime| {
        // The second field of `struct timeval` counts microseconds.
        if !(0..1_000_000).contains(&time.nsec) {
            return Err(Errno::EINVAL);
        }
        Ok(NewTime::At(time.sec.saturating_mul(1_000_000_000).saturating_add(time.nsec * 1_000)))
    };
    Ok([convert(access)?, convert(modify)?])
}
fn new_time(time: FileTime) -> Result<NewTime, Errno> {
    match time.nsec {
        c::UTIME_NOW => Ok(NewTime::Now),
        c::UTIME_OMIT => Ok(NewTime::Omit),
        nsec @ 0..1_000_000_000 => {
            Ok(NewTime::At(time.sec.saturating_mul(1_000_000_000).saturating_add(nsec)))
        }
        _ => Err(Errno::EINVAL),
    }
}
fn set_times(call: &mut Call<'_>, target: Target, new: [NewTime; 2]) -> SysResult {
    let inode = match target {
        Target::Inode(inode) => inode,
        Target::File(file) => {
            let now = call.host.net.clock.realtime_ns() as i64;
            store_times(&mut unnamed_of_caller(call, file)?.times, new, now);
            return done(0);
        }
    };
    if new.iter().all(|time| matches!(time, NewTime::Omit)) {
        return done(0);
    }
    call.host.files.check_changeable(inode)?;
    let now = new.iter().all(|time| matches!(time, NewTime::Now));
    let fixed = if now { FileFlags::IMMUTABLE } else { FileFlags::FIXED };
    call.host.files.inode(inode).check_flags(fixed)?;
    if call.host.files.check_owns(&call.host.processes, call.process, inode).is_err() {
        // Write permission suffices to set both times to the present.
        if !now {
            return Err(Errno::EPERM);
        }
        call.host.files.check_permission(&call.host.processes, call.process, inode, WRITE)?;
    }
    call.host.take_over(inode)?;
    call.host.files.inode(inode).changed = true;
    let now = call.host.net.clock.realtime_ns() as i64;
    let event = match new {
        [NewTime::Omit, NewTime::Omit] => 0,
        [_, NewTime::Omit] => c::IN_ACCESS,
        [NewTime::Omit, _] => c::IN_MODIFY,
        _ => c::IN_ATTRIB,
    };
    let times = &mut call.host.files.inode(inode).meta.times;
    store_times(times, new, now);
    call.host.file_event(inode, event);
    done(0)
}

fn store_times(times: &mut Times, new: [NewTime; 2], now: i64) {
    for (field, new) in [&mut times.access, &mut times.modify].into_iter().zip(new) {
        match new {
            NewTime::Now => *field = now,
            NewTime::At(ns) => *field = ns,
            NewTime::Omit => {}
        }
    }
    times.change = now;
}

/// Attributes of a file outside any file system, to be changed by its owner: `EPERM` for other users.
fn unnamed_of_caller<'a>(call: &'a mut Call<'_>, file: FileKey) -> Result<&'a mut Meta, Errno> {
    let user = call.host.process(call.process).credentials.fsuid;
    let meta = call.host.meta_of(file)?;
    let owner = (meta.uid, meta.gid);
    if owner.0 != user && !call.host.processes.overrides(call.process, capability::FOWNER, owner) {
        return Err(Errno::EPERM);
    }
    call.host.meta_of(file)
}
