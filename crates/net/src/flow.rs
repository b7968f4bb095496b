use crate::Path;
use belljar_base::{Seed, SimDuration, SimTime, Stream};

/// Random streams of a flow.
#[derive(Clone, Debug)]
pub struct FlowStreams {
    /// Stream for losses.
    pub loss: Stream,
    /// Stream for jitter.
    pub jitter: Stream,
}

impl FlowStreams {
    /// Creates the streams of the flow from one host to another, identified by their names.
    pub fn new(seed: Seed, from: &str, to: &str) -> FlowStreams {
        let stream = |what| seed.stream(&["flow", from, to, what]);
        FlowStreams { loss: stream("loss"), jitter: stream("jitter") }
    }
}

/// Flow of packets from one host to another over a path: decides on the loss and the arrival time of each
/// packet.
///
/// Jitter is uniform in `[-jitter, +jitter]` around the latency and drawn for each packet, but **packets of
/// a flow are never reordered**: one that would arrive before its predecessor arrives at the same time,
/// after it. The jitter of a real path comes from queues, which keep the order; otherwise TCP would mistake
/// jitter for loss. Since this only adds delay, no packet arrives earlier than [`Path::least_latency`]
/// after its departure.
///
/// All random draws come from streams that the caller passes. Each flow has its own streams, so that flows
/// do not affect each other's draws. Loss and jitter have separate streams, and each packet draws from
/// both, so that they do not affect each other either. A path without loss draws nothing for loss, one
/// without jitter nothing for jitter.
#[derive(Clone, Debug)]
pub struct Flow {
    path: Path,
    last_arrival: SimTime,
}

impl Flow {
    /// Creates a flow over `path` without packets.
    pub fn new(path: Path) -> Flow {
        Flow { path, last_arrival: SimTime::ZERO }
    }
    /// Path of the flow.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Changes the path from now on. Packets in flight arrive as determined before, and before those sent
    /// later.
    pub fn set_path(&mut self, path: Path) {
        self.path = path;
    }
    /// Sends a packet whose last bit departs at `departs`. Returns its arrival time, or `None` if it is
    /// lost.
    pub fn carry(&mut self, departs: SimTime, streams: &mut FlowStreams) -> Option<SimTime> {
        if streams.loss.chance(self.path.loss) {
            self.pass_over(&mut streams.jitter);
            return None;
        }
        Some(self.carry_without_loss(departs, &mut streams.jitter))
    }
    /// Sends a packet like [`carry`](Self::carry), without loss, as in Shadow's bootstrap phase.
    pub fn carry_without_loss(&mut self, departs: SimTime, stream: &mut Stream) -> SimTime {
        let arrival = departs + self.delay(stream);
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    /// Draws jitter for a packet that does not arrive, so that the draws for later packets are unaffected.
    pub fn pass_over(&self, stream: &mut Stream) {
        self.delay(stream);
    }

    fn delay(&self, stream: &mut Stream) -> SimDuration {
        let jitter = self.path.jitter.as_picos();
        if jitter == 0 {
            return self.path.latency;
        }
        // The default is the latency itself.
        let offset = stream.below_around(jitter.saturating_mul(2).saturating_add(1), jitter);
        let earliest = self.path.latency.as_picos().saturating_sub(jitter);
        SimDuration::from_picos(earliest.saturating_add(offset)).max(self.path.least_latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(seed: u64) -> FlowStreams {
        FlowStreams::new(Seed(seed), "a", "b")
    }

    fn path(latency_ms: u64, jitter_ms: u64, loss: f64) -> Path {
        Path::new(SimDuration::from_millis(latency_ms), SimDuration::from_millis(jitter_ms), loss)
    }

    #[test]
    fn without_jitter_and_loss_arrival_is_exact_and_draws_nothing() {
        let mut drawn = streams(1);
        let mut flow = Flow::new(path(50, 0, 0.0));
        assert_eq!(flow.carry(SimTime::from_nanos(7), &mut drawn), Some(SimTime::from_nanos(50_000_007)));
        let mut fresh = streams(1);
        assert_eq!(drawn.loss.next_u64(), fresh.loss.next_u64());
        assert_eq!(drawn.jitter.next_u64(), fresh.jitter.next_u64());
    }

    #[test]
    fn loss_and_jitter_leave_each_others_draws_alone() {
        let run = |jitter, loss| -> Vec<Option<SimTime>> {
            let mut drawn = streams(4);
            let at = |i| SimTime::from_secs(i);
            (0..500).map(|i| Flow::new(path(10, jitter, loss)).carry(at(i), &mut drawn)).collect()
        };
        let (both, jitter_only, loss_only) = (run(4, 0.3), run(4, 0.0), run(0, 0.3));
        assert!(both.iter().any(Option::is_none) && both.iter().any(Option::is_some));
        for ((both, jitter), loss) in both.iter().zip(&jitter_only).zip(&loss_only) {
            assert_eq!(both.is_none(), loss.is_none());
            assert!(both.is_none() || both == jitter);
        }
    }

    #[test]
    fn jitter_stays_in_its_range_reaches_both_ends_and_never_reorders() {
        let mut stream = streams(2);
        let (mut earliest, mut latest) = (SimDuration::MAX, SimDuration::ZERO);
        for i in 0..2_000 {
            let at = SimTime::from_secs(i);
            let took = Flow::new(path(10, 4, 0.0)).carry(at, &mut stream).unwrap().since(at);
            earliest = earliest.min(took);
            latest = latest.max(took);
        }
        assert!((6_000..6_050).contains(&earliest.as_micros()), "{earliest}");
        assert!((13_950..=14_000).contains(&latest.as_micros()), "{latest}");

        let mut flow = Flow::new(path(10, 10, 0.0));
        let mut last = SimTime::ZERO;
        for i in 0..1_000 {
            let at = flow.carry(SimTime::from_nanos(i * 1_000), &mut stream).unwrap();
            assert!(at >= last);
            last = at;
        }
    }

    #[test]
    fn loss_has_the_stated_probability() {
        let mut stream = streams(3);
        let mut flow = Flow::new(path(1, 0, 0.2));
        let lost = (0..10_000).filter(|_| flow.carry(SimTime::ZERO, &mut stream).is_none()).count();
        assert!((1_880..2_120).contains(&lost), "{lost}");
        let mut dead = Flow::new(path(1, 0, 1.0));
        assert_eq!(dead.carry(SimTime::ZERO, &mut stream), None);
        assert_eq!(
            dead.carry_without_loss(SimTime::ZERO, &mut stream.jitter),
            SimTime::from_nanos(1_000_000)
        );
    }
}
