//! Properties of one direction of a link, and changes of them.

use crate::nic::{NicConfig, QueueConfig, TokenBucket};
use crate::{Loss, Path, Reordering};
use belljar_base::{Seed, SimDuration};

/// Properties of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkProperties {
    /// Rate in bits per second; `None` is unlimited.
    pub rate: Option<u64>,
    /// Latency: the time from the departure of a frame's last bit to its arrival.
    pub latency: SimDuration,
    /// Jitter: the latency is uniform in `latency ± jitter`.
    pub jitter: SimDuration,
    /// Loss of frames.
    pub loss: Loss,
    /// Reordering of frames.
    pub reordering: Option<Reordering>,
    /// Probability that a frame arrives twice.
    pub duplication: f64,
    /// Probability that one bit of a frame is flipped.
    pub corruption: f64,
    /// Queue before the link.
    pub queue: QueueConfig,
    /// Token bucket that limits the rate in the long run.
    pub token_bucket: Option<TokenBucket>,
    /// Overhead of each frame on the wire in bytes, in addition to its length.
    pub overhead: u64,
}

impl Default for LinkProperties {
    fn default() -> LinkProperties {
        LinkProperties {
            rate: Some(1_000_000_000),
            latency: SimDuration::from_micros(10),
            jitter: SimDuration::ZERO,
            loss: Loss::Independent(0.0),
            reordering: None,
            duplication: 0.0,
            corruption: 0.0,
            queue: QueueConfig::default(),
            token_bucket: None,
            overhead: 0,
        }
    }
}

impl LinkProperties {
    /// Path of the frames. Its loss is 0, because [`Impairments`](crate::Impairments) apply the loss of a
    /// link.
    pub fn path(&self) -> Path {
        Path::new(self.latency, self.jitter, 0.0)
    }

    /// Settings of the queue before the direction of link `link` that begins at node `from`, for frames of
    /// at most `max_frame` bytes with their Ethernet headers.
    pub fn nic(&self, max_frame: usize, seed: Seed, link: &str, from: &str) -> NicConfig {
        NicConfig {
            bandwidth_up: self.rate,
            queue: self.queue.clone(),
            token_bucket: self.token_bucket,
            overhead: self.overhead,
            framed: true,
            mtu: max_frame,
            seed: seed.stream(&["link", link, from, "queue"]).next_u64(),
            ..NicConfig::default()
        }
    }
}

/// New properties of a path over the graph or of a direction of a link; `None` keeps the current value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathChange {
    /// New latency.
    pub latency: Option<SimDuration>,
    /// New jitter.
    pub jitter: Option<SimDuration>,
    /// New probability of loss on a path over the graph.
    pub loss: Option<f64>,
    /// Properties that only links have.
    pub link: Box<LinkOverrides>,
}

/// New properties of a direction of a link that paths over the graph do not have; `None` keeps the current
/// value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkOverrides {
    /// Rate in bits per second; the inner `None` is unlimited.
    pub rate: Option<Option<u64>>,
    /// Loss of frames.
    pub loss: Option<Loss>,
    /// Reordering of frames; the inner `None` disables it.
    pub reordering: Option<Option<Reordering>>,
    /// Probability that a frame arrives twice.
    pub duplication: Option<f64>,
    /// Probability that one bit of a frame is flipped.
    pub corruption: Option<f64>,
    /// Queue before the link.
    pub queue: Option<QueueConfig>,
    /// Token bucket that limits the rate in the long run; the inner `None` removes it.
    pub token_bucket: Option<Option<TokenBucket>>,
}

impl LinkOverrides {
    /// Applies later changes on top of these.
    pub fn merge(&mut self, later: &LinkOverrides) {
        let LinkOverrides { rate, loss, reordering, duplication, corruption, queue, token_bucket } =
            later.clone();
        self.rate = rate.or(self.rate);
        self.loss = loss.or(self.loss);
        self.reordering = reordering.or(self.reordering);
        self.duplication = duplication.or(self.duplication);
        self.corruption = corruption.or(self.corruption);
        self.queue = queue.or(self.queue.take());
        self.token_bucket = token_bucket.or(self.token_bucket);
    }
}
