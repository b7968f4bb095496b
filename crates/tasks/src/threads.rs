//! The threads of a host.

use crate::futexes::Sleeper;
use crate::process::{PidMap, Processes};
use crate::status::CALLS_PER_TICK;
use crate::thread::Thread;
use belljar_linux_abi::Errno;
use belljar_linux_abi::ptrace::TraceOptions;
use belljar_objects::ids::{ProcessKey, ThreadKey};
use belljar_objects::signals::ProcessorClock;
use belljar_objects::tracees::Tracee;
use slab::Slab;
use std::ops::{Deref, DerefMut};

/// The threads of a host. Methods here depend only on threads and processes; those about signals are in
/// `pending.rs`.
#[derive(Debug, Default)]
pub struct Threads {
    all: Slab<Thread>,
    /// Thread keys by thread id.
    pub by_tid: PidMap<ThreadKey>,
}

impl Threads {
    /// Process of the thread with the number `tid`, for calls that accept any thread's number for its
    /// process; the caller's process for 0. `ESRCH` if there is none.
    pub fn find_task(&self, processes: &Processes, caller: ThreadKey, tid: i32) -> Result<ProcessKey, Errno> {
        match processes.by_pid.get(&tid) {
            Some(process) => Ok(*process),
            None => self.find(caller, tid).map(|thread| self[thread.0].process),
        }
    }

    /// Thread with the number `tid`; the caller for 0. `ESRCH` if there is none.
    pub fn find(&self, caller: ThreadKey, tid: i32) -> Result<ThreadKey, Errno> {
        match tid {
            0 => Ok(caller),
            _ => self.by_tid.get(&tid).copied().ok_or(Errno::ESRCH),
        }
    }

    /// Threads that a process traces.
    pub fn tracees_of(&self, tracer: ProcessKey) -> Vec<ThreadKey> {
        let threads = self.by_tid.values().copied();
        threads.filter(|t| self[t.0].trace.as_ref().is_some_and(|trace| trace.tracer == tracer)).collect()
    }

    /// True if a thread of the process is traced.
    pub fn is_traced(&self, processes: &Processes, process: ProcessKey) -> bool {
        processes[process.0].threads.iter().any(|thread| self[thread.0].trace.is_some())
    }

    /// Number of the process that traces a thread; 0 if it is not traced.
    pub fn tracer_pid(&self, processes: &Processes, thread: ThreadKey) -> i32 {
        self[thread.0].trace.as_ref().map_or(0, |trace| processes[trace.tracer.0].pid)
    }
    /// True if a process has this thread.
    pub fn is_thread_of(&self, processes: &Processes, pid: i32, tid: i32) -> bool {
        let Some(process) = processes.numbered(pid) else { return false };
        tid == pid || self.by_tid.get(&tid).is_some_and(|key| self[key.0].process == process)
    }
    /// Processor time of a process in ticks of 10 ms.
    pub fn cpu_ticks(&self, processes: &Processes, process: ProcessKey) -> u64 {
        self.calls_of(processes, process) / CALLS_PER_TICK
    }

    /// Number of system calls made by a process's threads, including those that have ended. Each call counts
    /// as one microsecond of processor time.
    pub fn calls_of(&self, processes: &Processes, process: ProcessKey) -> u64 {
        let process = &processes[process.0];
        let living: u64 = process.threads.iter().map(|t| self[t.0].calls).sum();
        living + process.attributes.ended_calls
    }

    /// Thread that a file of `/proc` describes: the one with the number `tid`, or the first of the process.
    pub fn thread_of(
        &self,
        processes: &Processes,
        process: ProcessKey,
        tid: Option<i32>,
    ) -> Option<ThreadKey> {
        match tid {
            Some(tid) => self.by_tid.get(&tid).copied(),
            None => processes[process.0].threads.first().copied(),
        }
    }

    /// Gives the process's number to a thread that executes a program.
    pub fn become_leader(&mut self, processes: &mut Processes, thread: ThreadKey) {
        let pid = processes[self[thread.0].process.0].pid;
        let tid = std::mem::replace(&mut self[thread.0].tid, pid);
        self.by_tid.remove(&tid);
        self.by_tid.insert(pid, thread);
        let process = self[thread.0].process;
        processes[process.0].attributes.leader_exit_code = None;
        processes.enter_time(process);
    }

    /// The count that a timer of `clock` waits on; `None` if its thread has ended.
    pub fn processor_count(
        &self,
        processes: &Processes,
        process: ProcessKey,
        clock: ProcessorClock,
    ) -> Option<u64> {
        match clock {
            ProcessorClock::Process => Some(self.calls_of(processes, process)),
            ProcessorClock::Thread(tid) => self.by_tid.get(&tid).map(|thread| self[thread.0].calls),
        }
    }

    /// The owner's id as the word of a lock shows it; requests do not own locks.
    pub fn lock_owner(&self, processes: &Processes, sleeper: Sleeper) -> u32 {
        match sleeper {
            Sleeper::Thread(thread) => {
                let Thread { process, tid, .. } = self[thread.0];
                processes.shown_pid(process, tid) as u32
            }
            Sleeper::Request { .. } => 0,
        }
    }

    /// `PTRACE_TRACEME`: the parent traces the caller.
    pub fn trace_me(&mut self, processes: &Processes, thread: ThreadKey) -> Result<(), Errno> {
        let parent = processes[self[thread.0].process.0].parent;
        if self[thread.0].trace.is_some() {
            return Err(Errno::EPERM);
        }
        if let Some(parent) = parent {
            let tracee = Tracee::new(parent, false, TraceOptions::empty());
            self[thread.0].trace = Some(Box::new(tracee));
        }
        Ok(())
    }

    /// A stopped process goes on: threads that listen for that show it to their tracers.
    pub fn trace_group_continued(&mut self, thread: ThreadKey) {
        let Some(tracee) = &mut self[thread.0].trace else { return };
        tracee.passes_group_stop = false;
        if std::mem::take(&mut tracee.listens) {
            tracee.interrupt = true;
        }
    }

    /// `PR_SET_NAME` by way of `/proc/.../comm`.
    pub fn set_comm(&mut self, processes: &Processes, pid: i32, tid: i32, name: &[u8]) -> Result<(), Errno> {
        let process = *processes.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let key = self.thread_of(processes, process, Some(tid)).ok_or(Errno::ESRCH)?;
        let name = name.strip_suffix(b"\n").unwrap_or(name);
        self[key.0].comm = name[..name.len().min(15)].to_vec();
        Ok(())
    }
}

impl Deref for Threads {
    type Target = Slab<Thread>;
    #[inline]
    fn deref(&self) -> &Slab<Thread> {
        &self.all
    }
}

impl DerefMut for Threads {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slab<Thread> {
        &mut self.all
    }
}
