//! Each process's system calls as text, in simulated time, in the manner of strace(1).

use crate::call::{Outcome, SysResult};
use crate::host::Host;
use crate::ids::ThreadKey;
use crate::syscall::table;
use belljar_base::Map;
use std::fmt::Write;

/// The lines written so far, by process id.
#[derive(Debug, Default)]
pub struct Strace {
    enabled: bool,
    text: Map<i32, String>,
}

impl Strace {
    /// Keeps lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, text: Map::new() }
    }
}

impl Host {
    /// The lines since the last call, by process id.
    pub fn take_strace(&mut self) -> Map<i32, String> {
        std::mem::take(&mut self.strace.text)
    }

    /// Records how a call ended; one that waits is recorded when it has ended.
    pub(crate) fn strace_outcome(
        &mut self,
        thread: ThreadKey,
        number: u32,
        args: &[u64; 6],
        outcome: &SysResult,
    ) {
        if !self.strace.enabled || matches!(outcome, Ok(Outcome::Block(_))) {
            return;
        }
        let Some(thread) = self.threads.get(thread.0) else { return };
        let pid = self.processes[thread.process.0].pid;
        let name = table::entry(number).map_or("?", |entry| entry.name);
        let text = self.strace.text.entry(pid).or_default();
        let [a, b, c, d, e, f] = args;
        let now = self.clock.now();
        let _ =
            write!(text, "{now} [{}] {name}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x}) = ", thread.tid);
        let _ = match outcome {
            Ok(Outcome::Done(value)) => writeln!(text, "{value:#x}"),
            Err(errno) => writeln!(text, "-1 {errno}"),
            _ => writeln!(text, "?"),
        };
    }
}
