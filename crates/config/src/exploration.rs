//! Exploration: section `explore`, the faults that `belljar explore` draws.

use crate::events::{Action, CrashFiles, DiskProfile, ResetEnds};
use crate::scheduling::Scheduling;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_machine::CallResult;
use belljar_net::dns::DnsAnswer;

/// Distribution of the faults of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Exploration {
    /// Hosts, sorted, that crash, stop, are separated, or whose clocks change.
    pub hosts: Vec<HostId>,
    /// Earliest start and latest end of a fault.
    pub between: (SimTime, SimTime),
    /// Least and largest number of faults in a run.
    pub faults: (u32, u32),
    /// Shortest and longest duration of a fault.
    pub lasting: (SimDuration, SimDuration),
    /// Orders of the hosts' threads, of which each run has one; not empty.
    pub scheduling: Vec<Scheduling>,
    /// Kinds of faults with their bounds, sorted by name, each at most once.
    pub kinds: Vec<FaultKind>,
}

impl Exploration {
    /// Actions of which upgrades are drawn.
    pub(crate) fn upgrades_mut(&mut self) -> impl Iterator<Item = &mut Action> {
        self.kinds.iter_mut().flat_map(|kind| match kind {
            FaultKind::Upgrade { upgrades } => upgrades.iter_mut(),
            _ => [].iter_mut(),
        })
    }
}

/// Fault of a disk that may be drawn, by its key in an event `disk_fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFaultKind {
    /// Syncs take time.
    SyncTime,
    /// A sync fails.
    SyncErrors,
    /// Nothing can be allocated.
    Full,
    /// Reads fail.
    ReadErrors,
    /// Reads find wrong bits.
    BitRot,
}

impl DiskFaultKind {
    /// The values in an experiment file.
    pub(crate) const NAMES: &'static [(&'static str, DiskFaultKind)] = &[
        ("sync_time", DiskFaultKind::SyncTime),
        ("sync_errors", DiskFaultKind::SyncErrors),
        ("full", DiskFaultKind::Full),
        ("read_errors", DiskFaultKind::ReadErrors),
        ("bit_rot", DiskFaultKind::BitRot),
    ];

    /// The value in an experiment file.
    pub fn name(self) -> &'static str {
        DiskFaultKind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Kind of fault with the bounds of what is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Results of system calls of a host change.
    Calls {
        /// Results, not empty.
        results: Vec<CallResult>,
        /// Least and largest share of the calls that may have them.
        share: (f64, f64),
    },
    /// The wall clock of a host steps by at most `step` forwards or backwards, and stays so.
    Clock {
        /// Largest step.
        step: SimDuration,
    },
    /// The programs of a host run for a share of the time.
    Cpu {
        /// Least and largest share.
        share: (f64, f64),
        /// Shortest and longest period.
        period: (SimDuration, SimDuration),
    },
    /// A host crashes and restarts.
    Crash {
        /// Fates of its files, of which each crash has one; not empty.
        files: Vec<CrashFiles>,
    },
    /// The disk of a host fails.
    Disk {
        /// Faults, of which each event has one; not empty.
        faults: Vec<DiskFaultKind>,
        /// Least and largest time of a sync.
        sync_time: (SimDuration, SimDuration),
    },
    /// Lookups of names fail at a host.
    Dns {
        /// Names, in which `*` stands for any characters.
        names: Vec<String>,
        /// Answers, of which each fault has one; not empty.
        answers: Vec<DnsAnswer>,
    },
    /// A process is killed, and started again if it is of the host's list.
    Kill {
        /// Names of processes, in which `*` stands for any characters; if empty, a process of the host's list is drawn.
        names: Vec<String>,
    },
    /// A path or link loses packets.
    Lossy {
        /// Least and largest probability.
        loss: (f64, f64),
    },
    /// The memory of a host is limited.
    Memory {
        /// Least and largest limit in bytes.
        limit: (u64, u64),
    },
    /// A path or link is down in one direction.
    OneWay,
    /// The hosts are separated into two groups.
    Partition,
    /// A host stands still.
    Pause,
    /// A process stands still.
    PauseProcess {
        /// Names of processes, in which `*` stands for any characters; if empty, a process of the host's list is drawn.
        names: Vec<String>,
    },
    /// The TCP connections between two hosts are reset.
    Reset {
        /// Ends that notice, of which each reset has one value; not empty.
        ends: Vec<ResetEnds>,
    },
    /// A path or link has a larger latency.
    Slow {
        /// Least and largest latency.
        latency: (SimDuration, SimDuration),
    },
    /// The processes of a host are stopped by SIGSTOP and continued.
    Stop,
    /// Hosts are upgraded one after the other, for good or for a time.
    Upgrade {
        /// Actions of events `upgrade`, of which each fault has one. There is no default.
        upgrades: Vec<Action>,
    },
}

impl FaultKind {
    /// Name in an experiment file.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::Calls { .. } => "calls",
            FaultKind::Clock { .. } => "clock",
            FaultKind::Cpu { .. } => "cpu",
            FaultKind::Crash { .. } => "crash",
            FaultKind::Disk { .. } => "disk",
            FaultKind::Dns { .. } => "dns",
            FaultKind::Kill { .. } => "kill",
            FaultKind::Lossy { .. } => "lossy",
            FaultKind::Memory { .. } => "memory",
            FaultKind::OneWay => "one_way",
            FaultKind::Partition => "partition",
            FaultKind::Pause => "pause",
            FaultKind::PauseProcess { .. } => "pause_process",
            FaultKind::Reset { .. } => "reset",
            FaultKind::Slow { .. } => "slow",
            FaultKind::Stop => "stop",
            FaultKind::Upgrade { .. } => "upgrade",
        }
    }

    /// All kinds with their default bounds, sorted by name.
    pub fn all() -> Vec<FaultKind> {
        let results = vec![CallResult::Short, CallResult::Interrupted, CallResult::Again];
        let mut all = FaultKind::defaults();
        all.extend([
            FaultKind::Calls { results, share: (0.01, 0.2) },
            FaultKind::Disk {
                faults: vec![DiskFaultKind::SyncTime],
                sync_time: (SimDuration::from_millis(50), SimDuration::from_secs(2)),
            },
            FaultKind::Dns {
                names: vec!["*".to_owned()],
                answers: vec![DnsAnswer::ServerFailure, DnsAnswer::NoName, DnsAnswer::Timeout],
            },
            FaultKind::Kill { names: Vec::new() },
            FaultKind::Memory { limit: (16 << 20, 256 << 20) },
            FaultKind::Cpu {
                share: (0.01, 0.5),
                period: (SimDuration::from_millis(10), SimDuration::from_secs(1)),
            },
            FaultKind::PauseProcess { names: Vec::new() },
            FaultKind::Reset { ends: vec![ResetEnds::Both, ResetEnds::First, ResetEnds::Second] },
            FaultKind::Upgrade { upgrades: Vec::new() },
        ]);
        all.sort_by_key(FaultKind::name);
        all
    }

    /// The kinds that are drawn unless the section names some, with their default bounds, sorted by name.
    pub fn defaults() -> Vec<FaultKind> {
        let milliseconds = SimDuration::from_millis;
        vec![
            FaultKind::Clock { step: SimDuration::from_secs(10) },
            FaultKind::Crash {
                files: vec![
                    CrashFiles::Kept,
                    CrashFiles::Unsynced { torn: false, disk: DiskProfile::Ordered },
                ],
            },
            FaultKind::Lossy { loss: (0.05, 0.5) },
            FaultKind::OneWay,
            FaultKind::Partition,
            FaultKind::Pause,
            FaultKind::Slow { latency: (milliseconds(50), milliseconds(2_000)) },
            FaultKind::Stop,
        ]
    }
}
