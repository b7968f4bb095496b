//! Results of system calls: completion, blocking, and the state for a continuation.
//!
//! A call that cannot complete returns [`Outcome::Block`] and is later *continued* from the state it left,
//! rather than restarted.

use crate::futexes::{FutexVector, FutexWait};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use belljar_objects::ids::{SocketKey, WaitQueueId};
use belljar_objects::locks::LockOwner;
use smallvec::SmallVec;
use std::net::SocketAddr;

/// Result of a system call, possibly preliminary.
#[derive(Debug)]
pub enum Outcome {
    /// Completed with this return value.
    Done(u64),
    /// The call blocks. Boxed, so that a call's result fits into two registers.
    Block(Box<Block>),
    /// The calling thread has a new register state that RAX must not be written to: a new image (`execve`) or
    /// a restored frame (`rt_sigreturn`).
    Replaced,
    /// The calling thread has exited.
    Gone,
}

/// Result type of every handler.
pub type SysResult = Result<Outcome, Errno>;

// Results are passed through several callers. A larger type would be returned in memory, where wide loads
// just after narrow stores stall the processor.
const _: () = assert!(size_of::<SysResult>() == 2 * size_of::<u64>());

/// Result of a completed call.
#[inline]
pub fn done(value: u64) -> SysResult {
    Ok(Outcome::Done(value))
}

/// Condition on which a call blocks: the notification of a queue, a deadline, or a signal.
#[derive(Debug)]
pub struct Block {
    /// Wait queues; a notification of any continues the call.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// Deadline at which the call continues at the latest.
    pub deadline: Option<SimTime>,
    /// State for the continuation.
    pub state: CallState,
    /// Effect of a signal.
    pub if_interrupted: IfInterrupted,
}

impl Block {
    /// Waits on one queue without a deadline; restarted after a signal, as `read(2)` is.
    #[inline]
    pub fn on(queue: WaitQueueId) -> Block {
        Block {
            on: SmallVec::from_slice(&[queue]),
            deadline: None,
            state: CallState::None,
            if_interrupted: IfInterrupted::Restart,
        }
    }
    /// Waits for a deadline only; `None` waits indefinitely.
    #[inline]
    pub fn until(deadline: Option<SimTime>) -> Block {
        Block { on: SmallVec::new(), deadline, state: CallState::None, if_interrupted: IfInterrupted::Eintr }
    }
    /// Sets a deadline.
    #[inline]
    pub fn with_deadline(mut self, deadline: Option<SimTime>) -> Block {
        self.deadline = deadline;
        self
    }
    /// Sets the state for the continuation.
    #[inline]
    pub fn with_state(mut self, state: CallState) -> Block {
        self.state = state;
        self
    }
    /// Sets the effect of a signal.
    #[inline]
    pub fn interrupted(mut self, how: IfInterrupted) -> Block {
        self.if_interrupted = how;
        self
    }
}

impl From<Block> for SysResult {
    #[inline]
    fn from(block: Block) -> SysResult {
        Ok(Outcome::Block(Box::new(block)))
    }
}

/// Effect of a signal on a blocked call, signal(7) "Interruption of system calls".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfInterrupted {
    /// Fails with `EINTR` regardless of `SA_RESTART` (`poll`, `nanosleep`, ...).
    Eintr,
    /// Restarted if the handler has `SA_RESTART` or there is no handler; `EINTR` otherwise.
    Restart,
    /// Restarted only if no handler runs (`pause`, `sigsuspend`); `EINTR` otherwise.
    RestartNoHandler,
    /// Returns this value: part of the work is done.
    Value(u64),
    /// Restarted regardless of `SA_RESTART` (`FUTEX_LOCK_PI`).
    RestartAlways,
    /// Interrupted only by a fatal signal (`vfork`).
    Killable,
}

/// Reason for the continuation of a blocked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One of the queues was notified.
    Notified,
    /// The deadline was reached.
    Deadline,
}

/// State of a blocked call for its continuation, with variants for each family of calls. It is moved several
/// times in each blocking call, so large variants are boxed.
#[derive(Clone, Debug, Default)]
pub enum CallState {
    /// No state: the call is retried.
    #[default]
    None,
    /// Absolute deadline of a call with a relative timeout.
    Deadline(Option<SimTime>),
    /// Bytes transferred by a partial read or write.
    Progress(u64),
    /// Bytes transferred, and the deadline (socket timeouts).
    ProgressUntil(u64, Option<SimTime>),
    /// As `ProgressUntil`, for a receiving call that returns the sender's address; that is empty if a signal
    /// ends the wait.
    ReceivingUntil(u64, Option<SimTime>, NameOutput),
    /// `sendmmsg` and `recvmmsg`: messages completed, bytes of the current one, and the deadline.
    Messages(u32, u64, Option<SimTime>),
    /// Wait for readiness or a timeout.
    Timed {
        /// Absolute deadline, if the call has one.
        deadline: Option<SimTime>,
        /// Output for the remaining time when a signal interrupts the wait.
        remaining: Option<RemainingTime>,
    },
    /// Futex wait; the waker removes the waiter and sets `woken`.
    Futex(FutexWait),
    /// Wait for one of several futexes.
    FutexVector(Box<FutexVector>),
    /// `F_SETLKW`: the waiting owner, and the owner of the conflicting lock.
    RecordLock(LockOwner, LockOwner),
    /// `io_uring_enter`: entries submitted, the deadline, and the number of request timeouts that had expired
    /// before.
    Uring(u32, Option<SimTime>, u32),
    /// `close` of a socket with `SO_LINGER`: the connection it waits for, and the deadline.
    Lingering(Box<(SocketKey, (SocketAddr, SocketAddr), SimTime)>),
    /// `vfork`: waits until the child with this pid executes or exits.
    Vfork(i32),
    /// Stop at a ptrace event, after which the call returns this value; with a pid, it first waits for that
    /// `vfork` child.
    TraceEvent(u64, Option<i32>),
}

/// Output of the remaining time of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingTime {
    /// Guest address.
    pub addr: u64,
    /// True for a `struct timeval`, false for a `struct timespec`.
    pub micros: bool,
}

/// Guest memory in which a receiving call returns the sender's address and control messages.
#[derive(Clone, Copy, Debug)]
pub enum NameOutput {
    /// Address of the length argument of `recvfrom`.
    Length(u64),
    /// `struct msghdr` of `recvmsg`.
    Header {
        /// Address of the structure.
        addr: u64,
        /// True if it has a buffer for the sender's address.
        has_name: bool,
    },
}

/// State and reason of a continued call.
#[derive(Debug)]
pub struct Resumed {
    /// State left by the call.
    pub state: CallState,
    /// Reason for the continuation.
    pub wake: Wake,
}
