//! Impairments of a direction of a link besides delay: loss, reordering, duplication and corruption of
//! frames. Each draws from a stream of its own, so that enabling or disabling one does not affect the
//! results of the others.

use belljar_base::{Seed, SimDuration, Stream};

/// Loss of frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Independent loss of each frame with this probability.
    Independent(f64),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
}

impl Loss {
    /// Long-term share of frames that are lost.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::Independent(probability) => *probability,
            Loss::GilbertElliott(model) if model.to_bad + model.to_good > 0.0 => {
                let bad = model.to_bad / (model.to_bad + model.to_good);
                bad * model.loss_bad + (1.0 - bad) * model.loss_good
            }
            Loss::GilbertElliott(model) => model.loss_good,
        }
    }
}

/// Model of Gilbert (1960) and Elliott (1963): a link is in a good or a bad state, and each state has its
/// own probability of loss. Before each frame the state may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a transition from good to bad, `p`.
    pub to_bad: f64,
    /// Probability of a transition from bad to good, `r`.
    pub to_good: f64,
    /// Probability of loss in the bad state, `1 - h`.
    pub loss_bad: f64,
    /// Probability of loss in the good state, `1 - k`.
    pub loss_good: f64,
}

/// Reordering: additional delay of some frames, so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Probability of the delay.
    pub probability: f64,
    /// Additional delay.
    pub delay: SimDuration,
}

/// Verdict on a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameImpairment {
    /// True if the frame is lost, which overrides the other fields.
    pub lost: bool,
    /// Additional delay of a reordered frame.
    pub reordered: Option<SimDuration>,
    /// True if the frame arrives twice.
    pub duplicated: bool,
    /// Number of a bit that is flipped, to be taken modulo the number of bits in the frame.
    pub corrupted_bit: Option<u64>,
}

/// Impairments of one direction, with their random streams and state.
#[derive(Clone, Debug)]
pub struct Impairments {
    /// Loss of frames.
    pub loss: Loss,
    /// Reordering of frames.
    pub reordering: Option<Reordering>,
    /// Probability that a frame is duplicated.
    pub duplication: f64,
    /// Probability that one bit of a frame is flipped.
    pub corruption: f64,
    bad: bool,
    streams: Streams,
}

#[derive(Clone, Debug)]
struct Streams {
    loss: Stream,
    state: Stream,
    reordering: Stream,
    duplication: Stream,
    corruption: Stream,
}

impl Impairments {
    /// Creates impairments of which only loss is enabled. All draws are determined by `seed` and `owner`.
    pub fn new(loss: Loss, seed: Seed, owner: [&str; 3]) -> Impairments {
        let stream = |what| seed.stream(&[owner[0], owner[1], owner[2], what]);
        Impairments {
            loss,
            reordering: None,
            duplication: 0.0,
            corruption: 0.0,
            bad: false,
            streams: Streams {
                loss: stream("loss"),
                state: stream("loss state"),
                reordering: stream("reordering"),
                duplication: stream("duplication"),
                corruption: stream("corruption"),
            },
        }
    }

    /// Draws the verdict on the next frame.
    pub fn draw(&mut self) -> FrameImpairment {
        let lost = match self.loss {
            Loss::Independent(probability) => self.streams.loss.chance(probability),
            Loss::GilbertElliott(model) => {
                let change = if self.bad { model.to_good } else { model.to_bad };
                self.bad ^= self.streams.state.chance(change);
                self.streams.loss.chance(if self.bad { model.loss_bad } else { model.loss_good })
            }
        };
        let reordering = self.reordering;
        let held = reordering.filter(|r| self.streams.reordering.chance(r.probability));
        FrameImpairment {
            lost,
            reordered: held.map(|reordering| reordering.delay),
            duplicated: self.streams.duplication.chance(self.duplication),
            corrupted_bit: self
                .streams
                .corruption
                .chance(self.corruption)
                .then(|| self.streams.corruption.next_u64() >> 1),
        }
    }
}

/// Flips the bit that a [`FrameImpairment`] gives.
pub fn flip(bytes: &mut [u8], number: u64) {
    let bits = bytes.len() as u64 * 8;
    if bits > 0 {
        let bit = number % bits;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(loss: Loss) -> Impairments {
        Impairments::new(loss, Seed(5), ["link", "l", "a"])
    }
    fn draws(impairments: &mut Impairments, count: usize) -> Vec<FrameImpairment> {
        (0..count).map(|_| impairments.draw()).collect()
    }

    #[test]
    fn each_has_its_probability_and_none_disturbs_another() {
        let all = |on: [bool; 4]| {
            let mut way = some(Loss::Independent(if on[0] { 0.1 } else { 0.0 }));
            let delay = SimDuration::from_millis(3);
            way.reordering = on[1].then_some(Reordering { probability: 0.2, delay });
            way.duplication = if on[2] { 0.3 } else { 0.0 };
            way.corruption = if on[3] { 0.4 } else { 0.0 };
            draws(&mut way, 10_000)
        };
        let every = all([true; 4]);
        let share = |is: fn(&FrameImpairment) -> bool| {
            every.iter().filter(|impairment| is(impairment)).count() as f64 / 10_000.0
        };
        for (share, probability) in [
            (share(|impairment| impairment.lost), 0.1),
            (share(|impairment| impairment.reordered.is_some()), 0.2),
            (share(|impairment| impairment.duplicated), 0.3),
            (share(|impairment| impairment.corrupted_bit.is_some()), 0.4),
        ] {
            assert!((share - probability).abs() < 0.02, "{share} for {probability}");
        }
        for off in 0..4 {
            let mut on = [true; 4];
            on[off] = false;
            for (one, other) in every.iter().zip(all(on)) {
                assert!(off == 0 || one.lost == other.lost);
                assert!(off == 1 || one.reordered == other.reordered);
                assert!(off == 2 || one.duplicated == other.duplicated);
                assert!(off == 3 || one.corrupted_bit == other.corrupted_bit);
            }
        }
        assert_eq!(draws(&mut some(Loss::Independent(0.0)), 3), [FrameImpairment::default(); 3]);
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_the_model_says() {
        let model = GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_bad: 1.0, loss_good: 0.0 };
        let lost: Vec<bool> =
            draws(&mut some(Loss::GilbertElliott(model)), 200_000).iter().map(|f| f.lost).collect();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let frames = lost.iter().filter(|lost| **lost).count();
        // In the long run the share p / (p + r) of frames meets the bad state, which lasts for 1 / r
        // frames.
        assert_eq!(Loss::GilbertElliott(model).mean(), 0.01 / 0.26);
        assert!((frames as f64 / 200_000.0 - 0.01 / 0.26).abs() < 0.003, "{frames}");
        assert!((frames as f64 / bursts as f64 - 4.0).abs() < 0.3, "{frames} in {bursts}");
        let both = GilbertElliott { loss_bad: 0.5, loss_good: 0.1, to_bad: 0.5, to_good: 0.5 };
        let lost = draws(&mut some(Loss::GilbertElliott(both)), 20_000).iter().filter(|f| f.lost).count();
        assert!((5_700..6_300).contains(&lost), "{lost}");
    }

    #[test]
    fn one_bit_is_flipped() {
        let mut bytes = [0u8; 5];
        flip(&mut bytes, 40 + 9);
        assert_eq!(bytes, [0, 2, 0, 0, 0]);
        flip(&mut [], 3);
    }
}
