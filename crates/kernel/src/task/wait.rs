//! Waiting for children, `wait(2)`.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::process::WaitStatus;
use belljar_linux_abi::{Errno, c};
use belljar_tasks::children::{ChildEvent, Selector, WaitFlags};

impl Host {
    /// Reports the first event of a child of `parent`. `None` if no selected child has an event yet; `ECHILD`
    /// if there is no child to wait for.
    pub(crate) fn collect_child(
        &mut self,
        parent: ProcessKey,
        which: Selector,
        flags: WaitFlags,
    ) -> Result<Option<ChildEvent>, Errno> {
        let (mut eligible, event) = self.collect_tracee(parent, which, flags);
        if event.is_some() {
            return Ok(event);
        }
        for child in self.processes[parent.0].children.clone() {
            if !self.processes.is_eligible(child, which, flags) {
                continue;
            }
            // A child that has ended will not stop or continue any more.
            eligible |= flags.contains(WaitFlags::EXITED) || self.processes[child.0].ended.is_none();
            if let Some(event) = self.child_event(child, flags) {
                return Ok(Some(event));
            }
        }
        if eligible { Ok(None) } else { Err(Errno::ECHILD) }
    }

    fn child_event(&mut self, key: ProcessKey, flags: WaitFlags) -> Option<ChildEvent> {
        let keep = flags.contains(WaitFlags::NOWAIT);
        let calls =
            self.threads.calls_of(&self.processes, key) + self.processes[key.0].attributes.children_calls;
        let job = self.processes[key.0].signals.job;
        if job.stop_unreported || job.continue_unreported {
            self.processes.note_resident(&self.spaces, key);
        }
        let attributes = &self.processes[key.0].attributes;
        let resident = attributes.peak_resident.max(attributes.children_resident);
        let dumped = self.processes[key.0].dumps_core();
        let child = self.process(key);
        let event = |code, status| {
            Some(ChildEvent { pid: child.pid, uid: child.credentials.ruid, code, status, calls, resident })
        };
        if let Some(status) = child.ended {
            if !flags.contains(WaitFlags::EXITED) {
                return None;
            }
            let event = match status {
                WaitStatus::Exited(code) => event(c::CLD_EXITED, i32::from(code)),
                WaitStatus::Signaled(signal) if dumped => event(c::CLD_DUMPED, signal),
                WaitStatus::Signaled(signal) => event(c::CLD_KILLED, signal),
            };
            if !keep {
                // Resource usage of a child is added to its parent's only when the parent waits for it.
                if let Some(parent) = self.processes[key.0].parent {
                    let of_parent = &mut self.processes[parent.0].attributes;
                    of_parent.children_calls += calls;
                    of_parent.children_resident = of_parent.children_resident.max(resident);
                }
                self.reap(key);
            }
            return event;
        }
        // A tracee's own stops are reported instead of its process's.
        if self.processes[key.0].threads.iter().any(|t| self.threads[t.0].trace.is_some()) {
            return None;
        }
        let child = self.process(key);
        let event = |code, status| {
            Some(ChildEvent { pid: child.pid, uid: child.credentials.ruid, code, status, calls, resident })
        };
        let job = child.signals.job;
        if let Some(signal) =
            job.stopped_by.filter(|_| job.stop_unreported && flags.contains(WaitFlags::STOPPED))
        {
            let event = event(c::CLD_STOPPED, signal);
            child.signals.job.stop_unreported = keep;
            return event;
        }
        if job.continue_unreported && flags.contains(WaitFlags::CONTINUED) {
            let event = event(c::CLD_CONTINUED, c::SIGCONT);
            child.signals.job.continue_unreported = keep;
            return event;
        }
        None
    }
}
