//! Interface for a debugger outside the simulation that inspects, stops and changes processes.
//!
//! A stopped process stops its whole host: [`Host::run_until`] returns early and [`Host::is_held`] is true.
//! The owner of the host then serves the debugger, resumes the process ([`Host::debug_resume`]) and runs the
//! host on. No time passes meanwhile, no call is counted and no thread loses its turn, so inspecting a
//! process does not change its behaviour.
//!
//! `access` covers registers, memory and breakpoints; `stops` holds the checks by which the run loop stops
//! threads.

mod access;
mod stops;

pub use access::DebugThread;
pub(crate) use stops::Entry;

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::process::WaitStatus;
use belljar_base::Map;
use belljar_linux_abi::c;

/// Reason of a debugged process's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugStop {
    /// The debugger requested the stop, or has just attached.
    Asked,
    /// A thread reached a breakpoint: thread id.
    Breakpoint(i32),
    /// A thread completed its step: thread id.
    Stepped(i32),
    /// A thread is about to take a signal: thread id and signal number.
    Signal(i32, i32),
    /// The process executed a new image; this thread id is its only thread.
    Executed(i32),
    /// The process ended.
    Ended(WaitStatus),
}

/// Options for resuming a stopped process.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugResume {
    /// Single-steps this thread until RIP leaves the range `start..end`; an empty range means one step.
    pub step: Option<(i32, u64, u64)>,
    /// Thread id of the only thread to run; `None` for all.
    pub only: Option<i32>,
    /// Thread id and signal to deliver in place of the signal that stopped it.
    pub signal: Option<(i32, i32)>,
}

/// Process that a debugger can attach to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DebugProcess {
    /// Process id.
    pub pid: i32,
    /// Arguments, joined by spaces.
    pub command: String,
}

/// Debugger state of a host.
#[derive(Debug, Default)]
pub(crate) struct Debuggers {
    /// Debuggers by the process id of their process.
    by_pid: Map<i32, Debugger>,
    /// True if a debugged process is stopped.
    stopped: bool,
}

/// State of the debugger of one process.
#[derive(Debug)]
struct Debugger {
    process: ProcessKey,
    /// Original byte at each breakpoint, by address.
    breakpoints: Map<u64, u8>,
    step: Option<Step>,
    only: Option<i32>,
    /// Runnable threads that must not run now, in the order in which they came to run.
    waiting: Vec<ThreadKey>,
    /// Thread id and signal of the current signal stop.
    signal: Option<(i32, i32)>,
    /// Thread id and signal to be delivered without another stop.
    approved: Option<(i32, i32)>,
    /// Stop not yet reported to the debugger.
    stop: Option<DebugStop>,
    /// True if the process has stopped and has not been resumed.
    stopped: bool,
}

/// Single-stepping of a thread.
#[derive(Clone, Copy, Debug)]
struct Step {
    tid: i32,
    start: u64,
    end: u64,
    /// True if the thread has begun the current step.
    under_way: bool,
}

impl Host {
    /// True if [`run_until`](Host::run_until) returns early, because of an outside request for the host or a
    /// stopped process.
    pub fn is_held(&self) -> bool {
        self.debuggers.stopped || self.config.attention.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Processes that can be debugged, in order of pid.
    pub fn debug_processes(&self) -> Vec<DebugProcess> {
        let shown = |bytes: &[u8]| {
            let words = bytes.strip_suffix(&[0]).unwrap_or(bytes).split(|byte| *byte == 0);
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        let living = self.processes.by_pid.iter().filter(|(_, key)| self.processes[key.0].mm.is_some());
        living
            .map(|(pid, key)| DebugProcess { pid: *pid, command: shown(&self.processes[key.0].cmdline) })
            .collect()
    }

    /// Attaches a debugger to a process and stops it. False if the process does not run or is already
    /// debugged.
    pub fn debug_attach(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.by_pid.get(&pid).copied() else { return false };
        let Some(mm) = self.processes[process.0].mm else { return false };
        // A process that waits for its debugger already has an entry without a client.
        let waits = self.debuggers.by_pid.get(&pid).is_some_and(|d| d.stop == Some(DebugStop::Asked));
        if self.debuggers.by_pid.contains_key(&pid) {
            return waits;
        }
        self.machine.show_original_code(self.spaces[mm.0].space);
        let debugger = Debugger {
            process,
            breakpoints: Map::new(),
            step: None,
            only: None,
            waiting: Vec::new(),
            signal: None,
            approved: None,
            stop: None,
            stopped: false,
        };
        self.debuggers.by_pid.insert(pid, debugger);
        self.debug_stop(pid, DebugStop::Asked);
        true
    }

    /// Detaches the debugger from a process: removes its breakpoints and resumes it.
    pub fn debug_detach(&mut self, pid: i32) {
        let Some(debugger) = self.debuggers.by_pid.get(&pid) else { return };
        let breakpoints: Vec<u64> = debugger.breakpoints.keys().copied().collect();
        for addr in breakpoints {
            self.debug_remove_breakpoint(pid, addr);
        }
        self.debug_resume(pid, DebugResume::default());
        self.debuggers.by_pid.remove(&pid);
        self.debuggers.refresh();
    }

    /// Kills a process like `SIGKILL`.
    pub fn debug_kill(&mut self, pid: i32) {
        if let Some(process) =
            self.processes.by_pid.get(&pid).copied().filter(|p| self.processes[p.0].ended.is_none())
        {
            self.kill_process(process, c::SIGKILL);
        }
    }

    /// Stops a running process with `reason`.
    pub fn debug_stop(&mut self, pid: i32, reason: DebugStop) {
        let Some(debugger) = self.debuggers.by_pid.get_mut(&pid) else { return };
        (debugger.stop, debugger.stopped) = (Some(reason), true);
        self.debuggers.stopped = true;
    }

    /// True if a debugged process is stopped.
    pub fn debug_is_stopped(&self, pid: i32) -> bool {
        self.debuggers.by_pid.get(&pid).is_some_and(|debugger| debugger.stopped)
    }

    /// Takes the reason of a process's stop.
    pub fn debug_take_stop(&mut self, pid: i32) -> Option<DebugStop> {
        self.debuggers.by_pid.get_mut(&pid)?.stop.take()
    }

    /// Stopped processes whose debugger has not attached yet.
    pub fn debug_waiting(&self) -> Vec<i32> {
        let waiting = self.debuggers.by_pid.iter().filter(|(_, d)| d.stop == Some(DebugStop::Asked));
        waiting.map(|(pid, _)| *pid).collect()
    }

    /// Resumes a stopped process.
    pub fn debug_resume(&mut self, pid: i32, how: DebugResume) {
        let Some(debugger) = self.debuggers.by_pid.get_mut(&pid) else { return };
        (debugger.stopped, debugger.stop) = (false, None);
        debugger.only = how.only;
        debugger.step = how.step.map(|(tid, start, end)| Step { tid, start, end, under_way: false });
        let waiting = std::mem::take(&mut debugger.waiting);
        let stopped_by = debugger.signal.take();
        debugger.approved = how.signal;
        self.scheduler.ready_first(waiting);
        self.replace_signal(stopped_by, how.signal);
        self.debuggers.refresh();
    }

    /// Replaces the signal for which a thread stopped by another, or by none.
    fn replace_signal(&mut self, stopped_by: Option<(i32, i32)>, wanted: Option<(i32, i32)>) {
        if stopped_by == wanted {
            return;
        }
        if let Some((tid, signal)) = stopped_by
            && let Some(thread) = self.threads.by_tid.get(&tid).copied()
        {
            let first = self.thread(thread).signals.pending.take(belljar_linux_abi::signal::sig_bit(signal));
            debug_assert!(first.is_some());
        }
        if let Some((tid, signal)) = wanted
            && let Some(thread) = self.threads.by_tid.get(&tid).copied()
        {
            let info = belljar_linux_abi::signal::SigInfo::user(signal, c::SI_USER, 0, 0);
            self.send_signal_to_thread(thread, info);
        }
    }

    /// True if a process is debugged.
    pub(crate) fn is_debugged(&self, process: ProcessKey) -> bool {
        self.debugger_of(process).is_some()
    }

    fn debugger_of(&self, process: ProcessKey) -> Option<&Debugger> {
        if self.debuggers.by_pid.is_empty() {
            return None;
        }
        self.debuggers.by_pid.get(&self.processes[process.0].pid)
    }
}

impl Debuggers {
    fn refresh(&mut self) {
        self.stopped = self.by_pid.values().any(|debugger| debugger.stopped);
    }
    /// True if no process is debugged.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }
    /// True if the host must not run on.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }
    /// Drops the waiting threads: the host has lost all its processes.
    pub(crate) fn forget_threads(&mut self) {
        self.by_pid.values_mut().for_each(|debugger| debugger.waiting.clear());
    }
}
