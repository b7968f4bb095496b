//! Record locks and whole-file locks, `fcntl(2)` and `flock(2)`, and file seals.

use crate::files::Files;
use crate::host::Host;
use crate::ids::{FdTableKey, FileKey, InodeKey};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FilePlace;
use belljar_objects::locks::{F_SEAL_EXEC, FileLocks, LockOwner};
use belljar_objects::space::{AddressSpace, mappings_of};
use belljar_tasks::waits::WaitTable;
use slab::Slab;

impl Files {
    fn lock_slot(&mut self, place: FilePlace) -> Option<&mut Option<Box<FileLocks>>> {
        match place {
            FilePlace::Inode(inode) => Some(&mut self.inode(inode).locks),
            place => self.unnamed.get_mut(&place).map(|unnamed| &mut unnamed.locks),
        }
    }

    /// Locks on a file; the table is created if there is none.
    pub(crate) fn locks_of(&mut self, waits: &mut WaitTable, place: FilePlace) -> &mut FileLocks {
        if self.lock_slot(place).is_none_or(|slot| slot.is_none()) {
            let locks = Some(Box::new(FileLocks::new(waits.create())));
            match place {
                FilePlace::Inode(inode) => self.inode(inode).locks = locks,
                place => self.unnamed.entry(place).or_default().locks = locks,
            }
        }
        self.lock_slot(place).and_then(Option::as_mut).expect("made above")
    }

    /// Frees the lock table when no lock is held or waited for.
    pub(crate) fn forget_locks_if_unused(&mut self, waits: &mut WaitTable, place: FilePlace) {
        let Some(locks) = self.lock_slot(place).and_then(Option::as_mut) else { return };
        let (queue, empty) = (locks.queue, locks.is_empty());
        if empty && waits.is_empty(queue) {
            waits.destroy(queue);
            self.lock_slot(place).map(Option::take);
        }
    }

    /// `F_ADD_SEALS`. `EPERM` with `F_SEAL_SEAL`, `EBUSY` if the file has a shared mapping that may be
    /// written.
    pub(crate) fn add_seals(
        &mut self,
        spaces: &Slab<AddressSpace>,
        inode: InodeKey,
        mut seals: i32,
    ) -> Result<(), Errno> {
        let content = c::F_SEAL_SHRINK | c::F_SEAL_GROW | c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE;
        if seals & !(content | c::F_SEAL_SEAL | F_SEAL_EXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        self.check_seals(inode, c::F_SEAL_SEAL)?;
        // `F_SEAL_EXEC` on an executable file seals its content too.
        if seals & F_SEAL_EXEC != 0 && self.inode(inode).meta.mode & 0o111 != 0 {
            seals |= content;
        }
        let identity = self.inode(inode).identity();
        let already = self.inode(inode).seals()? & c::F_SEAL_WRITE != 0;
        if seals & c::F_SEAL_WRITE != 0
            && !already
            && mappings_of(spaces, identity).any(|vma| vma.shared && vma.may_write)
        {
            return Err(Errno::EBUSY);
        }
        if let Some(memfd) = self.inode(inode).content_mut().and_then(|content| content.memfd.as_mut()) {
            memfd.seals |= seals;
        }
        Ok(())
    }
}

impl Host {
    /// Releases a process's record locks on a file when it closes any descriptor of that file.
    pub(crate) fn drop_process_locks(&mut self, table: FdTableKey, place: FilePlace) {
        self.drop_locks(place, |locks| {
            locks.clear_of(|owner| matches!(owner, LockOwner::Process(t, _) if t == table))
        });
    }
    /// Releases the locks that belong to an open file description, which is being closed.
    pub(crate) fn drop_file_locks(&mut self, file: FileKey, place: FilePlace) {
        self.drop_locks(place, |locks| {
            let cleared = locks.clear_of(|owner| owner == LockOwner::File(file));
            locks.unlock_whole(file) || cleared
        });
    }
    fn drop_locks(&mut self, place: FilePlace, drop: impl FnOnce(&mut FileLocks) -> bool) {
        let Some(locks) = self.files.lock_slot(place).and_then(Option::as_mut) else { return };
        let changed = drop(locks);
        let queue = locks.queue;
        if changed {
            self.notify(queue);
        }
        self.files.forget_locks_if_unused(&mut self.waits, place);
    }
}
