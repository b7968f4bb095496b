//! POSIX message queues, `mq_overview(7)`: named objects that are opened like files.

use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use crate::ipc;
use crate::process::Processes;
use belljar_linux_abi::ipc::IpcPerm;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::message_queue::{COOKIE_LEN, MessageQueue, Notice, REMOVED, WOKEN};
use belljar_objects::namespaces::NamespaceKind;
use belljar_tasks::waits::{WaitTable, Waiter};

/// `SI_MESGQ`.
const SI_MESGQ: i32 = -3;

impl Files {
    /// Message queue with this name in an IPC namespace.
    pub(crate) fn find_mqueue(&self, namespace: u32, name: &[u8]) -> Option<usize> {
        let found = |queue: &MessageQueue| {
            queue.perm.unused[0] == u64::from(namespace) && queue.name.as_deref() == Some(name)
        };
        self.mqueues.iter().find(|(_, queue)| found(queue)).map(|(n, _)| n)
    }

    /// Opens a queue.
    pub(crate) fn open_mqueue(&mut self, n: usize, flags: i32) -> FileKey {
        self.mqueues[n].opens += 1;
        self.open_file(FileKind::MessageQueue(n), flags & (c::O_ACCMODE | c::O_NONBLOCK))
    }

    /// Creates a queue that is not open yet.
    pub(crate) fn create_mqueue(
        &mut self,
        waits: &mut WaitTable,
        name: Vec<u8>,
        limits: (usize, usize),
        perm: IpcPerm,
    ) -> usize {
        self.mqueues.insert(MessageQueue::new(waits.create(), name, limits, perm))
    }

    /// `EACCES` unless the process may open the queue with the access mode of `flags`.
    pub(crate) fn check_mqueue(
        &self,
        processes: &Processes,
        process: ProcessKey,
        n: usize,
        flags: i32,
    ) -> Result<(), Errno> {
        let wanted = match flags & c::O_ACCMODE {
            c::O_RDONLY => ipc::READ,
            c::O_WRONLY => ipc::WRITE,
            _ => ipc::READ | ipc::WRITE,
        };
        let perm = self.mqueues[n].perm;
        if processes.overrides(process, capability::DAC_OVERRIDE, (perm.uid, perm.gid)) {
            return Ok(());
        }
        processes.ipc_check(process, perm, wanted)
    }
}

impl Host {
    /// `mq_unlink(3)`: the queue is destroyed at its last close. `EPERM`, as in a sticky directory, unless
    /// the process owns it.
    pub(crate) fn unlink_mqueue(&mut self, process: ProcessKey, name: &[u8]) -> Result<(), Errno> {
        let n = self
            .files
            .find_mqueue(self.processes.namespace(process, NamespaceKind::Ipc), name)
            .ok_or(Errno::ENOENT)?;
        let owner = (self.files.mqueues[n].perm.uid, self.files.mqueues[n].perm.gid);
        let own = self.processes[process.0].credentials.fsuid;
        if own != owner.0 && !self.processes.overrides(process, capability::FOWNER, owner) {
            return Err(Errno::EPERM);
        }
        self.files.mqueues[n].name = None;
        self.drop_unused_mqueue(n);
        Ok(())
    }

    /// Closes one open file of a queue.
    pub(super) fn close_mqueue(&mut self, n: usize) {
        self.files.mqueues[n].opens -= 1;
        self.drop_unused_mqueue(n);
    }

    fn drop_unused_mqueue(&mut self, n: usize) {
        if self.files.mqueues[n].is_unused() {
            let gone = self.files.mqueues.remove(n);
            self.waits.destroy(gone.queue);
            if let Some((_, notice)) = gone.notify {
                self.send_cookie(notice, REMOVED);
            }
        }
    }

    /// Adds a message; returns the wait queue to block on if the queue is full. `EMSGSIZE` if the text is too
    /// long.
    pub(crate) fn mqueue_send(
        &mut self,
        sender: ProcessKey,
        n: usize,
        priority: u32,
        text: &[u8],
    ) -> Result<Option<WaitQueueId>, Errno> {
        let queue = &mut self.files.mqueues[n];
        let (was_empty, waits) = (queue.is_empty(), queue.queue);
        if !queue.push(priority, text)? {
            return Ok(Some(waits));
        }
        // A blocked receiver takes the message; the notification is sent only if there is none.
        let awaited = self.waits.waiters(waits).any(|waiter| matches!(waiter, Waiter::Thread(_)));
        if was_empty && !awaited {
            self.mqueue_tell(n, sender);
        }
        self.notify(waits);
        Ok(None)
    }

    fn mqueue_tell(&mut self, n: usize, sender: ProcessKey) {
        let Some((process, how)) = self.files.mqueues[n].notify.take() else { return };
        let alive = self.processes.get(process.0).is_some_and(|process| process.ended.is_none());
        self.send_cookie(how, WOKEN);
        if let (Notice::Signal(signal, value), true) = (how, alive) {
            let (pid, uid) = (self.processes[sender.0].pid, self.processes[sender.0].credentials.ruid);
            let mut info = SigInfo::user(signal, SI_MESGQ, pid, uid);
            info.fields[1] = value;
            self.send_signal(process, info);
        }
    }

    /// Sends a thread of the C library its cookie, and releases the socket that it reads.
    fn send_cookie(&mut self, notice: Notice, state: u8) {
        let Notice::Cookie(file, mut cookie) = notice else { return };
        cookie[COOKIE_LEN - 1] = state;
        if let FileKind::Socket(key) = self.files.open(file).kind
            && !self.own.netlink_is_full(key)
        {
            self.own.netlink_enqueue(&mut self.net, key, &cookie);
        }
        self.release_file(file);
    }
    /// Removes the registrations of a process that exits.
    pub(crate) fn forget_notices(&mut self, process: ProcessKey) {
        let queues = self.files.mqueues.iter();
        let own = queues.filter(|(_, queue)| queue.notify.is_some_and(|(owner, _)| owner == process));
        for n in own.map(|(n, _)| n).collect::<Vec<_>>() {
            if let Some((_, notice)) = self.files.mqueues[n].notify.take() {
                self.send_cookie(notice, REMOVED);
            }
        }
    }

    /// Removes the oldest message of the highest priority; the wait queue to block on if there is none.
    /// `EMSGSIZE` if `room` is less than the queue's maximum message size.
    pub(crate) fn mqueue_receive(
        &mut self,
        n: usize,
        room: u64,
    ) -> Result<Result<(u32, Vec<u8>), WaitQueueId>, Errno> {
        let queue = &mut self.files.mqueues[n];
        let Some(message) = queue.pop(room)? else { return Ok(Err(queue.queue)) };
        let waits = queue.queue;
        self.notify(waits);
        Ok(Ok(message))
    }

    /// `mq_notify(3)`; `None` removes the process's registration. `EBUSY` if a process is registered already.
    pub(crate) fn mqueue_notify(
        &mut self,
        process: ProcessKey,
        n: usize,
        how: Option<Notice>,
    ) -> Result<(), Errno> {
        let living =
            |host: &Host, key: ProcessKey| host.processes.get(key.0).is_some_and(|p| p.ended.is_none());
        let present = self.files.mqueues[n].notify.filter(|(owner, _)| living(self, *owner));
        match (how, present) {
            (None, Some((owner, _))) if owner != process => return Ok(()),
            (Some(_), Some(_)) => return Err(Errno::EBUSY),
            _ => {}
        }
        if let Some(Notice::Cookie(file, _)) = how {
            self.files.retain_file(file);
        }
        let former = std::mem::replace(&mut self.files.mqueues[n].notify, how.map(|how| (process, how)));
        if let Some((_, notice)) = former {
            self.send_cookie(notice, REMOVED);
        }
        Ok(())
    }
}
