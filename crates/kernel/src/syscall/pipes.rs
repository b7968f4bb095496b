//! Pipe creation.

use crate::call::Call;
use crate::credentials::capability;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};

/// `pipe(2)`.
pub fn sys_pipe(call: &mut Call<'_>) -> SysResult {
    create(call, 0)
}

/// `pipe2(2)`.
pub fn sys_pipe2(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(1);
    if flags & !(c::O_CLOEXEC | c::O_NONBLOCK | c::O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    create(call, flags)
}

fn create(call: &mut Call<'_>, flags: i32) -> SysResult {
    let close_on_exec = flags & c::O_CLOEXEC != 0;
    let (reader, writer) = call.host.files.create_pipe(&mut call.host.waits, flags & !c::O_CLOEXEC);
    call.host.own_unnamed(call.process, reader);
    if !call.host.processes.is_capable(call.process, capability::SYS_RESOURCE) {
        call.host.limit_pipe(reader);
    }
    let read_fd = match call.host.install_fd(call.process, reader, close_on_exec, 0) {
        Ok(fd) => fd,
        Err(errno) => {
            call.host.release_file(writer);
            return Err(errno);
        }
    };
    let stored = call.host.install_fd(call.process, writer, close_on_exec, 0).and_then(|write_fd| {
        call.write(call.args[0], &[read_fd as i32, write_fd as i32]).inspect_err(|_| {
            let _ = call.host.close_fd(call.process, write_fd as i32);
        })
    });
    if let Err(errno) = stored {
        call.host.close_fd(call.process, read_fd as i32)?;
        return Err(errno);
    }
    done(0)
}
