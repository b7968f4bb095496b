//! Traced threads, `ptrace(2)`: their stops and how they are resumed.

use crate::attributes::WaitStatus;
use crate::debug_registers::DebugRegisters;
use crate::ids::ProcessKey;
use belljar_linux_abi::c;
use belljar_linux_abi::ptrace::{TraceEvent, TraceOptions};
use belljar_linux_abi::signal::SigInfo;

/// Mode in which a tracer resumes a tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Run.
    Continue,
    /// Run to the next system call entry or exit.
    UntilCall,
    /// Run one instruction.
    Step,
    /// Stay in the group stop, `PTRACE_LISTEN`.
    Listen,
    /// Run untraced.
    Detach,
}

/// State of a traced thread.
#[derive(Debug)]
pub struct Tracee {
    /// Tracer.
    pub tracer: ProcessKey,
    /// True if attached by `PTRACE_SEIZE`.
    pub seized: bool,
    /// `PTRACE_SETOPTIONS`.
    pub options: TraceOptions,
    /// Mode of the last resumption.
    pub resume: Resume,
    /// Current stop.
    pub stop: Option<Stop>,
    /// True if the tracer has not waited for the stop.
    pub unreported: bool,
    /// `PTRACE_GETEVENTMSG`.
    pub message: u64,
    /// Siginfo of a signal-delivery stop.
    pub info: Option<SigInfo>,
    /// Signal delivered without another stop, as the tracer requested.
    pub approved: Option<i32>,
    /// Number of the current system call.
    pub call: Option<u64>,
    /// True between a system call entry stop and the execution of the call.
    pub entering: bool,
    /// Stops to make before it resumes, the last one first.
    pub next: Vec<Stop>,
    /// True after `PTRACE_INTERRUPT`, and for a thread traced since its creation.
    pub interrupt: bool,
    /// True if the group stop of its process no longer holds it.
    pub passes_group_stop: bool,
    /// True if it stays in the group stop, `PTRACE_LISTEN`.
    pub listens: bool,
    /// Debug registers that the tracer has set.
    pub debug: Option<Box<DebugRegisters>>,
}

/// Ptrace stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Signal-delivery stop.
    Signal(i32),
    /// System call entry stop.
    CallEntry,
    /// System call exit stop.
    CallExit,
    /// Event stop.
    Event(TraceEvent),
    /// Group stop, by this signal.
    Group(i32),
}

/// Bit of system call stops under `PTRACE_O_TRACESYSGOOD`.
const CALL_STOP: i32 = 0x80;

impl Tracee {
    /// State of a thread that `tracer` starts to trace.
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
            debug: None,
        }
    }

    /// True if the event message is a thread id.
    pub fn message_names_thread(&self) -> bool {
        use TraceEvent::{Clone, Exec, Fork, Vfork, VforkDone};
        matches!(self.stop, Some(Stop::Event(Fork | Vfork | Clone | VforkDone | Exec)))
    }

    /// Signal and event of a stop, as in bits 8 and up of a wait status.
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

/// Traced thread that has ended without its tracer having waited for it.
#[derive(Clone, Copy, Debug)]
pub struct EndedTracee {
    /// Tracer.
    pub tracer: ProcessKey,
    /// Thread id.
    pub tid: i32,
    /// Process group.
    pub pgid: i32,
    /// User.
    pub uid: u32,
    /// Wait status.
    pub status: WaitStatus,
}
