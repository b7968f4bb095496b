//! Each process's system calls as text, in simulated time, in the manner of strace(1).
//!
//! A line is made when a call ends, so that what it has stored in the guest's memory can be shown;
//! `execve` alone is described beforehand, since its arguments are gone afterwards.

mod arity;
mod format;
mod names;
mod signatures;
mod structs;
mod text;

use crate::call::{Outcome, SysResult};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::syscall::table;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::c;
use format::Formatter;
use std::fmt::Write;
use text::{Text, push_signed, push_time};

/// The lines written so far, by process.
#[derive(Debug, Default)]
pub struct Strace {
    enabled: bool,
    /// By process id.
    logs: Map<i32, Log>,
    /// Whether a log is worth being written out.
    full: bool,
    /// A point in time as text: most calls are made at that of the one before.
    time: (SimTime, Text),
    /// The arguments of an `execve` under way, by thread id.
    executing: Map<i32, Text>,
}

impl Strace {
    /// Keeps lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, ..Strace::default() }
    }

    /// Whether it keeps any.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }
}

/// The lines of one process that have not been written out.
#[derive(Debug)]
struct Log {
    /// `<program>.<pid>`, by the program that the process ran when it was first seen.
    name: String,
    text: Text,
}

/// Bytes of a log that wait before it is written out.
const WORTH_WRITING: usize = 32 << 10;

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
    /// Hands out the lines of processes that have much of them, or of all, with `<program>.<pid>`.
    pub fn drain_strace(&mut self, all: bool, mut sink: impl FnMut(&str, &[u8])) {
        if !self.has_strace() && !all {
            return;
        }
        self.strace.full = false;
        let least = if all { 1 } else { WORTH_WRITING };
        for log in self.strace.logs.values_mut().filter(|log| log.text.len() >= least) {
            sink(&log.name, log.text.as_bytes());
            log.text.truncate(0);
        }
    }

    /// Whether there are lines that are worth being written out.
    pub(crate) fn has_strace(&self) -> bool {
        self.strace.full
    }

    /// What must be noted of a call before it is made.
    pub(crate) fn strace_begin(&mut self, thread: ThreadKey, number: u32, args: [u64; 6]) -> Traced {
        let caller = &self.threads[thread.0];
        let (process, tid) = (caller.process, caller.tid);
        let pid = self.processes[process.0].pid;
        if !self.strace.logs.contains_key(&pid) {
            // As its output is named, where it has one of its own.
            let program = match self.processes[process.0].spec {
                Some(spec) => self.config.processes[spec].path.rsplit('/').next().unwrap_or_default().into(),
                None => String::from_utf8_lossy(&caller.comm),
            };
            // A guest may call itself anything (`PR_SET_NAME`), but its log stays in the host's folder.
            let program = program.replace(['/', '\0'], "_");
            let name = format!("{program}.{pid}");
            self.strace.logs.insert(pid, Log { name, text: Text::default() });
        }
        let traced = Traced { process, pid, tid, number, args };
        if matches!(i64::from(number), c::SYS_execve | c::SYS_execveat) {
            let mut text = Text::default();
            self.strace_arguments(&traced, None, &mut text);
            self.strace.executing.insert(tid, text);
        }
        traced
    }

    /// Records how a call ended; one that waits is recorded when it has ended.
    pub(crate) fn strace_end(&mut self, traced: &Traced, outcome: &SysResult) {
        let result = match outcome {
            Ok(Outcome::Block(_)) => return,
            Ok(Outcome::Done(value)) => Some(*value),
            Err(errno) => Some(errno.as_return()),
            Ok(Outcome::Replaced | Outcome::Gone) => None,
        };
        let now = self.clock.now();
        let Some(log) = self.strace.logs.get_mut(&traced.pid) else { return };
        let mut text = std::mem::take(&mut log.text);
        if self.strace.time.0 != now || self.strace.time.1.is_empty() {
            self.strace.time.0 = now;
            self.strace.time.1.truncate(0);
            push_time(&mut self.strace.time.1, now);
        }
        text.append(&self.strace.time.1);
        text.push_str(" [");
        push_signed(&mut text, i64::from(traced.tid));
        text.push_str("] ");
        let name = table::entry(traced.number).map_or("unknown", |entry| entry.name);
        text.push_str(name);
        text.push('(');
        match self.strace.executing.remove(&traced.tid) {
            Some(arguments) => text.append(&arguments),
            None => self.strace_arguments(traced, result, &mut text),
        }
        text.push_str(") = ");
        match outcome {
            Err(errno) => {
                let _ = write!(text, "-1 {errno}");
            }
            Ok(Outcome::Done(value)) => format::push_result(&mut text, name, *value),
            Ok(Outcome::Replaced) => text.push('0'),
            _ => text.push('?'),
        }
        text.push('\n');
        self.strace.full |= text.len() >= WORTH_WRITING;
        if let Some(log) = self.strace.logs.get_mut(&traced.pid) {
            log.text = text;
        }
    }

    /// Records that a signal is delivered, as strace's `--- SIGCHLD ---` does.
    pub(crate) fn strace_signal(&mut self, thread: ThreadKey, signal: i32) {
        if !self.strace.enabled {
            return;
        }
        let caller = &self.threads[thread.0];
        let (pid, tid) = (self.processes[caller.process.0].pid, caller.tid);
        let now = self.clock.now();
        // A process that has not called yet has no name either.
        let Some(log) = self.strace.logs.get_mut(&pid) else { return };
        let _ = writeln!(log.text, "{now} [{tid}] --- {} ---", names::signal(signal));
        self.strace.full |= log.text.len() >= WORTH_WRITING;
    }

    fn strace_arguments(&self, traced: &Traced, result: Option<u64>, out: &mut Text) {
        if table::entry(traced.number).is_none() {
            return out.push_str(&traced.args.map(|arg| format!("{arg:#x}")).join(", "));
        }
        Formatter { host: self, traced, result }.arguments(signatures::of(traced.number), out);
    }
}
