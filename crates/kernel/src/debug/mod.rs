//! Interface for a debugger outside the simulation that inspects, stops and changes processes.
//!
//! A stopped process stops its whole host: [`Host::run_until`] returns early and [`Host::is_held`] is true.
//! The owner of the host then serves the debugger, resumes the process ([`Host::debug_resume`]) and runs the
//! host on. No time passes meanwhile, no call is counted and no thread loses its turn, so inspecting a
//! process does not change its behaviour. The state of debuggers is in [`belljar_tasks::debuggers`].
//!
//! `access` covers registers, memory and breakpoints; `stops` holds the checks by which the run loop stops
//! threads.

mod access;
mod stops;

pub use access::DebugThread;

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::suspension;
use belljar_linux_abi::c;
use belljar_tasks::debuggers::{DebugResume, Debugger};

/// Process that a debugger can attach to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DebugProcess {
    /// Process id.
    pub pid: i32,
    /// Arguments, joined by spaces.
    pub command: String,
}

impl Host {
    /// True if [`run_until`](Host::run_until) returns early, because of an outside request for the host or a
    /// stopped process.
    pub fn is_held(&self) -> bool {
        self.debuggers.stopped() || self.config.attention.load(std::sync::atomic::Ordering::Relaxed)
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
        if let Some(debugger) = self.debuggers.get(pid) {
            // A process that waits for its debugger already has an entry without a client.
            return debugger.is_unattached();
        }
        self.machine.show_original_code(self.spaces[mm.0].space);
        self.debuggers.attach(pid, process);
        suspension::settle(self);
        true
    }

    /// Detaches the debugger from a process: removes its breakpoints and resumes it.
    pub fn debug_detach(&mut self, pid: i32) {
        let Some(debugger) = self.debuggers.get(pid) else { return };
        for (addr, _) in debugger.breakpoints() {
            self.debug_remove_breakpoint(pid, addr);
        }
        self.debug_resume(pid, DebugResume::default());
        self.debuggers.detach(pid);
        suspension::settle(self);
    }

    /// Kills a process like `SIGKILL`.
    pub fn debug_kill(&mut self, pid: i32) {
        if let Some(process) =
            self.processes.by_pid.get(&pid).copied().filter(|p| self.processes[p.0].ended.is_none())
        {
            self.kill_process(process, c::SIGKILL);
        }
    }

    /// Resumes a stopped process.
    pub fn debug_resume(&mut self, pid: i32, how: DebugResume) {
        let Some(resumed) = self.debuggers.resume(pid, how) else { return };
        self.scheduler.ready_first(resumed.ready);
        self.replace_signal(resumed.stopped_by, how.signal);
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
        if self.debuggers.is_empty() { None } else { self.debuggers.get(self.processes[process.0].pid) }
    }
}
