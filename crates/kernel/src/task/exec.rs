//! Changes of a process by `execve(2)` before its new image is loaded.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::signal::UNBLOCKABLE;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigStack;

impl Host {
    /// Prepares the process of `thread` for a new image; the old image is lost from here on. Other threads
    /// end and `thread` becomes the leader. Caught signals revert to their defaults; timers of
    /// `timer_create`, the alternate stack and the word of `set_tid_address` are dropped. The descriptor
    /// table becomes the process's own and its close-on-exec descriptors are closed. A `vfork` parent
    /// continues. The caller then replaces the memory (releasing its use of the old one), the context's
    /// registers and the names.
    pub(crate) fn prepare_exec(&mut self, process: ProcessKey, thread: ThreadKey) {
        for other in self.processes[process.0].threads.clone() {
            if other != thread {
                self.trace_ended(other, crate::process::WaitStatus::Exited(0));
                self.end_thread(other);
            }
        }
        self.threads.become_leader(&mut self.processes, thread);
        self.release_thread_words(thread);
        self.delete_posix_timers(process);
        self.cancel_requests_of(process, true);
        self.forget_registered_rings(self.threads[thread.0].tid);

        if let Some(rings) = &mut self.threads[thread.0].keyrings {
            self.keys.executed(rings);
        }
        let target = self.process(process);
        target.has_executed = true;
        target.exit_signal = c::SIGCHLD;
        target.attributes.barriers = 0;
        target.signals.reset_handlers();
        let signals = &mut self.thread(thread).signals;
        signals.alternate = SigStack::default();
        signals.blocked &= !UNBLOCKABLE;
        signals.last_fault = (0, 0, 0);

        self.settle_descriptors(thread);
        self.unshare_fd_table(thread);
        self.close_on_exec(thread);
        self.wake_vfork_parent(process);
    }

    fn close_on_exec(&mut self, thread: ThreadKey) {
        let process = self.threads[thread.0].process;
        let Some(table) = self.processes[process.0].fds else { return };
        let mut closed = Vec::new();
        for slot in &mut self.files.tables[table.0].entries {
            if slot.is_some_and(|entry| entry.close_on_exec) {
                closed.extend(slot.take());
            }
        }
        for entry in closed {
            self.release_file(entry.file);
        }
    }
}
