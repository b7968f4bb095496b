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
pub mod map;
mod set;
mod stream;
mod time;
mod token_bucket;

pub use event::{EventClass, EventKey};
pub use footprint::{CACHE_LINE, Footprint, LineGroup};
pub use hex::hex;
pub use ids::HostId;
pub use inbox::Inbox;
pub use lateness::Lateness;
pub use map::Map;
pub use set::Set;
pub use stream::{Seed, Stream};
pub use time::{HZ, SimDuration, SimTime};
pub use token_bucket::{Bucket, TokenBucket};
