//! A debugger outside the simulation that looks at a process, stops it and changes it.
//!
//! While a debugged process is stopped its whole host is: [`Host::run_until`] returns early and
//! [`Host::is_held`] says so. Whoever runs the host then serves the debugger, resumes the process
//! ([`Host::debug_resume`]) and runs the host on. No time passes meanwhile, no call is counted and no
//! thread loses its turn, so a process that is only looked at does what it would have done.
//!
//! `access` is registers, memory and breakpoints; `stops` is where the run loop asks whether a thread
//! is to stop.

mod access;
mod stops;

pub use access::DebugThread;
pub(crate) use stops::Entry;

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::process::WaitStatus;
use belljar_base::Map;
use belljar_linux_abi::c;

/// The reason of a debugged process's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugStop {
    /// The debugger asked for it, or has just attached.
    Asked,
    /// A thread has reached a breakpoint.
    Breakpoint(i32),
    /// A thread has made the step that it was to make.
    Stepped(i32),
    /// A thread is about to take a signal.
    Signal(i32, i32),
    /// It runs another image, with this thread as its only one.
    Executed(i32),
    /// It is no more.
    Ended(WaitStatus),
}

/// The way in which a stopped process is resumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugResume {
    /// This thread makes steps of one instruction, until RIP leaves the range; an empty range is
    /// one step.
    pub step: Option<(i32, u64, u64)>,
    /// Only this thread runs.
    pub only: Option<i32>,
    /// The signal that this thread takes, in place of the one that stopped it.
    pub signal: Option<(i32, i32)>,
}

/// A process as a debugger may choose it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DebugProcess {
    /// Its process id.
    pub pid: i32,
    /// Its arguments, joined by spaces.
    pub command: String,
}

/// The host's state for debuggers.
#[derive(Debug, Default)]
pub(crate) struct Debuggers {
    /// By the process ids of what they debug.
    by_pid: Map<i32, Debugger>,
    /// True if one of the processes is stopped.
    stopped: bool,
}

/// The settings of the debugger of one process.
#[derive(Debug)]
struct Debugger {
    process: ProcessKey,
    /// Where, and the byte that was there.
    breakpoints: Map<u64, u8>,
    step: Option<Step>,
    only: Option<i32>,
    /// Runnable threads that must not run now, in the order in which they came to.
    waiting: Vec<ThreadKey>,
    /// The thread that stopped for a signal, and the signal.
    signal: Option<(i32, i32)>,
    /// A signal that this thread takes without another stop.
    approved: Option<(i32, i32)>,
    /// The stop that is to be told.
    stop: Option<DebugStop>,
    /// True if it has stopped and not been resumed.
    stopped: bool,
}

/// A thread that makes single steps.
#[derive(Clone, Copy, Debug)]
struct Step {
    tid: i32,
    start: u64,
    end: u64,
    /// True if its instruction has run, or is the call that is under way.
    under_way: bool,
}

impl Host {
    /// True if [`run_until`](Host::run_until) has returned early, because somebody outside wants
    /// something of the host or a debugged process has stopped.
    pub fn is_held(&self) -> bool {
        self.debuggers.stopped || self.config.attention.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The processes that can be debugged, in order of their numbers.
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

    /// Stops a process for a debugger. False if it does not run or is debugged already.
    pub fn debug_attach(&mut self, pid: i32) -> bool {
        let Some(process) = self.processes.by_pid.get(&pid).copied() else { return false };
        let Some(mm) = self.processes[process.0].mm else { return false };
        // A process that waits for its debugger has one already, without anybody behind it.
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

    /// Lets a process go: its breakpoints are gone and it runs on.
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

    /// Ends a process as `SIGKILL` does.
    pub fn debug_kill(&mut self, pid: i32) {
        if let Some(process) =
            self.processes.by_pid.get(&pid).copied().filter(|p| self.processes[p.0].ended.is_none())
        {
            self.kill_process(process, c::SIGKILL);
        }
    }

    /// Stops a process that runs, for `reason`.
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

    /// Stopped processes whose debugger is yet to come.
    pub fn debug_waiting(&self) -> Vec<i32> {
        let waiting = self.debuggers.by_pid.iter().filter(|(_, d)| d.stop == Some(DebugStop::Asked));
        waiting.map(|(pid, _)| *pid).collect()
    }

    /// Lets a stopped process go on.
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

    /// Lets a thread that stopped for one signal take another one, or none.
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

    /// True if a debugger looks after the process.
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
    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }
    /// True if the host must not run on.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }
    /// The host has lost all its processes.
    pub(crate) fn forget_threads(&mut self) {
        self.by_pid.values_mut().for_each(|debugger| debugger.waiting.clear());
    }
}
