//! System call in progress: the context that a handler is given.
//!
//! A handler decodes the arguments, validates them, calls a subsystem and copies results out. It never
//! blocks: see [`crate::outcome`].

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{CallState, Resumed, Wake};
use belljar_base::SimTime;
use belljar_objects::namespaces::NamespaceKind;

/// System call of a guest thread.
pub struct Call<'a> {
    /// Host whose kernel serves the call.
    pub host: &'a mut Host,
    /// Calling thread.
    pub thread: ThreadKey,
    /// Process of the calling thread.
    pub process: ProcessKey,
    /// System call number.
    pub number: u32,
    /// Arguments as the registers hold them.
    pub args: [u64; 6],
    /// Wake-up that continues the call; `None` on the first attempt.
    pub resumed: Option<Resumed>,
    /// Buffer that replaces the caller's memory while a call moves bytes between open files (`sendfile`).
    pub staged: Option<Vec<u8>>,
}

impl Call<'_> {
    /// Argument `n` as a C `int`.
    pub fn int(&self, n: usize) -> i32 {
        self.args[n] as i32
    }
    /// Argument `n` as an unsigned 32-bit value, such as flags.
    pub fn uint(&self, n: usize) -> u32 {
        self.args[n] as u32
    }
    /// True if the call is continued because its deadline has passed.
    pub fn deadline_passed(&self) -> bool {
        matches!(self.resumed, Some(Resumed { wake: Wake::Deadline, .. }))
    }
    /// State left by the previous attempt; [`CallState::None`] on the first.
    pub fn take_state(&mut self) -> CallState {
        self.resumed.as_mut().map(|r| std::mem::take(&mut r.state)).unwrap_or_default()
    }
    /// Simulated time at which `time` will have passed by the host's clock.
    pub fn after(&self, time: belljar_base::SimDuration) -> SimTime {
        self.host.stack(self.host.turn).clock.after(time)
    }
    /// Network namespace number of the caller.
    pub fn network(&self) -> u32 {
        self.host.processes.namespace(self.process, NamespaceKind::Net)
    }
    /// Current time of the host's clock.
    pub fn now(&self) -> SimTime {
        self.host.stack(self.host.turn).clock.now()
    }
}
