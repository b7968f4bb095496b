//! Exploration: section `explore`, the faults that `belljar explore` draws.

use crate::model::{Experiment, FinalState, Host, Scheduling};
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
        /// True if files may be kept.
        kept: bool,
        /// True if files may be lost.
        lost: bool,
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
            FaultKind::Crash { kept: true, lost: false },
            FaultKind::Lossy { loss: (0.05, 0.5) },
            FaultKind::OneWay,
            FaultKind::Partition,
            FaultKind::Pause,
            FaultKind::Slow { latency: (milliseconds(50), milliseconds(2_000)) },
            FaultKind::Stop,
        ]
    }
}

impl Exploration {
    /// Distribution that suits a service of a few hosts: faults of all kinds at the hosts with a process that is expected to run
    /// until the end, or at all hosts with programs if there are none, from a tenth to seven tenths of the simulated time.
    pub fn of(hosts: &[Host], stop: SimTime) -> Exploration {
        let chosen = |wanted: &dyn Fn(&Host) -> bool| -> Vec<HostId> {
            let found = hosts.iter().enumerate().filter(|(_, host)| wanted(host));
            found.map(|(index, _)| HostId(index as u32)).collect()
        };
        let serves = |host: &Host| {
            host.programs().iter().any(|process| process.expected_final_state == FinalState::Running)
        };
        let servers = chosen(&serves);
        let hosts = match servers.is_empty() {
            true => chosen(&|host| !host.programs().is_empty()),
            false => servers,
        };
        let whole = stop.since(SimTime::ZERO).as_nanos();
        let part = |tenths: u64| SimTime::ZERO + SimDuration::from_nanos(whole / 10 * tenths);
        let longest = SimDuration::from_nanos((whole / 5).max(1));
        let shortest = SimDuration::from_millis(100).min(longest);
        Exploration {
            hosts,
            between: (part(1), part(7)),
            faults: (1, 5),
            lasting: (shortest, longest),
            scheduling: vec![Scheduling::Fifo, Scheduling::Random],
            kinds: FaultKind::defaults(),
        }
    }
}

impl Experiment {
    /// The distribution of faults: that of section `explore`, or the [default](Exploration::of).
    pub fn exploration(&self) -> Exploration {
        self.explore.clone().unwrap_or_else(|| Exploration::of(&self.hosts, self.general.stop_time))
    }
}
