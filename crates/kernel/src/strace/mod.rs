//! Each process's system calls as text, in simulated time, in the manner of strace(1).
//!
//! A line is made when a call ends, so that what it has stored in the guest's memory can be shown;
//! `execve` alone is described beforehand, since its arguments are gone afterwards.

mod format;
mod names;
mod signatures;
mod structs;

use crate::call::{Outcome, SysResult};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::syscall::table;
use belljar_base::Map;
use format::Formatter;
use std::fmt::Write;

/// The lines written so far, by process.
#[derive(Debug, Default)]
pub struct Strace {
    enabled: bool,
    /// The lines not yet taken.
    text: Map<i32, String>,
    /// `<program>.<pid>`, by the program that the process ran when it was first seen.
    names: Map<i32, String>,
    /// The arguments of an `execve` under way, by thread id.
    executing: Map<i32, String>,
}

impl Strace {
    /// Keeps lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, ..Strace::default() }
    }
}

/// What a call was, as far as the log needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced {
    /// Whose memory the arguments point into.
    pub process: ProcessKey,
    /// The process id, which the thread may not outlive.
    pub pid: i32,
    /// The thread id.
    pub tid: i32,
    /// The call's number.
    pub number: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

impl Host {
    /// The lines since the last call, by `<program>.<pid>`.
    pub fn take_strace(&mut self) -> Map<String, String> {
        let names = &self.strace.names;
        std::mem::take(&mut self.strace.text)
            .into_iter()
            .map(|(pid, text)| (names[&pid].clone(), text))
            .collect()
    }

    /// What must be noted of a call before it is made; `None` if nothing is logged.
    pub(crate) fn strace_begin(&mut self, thread: ThreadKey, number: u32, args: [u64; 6]) -> Option<Traced> {
        if !self.strace.enabled {
            return None;
        }
        let caller = &self.threads[thread.0];
        let (process, tid) = (caller.process, caller.tid);
        let pid = self.processes[process.0].pid;
        if !self.strace.names.contains_key(&pid) {
            // As its output is named, where it has one of its own.
            let program = match self.processes[process.0].spec {
                Some(spec) => self.config.processes[spec].path.rsplit('/').next().unwrap_or_default().into(),
                None => String::from_utf8_lossy(&caller.comm),
            };
            let name = format!("{program}.{pid}");
            self.strace.names.insert(pid, name);
        }
        let traced = Traced { process, pid, tid, number, args };
        if matches!(table::entry(number).map(|entry| entry.name), Some("execve" | "execveat")) {
            let text = self.strace_arguments(&traced, None);
            self.strace.executing.insert(tid, text);
        }
        Some(traced)
    }

    /// Records how a call ended; one that waits is recorded when it has ended.
    pub(crate) fn strace_end(&mut self, traced: &Traced, outcome: &SysResult) {
        let result = match outcome {
            Ok(Outcome::Block(_)) => return,
            Ok(Outcome::Done(value)) => Some(*value),
            Err(errno) => Some(errno.as_return()),
            Ok(Outcome::Replaced | Outcome::Gone) => None,
        };
        let arguments = match self.strace.executing.remove(&traced.tid) {
            Some(text) => text,
            None => self.strace_arguments(traced, result),
        };
        let name = table::entry(traced.number).map_or("unknown", |entry| entry.name);
        let shown = match outcome {
            Err(errno) => format!("-1 {errno}"),
            Ok(Outcome::Done(value)) => format::result(name, *value),
            Ok(Outcome::Replaced) => "0".into(),
            _ => "?".into(),
        };
        let now = self.clock.now();
        let text = self.strace.text.entry(traced.pid).or_default();
        let _ = writeln!(text, "{now} [{}] {name}({arguments}) = {shown}", traced.tid);
    }

    /// Records that a signal is delivered, as strace's `--- SIGCHLD ---` does.
    pub(crate) fn strace_signal(&mut self, thread: ThreadKey, signal: i32) {
        if !self.strace.enabled {
            return;
        }
        let caller = &self.threads[thread.0];
        let (pid, tid) = (self.processes[caller.process.0].pid, caller.tid);
        // A process that has not called yet has no name either.
        if !self.strace.names.contains_key(&pid) {
            return;
        }
        let now = self.clock.now();
        let text = self.strace.text.entry(pid).or_default();
        let _ = writeln!(text, "{now} [{tid}] --- {} ---", names::signal(signal));
    }

    fn strace_arguments(&self, traced: &Traced, result: Option<u64>) -> String {
        let Some(entry) = table::entry(traced.number) else {
            return traced.args.map(|arg| format!("{arg:#x}")).join(", ");
        };
        let mut formatter = Formatter { host: self, traced, result, text: String::new() };
        formatter.arguments(signatures::of(entry.name));
        formatter.text
    }
}
