use crate::Path;
use belljar_base::{SimDuration, SimTime, Stream};

/// The packets that one host sends to another over a path: decides which are lost and when the
/// others arrive.
///
/// Jitter is uniform in `[-jitter, +jitter]` around the latency, drawn anew for each packet, but
/// **packets of a flow never overtake each other**: one that would arrive before its predecessor
/// arrives with it instead, in order. A real path's jitter comes from queues, which keep order; TCP
/// would otherwise take jitter for loss. Since this only ever delays, no packet arrives earlier
/// than [`Path::least_latency`] after it left.
///
/// All draws come from the stream that the caller passes. It belongs to the flow, so that one
/// flow's packets don't disturb the draws of another. A path without loss draws nothing for loss, one
/// without jitter nothing for jitter.
#[derive(Clone, Debug)]
pub struct Flow {
    path: Path,
    last_arrival: SimTime,
}

impl Flow {
    /// A flow over `path` that has not carried anything yet.
    pub fn new(path: Path) -> Flow {
        Flow { path, last_arrival: SimTime::ZERO }
    }
    /// The path it follows.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Follows another path from now on; what is on its way arrives when it would have, and before
    /// what is sent later.
    pub fn set_path(&mut self, path: Path) {
        self.path = path;
    }
    /// Puts a packet on the path when its last bit leaves at `departs`: the time at which it
    /// arrives, or `None` if it is lost.
    pub fn carry(&mut self, departs: SimTime, stream: &mut Stream) -> Option<SimTime> {
        if stream.chance(self.path.loss) {
            return None;
        }
        Some(self.carry_without_loss(departs, stream))
    }
    /// The same on a path that loses nothing for now, as in Shadow's bootstrap phase.
    pub fn carry_without_loss(&mut self, departs: SimTime, stream: &mut Stream) -> SimTime {
        let arrival = departs + self.delay(stream);
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    /// Draws for a packet that does not arrive, so that the draws for those behind it stay what they are.
    pub fn pass_over(&self, stream: &mut Stream) {
        self.delay(stream);
    }

    fn delay(&self, stream: &mut Stream) -> SimDuration {
        let jitter = self.path.jitter.as_picos();
        if jitter == 0 {
            return self.path.latency;
        }
        let offset = stream.below(jitter.saturating_mul(2).saturating_add(1));
        let earliest = self.path.latency.as_picos().saturating_sub(jitter);
        SimDuration::from_picos(earliest.saturating_add(offset)).max(self.path.least_latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn path(latency_ms: u64, jitter_ms: u64, loss: f64) -> Path {
        let (latency, jitter) = (SimDuration::from_millis(latency_ms), SimDuration::from_millis(jitter_ms));
        Path { latency, jitter, loss, least_latency: latency.saturating_sub(jitter) }
    }

    #[test]
    fn without_jitter_and_loss_arrival_is_exact_and_draws_nothing() {
        let mut stream = Seed(1).stream(&["flow"]);
        let mut flow = Flow::new(path(50, 0, 0.0));
        assert_eq!(flow.carry(SimTime::from_nanos(7), &mut stream), Some(SimTime::from_nanos(50_000_007)));
        assert_eq!(stream.next_u64(), Seed(1).stream(&["flow"]).next_u64());
    }

    #[test]
    fn jitter_stays_in_its_range_reaches_both_ends_and_never_reorders() {
        let mut stream = Seed(2).stream(&["flow"]);
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
        let mut stream = Seed(3).stream(&["flow"]);
        let mut flow = Flow::new(path(1, 0, 0.2));
        let lost = (0..10_000).filter(|_| flow.carry(SimTime::ZERO, &mut stream).is_none()).count();
        assert!((1_880..2_120).contains(&lost), "{lost}");
        let mut dead = Flow::new(path(1, 0, 1.0));
        assert_eq!(dead.carry(SimTime::ZERO, &mut stream), None);
        assert_eq!(dead.carry_without_loss(SimTime::ZERO, &mut stream), SimTime::from_nanos(1_000_000));
    }
}
