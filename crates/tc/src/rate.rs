//! Rates as Linux computes with them: transmission times in nanoseconds by a multiplication and a shift
//! (`psched_ratecfg_precompute` of `net/sched/sch_generic.c`), and ticks of 64 ns in messages.

use crate::attributes::{half, word};

/// Length of `struct tc_ratespec` in bytes.
pub(crate) const RATESPEC: usize = 12;
/// `TC_LINKLAYER_ATM`.
const ATM: u8 = 2;
/// `PSCHED_SHIFT`: a tick is 64 ns.
const SHIFT: u32 = 6;

/// Nanoseconds of a number of ticks.
pub(crate) fn ticks_to_ns(ticks: u32) -> i64 {
    i64::from(ticks) << SHIFT
}

/// Ticks in a number of nanoseconds, as a field of a message has them.
pub(crate) fn ns_to_ticks(ns: i64) -> u32 {
    (ns >> SHIFT) as u32
}

/// Rate with the overhead of a link layer (`struct psched_ratecfg`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// Bytes per second.
    pub(crate) bytes: u64,
    multiplier: u64,
    shift: u32,
    overhead: u16,
    mpu: u16,
    linklayer: u8,
}

impl Rate {
    /// Rate of a `struct tc_ratespec`, or of the 64-bit attribute beside it.
    pub(crate) fn new(spec: &[u8], bytes: Option<u64>) -> Rate {
        let (overhead, mpu) = (half(spec, 2), half(spec, 6));
        let linklayer = spec.get(1).copied().unwrap_or(0) & 0xf;
        let bytes = bytes.unwrap_or(0).max(u64::from(word(spec, 8)));
        let (multiplier, shift) = multiplier(bytes);
        Rate { bytes, multiplier, shift, overhead, mpu, linklayer: linklayer.max(1) }
    }
    /// Transmission time of a packet of this length in nanoseconds (`psched_l2t_ns`).
    pub(crate) fn time(&self, len: u32) -> i64 {
        let len = (u64::from(len) + u64::from(self.overhead)).max(u64::from(self.mpu));
        let len = if self.linklayer == ATM { len.div_ceil(48) * 53 } else { len };
        ((u128::from(len) * u128::from(self.multiplier)) >> self.shift).min(i64::MAX as u128) as i64
    }
    /// Largest length whose transmission takes at most this time (`psched_ns_t2l`).
    pub(crate) fn length(&self, ns: i64) -> u64 {
        let len = (u128::from(ns.max(0) as u64) * u128::from(self.bytes) / 1_000_000_000) as u64;
        let len = if self.linklayer == ATM { len / 53 * 48 } else { len };
        len.saturating_sub(u64::from(self.overhead))
    }
    /// `struct tc_ratespec` (`psched_ratecfg_getrate`).
    pub(crate) fn spec(&self) -> Vec<u8> {
        let mut spec = vec![0; RATESPEC];
        spec[1] = self.linklayer;
        spec[2..4].copy_from_slice(&self.overhead.to_ne_bytes());
        spec[6..8].copy_from_slice(&self.mpu.to_ne_bytes());
        spec[8..].copy_from_slice(&(self.bytes.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
        spec
    }
    /// Rate as a number of its own where it does not fit its field.
    pub(crate) fn large(&self) -> Option<u64> {
        Some(self.bytes).filter(|bytes| *bytes > u64::from(u32::MAX))
    }
}

/// Factor and shift for nanoseconds per byte (`psched_ratecfg_precompute__`).
fn multiplier(bytes: u64) -> (u64, u32) {
    let (mut multiplier, mut shift, mut factor) = (1, 0, 1_000_000_000u64);
    while let Some(quotient) = factor.checked_div(bytes) {
        multiplier = quotient;
        if multiplier & (1 << 31) != 0 || factor & (1 << 63) != 0 {
            break;
        }
        factor <<= 1;
        shift += 1;
    }
    (multiplier & 0xffff_ffff, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bytes: u32) -> Rate {
        Rate::new(&[[0; 8].as_slice(), &bytes.to_ne_bytes()].concat(), None)
    }

    #[test]
    fn times_are_those_of_linux() {
        assert_eq!(rate(125_000).time(1_500), 12_000_000);
        assert_eq!(rate(1_250_000).time(1_514), 1_211_200);
        assert_eq!(rate(125_000).length(12_000_000), 1_500);
        assert_eq!(rate(0).time(1_500), 1_500);
    }
}
