//! System V shared memory, semaphores and message queues, `sysvipc(7)`. Who may use an object its mode says, as a
//! file's does.

mod msg;
mod sem;
mod shm;

pub(crate) use belljar_objects::sysv::*;
pub(crate) use shm::AttachRequest;

use crate::credentials::capability;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_linux_abi::ipc::IpcPerm;

/// Rights that an operation asks for, as in the mode of an object.
pub(crate) const READ: u32 = 0o444;
pub(crate) const WRITE: u32 = 0o222;
pub(crate) const EXEC: u32 = 0o111;

impl Processes {
    /// The owner and mode of an object that a process makes.
    pub(crate) fn new_permissions(&mut self, process: ProcessKey, key: i32, flags: i32) -> IpcPerm {
        let own = &self[process.0].credentials;
        let (uid, gid) = (own.euid, own.egid);
        IpcPerm { key, uid, gid, cuid: uid, cgid: gid, mode: flags as u32 & 0o777, ..IpcPerm::default() }
    }

    /// `EACCES` unless a process has the rights that `wanted` names, for whomever they are: `ipcperms` of Linux.
    pub(crate) fn ipc_check(&self, process: ProcessKey, perm: IpcPerm, wanted: u32) -> Result<(), Errno> {
        let who = &self[process.0].credentials;
        let is_member = |gid: u32| who.egid == gid || who.groups.contains(&gid);
        let wanted = wanted >> 6 | wanted >> 3 | wanted;
        let granted = if [perm.cuid, perm.uid].contains(&who.euid) {
            perm.mode >> 6
        } else if is_member(perm.cgid) || is_member(perm.gid) {
            perm.mode >> 3
        } else {
            perm.mode
        };
        let denied = wanted & !granted & 7 != 0 && !who.has(capability::IPC_OWNER);
        if denied { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// `EPERM` unless a process owns an object, or made it.
    pub(crate) fn ipc_check_owner(&self, process: ProcessKey, perm: IpcPerm) -> Result<(), Errno> {
        let who = &self[process.0].credentials;
        let owns = [perm.cuid, perm.uid].contains(&who.euid) || who.has(capability::SYS_ADMIN);
        if owns { Ok(()) } else { Err(Errno::EPERM) }
    }
}

impl Host {
    /// All objects go: the host has lost its memory.
    pub(crate) fn lose_ipc(&mut self) {
        let lost = std::mem::take(&mut self.ipc);
        for (_, segment) in lost.segments.iter() {
            self.machine.close(segment.native);
        }
        let queues = lost.queues.iter().map(|(_, queue)| queue.changed);
        for changed in queues.chain(lost.semaphores.iter().map(|(_, set)| set.changed)) {
            self.waits.destroy(changed);
        }
        let unused = self.files.mqueues.drain().map(|queue| queue.queue).collect::<Vec<_>>();
        for queue in unused {
            self.waits.destroy(queue);
        }
    }
    /// The time of day in seconds.
    pub(crate) fn seconds(&self) -> i64 {
        (self.net.clock.realtime_ns() / 1_000_000_000) as i64
    }
}
