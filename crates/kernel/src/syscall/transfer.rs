//! Calls that move bytes from one open file to another.

use super::files::position;
use crate::call::{Call, SysResult, done};
use crate::files::FileKind;
use crate::files::transfer::Transfer;
use crate::ids::FileKey;
use belljar_linux_abi::{Errno, c};

/// The flags that `splice` and its relatives know.
const SPLICE_FLAGS: u32 = c::SPLICE_F_MOVE | c::SPLICE_F_NONBLOCK | c::SPLICE_F_MORE | c::SPLICE_F_GIFT;
/// The most that one call moves, `MAX_RW_COUNT` of Linux.
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// `sendfile(2)`.
pub fn sys_sendfile(call: &mut Call<'_>) -> SysResult {
    let output = call.host.file_of(call.process, call.int(0))?;
    let input = call.host.file_of(call.process, call.int(1))?;
    let from = offset_at(call, call.args[2])?;
    if !call.host.open(input).is_readable() {
        return Err(Errno::EBADF);
    }
    if from.is_some() && !call.host.open(input).kind.has_position() {
        return Err(Errno::ESPIPE);
    }
    if !call.host.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    if call.host.open(input).kind.inode().is_none() {
        return Err(Errno::EINVAL);
    }
    if call.host.open(output).flags & c::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    let (store, len) = (call.args[2], call.args[3].min(MAX_RW_COUNT));
    call.transfer(Transfer { input, from, output, to: None, len, nonblocking: false, whole: true }, store, 0)
}

/// `copy_file_range(2)`.
pub fn sys_copy_file_range(call: &mut Call<'_>) -> SysResult {
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(2))?;
    if call.args[5] != 0 {
        return Err(Errno::EINVAL);
    }
    for file in [input, output] {
        let open = call.host.open(file);
        if matches!(open.kind, crate::files::FileKind::Directory { .. }) {
            return Err(Errno::EISDIR);
        }
        if !matches!(open.kind, crate::files::FileKind::Regular(_)) {
            return Err(Errno::EINVAL);
        }
    }
    if call.host.open(output).flags & c::O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    let from = offset_at(call, call.args[1])?;
    let to = offset_at(call, call.args[3])?;
    let (store_from, store_to) = (call.args[1], call.args[3]);
    let [start, target] =
        [(input, from), (output, to)].map(|(file, at)| at.unwrap_or(call.host.open(file).offset));
    let [source, sink] = [input, output].map(|file| call.host.open(file).kind.inode());
    // No more than there is, which may keep the two ranges apart.
    let size = call.host.size_of(source.ok_or(Errno::EINVAL)?)?;
    let len = call.args[4].min(MAX_RW_COUNT).min(size.saturating_sub(start));
    if source == sink && start < target.saturating_add(len) && target < start.saturating_add(len) {
        return Err(Errno::EINVAL);
    }
    let what = Transfer { input, from, output, to, len, nonblocking: false, whole: true };
    call.transfer(what, store_from, store_to)
}

/// `splice(2)`: one of both is a pipe.
pub fn sys_splice(call: &mut Call<'_>) -> SysResult {
    if call.args[4] == 0 {
        return done(0);
    }
    if call.uint(5) & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(2))?;
    let offsets = (offset_at(call, call.args[1])?, offset_at(call, call.args[3])?);
    splice_files(call, (input, output), offsets, (call.args[1], call.args[3]), (call.args[4], call.uint(5)))
}

/// The same for io_uring, where offsets are values and are not given back.
pub(crate) fn splice(
    call: &mut Call<'_>,
    files: (FileKey, FileKey),
    (from, to): (Option<u64>, Option<u64>),
    (len, flags): (u32, u32),
) -> SysResult {
    if len == 0 {
        return done(0);
    }
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let [from, to] = [from, to].map(|at| at.map(position).transpose());
    splice_files(call, files, (from?, to?), (0, 0), (u64::from(len), flags))
}

fn splice_files(
    call: &mut Call<'_>,
    (input, output): (FileKey, FileKey),
    (from, to): (Option<u64>, Option<u64>),
    (store_from, store_to): (u64, u64),
    (len, flags): (u64, u32),
) -> SysResult {
    let pipes = [input, output].map(|file| call.host.pipe_of(file).is_some());
    if (pipes[0] && from.is_some()) || (pipes[1] && to.is_some()) {
        return Err(Errno::ESPIPE);
    }
    if !call.host.open(input).is_readable() || !call.host.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    if pipes == [false, false] {
        return Err(Errno::EINVAL);
    }
    for (file, at) in [(input, from), (output, to)] {
        if at.is_some() && !call.host.open(file).kind.has_position() {
            return Err(Errno::EINVAL);
        }
    }
    if pipes == [true, true] && call.host.pipe_queue(input) == call.host.pipe_queue(output) {
        return Err(Errno::EINVAL);
    }
    if call.host.open(output).flags & c::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    let nonblocking = flags & c::SPLICE_F_NONBLOCK != 0;
    let len = len.min(MAX_RW_COUNT);
    let what = Transfer { input, from, output, to, len, nonblocking, whole: false };
    call.transfer(what, store_from, store_to)
}

/// `tee(2)`.
pub fn sys_tee(call: &mut Call<'_>) -> SysResult {
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(1))?;
    tee_files(call, (input, output), call.args[2], call.uint(3))
}

/// The same for io_uring.
pub(crate) fn tee(call: &mut Call<'_>, files: (FileKey, FileKey), len: u32, flags: u32) -> SysResult {
    tee_files(call, files, u64::from(len), flags)
}

fn tee_files(call: &mut Call<'_>, (input, output): (FileKey, FileKey), len: u64, flags: u32) -> SysResult {
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if !call.host.open(input).is_readable() || !call.host.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    let ends = [input, output].map(|file| call.host.open(file).is_nonblocking());
    let quick = flags & c::SPLICE_F_NONBLOCK != 0 || ends.contains(&true);
    call.tee(input, output, len.min(MAX_RW_COUNT), quick)
}

/// `vmsplice(2)`: from memory into a pipe, or out of a pipe as `readv(2)` does.
pub fn sys_vmsplice(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let flags = call.uint(3);
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let buffers = call.read_iovecs(call.args[1], call.args[2])?;
    let quick = flags & c::SPLICE_F_NONBLOCK != 0;
    let open = call.host.open(file);
    match open.kind {
        FileKind::PipeWriter(_) | FileKind::PipeBoth(_) => call.fill_pipe(file, &buffers, quick),
        FileKind::PipeReader(_) => {
            let before = open.flags;
            open.flags |= if quick { c::O_NONBLOCK } else { 0 };
            let outcome = call.file_read(file, &buffers, None);
            call.host.open(file).flags = before;
            outcome
        }
        _ => Err(Errno::EBADF),
    }
}

/// The position that a pointer argument leads to; `None` for a null pointer.
fn offset_at(call: &Call<'_>, addr: u64) -> Result<Option<u64>, Errno> {
    if addr == 0 { Ok(None) } else { Ok(Some(position(call.read::<u64>(addr)?)?)) }
}
