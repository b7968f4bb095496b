//! shmget(2), shmat(2), shmdt(2) and shmctl(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::ipc::{AttachRequest, READ};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::ipc::{ShmInfo, ShmLimits, ShmidDs};
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::space::PAGE;
use belljar_objects::sysv::SysvObject;

const SHM_STAT: i32 = 13;
/// Mode bit of a locked segment.
const SHM_LOCKED: u32 = 0o2000;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;
/// `SHMALL`.
const SHMALL: u64 = u64::MAX - (1 << 24);

/// shmget(2).
pub fn sys_shmget(call: &mut Call<'_>) -> SysResult {
    let (key, size, flags) = (call.int(0), call.args[1], call.int(2));
    done(call.host.shm_get(call.process, key, size, flags)? as u64)
}

/// shmat(2).
pub fn sys_shmat(call: &mut Call<'_>) -> SysResult {
    let how = AttachRequest { addr: call.args[1], flags: call.int(2) };
    let mm = call.mm();
    done(call.host.shm_attach(call.process, mm, call.int(0), how)?)
}

/// shmdt(2).
pub fn sys_shmdt(call: &mut Call<'_>) -> SysResult {
    let mm = call.mm();
    call.host.shm_detach(call.process, mm, call.args[0])?;
    done(0)
}

/// State of a segment with its ids mapped to the caller's namespaces.
fn shown(call: &Call<'_>, state: ShmidDs) -> ShmidDs {
    let processes = &call.host.processes;
    let perm = processes.shown_permissions(call.process, state.perm);
    let [cpid, lpid] = [state.cpid, state.lpid].map(|pid| processes.shown_pid(call.process, pid));
    ShmidDs { perm, cpid, lpid, ..state }
}

/// See [`crate::process::Processes::ipc_check`].
fn check(call: &mut Call<'_>, id: i32, wanted: u32) -> Result<(), Errno> {
    let perm = *call.host.ipc.segments.get(id)?.perm();
    call.host.processes.ipc_check(call.process, perm, wanted)
}

/// See [`crate::process::Processes::ipc_check_owner`].
fn check_owner(call: &mut Call<'_>, id: i32) -> Result<(), Errno> {
    let perm = *call.host.ipc.segments.get(id)?.perm();
    call.host.processes.ipc_check_owner(call.process, perm)
}

/// shmctl(2).
pub fn sys_shmctl(call: &mut Call<'_>) -> SysResult {
    let (id, addr) = (call.int(0), call.args[2]);
    match call.int(1) {
        c::IPC_STAT => {
            check(call, id, READ)?;
            let state = call.host.shm_state(id)?;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(0)
        }
        what @ (SHM_STAT | SHM_STAT_ANY) => {
            let id = call.host.ipc.segments.id_of_place(call.ipc_namespace(), id)?;
            if what == SHM_STAT {
                check(call, id, READ)?;
            }
            let state = call.host.shm_state(id)?;
            let state = shown(call, state);
            call.write(addr, &state)?;
            done(id as u64)
        }
        c::IPC_SET => {
            let new: ShmidDs = call.read(addr)?;
            check_owner(call, id)?;
            let now = call.host.seconds();
            let owner = call.host.processes.given_owner(call.process, &new.perm)?;
            let state = &mut call.host.ipc.segments.get(id)?.state;
            (state.perm.uid, state.perm.gid, state.ctime) = (owner.0, owner.1, now);
            state.perm.mode = state.perm.mode & !0o777 | new.perm.mode & 0o777;
            done(0)
        }
        c::IPC_RMID => {
            check_owner(call, id)?;
            call.host.shm_remove(id)?;
            done(0)
        }
        c::IPC_INFO => {
            let of_host = call.host.ipc.limits;
            let shmmni = of_host.segments;
            let limits = ShmLimits {
                shmmax: of_host.segment_bytes,
                shmmin: 1,
                shmmni,
                shmseg: shmmni,
                shmall: SHMALL,
                ..ShmLimits::default()
            };
            call.write(addr, &limits)?;
            done(call.host.ipc.segments.highest_place() as u64)
        }
        SHM_INFO => {
            let segments = call.host.ipc.segments.iter();
            let (count, pages) = segments.fold((0, 0), |(count, pages), (_, segment)| {
                (count + 1, pages + segment.state.segsz.div_ceil(PAGE))
            });
            let info = ShmInfo { used_ids: count, total: pages, resident: pages, ..ShmInfo::default() };
            call.write(addr, &info)?;
            done(call.host.ipc.segments.highest_place() as u64)
        }
        // Guest memory is never paged out; the lock is only reported.
        c::SHM_LOCK | c::SHM_UNLOCK => {
            let perm = *call.host.ipc.segments.get(id)?.perm();
            let may = call.host.processes.require_for(call.process, NamespaceKind::Ipc, capability::IPC_LOCK);
            if may.is_err() {
                let process = call.host.process(call.process);
                let (user, limit) =
                    (process.credentials.euid, process.rlimits[c::RLIMIT_MEMLOCK as usize].soft);
                if user != perm.uid && user != perm.cuid || call.int(1) == c::SHM_LOCK && limit == 0 {
                    return Err(Errno::EPERM);
                }
            }
            let locks = call.int(1) == c::SHM_LOCK;
            let mode = &mut call.host.ipc.segments.get(id)?.perm_mut().mode;
            *mode = if locks { *mode | SHM_LOCKED } else { *mode & !SHM_LOCKED };
            done(0)
        }
        _ => Err(Errno::EINVAL),
    }
}
