//! Meters: the two-rate three-colour marker of RFC 2698, colour-blind, in simulated time.
//!
//! Bucket levels are stored in units times picoseconds, so that no rate and no interval is rounded.

use crate::control::MeterRates;
use belljar_base::SimTime;

const PS_PER_SEC: u128 = 1_000_000_000_000;

/// Colour of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Conforms to the committed rate.
    Green = 0,
    /// Exceeds the committed rate, conforms to the peak rate.
    Yellow = 1,
    /// Exceeds the peak rate.
    Red = 2,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Rates; if unset, every packet is green.
    pub rates: Option<MeterRates>,
    committed: u128,
    peak: u128,
    filled: SimTime,
}

impl Meter {
    pub fn set(&mut self, rates: Option<MeterRates>, now: SimTime) {
        self.rates = rates;
        self.filled = now;
        let rates = rates.unwrap_or_default();
        self.committed = u128::from(rates.committed_burst) * PS_PER_SEC;
        self.peak = u128::from(rates.peak_burst) * PS_PER_SEC;
    }

    /// Marks a packet of `units` bytes or packets. A single-rate meter has no yellow.
    pub fn execute(&mut self, now: SimTime, units: u64, single: bool) -> Colour {
        let Some(rates) = self.rates else { return Colour::Green };
        let passed = u128::from(now.since(self.filled).as_picos());
        self.filled = now.max(self.filled);
        let fill = |level: u128, rate: u64, burst: u64| {
            (level + passed * u128::from(rate)).min(u128::from(burst) * PS_PER_SEC)
        };
        self.committed = fill(self.committed, rates.committed, rates.committed_burst);
        self.peak = fill(self.peak, rates.peak, rates.peak_burst);
        let cost = u128::from(units) * PS_PER_SEC;
        if single {
            if self.committed < cost {
                return Colour::Yellow;
            }
            self.committed -= cost;
            return Colour::Green;
        }
        if self.peak < cost {
            return Colour::Red;
        }
        self.peak -= cost;
        if self.committed < cost {
            return Colour::Yellow;
        }
        self.committed -= cost;
        Colour::Green
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rates_give_three_colours() {
        let rates = MeterRates { committed: 1_000, committed_burst: 1_000, peak: 2_000, peak_burst: 2_000 };
        let mut meter = Meter::default();
        assert_eq!(meter.execute(SimTime::ZERO, 1 << 40, false), Colour::Green, "unset");
        meter.set(Some(rates), SimTime::ZERO);
        let mut at = |ns, units| meter.execute(SimTime::from_nanos(ns), units, false);
        assert_eq!(at(0, 1_000), Colour::Green);
        assert_eq!(at(0, 1), Colour::Yellow);
        assert_eq!(at(0, 999), Colour::Yellow);
        assert_eq!(at(0, 1), Colour::Red, "both are empty");
        assert_eq!(at(499_999, 1), Colour::Red);
        assert_eq!(at(500_000, 1), Colour::Yellow, "half a millisecond is one unit of the peak rate");
        assert_eq!(at(1_000_000, 1), Colour::Green);
        assert_eq!(at(3_600_000_000_000, 1_000), Colour::Green, "no more than a burst is kept");
        assert_eq!(at(3_600_000_000_000, 1), Colour::Yellow);
    }

    #[test]
    fn one_rate_gives_two() {
        let mut meter = Meter::default();
        meter.set(
            Some(MeterRates { committed: 1, committed_burst: 1, ..MeterRates::default() }),
            SimTime::ZERO,
        );
        assert_eq!(meter.execute(SimTime::ZERO, 1, true), Colour::Green);
        assert_eq!(meter.execute(SimTime::ZERO, 1, true), Colour::Yellow);
    }
}
