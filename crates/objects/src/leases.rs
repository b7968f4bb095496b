//! Leases of a file, `fcntl(2)` "Leases": their holders are signalled before others open or truncate the file.

use crate::ids::{FileKey, WaitQueueId};
use belljar_base::SimTime;
use belljar_linux_abi::c;

/// Leases on a file.
#[derive(Debug)]
pub struct Leases {
    /// Wait queue, notified when a lease is released or downgraded.
    pub queue: WaitQueueId,
    held: Vec<Lease>,
}

#[derive(Debug)]
struct Lease {
    file: FileKey,
    /// True for a write lease (`F_WRLCK`), which conflicts with readers too.
    exclusive: bool,
    /// Set while the lease is being broken: the deadline, and true if it must be released rather than
    /// downgraded to a read lease.
    broken: Option<(SimTime, bool)>,
}

/// Effect of an operation that conflicts with leases.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeaseBreak {
    /// Open files whose holders are to be signalled.
    pub signalled: Vec<FileKey>,
    /// Deadline of the last conflicting lease; `None` if no conflicting lease remains.
    pub until: Option<SimTime>,
}

impl Leases {
    /// No leases yet.
    pub fn new(queue: WaitQueueId) -> Leases {
        Leases { queue, held: Vec::new() }
    }
    /// True if no lease is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
    /// Lease held through an open file, as by `F_GETLEASE`.
    pub fn kind_of(&self, file: FileKey) -> i32 {
        match self.held.iter().find(|lease| lease.file == file) {
            Some(Lease { broken: Some((_, true)), .. }) | None => c::F_UNLCK,
            Some(Lease { broken: Some((_, false)), .. } | Lease { exclusive: false, .. }) => c::F_RDLCK,
            Some(_) => c::F_WRLCK,
        }
    }
    /// True if the lease held through an open file is being broken and so cannot become one of this kind.
    pub fn refuses(&self, file: FileKey, exclusive: bool) -> bool {
        let broken = |lease: &Lease| lease.broken.is_some_and(|(_, all)| all || exclusive);
        self.held.iter().any(|lease| lease.file == file && broken(lease))
    }
    /// Sets the lease of an open file.
    pub fn set(&mut self, file: FileKey, exclusive: bool) {
        self.held.retain(|lease| lease.file != file);
        self.held.push(Lease { file, exclusive, broken: None });
    }
    /// Releases the lease of an open file; false if it holds none.
    pub fn release(&mut self, file: FileKey) -> bool {
        let before = self.held.len();
        self.held.retain(|lease| lease.file != file);
        self.held.len() != before
    }
    /// Breaks conflicting leases before the file is opened for reading or, with `writes`, opened for writing
    /// or truncated. A lease that is broken now ends at `end`.
    pub fn break_for(&mut self, writes: bool, now: SimTime, end: SimTime) -> LeaseBreak {
        // Leases past their deadline are removed, or downgraded to read leases.
        self.held.retain_mut(|lease| match lease.broken {
            Some((until, all)) if until <= now => {
                (lease.exclusive, lease.broken) = (false, None);
                !all
            }
            _ => true,
        });
        let mut effect = LeaseBreak::default();
        for lease in self.held.iter_mut().filter(|lease| writes || lease.exclusive) {
            let (by, all) = lease.broken.unwrap_or((end, false));
            if lease.broken.is_none() {
                effect.signalled.push(lease.file);
            }
            lease.broken = Some((by, all || writes));
            effect.until = effect.until.max(Some(by));
        }
        effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_write_lease_is_downgraded_and_then_released() {
        let (file, at) = (FileKey(3), SimTime::from_nanos);
        let mut leases = Leases::new(WaitQueueId::default());
        leases.set(file, true);
        assert_eq!(leases.kind_of(file), c::F_WRLCK);
        let broken = leases.break_for(false, at(0), at(10));
        assert_eq!(broken, LeaseBreak { signalled: vec![file], until: Some(at(10)) });
        assert_eq!(leases.kind_of(file), c::F_RDLCK);
        assert!(leases.refuses(file, true) && !leases.refuses(file, false));
        // The holder is signalled once; after the deadline it has a read lease.
        assert_eq!(leases.break_for(false, at(5), at(20)).signalled, []);
        assert_eq!(leases.break_for(false, at(10), at(30)), LeaseBreak::default());
        let broken = leases.break_for(true, at(11), at(40));
        assert_eq!((broken.until, leases.kind_of(file)), (Some(at(40)), c::F_UNLCK));
        assert!(leases.release(file) && leases.is_empty() && !leases.release(file));
    }
}
