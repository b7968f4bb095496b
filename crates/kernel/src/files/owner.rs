//! Signal-driven I/O, `fcntl(2)` "Managing signals": `O_ASYNC`, `F_SETOWN`, `F_SETSIG`.
//!
//! A file with `O_ASYNC` is a waiter in the wait queue of its object, like blocked calls and epoll items,
//! until the flag is cleared or the file closed. A change of its readiness then sends its owner a signal.

use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, ThreadKey};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_owner::{Band, FileOwner};
use belljar_tasks::waits::Waiter;

impl Files {
    /// Recipient and kind of an open file's I/O signals; the default if none were set.
    pub(crate) fn file_owner(&mut self, file: FileKey) -> FileOwner {
        self.open(file).owner.as_deref().copied().unwrap_or_default()
    }

    /// `F_SETSIG`.
    pub(crate) fn set_file_signal(&mut self, file: FileKey, signal: i32) {
        if signal != 0 || self.open(file).owner.is_some() {
            self.open(file).owner.get_or_insert_default().signal = signal;
        }
    }

    /// Sets the descriptor that a file's signals report.
    pub(super) fn note_descriptor(&mut self, file: FileKey, fd: i32) {
        self.open(file).owner.get_or_insert_default().fd = fd;
    }
}

impl Host {
    /// `F_SETOWN` and `F_SETOWN_EX`. `ESRCH` if the process, group or thread does not exist.
    pub(crate) fn set_file_owner(
        &mut self,
        by: ProcessKey,
        file: FileKey,
        id: i32,
        thread: bool,
    ) -> Result<(), Errno> {
        let known = match id {
            0 => true,
            i32::MIN => return Err(Errno::EINVAL),
            group if group < 0 => !self.processes.group_members(-group).is_empty(),
            tid if thread => self.threads.by_tid.contains_key(&tid),
            pid => self.processes.by_pid.contains_key(&pid) || self.threads.by_tid.contains_key(&pid),
        };
        if !known {
            return Err(Errno::ESRCH);
        }
        let who = &self.processes[by.0].credentials;
        let uids = (who.ruid, who.euid);
        let owner = self.files.open(file).owner.get_or_insert_default();
        (owner.id, owner.thread, owner.uids) = (id, thread, uids);
        if let Some(socket) = self.files.open(file).kind.socket() {
            self.socket(socket).options.owner = id;
        }
        Ok(())
    }

    /// Makes the process the owner of an open file that has none.
    pub(crate) fn own_if_unowned(&mut self, process: ProcessKey, file: FileKey) -> Result<(), Errno> {
        let pid = self.processes[process.0].pid;
        if self.files.file_owner(file).id == 0 {
            self.set_file_owner(process, file, pid, false)
        } else {
            Ok(())
        }
    }

    /// Sets or clears `O_ASYNC` through a descriptor. False if the file does not support it.
    pub(crate) fn set_file_async(&mut self, file: FileKey, fd: i32, on: bool) -> bool {
        let open = self.files.open(file);
        let (was, can) = (open.flags & c::O_ASYNC != 0, open.kind.can_signal());
        open.flags = if on { open.flags | c::O_ASYNC } else { open.flags & !c::O_ASYNC };
        if !can || on == was {
            return can;
        }
        if on {
            self.files.open(file).owner.get_or_insert_default().fd = fd;
        }
        if let Some(queue) = self.wait_queue(file) {
            match on {
                true => self.waits.enter(queue, Waiter::Owner(file)),
                false => self.waits.leave(queue, Waiter::Owner(file)),
            }
        }
        true
    }

    /// Signals the owner of a file that its lease is being broken.
    pub(super) fn tell_lease_holder(&mut self, file: FileKey) {
        let owner = self.files.file_owner(file);
        self.signal_owner(&owner, Band::MESSAGE);
    }

    /// Signals the owner of an open directory about an event there; `fd` is the descriptor through which the
    /// notification was requested.
    pub(super) fn tell_directory_owner(&mut self, file: FileKey, fd: i32) {
        let owner = self.files.file_owner(file);
        self.signal_owner(&FileOwner { fd, ..owner }, Band::MESSAGE);
    }

    /// Signals the owner of a file with `O_ASYNC` about `events`, if they change its readiness.
    pub(crate) fn tell_owner(&mut self, file: FileKey, events: u32) {
        let owner = self.files.file_owner(file);
        let readiness = || self.readiness(file);
        let band = Band::of(&self.files.open[file.0].kind, events, readiness);
        if let Some(band) = band.filter(|_| owner.id != 0) {
            self.signal_owner(&owner, band);
        }
    }
    fn signal_owner(&mut self, owner: &FileOwner, band: Band) {
        let info = owner.info(band);
        if owner.thread {
            if let Some(thread) = self.threads.by_tid.get(&owner.id).copied() {
                self.tell_thread(thread, owner, info);
            }
            return;
        }
        let targets = match owner.id {
            group if group < 0 => self.processes.group_members(group.wrapping_neg()),
            pid => self.processes.by_pid.get(&pid).copied().into_iter().collect(),
        };
        for target in targets {
            if owner.may_signal(&self.processes[target.0].credentials) {
                self.send_signal(target, info);
            }
        }
    }
    fn tell_thread(&mut self, thread: ThreadKey, owner: &FileOwner, info: SigInfo) {
        let process = self.threads[thread.0].process;
        if owner.may_signal(&self.processes[process.0].credentials) {
            self.send_signal_to_thread(thread, info);
        }
    }
}
