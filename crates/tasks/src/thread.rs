//! A guest thread: a context that the machine can resume and what the kernel knows of it.

use crate::outcome::{CallState, IfInterrupted, Resumed};
use crate::spin::Spin;
use belljar_linux_abi::Errno;
use belljar_machine::ContextId;
use belljar_netstack::TimerId;
use belljar_objects::ids::{FdTableKey, FileKey, ProcessKey, ThreadKey, WaitQueueId};
use belljar_objects::keys::TaskKeyrings;
use belljar_objects::locks::LockOwner;
use belljar_objects::seccomp::Seccomp;
use belljar_objects::signals::ThreadSignals;
use belljar_objects::tracees::Tracee;
use slab::Slab;
use smallvec::SmallVec;

/// One guest thread.
#[derive(Debug)]
pub struct Thread {
    /// Its thread id; the process id for the first thread.
    pub tid: i32,
    /// The process it belongs to.
    pub process: ProcessKey,
    /// Its registers and vector state.
    pub context: ContextId,
    /// Its state.
    pub state: ThreadState,
    /// The call to be continued when it runs next.
    pub continuation: Option<Continuation>,
    /// The descriptors that its call looked up before it blocked, sorted, and the open files behind them, of each
    /// of which it holds a reference: whoever closes such a descriptor meanwhile, the call goes on with the file.
    /// They are let go of when the call ends, or, if a signal ended it, at the thread's next call.
    pub held: SmallVec<[(i32, FileKey); 2]>,
    /// The part of the guest's memory that its waiting call has read at its start, since the guest may change it: the
    /// descriptors of `poll(2)`, the sets of `select(2)`.
    pub asked: Vec<u8>,
    /// Its state as a tracee, `ptrace(2)`.
    pub trace: Option<Box<Tracee>>,
    /// The calls that it may make, once it or a maker of it has been restricted, `seccomp(2)`.
    pub seccomp: Option<Box<Seccomp>>,
    /// Its signal mask, pending signals and alternate stack.
    pub signals: ThreadSignals,
    /// `set_tid_address`: zeroed and woken when the thread ends.
    pub clear_child_tid: u64,
    /// `set_robust_list`: the head's address and the length given.
    pub robust_list: (u64, u64),
    /// The name shown in `/proc/.../comm`, at most 15 bytes.
    pub comm: Vec<u8>,
    /// The loop without calls that it waits in.
    pub spin: Option<Box<Spin>>,
    /// True if it has computed for so long without a call that it is preempted at each tick.
    pub computes: bool,
    /// Its processor time in microseconds: the number of calls that it has made, and what it was preempted for.
    pub calls: u64,
    /// Its descriptors, if it does not share its process's.
    pub own_fds: Option<FdTableKey>,
    /// Number of calls by which it has asked for an id, up to a limit: see [`crate::answers`].
    pub asked_ids: u8,
    /// Its keyrings, once it or a maker of it has asked for any.
    pub keyrings: Option<Box<TaskKeyrings>>,
}

impl Thread {
    /// The state that its waiting call will be continued from.
    #[inline]
    pub fn blocked_state(&self) -> Option<&CallState> {
        match &self.state {
            ThreadState::Blocked(blocked) => Some(&blocked.state),
            _ => None,
        }
    }
}

/// `EDEADLK` if `holder` waits, directly or by way of others, for `waiter`: it would never end. The caller's thread is not one of
/// them. Only record locks of processes are looked at, as on Linux.
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

/// State of a thread.
#[derive(Debug)]
pub enum ThreadState {
    /// In the run queue, or running.
    Runnable,
    /// In a call that waits.
    Blocked(Blocked),
    /// Its process is stopped; it is in no queue until it is continued.
    Stopped,
    /// It is stopped for its tracer.
    Traced,
}

/// Where a blocked thread stands.
#[derive(Debug)]
pub struct Blocked {
    /// The queues it stands in.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// The timer of its deadline.
    pub deadline: Option<TimerId>,
    /// The state that its call will be continued from.
    pub state: CallState,
    /// The effect of a signal on its call.
    pub if_interrupted: IfInterrupted,
}

/// The continuation of a thread that was blocked in a call.
#[derive(Debug)]
pub enum Continuation {
    /// Its call goes on.
    Resume(Resumed),
    /// It makes the call that its tracer has been shown.
    Enter,
    /// A signal ended the wait; delivery decides what the call returns.
    Interrupted {
        /// By this rule.
        how: IfInterrupted,
        /// The call's state.
        state: CallState,
    },
}

impl Continuation {
    /// The rule and the state of a call that a signal interrupted.
    #[inline]
    pub fn interrupted(self) -> Option<(IfInterrupted, CallState)> {
        match self {
            Continuation::Interrupted { how, state } => Some((how, state)),
            Continuation::Resume(_) | Continuation::Enter => None,
        }
    }
}
