//! Each process's system calls as text, in simulated time, in the manner of strace(1).
//!
//! A line is made when a call ends, so that what it has stored in the guest's memory can be shown;
//! `execve` alone is described beforehand, since its arguments are gone afterwards.

#[cfg(test)]
mod tests;

use crate::guest::PATH_MAX;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::mm::{Access, AddressSpace};
use crate::outcome::{Outcome, SysResult};
use crate::syscall::table;
use belljar_base::{Footprint, Map, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_strace::{
    Formatter, Memory, Phrases, Short, Signatures, Text, push_result, push_signed, push_time, signal_name,
};
use std::cell::RefCell;
use std::fmt::Write;
use std::sync::LazyLock;

/// The lines written so far, by process.
#[derive(Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Strace {
    enabled: bool,
    /// True if a log is worth being written out.
    full: bool,
    logs: Vec<Log>,
    /// Their places, by process id.
    places: Map<i32, usize>,
    /// The process whose log was asked for last, and its place: the next call is mostly of the same process.
    last: Option<(i32, usize)>,
    /// The beginning of the last line, by time and thread: most lines begin as the one before.
    begin: Option<(SimTime, i32, Short<48>)>,
    /// The text of an `execve` under way, by thread id.
    executing: Map<i32, Text>,
    phrases: Phrases,
}

impl Strace {
    /// Keeps lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, ..Strace::default() }
    }

    /// Tells what is read of it where it keeps none.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.enabled);
        footprint.object(&self.full);
    }

    /// True if it keeps any.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The place of the log of a process that has called before.
    #[inline]
    fn place(&mut self, pid: i32) -> Option<usize> {
        match self.last {
            Some((last, place)) if last == pid => Some(place),
            _ => {
                let place = *self.places.get(&pid)?;
                self.last = Some((pid, place));
                Some(place)
            }
        }
    }
    fn add(&mut self, pid: i32, log: Log) -> usize {
        self.places.insert(pid, self.logs.len());
        self.logs.push(log);
        self.logs.len() - 1
    }

    /// Appends how a line of a thread begins.
    fn push_begin(&mut self, now: SimTime, tid: i32, out: &mut Text) {
        if let Some((at, of, text)) = &self.begin
            && (*at, *of) == (now, tid)
        {
            return out.push_short(text);
        }
        let begin = out.len();
        push_time(out, now);
        out.push_str(" [");
        push_signed(out, i64::from(tid));
        out.push_str("] ");
        self.begin = Short::new(&out.as_bytes()[begin..]).map(|text| (now, tid, text));
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
/// So many buffers are kept for logs that are begun next.
const MOST_SPARE: usize = 16;

thread_local! {
    /// GuestBuffers of logs that have been written out, the last one on top: a worker's hosts, of which one runs at a time, use
    /// the same again and again, and what they put there stays in the cache until it is written.
    static SPARE: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a buffer, emptied, for whoever needs one next.
fn give_back(mut text: Text) {
    text.truncate(0);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE {
            spare.push(text);
        }
    });
}

/// The signatures of the calls of the table.
static SIGNATURES: LazyLock<Signatures> =
    LazyLock::new(|| Signatures::new(table::limit(), |number| table::entry(number).map(|entry| entry.name)));

/// The memory of a process that has called.
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

/// A call, as far as the log needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced {
    /// The process into whose memory the arguments point.
    pub process: ProcessKey,
    /// The place of its log.
    log: usize,
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
        for log in self.strace.logs.iter_mut().filter(|log| log.text.len() >= least) {
            sink(&log.name, log.text.as_bytes());
            give_back(std::mem::take(&mut log.text));
        }
    }

    /// True if there are lines that are worth being written out.
    pub(crate) fn has_strace(&self) -> bool {
        self.strace.full
    }

    /// Notes the parts of a call that must be read before it is made.
    pub(crate) fn strace_begin(&mut self, thread: ThreadKey, number: u32, args: [u64; 6]) -> Traced {
        let caller = &self.threads[thread.0];
        let (process, tid) = (caller.process, caller.tid);
        let pid = self.processes[process.0].pid;
        let log = match self.strace.place(pid) {
            Some(place) => place,
            None => {
                let name = self.name_of_log(process, thread);
                self.strace.add(pid, Log { name, text: Text::default() })
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

    /// `<program>.<pid>`, the program as the process's output is named where it has one of its own.
    #[cold]
    fn name_of_log(&self, process: ProcessKey, thread: ThreadKey) -> String {
        let process = &self.processes[process.0];
        let program = match process.spec {
            Some(spec) => self.config.processes[spec].path.rsplit('/').next().unwrap_or_default().into(),
            None => String::from_utf8_lossy(&self.threads[thread.0].comm),
        };
        // A guest may call itself anything (`PR_SET_NAME`), but its log stays in the host's folder.
        format!("{}.{}", program.replace(['/', '\0'], "_"), process.pid)
    }

    /// Records how a call ended; one that waits is recorded when it has ended.
    pub(crate) fn strace_end(&mut self, traced: &Traced, outcome: &SysResult) {
        let result = match outcome {
            Ok(Outcome::Block(_)) => return,
            Ok(Outcome::Done(value)) => Some(*value),
            Err(errno) => Some(errno.as_return()),
            Ok(Outcome::Replaced | Outcome::Gone) => None,
        };
        let now = self.net.clock.now();
        let mut text = std::mem::take(&mut self.strace.logs[traced.log].text);
        if text.is_new() {
            text = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
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
        self.strace.full |= text.len() >= WORTH_WRITING;
        self.strace.logs[traced.log].text = text;
    }

    /// Records that a signal is delivered, as strace's `--- SIGCHLD ---` does.
    pub(crate) fn strace_signal(&mut self, thread: ThreadKey, signal: i32) {
        if !self.strace.enabled {
            return;
        }
        let caller = &self.threads[thread.0];
        let (pid, tid) = (self.processes[caller.process.0].pid, caller.tid);
        let now = self.net.clock.now();
        // A process that has not called yet has no name either.
        let Some(place) = self.strace.place(pid) else { return };
        let text = &mut self.strace.logs[place].text;
        let _ = writeln!(text, "{now} [{tid}] --- {} ---", signal_name(signal));
        self.strace.full |= text.len() >= WORTH_WRITING;
    }

    /// Appends a call up to its result.
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
