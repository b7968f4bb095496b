//! inotify_init(2), inotify_add_watch(2), inotify_rm_watch(2).

use crate::call::Call;
use crate::files::tree::Walk;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};

/// inotify_init(2).
pub fn sys_inotify_init(call: &mut Call<'_>) -> SysResult {
    create(call, 0)
}

/// inotify_init1(2).
pub fn sys_inotify_init1(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(0);
    if flags & !(c::IN_NONBLOCK | c::IN_CLOEXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    create(call, flags)
}

fn create(call: &mut Call<'_>, flags: i32) -> SysResult {
    let file = call.host.files.create_inotify(&mut call.host.waits, flags & c::IN_NONBLOCK);
    done(call.host.install_fd(call.process, file, flags & c::IN_CLOEXEC != 0, 0)?)
}

/// inotify_add_watch(2).
pub fn sys_inotify_add_watch(call: &mut Call<'_>) -> SysResult {
    let mask = call.uint(2);
    let options = c::IN_ONLYDIR
        | c::IN_DONT_FOLLOW
        | c::IN_EXCL_UNLINK
        | c::IN_MASK_ADD
        | c::IN_MASK_CREATE
        | c::IN_ONESHOT;
    if mask & (c::IN_ALL_EVENTS | options) == 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.host.pollable_file(call.process, call.int(0))?;
    if mask & c::IN_MASK_ADD != 0 && mask & c::IN_MASK_CREATE != 0 {
        return Err(Errno::EINVAL);
    }
    let instance = call.host.files.notify_of(file, false)?;
    let path = call.read_path(call.args[1])?;
    let walk = if mask & c::IN_DONT_FOLLOW != 0 { Walk::empty() } else { Walk::FOLLOW };
    let inode = call.host.resolve_here(call.process, &path, walk)?.inode()?;
    let is_directory = call.host.files.inode(inode).node.is_directory();
    done(call.host.files.notify.add_watch(instance, inode, is_directory, mask)? as u64)
}

/// inotify_rm_watch(2).
pub fn sys_inotify_rm_watch(call: &mut Call<'_>) -> SysResult {
    let file = call.host.pollable_file(call.process, call.int(0))?;
    let instance = call.host.files.notify_of(file, false)?;
    let told = call.host.files.notify.remove_watch(instance, call.int(1))?;
    call.host.carry_out_notification(vec![told], None);
    done(0)
}
