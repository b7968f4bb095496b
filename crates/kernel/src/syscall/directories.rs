//! Directories: reading them, the working directory and the root.

use crate::call::Call;
use crate::credentials::capability;
use crate::files::permission::EXEC;
use crate::files::tree::{Target, Walk};
use crate::guest::PATH_MAX;
use crate::ids::InodeKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::listing::DirentLayout;
use belljar_objects::mounts::Place;

/// `getdents(2)`.
pub fn sys_getdents(call: &mut Call<'_>) -> SysResult {
    read_directory(call, DirentLayout::Old)
}

/// `getdents64(2)`.
pub fn sys_getdents64(call: &mut Call<'_>) -> SysResult {
    read_directory(call, DirentLayout::New)
}

fn read_directory(call: &mut Call<'_>, layout: DirentLayout) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    if call.host.files.open(file).flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    if let FileKind::Directory { inode, .. } = call.host.files.open(file).kind
        && let Some(block) = call.ask_to_read(file, inode)?
    {
        return block.into();
    }
    let before = call.host.files.open(file).offset;
    let records = call.host.read_directory(file, call.uint(2) as usize, layout)?;
    if let Err(errno) = call.write_bytes(call.args[1], &records) {
        call.host.files.open(file).offset = before;
        return Err(errno);
    }
    done(records.len() as u64)
}

/// `getcwd(2)`.
pub fn sys_getcwd(call: &mut Call<'_>) -> SysResult {
    let process = call.host.process(call.process);
    let (cwd, root) = (process.cwd.clone(), process.root.clone());
    call.host.resolve_absolute(call.process, &cwd)?;
    let inside = if root == b"/" || root.is_empty() { Some(&cwd[..]) } else { cwd.strip_prefix(&root[..]) };
    let mut path = match inside {
        Some(b"") => b"/".to_vec(),
        Some(path) => path.to_vec(),
        None => [b"(unreachable)", &cwd[..]].concat(),
    };
    path.push(0);
    if path.len() > PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if (call.args[1] as usize) < path.len() {
        return Err(Errno::ERANGE);
    }
    call.write_bytes(call.args[0], &path)?;
    done(path.len() as u64)
}

/// `chdir(2)`.
pub fn sys_chdir(call: &mut Call<'_>) -> SysResult {
    let path = call.read_path(call.args[0])?;
    let found = call.host.resolve_here(call.process, &path, Walk::FOLLOW)?;
    let Target::Inode(inode) = found.target()? else { return Err(Errno::ENOTDIR) };
    check_enterable(call, inode)?;
    let path = directory_path(call, (found.target_mount, inode))?;
    call.host.process(call.process).cwd = path;
    done(0)
}

/// `fchdir(2)`.
pub fn sys_fchdir(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let inode = match &call.host.files.open(file).kind {
        FileKind::Directory { inode, .. } | FileKind::Path(inode) => *inode,
        _ => return Err(Errno::ENOTDIR),
    };
    check_enterable(call, inode)?;
    let mount = call.host.files.open(file).mount_key();
    let path = directory_path(call, (mount, inode))?;
    call.host.process(call.process).cwd = path;
    done(0)
}

/// `chroot(2)`.
pub fn sys_chroot(call: &mut Call<'_>) -> SysResult {
    let path = call.read_path(call.args[0])?;
    let place = call.host.resolve_here(call.process, &path, Walk::FOLLOW)?.place()?;
    check_enterable(call, place.1)?;
    call.host.processes.require_own(call.process, capability::SYS_CHROOT)?;
    let path = directory_path(call, place)?;
    call.host.process(call.process).root = path;
    done(0)
}

fn check_enterable(call: &mut Call<'_>, inode: InodeKey) -> Result<(), Errno> {
    if !call.host.files.inode(inode).node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    call.host.files.check_permission(&call.host.processes, call.process, inode, EXEC)
}

fn directory_path(call: &mut Call<'_>, place: Place) -> Result<Vec<u8>, Errno> {
    if !call.host.files.inode(place.1).node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    call.host.files.path_of_place(place).ok_or(Errno::ENOENT)
}
