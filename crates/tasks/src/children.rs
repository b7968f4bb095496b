//! Waiting for children, `wait(2)`: selection, options, and the status reported.

use crate::process::Processes;
use belljar_linux_abi::c;
use belljar_objects::ids::ProcessKey;
use bitflags::bitflags;

/// Children that a wait selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All children.
    Any,
    /// The child with this pid.
    Pid(i32),
    /// The children in this process group.
    Group(i32),
}

bitflags! {
    /// The options of `wait4(2)` and `waitid(2)`.
    #[derive(Clone, Copy, Debug)]
    pub struct WaitFlags: i32 {
        /// Return immediately instead of blocking.
        const NOHANG = c::WNOHANG;
        /// Report stopped children (`WUNTRACED`).
        const STOPPED = c::WSTOPPED;
        /// Report terminated children; always set for `wait4`.
        const EXITED = c::WEXITED;
        /// Report continued children.
        const CONTINUED = c::WCONTINUED;
        /// Leave the child in a waitable state.
        const NOWAIT = c::WNOWAIT;
        /// Exclude children of other threads; has no effect, since all threads share their children.
        const NOTHREAD = c::__WNOTHREAD;
        /// Wait for all children, whatever their exit signal.
        const ALL = c::__WALL;
        /// Wait only for children whose exit signal is not `SIGCHLD`.
        const CLONE = c::__WCLONE;
    }
}

/// State change of a child, as a wait returns it.
#[derive(Clone, Copy, Debug)]
pub struct ChildEvent {
    /// Pid of the child.
    pub pid: i32,
    /// User id of the child.
    pub uid: u32,
    /// `CLD_*`.
    pub code: i32,
    /// Exit code or signal.
    pub status: i32,
    /// System calls made by the child and the children that it has waited for.
    pub calls: u64,
    /// Maximum peak resident set size of these processes in bytes.
    pub resident: u64,
}

impl ChildEvent {
    /// Status word that `wait4` stores.
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
    /// True if a wait selects the child.
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
