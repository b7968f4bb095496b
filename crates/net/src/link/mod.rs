//! Links: what happens to a frame between the queue at one end and its arrival at the other.
//!
//! A link has two directions that share nothing. Each is a [`LinkDirection`], which every backend drives: it takes a frame
//! and the time at which the frame's last bit departs, and gives the time of arrival, or the reason for which the
//! frame is lost. In it, in this order:
//!
//! 1. [`PathState`]: the scheduled changes up to the departure (down, partition, other latency, jitter or loss);
//! 2. [`Impairments`](crate::Impairments): loss, reordering, duplication, corruption;
//! 3. [`Flow`](crate::Flow): latency and jitter, in order.
//!
//! The queue before a direction is a [`Nic`](crate::Nic) of the interface, which waits for it and holds senders back;
//! [`LinkProperties::nic`] gives its settings. Random streams are named after the link and the node at its near end, so
//! that the same link draws the same in every backend. Each frame draws from each stream that its impairments need,
//! whether it passes or not: a frame lost for one reason does not shift the draws of later frames.
//!
//! [`GraphPath`] is the same for a path over the graph, which has no impairments besides loss and jitter.
//!
//! To add a property of links: a field in [`LinkProperties`] (and in [`LinkOverrides`] if events change it), its effect in
//! [`LinkDirection::carry`], its key in `belljar_config`.

mod current;
mod direction;
mod graph_path;
mod properties;
mod state;
#[cfg(test)]
mod tests;

pub use current::CurrentPath;
pub use direction::{Arrival, ImpairmentCounts, LinkDirection};
pub use graph_path::GraphPath;
pub use properties::{LinkOverrides, LinkProperties, PathChange};
pub use state::{DirectionChange, PathState, least_delay, least_latency};
