//! The control plane of a [`Switch`](crate::Switch): what controllers, command files and P4Runtime servers call.
//!
//! Objects are numbered as the program lists them; [`Program`] finds a number by a name or the end of one
//! and describes what has it. Integers are big-endian bytes. Every operation either succeeds or changes nothing
//! and says why in a [`ControlError`], whose [`ErrorKind`] is one of gRPC's codes.
//!
//! * Tables: `add_entry`, `modify_entry`, `delete_entry`, `find_entry`, `entry`, `entries`, `clear_table`, `set_default`,
//!   `reset_default`, `default_of`, direct counters and meters by an entry's handle.
//! * Action profiles: members and groups under identifiers that the caller chooses.
//! * Counters, meters, registers, value sets, hash parameters.
//! * Replication: multicast groups, nodes, link aggregation groups, clone sessions.
//! * Digests and queues.

mod arrays;
mod dump;
mod entry;
mod error;
mod names;
mod profiles;
mod replication;
mod tables;

pub use crate::program::MatchKind;
pub use dump::TableCounts;
pub use entry::{ActionSpec, CounterData, Entry, Group, KeyMatch, Member, MeterRates};
pub use error::{ControlError, ErrorKind, Result};
pub use names::{ActionInfo, KeyInfo, ObjectKind, ParameterInfo, TableInfo};
