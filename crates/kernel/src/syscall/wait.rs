//! wait4(2), waitid(2).

use super::limits::rusage;
use crate::call::Call;
use crate::outcome::{Block, SysResult, done};
use crate::task::{ChildEvent, Selector, WaitFlags};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::IdKind;
use zerocopy::IntoBytes;

/// wait4(2).
pub fn sys_wait4(call: &mut Call<'_>) -> SysResult {
    let [_, status, _, usage, ..] = call.args;
    let flags = WaitFlags::from_bits(call.int(2)).ok_or(Errno::EINVAL)?;
    if flags.intersects(WaitFlags::EXITED | WaitFlags::NOWAIT) {
        return Err(Errno::EINVAL);
    }
    let which = match call.int(0) {
        -1 => Selector::Any,
        0 => Selector::Group(call.host.process(call.process).pgid),
        i32::MIN => return Err(Errno::ESRCH),
        pid if pid < 0 => Selector::Group(-pid),
        pid => Selector::Pid(pid),
    };
    let Some(event) = call.host.collect_child(call.process, which, flags | WaitFlags::EXITED)? else {
        return wait(call, flags);
    };
    if status != 0 {
        call.write(status, &event.encode())?;
    }
    if usage != 0 {
        call.write(usage, &rusage(event.calls, event.resident))?;
    }
    done(event.pid as u64)
}

/// waitid(2).
pub fn sys_waitid(call: &mut Call<'_>) -> SysResult {
    let [_, _, info, _, usage, _] = call.args;
    let flags = WaitFlags::from_bits(call.int(3)).ok_or(Errno::EINVAL)?;
    if !flags.intersects(WaitFlags::EXITED | WaitFlags::STOPPED | WaitFlags::CONTINUED) {
        return Err(Errno::EINVAL);
    }
    let id = call.int(1);
    let mut nonblocking = false;
    let which = match call.uint(0) {
        c::P_ALL => Selector::Any,
        c::P_PID if id > 0 => Selector::Pid(id),
        c::P_PGID if id == 0 => Selector::Group(call.host.process(call.process).pgid),
        c::P_PGID if id > 0 => Selector::Group(id),
        c::P_PIDFD if id >= 0 => {
            let file = call.host.file_of(call.process, id)?;
            nonblocking = call.host.files.open(file).is_nonblocking();
            Selector::Pid(call.host.files.pidfd_pid(file)?)
        }
        _ => return Err(Errno::EINVAL),
    };
    match call.host.collect_child(call.process, which, flags)? {
        Some(event) => {
            if usage != 0 {
                call.write(usage, &rusage(event.calls, event.resident))?;
            }
            store_info(call, info, Some(&event))?;
            done(0)
        }
        None if flags.contains(WaitFlags::NOHANG) => {
            store_info(call, info, None)?;
            done(0)
        }
        None if nonblocking => Err(Errno::EAGAIN),
        None => wait(call, flags),
    }
}

/// Stores the fields of `siginfo_t` that `waitid` defines; the rest of the structure is not modified.
fn store_info(call: &mut Call<'_>, addr: u64, event: Option<&ChildEvent>) -> Result<(), Errno> {
    if addr == 0 {
        return Ok(());
    }
    let info = match event {
        Some(event) => {
            let processes = &call.host.processes;
            let pid = processes.shown_pid(call.process, event.pid);
            let uid = processes.shown_id(call.process, IdKind::User, event.uid);
            SigInfo::child(event.code, pid, uid, event.status, 0)
        }
        None => SigInfo::default(),
    };
    call.write_bytes(addr, &info.as_bytes()[..28])
}

fn wait(call: &mut Call<'_>, flags: WaitFlags) -> SysResult {
    if flags.contains(WaitFlags::NOHANG) {
        return done(0);
    }
    Block::on(call.host.process(call.process).child_changed).into()
}
