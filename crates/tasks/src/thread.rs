//! Guest threads: the platform's context and the kernel's state.

use crate::outcome::{CallState, IfInterrupted, Resumed};
use crate::spin::Spin;
use belljar_linux_abi::Errno;
use belljar_machine::ContextId;
use belljar_netstack::TimerId;
use belljar_objects::ids::{FdTableKey, FileKey, ProcessKey, ThreadKey, WaitQueueId};
use belljar_objects::keys::TaskKeyrings;
use belljar_objects::locks::LockOwner;
use belljar_objects::processors::{ProcessorSet, Processors};
use belljar_objects::seccomp::Seccomp;
use belljar_objects::signals::ThreadSignals;
use belljar_objects::tracees::Tracee;
use slab::Slab;
use smallvec::SmallVec;

/// Guest thread.
#[derive(Debug)]
pub struct Thread {
    /// Thread id; equal to the process id for the first thread.
    pub tid: i32,
    /// Process of the thread.
    pub process: ProcessKey,
    /// Registers and vector state.
    pub context: ContextId,
    /// Scheduling state.
    pub state: ThreadState,
    /// Continuation of the current call when the thread next runs.
    pub continuation: Option<Continuation>,
    /// Descriptors that the call looked up before it blocked, sorted, with references to their open files: if
    /// such a descriptor is closed meanwhile, the call continues with the file. The references are dropped
    /// when the call ends or, if a signal ended it, at the thread's next call.
    pub held: SmallVec<[(i32, FileKey); 2]>,
    /// Guest memory that the blocked call read at its start, since the guest may change it: the descriptors
    /// of `poll(2)`, the sets of `select(2)`.
    pub asked: Vec<u8>,
    /// State as a tracee, `ptrace(2)`.
    pub trace: Option<Box<Tracee>>,
    /// Seccomp state, inherited or its own, `seccomp(2)`.
    pub seccomp: Option<Box<Seccomp>>,
    /// Processors that the thread may run on, if not all: `sched_setaffinity(2)`.
    pub affinity: Option<Box<ProcessorSet>>,
    /// Signal mask, pending signals and alternate stack.
    pub signals: ThreadSignals,
    /// `set_tid_address`: the address zeroed and woken when the thread exits.
    pub clear_child_tid: u64,
    /// `set_robust_list`: address and length of the head.
    pub robust_list: (u64, u64),
    /// Name in `/proc/.../comm`, at most 15 bytes.
    pub comm: Vec<u8>,
    /// Busy-wait loop of the thread.
    pub spin: Option<Box<Spin>>,
    /// True if the thread has computed without a call for so long that every tick preempts it.
    pub computes: bool,
    /// CPU time in microseconds: one for each call, plus the time charged at preemptions.
    pub calls: u64,
    /// Private descriptor table, if it is not shared with the process.
    pub own_fds: Option<FdTableKey>,
    /// Number of calls that asked for an id, up to a limit: see `kernel/src/answers.rs`.
    pub asked_ids: u8,
    /// Keyrings, created or inherited on first use.
    pub keyrings: Option<Box<TaskKeyrings>>,
}

impl Thread {
    /// Processors that the thread may run on.
    pub fn allowed(&self, processors: Processors) -> ProcessorSet {
        self.affinity.as_deref().copied().unwrap_or(processors.all())
    }
    /// Processor that the thread runs on: the lowest that it may run on.
    pub fn processor(&self) -> u32 {
        self.affinity.as_deref().and_then(|set| set.lowest()).unwrap_or(0)
    }
    /// Restricts the thread to these processors of the host.
    pub fn set_affinity(&mut self, processors: Processors, set: ProcessorSet) {
        self.affinity = (set != processors.all()).then(|| Box::new(set));
    }
    /// State of the blocked call for its continuation.
    #[inline]
    pub fn blocked_state(&self) -> Option<&CallState> {
        match &self.state {
            ThreadState::Blocked(blocked) => Some(&blocked.state),
            _ => None,
        }
    }
}

/// Detects a deadlock: `EDEADLK` if `holder` waits, directly or through others, for `waiter`. The calling
/// thread is excluded. As on Linux, only record locks of processes are considered.
pub fn check_deadlock(
    threads: &Slab<Thread>,
    caller: ThreadKey,
    waiter: LockOwner,
    holder: LockOwner,
) -> Result<(), Errno> {
    let waits_for = |who: LockOwner| {
        threads.iter().filter(|(key, _)| *key != caller.0).find_map(|(_, thread)| {
            match thread.blocked_state() {
                Some(CallState::RecordLock(waits, holds)) if waits.is_same(who) => Some(*holds),
                _ => None,
            }
        })
    };
    let mut at = holder;
    for _ in 0..threads.len() {
        if at.is_same(waiter) {
            return Err(Errno::EDEADLK);
        }
        let Some(next) = waits_for(at) else { return Ok(()) };
        at = next;
    }
    Ok(())
}

/// Scheduling state of a thread.
#[derive(Debug)]
pub enum ThreadState {
    /// In the run queue, or running.
    Runnable,
    /// In a blocked call.
    Blocked(Blocked),
    /// In a stopped process; not in the run queue until continued.
    Stopped,
    /// In a ptrace stop.
    Traced,
}

/// Wait of a blocked thread.
#[derive(Debug)]
pub struct Blocked {
    /// Wait queues of the thread.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// Timer of the deadline.
    pub deadline: Option<TimerId>,
    /// State of the call for its continuation.
    pub state: CallState,
    /// Effect of a signal on the call.
    pub if_interrupted: IfInterrupted,
}

/// Continuation of a thread that was blocked in a call.
#[derive(Debug)]
pub enum Continuation {
    /// The call is continued.
    Resume(Resumed),
    /// The call is executed after its ptrace entry stop.
    Enter,
    /// A signal ended the wait; its delivery determines the call's result.
    Interrupted {
        /// Rule for the result.
        how: IfInterrupted,
        /// State of the call.
        state: CallState,
    },
}

impl Continuation {
    /// Rule and state of a call that a signal interrupted.
    #[inline]
    pub fn interrupted(self) -> Option<(IfInterrupted, CallState)> {
        match self {
            Continuation::Interrupted { how, state } => Some((how, state)),
            Continuation::Resume(_) | Continuation::Enter => None,
        }
    }
}
