//! Vectored reads and writes: `readv(2)` and its relatives.

use super::files::position;
use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::ids::FileKey;
use crate::outcome::{Outcome, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::devices::Device;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::DISK;

/// Flags of `preadv2(2)` and `pwritev2(2)` that `libc` does not list.
const RWF_NOAPPEND: i32 = 0x20;
const RWF_DONTCACHE: i32 = 0x80;

/// `readv(2)`.
pub fn sys_readv(call: &mut Call<'_>) -> SysResult {
    move_vector(call, None, 0, false)
}
/// `writev(2)`.
pub fn sys_writev(call: &mut Call<'_>) -> SysResult {
    move_vector(call, None, 0, true)
}
/// `preadv(2)`.
pub fn sys_preadv(call: &mut Call<'_>) -> SysResult {
    let offset = position(call.args[3])?;
    move_vector(call, Some(offset), 0, false)
}
/// `pwritev(2)`.
pub fn sys_pwritev(call: &mut Call<'_>) -> SysResult {
    let offset = position(call.args[3])?;
    move_vector(call, Some(offset), 0, true)
}
/// `preadv2(2)`.
pub fn sys_preadv2(call: &mut Call<'_>) -> SysResult {
    let offset = if call.args[3] == u64::MAX { None } else { Some(position(call.args[3])?) };
    move_vector(call, offset, call.int(5), false)
}
/// `pwritev2(2)`.
pub fn sys_pwritev2(call: &mut Call<'_>) -> SysResult {
    let offset = if call.args[3] == u64::MAX { None } else { Some(position(call.args[3])?) };
    move_vector(call, offset, call.int(5), true)
}

/// Reads or writes a vector of buffers. Access to the file is checked before the vector is read; an empty
/// vector skips all further checks.
fn move_vector(call: &mut Call<'_>, offset: Option<u64>, flags: i32, writes: bool) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let buffers = vector(call, file, offset, writes)?;
    let outcome = if total_len(&buffers) == 0 {
        done(0)
    } else if knows_no_vectors(&call.host.files.open(file).kind, writes) {
        if flags & !c::RWF_HIPRI != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        one_by_one(call, file, &buffers, writes)
    } else {
        let before = call.host.files.open(file).flags;
        let during = flagged(call, file, flags, writes)?;
        call.host.files.open(file).flags = during;
        let outcome = move_bytes(call, file, &buffers, offset, writes);
        call.host.files.open(file).flags = before;
        outcome
    };
    // These calls generate inotify events even if no bytes were transferred (`do_iter_readv_writev`).
    if matches!(outcome, Ok(Outcome::Done(0)))
        && let FileKind::Regular(inode) = call.host.files.open(file).kind
    {
        call.host.open_file_event(file, inode, if writes { c::IN_MODIFY } else { c::IN_ACCESS });
    }
    outcome
}

fn move_bytes(
    call: &mut Call<'_>,
    file: FileKey,
    buffers: &GuestBuffers,
    offset: Option<u64>,
    writes: bool,
) -> SysResult {
    if writes { call.file_write(file, buffers, offset) } else { call.file_read(file, buffers, offset) }
}

/// True if Linux's driver has no vectored operation and handles one buffer at a time.
fn knows_no_vectors(kind: &FileKind, writes: bool) -> bool {
    match kind {
        FileKind::EventFd(_) | FileKind::Device { device: Device::Full, .. } => writes,
        FileKind::Notify(_) => true,
        FileKind::Directory { .. } => !writes,
        _ => false,
    }
}

/// Transfers one buffer at a time, until one is not transferred completely.
fn one_by_one(call: &mut Call<'_>, file: FileKey, buffers: &GuestBuffers, writes: bool) -> SysResult {
    let mut total = 0;
    for &(addr, len) in buffers {
        match move_bytes(call, file, &Call::one_buffer(addr, len), None, writes) {
            Ok(Outcome::Done(part)) => {
                total += part;
                if part != len {
                    break;
                }
            }
            other if total == 0 => return other,
            _ => break,
        }
    }
    done(total)
}

/// Open-file flags in effect for a call with these `RWF_*` flags. `EOPNOTSUPP` for flags that are unknown or
/// that the file does not support.
fn flagged(call: &mut Call<'_>, file: FileKey, flags: i32, writes: bool) -> Result<i32, Errno> {
    let known = c::RWF_HIPRI
        | c::RWF_DSYNC
        | c::RWF_SYNC
        | c::RWF_NOWAIT
        | c::RWF_APPEND
        | RWF_NOAPPEND
        | RWF_DONTCACHE;
    if flags & !known != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & (c::RWF_APPEND | RWF_NOAPPEND) == c::RWF_APPEND | RWF_NOAPPEND {
        return Err(Errno::EINVAL);
    }
    let open = call.host.files.open(file);
    let (kind, mut during) = (open.kind.clone(), open.flags);
    let on_disk = match kind {
        FileKind::Regular(inode) => call.host.files.inode(inode).device == DISK,
        _ => false,
    };
    let need_not_wait = match kind {
        FileKind::Regular(_) => on_disk && !writes,
        FileKind::Virtual { .. }
        | FileKind::Device { device: Device::Full, .. }
        | FileKind::Terminal { .. }
        | FileKind::PtyMaster { .. } => false,
        FileKind::PipeReader(_) | FileKind::PipeWriter(_) | FileKind::PipeBoth(_) => {
            !call.host.files.open(file).spliced
        }
        _ => true,
    };
    if flags & c::RWF_NOWAIT != 0 && !need_not_wait || flags & RWF_DONTCACHE != 0 && !on_disk {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & c::RWF_NOWAIT != 0 {
        during |= c::O_NONBLOCK;
    }
    if flags & c::RWF_DSYNC != 0 {
        during |= c::O_DSYNC;
    }
    if flags & c::RWF_SYNC != 0 {
        during |= c::O_SYNC;
    }
    if flags & c::RWF_APPEND != 0 {
        during |= c::O_APPEND;
    }
    if flags & RWF_NOAPPEND != 0 {
        if let FileKind::Regular(inode) = call.host.files.open(file).kind
            && during & c::O_APPEND != 0
        {
            call.host.files.inode(inode).check_flags(FileFlags::APPEND)?;
        }
        during &= !c::O_APPEND;
    }
    Ok(during)
}

fn vector(
    call: &mut Call<'_>,
    file: FileKey,
    offset: Option<u64>,
    writes: bool,
) -> Result<GuestBuffers, Errno> {
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    if offset.is_some() && !open.kind.has_position() {
        return Err(Errno::ESPIPE);
    }
    if !(if writes { open.is_writable() } else { open.is_readable() }) {
        return Err(Errno::EBADF);
    }
    let cannot = match open.kind {
        FileKind::Epoll(_) | FileKind::PidFd(_) | FileKind::Uring(_) => true,
        FileKind::TimerFd(_) | FileKind::SignalFd(_) | FileKind::MessageQueue(_) => writes,
        _ => false,
    };
    if cannot {
        return Err(Errno::EINVAL);
    }
    call.read_iovecs(call.args[1], call.args[2])
}
