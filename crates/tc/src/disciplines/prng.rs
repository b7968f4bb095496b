//! Linux's generator of pseudo-random numbers with a seed, a combined Tausworthe generator (P. L'Ecuyer, 1999;
//! `lib/random32.c`), and correlated numbers from it (`net/sched/sch_netem.c`).

/// Generator with the state of its four registers (`struct rnd_state`).
#[derive(Clone, Debug)]
pub(super) struct Prng([u32; 4]);

impl Prng {
    /// `prandom_seed_state`.
    pub(super) fn new(seed: u64) -> Prng {
        let word = ((seed >> 32) ^ (seed << 10) ^ seed) as u32;
        let least = |least: u32| if word < least { word.wrapping_add(least) } else { word };
        Prng([least(2), least(8), least(16), least(128)])
    }
    /// `prandom_u32_state`.
    pub(super) fn next(&mut self) -> u32 {
        let step = |s: u32, a: u32, b: u32, c: u32, d: u32| ((s & c) << d) ^ (((s << a) ^ s) >> b);
        let [one, two, three, four] = self.0;
        self.0 = [
            step(one, 6, 13, 0xffff_fffe, 18),
            step(two, 2, 27, 0xffff_fff8, 2),
            step(three, 13, 21, 0xffff_fff0, 7),
            step(four, 3, 12, 0xffff_ff80, 13),
        ];
        self.0.iter().fold(0, |sum, part| sum ^ part)
    }
}

/// Source of correlated numbers (`struct crndstate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Correlation {
    last: u32,
    /// Share of the last number in the next one, of 2^32.
    pub(super) share: u32,
}

impl Correlation {
    pub(super) fn new(share: u32, last: u32) -> Correlation {
        Correlation { last, share }
    }
    /// `get_crandom`.
    pub(super) fn next(&mut self, prng: &mut Prng) -> u32 {
        let value = u64::from(prng.next());
        if self.share == 0 {
            return value as u32;
        }
        let share = u64::from(self.share) + 1;
        let mixed = (u128::from(value) * u128::from((1u64 << 32) - share)
            + u128::from(self.last) * u128::from(share))
            >> 32;
        self.last = mixed as u32;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_depend_on_the_seed() {
        let mut prng = Prng::new(1);
        let mean =
            (0..100_000).map(|_| f64::from(prng.next())).sum::<f64>() / 100_000.0 / f64::from(u32::MAX);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert_ne!(Prng::new(1).next(), Prng::new(1 << 40).next());
        assert_eq!(Prng::new(7).next(), Prng::new(7).next());
    }

    #[test]
    fn correlation_holds_numbers_together() {
        let difference = |share: u32| {
            let (mut prng, mut source) = (Prng::new(5), Correlation::new(share, 0));
            let numbers: Vec<f64> = (0..10_000).map(|_| f64::from(source.next(&mut prng))).collect();
            numbers.windows(2).map(|pair| (pair[0] - pair[1]).abs()).sum::<f64>()
        };
        assert!(difference(u32::MAX / 4 * 3) < difference(0) / 2.0);
    }
}
