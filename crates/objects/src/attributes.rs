//! Attributes of a process, its resource limits and its exit status.

use crate::namespaces::NamespaceMembership;
use crate::time_namespaces::TimeMembership;
use belljar_linux_abi::Errno;

/// Flags of `prctl(2)`, priorities and counters of a process.
#[derive(Clone, Debug)]
pub struct ProcessAttributes {
    /// `PR_SET_PDEATHSIG`: signal sent to the process when its parent exits; 0 for none.
    pub parent_death_signal: i32,
    /// `PR_SET_DUMPABLE`.
    pub dumpable: u64,
    /// `AT_SECURE`: the program gained privileges at `execve(2)`.
    pub secure: bool,
    /// `PR_SET_NO_NEW_PRIVS`.
    pub no_new_privs: bool,
    /// `PR_SET_CHILD_SUBREAPER`: orphans among its descendants become its children.
    pub is_subreaper: bool,
    /// `PR_SET_TIMERSLACK` in nanoseconds.
    pub timer_slack: u64,
    /// Slack that `PR_SET_TIMERSLACK` with 0 restores: that of the parent.
    pub timer_slack_default: u64,
    /// `PR_SET_TSC`: reading the time-stamp counter raises `SIGSEGV`.
    pub counter_faults: bool,
    /// `PR_SET_THP_DISABLE`.
    pub no_huge_pages: bool,
    /// `setpriority(2)`.
    pub nice: i32,
    /// `ioprio_set(2)`.
    pub io_priority: i32,
    /// Scheduling policy and static priority, `sched(7)`.
    pub scheduling: (i32, i32),
    /// Run time, deadline and period of `SCHED_DEADLINE` in nanoseconds.
    pub deadline: [u64; 3],
    /// `membarrier(2)` commands registered by the process, one bit each.
    pub barriers: i32,
    /// `personality(2)`.
    pub personality: u32,
    /// Exit code of the thread group leader if it called `exit(2)` while other threads continue.
    pub leader_exit_code: Option<i32>,
    /// `/proc/<pid>/coredump_filter`.
    pub coredump_filter: u32,
    /// `/proc/<pid>/oom_score_adj`.
    pub oom_score_adjustment: i32,
    /// Minimum that `oom_score_adj` can be set to without `CAP_SYS_RESOURCE`.
    pub oom_score_least: i32,
    /// Time namespaces.
    pub time: TimeMembership,
    /// Other namespaces.
    pub namespaces: NamespaceMembership,
    /// System calls made by threads that have exited; CPU time is accounted in system calls.
    pub ended_calls: u64,
    /// System calls made by children that have been waited for.
    pub children_calls: u64,
    /// Peak resident set size in bytes, sampled when it is read.
    pub peak_resident: u64,
    /// Peak resident set size in bytes of the children that have been waited for.
    pub children_resident: u64,
}

impl Default for ProcessAttributes {
    fn default() -> ProcessAttributes {
        ProcessAttributes {
            parent_death_signal: 0,
            dumpable: 1,
            secure: false,
            no_new_privs: false,
            is_subreaper: false,
            timer_slack: 50_000,
            timer_slack_default: 50_000,
            counter_faults: false,
            no_huge_pages: false,
            nice: 0,
            io_priority: 0,
            scheduling: (0, 0),
            deadline: [0; 3],
            barriers: 0,
            personality: 0,
            leader_exit_code: None,
            coredump_filter: 0x33,
            oom_score_adjustment: 0,
            oom_score_least: 0,
            time: TimeMembership::default(),
            namespaces: NamespaceMembership::default(),
            ended_calls: 0,
            children_calls: 0,
            peak_resident: 0,
            children_resident: 0,
        }
    }
}

impl ProcessAttributes {
    /// Attributes that a child inherits.
    pub fn for_child(&self) -> ProcessAttributes {
        /// `SCHED_RESET_ON_FORK`.
        const RESET: i32 = 0x4000_0000;
        let (policy, priority) = self.scheduling;
        let (scheduling, nice) = match policy & RESET {
            0 => ((policy, priority), self.nice),
            _ if priority > 0 => ((0, 0), 0),
            _ => ((policy & !RESET, 0), self.nice.max(0)),
        };
        ProcessAttributes {
            scheduling,
            nice,
            timer_slack_default: self.timer_slack,
            namespaces: self.namespaces.for_child(),
            parent_death_signal: 0,
            is_subreaper: false,
            leader_exit_code: None,
            ended_calls: 0,
            children_calls: 0,
            peak_resident: 0,
            children_resident: 0,
            ..self.clone()
        }
    }
}

impl ProcessAttributes {
    /// Value of `/proc/<pid>/oom_adj`, the obsolete scale.
    pub fn oom_adj(&self) -> i32 {
        let adjustment = self.oom_score_adjustment;
        if adjustment == 1_000 { 15 } else { adjustment * 17 / 1_000 }
    }
    /// Handles a write to `oom_score_adj` or, with `old_scale`, to `oom_adj`. `EACCES` if an unprivileged
    /// writer goes below the minimum, which is the current value in the old scale.
    pub fn set_oom_adjustment(
        &mut self,
        privileged: bool,
        old_scale: bool,
        text: &[u8],
    ) -> Result<(), Errno> {
        let given: i32 = number_in(text).ok_or(Errno::EINVAL)?;
        let range = if old_scale { -17..=15 } else { -1_000..=1_000 };
        if !range.contains(&given) {
            return Err(Errno::EINVAL);
        }
        let value = match (old_scale, given) {
            (false, _) => given,
            (true, 15) => 1_000,
            (true, _) => given * 1_000 / 17,
        };
        let floor = if old_scale { self.oom_score_adjustment } else { self.oom_score_least };
        if value < floor && !privileged {
            return Err(Errno::EACCES);
        }
        self.oom_score_adjustment = value;
        if privileged && !old_scale {
            self.oom_score_least = value;
        }
        Ok(())
    }
}

/// Parses a number that may be surrounded by white space and NUL bytes.
pub fn number_in<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.trim_matches(|c: char| c.is_whitespace() || c == '\0').parse().ok()
}

/// Soft and hard resource limit, `getrlimit(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// Soft limit: the value enforced.
    pub soft: u64,
    /// Hard limit: the ceiling of the soft limit.
    pub hard: u64,
}

/// Termination status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// Exited with this code, `exit(2)`.
    Exited(u8),
    /// Killed by this signal.
    Signaled(i32),
}

impl WaitStatus {
    /// Status word that `wait(2)` stores. The core-dump bit is never set.
    pub fn encode(self) -> i32 {
        match self {
            WaitStatus::Exited(code) => i32::from(code) << 8,
            WaitStatus::Signaled(signal) => signal,
        }
    }
}
