//! Process descriptors, `pidfd_open(2)`.

use crate::process::{Processes, WaitStatus};
use belljar_netstack::readiness::{EPOLLHUP, READABLE};
use belljar_objects::ids::WaitQueueId;

/// A process descriptor. Process ids are never reused, so the id identifies the process even after it has
/// exited.
#[derive(Debug)]
pub struct PidFd {
    /// Process id.
    pub pid: i32,
    /// PID namespace in which the descriptor was created.
    pub namespace: u32,
    /// Wait status, once the process has exited and been waited for.
    pub status: Option<WaitStatus>,
    /// Wait queue, notified when the process exits.
    pub queue: WaitQueueId,
}

impl PidFd {
    /// Readiness: readable once the process has exited, and `EPOLLHUP` too once it has been waited for.
    pub fn readiness(&self, processes: &Processes) -> u32 {
        match processes.by_pid.get(&self.pid) {
            Some(process) if processes[process.0].ended.is_none() => 0,
            Some(_) => READABLE,
            None => READABLE | EPOLLHUP,
        }
    }
}
