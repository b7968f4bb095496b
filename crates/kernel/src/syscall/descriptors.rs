//! Descriptors: closing, duplicating, flags, locks, `ioctl`.

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::FileKey;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use crate::thread::check_deadlock;
use belljar_linux_abi::file::Flock;
use belljar_linux_abi::landlock::ACCESS_FS_IOCTL_DEV;
use belljar_linux_abi::signal::NSIG;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::{FileKind, FilePlace};
use belljar_objects::locks::{LockOwner, RecordLock};
use belljar_objects::notify::DN_MULTISHOT;
use belljar_objects::open_file::FdEntry;

/// Status flags that `F_SETFL` can change.
const SETTABLE: i32 = c::O_APPEND | c::O_NONBLOCK | c::O_ASYNC | c::O_DIRECT | c::O_NOATIME;

/// `fcntl(2)` commands that `libc` does not list.
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const F_OWNER_TID: i32 = 0;
const F_OWNER_PID: i32 = 1;
const F_OWNER_PGRP: i32 = 2;
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_DUPFD_QUERY: i32 = 1_027;
const F_CREATED_QUERY: i32 = 1_028;

/// `close(2)`.
pub fn sys_close(call: &mut Call<'_>) -> SysResult {
    let lingering = match call.take_state() {
        CallState::Lingering(lingering) => Some(*lingering),
        _ => {
            let closed = call.host.files.socket_behind(&call.host.processes, call.process, call.int(0));
            call.host.stack_of_mut(closed).lingering = None;
            call.host.close_fd(call.process, call.int(0))?;
            let begun = call.host.stack_of_mut(closed).lingering.take();
            begun.map(|(key, ends, time)| (key, ends, call.after(time)))
        }
    };
    // `SO_LINGER`, as `sk_stream_wait_close`: waits until the sent data is acknowledged, the linger time has
    // passed or a signal arrives. The descriptor is already closed, and none of these is an error.
    match lingering {
        Some((key, ends, until))
            if !call.deadline_passed() && call.host.stack_of_mut(key).tcp_lingers(key, ends) =>
        {
            let block = Block::on(key.into()).with_deadline(Some(until));
            block
                .with_state(CallState::Lingering(Box::new((key, ends, until))))
                .interrupted(IfInterrupted::Value(0))
                .into()
        }
        _ => done(0),
    }
}

/// `close_range(2)`.
pub fn sys_close_range(call: &mut Call<'_>) -> SysResult {
    let (first, last, flags) = (call.uint(0), call.uint(1), call.uint(2));
    if flags & !(c::CLOSE_RANGE_CLOEXEC | c::CLOSE_RANGE_UNSHARE) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    if flags & c::CLOSE_RANGE_UNSHARE != 0 {
        let table = call.host.process(call.process).fds.ok_or(Errno::EBADF)?;
        let highest = call.host.files.tables[table.0].entries.iter().rposition(Option::is_some);
        // Descriptors about to be closed are not copied, if no higher ones remain open.
        let closes_rest =
            flags & c::CLOSE_RANGE_CLOEXEC == 0 && highest.is_none_or(|highest| highest <= last as usize);
        call.host.check_own_fd_table(call.thread, if closes_rest { first as usize } else { usize::MAX })?;
        call.host.unshare_fd_table(call.thread);
    }
    let table = call.host.process(call.process).fds.ok_or(Errno::EBADF)?;
    let open = call.host.files.tables[table.0].entries.len() as u32;
    for fd in first..=last.min(open.saturating_sub(1)) {
        if flags & c::CLOSE_RANGE_CLOEXEC != 0 {
            if let Some(Some(entry)) = call.host.files.tables[table.0].entries.get_mut(fd as usize) {
                entry.close_on_exec = true;
            }
        } else {
            // Descriptors that are not open are skipped.
            let _ = call.host.close_fd(call.process, fd as i32);
        }
    }
    done(0)
}

/// `dup(2)`.
pub fn sys_dup(call: &mut Call<'_>) -> SysResult {
    duplicate(call, 0, false)
}

/// `dup2(2)`.
pub fn sys_dup2(call: &mut Call<'_>) -> SysResult {
    let (from, to) = (call.int(0), call.int(1));
    if from == to {
        call.host.file_of(call.process, from)?;
        return done(to as u64);
    }
    call.host.duplicate_to(call.process, from, to, false)?;
    done(to as u64)
}

/// `dup3(2)`.
pub fn sys_dup3(call: &mut Call<'_>) -> SysResult {
    let (from, to, flags) = (call.int(0), call.int(1), call.int(2));
    if from == to || flags & !c::O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    call.host.duplicate_to(call.process, from, to, flags & c::O_CLOEXEC != 0)?;
    done(to as u64)
}

fn duplicate(call: &mut Call<'_>, from: usize, close_on_exec: bool) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    call.host.files.retain_file(file);
    done(call.host.install_fd(call.process, file, close_on_exec, from)?)
}

/// `F_SETOWN`, `F_GETOWN` and their `_EX` variants.
fn file_owner(call: &mut Call<'_>, file: FileKey, command: i32, argument: u64) -> SysResult {
    let (id, thread) = match command {
        c::F_SETOWN => (argument as i32, false),
        F_SETOWN_EX => {
            let [kind, id] = call.read::<[i32; 2]>(argument)?;
            match kind {
                F_OWNER_TID | F_OWNER_PID => {
                    (call.host.processes.meant_pid(call.process, id), kind == F_OWNER_TID)
                }
                F_OWNER_PGRP => (call.host.processes.meant_pid(call.process, id.wrapping_neg()), false),
                _ => return Err(Errno::EINVAL),
            }
        }
        _ => {
            let mut owner = call.host.files.file_owner(file);
            owner.id = call.host.processes.shown_owner(call.process, owner.id);
            if command == c::F_GETOWN {
                return done(i64::from(owner.id) as u64);
            }
            let kind = match owner.id {
                group if group < 0 => F_OWNER_PGRP,
                _ if owner.thread => F_OWNER_TID,
                _ => F_OWNER_PID,
            };
            call.write(argument, &[kind, owner.id.wrapping_abs()])?;
            return done(0);
        }
    };
    call.host.set_file_owner(call.process, file, id, thread)?;
    done(0)
}

/// `fcntl(2)`.
pub fn sys_fcntl(call: &mut Call<'_>) -> SysResult {
    let (fd, command, argument) = (call.int(0), call.int(1), call.args[2]);
    let FdEntry { file, close_on_exec } = call.host.files.fd_entry(&call.host.processes, call.process, fd)?;
    let path_only =
        [c::F_DUPFD, c::F_DUPFD_CLOEXEC, F_DUPFD_QUERY, F_CREATED_QUERY, c::F_GETFD, c::F_SETFD, c::F_GETFL];
    if call.host.files.open(file).flags & c::O_PATH != 0 && !path_only.contains(&command) {
        return Err(Errno::EBADF);
    }
    match command {
        c::F_DUPFD | c::F_DUPFD_CLOEXEC => {
            let limit = call.host.process(call.process).rlimits[c::RLIMIT_NOFILE as usize].soft;
            if argument as i32 as u64 >= limit {
                return Err(Errno::EINVAL);
            }
            duplicate(call, argument as usize, command == c::F_DUPFD_CLOEXEC)
        }
        c::F_GETFD => done(u64::from(close_on_exec)),
        c::F_SETFD => {
            call.host.files.set_close_on_exec(
                &call.host.processes,
                call.process,
                fd,
                argument as i32 & c::FD_CLOEXEC != 0,
            )?;
            done(0)
        }
        c::F_GETFL => done(call.host.files.open(file).flags as u64),
        c::F_SETFL => {
            let asked = argument as i32;
            let (flags, inode) = (call.host.files.open(file).flags, call.host.files.open(file).kind.inode());
            if let Some(inode) = inode {
                if (asked ^ flags) & c::O_APPEND != 0 {
                    call.host.files.inode(inode).check_flags(FileFlags::APPEND)?;
                }
                if asked & !flags & c::O_NOATIME != 0 {
                    call.host.files.check_owns(&call.host.processes, call.process, inode)?;
                }
            }
            call.host.set_file_async(file, fd, asked & c::O_ASYNC != 0);
            let open = call.host.files.open(file);
            open.flags = open.flags & !SETTABLE | asked & SETTABLE;
            done(0)
        }
        c::F_GETLK | c::F_SETLK | c::F_SETLKW | c::F_OFD_GETLK | c::F_OFD_SETLK | c::F_OFD_SETLKW => {
            record_lock(call, file, command, argument)
        }
        c::F_GETPIPE_SZ => {
            let pipe = call.host.files.pipe_of(file).ok_or(Errno::EBADF)?;
            done(pipe.capacity() as u64)
        }
        c::F_SETPIPE_SZ => {
            let privileged = call.host.processes.is_capable(call.process, capability::SYS_RESOURCE);
            done(call.host.set_pipe_capacity(file, u64::from(argument as u32), privileged)? as u64)
        }
        c::F_SETOWN | c::F_GETOWN | F_SETOWN_EX | F_GETOWN_EX => file_owner(call, file, command, argument),
        F_SETSIG if !(0..=NSIG).contains(&(argument as i32)) => Err(Errno::EINVAL),
        F_SETSIG => {
            call.host.files.set_file_signal(file, argument as i32);
            done(0)
        }
        F_GETSIG => done(call.host.files.file_owner(file).signal as u64),
        c::F_GET_SEALS => {
            let inode = call.host.files.open(file).kind.inode().ok_or(Errno::EINVAL)?;
            done(call.host.files.inode(inode).seals()? as u64)
        }
        c::F_ADD_SEALS => {
            let open = call.host.files.open(file);
            if !open.is_writable() {
                return Err(Errno::EPERM);
            }
            let inode = open.kind.inode().ok_or(Errno::EINVAL)?;
            call.host.files.inode(inode).seals()?;
            call.host.files.add_seals(&call.host.spaces, inode, argument as i32)?;
            done(0)
        }
        F_DUPFD_QUERY => done(u64::from(call.host.file_of(call.process, argument as i32)? == file)),
        F_CREATED_QUERY => done(u64::from(call.host.files.open(file).created)),
        c::F_GETLEASE => done(call.host.files.lease_of(file) as u64),
        c::F_SETLEASE => {
            call.host.set_lease(call.process, fd, file, argument as i32)?;
            done(0)
        }
        c::F_NOTIFY => watch_directory(call, fd, file, argument as u32),
        _ => Err(Errno::EINVAL),
    }
}

/// `F_NOTIFY`: without events, cancels the previous request.
fn watch_directory(call: &mut Call<'_>, fd: i32, file: FileKey, flags: u32) -> SysResult {
    if call.host.setting("sys/fs/dir-notify-enable") == Some(0) {
        return Err(Errno::EINVAL);
    }
    let by = (call.host.process(call.process).fds.ok_or(Errno::EBADF)?, file);
    let takes_back = flags & !DN_MULTISHOT == 0;
    match call.host.files.open(file).kind {
        FileKind::Directory { inode, .. } if takes_back => {
            call.host.files.notify.unwatch_directory(inode, by)
        }
        FileKind::Directory { inode, .. } => {
            call.host.files.notify.watch_directory(inode, by, fd, flags);
            call.host.own_if_unowned(call.process, file)?;
        }
        _ if takes_back => {}
        _ => return Err(Errno::ENOTDIR),
    }
    done(0)
}

fn record_lock(call: &mut Call<'_>, file: FileKey, command: i32, argument: u64) -> SysResult {
    let mut flock: Flock = call.read(argument)?;
    let of_file = matches!(command, c::F_OFD_GETLK | c::F_OFD_SETLK | c::F_OFD_SETLKW);
    if of_file && flock.pid != 0 {
        return Err(Errno::EINVAL);
    }
    let open = call.host.files.open(file);
    let (readable, writable, position) = (open.is_readable(), open.is_writable(), open.offset);
    let place = open.kind.place();
    let size = match place {
        FilePlace::Inode(inode) => call.host.files.inode(inode).content().map_or(0, |content| content.size),
        _ => 0,
    };
    let base = match i32::from(flock.whence) {
        c::SEEK_SET => 0,
        c::SEEK_CUR => position as i64,
        c::SEEK_END => size as i64,
        _ => return Err(Errno::EINVAL),
    };
    let (start, end) = lock_range(base, flock.start, flock.len)?;
    let process = call.host.process(call.process);
    let owner = if of_file {
        LockOwner::File(file)
    } else {
        LockOwner::Process(process.fds.ok_or(Errno::EBADF)?, process.pid)
    };
    let exclusive = match i32::from(flock.kind) {
        c::F_RDLCK => false,
        c::F_WRLCK => true,
        c::F_UNLCK if !matches!(command, c::F_GETLK | c::F_OFD_GETLK) => {
            let locks = call.host.files.locks_of(&mut call.host.waits, place);
            let queue = locks.queue;
            if locks.clear(owner, start, end) {
                call.host.notify(queue);
            }
            call.host.files.forget_locks_if_unused(&mut call.host.waits, place);
            return done(0);
        }
        _ => return Err(Errno::EINVAL),
    };
    let wanted = RecordLock { owner, exclusive, start, end };
    let locks = call.host.files.locks_of(&mut call.host.waits, place);
    let (queue, conflict) = (locks.queue, locks.conflict(&wanted));
    if matches!(command, c::F_GETLK | c::F_OFD_GETLK) {
        call.host.files.forget_locks_if_unused(&mut call.host.waits, place);
        flock.kind = c::F_UNLCK as i16;
        if let Some(held) = conflict {
            flock.kind = if held.exclusive { c::F_WRLCK as i16 } else { c::F_RDLCK as i16 };
            flock.whence = c::SEEK_SET as i16;
            flock.start = held.start as i64;
            flock.len = if held.end == u64::MAX { 0 } else { (held.end - held.start) as i64 };
            flock.pid = call.host.processes.shown_pid(call.process, held.owner.pid());
        }
        call.write(argument, &flock)?;
        return done(0);
    }
    if (exclusive && !writable) || (!exclusive && !readable) {
        call.host.files.forget_locks_if_unused(&mut call.host.waits, place);
        return Err(Errno::EBADF);
    }
    match conflict {
        None => {
            locks_changed(call, place, wanted);
            done(0)
        }
        Some(held) if command == c::F_SETLKW => {
            check_deadlock(&call.host.threads, call.thread, owner, held.owner)?;
            let state = CallState::RecordLock(owner, held.owner);
            Block::on(queue).with_state(state).into()
        }
        Some(_) if command == c::F_OFD_SETLKW => Block::on(queue).into(),
        Some(_) => Err(Errno::EAGAIN),
    }
}

/// Acquires a record lock; a range that changes to shared may unblock waiters.
fn locks_changed(call: &mut Call<'_>, place: FilePlace, lock: RecordLock) {
    let locks = call.host.files.locks_of(&mut call.host.waits, place);
    locks.set(lock);
    let queue = locks.queue;
    if !lock.exclusive {
        call.host.notify(queue);
    }
}

/// Byte range of `l_start` and `l_len`: `EINVAL` if it begins before the start of the file, `EOVERFLOW`
/// beyond the last offset.
fn lock_range(base: i64, start: i64, len: i64) -> Result<(u64, u64), Errno> {
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = match len {
        0 => (start, None),
        // The last byte offset is `i64::MAX`.
        1.. => (start, Some(start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)? as u64 + 1)),
        _ => (start.checked_add(len).ok_or(Errno::EINVAL)?, Some(start as u64)),
    };
    let start = u64::try_from(start).map_err(|_| Errno::EINVAL)?;
    // A lock that includes the last offset extends to the end of the file (`OFFSET_MAX`).
    let end = end.filter(|end| *end <= i64::MAX as u64);
    Ok((start, end.unwrap_or(u64::MAX)))
}

/// `flock(2)`.
pub fn sys_flock(call: &mut Call<'_>) -> SysResult {
    let operation = call.int(1);
    if !matches!(operation & !c::LOCK_NB, c::LOCK_SH | c::LOCK_EX | c::LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let file = call.host.file_of(call.process, call.int(0))?;
    if call.host.files.open(file).flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let place = call.host.files.open(file).kind.place();
    let exclusive = match operation & !c::LOCK_NB {
        c::LOCK_SH => false,
        c::LOCK_EX => true,
        c::LOCK_UN => {
            let locks = call.host.files.locks_of(&mut call.host.waits, place);
            let queue = locks.queue;
            if locks.unlock_whole(file) {
                call.host.notify(queue);
            }
            call.host.files.forget_locks_if_unused(&mut call.host.waits, place);
            return done(0);
        }
        _ => return Err(Errno::EINVAL),
    };
    let locks = call.host.files.locks_of(&mut call.host.waits, place);
    let queue = locks.queue;
    if locks.lock_whole(file, exclusive) {
        if !exclusive {
            call.host.notify(queue);
        }
        return done(0);
    }
    if operation & c::LOCK_NB != 0 { Err(Errno::EAGAIN) } else { Block::on(queue).into() }
}

/// `ioctl(2)`: handles the requests common to all files and dispatches the others to the file's type.
pub fn sys_ioctl(call: &mut Call<'_>) -> SysResult {
    let fd = call.int(0);
    let file = call.host.file_of(call.process, fd)?;
    let argument = call.args[2];
    if call.host.files.open(file).flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    match u64::from(call.uint(1)) {
        c::FIOCLEX => call
            .host
            .files
            .set_close_on_exec(&call.host.processes, call.process, fd, true)
            .and_then(|()| done(0)),
        c::FIONCLEX => call
            .host
            .files
            .set_close_on_exec(&call.host.processes, call.process, fd, false)
            .and_then(|()| done(0)),
        c::FIONBIO => {
            let on: i32 = call.read(argument)?;
            let open = call.host.files.open(file);
            open.flags = if on != 0 { open.flags | c::O_NONBLOCK } else { open.flags & !c::O_NONBLOCK };
            done(0)
        }
        c::FIOASYNC => {
            let on: i32 = call.read(argument)?;
            let was = call.host.files.open(file).flags & c::O_ASYNC != 0;
            // A file without asynchronous notification fails only if the flag would change.
            let can = call.host.set_file_async(file, fd, on != 0);
            if can || was == (on != 0) {
                done(0)
            } else {
                call.host.files.open(file).flags &= !c::O_ASYNC;
                Err(Errno::ENOTTY)
            }
        }
        request => {
            let open = call.host.files.open(file);
            if open.withheld & ACCESS_FS_IOCTL_DEV != 0 && open.kind.is_device() {
                return Err(Errno::EACCES);
            }
            call.file_ioctl(file, request, argument)
        }
    }
}
