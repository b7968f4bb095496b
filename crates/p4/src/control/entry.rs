use belljar_base::SimDuration;

/// Value of one field of a table's key in an entry. Integers are big-endian and may be shorter or longer than the field,
/// as long as their value fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// Equal.
    Exact(Vec<u8>),
    /// A prefix of so many bits.
    Lpm {
        /// Value; bits beyond the prefix are ignored.
        value: Vec<u8>,
        /// Bits.
        prefix: u32,
    },
    /// Equal in the bits of a mask. For `optional` keys the mask is zero or all ones.
    Ternary {
        /// Value; bits outside the mask are ignored.
        value: Vec<u8>,
        /// Mask.
        mask: Vec<u8>,
    },
    /// From a first to a last value.
    Range {
        /// First value.
        low: Vec<u8>,
        /// Last value.
        high: Vec<u8>,
    },
    /// Any value. Not for `exact` keys.
    Any,
}

/// Action of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionSpec {
    /// An action with arguments.
    Direct {
        /// Number of the action: see [`Program::action_of`](crate::Program::action_of).
        action: u32,
        /// Arguments, big-endian.
        arguments: Vec<Vec<u8>>,
    },
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action profile.
    Group(u32),
}

/// Entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Values of the key's fields, in their order.
    pub key: Vec<KeyMatch>,
    /// Rank among the entries that match, the smallest first, in tables with ternary, range or optional keys.
    /// Elsewhere 0.
    pub priority: i32,
    /// Action.
    pub action: ActionSpec,
    /// Time without a hit after which the control plane is told.
    pub idle_timeout: Option<SimDuration>,
}

/// Packets and bytes that a counter has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterData {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Rates of a meter, in its unit: bytes or packets.
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
    /// Number of its action.
    pub action: u32,
    /// Arguments, big-endian.
    pub arguments: Vec<Vec<u8>>,
}

/// Group of members of an action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Identifier.
    pub id: u32,
    /// Most members, weights counted; 0 without a limit.
    pub max_size: u32,
    /// Identifiers and weights of its members.
    pub members: Vec<(u32, u32)>,
}
