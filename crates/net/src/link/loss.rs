//! Expected loss of a direction of a link over time, for analyses.

use super::{DirectionChange, LinkProperties, PathState};
use belljar_base::SimTime;

/// Expected share of frames that a direction of a link loses from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossChange {
    /// Start of the interval, which lasts until the next change.
    pub at: SimTime,
    /// Share from 0 to 1: the mean of the loss model, with corrupted frames counted as lost, since their
    /// checksums fail. It is 1 while the direction is down or a partition separates its ends.
    pub loss: f64,
}

/// Expected loss of a direction with these properties and scheduled changes, which are in order of time. The
/// first element is the state at the start. Nothing is impaired before `loss_free_until`.
pub fn loss_over_time(
    properties: &LinkProperties,
    changes: &[(SimTime, DirectionChange)],
    loss_free_until: SimTime,
) -> Vec<LossChange> {
    let mut times: Vec<SimTime> = changes.iter().map(|(at, _)| *at).collect();
    times.extend([SimTime::ZERO, loss_free_until]);
    times.sort_unstable();
    times.dedup();
    let mut all: Vec<LossChange> = Vec::new();
    let (mut state, mut applied) = (PathState::default(), 0);
    for at in times {
        while let Some((_, change)) = changes.get(applied).filter(|(time, _)| *time <= at) {
            state.apply(change);
            applied += 1;
        }
        let overrides = state.overrides();
        let loss = match state.path(Some(properties.path())) {
            Err(_) => 1.0,
            Ok(_) if at < loss_free_until => 0.0,
            Ok(_) => {
                let lost = overrides.loss.unwrap_or(properties.loss).mean();
                let corrupted = overrides.corruption.unwrap_or(properties.corruption);
                1.0 - (1.0 - lost) * (1.0 - corrupted)
            }
        };
        if all.last().is_none_or(|last| last.loss != loss) {
            all.push(LossChange { at, loss });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{LinkOverrides, PathChange};
    use super::*;
    use crate::{GilbertElliott, Loss};

    #[test]
    fn loss_follows_the_schedule_from_the_end_of_the_bootstrap_phase() {
        let seconds = |n: u64| SimTime::from_nanos(n * 1_000_000_000);
        let set = |link: LinkOverrides| {
            DirectionChange::Set(PathChange { link: Box::new(link), ..PathChange::default() })
        };
        let loss = |loss| set(LinkOverrides { loss: Some(loss), ..LinkOverrides::default() });
        let properties = LinkProperties { loss: Loss::Independent(0.5), ..LinkProperties::default() };
        let model = GilbertElliott { to_bad: 0.25, to_good: 0.75, loss_bad: 1.0, loss_good: 0.0 };
        let corruption = set(LinkOverrides { corruption: Some(0.5), ..LinkOverrides::default() });
        let changes = [
            (seconds(1), DirectionChange::Down),
            (seconds(2), DirectionChange::Up),
            (seconds(4), loss(Loss::GilbertElliott(model))),
            (seconds(5), loss(Loss::Independent(0.25))),
            (seconds(6), corruption),
            (seconds(7), DirectionChange::Reset),
            (seconds(8), DirectionChange::Split { event: 0, apart: true }),
            (seconds(9), DirectionChange::Heal(None)),
        ];
        let found = loss_over_time(&properties, &changes, seconds(3));
        let found: Vec<_> =
            found.iter().map(|change| (change.at.as_nanos() / 1_000_000_000, change.loss)).collect();
        let expected =
            [(0, 0.0), (1, 1.0), (2, 0.0), (3, 0.5), (4, 0.25), (6, 0.625), (7, 0.5), (8, 1.0), (9, 0.5)];
        assert_eq!(found, expected);
    }
}
