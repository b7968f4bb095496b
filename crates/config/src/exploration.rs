//! Exploration: section `explore`, the faults that `belljar explore` draws.

use crate::events::{CrashFiles, DiskProfile};
use crate::scheduling::Scheduling;
use belljar_base::{HostId, SimDuration, SimTime};

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

/// Kind of fault with the bounds of what is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// The wall clock of a host steps by at most `step` forwards or backwards, and stays so.
    Clock {
        /// Largest step.
        step: SimDuration,
    },
    /// A host crashes and restarts.
    Crash {
        /// Fates of its files, of which each crash has one; not empty.
        files: Vec<CrashFiles>,
    },
    /// A path or link loses packets.
    Lossy {
        /// Least and largest probability.
        loss: (f64, f64),
    },
    /// A path or link is down in one direction.
    OneWay,
    /// The hosts are separated into two groups.
    Partition,
    /// A host stands still.
    Pause,
    /// A path or link has a larger latency.
    Slow {
        /// Least and largest latency.
        latency: (SimDuration, SimDuration),
    },
    /// The processes of a host are stopped by SIGSTOP and continued.
    Stop,
}

impl FaultKind {
    /// Name in an experiment file.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::Clock { .. } => "clock",
            FaultKind::Crash { .. } => "crash",
            FaultKind::Lossy { .. } => "lossy",
            FaultKind::OneWay => "one_way",
            FaultKind::Partition => "partition",
            FaultKind::Pause => "pause",
            FaultKind::Slow { .. } => "slow",
            FaultKind::Stop => "stop",
        }
    }

    /// All kinds with their default bounds, sorted by name.
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
