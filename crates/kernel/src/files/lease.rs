//! Leases, `fcntl(2)` "Leases": whoever holds one on a file is told by a signal when somebody else opens or truncates it, and
//! has a while to give it up before they go on.

use super::FileKind;
use super::tree::{Node, ROOT};
use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, ProcessKey, WaitQueueId};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};

/// `fs.lease-break-time` in seconds, unless it is written.
const BREAK_SECONDS: u64 = 45;

/// Leases on a file.
#[derive(Debug)]
pub struct Leases {
    /// Notified when one is given up or made less.
    queue: WaitQueueId,
    held: Vec<Lease>,
}

#[derive(Debug)]
struct Lease {
    file: FileKey,
    /// True if it keeps readers away too (`F_WRLCK`).
    exclusive: bool,
    /// When it ends at the latest, once somebody waits, and true if nothing of it may stay.
    broken: Option<(SimTime, bool)>,
}

impl Files {
    /// `F_GETLEASE`.
    pub(crate) fn lease_of(&mut self, file: FileKey) -> i32 {
        let inode = self.open(file).kind.inode();
        let held = inode.and_then(|inode| self.leases.get(&inode));
        match held.and_then(|leases| leases.held.iter().find(|lease| lease.file == file)) {
            Some(Lease { broken: Some((_, true)), .. }) | None => c::F_UNLCK,
            Some(Lease { broken: Some((_, false)), .. } | Lease { exclusive: false, .. }) => c::F_RDLCK,
            Some(_) => c::F_WRLCK,
        }
    }
}

impl Host {
    /// `F_SETLEASE`.
    pub(crate) fn set_lease(
        &mut self,
        process: ProcessKey,
        fd: i32,
        file: FileKey,
        kind: i32,
    ) -> Result<(), Errno> {
        let exclusive = match kind {
            c::F_UNLCK => return if self.drop_lease(file) { Ok(()) } else { Err(Errno::EAGAIN) },
            c::F_RDLCK => false,
            c::F_WRLCK => true,
            _ => return Err(Errno::EINVAL),
        };
        let FileKind::Regular(inode) = self.files.open(file).kind else { return Err(Errno::EINVAL) };
        let owner = self.files.owner_of(&self.processes, inode).0;
        if self.processes[process.0].credentials.fsuid != owner
            && !self.processes.is_capable(process, capability::LEASE)
        {
            return Err(Errno::EACCES);
        }
        // Nobody else may have it open in a way that the lease would have to be broken for.
        let others = self.files.open.iter().any(|(other, open)| {
            let same = matches!(open.kind, FileKind::Regular(of) if of == inode);
            same && if exclusive { other != file.0 } else { open.is_writable() }
        });
        if others {
            return Err(Errno::EAGAIN);
        }
        let present = self.files.leases.get(&inode);
        if present.is_some_and(|leases| {
            leases
                .held
                .iter()
                .any(|lease| lease.file == file && lease.broken.is_some_and(|(_, all)| all || exclusive))
        }) {
            return Err(Errno::EAGAIN);
        }
        if present.is_none() {
            let leases = Leases { queue: self.waits.create(), held: Vec::new() };
            self.files.leases.insert(inode, leases);
        }
        let Some(leases) = self.files.leases.get_mut(&inode) else { return Ok(()) };
        leases.held.retain(|lease| lease.file != file);
        leases.held.push(Lease { file, exclusive, broken: None });
        let queue = leases.queue;
        self.notify(queue);
        self.own_if_unowned(process, file)?;
        self.files.note_descriptor(file, fd);
        Ok(())
    }

    /// Gives a lease up; false if there is none. A file that is closed gives up its own.
    pub(super) fn drop_lease(&mut self, file: FileKey) -> bool {
        if self.files.leases.is_empty() {
            return false;
        }
        let Some(inode) = self.files.open(file).kind.inode() else { return false };
        let Some(leases) = self.files.leases.get_mut(&inode) else { return false };
        let before = leases.held.len();
        leases.held.retain(|lease| lease.file != file);
        let (queue, dropped) = (leases.queue, leases.held.len() != before);
        if dropped {
            self.lease_changed(inode, queue);
        }
        dropped
    }
    fn lease_changed(&mut self, inode: InodeKey, queue: WaitQueueId) {
        self.notify(queue);
        let unused = self.files.leases.get(&inode).is_some_and(|leases| leases.held.is_empty());
        if unused && self.waits.is_empty(queue) {
            self.files.leases.remove(&inode);
            self.waits.destroy(queue);
        }
    }

    /// Somebody is about to open a file, or (`writes`) to write or cut it: holders of leases are told. The queue to wait in and
    /// until when, while any is in the way; `EAGAIN` for one who does not wait.
    pub(crate) fn break_leases(
        &mut self,
        inode: InodeKey,
        writes: bool,
        waits: bool,
    ) -> Result<Option<(WaitQueueId, SimTime)>, Errno> {
        let Some(leases) = self.files.leases.get(&inode) else { return Ok(None) };
        let now = self.net.clock.now();
        let queue = leases.queue;
        let seconds = self.setting("sys/fs/lease-break-time").unwrap_or(BREAK_SECONDS);
        let end = self.net.clock.after(SimDuration::from_secs(seconds));
        let Some(leases) = self.files.leases.get_mut(&inode) else { return Ok(None) };
        // Those whose time is over end, or are read leases from now on.
        leases.held.retain_mut(|lease| match lease.broken {
            Some((until, all)) if until <= now => {
                (lease.exclusive, lease.broken) = (false, None);
                !all
            }
            _ => true,
        });
        let mut told = Vec::new();
        let mut until = None;
        for lease in leases.held.iter_mut().filter(|lease| writes || lease.exclusive) {
            let (by, all) = lease.broken.unwrap_or((end, false));
            if lease.broken.is_none() {
                told.push(lease.file);
            }
            lease.broken = Some((by, all || writes));
            until = until.max(Some(by));
        }
        for file in told {
            self.tell_lease_holder(file);
        }
        match until {
            None => {
                self.lease_changed(inode, queue);
                Ok(None)
            }
            Some(_) if !waits => Err(Errno::EAGAIN),
            Some(until) => Ok(Some((queue, until))),
        }
    }

    /// The number that a setting of `/proc` has now.
    pub(crate) fn setting(&mut self, path: &str) -> Option<u64> {
        let mut at = self.lookup(ROOT, b"proc").ok()??;
        for name in path.split('/') {
            at = self.lookup(at, name.as_bytes()).ok()??;
        }
        match self.files.inode(at).node {
            Node::Virtual(_) => String::from_utf8(self.virtual_content(at).ok()?).ok()?.trim().parse().ok(),
            _ => None,
        }
    }
}
