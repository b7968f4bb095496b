use crate::{HostId, SimTime};

/// The place of an event in the one total order of a simulation: by time, then class, then source
/// in name order, then the source's own sequence number. Two different events never have the same
/// key; a tie is a bug of whoever made the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Time of the event.
    pub time: SimTime,
    /// Arrivals from other nodes come before a node's own timers.
    pub class: EventClass,
    /// The node that made it.
    pub source: HostId,
    /// The source's count of events made.
    pub sequence: u64,
}

/// Decides between events of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventClass {
    /// Something arrives from another node.
    Arrival,
    /// A node's own timer.
    Timer,
}
