use crate::{HostId, SimTime};

/// Key of an event in the total order of a simulation: time, then class, then source in name order, then the
/// source's sequence number. Two different events never have the same key; a tie is a bug of the code that
/// created the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Time of the event.
    pub time: SimTime,
    /// Class: arrivals from other nodes precede a node's own timers.
    pub class: EventClass,
    /// Node that created the event.
    pub source: HostId,
    /// Number of events that the source created before.
    pub sequence: u64,
}

/// Class of an event, which orders events of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventClass {
    /// Arrival from another node.
    Arrival,
    /// Timer of the node itself.
    Timer,
}
