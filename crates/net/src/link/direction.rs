//! One direction of a link, behind its queue.

use super::{CurrentPath, DirectionChange, LinkOverrides, LinkProperties, least_latency};
use crate::{DropReason, FrameImpairment, Impairments, Packet, flip};
use belljar_base::{Map, PacketAccount, Seed, SimDuration, SimTime, Stream};
use std::sync::Arc;

/// One direction of a link, behind its queue. See the [module](super).
///
/// [`carry`](Self::carry) takes each frame in the order of departure.
#[derive(Clone, Debug)]
pub struct LinkDirection {
    properties: LinkProperties,
    current: CurrentPath,
    impairments: Impairments,
    jitter: Stream,
    changes: Arc<[(SimTime, DirectionChange)]>,
    /// Before this time no frame is impaired (Shadow's `bootstrap_end_time`).
    loss_free_until: SimTime,
    least_latency: SimDuration,
    /// Frames that were sent into the direction.
    entered: u64,
    /// Frames that arrive at the far end, with duplicates.
    arrivals: u64,
    drops: Map<DropReason, u64>,
    counts: ImpairmentCounts,
}

/// Arrival of a frame at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival.
    pub at: SimTime,
    /// True if a copy of the frame arrives at the same time.
    pub duplicated: bool,
}

/// Counts of impaired frames that were not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// Frames delayed behind later ones.
    pub reordered: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that arrived with a wrong bit.
    pub corrupted: u64,
}

impl ImpairmentCounts {
    /// Counts with their names in statistics.
    pub fn by_name(&self) -> [(&'static str, u64); 3] {
        let ImpairmentCounts { reordered, duplicated, corrupted } = *self;
        [("reordered", reordered), ("duplicated", duplicated), ("corrupted", corrupted)]
    }
}

impl LinkDirection {
    /// Creates the direction of link `link` that begins at node `from`, with its scheduled changes in order
    /// of time. Its random streams are determined by `seed` and the two names.
    pub fn new(
        properties: &LinkProperties,
        seed: Seed,
        link: &str,
        from: &str,
        changes: impl Into<Arc<[(SimTime, DirectionChange)]>>,
        loss_free_until: SimTime,
    ) -> LinkDirection {
        let owner = ["link", link, from];
        let changes: Arc<[(SimTime, DirectionChange)]> = changes.into();
        let set = changes.iter().filter_map(|(_, change)| match change {
            DirectionChange::Set(change) => Some(change),
            _ => None,
        });
        let mut direction = LinkDirection {
            properties: properties.clone(),
            current: CurrentPath::default(),
            impairments: Impairments::new(properties.loss, seed, owner),
            jitter: seed.stream_for(&owner, &["jitter"]),
            least_latency: least_latency(properties, set),
            changes,
            loss_free_until,
            entered: 0,
            arrivals: 0,
            drops: Map::new(),
            counts: ImpairmentCounts::default(),
        };
        direction.current.follow(&[], SimTime::ZERO, Option::clone, |_| Some(properties.path()));
        direction.impair();
        direction
    }

    /// Carries a frame whose last bit departs at `departs`, and flips a bit if the frame is corrupted.
    /// Fails with the reason for which the frame is lost, which is counted.
    #[inline]
    pub fn carry(&mut self, departs: SimTime, frame: &mut Packet) -> Result<Arrival, DropReason> {
        self.entered += 1;
        let usual = &self.properties;
        let own = |change: &DirectionChange| Some(change.clone());
        if self.current.follow(&self.changes, departs, own, |_| Some(usual.path())) {
            self.impair();
        }
        let loss_free = departs < self.loss_free_until;
        let impairment = if loss_free { FrameImpairment::default() } else { self.impairments.draw() };
        let lost = self.current.blocked().or(impairment.lost.then_some(DropReason::PacketLoss));
        let jitter = &mut self.jitter;
        let flow = self.current.flow().expect("a link has a path from the start");
        if let Some(reason) = lost {
            flow.pass_over(jitter);
            *self.drops.entry(reason).or_default() += 1;
            return Err(reason);
        }
        let mut at = flow.carry_without_loss(departs, jitter);
        if let Some(delay) = impairment.reordered {
            at += delay;
            self.counts.reordered += 1;
        }
        if let Some(number) = impairment.corrupted_bit {
            flip(frame.bytes_mut(), number);
            self.counts.corrupted += 1;
        }
        self.counts.duplicated += u64::from(impairment.duplicated);
        self.arrivals += 1 + u64::from(impairment.duplicated);
        Ok(Arrival { at, duplicated: impairment.duplicated })
    }

    /// Lower bound of the latency of frames, over the whole run.
    pub fn least_latency(&self) -> SimDuration {
        self.least_latency
    }

    /// Account of the frames of the direction. The frames in flight are among those sent.
    pub fn packet_account(&self) -> PacketAccount {
        let (received, sent) = (self.entered, self.arrivals);
        let mut account = PacketAccount { received, sent, ..PacketAccount::default() };
        account.originate("duplicates", self.counts.duplicated);
        for (reason, count) in &self.drops {
            account.drop_for(reason.name(), *count);
        }
        account
    }

    /// Frames lost, by reason.
    pub fn drops(&self) -> &Map<DropReason, u64> {
        &self.drops
    }

    /// Frames lost for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(&reason).copied().unwrap_or_default()
    }

    /// Frames impaired, other than lost.
    pub fn impairment_counts(&self) -> &ImpairmentCounts {
        &self.counts
    }

    /// Sets the impairments to the properties with the current changes.
    fn impair(&mut self) {
        // `rate`, `queue` and `token_bucket` change the queue before the direction, by `NicChange`.
        let LinkOverrides { loss, reordering, duplication, corruption, rate: _, queue: _, token_bucket: _ } =
            self.current.state().overrides();
        let usual = &self.properties;
        self.impairments.loss = loss.unwrap_or(usual.loss);
        self.impairments.reordering = reordering.unwrap_or(usual.reordering);
        self.impairments.duplication = duplication.unwrap_or(usual.duplication);
        self.impairments.corruption = corruption.unwrap_or(usual.corruption);
    }
}
