//! semget(2), semop(2), semtimedop(2) and semctl(2).

use super::timeout::Timeout;
use crate::call::Call;
use crate::ipc::{READ, WRITE};
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use belljar_linux_abi::ipc::{SemBuf, SemInfo, SemidDs};
use belljar_linux_abi::{Errno, c};
use belljar_objects::sysv::{MAX_IN_SET, MAX_SETS, MAX_VALUE, SemopResult, SysvObject};
use zerocopy::FromBytes;

/// `SEMOPM`: maximum number of operations in one call.
const MAX_OPERATIONS: u64 = 500;
const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;

/// semget(2).
pub fn sys_semget(call: &mut Call<'_>) -> SysResult {
    let (key, count, flags) = (call.int(0), call.int(1), call.int(2));
    done(call.host.sem_get(call.process, key, count, flags)? as u64)
}

/// semop(2).
pub fn sys_semop(call: &mut Call<'_>) -> SysResult {
    operate(call, 0)
}

/// semtimedop(2).
pub fn sys_semtimedop(call: &mut Call<'_>) -> SysResult {
    operate(call, call.args[3])
}

fn operate(call: &mut Call<'_>, timeout: u64) -> SysResult {
    let (id, addr, count) = (call.int(0), call.args[1], call.args[2]);
    let deadline = match (call.take_state(), &call.resumed) {
        (CallState::Deadline(deadline), Some(_)) => deadline,
        _ => Timeout::from_timespec(call, timeout)?.limit.map(|limit| call.now() + limit),
    };
    match count {
        0 => return Err(Errno::EINVAL),
        1..=MAX_OPERATIONS => {}
        _ => return Err(Errno::E2BIG),
    }
    let bytes = call.read_vec(addr, count as usize * size_of::<SemBuf>())?;
    let operations: Vec<SemBuf> = bytes
        .chunks_exact(size_of::<SemBuf>())
        .map(|chunk| SemBuf::read_from_bytes(chunk).expect("a chunk has the size of the structure"))
        .collect();
    match call.host.sem_operate(call.thread, id, &operations) {
        Ok(SemopResult::Done) => done(0),
        Ok(SemopResult::Waits(_)) if call.deadline_passed() => Err(Errno::EAGAIN),
        Ok(SemopResult::Waits(queue)) => Block::on(queue)
            .with_deadline(deadline)
            .with_state(CallState::Deadline(deadline))
            .interrupted(IfInterrupted::Eintr)
            .into(),
        // The set was removed while the call waited.
        Err(Errno::EINVAL) if call.resumed.is_some() => Err(Errno::EIDRM),
        Err(errno) => Err(errno),
    }
}

/// State of a semaphore set with its ids mapped to the caller's namespaces.
fn shown(call: &Call<'_>, state: SemidDs) -> SemidDs {
    SemidDs { perm: call.host.processes.shown_permissions(call.process, state.perm), ..state }
}

/// See [`crate::process::Processes::ipc_check`].
fn check(call: &mut Call<'_>, id: i32, wanted: u32) -> Result<(), Errno> {
    let perm = *call.host.ipc.semaphores.get(id)?.perm();
    call.host.processes.ipc_check(call.process, perm, wanted)
}

/// semctl(2).
pub fn sys_semctl(call: &mut Call<'_>) -> SysResult {
    let (id, number, addr) = (call.int(0), call.int(1), call.args[3]);
    match call.int(2) {
        c::IPC_STAT | c::GETALL | c::GETVAL | c::GETPID | c::GETNCNT | c::GETZCNT => check(call, id, READ)?,
        c::SETVAL | c::SETALL => check(call, id, WRITE)?,
        c::IPC_SET | c::IPC_RMID => {
            let perm = *call.host.ipc.semaphores.get(id)?.perm();
            call.host.processes.ipc_check_owner(call.process, perm)?;
        }
        SEM_STAT => {
            let id = call.host.ipc.semaphores.id_of_place(call.ipc_namespace(), id)?;
            check(call, id, READ)?;
        }
        _ => {}
    }
    match call.int(2) {
        c::IPC_STAT => {
            let state = call.host.ipc.semaphores.get(id)?.state;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(0)
        }
        SEM_STAT | SEM_STAT_ANY => {
            let id = call.host.ipc.semaphores.id_of_place(call.ipc_namespace(), id)?;
            let state = call.host.ipc.semaphores.get(id)?.state;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(id as u64)
        }
        c::IPC_SET => {
            let new: SemidDs = call.read(addr)?;
            let now = call.host.seconds();
            let owner = call.host.processes.given_owner(call.process, &new.perm)?;
            let state = &mut call.host.ipc.semaphores.get(id)?.state;
            (state.perm.uid, state.perm.gid, state.ctime) = (owner.0, owner.1, now);
            state.perm.mode = state.perm.mode & !0o777 | new.perm.mode & 0o777;
            done(0)
        }
        c::IPC_RMID => {
            call.host.sem_remove(id)?;
            done(0)
        }
        c::SETVAL => {
            call.host.sem_set(call.process, id, number, &[addr as i32])?;
            done(0)
        }
        c::SETALL => {
            let count = call.host.ipc.semaphores.get(id)?.semaphores.len();
            let bytes = call.read_vec(addr, count * 2)?;
            let value = |pair: &[u8]| i32::from(u16::from_le_bytes([pair[0], pair[1]]));
            let values: Vec<i32> = bytes.chunks_exact(2).map(value).collect();
            call.host.sem_set(call.process, id, 0, &values)?;
            done(0)
        }
        c::GETALL => {
            let semaphores = &call.host.ipc.semaphores.get(id)?.semaphores;
            let bytes: Vec<u8> = semaphores.iter().flat_map(|s| (s.value as u16).to_le_bytes()).collect();
            call.write_bytes(addr, &bytes)?;
            done(0)
        }
        what @ (c::GETVAL | c::GETPID) => {
            let semaphores = &call.host.ipc.semaphores.get(id)?.semaphores;
            let found = usize::try_from(number).ok().and_then(|number| semaphores.get(number));
            let semaphore = found.ok_or(Errno::EINVAL)?;
            let (value, pid) = (semaphore.value, semaphore.pid);
            let pid = call.host.processes.shown_pid(call.process, pid);
            done(if what == c::GETVAL { value } else { pid } as u64)
        }
        what @ (c::GETNCNT | c::GETZCNT) => {
            done(call.host.sem_waiters(id, number, what == c::GETZCNT)? as u64)
        }
        what @ (c::IPC_INFO | SEM_INFO) => {
            let info = limits(call, what == SEM_INFO);
            call.write(addr, &info)?;
            done(call.host.ipc.semaphores.highest_place() as u64)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `struct seminfo`: the limits or, with `used`, the present usage.
fn limits(call: &Call<'_>, used: bool) -> SemInfo {
    let sets = &call.host.ipc.semaphores;
    let (count, all) = (sets.iter().count(), sets.iter().map(|(_, set)| set.semaphores.len()).sum::<usize>());
    let most = MAX_IN_SET * MAX_SETS as i32;
    SemInfo {
        semmap: most,
        semmni: MAX_SETS as i32,
        semmns: most,
        semmnu: most,
        semmsl: MAX_IN_SET,
        semopm: MAX_OPERATIONS as i32,
        semume: MAX_OPERATIONS as i32,
        semusz: if used { count as i32 } else { 20 },
        semvmx: MAX_VALUE,
        semaem: if used { all as i32 } else { MAX_VALUE },
    }
}
