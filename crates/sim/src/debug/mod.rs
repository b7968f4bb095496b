//! Debugging of guests by gdb: a stub of the remote serial protocol inside the simulator.
//!
//! A debugger connects to the run's [`DebugHub`] on a thread of its own. The hub passes its data to the
//! host's node as [`Request`]s and sets the host's `attention` flag. The node serves requests at the next
//! opportunity: within its window, if it runs one ([`HostNode::run_kernel`]), or between two windows. While
//! a debugged process is stopped the node does not return, so that all nodes that depend on its host wait,
//! and simulated time stands still.
//!
//! `hub` connects debuggers to nodes, `session` is one debugger of one process, `target` implements the
//! protocol's operations on a process, `registers` its register format.

mod files;
mod hub;
mod packets;
mod registers;
mod session;
mod signals;
mod target;

pub use hub::{DebugError, DebugHub, Debuggee, ELSEWHERE};
pub(crate) use hub::{Port, Request};

use crate::node::HostNode;
use belljar_base::{Footprint, SimTime};
use belljar_kernel::{DebugResume, DebugStop, Host};
use session::Session;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Interval at which a stopped host checks whether the run is being interrupted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Debugging state of a node.
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub(crate) struct DebugState {
    /// True if the host is between two windows, when no event may occur on it.
    is_between_windows: bool,
    port: Port,
    interrupt: Arc<AtomicBool>,
    sessions: Vec<Session>,
    next_session: u64,
    /// Process to which the protocol's operations apply.
    pid: i32,
    /// Resume actions that the debugger has set so far.
    resume: DebugResume,
    /// True if only the threads named in the resume actions may run.
    is_locked: bool,
    /// Files of `/proc` that debuggers have open, by descriptor.
    files: Vec<Option<Vec<u8>>>,
    /// Actions deferred until the host runs again.
    deferred: Vec<Deferred>,
    /// Processes whose wait for a debugger has been reported.
    called: Vec<i32>,
}

/// Deferred action on a process.
#[derive(Clone, Copy, Debug)]
enum Deferred {
    Kill(i32),
    Signal(i32, DebugResume),
}

impl DebugState {
    /// Records the memory that each window reads.
    pub(crate) fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.is_between_windows);
    }
    pub(crate) fn new(port: Port, interrupt: Arc<AtomicBool>) -> DebugState {
        DebugState {
            port,
            interrupt,
            sessions: Vec::new(),
            next_session: 0,
            pid: 0,
            resume: DebugResume::default(),
            is_locked: false,
            files: Vec::new(),
            is_between_windows: false,
            deferred: Vec::new(),
            called: Vec::new(),
        }
    }
}

impl HostNode {
    /// Runs the kernel up to `limit`, and serves debuggers meanwhile.
    pub(crate) fn run_kernel(&mut self, limit: SimTime) {
        if !self.debug.deferred.is_empty() {
            self.do_deferred(limit);
        }
        loop {
            self.host.run_until(limit);
            if !self.host.is_held() || self.debug.interrupt.load(Relaxed) {
                return;
            }
            self.serve_debuggers();
        }
    }

    /// Serves requests between two windows.
    pub(crate) fn serve_between_windows(&mut self) {
        if self.host.is_held() {
            self.debug.is_between_windows = true;
            self.serve_debuggers();
            self.debug.is_between_windows = false;
        }
    }

    /// Serves debuggers until none of their processes is stopped.
    fn serve_debuggers(&mut self) {
        self.debug.port.attention.store(false, Relaxed);
        loop {
            while let Ok(request) = self.debug.port.requests.try_recv() {
                self.serve(request);
            }
            self.report_stops();
            self.call_for_debuggers();
            if !self.host.is_held() || self.debug.interrupt.load(Relaxed) {
                break;
            }
            match self.debug.port.requests.recv_timeout(PATIENCE) {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => self.debug.port.attention.store(false, Relaxed),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::List(answer) => {
                let processes = self.host.linux().map(Host::debug_processes).unwrap_or_default();
                let _ = answer.send((self.host.name().to_owned(), processes));
            }
            Request::Find(who, answer) => {
                let _ = answer.send(self.find_debuggee(&who));
            }
            Request::Attach(who, stream, answer) => {
                let attached =
                    self.find_debuggee(&who).and_then(|debuggee| self.begin_session(debuggee, stream));
                let _ = answer.send(attached);
            }
            Request::Bytes(session, bytes) => self.feed(session, &bytes),
            Request::Closed(session) => self.end_session(session),
        }
    }

    fn find_debuggee(&mut self, who: &str) -> Result<Debuggee, DebugError> {
        let host = self.host.name().to_owned();
        let no_process = |there_are| DebugError::NoProcess { host, who: who.to_owned(), there_are };
        let Some(linux) = self.host.linux_mut() else { return Err(no_process(Vec::new())) };
        let pid = linux.debug_find(who).map_err(no_process)?;
        Ok(Debuggee { pid, executable: linux.debug_executable(pid) })
    }

    /// Reports the processes that wait for their debugger.
    fn call_for_debuggers(&mut self) {
        for pid in self.host.linux().map(|linux| linux.debuggers.unattached()).unwrap_or_default() {
            if !self.debug.called.contains(&pid) && !self.debug.sessions.iter().any(|s| s.pid == pid) {
                self.debug.called.push(pid);
                self.debug.port.hub_calls(self.host.name(), pid);
            }
        }
    }

    /// Performs the deferred actions at the time of the host's next event, if it is before `limit`.
    fn do_deferred(&mut self, limit: SimTime) {
        let Some(at) = self.host.next_event().filter(|at| *at < limit) else { return };
        self.host.debugged().advance(at);
        for deferred in std::mem::take(&mut self.debug.deferred) {
            match deferred {
                Deferred::Kill(pid) => self.host.debugged().debug_kill(pid),
                Deferred::Signal(pid, how) => self.host.debugged().debug_resume(pid, how),
            }
        }
    }

    /// Kills a debugged process.
    fn kill_debuggee(&mut self, pid: i32) {
        if self.debug.is_between_windows {
            self.debug.deferred.push(Deferred::Kill(pid));
        } else {
            self.host.debugged().debug_kill(pid);
        }
    }

    /// Resumes the debugged process.
    fn resume_debuggee(&mut self) {
        let (pid, how) = (self.debug.pid, self.debug.resume);
        if self.debug.is_between_windows && how.signal.is_some() {
            self.debug.deferred.push(Deferred::Signal(pid, how));
            self.host.debugged().debug_resume(pid, DebugResume { signal: None, ..how });
        } else {
            self.host.debugged().debug_resume(pid, how);
        }
    }

    /// Reports stops of processes to their debuggers.
    fn report_stops(&mut self) {
        let sessions: Vec<(u64, i32)> = self.debug.sessions.iter().map(|s| (s.id, s.pid)).collect();
        for (session, pid) in sessions {
            if let Some(stop) = self.host.debugged().debuggers.take_stop(pid) {
                self.report_stop(session, pid, stop);
                if matches!(stop, DebugStop::Ended(_)) {
                    self.end_session(session);
                }
            }
        }
    }
}
