//! `IORING_OP_URING_CMD` on sockets: queue lengths, socket options. Other files have no commands.

use crate::call::Call;
use crate::net::get_option;
use crate::outcome::{SysResult, done};
use crate::syscall::sockopt;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_uring::entry::SubmissionEntry;

/// `SOCKET_URING_OP_*`.
const SIOCINQ: u32 = 0;
const SIOCOUTQ: u32 = 1;
const GETSOCKOPT: u32 = 2;
const SETSOCKOPT: u32 = 3;

/// Runs a command on the file at descriptor `args[0]`.
pub(super) fn run(call: &mut Call<'_>, entry: &SubmissionEntry) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let FileKind::Socket(key) = call.host.files.open(file).kind else { return Err(Errno::EOPNOTSUPP) };
    let (level, name) = (entry.addr as u32, (entry.addr >> 32) as u32);
    match entry.off as u32 {
        SIOCINQ => done(call.host.socket_readable_bytes(key)? as u64),
        SIOCOUTQ => done(call.host.socket_unsent_bytes(key)? as u64),
        GETSOCKOPT if level != c::SOL_SOCKET as u32 => Err(Errno::EOPNOTSUPP),
        GETSOCKOPT => {
            let room = usize::try_from(entry.file_index as i32).map_err(|_| Errno::EINVAL)?;
            let value = get_option(call, key, (level as i32, name as i32), entry.addr3)?;
            let len = value.len().min(room);
            call.write_bytes(entry.addr3, &value[..len])?;
            done(len as u64)
        }
        SETSOCKOPT => {
            let fd = call.args[0];
            call.args = [fd, level.into(), name.into(), entry.addr3, entry.file_index.into(), 0];
            sockopt::sys_setsockopt(call)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}
