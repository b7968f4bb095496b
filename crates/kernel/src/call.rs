//! One system call under way: what a handler is given.
//!
//! A handler decodes its arguments, validates, calls a subsystem and copies out. It never waits: see [`crate::outcome`].

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{CallState, Resumed, Wake};
use belljar_base::SimTime;

/// A system call of one guest thread.
pub struct Call<'a> {
    /// The host whose kernel serves it.
    pub host: &'a mut Host,
    /// The calling thread.
    pub thread: ThreadKey,
    /// Its process.
    pub process: ProcessKey,
    /// The call's number.
    pub number: u32,
    /// Its arguments as the registers hold them.
    pub args: [u64; 6],
    /// `None` on the first attempt.
    pub resumed: Option<Resumed>,
    /// Bytes that stand in for those of the caller's memory while a call moves them between open
    /// files (`sendfile`).
    pub staged: Option<Vec<u8>>,
}

impl Call<'_> {
    /// Argument `n` as the C `int` that most calls take.
    pub fn int(&self, n: usize) -> i32 {
        self.args[n] as i32
    }
    /// Argument `n` as an unsigned 32-bit value: flags.
    pub fn uint(&self, n: usize) -> u32 {
        self.args[n] as u32
    }
    /// True if this is a continuation whose deadline has come.
    pub fn deadline_passed(&self) -> bool {
        matches!(self.resumed, Some(Resumed { wake: Wake::Deadline, .. }))
    }
    /// The state that the previous attempt left, [`CallState::None`] on the first one.
    pub fn take_state(&mut self) -> CallState {
        self.resumed.as_mut().map(|r| std::mem::take(&mut r.state)).unwrap_or_default()
    }
    /// When `time` will have passed by the host's own clock.
    pub fn after(&self, time: belljar_base::SimDuration) -> SimTime {
        self.host.net.clock.after(time)
    }
    /// The number of the caller's network.
    pub fn network(&self) -> u32 {
        self.host.processes[self.process.0].attributes.namespaces.net
    }
    /// The host's clock.
    pub fn now(&self) -> SimTime {
        self.host.net.clock.now()
    }
}
