//! The properties of one direction of a link.

use std::time::Duration;

/// One direction of a link between two interfaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub delay: Duration,
    /// The upper bound of a random extra delay: packets overtake each other.
    pub jitter: Duration,
    /// The probability of losing a packet.
    pub loss: f64,
}

impl Medium {
    /// One millisecond, nothing lost, nothing reordered.
    pub const GOOD: Medium = Medium { delay: Duration::from_millis(1), jitter: Duration::ZERO, loss: 0.0 };

    pub fn loss(loss: f64) -> Medium {
        Medium { loss, ..Medium::GOOD }
    }
}
