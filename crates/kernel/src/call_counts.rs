//! How often each system call was made.

use belljar_base::Map;

/// How many different calls are counted where they are made. What a program does over and over again
/// is mostly three or four calls.
const RECENT: usize = 4;

/// Counts by number of the call. The map lies in memory that has gone cold by the time a host runs again,
/// so the calls made last are counted in the host itself.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Call numbers and how often each was made since it came here.
    recent: [(u32, u32); RECENT],
    next: u8,
    earlier: Map<u32, u64>,
}

impl CallCounts {
    /// So many more calls.
    pub fn add(&mut self, number: u32, times: u32) {
        let found = self.recent.iter_mut().find(|(of, count)| *of == number && *count != 0);
        match found.and_then(|(_, count)| Some((count.checked_add(times)?, count))) {
            Some((sum, count)) => *count = sum,
            None => self.replace(number, times),
        }
    }

    #[cold]
    fn replace(&mut self, number: u32, times: u32) {
        // One that is full is cleared, and the next one in turn else.
        let full = self.recent.iter().position(|(of, count)| *of == number && *count != 0);
        let at = full.unwrap_or(usize::from(self.next));
        self.next = (self.next + 1) % RECENT as u8;
        let (old, count) = std::mem::replace(&mut self.recent[at], (number, times));
        if count != 0 {
            *self.earlier.entry(old).or_default() += u64::from(count);
        }
    }

    /// All of them.
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
        counts.recent = [(0, u32::MAX); RECENT];
        counts.earlier.clear();
        counts.recent[1..].fill((0, 0));
        counts.add(0, 1);
        counts.add(0, 41);
        assert_eq!(counts.by_number(), Map::from([(0, u64::from(u32::MAX) + 42)]));
    }
}
