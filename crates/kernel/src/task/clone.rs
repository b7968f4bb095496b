//! New threads and child processes, `clone(2)`.

use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FdTableKey, ProcessKey, ThreadKey};
use belljar_linux_abi::signal::SigStack;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{ContextId, USER_END};
use belljar_objects::namespaces::ALL_KINDS;

/// Arguments of `clone`, `clone3`, `fork` and `vfork`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CloneRequest {
    /// `CLONE_*` without the exit signal.
    pub flags: u64,
    /// Signal sent to the parent when the child ends.
    pub exit_signal: i32,
    /// Stack pointer of the child; 0 for the parent's.
    pub stack: u64,
    /// `CLONE_SETTLS`: FS base of the child.
    pub tls: u64,
    /// Address for `CLONE_PARENT_SETTID`.
    pub parent_tid: u64,
    /// Address for `CLONE_CHILD_SETTID` and `CLONE_CHILD_CLEARTID`.
    pub child_tid: u64,
    /// `CLONE_PIDFD`: address at which the child's pidfd is stored.
    pub pidfd: u64,
}

const THREAD: u64 = c::CLONE_THREAD as u64;
const SIGHAND: u64 = c::CLONE_SIGHAND as u64;
const VM: u64 = c::CLONE_VM as u64;
/// Kind of task created by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A thread of the caller's process.
    Thread,
    /// A process in the caller's memory: `vfork`, `posix_spawn`.
    SharingMemory,
    /// A process with a copy of the caller's memory: `fork`.
    CopyingMemory,
}

impl CloneRequest {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// Classifies the request. `EINVAL` for invalid flag combinations, as in `copy_process` of Linux.
    fn kind(&self) -> Result<Kind, Errno> {
        let flags = self.flags;
        let thread_without_handlers = flags & THREAD != 0 && flags & SIGHAND == 0;
        let handlers_without_memory = flags & SIGHAND != 0 && flags & VM == 0;
        if thread_without_handlers || handlers_without_memory {
            return Err(Errno::EINVAL);
        }
        Ok(match (flags & THREAD != 0, flags & VM != 0) {
            (true, _) => Kind::Thread,
            (false, true) => Kind::SharingMemory,
            (false, false) => Kind::CopyingMemory,
        })
    }
}

impl Files {
    pub(super) fn fd_table_for_child(&mut self, table: FdTableKey, request: &CloneRequest) -> FdTableKey {
        if request.has(c::CLONE_FILES) {
            self.tables[table.0].users += 1;
            table
        } else {
            self.copy_fd_table(table)
        }
    }
}

impl Host {
    /// Checks the namespaces of a task that is one of several threads, since namespaces belong to processes
    /// here: a mount namespace is unshared for all threads with a warning, others are refused with a warning
    /// and `EPERM`.
    pub(crate) fn check_namespaces(&mut self, kinds: i32, of_thread: bool) -> Result<(), Errno> {
        if of_thread && kinds & c::CLONE_NEWNS != 0 {
            self.warn("a mount namespace of one of several threads is that of its whole process");
        }
        if of_thread && kinds & !c::CLONE_NEWNS != 0 {
            self.warn("namespaces of one of several threads (clone, unshare, setns) are not supported");
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Creates the thread or process and returns it with its thread id. The child is at the end of the run
    /// queue; with `CLONE_VFORK` the caller must then wait for it.
    pub(crate) fn clone_task(
        &mut self,
        parent: ThreadKey,
        request: &CloneRequest,
    ) -> Result<(ThreadKey, i32), Errno> {
        let kind = request.kind()?;
        // New mount and user namespaces exclude `CLONE_FS`, new PID and user namespaces `CLONE_THREAD`.
        let parted = |shared, own: [i32; 2]| request.has(shared) && own.iter().any(|flag| request.has(*flag));
        if parted(c::CLONE_FS, [c::CLONE_NEWNS, c::CLONE_NEWUSER])
            || parted(c::CLONE_THREAD, [c::CLONE_NEWPID, c::CLONE_NEWUSER])
        {
            return Err(Errno::EINVAL);
        }
        let own = request.flags as i32 & ALL_KINDS;
        self.check_namespaces(own, kind == Kind::Thread)?;
        if request.has(c::CLONE_PIDFD) && kind == Kind::Thread {
            return Err(Errno::EINVAL);
        }
        let process = self.threads[parent.0].process;
        let mut of = self.processes[process.0].attributes.namespaces;
        let is_init = self.processes.namespaces.pids.is_init(of.pid, self.processes[process.0].pid);
        if request.has(c::CLONE_PARENT) && is_init || kind == Kind::Thread && of.pid != of.pid_of_children {
            return Err(Errno::EINVAL);
        }
        if request.has(c::CLONE_PIDFD) {
            // The address must be writable before the child is created.
            let mut there = [0; 4];
            self.read_guest(process, request.pidfd, &mut there)?;
            self.write_guest(process, request.pidfd, &there)?;
        }
        self.processes.check_task_limit(process)?;
        if request.has(c::CLONE_SETTLS) && request.tls >= USER_END {
            return Err(Errno::EPERM);
        }
        if !request.has(c::CLONE_FILES) {
            let table = self.processes[process.0].fds.ok_or(Errno::ESRCH)?;
            self.files.check_fd_table(table, usize::MAX)?;
        }
        let mut who = None;
        if own != 0 {
            let who = who.insert(self.processes[process.0].credentials.clone());
            if request.has(c::CLONE_NEWUSER) {
                self.processes.check_not_confined(process)?;
                self.processes.namespaces.users.create(who)?;
            }
            if own != c::CLONE_NEWUSER && !who.has(capability::SYS_ADMIN) {
                return Err(Errno::EPERM);
            }
            if parted(c::CLONE_SYSVSEM, [c::CLONE_NEWIPC; 2]) {
                return Err(Errno::EINVAL);
            }
            self.processes.namespaces.unshare(own, &mut of, who.user_namespace)?;
            if request.has(c::CLONE_NEWNET) {
                self.make_network(of.net);
            }
        }
        self.processes.namespaces.pids.check_open(of.pid_of_children)?;
        // The child's pid is allocated in its own PID namespace.
        let chosen = &mut self.process(process).attributes.namespaces.pid_of_children;
        let children = std::mem::replace(chosen, of.pid_of_children);
        let made = self.make_task(parent, request, kind);
        self.process(process).attributes.namespaces.pid_of_children = children;
        let child = made?;
        let of_child = self.threads[child.0].process;
        if let Some(who) = who {
            let child = self.process(of_child);
            child.credentials = who;
            child.set_namespaces(of.for_child());
        }
        self.set_up_child(parent, child, request, kind);
        if request.has(c::CLONE_NEWTIME) {
            self.processes.unshare_time(of_child);
        }
        if kind == Kind::CopyingMemory {
            self.processes.enter_time(of_child);
        }
        if request.has(c::CLONE_NEWNS) {
            self.own_mounts(of_child);
        }
        if request.has(c::CLONE_PIDFD) {
            let file = self.create_pidfd(of_child, 0);
            // The child exists: a failure from here on shows only in the stored descriptor.
            let fd = self.install_fd(process, file, true, 0).map_or(-1, |fd| fd as i32);
            let _ = self.write_guest(process, request.pidfd, &fd.to_le_bytes());
        }
        let tid = self.threads[child.0].tid;
        if request.has(c::CLONE_VFORK) {
            self.process(of_child).vfork_parent = Some(parent);
        }
        Ok((child, tid))
    }

    fn make_task(
        &mut self,
        parent: ThreadKey,
        request: &CloneRequest,
        kind: Kind,
    ) -> Result<ThreadKey, Errno> {
        let process = self.threads[parent.0].process;
        Ok(match kind {
            Kind::Thread => {
                let context = self.copy_running_context(parent)?;
                let child = self.create_thread(process, context);
                self.give_descriptors(parent, child, request.has(c::CLONE_FILES));
                child
            }
            Kind::SharingMemory => {
                let child = self.process_sharing_memory(process, request)?;
                let context = self.copy_running_context(parent)?;
                self.create_thread(child, context)
            }
            Kind::CopyingMemory => self.fork_process(parent, request)?,
        })
    }

    fn process_sharing_memory(
        &mut self,
        parent: ProcessKey,
        request: &CloneRequest,
    ) -> Result<ProcessKey, Errno> {
        let mm = self.processes[parent.0].mm.ok_or(Errno::ESRCH)?;
        let table = self.processes[parent.0].fds.ok_or(Errno::ESRCH)?;
        self.mm(mm).users += 1;
        let fds = self.files.fd_table_for_child(table, request);
        Ok(self.create_child(parent, mm, fds, request.exit_signal))
    }

    fn copy_running_context(&mut self, thread: ThreadKey) -> Result<ContextId, Errno> {
        let (process, context) = (self.threads[thread.0].process, self.threads[thread.0].context);
        let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let space = self.spaces[mm.0].space;
        Ok(self.machine.copy_context(context, space))
    }

    fn set_up_child(&mut self, parent: ThreadKey, child: ThreadKey, request: &CloneRequest, kind: Kind) {
        let from = &self.threads[parent.0];
        let (comm, blocked, alternate) = (from.comm.clone(), from.signals.blocked, from.signals.alternate);
        let (seccomp, affinity) = (from.seccomp.clone(), from.affinity.clone());
        let parent_process = from.process;
        let who = &self.processes[parent_process.0].credentials;
        let inherit = |rings| Box::new(self.keys.inherit(rings, kind == Kind::Thread, who));
        let keyrings = from.keyrings.as_deref().map(inherit);
        let thread = self.thread(child);
        thread.keyrings = keyrings;
        thread.comm = comm;
        (thread.seccomp, thread.affinity) = (seccomp, affinity);
        thread.signals.blocked = blocked;
        // Two threads must not share an alternate stack; a vfork parent does not run meanwhile.
        let keeps_stack = kind != Kind::Thread && (request.has(c::CLONE_VFORK) || !request.has(c::CLONE_VM));
        thread.signals.alternate = if keeps_stack { alternate } else { SigStack::default() };
        if request.has(c::CLONE_CHILD_CLEARTID) {
            thread.clear_child_tid = request.child_tid;
        }
        let (tid, process, context) = (thread.tid, thread.process, thread.context);
        let regs = self.machine.regs_mut(context);
        regs.rax = 0;
        if request.stack != 0 {
            regs.rsp = request.stack;
        }
        if request.has(c::CLONE_SETTLS) {
            regs.fs_base = request.tls;
        }
        if request.has(c::CLONE_PARENT) && kind != Kind::Thread {
            self.processes.adopt_by_grandparent(parent_process, process);
        }
        // Like Linux, the call does not fail if a word cannot be written.
        if request.has(c::CLONE_PARENT_SETTID) {
            let shown = self.processes.shown_pid(parent_process, tid);
            let _ = self.write_guest(parent_process, request.parent_tid, &shown.to_le_bytes());
        }
        if request.has(c::CLONE_CHILD_SETTID) {
            let shown = self.processes.shown_pid(process, tid);
            let _ = self.write_guest(process, request.child_tid, &shown.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_decide_what_is_made() {
        let kind = |flags: i32| CloneRequest { flags: flags as u64, ..Default::default() }.kind();
        let thread = c::CLONE_VM | c::CLONE_SIGHAND | c::CLONE_THREAD;
        assert_eq!(kind(thread), Ok(Kind::Thread));
        assert_eq!(kind(c::CLONE_VM | c::CLONE_VFORK), Ok(Kind::SharingMemory));
        assert_eq!(kind(c::CLONE_CHILD_SETTID), Ok(Kind::CopyingMemory));
        assert_eq!(kind(c::CLONE_VM | c::CLONE_THREAD), Err(Errno::EINVAL));
        assert_eq!(kind(c::CLONE_SIGHAND), Err(Errno::EINVAL));
    }
}
