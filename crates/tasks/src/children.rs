//! The children that a wait is about, `wait(2)`.

use crate::process::Processes;
use belljar_linux_abi::c;
use belljar_objects::ids::ProcessKey;
use bitflags::bitflags;

/// The children that a wait is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All of them.
    Any,
    /// The one with this number.
    Pid(i32),
    /// The children in this process group.
    Group(i32),
}

bitflags! {
    /// The options of `wait4(2)` and `waitid(2)`.
    #[derive(Clone, Copy, Debug)]
    pub struct WaitFlags: i32 {
        /// Does not wait.
        const NOHANG = c::WNOHANG;
        /// Stopped children count (`WUNTRACED`).
        const STOPPED = c::WSTOPPED;
        /// Ended children count; `wait4` always has it.
        const EXITED = c::WEXITED;
        /// Continued children count.
        const CONTINUED = c::WCONTINUED;
        /// Leaves the child as it is.
        const NOWAIT = c::WNOWAIT;
        /// Not those of other threads; all threads share their children here.
        const NOTHREAD = c::__WNOTHREAD;
        /// All kinds of children.
        const ALL = c::__WALL;
        /// Only those that do not send `SIGCHLD`.
        const CLONE = c::__WCLONE;
    }
}

impl Processes {
    /// True if a wait is about a child.
    pub fn is_eligible(&self, child: ProcessKey, which: Selector, flags: WaitFlags) -> bool {
        let child = &self[child.0];
        let selected = match which {
            Selector::Any => true,
            Selector::Pid(pid) => child.pid == pid,
            Selector::Group(pgid) => child.pgid == pgid,
        };
        let is_clone = child.exit_signal != c::SIGCHLD;
        selected && (flags.contains(WaitFlags::ALL) || is_clone == flags.contains(WaitFlags::CLONE))
    }
}
