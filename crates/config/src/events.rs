//! Events: changes of the world while it runs.

use crate::Signal;
use crate::topology::P4Setup;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_net::{Loss, QueueConfig, Reordering, TokenBucket};
use belljar_radio::Point;
use std::sync::Arc;

/// A change of the world, or a schedule of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name, by which a partition is healed and its random draws are told apart.
    pub name: Option<String>,
    /// When it happens.
    pub when: When,
    /// Its duration; what it changed is then as at the start. `None`: for good.
    pub lasting: Option<SimDuration>,
    /// Action of an event.
    pub action: Action,
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Once.
    At(SimTime),
    /// At `from` and each `interval` later, up to `until`, with a probability.
    Every {
        /// The time between two occasions, not 0.
        interval: SimDuration,
        /// The first occasion.
        from: SimTime,
        /// No occasion is later; [`SimTime::MAX`] is the end of the simulation.
        until: SimTime,
        /// Probability of each occasion, from 0 to 1.
        probability: f64,
    },
}

/// Some of the experiment's hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSet {
    /// All of them.
    All,
    /// These, sorted.
    Some(Vec<HostId>),
    /// One of these, drawn anew each time.
    OneOf(Vec<HostId>),
}

impl HostSet {
    /// True if a host is, or may be drawn to be, one of them.
    pub fn may_hold(&self, host: HostId) -> bool {
        match self {
            HostSet::All => true,
            HostSet::Some(hosts) | HostSet::OneOf(hosts) => hosts.binary_search(&host).is_ok(),
        }
    }
}

/// Paths or edges that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The paths from these hosts to those, and back if `both`.
    Paths {
        /// Where they begin.
        from: HostSet,
        /// Where they end.
        to: HostSet,
        /// True if the way back is meant as well.
        both: bool,
    },
    /// The edge of the graph between two nodes, by their ids; in both directions unless the graph
    /// is directed.
    Edge(u32, u32),
    /// Links.
    Links {
        /// By their places in the list of all.
        links: Vec<usize>,
        /// Only the direction that begins at this node; `None`: both.
        from: Option<HostId>,
    },
}

/// New properties of a path or an edge; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathChange {
    /// The latency.
    pub latency: Option<SimDuration>,
    /// The jitter.
    pub jitter: Option<SimDuration>,
    /// The probability of loss.
    pub loss: Option<f64>,
    /// Properties that only links have.
    pub line: Box<LineChange>,
}

/// New properties of a link, or a direction of one; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChange {
    /// Bits per second; the inner `None` is unlimited.
    pub rate: Option<Option<u64>>,
    /// Loss of frames.
    pub loss: Option<Loss>,
    /// Reordering of frames; the inner `None` is none.
    pub reordering: Option<Option<Reordering>>,
    /// The probability that a frame arrives twice.
    pub duplication: Option<f64>,
    /// The probability that one bit of a frame arrives wrong.
    pub corruption: Option<f64>,
    /// The queue before it.
    pub queue: Option<QueueConfig>,
    /// Token bucket that limits the rate in the long run; the inner `None` is none.
    pub token_bucket: Option<Option<TokenBucket>>,
}

impl LineChange {
    /// Makes later changes on top of these.
    pub fn merge(&mut self, later: &LineChange) {
        let later = later.clone();
        self.rate = later.rate.or(self.rate);
        self.loss = later.loss.or(self.loss);
        self.reordering = later.reordering.or(self.reordering);
        self.duplication = later.duplication.or(self.duplication);
        self.corruption = later.corruption.or(self.corruption);
        self.queue = later.queue.or(self.queue.take());
        self.token_bucket = later.token_bucket.or(self.token_bucket);
    }
}

/// The process, or processes, of a host that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessRef {
    /// By place in the host's list, from 0.
    Number(usize),
    /// All whose program has this file name.
    Program(String),
}

/// Action of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing passes any more.
    LinkDown(Target),
    /// Undoes [`LinkDown`](Self::LinkDown).
    LinkUp(Target),
    /// Other properties.
    Change(Target, PathChange),
    /// The properties of the start again.
    Reset(Target),
    /// Hosts of different groups don't reach each other; hosts of none reach all.
    Partition(Vec<HostSet>),
    /// Ends the partition with this name, or all.
    Heal(Option<String>),
    /// Other bandwidths, in bits per second; the inner `None` is unlimited.
    Bandwidth {
        /// The hosts.
        hosts: HostSet,
        /// Out of the host.
        up: Option<Option<u64>>,
        /// Into the host.
        down: Option<Option<u64>>,
    },
    /// The host stops at once: no process ends in an orderly way, no connection is closed.
    Crash {
        /// The hosts.
        hosts: HostSet,
        /// True if what its programs have written is gone as well.
        lose_files: bool,
    },
    /// A crashed host starts again, and its processes with it.
    Restart(HostSet),
    /// The name server does not answer these hosts any more, or does again.
    NameServer {
        /// Whom.
        hosts: HostSet,
        /// True if it is gone.
        down: bool,
    },
    /// Processes of the host's list, and models with that name, are started, be it again.
    Start(HostSet, ProcessRef),
    /// The models with this name are stopped.
    Stop(HostSet, String),
    /// A process gets a signal.
    Signal(HostSet, ProcessRef, Signal),
    /// The clock changes.
    Clock {
        /// The hosts.
        hosts: HostSet,
        /// Jump of the wall clock, in nanoseconds.
        step_ns: Option<i64>,
        /// Drift from now on, in parts per billion faster than simulated time.
        drift_ppb: Option<i64>,
    },
    /// Stations of radios go somewhere and stay there.
    Move {
        /// The hosts.
        hosts: HostSet,
        /// Where to.
        to: Point,
        /// Metres per second; `None`: they are there at once.
        speed: Option<f64>,
    },
    /// P4 switches carry out runtime files and commands.
    P4 {
        /// Which, sorted.
        switches: Vec<HostId>,
        /// In order.
        setup: Arc<[P4Setup]>,
    },
}

/// Difference of a host's clock from simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSettings {
    /// Offset of its wall clock at the start, in nanoseconds ahead.
    pub offset_ns: i64,
    /// Drift, in parts per billion faster.
    pub drift_ppb: i64,
}
