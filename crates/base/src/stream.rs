//! Seeded random streams, one for each consumer of random numbers.
//!
//! A stream is derived from the experiment's seed and its *owner*, never from the order in which objects are
//! created: adding a host or enabling a fault does not change the draws of other streams.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Random seed of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Stream of `owner`, a path such as `["host", "alice", "tcp-isn"]`.
    pub fn stream(self, owner: &[&str]) -> Stream {
        let mut state = [0u8; 32];
        for (half, chunk) in state.chunks_mut(16).enumerate() {
            let mut hasher = SipHasher24::new_with_keys(self.0, half as u64);
            for part in owner {
                hasher.write_u64(part.len() as u64);
                hasher.write(part.as_bytes());
            }
            chunk.copy_from_slice(&hasher.finish128().as_bytes());
        }
        Stream(Xoshiro256PlusPlus::from_seed(state))
    }
}

/// Deterministic pseudo-random number generator (xoshiro256++), not cryptographically secure.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }
    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// Uniform in `[0, 1)` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with probability `p`. Draws nothing when `p` is 0 or less.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
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
