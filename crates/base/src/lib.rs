//! Foundations shared by all layers of Belljar: simulated time, host ids, seeded random streams and
//! their choices as data, token buckets, a histogram of lateness, the account of packets, disjoint sets, patterns of names, and ordered collections that
//! replace the unordered ones of `std`.
//!
//! The crate is independent of packets, guests and files.
#![forbid(unsafe_code)]

mod account;
pub mod activity;
pub mod choices;
mod disjoint_sets;
mod event;
mod footprint;
mod hex;
mod ids;
mod inbox;
mod lateness;
pub mod map;
mod set;
mod setup;
mod stream;
mod time;
mod token_bucket;
mod wildcard;

pub use account::PacketAccount;
pub use disjoint_sets::DisjointSets;
pub use event::{EventClass, EventKey};
pub use footprint::{CACHE_LINE, Footprint, LineGroup};
pub use hex::hex;
pub use ids::HostId;
pub use inbox::Inbox;
pub use lateness::Lateness;
pub use map::Map;
pub use set::Set;
pub use setup::{Setup, Start};
pub use stream::{Random, Seed, Stream};
pub use time::{HZ, SimDuration, SimTime};
pub use token_bucket::{Bucket, TokenBucket};
pub use wildcard::matches_wildcard;
