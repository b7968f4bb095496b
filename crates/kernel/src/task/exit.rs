//! Exit of threads and processes.

use crate::host::{Host, ProcessReport};
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{CallState, Wake};
use crate::process::WaitStatus;
use crate::thread::{Blocked, ThreadState};
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;

impl Host {
    /// `exit(2)`: ends one thread. The last thread ends the process, whose exit code is the leader's.
    pub(crate) fn exit_thread(&mut self, thread: ThreadKey, code: i32) {
        let process = self.threads[thread.0].process;
        let target = self.process(process);
        let is_last = target.threads.len() == 1;
        let is_leader = self.threads[thread.0].tid == self.processes[process.0].pid;
        if is_leader {
            self.process(process).attributes.leader_exit_code = Some(code);
        }
        if is_last {
            let code = self.processes[process.0].attributes.leader_exit_code.unwrap_or(code);
            self.end_process(process, WaitStatus::Exited(code as u8));
        } else {
            self.trace_ended(thread, WaitStatus::Exited(code as u8));
            self.end_thread(thread);
            self.retarget_pending(process);
        }
    }

    /// Ends a process with all its threads; the process is a zombie until its parent has waited for it.
    pub(crate) fn end_process(&mut self, process: ProcessKey, status: WaitStatus) {
        if self.processes[process.0].ended.is_some() {
            return;
        }
        self.end_namespace_of(process);
        self.networks.left |= self.processes[process.0].attributes.namespaces.net != 0;
        self.tracer_ended(process);
        for thread in self.processes[process.0].threads.clone() {
            self.trace_ended(thread, status);
            self.end_thread(thread);
        }
        self.cancel_process_timers(process);
        self.cancel_requests_of(process, false);
        self.wake_vfork_parent(process);
        self.undo_semaphores(process);
        self.forget_notices(process);
        self.processes.note_resident(&self.spaces, process);
        let target = self.process(process);
        let (fds, mm) = (target.fds.take(), target.mm.take());
        target.ended = Some(status);
        target.signals.job = Default::default();
        self.last_end = self.net.clock.now();
        self.debug_ended(process, status);
        if let Some(fds) = fds {
            self.release_fd_table(fds);
        }
        if let Some(mm) = mm {
            self.release_mm(process, mm);
        }
        let gone = self.files.mounts.leave(self.processes[process.0].mount_namespace);
        self.end_mounts(gone);
        self.session_leader_ended(process);
        self.orphan_children(process);
        self.hang_up_if_orphaned(process, self.processes[process.0].parent);
        if let Some(spec) = self.processes[process.0].spec {
            self.reports.push(ProcessReport::Ended { spec, status, at: self.net.clock.now() });
            crate::start::note_end(self, spec, Some(status));
        }
        self.announce_end(process, status);
    }

    /// Kills all members of a PID namespace whose process 1 ends.
    fn end_namespace_of(&mut self, process: ProcessKey) {
        let (pid, number) =
            (self.processes[process.0].pid, self.processes[process.0].attributes.namespaces.pid);
        if !self.processes.namespaces.pids.is_init(number, pid) {
            return;
        }
        for member in self.processes.namespaces.pids.end(number) {
            let found = self.processes.by_pid.get(&member).copied().filter(|member| *member != process);
            if let Some(member) = found {
                self.end_process(member, WaitStatus::Signaled(c::SIGKILL));
            }
        }
    }

    /// Discards a process that could not be started.
    pub(crate) fn discard_process(&mut self, process: ProcessKey) {
        let target = self.process(process);
        target.spec = None;
        target.parent = None;
        self.end_process(process, WaitStatus::Signaled(c::SIGKILL));
    }

    /// Kills a process by `signal`, which cannot be blocked or caught here.
    #[cold]
    pub(crate) fn kill_process(&mut self, process: ProcessKey, signal: i32) {
        self.condemn(process, SigInfo::kernel(signal));
        for thread in self.processes[process.0].threads.clone() {
            self.interrupt(thread);
        }
    }

    /// Notifies the parent of the end of a process; reaps the process if the parent ignores its children.
    fn announce_end(&mut self, process: ProcessKey, status: WaitStatus) {
        self.notify_pidfds(self.processes[process.0].pid);
        let target = &self.processes[process.0];
        let Some(parent) = target.parent else {
            // Pid 1 waits for all of its children.
            self.reap(process);
            return;
        };
        let (code, value) = match status {
            WaitStatus::Exited(code) => (c::CLD_EXITED, i32::from(code)),
            WaitStatus::Signaled(signal) if target.dumps_core() => (c::CLD_DUMPED, signal),
            WaitStatus::Signaled(signal) => (c::CLD_KILLED, signal),
        };
        let info = SigInfo::child(
            code,
            target.pid,
            target.credentials.ruid,
            value,
            self.threads.cpu_ticks(&self.processes, process),
        );
        let exit_signal = self.processes[process.0].exit_signal;
        let action = self.processes[parent.0].signals.action(c::SIGCHLD);
        let unwanted = exit_signal == c::SIGCHLD
            && (action.handler == c::SIG_IGN as u64 || action.flags & c::SA_NOCLDWAIT as u64 != 0);
        // Waits for the child are notified even if the signal has a handler.
        self.notify(self.processes[parent.0].child_changed);
        if exit_signal != 0 {
            self.send_signal(parent, SigInfo { signo: exit_signal, ..info });
        }
        if unwanted {
            self.reap(process);
        }
    }

    /// Removes a process that has ended and frees its pid.
    pub(crate) fn reap(&mut self, process: ProcessKey) {
        let gone = self.processes.remove(process.0);
        self.processes.by_pid.remove(&gone.pid);
        self.files.keep_status(gone.pid, gone.ended);
        self.notify_pidfds(gone.pid);
        self.waits.destroy(gone.child_changed);
        self.waits.destroy(gone.signals.arrived);
        self.processes.forget_number(gone.attributes.namespaces.pid, gone.pid);
        if let Some(parent) = gone.parent {
            let parent = self.process(parent);
            parent.children.retain(|child| *child != process);
        }
    }

    /// Ends one thread: its robust list, `clear_child_tid` word and context.
    pub(super) fn end_thread(&mut self, key: ThreadKey) {
        self.release_thread_words(key);
        if let ThreadState::Blocked(Blocked { state: CallState::Vfork(child), .. }) =
            self.threads[key.0].state
            && let Some(child) = self.processes.by_pid.get(&child).copied()
        {
            self.process(child).vfork_parent = None;
        }
        self.unschedule(key);
        self.let_files_go(key);
        self.drop_own_descriptors(key);
        let thread = self.threads.remove(key.0);
        self.threads.by_tid.remove(&thread.tid);
        self.forget_registered_rings(thread.tid);
        self.files.notify.forget_thread(thread.tid);
        self.machine.destroy_context(thread.context);
        if let Some(rings) = thread.keyrings {
            self.keys.ended(*rings);
        }
        let process = self.process(thread.process);
        process.threads.retain(|t| *t != key);
        process.attributes.ended_calls += thread.calls;
        if thread.tid != process.pid {
            let number = process.attributes.namespaces.pid;
            self.processes.forget_number(number, thread.tid);
        }
        self.debug_thread_gone(thread.process, key, thread.tid);
    }

    /// Releases the memory words of a thread that leaves its address space, `mm_release` in Linux: marks the
    /// robust futexes that the thread holds, zeroes the word of `set_tid_address` and wakes its waiters.
    pub(super) fn release_thread_words(&mut self, key: ThreadKey) {
        self.walk_robust_list(key);
        let thread = self.thread(key);
        thread.robust_list = (0, 0);
        let word = std::mem::take(&mut thread.clear_child_tid);
        let process = thread.process;
        let shares_memory = self.processes[process.0].threads.len() > 1
            || self.processes[process.0].mm.is_some_and(|mm| self.spaces[mm.0].users > 1);
        if word != 0 && shares_memory && self.write_guest(process, word, &0u32.to_le_bytes()).is_ok() {
            self.wake_futex_word(process, word, 1);
        }
    }

    /// Continues the parent of a `vfork` child.
    pub(super) fn wake_vfork_parent(&mut self, process: ProcessKey) {
        // A parent stopped for its tracer checks the child later.
        if let Some(parent) = self.process(process).vfork_parent.take()
            && let Some(waiting) = self.threads.get(parent.0)
            && matches!(waiting.blocked_state(), Some(CallState::Vfork(_)))
        {
            self.continue_call(parent, Wake::Notified);
        }
    }

    /// Reparents the children of an ending process to the next subreaper or to process 1 of its namespace.
    fn orphan_children(&mut self, process: ProcessKey) {
        let mut reaper = self.processes[process.0].parent;
        let number = self.processes[process.0].attributes.namespaces.pid;
        while let Some(candidate) = reaper {
            let found = &self.processes[candidate.0];
            if found.attributes.namespaces.pid != number {
                reaper = None;
                break;
            }
            if found.attributes.is_subreaper && found.ended.is_none() {
                break;
            }
            reaper = found.parent;
        }
        let init = self.processes.namespaces.pids.init(number);
        let init =
            init.and_then(|init| self.processes.by_pid.get(&init).copied()).filter(|init| *init != process);
        let reaper = reaper.or(init);
        for child in std::mem::take(&mut self.process(process).children) {
            let orphan = self.process(child);
            orphan.parent = reaper;
            let (signal, has_ended) = (orphan.attributes.parent_death_signal, orphan.ended.is_some());
            match reaper {
                Some(reaper) => {
                    self.process(reaper).children.push(child);
                    if has_ended {
                        self.notify(self.processes[reaper.0].child_changed);
                    }
                }
                None if has_ended => self.reap(child),
                None => {}
            }
            if signal != 0 && !has_ended {
                let pid = self.processes[process.0].pid;
                self.send_signal(child, SigInfo::user(signal, c::SI_USER, pid, 0));
            }
            if !has_ended {
                self.hang_up_if_orphaned(child, Some(process));
            }
        }
    }

    /// Sends `SIGHUP` and `SIGCONT` to a newly orphaned process group with stopped members: no process is
    /// left that could continue them. Only the end of a parent in another group of the same session can
    /// orphan the group.
    fn hang_up_if_orphaned(&mut self, process: ProcessKey, parent: Option<ProcessKey>) {
        let (pgid, sid) = (self.processes[process.0].pgid, self.processes[process.0].sid);
        let Some(parent) = parent.map(|parent| &self.processes[parent.0]) else { return };
        if parent.pgid == pgid || parent.sid != sid {
            return;
        }
        let members = self.processes.group_members(pgid);
        let stopped = members.iter().any(|m| self.processes[m.0].signals.job.stopped_by.is_some());
        if !stopped || !self.processes.is_orphaned_group(pgid) {
            return;
        }
        for signal in [c::SIGHUP, c::SIGCONT] {
            for member in &members {
                self.send_signal(*member, SigInfo::kernel(signal));
            }
        }
    }
}
