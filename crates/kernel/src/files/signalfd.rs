//! Signal descriptors, signalfd(2).

use super::FileKind;
use super::readiness::EPOLLIN;
use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use crate::outcome::{Block, SysResult, done};
use crate::process::Processes;
use belljar_linux_abi::poll::SignalfdSiginfo;
use belljar_linux_abi::signal::SigSet;
use belljar_linux_abi::{Errno, c};
use zerocopy::IntoBytes;

/// A view of the pending signals of the process that reads it.
#[derive(Debug)]
pub struct SignalFd {
    /// Signals that it shows.
    pub mask: SigSet,
    /// Process that created it or read it last, whose readiness it reports, and the pid in case the key was
    /// reused.
    owner: (ProcessKey, i32),
}

impl Files {
    /// Index of the signal descriptor of an open file; `EINVAL` if the file is none.
    pub(crate) fn signalfd_of(&self, file: FileKey) -> Result<usize, Errno> {
        match self.open[file.0].kind {
            FileKind::SignalFd(n) => Ok(n),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Creates a signal descriptor of `process` and its open file.
    pub(crate) fn create_signalfd(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        mask: SigSet,
        flags: i32,
    ) -> FileKey {
        let owner = (process, processes[process.0].pid);
        let n = self.signalfds.insert(SignalFd { mask, owner });
        self.open_file(FileKind::SignalFd(n), c::O_RDWR | flags)
    }

    fn signalfd_owner(&self, processes: &Processes, n: usize) -> Option<ProcessKey> {
        let (process, pid) = self.signalfds[n].owner;
        processes.get(process.0).filter(|p| p.pid == pid).map(|_| process)
    }

    /// Wait queue of the owner, notified whenever a signal is sent to it; `None` if the owner has exited.
    pub(super) fn signalfd_queue(&self, processes: &Processes, n: usize) -> Option<WaitQueueId> {
        self.signalfd_owner(processes, n).map(|process| processes[process.0].signals.arrived)
    }
}

impl Host {
    /// Changes the mask and the owner of a signal descriptor.
    pub(crate) fn set_signalfd(&mut self, n: usize, process: ProcessKey, mask: SigSet) {
        let pid = self.processes[process.0].pid;
        self.files.signalfds[n] = SignalFd { mask, owner: (process, pid) };
        let arrived = self.processes[process.0].signals.arrived;
        self.notify_events(arrived, EPOLLIN);
    }
    /// Readiness of a signalfd: `EPOLLIN` if one of its signals is pending for its owner or one of the owner's threads.
    pub(super) fn signalfd_readiness(&self, n: usize) -> u32 {
        let Some(process) = self.files.signalfd_owner(&self.processes, n) else { return 0 };
        let process = &self.processes[process.0];
        let threads = process.threads.iter().filter_map(|t| self.threads.get(t.0));
        let pending = threads.fold(process.signals.pending.set, |set, t| set | t.signals.pending.set);
        if pending & self.files.signalfds[n].mask != 0 { EPOLLIN } else { 0 }
    }
}

impl Call<'_> {
    /// `read(2)`: as many `struct signalfd_siginfo` as are pending and fit; blocks for the first. `EINVAL` if
    /// not even one fits.
    pub(crate) fn read_signalfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let room = total_len(buffers) as usize / size_of::<SignalfdSiginfo>();
        if room == 0 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let pid = self.host.processes[self.process.0].pid;
        let signalfd = &mut self.host.files.signalfds[n];
        signalfd.owner = (self.process, pid);
        let mask = signalfd.mask;
        let mut data = Vec::new();
        for _ in 0..room {
            let Some(info) = self.host.threads.take_signal(&mut self.host.processes, self.thread, mask)
            else {
                break;
            };
            data.extend_from_slice(SignalfdSiginfo::from(&info).as_bytes());
        }
        if data.is_empty() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            return Block::on(self.host.processes[self.process.0].signals.arrived).into();
        }
        self.scatter(buffers, &data)?;
        done(data.len() as u64)
    }
}
