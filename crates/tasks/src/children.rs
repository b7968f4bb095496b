//! Waiting for children, `wait(2)`: which ones, for what, and what is told of one.

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

/// The event that a wait returns.
#[derive(Clone, Copy, Debug)]
pub struct ChildEvent {
    /// The child.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// `CLD_*`.
    pub code: i32,
    /// The exit code or the signal.
    pub status: i32,
    /// Calls that it and the children it waited for have made.
    pub calls: u64,
    /// The most bytes that any of them has had in memory.
    pub resident: u64,
}

impl ChildEvent {
    /// The number that `wait4` stores.
    pub fn encode(&self) -> i32 {
        match self.code {
            c::CLD_EXITED => (self.status & 0xff) << 8,
            c::CLD_STOPPED | c::CLD_TRAPPED => (self.status << 8) | 0x7f,
            c::CLD_CONTINUED => 0xffff,
            c::CLD_DUMPED => self.status | 0x80,
            _ => self.status,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_encoded_as_the_macros_of_wait_read_them() {
        let status =
            |code, status| ChildEvent { pid: 2, uid: 0, code, status, calls: 0, resident: 0 }.encode();
        assert!(c::WIFEXITED(status(c::CLD_EXITED, 3)));
        assert_eq!(c::WEXITSTATUS(status(c::CLD_EXITED, 3)), 3);
        assert!(c::WIFSIGNALED(status(c::CLD_KILLED, c::SIGKILL)));
        assert_eq!(c::WTERMSIG(status(c::CLD_KILLED, c::SIGKILL)), c::SIGKILL);
        assert!(c::WIFSTOPPED(status(c::CLD_STOPPED, c::SIGTSTP)));
        assert_eq!(c::WSTOPSIG(status(c::CLD_STOPPED, c::SIGTSTP)), c::SIGTSTP);
        assert!(c::WIFCONTINUED(status(c::CLD_CONTINUED, c::SIGCONT)));
    }
}
