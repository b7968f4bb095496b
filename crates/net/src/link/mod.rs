//! Links: transfer of a frame from the queue at one end to its arrival at the other.
//!
//! A link has two directions that share no state. Each is a [`LinkDirection`], used by every backend: given
//! a frame and the time at which its last bit departs, it returns the arrival time, or the reason for which
//! the frame is lost. It consists of, in this order:
//!
//! 1. [`PathState`]: the scheduled changes up to the departure (down, partition, other latency, jitter or
//!    loss);
//! 2. [`Impairments`](crate::Impairments): loss, reordering, duplication, corruption;
//! 3. [`Flow`](crate::Flow): latency and jitter, in order.
//!
//! The queue before a direction is a [`Nic`](crate::Nic) of the interface, which serialises frames and
//! exerts back-pressure on senders; [`LinkProperties::nic`] returns its settings. Random streams are named
//! after the link and the node at its near end, so that the same link draws the same values in every
//! backend. Each frame draws from each stream that its impairments need, whether or not it is lost: a frame
//! lost for one reason does not shift the draws of later frames.
//!
//! [`GraphPath`] is the counterpart for a path over the graph, which has no impairments besides loss and
//! jitter.
//!
//! To add a property of links: a field in [`LinkProperties`] (and in [`LinkOverrides`] if events change
//! it), its effect in [`LinkDirection::carry`], its key in `belljar_config`.

mod current;
mod direction;
mod graph_path;
mod loss;
mod properties;
mod state;
#[cfg(test)]
mod tests;

pub use current::CurrentPath;
pub use direction::{Arrival, ImpairmentCounts, LinkDirection};
pub use graph_path::GraphPath;
pub use loss::{LossChange, loss_over_time};
pub use properties::{LinkOverrides, LinkProperties, PathChange};
pub use state::{DirectionChange, PathState, least_delay, least_latency};
