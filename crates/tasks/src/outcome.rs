//! Outcomes of system calls: how a call ends for now, what it waits for, and what it is continued from.
//!
//! A call that cannot finish now answers [`Outcome::Block`] and is *continued* later, with the state it left behind,
//! rather than made anew.

use crate::futexes::{FutexVector, FutexWait};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use belljar_objects::ids::{SocketKey, WaitQueueId};
use belljar_objects::locks::LockOwner;
use smallvec::SmallVec;
use std::net::SocketAddr;

/// The outcome of a system call, for now.
#[derive(Debug)]
pub enum Outcome {
    /// Its return value.
    Done(u64),
    /// It waits. Boxed, so that what a call answers fits into two registers.
    Block(Box<Block>),
    /// The calling thread runs another image now (`execve`), or registers that must stay as the
    /// handler set them (`rt_sigreturn`): nothing is written to RAX.
    Replaced,
    /// The calling thread is no more.
    Gone,
}

/// The result of every handler.
pub type SysResult = Result<Outcome, Errno>;

// Handlers hand on what others answer. What is larger than this is returned in memory, and a processor waits before it copies
// in large pieces what it has just stored in small ones.
const _: () = assert!(size_of::<SysResult>() == 2 * size_of::<u64>());

/// Shorthand for a finished call.
#[inline]
pub fn done(value: u64) -> SysResult {
    Ok(Outcome::Done(value))
}

/// A call that waits: for one of several queues to be notified, for a point in time, or for a
/// signal.
#[derive(Debug)]
pub struct Block {
    /// The queues whose notification continues the call.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// When it continues at the latest.
    pub deadline: Option<SimTime>,
    /// The state that it is continued from.
    pub state: CallState,
    /// The effect of a signal on it.
    pub if_interrupted: IfInterrupted,
}

impl Block {
    /// Waits for one queue without a deadline; restarts after a signal as `read(2)` does.
    #[inline]
    pub fn on(queue: WaitQueueId) -> Block {
        Block {
            on: SmallVec::from_slice(&[queue]),
            deadline: None,
            state: CallState::None,
            if_interrupted: IfInterrupted::Restart,
        }
    }
    /// Waits for a point in time (`None`: for ever) and for no queue.
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
    /// Sets the state to continue from.
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

/// The effect of a signal on a blocked call, signal(7) "Interruption of system calls".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfInterrupted {
    /// Fails with `EINTR` whatever the handler's flags say (`poll`, `nanosleep`, ...).
    Eintr,
    /// Made again if the handler has `SA_RESTART` or there is no handler, `EINTR` otherwise.
    Restart,
    /// Made again only if no handler runs (`pause`, `sigsuspend`), `EINTR` otherwise.
    RestartNoHandler,
    /// Ends with this value: part of the work is done.
    Value(u64),
    /// Made again whatever the handler's flags say (`FUTEX_LOCK_PI`).
    RestartAlways,
    /// Only a signal that ends the process interrupts it (`vfork`).
    Killable,
}

/// The reason for which a blocked call is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One of its queues was notified.
    Notified,
    /// Its deadline has come.
    Deadline,
}

/// The state of a blocked call for its continuation. Each family of calls has its own variants. It is moved several
/// times with each call that waits, so large ones are boxed.
#[derive(Clone, Debug, Default)]
pub enum CallState {
    /// Nothing: the call is simply tried again.
    #[default]
    None,
    /// The absolute deadline of a call that was given a relative one.
    Deadline(Option<SimTime>),
    /// Bytes already moved by a partly finished read or write.
    Progress(u64),
    /// Bytes moved so far and the deadline (socket time-outs).
    ProgressUntil(u64, Option<SimTime>),
    /// The same of a receiving call that also returns the sender's name, which is empty if a signal ends the wait.
    ReceivingUntil(u64, Option<SimTime>, NameOutput),
    /// `sendmmsg` and `recvmmsg`: messages done, bytes of the present one and the deadline.
    Messages(u32, u64, Option<SimTime>),
    /// A wait for readiness or for time to pass.
    Timed {
        /// The absolute deadline, if the call has one.
        deadline: Option<SimTime>,
        /// Where the time not slept is stored when a signal interrupts the wait.
        remaining: Option<RemainingTime>,
    },
    /// A futex wait; the waker removes the waiter and sets its `woken`.
    Futex(FutexWait),
    /// A wait for one of several futexes.
    FutexVector(Box<FutexVector>),
    /// `F_SETLKW`: who waits, and who holds the lock that is in the way.
    RecordLock(LockOwner, LockOwner),
    /// `io_uring_enter`: entries submitted, the deadline, and how many time-outs of requests had run out before.
    Uring(u32, Option<SimTime>, u32),
    /// `close` of a socket that lingers until then: the connection that it waits for.
    Lingering(Box<(SocketKey, (SocketAddr, SocketAddr), SimTime)>),
    /// `vfork`: waits until the child with this process id has executed or ended.
    Vfork(i32),
    /// Waits for a tracer at an event, and then gives this value, or first waits for the `vfork` child of this
    /// number.
    TraceEvent(u64, Option<i32>),
}

/// Where and how a call stores the part of its time-out that it did not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingTime {
    /// The address.
    pub addr: u64,
    /// A `struct timeval` rather than a `struct timespec`.
    pub micros: bool,
}

/// Name output: the guest memory in which a receiving call returns the sender's name and control messages.
#[derive(Clone, Copy, Debug)]
pub enum NameOutput {
    /// The length of the name, of `recvfrom`, at this address.
    Length(u64),
    /// The `struct msghdr` of `recvmsg`.
    Header {
        /// Its address.
        addr: u64,
        /// True if it points to a buffer for the name.
        has_name: bool,
    },
}

/// A continued call's state and the reason of its continuation.
#[derive(Debug)]
pub struct Resumed {
    /// The call's state.
    pub state: CallState,
    /// The reason for which it is continued.
    pub wake: Wake,
}
