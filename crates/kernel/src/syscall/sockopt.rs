//! `setsockopt` and `getsockopt`.

use super::socket::Target;
use crate::call::Call;
use crate::net::{get_option, set_option};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;

/// `setsockopt(2)`.
pub fn sys_setsockopt(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let len = usize::try_from(call.int(4)).map_err(|_| Errno::EINVAL)?;
    let (option, value) = ((call.int(1), call.int(2)), call.args[3]);
    let result = set_option(call, target.key, option, value, len).and_then(|_| done(0));
    call.note_option(target.key, option, result)
}

/// `getsockopt(2)`: stores the value, truncated to the buffer, and the stored length.
pub fn sys_getsockopt(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let room: i32 = call.read(call.args[4])?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let (option, given) = ((call.int(1), call.int(2)), call.args[3]);
    let value = match get_option(call, target.key, option, given) {
        Ok(value) => value,
        Err(errno) => return call.note_option(target.key, option, Err(errno)),
    };
    let len = value.len().min(room);
    call.write_bytes(call.args[3], &value[..len])?;
    call.write(call.args[4], &(len as i32))?;
    done(0)
}
