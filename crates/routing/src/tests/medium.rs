//! Properties of one direction of a link.

use std::time::Duration;

/// One direction of a link between two interfaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub delay: Duration,
    /// Upper bound of a random additional delay, which reorders packets.
    pub jitter: Duration,
    /// Probability of packet loss.
    pub loss: f64,
}

impl Medium {
    /// One millisecond, without loss or reordering.
    pub const GOOD: Medium = Medium { delay: Duration::from_millis(1), jitter: Duration::ZERO, loss: 0.0 };

    pub fn loss(loss: f64) -> Medium {
        Medium { loss, ..Medium::GOOD }
    }
}
