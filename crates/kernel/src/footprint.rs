//! Memory that a host reads when it runs next: see [`Footprint`]. The list covers the most frequent case, a
//! packet for a program that waits for it and responds.

use crate::host::Host;
use crate::thread::{Thread, ThreadState};
use belljar_base::Footprint;
use belljar_objects::file_kind::FileKind;

/// Maximum numbers of threads, and of descriptors of each, that are listed: further ones are rarely all used
/// at once.
const THREADS: usize = 2;
const DESCRIPTORS: usize = 2;
/// Descriptor table entries in a cache line.
const ENTRIES: usize = 8;

impl Host {
    /// Lists the memory that the host's next run reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.windows);
        footprint.object(&self.config.attention);
        footprint.object(&*self.config.attention);
        self.timers.footprint(footprint);
        footprint.object(&self.machine);
        self.net.footprint(footprint);
        footprint.object(&self.processes);
        footprint.object(&self.threads);
        footprint.object(&self.waits);
        self.scheduler.footprint(footprint);
        for (_, thread) in self.threads.iter().take(THREADS) {
            self.thread_footprint(thread, footprint);
        }
        footprint.object(&self.looked_up);
        footprint.start(self.looked_up.borrow().as_ptr(), 1);
        footprint.object(&self.call_counts);
        footprint.object(&self.files.tables);
        footprint.object(&self.files.open);
        footprint.object(&self.files.natives);
        footprint.object(&self.urings.instances);
        footprint.object(&self.urings.work);
        footprint.object(&self.debuggers);
        footprint.object(&self.reports);
        self.models.footprint(footprint);
        self.strace.footprint(footprint);
        footprint.object(&self.config.processes);
        footprint.object(&self.config.interrupt);
        footprint.object(&self.config.watched);
    }

    fn thread_footprint(&self, thread: &Thread, footprint: &mut Footprint) {
        footprint.object(thread);
        footprint.start(thread.asked.as_ptr(), 1);
        if let ThreadState::Blocked(blocked) = &thread.state {
            for queue in &blocked.on {
                self.waits.footprint(*queue, footprint);
            }
        }
        let Some(process) = self.processes.get(thread.process.0) else { return };
        footprint.object(&process.fds);
        footprint.object(&process.mm);
        footprint.object(&process.threads);
        footprint.object(&process.ended);
        footprint.object(&process.watched);
        footprint.object(&process.signals.timers.count_processor_time);
        if let Some(space) = process.mm.and_then(|mm| self.spaces.get(mm.0)) {
            space.footprint(footprint);
        }
        self.machine.footprint(thread.context, footprint);
        let Some(table) = process.fds.and_then(|table| self.files.tables.get(table.0)) else { return };
        footprint.object(table);
        footprint.start(table.entries.as_ptr(), table.entries.len().min(ENTRIES));
        for entry in table.entries.iter().flatten().rev().take(DESCRIPTORS) {
            let open = &self.files.open[entry.file.0];
            footprint.object(open);
            if let FileKind::Socket(socket) = open.kind {
                self.stack_of(socket).sockets[socket.0].footprint(footprint);
            }
        }
    }
}
