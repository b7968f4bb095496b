//! Calls that move bytes from one open file to another.

use super::files::position;
use crate::call::{Call, SysResult};
use crate::files::transfer::Transfer;
use belljar_linux_abi::{Errno, c};

/// `sendfile(2)`.
pub fn sys_sendfile(call: &mut Call<'_>) -> SysResult {
    let output = call.host.file_of(call.process, call.int(0))?;
    let input = call.host.file_of(call.process, call.int(1))?;
    let from = offset_at(call, call.args[2])?;
    if call.host.open(input).kind.inode().is_none() {
        return Err(Errno::EINVAL);
    }
    if call.host.open(output).flags & c::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    let (store, len) = (call.args[2], call.args[3]);
    call.transfer(Transfer { input, from, output, to: None, len }, store, 0)
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
    let len = call.args[4];
    let (store_from, store_to) = (call.args[1], call.args[3]);
    call.transfer(Transfer { input, from, output, to, len }, store_from, store_to)
}

/// `splice(2)`: one of both is a pipe.
pub fn sys_splice(call: &mut Call<'_>) -> SysResult {
    let input = call.host.file_of(call.process, call.int(0))?;
    let output = call.host.file_of(call.process, call.int(2))?;
    let from = offset_at(call, call.args[1])?;
    let to = offset_at(call, call.args[3])?;
    let pipes = [input, output].map(|file| call.host.pipe_of(file).is_some());
    if pipes == [false, false] {
        return Err(Errno::EINVAL);
    }
    if (pipes[0] && from.is_some()) || (pipes[1] && to.is_some()) {
        return Err(Errno::ESPIPE);
    }
    let len = call.args[4];
    let (store_from, store_to) = (call.args[1], call.args[3]);
    call.transfer(Transfer { input, from, output, to, len }, store_from, store_to)
}

/// The position that a pointer argument leads to; `None` for a null pointer.
fn offset_at(call: &Call<'_>, addr: u64) -> Result<Option<u64>, Errno> {
    if addr == 0 { Ok(None) } else { Ok(Some(position(call.read::<u64>(addr)?)?)) }
}
