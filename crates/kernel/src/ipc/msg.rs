//! Message queues, `msgop(2)`.

use super::{READ, WRITE};
use crate::host::Host;
use crate::ids::{ProcessKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_linux_abi::ipc::MsqidDs;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::sysv::{SysvMessage, SysvQueue, Wanted};

impl Host {
    /// Returns the queue with this key, creating it if `flags` say so.
    pub(crate) fn msg_get(&mut self, process: ProcessKey, key: i32, flags: i32) -> Result<i32, Errno> {
        let namespace = self.processes.namespace(process, NamespaceKind::Ipc);
        if let Some(id) = self.ipc.queues.lookup(namespace, key, flags)? {
            let perm = self.ipc.queues.get(id)?.state.perm;
            return self.processes.ipc_check(process, perm, flags as u32).map(|()| id);
        }
        let (perm, limits) = (self.processes.new_permissions(process, key, flags), self.ipc.limits);
        let state = MsqidDs { perm, ctime: self.seconds(), qbytes: limits.queue_bytes, ..MsqidDs::default() };
        let changed = self.waits.create();
        let queue = SysvQueue::new(state, changed);
        self.ipc.queues.insert(queue, limits.queues as usize)
    }

    /// Appends a message; returns the wait queue to block on if there is no room.
    pub(crate) fn msg_send(
        &mut self,
        process: ProcessKey,
        id: i32,
        message: &SysvMessage,
    ) -> Result<Option<WaitQueueId>, Errno> {
        let (pid, now) = (self.processes[process.0].pid, self.seconds());
        let perm = self.ipc.queues.get(id)?.state.perm;
        self.processes.ipc_check(process, perm, WRITE)?;
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

    /// Removes the wanted message; returns the wait queue to block on if there is none. `E2BIG` if the
    /// message is too long.
    pub(crate) fn msg_receive(
        &mut self,
        process: ProcessKey,
        id: i32,
        wanted: &Wanted,
    ) -> Result<Result<SysvMessage, WaitQueueId>, Errno> {
        let (pid, now) = (self.processes[process.0].pid, self.seconds());
        let perm = self.ipc.queues.get(id)?.state.perm;
        self.processes.ipc_check(process, perm, READ)?;
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
        let owner = self.processes.given_owner(process, &new.perm)?;
        let queue = self.ipc.queues.get(id)?;
        if new.qbytes > self.ipc.limits.queue_bytes && own != 0 {
            return Err(Errno::EPERM);
        }
        let state = &mut queue.state;
        (state.perm.uid, state.perm.gid, state.ctime) = (owner.0, owner.1, now);
        (state.perm.mode, state.qbytes) = (state.perm.mode & !0o777 | new.perm.mode & 0o777, new.qbytes);
        // A larger limit may have made room.
        let changed = queue.changed;
        self.notify(changed);
        Ok(())
    }

    /// `IPC_RMID`: waiters get `EIDRM`.
    pub(crate) fn msg_remove(&mut self, id: i32) -> Result<(), Errno> {
        let changed = self.ipc.queues.get(id)?.changed;
        self.ipc.queues.remove(id);
        self.notify(changed);
        self.waits.destroy(changed);
        Ok(())
    }
}
