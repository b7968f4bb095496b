//! File attributes: `stat` and its relatives, access checks and file-system statistics.

use crate::call::Call;
use crate::files::attributes::FileAttributes;
use crate::files::permission::WRITE;
use crate::files::tree::{Target, Walk};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::inode::Node;
use belljar_objects::mounts::{BASE, MountFlags};
use belljar_objects::namespaces::IdKind;
use belljar_objects::virtual_files::table::FILE_SYSTEMS;

fn at_path(call: &mut Call<'_>, dirfd: i32, path: u64, walk: Walk) -> Result<FileAttributes, Errno> {
    // With AT_EMPTY_PATH, newer programs pass a null pointer instead of an empty path.
    let path = if path == 0 && walk.contains(Walk::EMPTY) { Vec::new() } else { call.read_path(path)? };
    let found = call.host.resolve(call.process, dirfd, &path, walk)?;
    let mut attributes = call.host.attributes(found.target()?);
    if let Ok(place) = found.place() {
        attributes.mount = (call.host.files.shown_mount(place), call.host.files.is_mount_root(place));
    }
    Ok(attributes)
}

/// Path walk for `AT_*` flags; `EINVAL` for flags outside `known`.
pub(super) fn walk_of(flags: i32, known: i32) -> Result<Walk, Errno> {
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & c::AT_SYMLINK_NOFOLLOW == 0);
    walk.set(Walk::EMPTY, flags & c::AT_EMPTY_PATH != 0);
    Ok(walk)
}

/// Maps the owner ids of attributes to the caller's user namespace.
fn shown(call: &Call<'_>, mut found: FileAttributes) -> FileAttributes {
    let meta = &mut found.meta;
    meta.uid = call.host.processes.shown_id(call.process, IdKind::User, meta.uid);
    meta.gid = call.host.processes.shown_id(call.process, IdKind::Group, meta.gid);
    found
}

/// `stat(2)`.
pub fn sys_stat(call: &mut Call<'_>) -> SysResult {
    let found = at_path(call, c::AT_FDCWD, call.args[0], Walk::FOLLOW)?;
    call.write(call.args[1], &shown(call, found).stat())?;
    done(0)
}

/// `lstat(2)`.
pub fn sys_lstat(call: &mut Call<'_>) -> SysResult {
    let found = at_path(call, c::AT_FDCWD, call.args[0], Walk::empty())?;
    call.write(call.args[1], &shown(call, found).stat())?;
    done(0)
}

/// `fstat(2)`.
pub fn sys_fstat(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let found = call.host.file_attributes(file);
    call.write(call.args[1], &shown(call, found).stat())?;
    done(0)
}

/// `newfstatat(2)`.
pub fn sys_newfstatat(call: &mut Call<'_>) -> SysResult {
    let known = c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH | c::AT_NO_AUTOMOUNT;
    let walk = walk_of(call.int(3), known)?;
    let found = at_path(call, call.int(0), call.args[1], walk)?;
    call.write(call.args[2], &shown(call, found).stat())?;
    done(0)
}

/// `statx(2)`.
pub fn sys_statx(call: &mut Call<'_>) -> SysResult {
    let known = c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH | c::AT_NO_AUTOMOUNT | c::AT_STATX_SYNC_TYPE;
    let walk = walk_of(call.int(2), known)?;
    if call.int(3) < 0 {
        return Err(Errno::EINVAL);
    }
    let found = at_path(call, call.int(0), call.args[1], walk)?;
    call.write(call.args[4], &shown(call, found).statx(call.uint(3)))?;
    done(0)
}

/// `access(2)`.
pub fn sys_access(call: &mut Call<'_>) -> SysResult {
    access(call, c::AT_FDCWD, call.args[0], call.int(1), 0)
}

/// `faccessat(2)`; the system call has no flags argument.
pub fn sys_faccessat(call: &mut Call<'_>) -> SysResult {
    access(call, call.int(0), call.args[1], call.int(2), 0)
}

/// `faccessat2(2)`.
pub fn sys_faccessat2(call: &mut Call<'_>) -> SysResult {
    access(call, call.int(0), call.args[1], call.int(2), call.int(3))
}

fn access(call: &mut Call<'_>, dirfd: i32, path: u64, wanted: i32, flags: i32) -> SysResult {
    if wanted & !(c::R_OK | c::W_OK | c::X_OK) != 0 {
        return Err(Errno::EINVAL);
    }
    let walk = walk_of(flags, c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH | c::AT_EACCESS)?;
    let path = call.read_path(path)?;
    let credentials = &mut call.host.processes[call.process.0].credentials;
    let real = if flags & c::AT_EACCESS != 0 { None } else { credentials.of_real_user() };
    let Some(real) = real else { return check_access(call, (dirfd, &path, walk), wanted) };
    let own = std::mem::replace(credentials, real);
    let outcome = check_access(call, (dirfd, &path, walk), wanted);
    call.host.processes[call.process.0].credentials = own;
    outcome
}

/// Checks all access modes in `wanted` against the caller's present credentials.
fn check_access(call: &mut Call<'_>, (dirfd, path, walk): (i32, &[u8], Walk), wanted: i32) -> SysResult {
    let found = call.host.resolve(call.process, dirfd, path, walk)?;
    if let Target::Inode(inode) = found.target()? {
        let place = (found.target_mount, inode);
        let no_exec = call.host.files.mount_flags(place).contains(MountFlags::NO_EXEC);
        if no_exec && wanted & c::X_OK != 0 && call.host.files.inode(inode).content().is_some() {
            return Err(Errno::EACCES);
        }
        // `R_OK`, `W_OK` and `X_OK` equal the mode bits of the class "others".
        let wanted = wanted as u32;
        call.host.files.check_permission(&call.host.processes, call.process, inode, wanted)?;
        let node = &call.host.files.inode(inode).node;
        let special = matches!(node, Node::Device(_) | Node::Fifo | Node::Socket);
        if wanted & WRITE != 0 && !special {
            call.host.files.check_writable(place)?;
        }
    }
    done(0)
}

/// `statfs(2)`.
pub fn sys_statfs(call: &mut Call<'_>) -> SysResult {
    let path = call.read_path(call.args[0])?;
    let found = call.host.resolve_here(call.process, &path, Walk::FOLLOW)?;
    let device = call.host.attributes(found.target()?).device;
    let answer = call.host.files.file_system(found.target_mount, device);
    call.write(call.args[1], &answer)?;
    done(0)
}

/// `fstatfs(2)`.
pub fn sys_fstatfs(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let device = call.host.file_attributes(file).device;
    let mount = call.host.files.open(file).mount_key();
    let answer = call.host.files.file_system(mount, device);
    call.write(call.args[1], &answer)?;
    done(0)
}

/// sysfs(2), the obsolete query of file-system types.
pub fn sys_sysfs(call: &mut Call<'_>) -> SysResult {
    match call.int(0) {
        1 => {
            let name = call.read_path(call.args[1])?;
            let at = FILE_SYSTEMS.iter().position(|kind| kind.as_bytes() == name);
            done(at.ok_or(Errno::EINVAL)? as u64)
        }
        2 => {
            let name = FILE_SYSTEMS.get(call.uint(1) as usize).ok_or(Errno::EINVAL)?;
            call.write_bytes(call.args[2], &[name.as_bytes(), b"\0"].concat())?;
            done(0)
        }
        3 => done(FILE_SYSTEMS.len() as u64),
        _ => Err(Errno::EINVAL),
    }
}

/// ustat(2): free blocks and inodes of the file system on a device.
pub fn sys_ustat(call: &mut Call<'_>) -> SysResult {
    let device = u64::from(call.uint(0));
    call.host.files.mounts.system(device).ok_or(Errno::EINVAL)?;
    let found = call.host.files.file_system(BASE, device);
    call.write(call.args[1], &[u64::from(found.bfree as u32), found.ffree, 0, 0])?;
    done(0)
}
