//! Tests: drawn states against references, promises in many draws.

mod any_reference;
mod fixture;
mod ordered_reference;
mod promises;
mod sequences;
