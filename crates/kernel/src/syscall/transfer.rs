//! Calls that move bytes between open files.

use crate::call::Call;
use crate::files::regular::MAX_FILE_SIZE;
use crate::files::transfer::Transfer;
use crate::ids::FileKey;
use crate::outcome::{Outcome, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;

/// Flags known to `splice` and its relatives.
const SPLICE_FLAGS: u32 = c::SPLICE_F_MOVE | c::SPLICE_F_NONBLOCK | c::SPLICE_F_MORE | c::SPLICE_F_GIFT;
/// Maximum number of bytes moved by one call, Linux's `MAX_RW_COUNT`.
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// `sendfile(2)`.
pub fn sys_sendfile(call: &mut Call<'_>) -> SysResult {
    let from = offset_at(call, call.args[2])?;
    let input = call.host.file_of(call.process, call.int(1))?;
    if !call.host.files.open(input).is_readable() {
        return Err(Errno::EBADF);
    }
    if from.is_some() && !call.host.files.open(input).kind.has_position() {
        return Err(Errno::ESPIPE);
    }
    let from = verified(from, call.args[3])?;
    let output = call.host.file_of(call.process, call.int(0))?;
    if !call.host.files.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    let start = from.unwrap_or(call.host.files.open(input).offset);
    let (store, mut len) = (call.args[2], call.args[3].min(MAX_RW_COUNT));
    if start + len > MAX_FILE_SIZE {
        len = MAX_FILE_SIZE.checked_sub(start).filter(|left| *left > 0).ok_or(Errno::EOVERFLOW)?;
    }
    if let Some(pipe) = call.pipe_key(output) {
        let quick = call.host.files.open(output).is_nonblocking();
        let outcome = call.file_to_pipe(input, from, pipe, len, quick)?;
        return store_behind(call, outcome, from, store);
    }
    if call.host.files.open(output).flags & c::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    let kind = &call.host.files.open(input).kind;
    if !kind.has_position() && !kind.has_idle_position() {
        return Err(Errno::EINVAL);
    }
    let outcome = call.transfer(Transfer { input, from, output, to: None, len, quick: false }, store, 0)?;
    // The offset is stored even if no bytes were moved.
    match outcome {
        Outcome::Done(0) => store_behind(call, outcome, from, store),
        outcome => Ok(outcome),
    }
}

/// Stores the offset `from` advanced by the number of bytes moved.
fn store_behind(call: &mut Call<'_>, outcome: Outcome, from: Option<u64>, store: u64) -> SysResult {
    if let (Outcome::Done(moved), Some(at)) = (&outcome, from)
        && store != 0
    {
        call.write(store, &(at + moved))?;
    }
    Ok(outcome)
}

/// `copy_file_range(2)`.
pub fn sys_copy_file_range(call: &mut Call<'_>) -> SysResult {
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(2))?;
    let from = offset_at(call, call.args[1])?;
    let to = offset_at(call, call.args[3])?;
    if call.args[5] != 0 {
        return Err(Errno::EINVAL);
    }
    for file in [input, output] {
        let open = call.host.files.open(file);
        if matches!(open.kind, FileKind::Directory { .. }) {
            return Err(Errno::EISDIR);
        }
        if !matches!(open.kind, FileKind::Regular(_)) {
            return Err(Errno::EINVAL);
        }
    }
    if !call.host.files.open(input).is_readable()
        || !call.host.files.open(output).is_writable()
        || call.host.files.open(output).flags & c::O_APPEND != 0
    {
        return Err(Errno::EBADF);
    }
    // Copies between file systems are not supported; programs fall back to read and write.
    let [source, sink] = [input, output].map(|file| call.host.files.open(file).kind.inode());
    let (source, sink) = (source.ok_or(Errno::EINVAL)?, sink.ok_or(Errno::EINVAL)?);
    if call.host.files.inode(source).device != call.host.files.inode(sink).device {
        return Err(Errno::EXDEV);
    }
    let (store_from, store_to) = (call.args[1], call.args[3]);
    let (from, to) = (verified(from, 0)?, verified(to, 0)?);
    call.host.files.inode(sink).check_flags(FileFlags::IMMUTABLE)?;
    let [start, target] =
        [(input, from), (output, to)].map(|(file, at)| at.unwrap_or(call.host.files.open(file).offset));
    if [start, target].iter().any(|at| at.checked_add(call.args[4]).is_none_or(|end| end > i64::MAX as u64)) {
        return Err(Errno::EOVERFLOW);
    }
    // The length is limited to the end of the file, which may keep the two ranges from overlapping.
    let size = call.host.size_of(source)?;
    let len = call.args[4].min(MAX_RW_COUNT).min(size.saturating_sub(start));
    if source == sink && start < target.saturating_add(len) && target < start.saturating_add(len) {
        return Err(Errno::EINVAL);
    }
    let what = Transfer { input, from, output, to, len, quick: false };
    call.transfer(what, store_from, store_to)
}

/// `splice(2)`: at least one of the files must be a pipe.
pub fn sys_splice(call: &mut Call<'_>) -> SysResult {
    if call.args[4] == 0 {
        return done(0);
    }
    if call.uint(5) & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(2))?;
    for file in [input, output] {
        call.host.files.open(file).spliced = true;
    }
    let offsets = (offset_at(call, call.args[1])?, offset_at(call, call.args[3])?);
    splice_files(call, (input, output), offsets, (call.args[1], call.args[3]), (call.args[4], call.uint(5)))
}

/// `splice` of io_uring: offsets are passed by value and not stored back.
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
    let [from, to] = [from, to].map(|at| at.map(|at| at as i64));
    splice_files(call, files, (from, to), (0, 0), (u64::from(len), flags))
}

fn splice_files(
    call: &mut Call<'_>,
    (input, output): (FileKey, FileKey),
    (from, to): (Option<i64>, Option<i64>),
    (store_from, store_to): (u64, u64),
    (all, flags): (u64, u32),
) -> SysResult {
    let (source, sink) = (call.pipe_key(input), call.pipe_key(output));
    if (source.is_some() && from.is_some()) || (sink.is_some() && to.is_some()) {
        return Err(Errno::ESPIPE);
    }
    if !call.host.files.open(input).is_readable() || !call.host.files.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    let len = all.min(MAX_RW_COUNT);
    let [input_quick, output_quick] = [input, output]
        .map(|file| call.host.files.open(file).is_nonblocking() || flags & c::SPLICE_F_NONBLOCK != 0);
    match (source, sink) {
        (Some(source), Some(sink)) if source == sink => Err(Errno::EINVAL),
        (Some(source), Some(sink)) => {
            call.pipe_to_pipe(source, sink, len, input_quick || output_quick, false)
        }
        (Some(_), None) => {
            let open = call.host.files.open(output);
            if (to.is_some() && !open.kind.has_position())
                || open.flags & c::O_APPEND != 0
                || !open.kind.can_be_spliced_to()
            {
                return Err(Errno::EINVAL);
            }
            let to = verified(to, all)?;
            let what = Transfer { input, from: None, output, to, len, quick: input_quick };
            call.transfer(what, 0, store_to)
        }
        (None, Some(sink)) => {
            if from.is_some() && !call.host.files.open(input).kind.has_position() {
                return Err(Errno::EINVAL);
            }
            let from = verified(from, all)?;
            let outcome = call.file_to_pipe(input, from, sink, len, output_quick)?;
            store_behind(call, outcome, from, store_from)
        }
        (None, None) => Err(Errno::EINVAL),
    }
}

/// `tee(2)`.
pub fn sys_tee(call: &mut Call<'_>) -> SysResult {
    let (len, flags) = (call.args[2], call.uint(3));
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return done(0);
    }
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(1))?;
    tee_files(call, (input, output), len, flags)
}

/// `tee` of io_uring.
pub(crate) fn tee(call: &mut Call<'_>, files: (FileKey, FileKey), len: u32, flags: u32) -> SysResult {
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if len == 0 { done(0) } else { tee_files(call, files, u64::from(len), flags) }
}

fn tee_files(call: &mut Call<'_>, (input, output): (FileKey, FileKey), len: u64, flags: u32) -> SysResult {
    if !call.host.files.open(input).is_readable() || !call.host.files.open(output).is_writable() {
        return Err(Errno::EBADF);
    }
    let ends = [input, output].map(|file| call.host.files.open(file).is_nonblocking());
    let quick = flags & c::SPLICE_F_NONBLOCK != 0 || ends.contains(&true);
    match (call.pipe_key(input), call.pipe_key(output)) {
        (Some(from), Some(to)) if from != to => {
            call.pipe_to_pipe(from, to, len.min(MAX_RW_COUNT), quick, true)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `vmsplice(2)`: from memory into a pipe, or from a pipe into memory. Only the flags determine whether it
/// waits, not `O_NONBLOCK`.
pub fn sys_vmsplice(call: &mut Call<'_>) -> SysResult {
    let flags = call.uint(3);
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.host.file_of(call.process, call.int(0))?;
    let (readable, writable) =
        (call.host.files.open(file).is_readable(), call.host.files.open(file).is_writable());
    if !readable && !writable {
        return Err(Errno::EBADF);
    }
    let buffers = call.read_iovecs(call.args[1], call.args[2])?;
    let quick = flags & c::SPLICE_F_NONBLOCK != 0;
    if crate::guest::total_len(&buffers) == 0 {
        return done(0);
    }
    let pipe = call.pipe_key(file).ok_or(Errno::EBADF)?;
    if writable {
        call.vmsplice_to_pipe(pipe, &buffers, quick)
    } else {
        call.vmsplice_from_pipe(pipe, &buffers, quick)
    }
}

/// Reads a file offset through a pointer argument; `None` for a null pointer.
fn offset_at(call: &Call<'_>, addr: u64) -> Result<Option<i64>, Errno> {
    if addr == 0 { Ok(None) } else { call.read(addr).map(Some) }
}
/// Validates an offset followed by `len` bytes: `EINVAL` if it is negative or the end overflows.
fn verified(at: Option<i64>, len: u64) -> Result<Option<u64>, Errno> {
    let len = i64::try_from(len).map_err(|_| Errno::EINVAL)?;
    match at {
        Some(at) if at < 0 || at.checked_add(len).is_none() => Err(Errno::EINVAL),
        at => Ok(at.map(|at| at as u64)),
    }
}
