//! PTP hardware clocks: the clock of a network adapter, and the timestamps that the adapter takes by it.
//!
//! A hardware clock counts the ticks of an oscillator and scales the count by the frequency that a program has
//! dialled (`adjfine` of Linux). Unlike the wall clock of the host it is not disciplined by `adjtimex(2)`, but
//! unless the experiment says otherwise both run from the same oscillator: see [`PtpConfig`].
//!
//! Timestamps are taken where IEEE 1588-2019 has its timestamp point (7.3.4.1), at the start of a frame: when
//! its first bit is sent, and when its first bit is received. A receiver knows the end of a frame and takes the
//! rate of its own interface for that of the sender.

use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;

/// `max_adj`: the maximum frequency offset in parts per billion, that of Intel's adapters.
pub const MAX_ADJUSTMENT_PPB: i64 = 62_499_999;
/// Number of units of a frequency offset, 2^-16 parts per million, in 1.
const SCALED: i128 = 1_000_000 << 16;
const PPB: i128 = 1_000_000_000;
const PICOS: i128 = 1_000;

/// Oscillator of the hardware clocks of a host, relative to simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpConfig {
    /// Time shown at the start minus the simulation's, in nanoseconds; `None` for that of the host's wall clock.
    pub offset_ns: Option<i64>,
    /// Frequency error in parts per billion; `None` for that of the host's oscillator.
    pub drift_ppb: Option<i64>,
}

/// A PTP hardware clock.
#[derive(Clone, Debug)]
pub struct PtpClock {
    /// Reference point: a simulated time, and the time shown then in picoseconds since 1970.
    anchor: (SimTime, i128),
    /// Frequency error of the oscillator in parts per billion.
    drift_ppb: i64,
    /// Frequency offset dialled by a program, in 2^-16 parts per million.
    frequency: i64,
}

impl PtpClock {
    /// Creates a clock that shows `ns` nanoseconds since 1970 at `now`, and whose oscillator has this error in
    /// parts per billion.
    pub fn new(now: SimTime, ns: i64, drift_ppb: i64) -> PtpClock {
        PtpClock { anchor: (now, i128::from(ns) * PICOS), drift_ppb, frequency: 0 }
    }

    /// Time shown at `at` in picoseconds.
    fn picos(&self, at: SimTime) -> i128 {
        let (from, shown) = self.anchor;
        // Times before the reference point, such as the start of a frame, are extrapolated.
        let passed = i128::from(at.as_picos()) - i128::from(from.as_picos());
        let counted = passed + (passed * i128::from(self.drift_ppb)).div_euclid(PPB);
        shown + counted + (counted * i128::from(self.frequency)).div_euclid(SCALED)
    }

    /// Time shown at `at`, in nanoseconds since 1970.
    pub fn read(&self, at: SimTime) -> i64 {
        self.picos(at).div_euclid(PICOS).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Sets the time to `ns` nanoseconds since 1970.
    pub fn set(&mut self, now: SimTime, ns: i64) {
        self.anchor = (now, i128::from(ns) * PICOS);
    }

    /// Steps the time by `ns` nanoseconds.
    pub fn step(&mut self, now: SimTime, ns: i64) {
        self.anchor = (now, self.picos(now) + i128::from(ns) * PICOS);
    }

    /// Dials a frequency offset in 2^-16 parts per million (`ADJ_FREQUENCY`). Fails with `ERANGE` beyond
    /// [`MAX_ADJUSTMENT_PPB`].
    pub fn set_frequency(&mut self, now: SimTime, scaled_ppm: i64) -> Result<(), Errno> {
        // `scaled_ppm_to_ppb` of Linux.
        let ppb = ((i128::from(scaled_ppm) + 1) * 125) >> 13;
        if ppb > MAX_ADJUSTMENT_PPB.into() || ppb < (-MAX_ADJUSTMENT_PPB).into() {
            return Err(Errno::ERANGE);
        }
        self.anchor = (now, self.picos(now));
        self.frequency = scaled_ppm;
        Ok(())
    }

    /// Frequency offset dialled last.
    pub fn frequency(&self) -> i64 {
        self.frequency
    }

    /// Sets the frequency error of the oscillator.
    pub fn set_drift(&mut self, now: SimTime, ppb: i64) {
        if ppb != self.drift_ppb {
            self.anchor = (now, self.picos(now));
            self.drift_ppb = ppb;
        }
    }
}

/// `HWTSTAMP_TX_OFF`, `HWTSTAMP_TX_ON`.
const TX_OFF: i32 = 0;
const TX_ON: i32 = 1;
/// Number of values of `enum hwtstamp_tx_types` and of `enum hwtstamp_rx_filters`.
const TX_TYPES: i32 = 4;
const RX_FILTERS: i32 = 16;
/// `HWTSTAMP_FILTER_NONE`, `HWTSTAMP_FILTER_ALL`, `HWTSTAMP_FILTER_SOME`.
const FILTER_NONE: i32 = 0;
const FILTER_ALL: i32 = 1;
/// `HWTSTAMP_FLAG_BONDED_PHC_INDEX`, the only flag.
const FLAGS: i32 = 1;

/// `tx_types` and `rx_filters` of `struct ethtool_ts_info`: bits of the supported values.
pub const SUPPORTED_TX_TYPES: u32 = 1 << TX_OFF | 1 << TX_ON;
/// See [`SUPPORTED_TX_TYPES`].
pub const SUPPORTED_RX_FILTERS: u32 = 1 << FILTER_NONE | 1 << FILTER_ALL;

/// `struct hwtstamp_config`: the settings of `SIOCSHWTSTAMP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampConfig {
    /// `HWTSTAMP_FLAG_*`.
    pub flags: i32,
    /// `HWTSTAMP_TX_*`.
    pub tx_type: i32,
    /// `HWTSTAMP_FILTER_*`.
    pub rx_filter: i32,
}

impl StampConfig {
    /// Checks the values, whatever the adapter supports (`net_hwtstamp_validate` of Linux).
    pub fn check(&self) -> Result<(), Errno> {
        if self.flags & !FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let known = (0..TX_TYPES).contains(&self.tx_type) && (0..RX_FILTERS).contains(&self.rx_filter);
        if known { Ok(()) } else { Err(Errno::ERANGE) }
    }
}

/// Timestamping unit of an interface: the hardware clock, and the packets that it stamps.
#[derive(Clone, Debug)]
pub struct PtpPort {
    /// The clock.
    pub clock: PtpClock,
    /// True if the oscillator has an error of its own, which changes of the host's clock do not affect.
    pub own_oscillator: bool,
    config: StampConfig,
}

impl PtpPort {
    /// Creates the unit of an interface that stamps nothing.
    pub fn new(clock: PtpClock, own_oscillator: bool) -> PtpPort {
        PtpPort { clock, own_oscillator, config: StampConfig::default() }
    }

    /// The present settings.
    pub fn config(&self) -> StampConfig {
        self.config
    }

    /// Applies valid settings and returns those in effect: any filter is widened to all packets. Fails with
    /// `ERANGE` for one-step transmission.
    pub fn configure(&mut self, asked: StampConfig) -> Result<StampConfig, Errno> {
        if asked.tx_type > TX_ON {
            return Err(Errno::ERANGE);
        }
        let rx_filter = if asked.rx_filter == FILTER_NONE { FILTER_NONE } else { FILTER_ALL };
        self.config = StampConfig { flags: 0, rx_filter, ..asked };
        Ok(self.config)
    }

    /// True if packets are stamped when they are sent.
    pub fn stamps_sent(&self) -> bool {
        self.config.tx_type == TX_ON
    }

    /// Timestamp of a frame whose last bit arrives at `at`, `len` after its first; 0 without one.
    pub fn received(&self, at: SimTime, len: SimDuration) -> i64 {
        if self.config.rx_filter == FILTER_NONE {
            return 0;
        }
        self.clock.read(SimTime::ZERO + at.since(SimTime::ZERO).saturating_sub(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(ns: i64) -> SimTime {
        SimTime::from_nanos(ns as u64)
    }

    #[test]
    fn a_clock_follows_its_oscillator_and_the_dialled_frequency() {
        let mut clock = PtpClock::new(at(0), 5 * SECOND, 50_000);
        assert_eq!(clock.read(at(0)), 5 * SECOND);
        assert_eq!(clock.read(at(SECOND)), 6 * SECOND + 50_000);
        clock.set_frequency(at(SECOND), -50 << 16).unwrap();
        assert_eq!(clock.read(at(SECOND)), 6 * SECOND + 50_000, "no step");
        // Both factors leave 2.5 ns a second.
        assert_eq!(clock.read(at(2 * SECOND)), 7 * SECOND + 50_000 - 3);
        clock.step(at(2 * SECOND), -7 * SECOND);
        assert_eq!(clock.read(at(2 * SECOND)), 50_000 - 3);
        clock.set(at(3 * SECOND), 11);
        assert_eq!((clock.read(at(3 * SECOND)), clock.frequency()), (11, -50 << 16));
        clock.set_drift(at(4 * SECOND), 0);
        let before = clock.read(at(4 * SECOND));
        assert_eq!(clock.read(at(5 * SECOND)) - before, SECOND - 50_000);
    }

    #[test]
    fn frequencies_have_a_range_and_a_resolution_below_a_nanosecond() {
        let mut clock = PtpClock::new(at(0), 0, 0);
        for scaled in [i64::MAX, i64::MIN, 62_501 << 16, -(62_501 << 16)] {
            assert_eq!(clock.set_frequency(at(0), scaled), Err(Errno::ERANGE));
        }
        clock.set_frequency(at(0), 62_499 << 16).unwrap();
        clock.set_frequency(at(0), 1).unwrap();
        assert_eq!(clock.read(at(1_000_000 * SECOND)), 1_000_000 * SECOND + 15_258);
    }

    #[test]
    fn filters_are_widened_and_one_step_is_refused() {
        let mut port = PtpPort::new(PtpClock::new(at(0), SECOND, 0), false);
        assert_eq!(port.received(at(10), SimDuration::ZERO), 0);
        let asked = StampConfig { flags: 0, tx_type: TX_ON, rx_filter: 12 };
        assert_eq!((asked.check(), port.configure(asked).unwrap().rx_filter), (Ok(()), FILTER_ALL));
        assert!(port.stamps_sent());
        assert_eq!(port.received(at(1_000), SimDuration::from_nanos(512)), SECOND + 488);
        assert_eq!(port.configure(StampConfig { tx_type: 2, ..asked }), Err(Errno::ERANGE));
        assert_eq!(port.config().rx_filter, FILTER_ALL, "a refused request changes nothing");
        for wrong in [StampConfig { tx_type: 4, ..asked }, StampConfig { rx_filter: -1, ..asked }] {
            assert_eq!(wrong.check(), Err(Errno::ERANGE));
        }
        assert_eq!(StampConfig { flags: 2, ..asked }.check(), Err(Errno::EINVAL));
    }
}
