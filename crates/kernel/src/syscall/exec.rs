//! execve(2) and execveat(2).

use crate::call::Call;
use crate::files::tree::Walk;
use crate::outcome::SysResult;
use belljar_linux_abi::{Errno, c};

/// `MAX_ARG_STRLEN` of Linux.
const MAX_ARG_LEN: usize = 131_072;
/// Upper bound on the number of strings, beyond the capacity of `ARG_MAX`.
const MAX_ARGS: usize = 1 << 18;

/// execve(2).
pub fn sys_execve(call: &mut Call<'_>) -> SysResult {
    let path = call.read_path(call.args[0])?;
    run(call, path, call.args[1], call.args[2])
}

/// execveat(2).
pub fn sys_execveat(call: &mut Call<'_>) -> SysResult {
    let [fd, path, args, environment, flags, _] = call.args;
    if flags as i32 & !(c::AT_EMPTY_PATH | c::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = call.read_path(path)?;
    if flags as i32 & c::AT_SYMLINK_NOFOLLOW != 0 && !path.is_empty() {
        let found = call.host.resolve(call.process, fd as i32, &path, Walk::empty())?.inode()?;
        if call.host.files.inode(found).node.is_symlink() {
            return Err(Errno::ELOOP);
        }
    }
    let path = match fd as i32 {
        c::AT_FDCWD => path,
        _ if path.starts_with(b"/") => path,
        fd if path.is_empty() && flags as i32 & c::AT_EMPTY_PATH == 0 => {
            call.host.file_of(call.process, fd)?;
            return Err(Errno::ENOENT);
        }
        fd => {
            call.host.file_of(call.process, fd)?;
            let base = format!("/proc/self/fd/{fd}").into_bytes();
            if path.is_empty() { base } else { [base, b"/".to_vec(), path].concat() }
        }
    };
    run(call, path, args, environment)
}

fn run(call: &mut Call<'_>, path: Vec<u8>, args: u64, environment: u64) -> SysResult {
    let args = strings(call, args)?;
    let environment = strings(call, environment)?;
    call.execute(path, args, environment)
}

/// Reads the strings of a null-terminated pointer array; empty for a null array.
fn strings(call: &Call<'_>, array: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let mut strings = Vec::new();
    if array == 0 {
        return Ok(strings);
    }
    loop {
        let pointer: u64 = call.read(array + strings.len() as u64 * 8)?;
        if pointer == 0 {
            return Ok(strings);
        }
        if strings.len() == MAX_ARGS {
            return Err(Errno::E2BIG);
        }
        strings.push(call.host.read_guest_string(call.process, pointer, MAX_ARG_LEN, Errno::E2BIG)?);
    }
}
