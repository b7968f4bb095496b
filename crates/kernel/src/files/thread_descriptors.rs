//! Threads with their own descriptors: `clone(2)` without `CLONE_FILES`, `unshare(2)`, `close_range(2)`.
//!
//! A process has one descriptor table while its threads share it, as in nearly all programs. Once a thread
//! has unshared its table, `fds` of the process is set before each call to the table of the calling thread.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use belljar_linux_abi::Errno;

/// True if another thread of the process shares the thread's descriptors.
fn shares_among_threads(host: &Host, thread: ThreadKey) -> bool {
    let process = host.threads[thread.0].process;
    let shares = |other: &ThreadKey| *other != thread && host.threads[other.0].own_fds.is_none();
    host.threads[thread.0].own_fds.is_none() && host.processes[process.0].threads.iter().any(shares)
}

impl Host {
    /// Makes the descriptor table of a thread the current one of its process for a call.
    #[inline]
    pub(crate) fn use_descriptors_of(&mut self, thread: ThreadKey, process: ProcessKey) {
        if let Some(shared) = self.processes[process.0].shared_fds {
            let own = self.threads[thread.0].own_fds;
            self.process(process).fds = Some(own.unwrap_or(shared));
        }
    }

    /// Gives a new thread the descriptors of its creator: a copy or, with `shares`, the same table.
    pub(crate) fn give_descriptors(&mut self, maker: ThreadKey, thread: ThreadKey, shares: bool) {
        let process = self.threads[maker.0].process;
        let Some(table) = self.processes[process.0].fds else { return };
        let own = match (shares, self.threads[maker.0].own_fds) {
            (true, None) => return,
            (true, Some(own)) => {
                self.files.tables[own.0].users += 1;
                own
            }
            (false, _) => self.files.copy_fd_table(table),
        };
        self.process(process).shared_fds.get_or_insert(table);
        self.thread(thread).own_fds = Some(own);
    }

    /// `EMFILE` if the table that [`unshare_fd_table`](Self::unshare_fd_table) would create of the
    /// descriptors before `end` exceeds `fs.nr_open`.
    pub(crate) fn check_own_fd_table(&self, thread: ThreadKey, end: usize) -> Result<(), Errno> {
        let process = self.threads[thread.0].process;
        match self.processes[process.0].fds {
            Some(table) if shares_among_threads(self, thread) || self.files.tables[table.0].users > 1 => {
                self.files.check_fd_table(table, end)
            }
            _ => Ok(()),
        }
    }
    /// `unshare(CLONE_FILES)`: gives a thread a descriptor table that no other thread or process shares.
    pub(crate) fn unshare_fd_table(&mut self, thread: ThreadKey) {
        let process = self.threads[thread.0].process;
        let Some(table) = self.processes[process.0].fds else { return };
        if shares_among_threads(self, thread) {
            self.give_descriptors_apart(thread);
        } else if self.files.tables[table.0].users > 1 {
            let copy = self.files.copy_fd_table(table);
            match self.threads[thread.0].own_fds {
                Some(_) => self.thread(thread).own_fds = Some(copy),
                None if self.processes[process.0].shared_fds.is_some() => {
                    self.process(process).shared_fds = Some(copy);
                }
                None => {}
            }
            self.process(process).fds = Some(copy);
            self.release_fd_table(table);
        }
    }
    fn give_descriptors_apart(&mut self, thread: ThreadKey) {
        self.give_descriptors(thread, thread, false);
        let process = self.threads[thread.0].process;
        self.use_descriptors_of(thread, process);
    }

    /// Releases the own descriptor table of a thread that has exited.
    pub(crate) fn drop_own_descriptors(&mut self, thread: ThreadKey) {
        let process = self.threads[thread.0].process;
        let Some(own) = self.thread(thread).own_fds.take() else { return };
        let target = self.process(process);
        target.fds = target.shared_fds.or(target.fds);
        self.release_fd_table(own);
    }

    /// Makes the descriptors of a thread those of its process at `execve(2)`, when it is the only thread
    /// left.
    pub(crate) fn settle_descriptors(&mut self, thread: ThreadKey) {
        let process = self.threads[thread.0].process;
        let own = self.thread(thread).own_fds.take();
        let Some(shared) = self.process(process).shared_fds.take() else { return };
        self.process(process).fds = Some(own.unwrap_or(shared));
        if own.is_some() {
            self.release_fd_table(shared);
        }
    }
}
