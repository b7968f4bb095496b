//! Frame counters in clear-on-read registers. Lengths include the frame check sequence, as specified in
//! Intel's manual.

use super::{Device, reg};

/// Length of the frame check sequence in bytes.
const CRC: usize = 4;

/// Counter registers of one direction.
struct Counters {
    total: u64,
    total_bytes: u64,
    good: u64,
    good_bytes: u64,
    /// First of six frame-length classes.
    classes: u64,
    broadcast: u64,
    multicast: u64,
}

const RECEIVED: Counters = Counters {
    total: reg::TPR,
    total_bytes: reg::TORL,
    good: reg::GPRC,
    good_bytes: reg::GORCL,
    classes: reg::PRC64,
    broadcast: reg::BPRC,
    multicast: reg::MPRC,
};
const SENT: Counters = Counters {
    total: reg::TPT,
    total_bytes: reg::TOTL,
    good: reg::GPTC,
    good_bytes: reg::GOTCL,
    classes: reg::PTC64,
    broadcast: reg::BPTC,
    multicast: reg::MPTC,
};

/// Index of a frame's length class; the upper bounds are 64, 127, 255, 511 and 1,023 bytes.
fn class(len: usize) -> u64 {
    [64, 127, 255, 511, 1_023].iter().filter(|most| len > **most).count() as u64
}

impl Device {
    pub(super) fn count(&mut self, register: u64, more: u32) {
        let value = self.registers.entry(register).or_default();
        *value = value.saturating_add(more);
    }

    /// Adds to a 64-bit counter in two registers.
    fn count_wide(&mut self, low: u64, more: usize) {
        let total = (u64::from(self.get(low + 4)) << 32 | u64::from(self.get(low))).wrapping_add(more as u64);
        self.registers.insert(low, total as u32);
        self.registers.insert(low + 4, (total >> 32) as u32);
    }

    /// Counts a frame on the wire, whatever its destination.
    pub(super) fn count_arrived(&mut self, len: usize) {
        self.count(RECEIVED.total, 1);
        self.count_wide(RECEIVED.total_bytes, len + CRC);
    }
    /// Counts a received frame by destination and length.
    pub(super) fn count_received(&mut self, to: [u8; 6], len: usize) {
        self.count_good(&RECEIVED, to, len + CRC);
    }
    /// Counts a transmitted frame.
    pub(super) fn count_sent(&mut self, frame: &[u8]) {
        self.count(SENT.total, 1);
        self.count_wide(SENT.total_bytes, frame.len() + CRC);
        self.count_good(&SENT, crate::fields::get(frame, 0), frame.len() + CRC);
    }

    fn count_good(&mut self, counters: &Counters, to: [u8; 6], len: usize) {
        self.count(counters.good, 1);
        self.count_wide(counters.good_bytes, len);
        self.count(counters.classes + 4 * class(len), 1);
        if to == [0xff; 6] {
            self.count(counters.broadcast, 1);
        } else if to[0] & 1 != 0 {
            self.count(counters.multicast, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_classed() {
        let classes = [60, 64, 65, 127, 128, 255, 256, 511, 512, 1_023, 1_024, 1_518].map(class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }
}
