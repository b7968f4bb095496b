//! Semaphore sets, `semop(2)`: a list of operations happens as a whole or waits as a whole.

use super::{SysvIpc, SysvObject};
use crate::ids::{ProcessKey, ThreadKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_linux_abi::ipc::{IpcPerm, SemBuf, SemidDs};

/// `SEMVMX`, the highest value of a semaphore.
pub const MAX_VALUE: i32 = 32_767;
/// `SEMMSL`, semaphores in a set.
pub const MAX_IN_SET: i32 = 32_000;
/// `SEMMNI`, sets on a host.
pub const MAX_SETS: usize = 32_000;

/// One set.
#[derive(Debug)]
pub struct SemSet {
    /// All that guests see of it but values.
    pub state: SemidDs,
    /// Values, and who last operated on each.
    pub semaphores: Vec<Semaphore>,
    /// Notified after every change.
    pub changed: WaitQueueId,
    /// Threads that wait, with the condition; entries of threads that wait no more are ignored.
    pub waiting: Vec<(ThreadKey, SemCondition)>,
}

/// One semaphore.
#[derive(Clone, Copy, Debug, Default)]
pub struct Semaphore {
    /// `semval`.
    pub value: i32,
    /// `sempid`.
    pub pid: i32,
}

/// The condition that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemCondition {
    /// The semaphore.
    pub number: u16,
    /// True if it is to become zero, false if it is to grow.
    pub for_zero: bool,
}

/// An adjustment of a semaphore when a process ends (`SEM_UNDO`).
#[derive(Clone, Copy, Debug)]
pub struct SemUndo {
    /// Whose end.
    pub process: ProcessKey,
    /// The set.
    pub id: i32,
    /// The semaphore in it.
    pub number: u16,
    /// The number to be added.
    pub amount: i32,
}

/// The result of an attempt at `semop(2)`.
#[derive(Debug)]
pub enum SemopResult {
    /// All operations are done.
    Done,
    /// It waits until this queue is notified.
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
    /// The values after `operations`; `Err(Ok(..))` for what the first that cannot be done waits
    /// for, `Err(Err(..))` for one that never can.
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
    /// Adds an adjustment to those that a process has asked for.
    pub fn add_undo(&mut self, new: SemUndo) {
        let same = |u: &&mut SemUndo| (u.process, u.id, u.number) == (new.process, new.id, new.number);
        match self.undo.iter_mut().find(same) {
            Some(undo) => undo.amount += new.amount,
            None => self.undo.push(new),
        }
    }
}
