//! Foundations that every layer of Belljar shares: simulated time, the identity of hosts, seeded random
//! streams, token buckets, a histogram of lateness and the ordered collections that stand in for the unordered ones of `std`.
//!
//! Nothing in here knows of packets, guests or files.
#![forbid(unsafe_code)]

pub mod activity;
mod event;
mod footprint;
mod hex;
mod ids;
mod inbox;
mod lateness;
mod stream;
mod time;
mod token_bucket;

pub use event::{EventClass, EventKey};
pub use footprint::{CACHE_LINE, Footprint, LineGroup};
pub use hex::hex;
pub use ids::HostId;
pub use inbox::Inbox;
pub use lateness::Lateness;
pub use stream::{Seed, Stream};
pub use time::{HZ, SimDuration, SimTime};
pub use token_bucket::{Bucket, TokenBucket};

/// The map to use in simulation code: iterated in key order, never in a random one.
pub type Map<K, V> = std::collections::BTreeMap<K, V>;
/// The set to use in simulation code: iterated in key order, never in a random one.
pub type Set<K> = std::collections::BTreeSet<K>;
