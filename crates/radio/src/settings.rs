//! The settings of a channel.

use belljar_base::SimDuration;

/// Bytes of an acknowledgement.
const ACK: u64 = 14;

/// The settings of a channel. The defaults are IEEE 802.11b's, with long preambles.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Attenuation over distance.
    pub propagation: Propagation,
    /// How many decibels stronger than each frame that overlaps it a frame must be to be received all the same; `None`:
    /// frames that overlap are lost.
    pub capture: Option<f64>,
    /// The probability that a frame is lost at a receiver that would have received it.
    pub loss: f64,
    /// Bits per second of frames to one station.
    pub rate: u64,
    /// Bits per second of frames to all, and of acknowledgements.
    pub basic_rate: u64,
    /// The time before the first bit of a frame.
    pub preamble: SimDuration,
    /// Bytes of a frame on the air beyond those of its Ethernet frame.
    pub overhead: u64,
    /// The slot of the backoff.
    pub slot: SimDuration,
    /// The time between a frame and its acknowledgement.
    pub sifs: SimDuration,
    /// The least and the greatest contention window.
    pub window: [u32; 2],
    /// How often a frame is sent again before it is given up.
    pub retries: u32,
    /// Frames that wait at a station.
    pub queue: usize,
}

/// Attenuation over distance.
#[derive(Clone, Debug, PartialEq)]
pub enum Propagation {
    /// A frame is received up to a distance, and heard as noise up to another.
    Range {
        /// In metres.
        range: f64,
        /// In metres, at least the range.
        carrier_sense: f64,
    },
    /// The signal gets weaker with the logarithm of the distance.
    LogDistance(LogDistance),
}

/// Log-distance path loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LogDistance {
    /// The loss per decade of distance, in units of 10 dB.
    pub exponent: f64,
    /// The loss at 1 m, in dB.
    pub reference_loss: f64,
    /// In dBm.
    pub transmit_power: f64,
    /// The weakest signal that is received, in dBm.
    pub reception_threshold: f64,
    /// The weakest signal that is heard as noise, in dBm, at most the reception threshold.
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
    /// The distances in metres up to which frames are received, and up to which they are heard.
    pub fn reach(&self) -> (f64, f64) {
        match self {
            Propagation::Range { range, carrier_sense } => (*range, *carrier_sense),
            Propagation::LogDistance(model) => {
                (model.distance(model.reception_threshold), model.distance(model.carrier_sense_threshold))
            }
        }
    }
    /// The strength of a signal at a distance, in dBm; 0 where only the range counts.
    pub(crate) fn power(&self, distance: f64) -> f64 {
        match self {
            Propagation::Range { .. } => 0.0,
            Propagation::LogDistance(model) => model.power(distance),
        }
    }
}

impl LogDistance {
    fn power(&self, distance: f64) -> f64 {
        // No nearer than the reference distance.
        self.transmit_power - self.reference_loss - 10.0 * self.exponent * distance.max(1.0).log10()
    }
    fn distance(&self, power: f64) -> f64 {
        let decades = (self.transmit_power - self.reference_loss - power) / (10.0 * self.exponent);
        if decades < 0.0 { 0.0 } else { 10f64.powf(decades) }
    }
}

impl Settings {
    /// The time that the medium must be idle before a station counts slots.
    pub fn difs(&self) -> SimDuration {
        self.sifs + self.slot.saturating_mul(2)
    }
    /// The time of an Ethernet frame of so many bytes on the air, to one station or to all.
    pub fn airtime(&self, bytes: usize, to_one: bool) -> SimDuration {
        let rate = if to_one { self.rate } else { self.basic_rate };
        self.preamble + SimDuration::serialisation(bytes as u64 + self.overhead, rate)
    }
    /// The time of an acknowledgement on the air.
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
        // 1,536 bytes of MPDU for an Ethernet frame of 1,514.
        assert_eq!(settings.airtime(1_514, true).as_nanos(), 192_000 + 1_117_090);
        assert_eq!(settings.airtime(1_514, false).as_micros(), 192 + 6_144);
        assert_eq!(settings.ack_airtime().as_micros(), 192 + 56);
        assert_eq!(settings.difs().as_micros(), 50);
    }
}
