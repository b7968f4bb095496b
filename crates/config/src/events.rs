//! Events: changes of the simulated world during a run.

use crate::Signal;
use crate::model::{Program, Root};
use crate::topology::P4Setup;
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_machine::{CallFault, DiskFault};
use belljar_net::dns::DnsFault;
use belljar_net::link::PathChange;
use belljar_radio::Point;
use std::path::PathBuf;
use std::sync::Arc;

/// A change of the world, or a schedule of changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Position in section `events`, from 0. The random stream of an event without a name has it.
    pub number: u32,
    /// Name of the event, which identifies a partition to be healed, and the random stream.
    pub name: Option<String>,
    /// Time or schedule of the event.
    pub when: When,
    /// Duration, after which the initial state is restored. `None` for a permanent change.
    pub lasting: Option<SimDuration>,
    /// Action of the event.
    pub action: Action,
}

impl Event {
    /// Time of the first possible occurrence.
    pub fn first(&self) -> SimTime {
        match self.when {
            When::At(at) => at,
            When::Every { from, .. } => from,
        }
    }

    /// True if the event disturbs the world or undoes such a disturbance; false if it starts and stops programs, moves stations or
    /// sets up switches.
    pub fn is_fault(&self) -> bool {
        self.action.is_fault()
    }

    /// True if the event undoes events such as `other`; `None` if it does something else than to undo.
    pub fn undoes(&self, other: &Event) -> Option<bool> {
        match &self.action {
            Action::LinkUp(own) => {
                Some(matches!(&other.action, Action::LinkDown(target) if own.may_share(target)))
            }
            Action::Reset(own) => {
                Some(matches!(&other.action, Action::Change(target, _) if own.may_share(target)))
            }
            Action::Heal(name) => {
                let is_named = name.is_none() || *name == other.name;
                Some(is_named && matches!(other.action, Action::Partition(_)))
            }
            // A host gets another root whether it has crashed or not.
            Action::Restart { hosts: own, root: None } => {
                Some(matches!(&other.action, Action::Crash { hosts, .. } if own.may_share(hosts)))
            }
            Action::Resume(own) => {
                Some(matches!(&other.action, Action::Pause(hosts) if own.may_share(hosts)))
            }
            Action::ResumeProcess(own, process) => Some(matches!(
                &other.action, Action::PauseProcess(hosts, other) if own.may_share(hosts) && process.may_share(other)
            )),
            Action::DiskHeal(own) => {
                Some(matches!(&other.action, Action::DiskFault { hosts, .. } if own.may_share(hosts)))
            }
            Action::NameServer { down: false, hosts: own } => Some(
                matches!(&other.action, Action::NameServer { down: true, hosts } if own.may_share(hosts)),
            ),
            _ => None,
        }
    }

    /// Removes events that undo others, such as `link_up`, if no event of the list is undone by them.
    pub fn remove_idle(events: &mut Vec<Event>) {
        let is_idle = |event: &Event| {
            events.iter().all(|other| event.undoes(other) == Some(false)) && !events.is_empty()
        };
        let idle: Vec<bool> = events.iter().map(is_idle).collect();
        let mut idle = idle.into_iter();
        events.retain(|_| !idle.next().unwrap_or(false));
    }
}

/// Time or schedule of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Once, at this time.
    At(SimTime),
    /// At `from` and after each `interval`, up to `until`, with a probability.
    Every {
        /// Time between two occurrences, not 0.
        interval: SimDuration,
        /// Time of the first occurrence.
        from: SimTime,
        /// Latest possible occurrence; [`SimTime::MAX`] for the end of the simulation.
        until: SimTime,
        /// Probability of each occurrence, from 0 to 1.
        probability: f64,
    },
}

/// A subset of the experiment's hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSet {
    /// All hosts.
    All,
    /// Hosts of a list, sorted.
    Some(Vec<HostId>),
    /// One host of a list, drawn at each occurrence.
    OneOf(Vec<HostId>),
}

impl HostSet {
    /// True if the host belongs to the set, or may be drawn from it.
    pub fn may_hold(&self, host: HostId) -> bool {
        match self {
            HostSet::All => true,
            HostSet::Some(hosts) | HostSet::OneOf(hosts) => hosts.binary_search(&host).is_ok(),
        }
    }

    /// True if a host may be of both sets.
    pub fn may_share(&self, other: &HostSet) -> bool {
        match self {
            HostSet::All => true,
            HostSet::Some(hosts) | HostSet::OneOf(hosts) => hosts.iter().any(|host| other.may_hold(*host)),
        }
    }
}

/// Paths or edges affected by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Paths from one set of hosts to another, in both directions if `both`.
    Paths {
        /// Sources of the paths.
        from: HostSet,
        /// Destinations of the paths.
        to: HostSet,
        /// True to include the opposite direction.
        both: bool,
    },
    /// The edge of the graph between two nodes, by their ids; in both directions unless the graph is
    /// directed.
    Edge(u32, u32),
    /// Links.
    Links {
        /// Indices of the links.
        links: Vec<usize>,
        /// The node whose outgoing direction is affected; `None` for both directions.
        from: Option<HostId>,
    },
}

impl Target {
    /// True if a path, an edge or a direction of a link may be of both targets.
    pub fn may_share(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::Paths { from, to, both }, Target::Paths { from: from2, to: to2, both: both2 }) => {
                let along = from.may_share(from2) && to.may_share(to2);
                along || (*both || *both2) && from.may_share(to2) && to.may_share(from2)
            }
            (Target::Edge(a, b), Target::Edge(c, d)) => (a, b) == (c, d) || (a, b) == (d, c),
            (Target::Links { links, from }, Target::Links { links: links2, from: from2 }) => {
                let same_direction = from.is_none() || from2.is_none() || from == from2;
                same_direction && links.iter().any(|link| links2.contains(link))
            }
            _ => false,
        }
    }
}

/// Reference to one or more processes of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessRef {
    /// Index in the host's list, from 0.
    Number(usize),
    /// File name of the program; all processes that run it.
    Program(String),
}

impl ProcessRef {
    /// False if one process cannot be meant by both.
    fn may_share(&self, other: &ProcessRef) -> bool {
        match (self, other) {
            (ProcessRef::Number(own), ProcessRef::Number(other)) => own == other,
            // Processes of the list have names too, and patterns may overlap.
            _ => true,
        }
    }
}

/// Share of a processor: of each period, programs run for its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// Time between the beginnings of two periods.
    pub period: SimDuration,
    /// Processor time of a period, less than the period and not 0.
    pub slice: SimDuration,
}

impl CpuShare {
    /// Period unless another one is given: that of Linux's bandwidth control.
    pub const PERIOD: SimDuration = SimDuration::from_millis(100);

    /// The share of each period, in whole nanoseconds.
    pub fn new(share: f64, period: SimDuration) -> CpuShare {
        let nanos = (period.as_nanos() as f64 * share).round() as u64;
        CpuShare { period, slice: SimDuration::from_nanos(nanos) }
    }
    /// The share, from 0 to 1.
    pub fn share(self) -> f64 {
        self.slice.as_nanos() as f64 / self.period.as_nanos() as f64
    }
}

/// Fate of a host's files in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashFiles {
    /// All that was written is there, synced or not.
    Kept,
    /// The host has the files of its first start.
    Lost,
    /// What was not synced may be lost.
    Unsynced {
        /// True if pages may be torn.
        torn: bool,
        /// Rules of what may be lost.
        disk: DiskProfile,
    },
}

impl CrashFiles {
    /// The values in an experiment file, with the default rules.
    pub(crate) const NAMES: &'static [(&'static str, CrashFiles)] = &[
        ("kept", CrashFiles::Kept),
        ("lost", CrashFiles::Lost),
        ("unsynced", CrashFiles::Unsynced { torn: false, disk: DiskProfile::Ordered }),
        ("torn", CrashFiles::Unsynced { torn: true, disk: DiskProfile::Ordered }),
    ];

    /// The value in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            CrashFiles::Kept => "kept",
            CrashFiles::Lost => "lost",
            CrashFiles::Unsynced { torn: false, .. } => "unsynced",
            CrashFiles::Unsynced { torn: true, .. } => "torn",
        }
    }

    /// Replaces the disk's rules of a crash that has some; other values are returned unchanged.
    pub(crate) fn on(self, profile: DiskProfile) -> CrashFiles {
        match self {
            CrashFiles::Unsynced { torn, .. } => CrashFiles::Unsynced { torn, disk: profile },
            kept_or_lost => kept_or_lost,
        }
    }
}

impl DiskProfile {
    /// The values in an experiment file.
    pub(crate) const NAMES: &'static [(&'static str, DiskProfile)] =
        &[("ordered", DiskProfile::Ordered), ("any", DiskProfile::Any)];

    /// The value in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            DiskProfile::Ordered => "ordered",
            DiskProfile::Any => "any",
        }
    }
}

/// Rules of what a crash takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskProfile {
    /// ext4 with `data=ordered`.
    Ordered,
    /// Anything that is not synced.
    Any,
}

/// Ends of a connection that a reset reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEnds {
    /// Both.
    Both,
    /// That at the first hosts; the other end keeps a half-open connection.
    First,
    /// That at the second hosts.
    Second,
}

impl ResetEnds {
    /// The values in an experiment file.
    pub(crate) const NAMES: &'static [(&'static str, ResetEnds)] =
        &[("both", ResetEnds::Both), ("first", ResetEnds::First), ("second", ResetEnds::Second)];

    /// The value in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            ResetEnds::Both => "both",
            ResetEnds::First => "first",
            ResetEnds::Second => "second",
        }
    }
}

/// Root that replaces that of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRoot {
    /// The root.
    pub root: Root,
    /// Folders of the hosts that stay as they are, by absolute paths; all other files are those of the root.
    pub keep: Vec<PathBuf>,
    /// Programs of the hosts' processes in that root, in the order of each host's list.
    pub programs: Map<HostId, Vec<Program>>,
}

/// Action of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Disables the links or paths.
    LinkDown(Target),
    /// Undoes [`LinkDown`](Self::LinkDown).
    LinkUp(Target),
    /// Changes properties.
    Change(Target, PathChange),
    /// Restores the initial properties.
    Reset(Target),
    /// Separates hosts of different groups; hosts of no group reach all others.
    Partition(Vec<HostSet>),
    /// Ends the partition with this name, or all partitions.
    Heal(Option<String>),
    /// Changes bandwidths, in bits per second; the inner `None` is unlimited.
    Bandwidth {
        /// The affected hosts.
        hosts: HostSet,
        /// Upstream bandwidth.
        up: Option<Option<u64>>,
        /// Downstream bandwidth.
        down: Option<Option<u64>>,
    },
    /// Stops hosts at once: no process exits in an orderly manner, and no connection is closed.
    Crash {
        /// The affected hosts.
        hosts: HostSet,
        /// Fate of the files written by their programs.
        files: CrashFiles,
    },
    /// Restarts hosts and their processes: those that have crashed or, with another root, also those that run.
    Restart {
        /// The affected hosts.
        hosts: HostSet,
        /// Root that the hosts have from then on; `None` if it stays the same.
        root: Option<Arc<NewRoot>>,
    },
    /// Lets hosts stand still: no instruction is executed, no timer fires, and packets wait.
    Pause(HostSet),
    /// Lets paused hosts go on.
    Resume(HostSet),
    /// Lets processes stand still: one of the host's list, or all that have a name, in which `*` stands for any characters.
    PauseProcess(HostSet, ProcessRef),
    /// Lets paused processes go on.
    ResumeProcess(HostSet, ProcessRef),
    /// Lets the programs of hosts run for a share of the time only.
    Cpu {
        /// The affected hosts.
        hosts: HostSet,
        /// The share.
        share: CpuShare,
    },
    /// Lets disks fail.
    DiskFault {
        /// The affected hosts.
        hosts: HostSet,
        /// The fault.
        fault: Box<DiskFault>,
    },
    /// Ends all faults of disks.
    DiskHeal(HostSet),
    /// Resets the TCP connections between two sets of hosts.
    ConnectionReset {
        /// Hosts at the two ends.
        between: [HostSet; 2],
        /// Ends that notice.
        ends: ResetEnds,
    },
    /// Changes results of system calls.
    CallFault {
        /// The affected hosts.
        hosts: HostSet,
        /// The fault.
        fault: CallFault,
    },
    /// Limits the memory of hosts.
    Memory {
        /// The affected hosts.
        hosts: HostSet,
        /// Limit in bytes.
        limit: u64,
    },
    /// Makes the name server unavailable to hosts, or available again.
    NameServer {
        /// The affected hosts.
        hosts: HostSet,
        /// True if the name server is unavailable.
        down: bool,
    },
    /// Gives hosts wrong answers to their queries for names, or none.
    DnsAnswers {
        /// The hosts that ask.
        hosts: HostSet,
        /// The names and the answer.
        fault: DnsFault,
    },
    /// Starts processes of the host's list, and models with that name, possibly again.
    Start(HostSet, ProcessRef),
    /// Stops the models with this name.
    Stop(HostSet, String),
    /// Sends a signal to processes.
    Signal(HostSet, ProcessRef, Signal),
    /// Ends a process of the host's list, and starts its replacement.
    Upgrade {
        /// The affected hosts.
        hosts: HostSet,
        /// The process that ends.
        process: ProcessRef,
        /// The process that starts.
        to: ProcessRef,
        /// Time after which a process that has not ended by its shutdown signal is killed.
        grace: SimDuration,
    },
    /// Kills processes: one of the host's list, or all that have a name, in which `*` stands for any characters.
    Kill(HostSet, ProcessRef),
    /// Changes the clock of hosts.
    Clock {
        /// The affected hosts.
        hosts: HostSet,
        /// Step of the wall clock in nanoseconds.
        step_ns: Option<i64>,
        /// New drift in parts per billion; positive if faster than simulated time.
        drift_ppb: Option<i64>,
    },
    /// Moves stations of radios to a position.
    Move {
        /// The affected hosts.
        hosts: HostSet,
        /// The destination.
        to: Point,
        /// Speed in metres per second; `None` for an immediate move.
        speed: Option<f64>,
    },
    /// Applies runtime files and commands to P4 switches.
    P4 {
        /// The switches, sorted.
        switches: Vec<HostId>,
        /// Runtime files and commands in order.
        setup: Arc<[P4Setup]>,
    },
}

impl Action {
    /// True for a fault and for the end of one: see [`Event::is_fault`].
    pub fn is_fault(&self) -> bool {
        !matches!(self, Action::Start(..) | Action::Stop(..) | Action::Move { .. } | Action::P4 { .. })
    }
}

/// Deviation of a host's clock from simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSettings {
    /// Initial offset of the wall clock in nanoseconds; positive if ahead.
    pub offset_ns: i64,
    /// Drift in parts per billion; positive if faster.
    pub drift_ppb: i64,
    /// Time that each reading of the clock takes.
    pub reading: SimDuration,
    /// Initial offset of the PTP hardware clocks in nanoseconds; `None` for that of the wall clock.
    pub hardware_offset_ns: Option<i64>,
    /// Drift of the PTP hardware clocks in parts per billion; `None` for that of the host.
    pub hardware_drift_ppb: Option<i64>,
}
