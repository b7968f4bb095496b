//! Linearizability: each operation appears to take effect at one instant between its invocation and its completion.

mod check;
mod explain;
mod model;
mod search;
mod shrink;
#[cfg(test)]
mod tests;

pub use check::check_linearizable;
pub(crate) use check::check_objects;
pub use model::Model;
pub use search::Limits;
