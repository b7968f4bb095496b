//! msgget(2), msgsnd(2), msgrcv(2) and msgctl(2).

use crate::call::Call;
use crate::ipc::READ;
use crate::outcome::{Block, IfInterrupted, SysResult, done};
use belljar_linux_abi::ipc::{MsgInfo, MsqidDs};
use belljar_linux_abi::{Errno, c};
use belljar_objects::sysv::{COPY, EXCEPT, NOERROR, SysvMessage, SysvObject, Wanted};

const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

/// msgget(2).
pub fn sys_msgget(call: &mut Call<'_>) -> SysResult {
    done(call.host.msg_get(call.process, call.int(0), call.int(1))? as u64)
}

/// `EIDRM` if the queue was removed while the call waited.
fn removed(call: &Call<'_>, errno: Errno) -> Errno {
    if errno == Errno::EINVAL && call.resumed.is_some() { Errno::EIDRM } else { errno }
}

/// msgsnd(2).
pub fn sys_msgsnd(call: &mut Call<'_>) -> SysResult {
    let [_, addr, len, ..] = call.args;
    let kind: i64 = call.read(addr)?;
    if len > call.host.ipc.limits.message_bytes || call.int(0) < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let message = SysvMessage { kind, text: call.read_vec(addr + 8, len as usize)? };
    match call.host.msg_send(call.process, call.int(0), &message).map_err(|errno| removed(call, errno))? {
        None => done(0),
        Some(_) if call.int(3) & c::IPC_NOWAIT != 0 => Err(Errno::EAGAIN),
        Some(queue) => Block::on(queue).interrupted(IfInterrupted::RestartNoHandler).into(),
    }
}

/// msgrcv(2).
pub fn sys_msgrcv(call: &mut Call<'_>) -> SysResult {
    let [_, addr, room, kind, ..] = call.args;
    let (id, flags) = (call.int(0), call.int(4));
    if room > i64::MAX as u64 || id < 0 {
        return Err(Errno::EINVAL);
    }
    let cut = flags & NOERROR != 0;
    let wanted = Wanted { kind: kind as i64, except: flags & EXCEPT != 0, cut, room: room as usize };
    if flags & COPY != 0 {
        if wanted.except || flags & c::IPC_NOWAIT == 0 {
            return Err(Errno::EINVAL);
        }
        check_readable(call, id)?;
        let message = call.host.ipc.msg_copy(id, wanted.kind, &wanted)?;
        return store(call, addr, &message);
    }
    match call.host.msg_receive(call.process, id, &wanted).map_err(|errno| removed(call, errno))? {
        Ok(message) => store(call, addr, &message),
        Err(_) if flags & c::IPC_NOWAIT != 0 => Err(Errno::ENOMSG),
        Err(queue) => Block::on(queue).interrupted(IfInterrupted::RestartNoHandler).into(),
    }
}

fn store(call: &mut Call<'_>, addr: u64, message: &SysvMessage) -> SysResult {
    call.write(addr, &message.kind)?;
    call.write_bytes(addr + 8, &message.text)?;
    done(message.text.len() as u64)
}

/// State of a queue with its ids mapped to the caller's namespaces.
fn shown(call: &Call<'_>, state: MsqidDs) -> MsqidDs {
    let processes = &call.host.processes;
    let perm = processes.shown_permissions(call.process, state.perm);
    let [lspid, lrpid] = [state.lspid, state.lrpid].map(|pid| processes.shown_pid(call.process, pid));
    MsqidDs { perm, lspid, lrpid, ..state }
}

/// See [`crate::process::Processes::ipc_check`].
fn check_readable(call: &mut Call<'_>, id: i32) -> Result<(), Errno> {
    let perm = *call.host.ipc.queues.get(id)?.perm();
    call.host.processes.ipc_check(call.process, perm, READ)
}

/// See [`crate::process::Processes::ipc_check_owner`].
fn check_owner(call: &mut Call<'_>, id: i32) -> Result<(), Errno> {
    let perm = *call.host.ipc.queues.get(id)?.perm();
    call.host.processes.ipc_check_owner(call.process, perm)
}

/// msgctl(2).
pub fn sys_msgctl(call: &mut Call<'_>) -> SysResult {
    let (id, addr) = (call.int(0), call.args[2]);
    match call.int(1) {
        c::IPC_STAT => {
            check_readable(call, id)?;
            let state = call.host.ipc.queues.get(id)?.state;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(0)
        }
        what @ (MSG_STAT | MSG_STAT_ANY) => {
            let id = call.host.ipc.queues.id_of_place(call.ipc_namespace(), id)?;
            if what == MSG_STAT {
                check_readable(call, id)?;
            }
            let state = call.host.ipc.queues.get(id)?.state;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(id as u64)
        }
        c::IPC_SET => {
            let new: MsqidDs = call.read(addr)?;
            check_owner(call, id)?;
            call.host.msg_set(call.process, id, &new)?;
            done(0)
        }
        c::IPC_RMID => {
            check_owner(call, id)?;
            call.host.msg_remove(id)?;
            done(0)
        }
        what @ (c::IPC_INFO | MSG_INFO) => {
            let (queues, limits) = (&call.host.ipc.queues, &call.host.ipc.limits);
            let sum = |of: fn(&MsqidDs) -> u64| {
                queues.iter().map(|(_, queue)| of(&queue.state)).sum::<u64>() as i32
            };
            let used = what == MSG_INFO;
            let info = MsgInfo {
                msgpool: if used { queues.iter().count() as i32 } else { 512_000 },
                msgmap: if used { sum(|state| state.qnum) } else { limits.queue_bytes as i32 },
                msgmax: limits.message_bytes as i32,
                msgmnb: limits.queue_bytes as i32,
                msgmni: limits.queues as i32,
                msgssz: 16,
                msgtql: if used { sum(|state| state.cbytes) } else { limits.queue_bytes as i32 },
                msgseg: 0xffff,
                padding: 0,
            };
            call.write(addr, &info)?;
            done(call.host.ipc.queues.highest_place() as u64)
        }
        _ => Err(Errno::EINVAL),
    }
}
