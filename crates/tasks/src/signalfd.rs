//! Signal descriptors, signalfd(2).

use crate::process::Processes;
use crate::threads::Threads;
use belljar_linux_abi::signal::SigSet;
use belljar_netstack::readiness::EPOLLIN;
use belljar_objects::ids::{ProcessKey, WaitQueueId};

/// A view of the pending signals of the process that reads it.
#[derive(Debug)]
pub struct SignalFd {
    /// Signals that it shows.
    pub mask: SigSet,
    /// Process that created it or read it last, whose readiness it reports, and the pid in case the key was
    /// reused.
    owner: (ProcessKey, i32),
}

impl SignalFd {
    /// Creates a view of the pending signals of `process`.
    pub fn new(processes: &Processes, process: ProcessKey, mask: SigSet) -> SignalFd {
        SignalFd { mask, owner: (process, processes[process.0].pid) }
    }
    fn owner(&self, processes: &Processes) -> Option<ProcessKey> {
        let (process, pid) = self.owner;
        processes.get(process.0).filter(|p| p.pid == pid).map(|_| process)
    }
    /// Wait queue of the owner, notified whenever a signal is sent to it; `None` if the owner has exited.
    pub fn queue(&self, processes: &Processes) -> Option<WaitQueueId> {
        self.owner(processes).map(|process| processes[process.0].signals.arrived)
    }
    /// Readiness: `EPOLLIN` if one of its signals is pending for its owner or one of the owner's threads.
    pub fn readiness(&self, processes: &Processes, threads: &Threads) -> u32 {
        let Some(process) = self.owner(processes) else { return 0 };
        let process = &processes[process.0];
        let own = process.threads.iter().filter_map(|thread| threads.get(thread.0));
        let pending = own.fold(process.signals.pending.set, |set, thread| set | thread.signals.pending.set);
        if pending & self.mask != 0 { EPOLLIN } else { 0 }
    }
}
