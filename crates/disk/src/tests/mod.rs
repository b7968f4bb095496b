//! Tests: drawn states against references, promises in many draws.

mod any_reference;
mod failed_syncs;
pub(crate) mod fixture;
mod ordered_reference;
mod promises;
mod sequences;

pub(crate) use fixture::patched;
