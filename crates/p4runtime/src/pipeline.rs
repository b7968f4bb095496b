//! The seam between the control servers and the switch.
//!
//! [`Device`] is the switch: it loads programs and takes packets. [`Pipeline`] is one loaded program with its state. Objects
//! are addressed by the names that the program gives them, which are the same in P4Info and in BMv2's JSON; numbers are
//! unsigned, big-endian and of any length ([`crate::bytestring`]).

use crate::refusal::Refusal;
use belljar_base::SimTime;
use belljar_p4info::Object;

/// Names an entry of a table, a member or a group from when it is added until it is deleted.
pub type Handle = u64;

/// The match of one field of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The value itself.
    Exact(Vec<u8>),
    /// The first `length` bits of a value.
    Lpm {
        /// The value.
        value: Vec<u8>,
        /// The bits that are compared.
        length: u32,
    },
    /// The bits that are 1 in a mask.
    Ternary {
        /// The value.
        value: Vec<u8>,
        /// The mask.
        mask: Vec<u8>,
    },
    /// All values between two, both included.
    Range {
        /// The least.
        low: Vec<u8>,
        /// The greatest.
        high: Vec<u8>,
    },
    /// The value itself, or any.
    Optional(Option<Vec<u8>>),
}

/// An action and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The action's name.
    pub action: String,
    /// One value a parameter.
    pub arguments: Vec<Vec<u8>>,
}

/// The action of a table's entry: direct, or by the table's action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An action.
    Action(Call),
    /// A member of the table's action profile.
    Member(Handle),
    /// A group of the table's action profile.
    Group(Handle),
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in other calls.
    pub handle: Handle,
    /// One match a field.
    pub keys: Vec<Key>,
    /// The entry with the greatest priority wins; 0 where the table's kinds of match need none.
    pub priority: i32,
    /// Its action.
    pub target: Target,
    /// The program says that it can't be changed.
    pub is_const: bool,
}

/// A member's place in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The member.
    pub member: Handle,
    /// Its weight against the others'.
    pub weight: u32,
    /// The member is left out while this port is down.
    pub watch_port: Option<u32>,
}

/// A counter's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// A meter's rates, in bytes or packets a second, and bursts, in bytes or packets.
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

/// A copy that multicast or cloning makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The egress port.
    pub port: u32,
    /// `egress_rid` of the copy.
    pub instance: u32,
}

/// Settings for gathering a digest's samples into lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Samples with which a list is full.
    pub size: usize,
    /// The time in ns for which a sample waits for others.
    pub wait: u64,
    /// The time in ns for which a sample that was told and not acknowledged is not told again.
    pub silence: u64,
}

/// A loaded program and its state.
pub trait Pipeline {
    /// True if the program has such an object.
    fn has(&self, object: Object<'_>) -> bool;

    /// All entries of a table.
    fn entries(&self, table: &str) -> Vec<Entry>;
    /// Adds an entry; the caller has seen to it that there is none of the same key.
    fn insert(
        &mut self,
        table: &str,
        keys: &[Key],
        priority: i32,
        target: &Target,
    ) -> Result<Handle, Refusal>;
    /// Changes what an entry runs.
    fn modify(&mut self, table: &str, handle: Handle, target: &Target) -> Result<(), Refusal>;
    /// Deletes an entry.
    fn delete(&mut self, table: &str, handle: Handle) -> Result<(), Refusal>;
    /// The default action, if there is one.
    fn default_action(&self, table: &str) -> Option<Call>;
    /// Sets the default action, or that of the program.
    fn set_default_action(&mut self, table: &str, call: Option<&Call>) -> Result<(), Refusal>;
    /// Sets the time in ns after which an entry without a hit is told of; 0 for never.
    fn set_idle_timeout(&mut self, table: &str, handle: Handle, timeout: u64) -> Result<(), Refusal>;
    /// The time in ns since an entry was hit.
    fn idle_time(&self, table: &str, handle: Handle) -> Result<u64, Refusal>;

    /// Adds a member to an action profile.
    fn add_member(&mut self, profile: &str, call: &Call) -> Result<Handle, Refusal>;
    /// Changes a member's action.
    fn modify_member(&mut self, profile: &str, member: Handle, call: &Call) -> Result<(), Refusal>;
    /// Deletes a member that nothing refers to.
    fn delete_member(&mut self, profile: &str, member: Handle) -> Result<(), Refusal>;
    /// Adds a group.
    fn add_group(&mut self, profile: &str, shares: &[Share]) -> Result<Handle, Refusal>;
    /// Changes a group's members.
    fn modify_group(&mut self, profile: &str, group: Handle, shares: &[Share]) -> Result<(), Refusal>;
    /// Deletes a group that no entry refers to.
    fn delete_group(&mut self, profile: &str, group: Handle) -> Result<(), Refusal>;

    /// The members of an action profile.
    fn members(&self, profile: &str) -> Vec<(Handle, Call)>;
    /// The groups of an action profile.
    fn groups(&self, profile: &str) -> Vec<(Handle, Vec<Share>)>;

    /// A counter.
    fn counter(&self, counter: &str, index: usize) -> Result<Count, Refusal>;
    /// Sets a counter.
    fn set_counter(&mut self, counter: &str, index: usize, count: Count) -> Result<(), Refusal>;
    /// The direct counter of an entry.
    fn entry_counter(&self, table: &str, handle: Handle) -> Result<Count, Refusal>;
    /// Sets the direct counter of an entry.
    fn set_entry_counter(&mut self, table: &str, handle: Handle, count: Count) -> Result<(), Refusal>;

    /// A meter's rates; none while it marks everything green.
    fn meter(&self, meter: &str, index: usize) -> Result<Option<Rates>, Refusal>;
    /// Sets a meter's rates.
    fn set_meter(&mut self, meter: &str, index: usize, rates: Option<Rates>) -> Result<(), Refusal>;
    /// The rates of an entry's direct meter.
    fn entry_meter(&self, table: &str, handle: Handle) -> Result<Option<Rates>, Refusal>;
    /// Sets the rates of an entry's direct meter.
    fn set_entry_meter(&mut self, table: &str, handle: Handle, rates: Option<Rates>) -> Result<(), Refusal>;

    /// A register.
    fn register(&self, register: &str, index: usize) -> Result<Vec<u8>, Refusal>;
    /// Sets a register.
    fn set_register(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), Refusal>;

    /// Sets the copies of a multicast group, or deletes it.
    fn set_multicast_group(&mut self, group: u32, copies: Option<&[Copy]>) -> Result<(), Refusal>;
    /// Sets the copies of a clone session and the bytes of a packet that they keep (0 for all), or deletes it.
    fn set_clone_session(&mut self, session: u32, copies: Option<(&[Copy], u32)>) -> Result<(), Refusal>;
    /// All multicast groups with their copies.
    fn multicast_groups(&self) -> Vec<(u32, Vec<Copy>)>;
    /// All clone sessions with their copies and the bytes of a packet that they keep (0 for all).
    fn clone_sessions(&self) -> Vec<(u32, Vec<Copy>, u32)>;
    /// Sets how a digest's samples are gathered into lists.
    fn set_digest(&mut self, digest: &str, gathering: Gathering) -> Result<(), Refusal>;
    /// A controller has a list of samples.
    fn acknowledge_digest(&mut self, digest: &str, list: u64) -> Result<(), Refusal>;
    /// Sets the members of a parser's value set, one match a field each; `widths` are those of the fields.
    fn set_value_set(&mut self, value_set: &str, members: &[Vec<Key>], widths: &[u32])
    -> Result<(), Refusal>;
}

/// A switch.
pub trait Device {
    /// The programs that it runs.
    type Pipeline: Pipeline;

    /// Makes a program of a device configuration: BMv2's JSON.
    fn load(&self, config: &[u8]) -> Result<Self::Pipeline, Refusal>;
    /// The program that packets go through.
    fn pipeline(&mut self) -> Option<&mut Self::Pipeline>;
    /// Lets packets go through a program, its state included, instead of the one before.
    fn install(&mut self, pipeline: Self::Pipeline);
    /// The time, which does not decrease.
    fn now(&self) -> SimTime {
        SimTime::ZERO
    }
    /// Takes a packet at the CPU port, its packet-out header included.
    fn packet_out(&mut self, frame: Vec<u8>) -> Result<(), Refusal>;
}
