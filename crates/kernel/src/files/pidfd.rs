//! Descriptors of processes, `pidfd_open(2)`.

use super::FileKind;
use super::readiness::{EPOLLHUP, READABLE};
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};

/// A process descriptor. Process numbers are never given twice, so the number is enough even when the process has gone.
#[derive(Debug)]
pub struct PidFd {
    /// The process.
    pub pid: i32,
    /// Notified when it ends.
    pub queue: WaitQueueId,
}

impl Files {
    /// The number of the process behind an open file. `EBADF` if it is no process descriptor.
    pub(crate) fn pidfd_pid(&self, file: FileKey) -> Result<i32, Errno> {
        match self.open[file.0].kind {
            FileKind::PidFd(n) => Ok(self.pidfds[n].pid),
            _ => Err(Errno::EBADF),
        }
    }
}

impl Host {
    /// A new descriptor of a process as an open file.
    pub(crate) fn create_pidfd(&mut self, process: ProcessKey, flags: i32) -> FileKey {
        let queue = self.waits.create();
        let pid = self.processes[process.0].pid;
        let n = self.files.pidfds.insert(PidFd { pid, queue });
        self.files.open_file(FileKind::PidFd(n), c::O_RDWR | flags)
    }

    /// A process that has ended makes its descriptors readable; one that has been waited for has
    /// hung up.
    pub(super) fn pidfd_readiness(&self, n: usize) -> u32 {
        match self.pids.get(&self.files.pidfds[n].pid) {
            Some(process) if self.processes[process.0].ended.is_none() => 0,
            Some(_) => READABLE,
            None => READABLE | EPOLLHUP,
        }
    }

    /// Tells those who watch descriptors of a process that it has ended or gone.
    pub(crate) fn notify_pidfds(&mut self, pid: i32) {
        let queues: Vec<WaitQueueId> =
            self.files.pidfds.iter().filter(|(_, fd)| fd.pid == pid).map(|(_, fd)| fd.queue).collect();
        for queue in queues {
            self.notify_events(queue, READABLE | EPOLLHUP);
        }
    }

    pub(super) fn close_pidfd(&mut self, n: usize) {
        let gone = self.files.pidfds.remove(n);
        self.waits.destroy(gone.queue);
    }
}
