//! Settings of a channel.

use belljar_base::SimDuration;

/// Length of an acknowledgement in bytes.
const ACK: u64 = 14;

/// Settings of a channel. The defaults are those of IEEE 802.11b with long preambles.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Path loss model.
    pub propagation: Propagation,
    /// Capture margin in decibels: a frame is received if it is stronger than each overlapping frame by this
    /// margin. `None`: overlapping frames are lost.
    pub capture: Option<f64>,
    /// Probability of random loss of a frame at a receiver.
    pub loss: f64,
    /// Rate of unicast frames in bits per second.
    pub rate: u64,
    /// Rate of broadcast frames and acknowledgements in bits per second.
    pub basic_rate: u64,
    /// Duration of the preamble.
    pub preamble: SimDuration,
    /// Overhead on the air in bytes, in addition to the Ethernet frame.
    pub overhead: u64,
    /// Slot time.
    pub slot: SimDuration,
    /// Interval between a frame and its acknowledgement (SIFS).
    pub sifs: SimDuration,
    /// Minimum and maximum contention window.
    pub window: [u32; 2],
    /// Maximum number of retransmissions.
    pub retries: u32,
    /// Queue limit of a station in frames.
    pub queue: usize,
}

/// Path loss model.
#[derive(Clone, Debug, PartialEq)]
pub enum Propagation {
    /// Fixed ranges for reception and for carrier sense.
    Range {
        /// Reception range in metres.
        range: f64,
        /// Carrier sense range in metres, at least `range`.
        carrier_sense: f64,
    },
    /// Signal strength decreases with the logarithm of the distance.
    LogDistance(LogDistance),
}

/// Log-distance path loss model.
#[derive(Clone, Debug, PartialEq)]
pub struct LogDistance {
    /// Path loss exponent: loss per decade of distance in units of 10 dB.
    pub exponent: f64,
    /// Path loss at 1 m in dB.
    pub reference_loss: f64,
    /// Transmit power in dBm.
    pub transmit_power: f64,
    /// Reception threshold in dBm: minimum signal that is received.
    pub reception_threshold: f64,
    /// Carrier sense threshold in dBm, at most the reception threshold.
    pub carrier_sense_threshold: f64,
}

impl Default for LogDistance {
    fn default() -> LogDistance {
        LogDistance {
            exponent: 3.0,
            reference_loss: 46.677_7,
            transmit_power: 16.020_6,
            reception_threshold: -88.0,
            carrier_sense_threshold: -96.0,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            propagation: Propagation::Range { range: 250.0, carrier_sense: 250.0 },
            capture: None,
            loss: 0.0,
            rate: 11_000_000,
            basic_rate: 2_000_000,
            preamble: SimDuration::from_micros(192),
            overhead: 22,
            slot: SimDuration::from_micros(20),
            sifs: SimDuration::from_micros(10),
            window: [31, 1_023],
            retries: 7,
            queue: 500,
        }
    }
}

impl Propagation {
    /// Reception range and carrier sense range in metres.
    pub fn reach(&self) -> (f64, f64) {
        match self {
            Propagation::Range { range, carrier_sense } => (*range, *carrier_sense),
            Propagation::LogDistance(model) => {
                (model.distance(model.reception_threshold), model.distance(model.carrier_sense_threshold))
            }
        }
    }
    /// Signal strength at a distance in dBm; 0 for fixed ranges.
    pub(crate) fn power(&self, distance: f64) -> f64 {
        match self {
            Propagation::Range { .. } => 0.0,
            Propagation::LogDistance(model) => model.power(distance),
        }
    }
}

impl LogDistance {
    fn power(&self, distance: f64) -> f64 {
        // The model is not valid below the reference distance.
        self.transmit_power - self.reference_loss - 10.0 * self.exponent * distance.max(1.0).log10()
    }
    fn distance(&self, power: f64) -> f64 {
        let decades = (self.transmit_power - self.reference_loss - power) / (10.0 * self.exponent);
        if decades < 0.0 { 0.0 } else { 10f64.powf(decades) }
    }
}

impl Settings {
    /// Expected share of unicast frames that random loss takes in all their transmissions.
    pub fn unicast_loss(&self) -> f64 {
        self.loss.powi(i32::try_from(self.retries).unwrap_or(i32::MAX).saturating_add(1))
    }
    /// Time for which the medium must be idle before backoff slots are counted (DIFS).
    pub fn difs(&self) -> SimDuration {
        self.sifs + self.slot.saturating_mul(2)
    }
    /// Airtime of an Ethernet frame of `bytes` bytes, unicast if `to_one`, otherwise broadcast.
    pub fn airtime(&self, bytes: usize, to_one: bool) -> SimDuration {
        let rate = if to_one { self.rate } else { self.basic_rate };
        self.preamble + SimDuration::serialisation(bytes as u64 + self.overhead, rate)
    }
    /// Airtime of an acknowledgement.
    pub fn ack_airtime(&self) -> SimDuration {
        self.preamble + SimDuration::serialisation(ACK, self.basic_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_of_log_distance_follows_from_its_thresholds() {
        let model = LogDistance::default();
        let (range, sense) = Propagation::LogDistance(model.clone()).reach();
        assert!((model.power(range) - model.reception_threshold).abs() < 1e-9);
        assert!((model.power(sense) - model.carrier_sense_threshold).abs() < 1e-9);
        assert!(range > 70.0 && range < sense, "{range} {sense}");
        assert_eq!(model.power(0.0), model.power(1.0));
    }

    #[test]
    fn airtimes_are_those_of_802_11b() {
        let settings = Settings::default();
        // The MPDU of a 1,514-byte Ethernet frame has 1,536 bytes.
        assert_eq!(settings.airtime(1_514, true).as_nanos(), 192_000 + 1_117_090);
        assert_eq!(settings.airtime(1_514, false).as_micros(), 192 + 6_144);
        assert_eq!(settings.ack_airtime().as_micros(), 192 + 56);
        assert_eq!(settings.difs().as_micros(), 50);
    }
}
