//! Counts of system calls by number.

use belljar_base::Map;

/// Entries of the direct-mapped table of recent calls, a power of two. Programs mostly repeat three or four
/// calls.
const RECENT: usize = 8;

/// System call counts. The map is usually out of the CPU's caches when a host resumes, so recent calls are
/// counted in a small direct-mapped table: one call number for each value of the low bits.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Call number and count since the entry was last replaced.
    recent: [(u32, u32); RECENT],
    earlier: Map<u32, u64>,
}

impl CallCounts {
    /// Adds `times` calls of `number`.
    #[inline]
    pub fn add(&mut self, number: u32, times: u32) {
        let (of, count) = &mut self.recent[number as usize % RECENT];
        match count.checked_add(times) {
            Some(sum) if *of == number => *count = sum,
            _ => self.replace(number, times),
        }
    }

    #[cold]
    fn replace(&mut self, number: u32, times: u32) {
        let place = &mut self.recent[number as usize % RECENT];
        let (old, count) = std::mem::replace(place, (number, times));
        if count != 0 {
            *self.earlier.entry(old).or_default() += u64::from(count);
        }
    }

    /// All counts by call number.
    pub fn by_number(&self) -> Map<u32, u64> {
        let mut all = self.earlier.clone();
        for (number, count) in self.recent.iter().filter(|(_, count)| *count != 0) {
            *all.entry(*number).or_default() += u64::from(*count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_counted_once() {
        let mut counts = CallCounts::default();
        let mut expected = Map::new();
        for n in 0..10_000_u32 {
            let number = if n % 7 < 5 { n % 3 } else { n % 19 };
            counts.add(number, 1);
            *expected.entry(number).or_default() += 1;
        }
        assert_eq!(counts.by_number(), expected);
        counts = CallCounts::default();
        counts.recent[0] = (0, u32::MAX);
        counts.add(0, 1);
        counts.add(0, 41);
        assert_eq!(counts.by_number(), Map::from([(0, u64::from(u32::MAX) + 42)]));
    }
}
