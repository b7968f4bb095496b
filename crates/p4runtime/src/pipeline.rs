//! Interface between the control servers and the switch.
//!
//! [`Device`] is the switch: it loads programs and accepts packets. [`Pipeline`] is a loaded program with its
//! state. Objects are addressed by their names in the program, which are the same in P4Info and in BMv2's
//! JSON. Numbers are unsigned, big-endian and of any length ([`crate::bytestring`]).

use crate::refusal::Refusal;
use belljar_base::SimTime;
use belljar_p4info::Object;

/// Handle of a table entry, member or group, valid until its deletion.
pub type Handle = u64;

/// Match on one key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Equality.
    Exact(Vec<u8>),
    /// Match on a prefix.
    Lpm {
        /// The value.
        value: Vec<u8>,
        /// Prefix length in bits.
        length: u32,
    },
    /// Match on the bits set in a mask.
    Ternary {
        /// The value.
        value: Vec<u8>,
        /// The mask.
        mask: Vec<u8>,
    },
    /// Match on a range, both ends included.
    Range {
        /// Minimum.
        low: Vec<u8>,
        /// Maximum.
        high: Vec<u8>,
    },
    /// Equality, or any value if `None`.
    Optional(Option<Vec<u8>>),
}

/// Action with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the action.
    pub action: String,
    /// One value per parameter.
    pub arguments: Vec<Vec<u8>>,
}

/// Action of a table entry: direct, or by the table's action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An action.
    Action(Call),
    /// A member of the table's action profile.
    Member(Handle),
    /// A group of the table's action profile.
    Group(Handle),
}

/// Table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Handle of the entry.
    pub handle: Handle,
    /// One match per key field.
    pub keys: Vec<Key>,
    /// Priority: the greatest wins; 0 in tables whose match kinds need none.
    pub priority: i32,
    /// Action of the entry.
    pub target: Target,
    /// True if the program declares the entry constant.
    pub is_const: bool,
}

/// Membership in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Handle of the member.
    pub member: Handle,
    /// Relative weight.
    pub weight: u32,
    /// Port to watch: the member is disabled while the port is down.
    pub watch_port: Option<u32>,
}

/// Counter value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// Meter rates in bytes or packets per second, and bursts in bytes or packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Committed information rate.
    pub committed: u64,
    /// Committed burst size.
    pub committed_burst: u64,
    /// Peak information rate.
    pub peak: u64,
    /// Peak burst size.
    pub peak_burst: u64,
}

/// Replica created by multicast or cloning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Egress port.
    pub port: u32,
    /// `egress_rid` of the replica.
    pub instance: u32,
}

/// Digest configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Length of a full list, in samples.
    pub size: usize,
    /// Maximum time in ns that a sample waits for others.
    pub wait: u64,
    /// Time in ns during which a reported but unacknowledged sample is not reported again.
    pub silence: u64,
}

/// Loaded program and its state.
pub trait Pipeline {
    /// True if the program contains the object.
    fn has(&self, object: Object<'_>) -> bool;

    /// Entries of a table.
    fn entries(&self, table: &str) -> Vec<Entry>;
    /// Adds an entry. The caller ensures that no entry with the same key exists.
    fn insert(
        &mut self,
        table: &str,
        keys: &[Key],
        priority: i32,
        target: &Target,
    ) -> Result<Handle, Refusal>;
    /// Replaces the action of an entry.
    fn modify(&mut self, table: &str, handle: Handle, target: &Target) -> Result<(), Refusal>;
    /// Deletes an entry.
    fn delete(&mut self, table: &str, handle: Handle) -> Result<(), Refusal>;
    /// Default action, if any.
    fn default_action(&self, table: &str) -> Option<Call>;
    /// Sets the default action; `None` restores that of the program.
    fn set_default_action(&mut self, table: &str, call: Option<&Call>) -> Result<(), Refusal>;
    /// Sets the idle timeout in ns, after which an entry without a hit is reported; 0 disables it.
    fn set_idle_timeout(&mut self, table: &str, handle: Handle, timeout: u64) -> Result<(), Refusal>;
    /// Time in ns since the last hit of an entry.
    fn idle_time(&self, table: &str, handle: Handle) -> Result<u64, Refusal>;

    /// Adds a member to an action profile.
    fn add_member(&mut self, profile: &str, call: &Call) -> Result<Handle, Refusal>;
    /// Replaces the action of a member.
    fn modify_member(&mut self, profile: &str, member: Handle, call: &Call) -> Result<(), Refusal>;
    /// Deletes an unreferenced member.
    fn delete_member(&mut self, profile: &str, member: Handle) -> Result<(), Refusal>;
    /// Adds a group.
    fn add_group(&mut self, profile: &str, shares: &[Share]) -> Result<Handle, Refusal>;
    /// Replaces the members of a group.
    fn modify_group(&mut self, profile: &str, group: Handle, shares: &[Share]) -> Result<(), Refusal>;
    /// Deletes a group that no entry references.
    fn delete_group(&mut self, profile: &str, group: Handle) -> Result<(), Refusal>;

    /// The members of an action profile.
    fn members(&self, profile: &str) -> Vec<(Handle, Call)>;
    /// The groups of an action profile.
    fn groups(&self, profile: &str) -> Vec<(Handle, Vec<Share>)>;

    /// Returns a counter.
    fn counter(&self, counter: &str, index: usize) -> Result<Count, Refusal>;
    /// Sets a counter.
    fn set_counter(&mut self, counter: &str, index: usize, count: Count) -> Result<(), Refusal>;
    /// The direct counter of an entry.
    fn entry_counter(&self, table: &str, handle: Handle) -> Result<Count, Refusal>;
    /// Sets the direct counter of an entry.
    fn set_entry_counter(&mut self, table: &str, handle: Handle, count: Count) -> Result<(), Refusal>;

    /// Rates of a meter; `None` if unset, when all packets are green.
    fn meter(&self, meter: &str, index: usize) -> Result<Option<Rates>, Refusal>;
    /// Sets a meter's rates.
    fn set_meter(&mut self, meter: &str, index: usize, rates: Option<Rates>) -> Result<(), Refusal>;
    /// The rates of an entry's direct meter.
    fn entry_meter(&self, table: &str, handle: Handle) -> Result<Option<Rates>, Refusal>;
    /// Sets the rates of an entry's direct meter.
    fn set_entry_meter(&mut self, table: &str, handle: Handle, rates: Option<Rates>) -> Result<(), Refusal>;

    /// Returns a register.
    fn register(&self, register: &str, index: usize) -> Result<Vec<u8>, Refusal>;
    /// Sets a register.
    fn set_register(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), Refusal>;

    /// Sets the replicas of a multicast group; `None` deletes the group.
    fn set_multicast_group(&mut self, group: u32, copies: Option<&[Copy]>) -> Result<(), Refusal>;
    /// Sets the replicas and the maximum packet length in bytes (0 for no limit) of a clone session; `None`
    /// deletes the session.
    fn set_clone_session(&mut self, session: u32, copies: Option<(&[Copy], u32)>) -> Result<(), Refusal>;
    /// All multicast groups with their replicas.
    fn multicast_groups(&self) -> Vec<(u32, Vec<Copy>)>;
    /// All clone sessions with their replicas and maximum packet length in bytes (0 for no limit).
    fn clone_sessions(&self) -> Vec<(u32, Vec<Copy>, u32)>;
    /// Configures a digest.
    fn set_digest(&mut self, digest: &str, gathering: Gathering) -> Result<(), Refusal>;
    /// Acknowledges a digest list.
    fn acknowledge_digest(&mut self, digest: &str, list: u64) -> Result<(), Refusal>;
    /// Sets the members of a parser value set, one match per field; `widths` are the widths of the fields in
    /// bits.
    fn set_value_set(&mut self, value_set: &str, members: &[Vec<Key>], widths: &[u32])
    -> Result<(), Refusal>;
}

/// Switch with a replaceable program.
pub trait Device {
    /// Type of loaded programs.
    type Pipeline: Pipeline;

    /// Loads a program from a device configuration: BMv2 JSON.
    fn load(&self, config: &[u8]) -> Result<Self::Pipeline, Refusal>;
    /// The running program.
    fn pipeline(&mut self) -> Option<&mut Self::Pipeline>;
    /// Replaces the running program and its state.
    fn install(&mut self, pipeline: Self::Pipeline);
    /// Current time, which never decreases.
    fn now(&self) -> SimTime {
        SimTime::ZERO
    }
    /// Delivers a packet, including its packet-out header, at the CPU port.
    fn packet_out(&mut self, frame: Vec<u8>) -> Result<(), Refusal>;
}
