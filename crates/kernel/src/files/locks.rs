//! Advisory locks inside a host: record locks of processes, of open files, and `flock(2)`,
//! `fcntl(2)` "Advisory record locking".

use crate::call::CallState;
use crate::files::FilePlace;
use crate::host::Host;
use crate::ids::{FdTableKey, FileKey, InodeKey, ThreadKey, WaitQueueId};
use crate::mm::VmaKind;
use belljar_linux_abi::{Errno, c};

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
    fn is_same(self, other: LockOwner) -> bool {
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
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.whole.is_empty()
    }
}

/// `F_SEAL_EXEC`: whether it may be executed does not change.
pub(crate) const F_SEAL_EXEC: i32 = 0x20;

impl Host {
    /// `EDEADLK` if `holder` waits, directly or by way of others, for `waiter`: it would never end.
    /// Only record locks of processes are looked at, as on Linux.
    pub(crate) fn check_deadlock(
        &self,
        thread: ThreadKey,
        waiter: LockOwner,
        holder: LockOwner,
    ) -> Result<(), Errno> {
        let waits_for = |who: LockOwner| {
            self.threads.iter().filter(|(key, _)| *key != thread.0).find_map(|(_, thread)| {
                match thread.blocked_state() {
                    Some(CallState::RecordLock(waits, holds)) if waits.is_same(who) => Some(*holds),
                    _ => None,
                }
            })
        };
        let mut at = holder;
        for _ in 0..self.threads.len() {
            if at.is_same(waiter) {
                return Err(Errno::EDEADLK);
            }
            let Some(next) = waits_for(at) else { return Ok(()) };
            at = next;
        }
        Ok(())
    }
    /// The seals of a file; `EINVAL` if it can have none.
    pub(crate) fn seals(&mut self, inode: InodeKey) -> Result<i32, Errno> {
        let memfd = self.inode(inode).content().and_then(|content| content.memfd.as_deref());
        memfd.map(|memfd| memfd.seals).ok_or(Errno::EINVAL)
    }
    /// `F_ADD_SEALS`. `EPERM` if no more can be added, `EBUSY` if it is mapped to be written.
    pub(crate) fn add_seals(&mut self, inode: InodeKey, mut seals: i32) -> Result<(), Errno> {
        let content = c::F_SEAL_SHRINK | c::F_SEAL_GROW | c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE;
        if seals & !(content | c::F_SEAL_SEAL | F_SEAL_EXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        self.check_seals(inode, c::F_SEAL_SEAL)?;
        // What can be executed and stays so does not change either.
        if seals & F_SEAL_EXEC != 0 && self.inode(inode).meta.mode & 0o111 != 0 {
            seals |= content;
        }
        let identity = self.inode(inode).identity();
        let already = self.seals(inode)? & c::F_SEAL_WRITE != 0;
        if seals & c::F_SEAL_WRITE != 0 && !already && self.is_mapped_writable(identity) {
            return Err(Errno::EBUSY);
        }
        if let Some(memfd) = self.inode(inode).content_mut().and_then(|content| content.memfd.as_mut()) {
            memfd.seals |= seals;
        }
        Ok(())
    }
    fn is_mapped_writable(&self, identity: (u64, u64)) -> bool {
        let mut mappings = self.spaces.iter().flat_map(|(_, mm)| mm.vmas());
        mappings.any(|vma| {
            let file = matches!(vma.kind, VmaKind::File { identity: mapped, .. } if mapped == identity);
            file && vma.shared && vma.may_write
        })
    }
    /// The locks on a file, made if there are none yet.
    pub(crate) fn locks_of(&mut self, place: FilePlace) -> &mut FileLocks {
        if self.lock_slot(place).is_none_or(|slot| slot.is_none()) {
            let locks = Some(Box::new(FileLocks::new(self.waits.create())));
            match place {
                FilePlace::Inode(inode) => self.inode(inode).locks = locks,
                place => self.files.unnamed.entry(place).or_default().locks = locks,
            }
        }
        self.lock_slot(place).and_then(Option::as_mut).expect("made above")
    }
    fn lock_slot(&mut self, place: FilePlace) -> Option<&mut Option<Box<FileLocks>>> {
        match place {
            FilePlace::Inode(inode) => Some(&mut self.inode(inode).locks),
            place => self.files.unnamed.get_mut(&place).map(|unnamed| &mut unnamed.locks),
        }
    }
    /// A process closes a descriptor of this file: its record locks go, whichever descriptor they
    /// were made through.
    pub(crate) fn drop_process_locks(&mut self, table: FdTableKey, place: FilePlace) {
        self.drop_locks(place, |locks| {
            let before = locks.records.len();
            locks.records.retain(|held| !matches!(held.owner, LockOwner::Process(t, _) if t == table));
            locks.records.len() != before
        });
    }
    /// An open file goes: so do the locks that belong to it.
    pub(crate) fn drop_file_locks(&mut self, file: FileKey, place: FilePlace) {
        self.drop_locks(place, |locks| {
            let before = locks.records.len();
            locks.records.retain(|held| held.owner != LockOwner::File(file));
            locks.unlock_whole(file) || locks.records.len() != before
        });
    }
    fn drop_locks(&mut self, place: FilePlace, drop: impl FnOnce(&mut FileLocks) -> bool) {
        let Some(locks) = self.lock_slot(place).and_then(Option::as_mut) else { return };
        let changed = drop(locks);
        let queue = locks.queue;
        if changed {
            self.notify(queue);
        }
        self.forget_locks_if_unused(place);
    }
    /// Forgets the list of locks when nobody holds or waits for one.
    pub(crate) fn forget_locks_if_unused(&mut self, place: FilePlace) {
        let Some(locks) = self.lock_slot(place).and_then(Option::as_mut) else { return };
        let (queue, empty) = (locks.queue, locks.is_empty());
        if empty && self.waits.is_empty(queue) {
            self.waits.destroy(queue);
            self.lock_slot(place).map(Option::take);
        }
    }
}

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
