//! Processes with a copy of their parent's memory, `fork(2)`.

use super::CloneRequest;
use crate::host::Host;
use crate::ids::{MmKey, ThreadKey};
use crate::memory;
use belljar_linux_abi::{Errno, c};
use belljar_objects::space::{Marks, VmaKind};

impl Host {
    /// Creates a child with a copy of the caller's memory at the same addresses, and with a copy of the
    /// calling thread only.
    pub(super) fn fork_process(
        &mut self,
        parent: ThreadKey,
        request: &CloneRequest,
    ) -> Result<ThreadKey, Errno> {
        let (process, context) = (self.threads[parent.0].process, self.threads[parent.0].context);
        let table = self.processes[process.0].fds.ok_or(Errno::ESRCH)?;
        let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = self.fork_mm(mm)?;
        self.drop_inherited_breakpoints(process, mm);
        let fds = self.files.fd_table_for_child(table, request);
        let child = self.create_child(process, mm, fds, request.exit_signal);
        let context = self.machine.copy_context(context, self.spaces[mm.0].space);
        Ok(self.create_thread(child, context))
    }

    /// Copies an address space within its slot, so that addresses stay the same.
    fn fork_mm(&mut self, mm: MmKey) -> Result<MmKey, Errno> {
        let forked = self.machine.fork_space(self.spaces[mm.0].space);
        let space = forked.map_err(|errno| {
            self.warn(format!(
                "fork: the simulator could not start another native process ({errno}); see `ulimit -u` (processes) and \
                 `ulimit -n` (descriptors, of which each far program takes one)"
            ));
            // `EAGAIN` is the error of fork(2) for too many processes.
            Errno::EAGAIN
        })?;
        let mut copy = self.spaces[mm.0].copy(space);
        let marked: Vec<_> = copy.vmas().filter(|vma| !vma.marks.is_empty()).cloned().collect();
        for mut vma in marked {
            let (at, len) = (vma.start, vma.end - vma.start);
            copy.forget(&(at..vma.end));
            if vma.marks.contains(Marks::LEFT_BY_FORK) {
                self.machine.unmap(space, at, len)?;
                continue;
            }
            if vma.marks.contains(Marks::WIPE_ON_FORK) {
                self.machine.advise(space, at, len, c::MADV_DONTNEED)?;
            }
            // The parent's userfaultfd registrations do not apply to the child.
            if vma.marks.contains(Marks::WATCHED) {
                self.machine.protect(space, at, len, vma.prot)?;
            }
            vma.marks.remove(Marks::LOCKED | Marks::ON_FAULT | Marks::WATCHED);
            copy.insert(vma);
        }
        for vma in copy.vmas() {
            if let VmaKind::File { file: Some(file), .. } = vma.kind {
                self.files.retain_file(file);
            }
        }
        *self.slots_in_use.entry(copy.slot).or_default() += 1;
        let child = MmKey(self.spaces.insert(copy));
        memory::forked(self, mm, child);
        Ok(child)
    }
}
