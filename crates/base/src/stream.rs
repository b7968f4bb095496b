//! Seeded random streams, one for each consumer of random numbers.
//!
//! A stream is derived from the experiment's seed and its *owner*, never from the order in which objects are
//! created: adding a host or enabling a fault does not change the draws of other streams.

use crate::choices::{Choices, Tap};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Random seed of the experiment, with the choices that are recorded or forced in the streams derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    value: u64,
    choices: Choices,
}

/// Seed without recorded or forced choices.
#[expect(non_snake_case, reason = "it reads as the constructor that it is")]
pub const fn Seed(value: u64) -> Seed {
    Seed { value, choices: Choices::NONE }
}

impl Seed {
    /// The same seed, with choices recorded or forced.
    pub fn observed(self, choices: Choices) -> Seed {
        Seed { choices, ..self }
    }

    /// Stream of `owner`, a path such as `["host", "alice", "tcp-isn"]`.
    pub fn stream(self, owner: &[&str]) -> Stream {
        self.stream_for(owner, &[])
    }

    /// Stream of `owner` that draws for several purposes, whose choices are numbered apart: see [`Stream::choose`].
    pub fn stream_for(self, owner: &[&str], purposes: &[&str]) -> Stream {
        let mut state = [0u8; 32];
        for (half, chunk) in state.chunks_mut(16).enumerate() {
            let mut hasher = SipHasher24::new_with_keys(self.value, half as u64);
            for part in owner {
                hasher.write_u64(part.len() as u64);
                hasher.write(part.as_bytes());
            }
            chunk.copy_from_slice(&hasher.finish128().as_bytes());
        }
        let random = Random(Xoshiro256PlusPlus::from_seed(state));
        Stream { random, tap: self.choices.tap(owner, purposes) }
    }
}

/// Deterministic pseudo-random number generator (xoshiro256++), not cryptographically secure.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// 64 random bits.
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// Uniform in `0..2^53`.
    fn fraction(&mut self) -> u64 {
        self.next_u64() >> 11
    }
}

/// Number of values of [`Random::fraction`].
const FRACTIONS: u64 = 1 << 53;

/// Random stream. Each draw is a [choice](crate::choices), which can be recorded and forced.
#[derive(Clone, Debug)]
pub struct Stream {
    random: Random,
    /// Observer of the draws, if any is recorded or forced.
    tap: Option<Box<Tap>>,
}

impl Stream {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let drawn = self.random.next_u64();
        self.settle(drawn, 0, None)
    }
    /// 64 random bits. The default is 0.
    pub fn next_word(&mut self) -> u64 {
        let drawn = self.random.next_u64();
        self.settle(drawn, 0, Some(0))
    }
    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        let drawn = self.random.next_u64() >> 32;
        self.settle(drawn, 1 << 32, None) as u32
    }
    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.random.0.fill_bytes(out);
        if let Some(tap) = &mut self.tap {
            tap.bytes(out);
        }
    }
    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias is below 2^-32 for bounds below 2^32. The default is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.below_around(bound, 0)
    }
    /// The same with another default, which must be below `bound`.
    pub fn below_around(&mut self, bound: u64, usual: u64) -> u64 {
        let drawn = self.random.below(bound);
        self.settle(drawn, bound.max(1), Some(usual))
    }
    /// Uniform in `[0, 1)` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        let drawn = self.random.fraction();
        self.settle(drawn, FRACTIONS, None) as f64 / FRACTIONS as f64
    }
    /// True with probability `p`. Draws nothing when `p` is 0 or less. The default is false.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && {
            let drawn = (self.random.fraction() as f64 / FRACTIONS as f64) < p;
            match &mut self.tap {
                None => drawn,
                Some(tap) => tap.number(0, u64::from(drawn), 2, Some(0)) == 1,
            }
        }
    }
    /// Number below `bound` for one of the purposes of the stream, by its position, drawn by `draw`. The default is `usual`.
    pub fn choose(
        &mut self,
        purpose: usize,
        usual: u64,
        bound: u64,
        draw: impl FnOnce(&mut Random) -> u64,
    ) -> u64 {
        let drawn = draw(&mut self.random);
        match &mut self.tap {
            None => drawn,
            Some(tap) => tap.number(purpose, drawn, bound, Some(usual)),
        }
    }

    fn settle(&mut self, drawn: u64, bound: u64, usual: Option<u64>) -> u64 {
        match &mut self.tap {
            None => drawn,
            Some(tap) => tap.number(0, drawn, bound, usual),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_owner_only() {
        let draw = |seed, owner: &[&str]| Seed(seed).stream(owner).next_u64();
        assert_eq!(draw(1, &["a", "b"]), draw(1, &["a", "b"]));
        assert_ne!(draw(1, &["a", "b"]), draw(2, &["a", "b"]));
        assert_ne!(draw(1, &["a", "b"]), draw(1, &["ab"]));
        assert_ne!(draw(1, &["a", "b"]), draw(1, &["b", "a"]));
    }

    #[test]
    fn below_covers_its_range() {
        let mut s = Seed(7).stream(&["test"]);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[s.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
