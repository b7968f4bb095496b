//! Debuggers of a host's processes: stops, breakpoints and single steps.
//!
//! The kernel asks at three points: [`Debugger::keeps_waiting`] and [`Debugger::enter`] before a thread runs,
//! [`Debugger::stops_at_signal`] before it takes a signal. [`Debuggers::stop`] stops a process, and with it
//! the host; [`Debuggers::resume`] releases it.

use crate::process::WaitStatus;
use belljar_base::Map;
use belljar_objects::ids::{ProcessKey, ThreadKey};

/// `int3`.
pub const BREAKPOINT: u8 = 0xcc;

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

/// Threads that a resumed process sets going.
#[derive(Debug, Default)]
pub struct Resumption {
    /// Threads that become runnable, in the order in which they came to run.
    pub ready: Vec<ThreadKey>,
    /// Thread id and signal for which a thread had stopped.
    pub stopped_by: Option<(i32, i32)>,
}

/// Decision on the single-stepping of a thread before it runs guest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEntry {
    /// The thread is not stepped.
    Runs,
    /// The thread executes one instruction.
    Steps,
    /// The step is complete.
    Completed,
}

/// Debugger state of a host.
#[derive(Debug, Default)]
pub struct Debuggers {
    /// Debuggers by the process id of their process.
    by_pid: Map<i32, Debugger>,
    /// True if a debugged process is stopped.
    stopped: bool,
}

/// State of the debugger of one process.
#[derive(Debug)]
pub struct Debugger {
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

impl Debuggers {
    /// True if no process is debugged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }
    /// True if a debugged process is stopped: the host must not run on.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stopped
    }
    /// Debugger of a process.
    pub fn get(&self, pid: i32) -> Option<&Debugger> {
        self.by_pid.get(&pid)
    }
    /// Debugger of a process, mutable.
    pub fn get_mut(&mut self, pid: i32) -> Option<&mut Debugger> {
        self.by_pid.get_mut(&pid)
    }
    /// Adds a debugger to a process that has none, and stops the process.
    pub fn attach(&mut self, pid: i32, process: ProcessKey) {
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
        self.by_pid.insert(pid, debugger);
        self.stop(pid, DebugStop::Asked);
    }
    /// Removes the debugger of a process whose breakpoints have been removed and which has been resumed.
    pub fn detach(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
        self.refresh();
    }
    /// Stops a running process with `reason`.
    pub fn stop(&mut self, pid: i32, reason: DebugStop) {
        let Some(debugger) = self.by_pid.get_mut(&pid) else { return };
        (debugger.stop, debugger.stopped) = (Some(reason), true);
        self.stopped = true;
    }
    /// True if a debugged process is stopped.
    pub fn is_stopped(&self, pid: i32) -> bool {
        self.by_pid.get(&pid).is_some_and(|debugger| debugger.stopped)
    }
    /// Takes the reason of a process's stop.
    pub fn take_stop(&mut self, pid: i32) -> Option<DebugStop> {
        self.by_pid.get_mut(&pid)?.stop.take()
    }
    /// Stopped processes whose debugger has not attached yet.
    pub fn unattached(&self) -> Vec<i32> {
        let waiting = self.by_pid.iter().filter(|(_, debugger)| debugger.is_unattached());
        waiting.map(|(pid, _)| *pid).collect()
    }
    /// Resumes a stopped process; `None` if it has no debugger.
    pub fn resume(&mut self, pid: i32, how: DebugResume) -> Option<Resumption> {
        let debugger = self.by_pid.get_mut(&pid)?;
        (debugger.stopped, debugger.stop) = (false, None);
        debugger.only = how.only;
        debugger.step = how.step.map(|(tid, start, end)| Step { tid, start, end, under_way: false });
        debugger.approved = how.signal;
        let ready = std::mem::take(&mut debugger.waiting);
        let stopped_by = debugger.signal.take();
        self.refresh();
        Some(Resumption { ready, stopped_by })
    }
    /// Drops the breakpoints, steps and waiting threads of a process that has executed a new image, and stops
    /// it. False if it has no debugger.
    pub fn executed(&mut self, pid: i32) -> bool {
        let Some(debugger) = self.by_pid.get_mut(&pid) else { return false };
        debugger.breakpoints.clear();
        debugger.waiting.clear();
        (debugger.step, debugger.only) = (None, None);
        self.stop(pid, DebugStop::Executed(pid));
        true
    }
    /// Drops the waiting threads: the host has lost all its processes.
    pub fn forget_threads(&mut self) {
        self.by_pid.values_mut().for_each(|debugger| debugger.waiting.clear());
    }
    /// Original byte at a breakpoint that a process has set for which `shares_memory` holds.
    pub fn breakpoint_of(&self, at: u64, shares_memory: impl Fn(ProcessKey) -> bool) -> Option<u8> {
        let mut same = self.by_pid.values().filter(|debugger| shares_memory(debugger.process));
        same.find_map(|debugger| debugger.breakpoints.get(&at).copied())
    }
    fn refresh(&mut self) {
        self.stopped = self.by_pid.values().any(|debugger| debugger.stopped);
    }
}

impl Debugger {
    /// True if the process waits for a debugger that has not attached yet.
    pub fn is_unattached(&self) -> bool {
        self.stop == Some(DebugStop::Asked)
    }
    /// Keeps a runnable thread back if only another thread may run. True if so.
    pub fn keeps_waiting(&mut self, thread: ThreadKey, tid: i32) -> bool {
        let waits = self.only.is_some_and(|only| only != tid);
        if waits {
            self.waiting.push(thread);
        }
        waits
    }
    /// True if the thread is single-stepped.
    pub fn steps(&self, tid: i32) -> bool {
        self.step.is_some_and(|step| step.tid == tid)
    }
    /// Decides on the single-stepping of a thread that is about to run at `rip`.
    pub fn enter(&mut self, tid: i32, rip: u64) -> StepEntry {
        let Some(step) = self.step.as_mut().filter(|step| step.tid == tid) else { return StepEntry::Runs };
        let goes_on = (step.start..step.end).contains(&rip) && !self.breakpoints.contains_key(&rip);
        if step.under_way && !goes_on {
            return StepEntry::Completed;
        }
        step.under_way = true;
        StepEntry::Steps
    }
    /// True if a thread must stop before it takes a signal.
    pub fn stops_at_signal(&mut self, tid: i32, signal: i32) -> bool {
        if self.approved.take_if(|approved| *approved == (tid, signal)).is_some() {
            return false;
        }
        self.signal = Some((tid, signal));
        true
    }
    /// Forgets an ended thread, so that no other thread waits for it. Returns the threads that become
    /// runnable.
    pub fn thread_ended(&mut self, thread: ThreadKey, tid: i32) -> Vec<ThreadKey> {
        self.waiting.retain(|waiting| *waiting != thread);
        self.step = self.step.filter(|step| step.tid != tid);
        self.signal = self.signal.filter(|(stopped, _)| *stopped != tid);
        if self.only != Some(tid) {
            return Vec::new();
        }
        self.only = None;
        std::mem::take(&mut self.waiting)
    }

    /// Breakpoints: address and original byte.
    pub fn breakpoints(&self) -> Vec<(u64, u8)> {
        self.breakpoints.iter().map(|(at, byte)| (*at, *byte)).collect()
    }
    /// True if a breakpoint is set at this address.
    pub fn has_breakpoint(&self, at: u64) -> bool {
        self.breakpoints.contains_key(&at)
    }
    /// Records a breakpoint and the byte that it replaces.
    pub fn add_breakpoint(&mut self, at: u64, original: u8) {
        self.breakpoints.insert(at, original);
    }
    /// Removes a breakpoint; returns the original byte.
    pub fn remove_breakpoint(&mut self, at: u64) -> Option<u8> {
        self.breakpoints.remove(&at)
    }
    /// Replaces the breakpoints in memory that was read at `addr` by the original bytes.
    pub fn hide_breakpoints(&self, addr: u64, memory: &mut [u8]) {
        for (at, byte) in self.breakpoints.range(addr..addr.saturating_add(memory.len() as u64)) {
            memory[(at - addr) as usize] = *byte;
        }
    }
    /// Puts the breakpoints into data that is to be written at `addr`; its bytes there become the original
    /// ones.
    pub fn keep_breakpoints(&mut self, addr: u64, data: &mut [u8]) {
        for (at, byte) in self.breakpoints.range_mut(addr..addr.saturating_add(data.len() as u64)) {
            *byte = std::mem::replace(&mut data[(at - addr) as usize], BREAKPOINT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_outside_its_range_or_at_a_breakpoint() {
        let mut all = Debuggers::default();
        all.attach(7, ProcessKey(0));
        assert!(all.stopped() && all.unattached() == [7] && all.take_stop(7) == Some(DebugStop::Asked));
        let step = Some((8, 0x10, 0x20));
        assert!(all.resume(7, DebugResume { step, ..DebugResume::default() }).is_some() && !all.stopped());
        let debugger = all.get_mut(7).expect("attached");
        assert_eq!(debugger.enter(9, 0x10), StepEntry::Runs);
        assert_eq!(debugger.enter(8, 0x30), StepEntry::Steps, "the first step is made from anywhere");
        assert_eq!(debugger.enter(8, 0x1f), StepEntry::Steps);
        debugger.add_breakpoint(0x18, 0x90);
        assert_eq!(debugger.enter(8, 0x18), StepEntry::Completed);
        assert_eq!(debugger.enter(8, 0x20), StepEntry::Completed);
    }

    #[test]
    fn the_only_thread_to_run_sets_the_others_going_when_it_ends() {
        let mut all = Debuggers::default();
        all.attach(7, ProcessKey(0));
        all.resume(7, DebugResume { only: Some(8), ..DebugResume::default() });
        let debugger = all.get_mut(7).expect("attached");
        assert!(!debugger.keeps_waiting(ThreadKey(1), 8));
        assert!(debugger.keeps_waiting(ThreadKey(2), 9) && debugger.keeps_waiting(ThreadKey(3), 10));
        assert_eq!(debugger.thread_ended(ThreadKey(3), 10), []);
        assert_eq!(debugger.thread_ended(ThreadKey(1), 8), [ThreadKey(2)]);
    }

    #[test]
    fn reads_and_writes_pass_over_breakpoints() {
        let mut all = Debuggers::default();
        all.attach(7, ProcessKey(0));
        let debugger = all.get_mut(7).expect("attached");
        debugger.add_breakpoint(0x102, 0x55);
        let mut memory = [1, 2, BREAKPOINT, 4];
        debugger.hide_breakpoints(0x100, &mut memory);
        assert_eq!(memory, [1, 2, 0x55, 4]);
        let mut data = [9, 9, 9];
        debugger.keep_breakpoints(0x100, &mut data);
        assert_eq!((data, debugger.breakpoints()), ([9, 9, BREAKPOINT], vec![(0x102, 9)]));
    }
}
