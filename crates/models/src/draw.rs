//! Random variables of an experiment.

use belljar_base::{SimDuration, Stream};

/// Random variable with integer values: bytes, picoseconds or counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Constant value.
    Fixed(u64),
    /// Uniform distribution over the integers from the first to the last, inclusive.
    Uniform(u64, u64),
    /// Exponential distribution with this mean.
    Exponential(u64),
    /// Pareto distribution: few large values make up most of the sum.
    Pareto {
        /// Mean of the distribution before truncation.
        mean: u64,
        /// Tail index, above 1 so that the mean exists.
        shape: f64,
        /// Upper limit: a larger draw is replaced by it.
        max: u64,
    },
}

impl Draw {
    /// Draws the next value. A constant draws no random number.
    pub fn next(&self, stream: &mut Stream) -> u64 {
        match *self {
            Draw::Fixed(value) => value,
            Draw::Uniform(least, most) => least + stream.below((most - least).saturating_add(1)),
            Draw::Exponential(mean) => (-libm::log(above_zero(stream)) * mean as f64) as u64,
            Draw::Pareto { mean, shape, max } => {
                let least = mean as f64 * (shape - 1.0) / shape;
                ((least / libm::pow(above_zero(stream), 1.0 / shape)) as u64).min(max)
            }
        }
    }
    /// Draws the next value as a duration in picoseconds.
    pub fn next_time(&self, stream: &mut Stream) -> SimDuration {
        SimDuration::from_picos(self.next(stream))
    }
}

/// Uniform value in (0, 1]. `libm` computes its logarithm and powers, so that they are equal on every
/// machine.
fn above_zero(stream: &mut Stream) -> f64 {
    1.0 - stream.unit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn mean_of(draw: Draw, n: u64) -> f64 {
        let mut stream = Seed(3).stream(&["draw"]);
        (0..n).map(|_| draw.next(&mut stream) as f64).sum::<f64>() / n as f64
    }

    #[test]
    fn means_are_what_they_are_said_to_be() {
        let near = |draw, expected: f64, within: f64| {
            let mean = mean_of(draw, 200_000);
            assert!((mean / expected - 1.0).abs() < within, "{draw:?}: {mean}");
        };
        near(Draw::Fixed(5), 5.0, 1e-9);
        near(Draw::Uniform(10, 30), 20.0, 0.01);
        near(Draw::Exponential(1_000_000), 1e6, 0.01);
        near(Draw::Pareto { mean: 1_000_000, shape: 2.5, max: u64::MAX }, 1e6, 0.02);
    }

    #[test]
    fn a_pareto_has_a_least_value_and_is_cut_off() {
        let mut stream = Seed(3).stream(&["draw"]);
        let draw = Draw::Pareto { mean: 3_000, shape: 1.5, max: 50_000 };
        let all: Vec<u64> = (0..50_000).map(|_| draw.next(&mut stream)).collect();
        assert_eq!(all.iter().copied().max(), Some(50_000));
        assert!((1_000..1_010).contains(&all.iter().copied().min().unwrap()));
    }
}
