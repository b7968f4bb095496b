//! Message queues, `msgop(2)`.

use super::{Object, READ, WRITE};
use crate::host::Host;
use crate::ids::{ProcessKey, WaitQueueId};
use crate::ipc::Ipc;
use belljar_linux_abi::ipc::{IpcPerm, MsqidDs};
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// `MSGMAX`, bytes in a message.
pub(crate) const MAX_BYTES: usize = 8_192;
/// `MSGMNB`, bytes in a queue.
pub(crate) const QUEUE_BYTES: u64 = 16_384;
/// `MSGMNI`, queues on a host.
pub(crate) const MAX_QUEUES: usize = 32_000;

/// A message queue of System V.
#[derive(Debug)]
pub(crate) struct SysvQueue {
    /// All that guests see of it but messages.
    pub(crate) state: MsqidDs,
    messages: VecDeque<SysvMessage>,
    /// Notified after every change.
    pub(crate) changed: WaitQueueId,
}

/// A message of such a queue.
#[derive(Clone, Debug)]
pub(crate) struct SysvMessage {
    /// Its type, a positive number.
    pub(crate) kind: i64,
    /// Its text.
    pub(crate) text: Vec<u8>,
}

/// The message that a receiver wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// `msgtyp`.
    pub(crate) kind: i64,
    /// `MSG_EXCEPT`: one of another type.
    pub(crate) except: bool,
    /// `MSG_NOERROR`: a longer one is cut.
    pub(crate) cut: bool,
    /// The room there is.
    pub(crate) room: usize,
}

impl Object for SysvQueue {
    fn perm(&self) -> &IpcPerm {
        &self.state.perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.state.perm
    }
}

impl SysvQueue {
    /// The place of the message that is wanted.
    fn find(&self, wanted: &Wanted) -> Option<usize> {
        let kinds = self.messages.iter().map(|message| message.kind).enumerate();
        match wanted.kind {
            0 => kinds.map(|(at, _)| at).next(),
            kind if kind > 0 => kinds.filter(|(_, k)| (*k == kind) != wanted.except).map(|(at, _)| at).next(),
            // The first of the lowest type up to the limit.
            kind => {
                let limit = kind.checked_neg().unwrap_or(i64::MAX);
                kinds.filter(|(_, k)| *k <= limit).min_by_key(|(at, k)| (*k, *at)).map(|(at, _)| at)
            }
        }
    }
}

impl Ipc {
    /// A copy of the message at a place: `MSG_COPY`. `ENOMSG` if there is none.
    pub(crate) fn msg_copy(&mut self, id: i32, place: i64, wanted: &Wanted) -> Result<SysvMessage, Errno> {
        let queue = self.queues.get(id)?;
        let found = usize::try_from(place).ok().and_then(|place| queue.messages.get(place));
        let mut message = found.ok_or(Errno::ENOMSG)?.clone();
        if message.text.len() > wanted.room && !wanted.cut {
            return Err(Errno::E2BIG);
        }
        message.text.truncate(wanted.room);
        Ok(message)
    }
}

impl Host {
    /// The queue with this key, made if `flags` say so.
    pub(crate) fn msg_get(&mut self, process: ProcessKey, key: i32, flags: i32) -> Result<i32, Errno> {
        if let Some(id) = self.ipc.queues.lookup(key, flags)? {
            let perm = self.ipc.queues.get(id)?.state.perm;
            return self.ipc_check(process, perm, flags as u32).map(|()| id);
        }
        let perm = self.new_permissions(process, key, flags);
        let state = MsqidDs { perm, ctime: self.seconds(), qbytes: QUEUE_BYTES, ..MsqidDs::default() };
        let changed = self.waits.create();
        let queue = SysvQueue { state, messages: VecDeque::new(), changed };
        self.ipc.queues.insert(queue, MAX_QUEUES)
    }

    /// Appends a message; gives the queue to wait for if there is no room.
    pub(crate) fn msg_send(
        &mut self,
        process: ProcessKey,
        id: i32,
        message: &SysvMessage,
    ) -> Result<Option<WaitQueueId>, Errno> {
        let (pid, now) = (self.processes[process.0].pid, self.seconds());
        let perm = self.ipc.queues.get(id)?.state.perm;
        self.ipc_check(process, perm, WRITE)?;
        let queue = self.ipc.queues.get(id)?;
        let state = &mut queue.state;
        let len = message.text.len() as u64;
        if state.cbytes + len > state.qbytes || state.qnum + 1 > state.qbytes {
            return Ok(Some(queue.changed));
        }
        state.cbytes += len;
        state.qnum += 1;
        (state.lspid, state.stime) = (pid, now);
        queue.messages.push_back(message.clone());
        let changed = queue.changed;
        self.notify(changed);
        Ok(None)
    }

    /// Takes the message that is wanted out; gives the queue to wait for if there is none. `E2BIG` if it is too
    /// long.
    pub(crate) fn msg_receive(
        &mut self,
        process: ProcessKey,
        id: i32,
        wanted: &Wanted,
    ) -> Result<Result<SysvMessage, WaitQueueId>, Errno> {
        let (pid, now) = (self.processes[process.0].pid, self.seconds());
        let perm = self.ipc.queues.get(id)?.state.perm;
        self.ipc_check(process, perm, READ)?;
        let queue = self.ipc.queues.get(id)?;
        let Some(at) = queue.find(wanted) else { return Ok(Err(queue.changed)) };
        if queue.messages[at].text.len() > wanted.room && !wanted.cut {
            return Err(Errno::E2BIG);
        }
        let mut message = queue.messages.remove(at).expect("just found");
        let state = &mut queue.state;
        state.cbytes -= message.text.len() as u64;
        state.qnum -= 1;
        (state.lrpid, state.rtime) = (pid, now);
        message.text.truncate(wanted.room);
        let changed = queue.changed;
        self.notify(changed);
        Ok(Ok(message))
    }

    /// `IPC_SET`.
    pub(crate) fn msg_set(&mut self, process: ProcessKey, id: i32, new: &MsqidDs) -> Result<(), Errno> {
        let (now, own) = (self.seconds(), self.process(process).credentials.euid);
        let queue = self.ipc.queues.get(id)?;
        if new.qbytes > QUEUE_BYTES && own != 0 {
            return Err(Errno::EPERM);
        }
        let state = &mut queue.state;
        (state.perm.uid, state.perm.gid, state.ctime) = (new.perm.uid, new.perm.gid, now);
        (state.perm.mode, state.qbytes) = (state.perm.mode & !0o777 | new.perm.mode & 0o777, new.qbytes);
        // There may be room now.
        let changed = queue.changed;
        self.notify(changed);
        Ok(())
    }

    /// `IPC_RMID`: whoever waits gets `EIDRM`.
    pub(crate) fn msg_remove(&mut self, id: i32) -> Result<(), Errno> {
        let changed = self.ipc.queues.get(id)?.changed;
        self.ipc.queues.remove(id);
        self.notify(changed);
        self.waits.destroy(changed);
        Ok(())
    }
}

/// Flags of `msgrcv(2)`.
pub(crate) const NOERROR: i32 = c::MSG_NOERROR;
pub(crate) const EXCEPT: i32 = c::MSG_EXCEPT;
pub(crate) const COPY: i32 = c::MSG_COPY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_type() {
        let message = |kind| SysvMessage { kind, text: Vec::new() };
        let messages = [5, 3, 9, 3].map(message).into_iter().collect();
        let queue = SysvQueue { state: MsqidDs::default(), messages, changed: WaitQueueId::default() };
        let find = |kind, except| queue.find(&Wanted { kind, except, cut: false, room: 0 });
        assert_eq!([0, 3, 9, 4].map(|kind| find(kind, false)), [Some(0), Some(1), Some(2), None]);
        assert_eq!([-2, -3, -8, i64::MIN].map(|kind| find(kind, false)), [None, Some(1), Some(1), Some(1)]);
        assert_eq!((find(5, true), find(4, true)), (Some(1), Some(0)));
    }
}
