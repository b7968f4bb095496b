//! System V shared memory, semaphores and message queues, `sysvipc(7)`. Who may use an object is kept and shown
//! but not enforced, as with files.

pub(crate) mod listing;
mod msg;
mod sem;
mod shm;
mod table;

pub(crate) use msg::{
    COPY, EXCEPT, MAX_BYTES, MAX_QUEUES, Message, MessageQueue, NOERROR, QUEUE_BYTES, Wanted,
};
pub(crate) use sem::{Attempt, MAX_IN_SET, MAX_SETS, MAX_VALUE, SemSet, SemUndo};
pub(crate) use shm::{Attachment, MAX_SEGMENTS, Segment};
pub(crate) use table::{IpcTable, Object};

use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::ipc::IpcPerm;

/// All such objects of a host.
#[derive(Debug, Default)]
pub(crate) struct Ipc {
    pub(crate) segments: IpcTable<Segment>,
    pub(crate) semaphores: IpcTable<SemSet>,
    pub(crate) undo: Vec<SemUndo>,
    pub(crate) queues: IpcTable<MessageQueue>,
}

impl Host {
    /// The owner and mode of an object that a process makes.
    pub(crate) fn new_permissions(&mut self, process: ProcessKey, key: i32, flags: i32) -> IpcPerm {
        let own = &self.process(process).credentials;
        let (uid, gid) = (own.euid, own.egid);
        IpcPerm { key, uid, gid, cuid: uid, cgid: gid, mode: flags as u32 & 0o777, ..IpcPerm::default() }
    }
    /// The time of day in seconds.
    pub(crate) fn seconds(&self) -> i64 {
        (self.clock.realtime_ns() / 1_000_000_000) as i64
    }
}
