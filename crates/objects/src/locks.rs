//! Advisory file locks within a host: record locks of processes and of open file descriptions (`fcntl(2)`,
//! "Advisory record locking"), and `flock(2)`.

use crate::ids::{FdTableKey, FileKey, WaitQueueId};

/// Owner of a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// A process, identified by its descriptor table (`F_SETLK`), with the process id that `F_GETLK` reports.
    Process(FdTableKey, i32),
    /// An open file description (`F_OFD_SETLK`).
    File(FileKey),
}

impl LockOwner {
    /// True if both are the same owner; a process may appear with several ids.
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

/// Record lock on the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLock {
    /// Lock owner.
    pub owner: LockOwner,
    /// True for a write lock (`F_WRLCK`).
    pub exclusive: bool,
    /// First byte.
    pub start: u64,
    /// End of the range, exclusive; `u64::MAX` for up to the end of the file.
    pub end: u64,
}

/// Locks on one file.
#[derive(Debug)]
pub struct FileLocks {
    /// Wait queue, notified when a lock is released.
    pub queue: WaitQueueId,
    records: Vec<RecordLock>,
    /// `flock(2)` locks: the holder, and true if exclusive.
    whole: Vec<(FileKey, bool)>,
}

impl FileLocks {
    /// Creates an empty lock table.
    pub fn new(queue: WaitQueueId) -> FileLocks {
        FileLocks { queue, records: Vec::new(), whole: Vec::new() }
    }
    /// Locks as lines of `/proc/locks` without their numbers, of the file with this identification; `holder`
    /// finds the process of an open file.
    pub fn lines(&self, file: &str, holder: impl Fn(FileKey) -> i32) -> Vec<String> {
        let mode = |exclusive| if exclusive { "WRITE" } else { "READ" };
        let record = |lock: &RecordLock| {
            let kind = if matches!(lock.owner, LockOwner::File(_)) { "OFDLCK" } else { "POSIX " };
            let last = if lock.end == u64::MAX { "EOF".to_owned() } else { (lock.end - 1).to_string() };
            let (mode, pid, start) = (mode(lock.exclusive), lock.owner.pid(), lock.start);
            format!("{kind} ADVISORY  {mode:<5} {pid} {file} {start} {last}")
        };
        let whole = |&(key, exclusive): &(FileKey, bool)| {
            format!("FLOCK  ADVISORY  {:<5} {} {file} 0 EOF", mode(exclusive), holder(key))
        };
        self.records.iter().map(record).chain(self.whole.iter().map(whole)).collect()
    }
    /// First record lock that conflicts with `wanted`.
    pub fn conflict(&self, wanted: &RecordLock) -> Option<RecordLock> {
        let in_the_way = |held: &&RecordLock| {
            held.owner != wanted.owner
                && (held.exclusive || wanted.exclusive)
                && held.start < wanted.end
                && wanted.start < held.end
        };
        self.records.iter().filter(in_the_way).min_by_key(|held| held.start).copied()
    }
    /// Sets `lock`, replacing the owner's locks on those bytes.
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
    /// Releases the owner's locks on the bytes `start..end`; true if there were any.
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
    /// Releases all record locks of the owners that `is_owner` selects; true if there were any.
    pub fn clear_of(&mut self, is_owner: impl Fn(LockOwner) -> bool) -> bool {
        let before = self.records.len();
        self.records.retain(|held| !is_owner(held.owner));
        self.records.len() != before
    }
    /// `flock(2)`: acquires or converts the lock on the whole file; false on a conflict. A conversion first
    /// drops the old lock, as documented there.
    pub fn lock_whole(&mut self, file: FileKey, exclusive: bool) -> bool {
        self.whole.retain(|(holder, _)| *holder != file);
        let free = self.whole.iter().all(|(_, held)| !exclusive && !held);
        if free {
            self.whole.push((file, exclusive));
        }
        free
    }
    /// Releases a `flock(2)` lock; true if it was held.
    pub fn unlock_whole(&mut self, file: FileKey) -> bool {
        let before = self.whole.len();
        self.whole.retain(|(holder, _)| *holder != file);
        self.whole.len() != before
    }
    /// True if no lock is held.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.whole.is_empty()
    }
}

/// `F_SEAL_EXEC`: the execute permission cannot change.
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
