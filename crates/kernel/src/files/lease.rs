//! Leases, `fcntl(2)` "Leases": the holder of a lease is sent a signal when another process opens or
//! truncates the file. That operation blocks until the lease is released or its break time has passed.

use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, ProcessKey, WaitQueueId};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{Node, ROOT};
use belljar_objects::leases::{LeaseBreak, Leases};

/// Default of `fs.lease-break-time` in seconds.
const BREAK_SECONDS: u64 = 45;

impl Files {
    /// `F_GETLEASE`.
    pub(crate) fn lease_of(&mut self, file: FileKey) -> i32 {
        let inode = self.open(file).kind.inode();
        let held = inode.and_then(|inode| self.leases.get(&inode));
        held.map_or(c::F_UNLCK, |leases| leases.kind_of(file))
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
        // The file must not be open in a mode that conflicts with the lease.
        let others = self.files.open.iter().any(|(other, open)| {
            let same = matches!(open.kind, FileKind::Regular(of) if of == inode);
            same && if exclusive { other != file.0 } else { open.is_writable() }
        });
        if others {
            return Err(Errno::EAGAIN);
        }
        let present = self.files.leases.get(&inode);
        if present.is_some_and(|leases| leases.refuses(file, exclusive)) {
            return Err(Errno::EAGAIN);
        }
        if present.is_none() {
            self.files.leases.insert(inode, Leases::new(self.waits.create()));
        }
        let Some(leases) = self.files.leases.get_mut(&inode) else { return Ok(()) };
        leases.set(file, exclusive);
        let queue = leases.queue;
        self.notify(queue);
        self.own_if_unowned(process, file)?;
        self.files.note_descriptor(file, fd);
        Ok(())
    }

    /// Releases the lease held through an open file, for instance when that is closed; false if there is
    /// none.
    pub(super) fn drop_lease(&mut self, file: FileKey) -> bool {
        if self.files.leases.is_empty() {
            return false;
        }
        let Some(inode) = self.files.open(file).kind.inode() else { return false };
        let Some(leases) = self.files.leases.get_mut(&inode) else { return false };
        let (queue, dropped) = (leases.queue, leases.release(file));
        if dropped {
            self.lease_changed(inode, queue);
        }
        dropped
    }
    fn lease_changed(&mut self, inode: InodeKey, queue: WaitQueueId) {
        self.notify(queue);
        let unused = self.files.leases.get(&inode).is_some_and(|leases| leases.is_empty());
        if unused && self.waits.is_empty(queue) {
            self.files.leases.remove(&inode);
            self.waits.destroy(queue);
        }
    }

    /// Breaks conflicting leases before a file is opened for reading or, with `writes`, opened for writing or
    /// truncated: the holders are sent their signal. Returns the wait queue and the deadline while a
    /// conflicting lease remains, or `EAGAIN` if the caller does not wait.
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
        let LeaseBreak { signalled, until } = leases.break_for(writes, now, end);
        for file in signalled {
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

    /// Current value of a numeric setting of `/proc`, by its path below `/proc`.
    pub(crate) fn setting(&mut self, path: &str) -> Option<u64> {
        let mut at = self.lookup(ROOT, b"proc").ok()??;
        for name in path.split('/') {
            at = self.lookup(at, name.as_bytes()).ok()??;
        }
        match self.files.inode(at).node {
            Node::Virtual(_) => {
                std::str::from_utf8(&self.virtual_content(at).ok()?).ok()?.trim().parse().ok()
            }
            _ => None,
        }
    }
}
