use belljar_base::SimDuration;

/// Match value of one key field in an entry. Integers are big-endian and of any length, provided that their
/// value fits the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// Equality.
    Exact(Vec<u8>),
    /// A prefix.
    Lpm {
        /// Value; bits beyond the prefix are ignored.
        value: Vec<u8>,
        /// Prefix length in bits.
        prefix: u32,
    },
    /// Equality under a mask. For `optional` keys the mask is zero or all ones.
    Ternary {
        /// Value; bits outside the mask are ignored.
        value: Vec<u8>,
        /// Mask.
        mask: Vec<u8>,
    },
    /// A range, both ends included.
    Range {
        /// First value.
        low: Vec<u8>,
        /// Last value.
        high: Vec<u8>,
    },
    /// Any value. Not valid for `exact` keys.
    Any,
}

/// Action of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionSpec {
    /// An action with its arguments.
    Direct {
        /// Action index: see [`Program::action_of`](crate::Program::action_of).
        action: u32,
        /// Arguments, big-endian.
        arguments: Vec<Vec<u8>>,
    },
    /// A member of the table's action profile, by identifier.
    Member(u32),
    /// A group of the table's action profile, by identifier.
    Group(u32),
}

/// Table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Match values of the key fields, in key order.
    pub key: Vec<KeyMatch>,
    /// Priority in tables with ternary, range or optional keys: the smallest matching entry wins. 0 in other
    /// tables.
    pub priority: i32,
    /// Action.
    pub action: ActionSpec,
    /// Idle timeout: time without a hit after which the control plane is notified.
    pub idle_timeout: Option<SimDuration>,
}

/// Counter value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterData {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Meter rates, in the meter's unit: bytes or packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterRates {
    /// Committed rate per second.
    pub committed: u64,
    /// Committed burst.
    pub committed_burst: u64,
    /// Peak rate per second.
    pub peak: u64,
    /// Peak burst.
    pub peak_burst: u64,
}

/// Member of an action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identifier.
    pub id: u32,
    /// Action index.
    pub action: u32,
    /// Arguments, big-endian.
    pub arguments: Vec<Vec<u8>>,
}

/// Member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Identifier of the member.
    pub member: u32,
    /// Weight of the member, relative to the weights of the other members.
    pub weight: u32,
    /// Port without whose carrier the member is not selected; `None` if the member is always eligible.
    pub watch_port: Option<u32>,
}

/// Group of members of an action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Identifier.
    pub id: u32,
    /// Maximum total weight of the members; 0 for no limit.
    pub max_size: u32,
    /// Identifier and weight of each member.
    pub members: Vec<(u32, u32)>,
}
