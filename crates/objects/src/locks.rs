//! Advisory locks inside a host: record locks of processes, of open files, and `flock(2)`,
//! `fcntl(2)` "Advisory record locking".

use crate::ids::{FdTableKey, FileKey, WaitQueueId};

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// A process, by its descriptor table (`F_SETLK`), with the process id that `F_GETLK` shows.
    Process(FdTableKey, i32),
    /// An open file (`F_OFD_SETLK`).
    File(FileKey),
}

impl LockOwner {
    /// True if both are one: a process may go by several ids.
    pub fn is_same(self, other: LockOwner) -> bool {
        match (self, other) {
            (LockOwner::Process(a, _), LockOwner::Process(b, _)) => a == b,
            _ => self == other,
        }
    }
    /// `l_pid` of `F_GETLK`.
    pub fn pid(self) -> i32 {
        match self {
            LockOwner::Process(_, pid) => pid,
            LockOwner::File(_) => -1,
        }
    }
}

/// A lock on the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLock {
    /// Its owner.
    pub owner: LockOwner,
    /// True if it excludes all others (`F_WRLCK`).
    pub exclusive: bool,
    /// The first byte.
    pub start: u64,
    /// The byte behind the last; `u64::MAX` for all there will ever be.
    pub end: u64,
}

/// The locks on one file.
#[derive(Debug)]
pub struct FileLocks {
    /// Notified when a lock goes.
    pub queue: WaitQueueId,
    records: Vec<RecordLock>,
    /// `flock(2)`: who holds it, and whether exclusively.
    whole: Vec<(FileKey, bool)>,
}

impl FileLocks {
    /// No locks.
    pub fn new(queue: WaitQueueId) -> FileLocks {
        FileLocks { queue, records: Vec::new(), whole: Vec::new() }
    }
    /// The first record lock that stands in the way of `wanted`.
    pub fn conflict(&self, wanted: &RecordLock) -> Option<RecordLock> {
        let in_the_way = |held: &&RecordLock| {
            held.owner != wanted.owner
                && (held.exclusive || wanted.exclusive)
                && held.start < wanted.end
                && wanted.start < held.end
        };
        self.records.iter().filter(in_the_way).min_by_key(|held| held.start).copied()
    }
    /// Replaces what its owner holds of those bytes by `lock`.
    pub fn set(&mut self, lock: RecordLock) {
        self.clear(lock.owner, lock.start, lock.end);
        let joins = |held: &RecordLock| {
            held.owner == lock.owner
                && held.exclusive == lock.exclusive
                && held.start <= lock.end
                && lock.start <= held.end
        };
        let mut lock = lock;
        while let Some(at) = self.records.iter().position(joins) {
            let held = self.records.remove(at);
            (lock.start, lock.end) = (lock.start.min(held.start), lock.end.max(held.end));
        }
        self.records.push(lock);
    }
    /// Takes from an owner what it holds of the bytes `start..end`; whether there was anything.
    pub fn clear(&mut self, owner: LockOwner, start: u64, end: u64) -> bool {
        let mut kept = Vec::with_capacity(self.records.len() + 1);
        let mut cleared = false;
        for held in self.records.drain(..) {
            if held.owner != owner || held.start >= end || start >= held.end {
                kept.push(held);
                continue;
            }
            cleared = true;
            if held.start < start {
                kept.push(RecordLock { end: start, ..held });
            }
            if held.end > end {
                kept.push(RecordLock { start: end, ..held });
            }
        }
        self.records = kept;
        cleared
    }
    /// Takes all record locks from those owners that `is_owner` tells; whether there were any.
    pub fn clear_of(&mut self, is_owner: impl Fn(LockOwner) -> bool) -> bool {
        let before = self.records.len();
        self.records.retain(|held| !is_owner(held.owner));
        self.records.len() != before
    }
    /// `flock(2)`: takes or converts the lock on the whole file; false if somebody is in the way.
    /// A conversion gives up the old lock first, as the manual says.
    pub fn lock_whole(&mut self, file: FileKey, exclusive: bool) -> bool {
        self.whole.retain(|(holder, _)| *holder != file);
        let free = self.whole.iter().all(|(_, held)| !exclusive && !held);
        if free {
            self.whole.push((file, exclusive));
        }
        free
    }
    /// Gives up a `flock(2)` lock; whether there was one.
    pub fn unlock_whole(&mut self, file: FileKey) -> bool {
        let before = self.whole.len();
        self.whole.retain(|(holder, _)| *holder != file);
        self.whole.len() != before
    }
    /// True if nobody holds any.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.whole.is_empty()
    }
}

/// `F_SEAL_EXEC`: whether it may be executed does not change.
pub const F_SEAL_EXEC: i32 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    const A: LockOwner = LockOwner::Process(FdTableKey(1), 1);
    const B: LockOwner = LockOwner::Process(FdTableKey(2), 2);

    fn lock(owner: LockOwner, exclusive: bool, start: u64, end: u64) -> RecordLock {
        RecordLock { owner, exclusive, start, end }
    }

    #[test]
    fn record_locks_split_join_and_conflict() {
        let mut locks = FileLocks::new(WaitQueueId::default());
        locks.set(lock(A, true, 0, 100));
        assert!(locks.clear(A, 40, 60));
        assert_eq!(locks.conflict(&lock(B, false, 40, 60)), None);
        assert_eq!(locks.conflict(&lock(B, false, 59, 61)), Some(lock(A, true, 60, 100)));
        locks.set(lock(A, true, 40, 60));
        assert_eq!(locks.records, [lock(A, true, 0, 100)]);
        locks.set(lock(A, false, 0, 50));
        assert_eq!(locks.conflict(&lock(B, false, 0, 50)), None);
        assert_eq!(locks.conflict(&lock(B, true, 0, 10)), Some(lock(A, false, 0, 50)));
    }

    #[test]
    fn whole_locks_are_shared_or_exclusive() {
        let mut locks = FileLocks::new(WaitQueueId::default());
        let (a, b) = (FileKey(1), FileKey(2));
        assert!(locks.lock_whole(a, false) && locks.lock_whole(b, false));
        assert!(!locks.lock_whole(a, true));
        assert!(locks.unlock_whole(b) && locks.lock_whole(a, true));
        assert!(!locks.lock_whole(b, false));
    }
}
