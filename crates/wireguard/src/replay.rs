//! Window against replayed packets (RFC 6479, as Linux has it): a bit for each recent counter.

/// Number of bits.
const BITS: u64 = 8_192;
/// Number of counters below the highest one that are still accepted.
pub const WINDOW: u64 = BITS - 64;
const WORDS: usize = (BITS / 64) as usize;

/// Counters of received packets.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// Highest counter plus one.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow { next: 0, seen: Box::new([0; WORDS]) }
    }
}

impl ReplayWindow {
    /// Highest counter plus one.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// Registers a counter. False if it was seen before, or is too old to know (`counter_validate`).
    pub fn accept(&mut self, counter: u64) -> bool {
        let limit = crate::limits::REJECT_AFTER_MESSAGES;
        if self.next > limit || counter >= limit {
            return false;
        }
        let number = counter + 1;
        if WINDOW + number < self.next {
            return false;
        }
        let word = number / 64;
        if number > self.next {
            let top = (word - self.next / 64).min(WORDS as u64);
            for step in 1..=top {
                self.seen[((self.next / 64 + step) % WORDS as u64) as usize] = 0;
            }
            self.next = number;
        }
        let slot = &mut self.seen[(word % WORDS as u64) as usize];
        let bit = 1 << (number % 64);
        let fresh = *slot & bit == 0;
        *slot |= bit;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of Linux's `wg_packet_counter_selftest`.
    #[test]
    fn the_cases_of_linux() {
        let limit = WINDOW + 1;
        let check = |cases: &[(u64, bool)]| {
            let mut window = ReplayWindow::default();
            for (number, (counter, fresh)) in cases.iter().enumerate() {
                assert_eq!(window.accept(*counter), *fresh, "case {number}: {counter}");
            }
        };
        check(&[
            (0, true),
            (1, true),
            (1, false),
            (9, true),
            (8, true),
            (7, true),
            (7, false),
            (limit, true),
            (limit - 1, true),
            (limit - 1, false),
            (limit - 2, true),
            (2, true),
            (2, false),
            (limit + 16, true),
            (3, false),
            (limit + 16, false),
            (limit * 4, true),
            (limit * 4 - (limit - 1), true),
            (10, false),
            (limit * 4 - limit, false),
            (limit * 4 - (limit + 1), false),
            (limit * 4 - (limit - 2), true),
            (limit * 4 + 1 - limit, false),
            (0, false),
            (crate::limits::REJECT_AFTER_MESSAGES, false),
            (crate::limits::REJECT_AFTER_MESSAGES - 1, true),
            (crate::limits::REJECT_AFTER_MESSAGES, false),
            (crate::limits::REJECT_AFTER_MESSAGES - 1, false),
            (crate::limits::REJECT_AFTER_MESSAGES - 2, true),
        ]);
        let rising: Vec<_> = (1..=WINDOW).map(|counter| (counter, true)).collect();
        check(&[&rising[..], &[(0, true), (0, false)]].concat());
        let rising: Vec<_> = (2..=WINDOW + 1).map(|counter| (counter, true)).collect();
        check(&[&rising[..], &[(1, true), (0, false)]].concat());
        let falling: Vec<_> = (0..=WINDOW).rev().map(|counter| (counter, true)).collect();
        check(&falling);
    }
}
