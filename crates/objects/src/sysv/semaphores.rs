//! Semaphore sets, `semop(2)`: a list of operations is performed atomically or blocks as a whole.

use super::{SysvIpc, SysvObject};
use crate::ids::{ProcessKey, ThreadKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_linux_abi::ipc::{IpcPerm, SemBuf, SemidDs};

/// `SEMVMX`, the maximum value of a semaphore.
pub const MAX_VALUE: i32 = 32_767;
/// `SEMMSL`, the maximum number of semaphores in a set.
pub const MAX_IN_SET: i32 = 32_000;
/// `SEMMNI`, the maximum number of sets on a host.
pub const MAX_SETS: usize = 32_000;

/// Semaphore set.
#[derive(Debug)]
pub struct SemSet {
    /// `struct semid_ds`: the state except the values.
    pub state: SemidDs,
    /// Semaphores of the set.
    pub semaphores: Vec<Semaphore>,
    /// Wait queue, notified after every change.
    pub changed: WaitQueueId,
    /// Waiting threads with their conditions; stale entries are ignored.
    pub waiting: Vec<(ThreadKey, SemCondition)>,
}

/// Semaphore.
#[derive(Clone, Copy, Debug, Default)]
pub struct Semaphore {
    /// `semval`.
    pub value: i32,
    /// `sempid`.
    pub pid: i32,
}

/// Condition for which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemCondition {
    /// Index of the semaphore.
    pub number: u16,
    /// True to wait for zero, false to wait for an increase.
    pub for_zero: bool,
}

/// Adjustment of a semaphore when a process exits (`SEM_UNDO`).
#[derive(Clone, Copy, Debug)]
pub struct SemUndo {
    /// Process.
    pub process: ProcessKey,
    /// Identifier of the set.
    pub id: i32,
    /// Index of the semaphore.
    pub number: u16,
    /// Value to add.
    pub amount: i32,
}

/// Result of an attempt at `semop(2)`.
#[derive(Debug)]
pub enum SemopResult {
    /// All operations were performed.
    Done,
    /// The call waits until this queue is notified.
    Waits(WaitQueueId),
}

impl SysvObject for SemSet {
    fn perm(&self) -> &IpcPerm {
        &self.state.perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.state.perm
    }
}

impl SemSet {
    /// Values after `operations`; `Err(Ok(..))` with the condition of the first operation that must wait,
    /// `Err(Err(..))` for an operation that can never succeed.
    pub fn after(&self, operations: &[SemBuf]) -> Result<Vec<i32>, Result<(SemCondition, i16), Errno>> {
        let mut values: Vec<i32> = self.semaphores.iter().map(|s| s.value).collect();
        for SemBuf { num, op, flags } in operations.iter().copied() {
            let value = &mut values[usize::from(num)];
            let next = *value + i32::from(op);
            match op {
                0 if *value != 0 => return Err(Ok((SemCondition { number: num, for_zero: true }, flags))),
                _ if next < 0 => return Err(Ok((SemCondition { number: num, for_zero: false }, flags))),
                _ if next > MAX_VALUE => return Err(Err(Errno::ERANGE)),
                _ => *value = next,
            }
        }
        Ok(values)
    }
}

impl SysvIpc {
    /// Adds to a process's adjustments.
    pub fn add_undo(&mut self, new: SemUndo) {
        let same = |u: &&mut SemUndo| (u.process, u.id, u.number) == (new.process, new.id, new.number);
        match self.undo.iter_mut().find(same) {
            Some(undo) => undo.amount += new.amount,
            None => self.undo.push(new),
        }
    }
}
