//! Threads that others trace, `ptrace(2)`: where each is stopped, and how it goes on.

use crate::attributes::WaitStatus;
use crate::ids::ProcessKey;
use belljar_linux_abi::c;
use belljar_linux_abi::ptrace::{TraceEvent, TraceOptions};
use belljar_linux_abi::signal::SigInfo;

/// The way in which a tracer resumes its tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Go on.
    Continue,
    /// Go on until it makes a system call, or has made it.
    UntilCall,
    /// Make one instruction.
    Step,
    /// Stay stopped with its process.
    Listen,
    /// Go on untraced.
    Detach,
}

/// A traced thread's state.
#[derive(Debug)]
pub struct Tracee {
    /// Its tracer.
    pub tracer: ProcessKey,
    /// By `PTRACE_SEIZE`.
    pub seized: bool,
    /// `PTRACE_SETOPTIONS`.
    pub options: TraceOptions,
    /// The way in which it was last resumed.
    pub resume: Resume,
    /// Where it is stopped.
    pub stop: Option<Stop>,
    /// True if the tracer has not waited for that stop yet.
    pub unreported: bool,
    /// `PTRACE_GETEVENTMSG`.
    pub message: u64,
    /// The signal that it stopped before, if it did.
    pub info: Option<SigInfo>,
    /// A signal that it takes without a stop: the tracer wants it to.
    pub approved: Option<i32>,
    /// The number of the call that it makes.
    pub call: Option<u64>,
    /// True if the tracer has been shown that the call begins, and it has not run yet.
    pub entering: bool,
    /// Stops to be made before it goes on, the last one first.
    pub next: Vec<Stop>,
    /// `PTRACE_INTERRUPT`, or it has been traced since it was made.
    pub interrupt: bool,
    /// The stop of its process does not hold it any more.
    pub passes_group_stop: bool,
    /// `PTRACE_LISTEN`: it stays stopped with its process.
    pub listens: bool,
}

/// Where a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before it takes a signal.
    Signal(i32),
    /// Before it makes a system call.
    CallEntry,
    /// After that.
    CallExit,
    /// At an event.
    Event(TraceEvent),
    /// With its process, by this signal.
    Group(i32),
}

/// The flag of stops at system calls under `PTRACE_O_TRACESYSGOOD`.
const CALL_STOP: i32 = 0x80;

impl Tracee {
    /// A thread that `tracer` begins to trace.
    pub fn new(tracer: ProcessKey, seized: bool, options: TraceOptions) -> Tracee {
        Tracee {
            tracer,
            seized,
            options,
            resume: Resume::Continue,
            stop: None,
            unreported: false,
            message: 0,
            info: None,
            approved: None,
            call: None,
            entering: false,
            next: Vec::new(),
            interrupt: false,
            passes_group_stop: false,
            listens: false,
        }
    }

    /// True if its message is a thread's number.
    pub fn message_names_thread(&self) -> bool {
        use TraceEvent::{Clone, Exec, Fork, Vfork, VforkDone};
        matches!(self.stop, Some(Stop::Event(Fork | Vfork | Clone | VforkDone | Exec)))
    }

    /// The stop's signal and event as a wait gives them: bits 8 and up of its status.
    pub fn status(&self, stop: Stop) -> i32 {
        match stop {
            Stop::Signal(signal) => signal,
            Stop::CallEntry | Stop::CallExit if self.options.contains(TraceOptions::TRACESYSGOOD) => {
                c::SIGTRAP | CALL_STOP
            }
            Stop::CallEntry | Stop::CallExit => c::SIGTRAP,
            Stop::Event(event) => c::SIGTRAP | (event as i32) << 8,
            Stop::Group(signal) if self.seized => signal | (TraceEvent::Stop as i32) << 8,
            Stop::Group(signal) => signal,
        }
    }
}

/// A traced thread that has ended and whose tracer has not heard of it.
#[derive(Clone, Copy, Debug)]
pub struct EndedTracee {
    /// Its tracer.
    pub tracer: ProcessKey,
    /// Its number.
    pub tid: i32,
    /// Its process group.
    pub pgid: i32,
    /// Its user.
    pub uid: u32,
    /// Its wait status.
    pub status: WaitStatus,
}
