//! Loss models of netem: independent or correlated loss, the model of four states, and that of Gilbert and Elliot
//! (`net/sched/sch_netem.c`, tc-netem(8)).

use super::prng::{Correlation, Prng};
use crate::attributes::{Attributes, Out, word, words};
use crate::error::TcError;
use belljar_linux_abi::Errno;

const GI: u16 = 1;
const GE: u16 = 2;

/// State of the model of four states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    SentInGap,
    SentInBurst,
    LostInGap,
    LostInBurst,
}

/// Model of the loss.
#[derive(Clone, Debug)]
pub(super) enum Loss {
    /// Independent, or correlated by the source of numbers.
    Random,
    /// Transition probabilities p13, p31, p32, p14 and p23, of 2^32.
    States([u32; 5], State),
    /// Probabilities p, r, h and k1, of 2^32; true in the bad state.
    Gilbert([u32; 4], bool),
}

impl Loss {
    /// Reads `TCA_NETEM_LOSS` (`get_loss_clg`).
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Loss, TcError> {
        let mut loss = Loss::Random;
        for (kind, value) in attributes.iter() {
            loss = match kind {
                GI if value.len() >= 20 => {
                    Loss::States(std::array::from_fn(|n| word(value, n * 4)), State::SentInGap)
                }
                GE if value.len() >= 16 => Loss::Gilbert(std::array::from_fn(|n| word(value, n * 4)), false),
                _ => return Err(Errno::EINVAL.into()),
            };
        }
        Ok(loss)
    }
    /// True if the next packet is lost (`loss_event`).
    pub(super) fn next(&mut self, probability: u32, source: &mut Correlation, prng: &mut Prng) -> bool {
        match self {
            Loss::Random => probability != 0 && probability >= source.next(prng),
            Loss::States([p13, p31, p32, p14, p23], state) => {
                let drawn = prng.next();
                let next = match state {
                    State::SentInGap if drawn < *p14 => State::LostInGap,
                    State::SentInGap if *p14 < drawn && drawn < p13.wrapping_add(*p14) => State::LostInBurst,
                    State::SentInGap => State::SentInGap,
                    State::SentInBurst if drawn < *p23 => State::LostInBurst,
                    State::SentInBurst => State::SentInBurst,
                    State::LostInBurst if drawn < *p32 => State::SentInBurst,
                    State::LostInBurst if *p32 < drawn && drawn < p31.wrapping_add(*p32) => State::SentInGap,
                    State::LostInBurst => State::LostInBurst,
                    State::LostInGap => State::SentInGap,
                };
                *state = next;
                matches!(next, State::LostInGap | State::LostInBurst)
            }
            Loss::Gilbert([p, r, h, k1], bad) => {
                let change = prng.next();
                match *bad {
                    false => {
                        *bad = change < *p;
                        prng.next() < *k1
                    }
                    true => {
                        *bad = change >= *r;
                        prng.next() > *h
                    }
                }
            }
        }
    }
    /// Appends `TCA_NETEM_LOSS`.
    pub(super) fn write(&self, kind: u16, out: &mut Out) {
        match self {
            Loss::Random => {}
            Loss::States(probabilities, _) => out.nest(kind, |out| out.put(GI, &words(*probabilities))),
            Loss::Gilbert(probabilities, _) => out.nest(kind, |out| out.put(GE, &words(*probabilities))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(mut loss: Loss, probability: f64) -> f64 {
        let (mut prng, mut source) = (Prng::new(11), Correlation::default());
        let probability = (probability * f64::from(u32::MAX)) as u32;
        f64::from(
            (0..200_000).map(|_| u32::from(loss.next(probability, &mut source, &mut prng))).sum::<u32>(),
        ) / 200_000.0
    }

    #[test]
    fn losses_have_the_share_of_their_model() {
        let of = |share: f64| (share * f64::from(u32::MAX)) as u32;
        assert!((share(Loss::Random, 0.1) - 0.1).abs() < 0.005);
        // The share of the bad state is p / (p + r).
        let gilbert = Loss::Gilbert([of(0.01), of(0.1), 0, 0], false);
        assert!((share(gilbert, 0.0) - 0.01 / 0.11).abs() < 0.01);
        let states = Loss::States([of(0.01), of(0.2), 0, 0, of(1.0)], State::SentInGap);
        assert!((share(states, 0.0) - 0.01 / 0.21).abs() < 0.01);
    }
}
