//! Control plane of a [`Switch`](crate::Switch), used by controllers, command files and P4Runtime servers.
//!
//! Objects are addressed by their index in the program. [`Program`] maps a name, or an unambiguous suffix of
//! one, to an index and describes the object. Integers are big-endian bytes. An operation either succeeds or
//! has no effect and returns a [`ControlError`], whose [`ErrorKind`] corresponds to a gRPC status code.
//!
//! * Tables: `add_entry`, `modify_entry`, `delete_entry`, `find_entry`, `entry`, `entries`, `clear_table`,
//!   `set_default`, `reset_default`, `default_of`; direct counters and meters by entry handle.
//! * Action profiles: members and groups, with identifiers chosen by the caller.
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
pub use entry::{ActionSpec, CounterData, Entry, Group, KeyMatch, Member, MeterRates, Share};
pub use error::{ControlError, ErrorKind, Result};
pub use names::{ActionInfo, KeyInfo, ObjectKind, ParameterInfo, TableInfo};
