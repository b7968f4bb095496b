//! Anomalies, and the isolation levels that each of them excludes.

use std::fmt;
use std::str::FromStr;

/// Isolation level that a history of transactions can be held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Adya's PL-1: writes are not interleaved.
    ReadUncommitted,
    /// Adya's PL-2: only committed, final values are read.
    ReadCommitted,
    /// Adya's PL-2.99: serializable as far as reads of keys show.
    RepeatableRead,
    /// Reads are of one snapshot, and of concurrent writers of a key only one commits.
    SnapshotIsolation,
    /// Adya's PL-3: as if one transaction ran after the other.
    Serializable,
    /// Snapshot isolation in an order that each process's transactions follow.
    StrongSessionSnapshotIsolation,
    /// Snapshot isolation in an order that real time follows.
    StrongSnapshotIsolation,
    /// Serializable in an order that each process's transactions follow.
    StrongSessionSerializable,
    /// Serializable in an order that real time follows.
    #[default]
    StrictSerializable,
}

use Level::*;

impl Level {
    /// All levels, none before one that it is stronger than.
    pub const ALL: [Level; 9] = [
        ReadUncommitted,
        ReadCommitted,
        RepeatableRead,
        SnapshotIsolation,
        Serializable,
        StrongSessionSnapshotIsolation,
        StrongSnapshotIsolation,
        StrongSessionSerializable,
        StrictSerializable,
    ];

    /// Name, such as `snapshot-isolation`.
    pub fn name(self) -> &'static str {
        match self {
            ReadUncommitted => "read-uncommitted",
            ReadCommitted => "read-committed",
            RepeatableRead => "repeatable-read",
            SnapshotIsolation => "snapshot-isolation",
            Serializable => "serializable",
            StrongSessionSnapshotIsolation => "strong-session-snapshot-isolation",
            StrongSnapshotIsolation => "strong-snapshot-isolation",
            StrongSessionSerializable => "strong-session-serializable",
            StrictSerializable => "strict-serializable",
        }
    }

    /// Levels next below: what they exclude, this one excludes.
    fn weaker(self) -> &'static [Level] {
        match self {
            ReadUncommitted => &[],
            ReadCommitted => &[ReadUncommitted],
            RepeatableRead | SnapshotIsolation => &[ReadCommitted],
            Serializable => &[RepeatableRead, SnapshotIsolation],
            StrongSessionSnapshotIsolation => &[SnapshotIsolation],
            StrongSnapshotIsolation => &[StrongSessionSnapshotIsolation],
            StrongSessionSerializable => &[Serializable, StrongSessionSnapshotIsolation],
            StrictSerializable => &[StrongSessionSerializable, StrongSnapshotIsolation],
        }
    }

    /// True if a history with the anomaly cannot occur under this level.
    pub fn excludes(self, anomaly: Anomaly) -> bool {
        anomaly.excluded().contains(&self) || self.weaker().iter().any(|level| level.excludes(anomaly))
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Level, String> {
        Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
            format!("choose one of {}", names.join(", "))
        })
    }
}

/// Edges beyond dependencies that a cycle has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extra {
    /// None.
    None,
    /// At least one between transactions of one process.
    Process,
    /// At least one of real time.
    Realtime,
}

/// Phenomenon that some isolation level excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A read shows an element twice.
    DuplicateElements,
    /// A read shows a value that nothing has written.
    GarbageRead,
    /// A read shows a value of a transaction that failed: an aborted read.
    G1a,
    /// A read shows a value that its own transaction has overwritten: an intermediate read.
    G1b,
    /// Two reads of a key show its elements in orders that no order of versions has.
    IncompatibleOrder,
    /// A transaction's read contradicts what the same transaction has read or written before.
    Internal,
    /// Two transactions read the same version of a key, and both overwrite it.
    LostUpdate,
    /// Cycle of writes that overwrite each other.
    G0(Extra),
    /// Cycle of writes and reads of them.
    G1c(Extra),
    /// Cycle with one read of a version that the next transaction overwrites.
    GSingle(Extra),
    /// Cycle with several such reads, none next to another.
    GNonadjacent(Extra),
    /// Cycle with such reads next to each other.
    G2Item(Extra),
}

impl Anomaly {
    /// Levels that exclude the anomaly; those that are stronger do, too.
    fn excluded(self) -> &'static [Level] {
        use Anomaly::*;
        match self {
            DuplicateElements | G0(Extra::None) => &[ReadUncommitted],
            GarbageRead | G1a | G1b | IncompatibleOrder | G1c(Extra::None) => &[ReadCommitted],
            Internal | LostUpdate => &[RepeatableRead, SnapshotIsolation],
            GSingle(Extra::None) | GNonadjacent(Extra::None) => &[RepeatableRead, SnapshotIsolation],
            G2Item(Extra::None) => &[RepeatableRead],
            G2Item(Extra::Process) => &[StrongSessionSerializable],
            G2Item(Extra::Realtime) => &[StrictSerializable],
            G0(extra) | G1c(extra) | GSingle(extra) | GNonadjacent(extra) => match extra {
                Extra::Realtime => &[StrongSnapshotIsolation],
                Extra::None | Extra::Process => &[StrongSessionSnapshotIsolation],
            },
        }
    }

    /// Meaning in a few words.
    pub fn meaning(self) -> &'static str {
        use Anomaly::*;
        match self {
            DuplicateElements => "a read has an element twice",
            GarbageRead => "a read has a value that nothing has written",
            G1a => "aborted read: a read has a value of a transaction that failed",
            G1b => "intermediate read: a read has a value that its writer has overwritten",
            IncompatibleOrder => "two reads have the elements of a key in different orders",
            Internal => "a read contradicts its own transaction",
            LostUpdate => "transactions read the same version of a key and overwrite it",
            G0(_) => "cycle of writes",
            G1c(_) => "cycle of writes and reads of them",
            GSingle(_) => "cycle with one read that is overwritten",
            GNonadjacent(_) => "cycle with several reads that are overwritten, none next to another",
            G2Item(_) => "cycle with reads that are overwritten, next to each other",
        }
    }
}

impl fmt::Display for Anomaly {
    /// Writes the name, such as `G-single-realtime`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Anomaly::*;
        let (name, extra) = match *self {
            DuplicateElements => ("duplicate-elements", Extra::None),
            GarbageRead => ("garbage-read", Extra::None),
            G1a => ("G1a", Extra::None),
            G1b => ("G1b", Extra::None),
            IncompatibleOrder => ("incompatible-order", Extra::None),
            Internal => ("internal", Extra::None),
            LostUpdate => ("lost-update", Extra::None),
            G0(extra) => ("G0", extra),
            G1c(extra) => ("G1c", extra),
            GSingle(extra) => ("G-single", extra),
            GNonadjacent(extra) => ("G-nonadjacent", extra),
            G2Item(extra) => ("G2-item", extra),
        };
        let extra = match extra {
            Extra::None => "",
            Extra::Process => "-process",
            Extra::Realtime => "-realtime",
        };
        write!(f, "{name}{extra}")
    }
}
