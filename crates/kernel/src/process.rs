//! A guest process (thread group) and what its threads share.

use crate::credentials::Credentials;
use crate::ids::{FdTableKey, MmKey, ProcessKey, ThreadKey, WaitQueueId};
use crate::signal::ProcessSignals;
use belljar_base::{Map, SimTime};
use belljar_machine::Placement;
use slab::Slab;
use std::ops::{Deref, DerefMut};

/// One process.
#[derive(Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Process {
    /// Its descriptors; `None` once it has ended.
    pub fds: Option<FdTableKey>,
    /// Its address space; `None` once it has ended.
    pub mm: Option<MmKey>,
    /// Its living threads, the oldest first.
    pub threads: Vec<ThreadKey>,
    /// Its wait status, once it has ended; it is a zombie until waited for.
    pub ended: Option<WaitStatus>,
    /// Its program's number on the activity board; 0 before it has one.
    pub watched: u32,
    /// Its process id.
    pub pid: i32,
    /// Preemption ticks that its threads may compute for without a call, see `run.rs`.
    pub patience: u32,
    /// Signal dispositions, process-wide pending signals and timers.
    pub signals: ProcessSignals,
    /// Its parent; `None` for those that the experiment started (their parent is pid 1) and orphans.
    pub parent: Option<ProcessKey>,
    /// Its children, ended ones that have not been waited for included, in order of creation.
    pub children: Vec<ProcessKey>,
    /// Its process group.
    pub pgid: i32,
    /// Its session.
    pub sid: i32,
    /// Its controlling terminal: its place in `Files::ptys`.
    pub terminal: Option<usize>,
    /// Its working directory as an absolute guest path.
    pub cwd: Vec<u8>,
    /// Its root directory as an absolute guest path.
    pub root: Vec<u8>,
    /// Its mount namespace, by its number in `Files::mounts`.
    pub mount_namespace: u32,
    /// Its file-mode creation mask.
    pub umask: u32,
    /// Absolute guest path of the image it runs.
    pub exe: Vec<u8>,
    /// Its arguments as `/proc/.../cmdline` shows them: each ended by a zero byte.
    pub cmdline: Vec<u8>,
    /// Its initial environment in the same form.
    pub environ: Vec<u8>,
    /// Its resource limits by `RLIMIT_*`.
    pub rlimits: [Rlimit; 16],
    /// Users, groups and capabilities; root's unless the experiment says otherwise.
    pub credentials: Credentials,
    /// Notified when a child ends, stops or continues.
    pub child_changed: WaitQueueId,
    /// The vfork parent's thread that waits for this process to execute or end.
    pub vfork_parent: Option<ThreadKey>,
    /// The signal that the parent gets when it ends (`SIGCHLD` for fork).
    pub exit_signal: i32,
    /// The experiment's process number on this host, for those that it started.
    pub spec: Option<usize>,
    /// Where its code is to run, as the experiment asks for; `None`: near where that is possible.
    pub placement: Option<Placement>,
    /// True if it has executed since it was forked (`setpgid` refuses then).
    pub has_executed: bool,
    /// When it started.
    pub started: SimTime,
    /// The descriptors of its threads that have none of their own, once any has.
    pub shared_fds: Option<FdTableKey>,
    /// Attributes of `prctl(2)` and accounting.
    pub attributes: ProcessAttributes,
}

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
    /// `PR_SET_THP_DISABLE`.
    pub no_huge_pages: bool,
    /// `setpriority(2)`.
    pub nice: i32,
    /// `ioprio_set(2)`.
    pub io_priority: i32,
    /// Scheduling policy and static priority, `sched(7)`.
    pub scheduling: (i32, i32),
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
    /// Calls of threads that have ended: processor time is counted in calls.
    pub ended_calls: u64,
    /// Calls of children that have been waited for.
    pub children_calls: u64,
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
            no_huge_pages: false,
            nice: 0,
            io_priority: 0,
            scheduling: (0, 0),
            personality: 0,
            leader_exit_code: None,
            coredump_filter: 0x33,
            oom_score_adjustment: 0,
            oom_score_least: 0,
            ended_calls: 0,
            children_calls: 0,
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
            parent_death_signal: 0,
            is_subreaper: false,
            leader_exit_code: None,
            ended_calls: 0,
            children_calls: 0,
            ..self.clone()
        }
    }
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

impl Process {
    /// True if a signal that leaves a core has ended it, and `RLIMIT_CORE` lets it: who waits for it is told, though no file is
    /// written here.
    pub fn dumps_core(&self) -> bool {
        use belljar_linux_abi::c;
        const LEAST: u64 = 4_096;
        let Some(WaitStatus::Signaled(signal)) = self.ended else { return false };
        let leaves = matches!(
            signal,
            c::SIGQUIT
                | c::SIGILL
                | c::SIGTRAP
                | c::SIGABRT
                | c::SIGBUS
                | c::SIGFPE
                | c::SIGSEGV
                | c::SIGXCPU
                | c::SIGXFSZ
                | c::SIGSYS
        );
        leaves && self.rlimits[c::RLIMIT_CORE as usize].soft >= LEAST && self.attributes.dumpable == 1
    }
    /// The limits that a new process of an experiment starts with: Linux's own defaults.
    pub fn default_rlimits() -> [Rlimit; 16] {
        use belljar_linux_abi::c;
        const INFINITE: u64 = u64::MAX;
        let mut limits = [Rlimit { soft: INFINITE, hard: INFINITE }; 16];
        let mut set = |resource: u32, soft, hard| limits[resource as usize] = Rlimit { soft, hard };
        set(c::RLIMIT_STACK, 8 << 20, INFINITE);
        set(c::RLIMIT_CORE, 0, INFINITE);
        set(c::RLIMIT_NPROC, 16_384, 16_384);
        set(c::RLIMIT_NOFILE, 1_024, 1_048_576);
        set(c::RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
        set(c::RLIMIT_SIGPENDING, 16_384, 16_384);
        set(c::RLIMIT_MSGQUEUE, 819_200, 819_200);
        set(c::RLIMIT_NICE, 0, 0);
        set(c::RLIMIT_RTPRIO, 0, 0);
        limits
    }
}

/// Numbers of living processes and threads.
pub type PidMap<K> = Map<i32, K>;

/// The processes of a host, ended ones that nobody has waited for included. Its methods answer what follows from processes alone:
/// who may do what to whom (`rights.rs`), and what one is allowed.
#[derive(Debug, Default)]
pub struct Processes(Slab<Process>);

impl Deref for Processes {
    type Target = Slab<Process>;
    #[inline]
    fn deref(&self) -> &Slab<Process> {
        &self.0
    }
}

impl DerefMut for Processes {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slab<Process> {
        &mut self.0
    }
}
