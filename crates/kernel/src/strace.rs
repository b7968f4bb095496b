//! System call log of each process, in simulated time and the format of strace(1).
//!
//! A line is written when a call ends, so that results in the guest's memory can be shown. Only `execve` is
//! described beforehand, since its arguments do not survive it.

#[cfg(test)]
mod tests;

use crate::guest::PATH_MAX;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{Outcome, SysResult};
use crate::syscall::table;
use belljar_linux_abi::{Errno, c};
use belljar_objects::space::{Access, AddressSpace};
use belljar_strace::{Formatter, Memory, Signatures, Text, push_result, signal_name};
use std::fmt::Write;
use std::sync::LazyLock;

/// Signatures of the calls in the system call table.
static SIGNATURES: LazyLock<Signatures> =
    LazyLock::new(|| Signatures::new(table::limit(), |number| table::entry(number).map(|entry| entry.name)));

/// Memory of the calling process.
struct CallerMemory<'a> {
    host: &'a Host,
    process: ProcessKey,
    mm: Option<&'a AddressSpace>,
}

impl Memory for CallerMemory<'_> {
    #[inline]
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let Some(mm) = self.mm else { return false };
        mm.check(addr, out.len() as u64, Access::Read).is_ok()
            && self.host.machine.read(mm.space, addr, out).is_ok()
    }
    fn string(&self, addr: u64) -> Option<Vec<u8>> {
        self.host.read_guest_string(self.process, addr, PATH_MAX, Errno::ENAMETOOLONG).ok()
    }
}

/// Call in progress, as the log needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced {
    /// Process whose memory the arguments point to.
    pub process: ProcessKey,
    /// Index of the process's log.
    log: usize,
    /// Thread id.
    pub tid: i32,
    /// System call number.
    pub number: u32,
    /// Arguments of the call.
    pub args: [u64; 6],
}

impl Host {
    /// Passes log lines to `sink` with `<program>.<pid>`: those of large buffers, or all.
    pub fn drain_strace(&mut self, all: bool, sink: impl FnMut(&str, &[u8])) {
        self.strace.drain(all, sink);
    }

    /// True if a log buffer is large enough to be written out.
    pub(crate) fn has_strace(&self) -> bool {
        self.strace.is_full()
    }

    /// Records the parts of a call that must be read before it is made.
    pub(crate) fn strace_begin(&mut self, thread: ThreadKey, number: u32, args: [u64; 6]) -> Traced {
        let caller = &self.threads[thread.0];
        let (process, tid) = (caller.process, caller.tid);
        let pid = self.processes[process.0].pid;
        let log = match self.strace.place(pid) {
            Some(place) => place,
            None => {
                let name = self.name_of_log(process, thread);
                self.strace.add(pid, name)
            }
        };
        let traced = Traced { process, log, tid, number, args };
        if matches!(i64::from(number), c::SYS_execve | c::SYS_execveat) {
            let mut text = Text::default();
            self.strace_call(&traced, None, &mut text);
            self.strace.executing.insert(tid, text);
        }
        traced
    }

    /// `<program>.<pid>`, where the program is named as in the process's output files if it has any.
    #[cold]
    fn name_of_log(&self, process: ProcessKey, thread: ThreadKey) -> String {
        let process = &self.processes[process.0];
        let program = match process.spec {
            Some(spec) => self.config.processes[spec].path.rsplit('/').next().unwrap_or_default().into(),
            None => String::from_utf8_lossy(&self.threads[thread.0].comm),
        };
        // A guest can set any name (`PR_SET_NAME`); its log must stay in the host's directory.
        format!("{}.{}", program.replace(['/', '\0'], "_"), process.pid)
    }

    /// Records the result of a call; a blocked call is recorded once it has ended.
    pub(crate) fn strace_end(&mut self, traced: &Traced, outcome: &SysResult) {
        let result = match outcome {
            Ok(Outcome::Block(_)) => return,
            Ok(Outcome::Done(value)) => Some(*value),
            Err(errno) => Some(errno.as_return()),
            Ok(Outcome::Replaced | Outcome::Gone) => None,
        };
        let now = self.net.clock.now();
        let mut text = self.strace.take_text(traced.log);
        self.strace.push_begin(now, traced.tid, &mut text);
        match self.strace.executing.remove(&traced.tid) {
            Some(call) => text.append(&call),
            None => self.strace_call(traced, result, &mut text),
        }
        match outcome {
            Err(errno) => {
                text.push_str("-1 ");
                match errno.name() {
                    Some(name) => text.push_str(name),
                    None => {
                        let _ = write!(text, "{errno}");
                    }
                }
            }
            Ok(Outcome::Done(value)) => push_result(&mut text, traced.number, *value),
            Ok(Outcome::Replaced) => text.push('0'),
            _ => text.push('?'),
        }
        text.push('\n');
        self.strace.put_text(traced.log, text);
    }

    /// Records the delivery of a signal, as strace's `--- SIGCHLD ---`.
    pub(crate) fn strace_signal(&mut self, thread: ThreadKey, signal: i32) {
        if !self.strace.is_enabled() {
            return;
        }
        let caller = &self.threads[thread.0];
        let (pid, tid) = (self.processes[caller.process.0].pid, caller.tid);
        let now = self.net.clock.now();
        // A process without a call yet has no log name either.
        let Some(place) = self.strace.place(pid) else { return };
        self.strace.push_line(place, format_args!("{now} [{tid}] --- {} ---", signal_name(signal)));
    }

    /// Appends the description of a call up to its result.
    #[inline]
    fn strace_call(&mut self, traced: &Traced, result: Option<u64>, out: &mut Text) {
        let Some(signature) = SIGNATURES.of(traced.number) else {
            let args = traced.args.map(|arg| format!("{arg:#x}")).join(", ");
            let _ = write!(out, "unknown({args}) = ");
            return;
        };
        let mut phrases = std::mem::take(&mut self.strace.phrases);
        let mm = self.processes.get(traced.process.0).and_then(|process| process.mm);
        let mm = mm.map(|mm| &self.spaces[mm.0]);
        let memory = CallerMemory { host: self, process: traced.process, mm };
        let formatter = Formatter { memory: &memory, number: traced.number, args: &traced.args, result };
        phrases.push(signature, &formatter, out);
        self.strace.phrases = phrases;
    }
}
