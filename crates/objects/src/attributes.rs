//! Attributes of a process, its limits and how it ends.

use crate::namespaces::NamespaceMembership;
use crate::time_namespaces::TimeMembership;
use belljar_linux_abi::Errno;

/// Flags of `prctl(2)`, priorities and counters of a process.
#[derive(Clone, Debug)]
pub struct ProcessAttributes {
    /// `PR_SET_PDEATHSIG`: sent to it when its parent ends; 0 for none.
    pub parent_death_signal: i32,
    /// `PR_SET_DUMPABLE`.
    pub dumpable: u64,
    /// `AT_SECURE`: its program has more rights than whoever started it.
    pub secure: bool,
    /// `PR_SET_NO_NEW_PRIVS`.
    pub no_new_privs: bool,
    /// `PR_SET_CHILD_SUBREAPER`: orphans among its descendants become its children.
    pub is_subreaper: bool,
    /// `PR_SET_TIMERSLACK` in nanoseconds.
    pub timer_slack: u64,
    /// Slack that 0 stands for: its maker's.
    pub timer_slack_default: u64,
    /// `PR_SET_TSC`: to read the processor's counter is a fault.
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
    /// Barriers of `membarrier(2)` that it has registered for, a bit each.
    pub barriers: i32,
    /// `personality(2)`.
    pub personality: u32,
    /// The code that the oldest thread gave to `exit(2)` while others went on.
    pub leader_exit_code: Option<i32>,
    /// `/proc/<pid>/coredump_filter`.
    pub coredump_filter: u32,
    /// `/proc/<pid>/oom_score_adj`.
    pub oom_score_adjustment: i32,
    /// The least that it may be set to without `CAP_SYS_RESOURCE`.
    pub oom_score_least: i32,
    /// Its time namespaces.
    pub time: TimeMembership,
    /// Its other namespaces.
    pub namespaces: NamespaceMembership,
    /// Calls of threads that have ended: processor time is counted in calls.
    pub ended_calls: u64,
    /// Calls of children that have been waited for.
    pub children_calls: u64,
    /// The most bytes that it has had in memory, as far as anybody has looked.
    pub peak_resident: u64,
    /// The same of those children.
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
    /// The attributes that a child inherits.
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
    /// Value of the old `oom_adj`.
    pub fn oom_adj(&self) -> i32 {
        let adjustment = self.oom_score_adjustment;
        if adjustment == 1_000 { 15 } else { adjustment * 17 / 1_000 }
    }
    /// `oom_score_adj` or, in the old scale, `oom_adj` has been written: `EACCES` below the least that it had from those who may
    /// not lower it.
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

/// A whole number, alone but for white space.
pub fn number_in<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.trim_matches(|c: char| c.is_whitespace() || c == '\0').parse().ok()
}

/// A soft and a hard limit, `getrlimit(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// In force.
    pub soft: u64,
    /// Its ceiling.
    pub hard: u64,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// `exit(2)` with this code.
    Exited(u8),
    /// Killed by this signal.
    Signaled(i32),
}

impl WaitStatus {
    /// The number that `wait(2)` stores. No core is ever dumped.
    pub fn encode(self) -> i32 {
        match self {
            WaitStatus::Exited(code) => i32::from(code) << 8,
            WaitStatus::Signaled(signal) => signal,
        }
    }
}
