//! A guest process (thread group) and what its threads share.

use crate::ids::{FdTableKey, MmKey, ProcessKey, ThreadKey, WaitQueueId};
use crate::signal::ProcessSignals;
use belljar_base::{Map, SimTime};

/// One process.
#[derive(Debug)]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// Its parent; `None` for those that the experiment started (their parent is pid 1) and orphans.
    pub parent: Option<ProcessKey>,
    /// Its children, ended ones that have not been waited for included, in order of creation.
    pub children: Vec<ProcessKey>,
    /// Its process group.
    pub pgid: i32,
    /// Its session.
    pub sid: i32,
    /// Its address space; `None` once it has ended.
    pub mm: Option<MmKey>,
    /// Its descriptors; `None` once it has ended.
    pub fds: Option<FdTableKey>,
    /// Its living threads, the oldest first.
    pub threads: Vec<ThreadKey>,
    /// Signal dispositions, process-wide pending signals and timers.
    pub signals: ProcessSignals,
    /// Its working directory as an absolute guest path.
    pub cwd: Vec<u8>,
    /// Its root directory as an absolute guest path.
    pub root: Vec<u8>,
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
    /// User, group and the like; data only, every host's guests are root.
    pub credentials: Credentials,
    /// How it ended, in the form of `wait(2)`; it is a zombie until waited for.
    pub ended: Option<WaitStatus>,
    /// Notified when a child ends, stops or continues.
    pub child_changed: WaitQueueId,
    /// The vfork parent's thread that waits for this process to execute or end.
    pub vfork_parent: Option<ThreadKey>,
    /// The signal that the parent gets when it ends (`SIGCHLD` for fork).
    pub exit_signal: i32,
    /// The experiment's process number on this host, for those that it started.
    pub spec: Option<usize>,
    /// Whether it has executed since it was forked (`setpgid` refuses then).
    pub has_executed: bool,
    /// When it started.
    pub started: SimTime,
}

/// A soft and a hard limit, `getrlimit(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// In force.
    pub soft: u64,
    /// Its ceiling.
    pub hard: u64,
}

/// Identity of a process as data, `credentials(7)`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Credentials {
    pub ruid: u32,
    pub euid: u32,
    pub suid: u32,
    pub fsuid: u32,
    pub rgid: u32,
    pub egid: u32,
    pub sgid: u32,
    pub fsgid: u32,
    pub groups: Vec<u32>,
}

/// How a process ended.
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
