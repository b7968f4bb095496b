//! Semaphore sets, `semop(2)`: a list of operations is performed as a whole or blocks as a whole.

use super::{READ, WRITE};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::thread::ThreadState;
use belljar_linux_abi::ipc::{SemBuf, SemidDs};
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::sysv::{
    MAX_IN_SET, MAX_SETS, MAX_VALUE, SemCondition, SemSet, SemUndo, Semaphore, SemopResult,
};

impl Host {
    /// Returns the set with this key, creating it if `flags` say so.
    pub(crate) fn sem_get(
        &mut self,
        process: ProcessKey,
        key: i32,
        count: i32,
        flags: i32,
    ) -> Result<i32, Errno> {
        if !(0..=MAX_IN_SET).contains(&count) {
            return Err(Errno::EINVAL);
        }
        let namespace = self.processes.namespace(process, NamespaceKind::Ipc);
        if let Some(id) = self.ipc.semaphores.lookup(namespace, key, flags)? {
            let set = self.ipc.semaphores.get(id)?;
            if count as usize > set.semaphores.len() {
                return Err(Errno::EINVAL);
            }
            let perm = set.state.perm;
            return self.processes.ipc_check(process, perm, flags as u32).map(|()| id);
        }
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        let perm = self.processes.new_permissions(process, key, flags);
        let state = SemidDs { perm, ctime: self.seconds(), nsems: count as u64, ..SemidDs::default() };
        let semaphores = vec![Semaphore::default(); count as usize];
        let changed = self.waits.create();
        let set = SemSet { state, semaphores, changed, waiting: Vec::new() };
        self.ipc.semaphores.insert(set, MAX_SETS)
    }

    /// Attempts all `operations`, of which there is at least one, atomically.
    pub(crate) fn sem_operate(
        &mut self,
        thread: ThreadKey,
        id: i32,
        operations: &[SemBuf],
    ) -> Result<SemopResult, Errno> {
        let process = self.threads[thread.0].process;
        let (pid, now) = (self.processes[process.0].pid, self.seconds());
        let set = self.ipc.semaphores.get(id)?;
        set.waiting.retain(|(waiter, _)| *waiter != thread);
        if operations.iter().any(|op| usize::from(op.num) >= set.semaphores.len()) {
            return Err(Errno::EFBIG);
        }
        let perm = set.state.perm;
        let alters = operations.iter().any(|op| op.op != 0);
        self.processes.ipc_check(process, perm, if alters { WRITE } else { READ })?;
        let set = self.ipc.semaphores.get(id)?;
        let values = match set.after(operations) {
            Ok(values) => values,
            Err(Err(errno)) => return Err(errno),
            Err(Ok((_, flags))) if i32::from(flags) & c::IPC_NOWAIT != 0 => return Err(Errno::EAGAIN),
            Err(Ok((waiting, _))) => {
                set.waiting.push((thread, waiting));
                return Ok(SemopResult::Waits(set.changed));
            }
        };
        for (semaphore, value) in set.semaphores.iter_mut().zip(values) {
            semaphore.value = value;
        }
        for operation in operations {
            set.semaphores[usize::from(operation.num)].pid = pid;
        }
        set.state.otime = now;
        let (changed, alters) = (set.changed, operations.iter().any(|operation| operation.op != 0));
        let undone = operations.iter().filter(|op| i32::from(op.flags) & c::SEM_UNDO != 0 && op.op != 0);
        for operation in undone {
            self.ipc.add_undo(SemUndo {
                process,
                id,
                number: operation.num,
                amount: -i32::from(operation.op),
            });
        }
        if alters {
            self.notify(changed);
        }
        Ok(SemopResult::Done)
    }

    /// `SETVAL` and `SETALL`: sets semaphores from `first` on and clears their undo entries.
    pub(crate) fn sem_set(
        &mut self,
        process: ProcessKey,
        id: i32,
        first: i32,
        values: &[i32],
    ) -> Result<(), Errno> {
        let (pid, now) = (self.process(process).pid, self.seconds());
        let set = self.ipc.semaphores.get(id)?;
        let range = usize::try_from(first).ok().map(|first| first..first + values.len());
        let place = range.clone().and_then(|range| set.semaphores.get_mut(range)).ok_or(Errno::EINVAL)?;
        if values.iter().any(|value| !(0..=MAX_VALUE).contains(value)) {
            return Err(Errno::ERANGE);
        }
        for (semaphore, value) in place.iter_mut().zip(values) {
            *semaphore = Semaphore { value: *value, pid };
        }
        set.state.ctime = now;
        let changed = set.changed;
        let range = range.unwrap_or_default();
        self.ipc.undo.retain(|undo| undo.id != id || !range.contains(&usize::from(undo.number)));
        self.notify(changed);
        Ok(())
    }

    /// `IPC_RMID`: waiters get `EIDRM`.
    pub(crate) fn sem_remove(&mut self, id: i32) -> Result<(), Errno> {
        let changed = self.ipc.semaphores.get(id)?.changed;
        self.ipc.semaphores.remove(id);
        self.ipc.undo.retain(|undo| undo.id != id);
        self.notify(changed);
        self.waits.destroy(changed);
        Ok(())
    }

    /// `GETNCNT` and `GETZCNT`: number of threads that wait for a semaphore to increase, or to become zero.
    pub(crate) fn sem_waiters(&mut self, id: i32, number: i32, for_zero: bool) -> Result<i32, Errno> {
        let set = self.ipc.semaphores.get(id)?;
        let number = usize::try_from(number).ok().filter(|n| *n < set.semaphores.len());
        let wanted = SemCondition { number: number.ok_or(Errno::EINVAL)? as u16, for_zero };
        let changed = set.changed;
        let waiting = set.waiting.clone();
        let still = |thread: ThreadKey| {
            let state = self.threads.get(thread.0).map(|thread| &thread.state);
            matches!(state, Some(ThreadState::Blocked(blocked)) if blocked.on.contains(&changed))
        };
        Ok(waiting.iter().filter(|(thread, what)| *what == wanted && still(*thread)).count() as i32)
    }

    /// Applies the undo entries of a process that ends.
    pub(crate) fn undo_semaphores(&mut self, process: ProcessKey) {
        let pid = self.process(process).pid;
        let all = std::mem::take(&mut self.ipc.undo);
        let (ended, kept): (Vec<SemUndo>, _) = all.into_iter().partition(|undo| undo.process == process);
        self.ipc.undo = kept;
        for undo in ended {
            let Ok(set) = self.ipc.semaphores.get(undo.id) else { continue };
            let semaphore = &mut set.semaphores[usize::from(undo.number)];
            semaphore.value = (semaphore.value + undo.amount).clamp(0, MAX_VALUE);
            semaphore.pid = pid;
            let changed = set.changed;
            self.notify(changed);
        }
    }
}
