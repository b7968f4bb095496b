//! System V shared memory, semaphores and message queues, `sysvipc(7)`. Access to an object is checked
//! against its mode, like that of a file.

mod msg;
mod sem;
mod shm;

pub(crate) use shm::{AttachRequest, attachments};

use crate::host::Host;

/// Access rights requested by an operation, as bits of an object's mode.
pub(crate) const READ: u32 = 0o444;
pub(crate) const WRITE: u32 = 0o222;
pub(crate) const EXEC: u32 = 0o111;

impl crate::call::Call<'_> {
    /// IPC namespace of the caller.
    pub(crate) fn ipc_namespace(&self) -> u32 {
        self.host.processes[self.process.0].attributes.namespaces.ipc
    }
}

impl Host {
    /// Removes all objects: the host has lost its memory.
    pub(crate) fn lose_ipc(&mut self) {
        let lost = std::mem::take(&mut self.ipc);
        for (_, segment) in lost.segments.iter() {
            self.machine.close(segment.native);
        }
        let queues = lost.queues.iter().map(|(_, queue)| queue.changed);
        for changed in queues.chain(lost.semaphores.iter().map(|(_, set)| set.changed)) {
            self.waits.destroy(changed);
        }
        let unused = self.files.mqueues.drain().map(|queue| queue.queue).collect::<Vec<_>>();
        for queue in unused {
            self.waits.destroy(queue);
        }
    }
    /// Time of day in seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        (self.net.clock.realtime_ns() / 1_000_000_000) as i64
    }
}
