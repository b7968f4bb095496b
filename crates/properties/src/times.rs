use belljar_base::SimTime;

/// Simulated times at which the bytes of a file were written: the last write of each byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTimes {
    /// Ranges (start, end) of bytes with the time of their last write, sorted, not overlapping.
    written: Vec<(u64, u64, SimTime)>,
}

impl WriteTimes {
    /// Records a write of the bytes from `start` to `end`, exclusive. Writes come in their order.
    pub fn write(&mut self, start: u64, end: u64, at: SimTime) {
        if start >= end {
            return;
        }
        if let Some(last) = self.written.last_mut()
            && (last.1, last.2) == (start, at)
        {
            last.1 = end;
            return;
        }
        let first = self.written.partition_point(|range| range.1 <= start);
        let behind = self.written.partition_point(|range| range.0 < end);
        let before = self.written.get(first).filter(|range| range.0 < start && first < behind);
        let before = before.map(|range| (range.0, start, range.2));
        let after = behind.checked_sub(1).and_then(|last| self.written.get(last));
        let after =
            after.filter(|range| range.1 > end && first < behind).map(|range| (end, range.1, range.2));
        let new = before.into_iter().chain([(start, end, at)]).chain(after);
        self.written.splice(first..behind.max(first), new);
    }

    /// Time at which the bytes from `start` to `end` were complete; `None` if no write of one of them was recorded.
    pub fn complete(&self, start: u64, end: u64) -> Option<SimTime> {
        let first = self.written.partition_point(|range| range.1 <= start);
        let (mut at, mut latest) = (start, None);
        for range in self.written[first..].iter().take_while(|range| range.0 < end) {
            if range.0 > at {
                return None;
            }
            at = range.1;
            latest = latest.max(Some(range.2));
        }
        latest.filter(|_| at >= end)
    }

    /// Recorded ranges of bytes (start, end) with their times.
    pub fn ranges(&self) -> &[(u64, u64, SimTime)] {
        &self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::from_secs(seconds)
    }

    #[test]
    fn appended_lines_have_the_time_of_their_last_byte() {
        let mut times = WriteTimes::default();
        times.write(0, 5, at(1));
        times.write(5, 6, at(2));
        times.write(6, 9, at(2));
        assert_eq!(times.ranges(), [(0, 5, at(1)), (5, 9, at(2))]);
        assert_eq!(times.complete(0, 5), Some(at(1)));
        assert_eq!(times.complete(0, 6), Some(at(2)));
        assert_eq!(times.complete(6, 9), Some(at(2)));
        assert_eq!(times.complete(6, 10), None);
        assert_eq!(times.complete(20, 21), None);
    }

    #[test]
    fn each_byte_has_its_last_write_and_holes_have_none() {
        // Every byte of a small file, against an array.
        let mut model = [None; 24];
        let mut times = WriteTimes::default();
        for n in 0..200_u64 {
            let (start, len) = (n * 7 % 20, n * 5 % 6);
            times.write(start, start + len, at(n));
            for byte in start..(start + len).min(24) {
                model[byte as usize] = Some(at(n));
            }
            assert!(times.ranges().is_sorted() && times.ranges().iter().all(|range| range.0 < range.1));
            assert!(times.ranges().windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", times.ranges());
            for byte in 0..24_u64 {
                assert_eq!(times.complete(byte, byte + 1), model[byte as usize], "write {n}, byte {byte}");
                let range = &model[byte as usize..(byte as usize + 3).min(24)];
                let expected =
                    if range.contains(&None) { None } else { range.iter().copied().max().flatten() };
                assert_eq!(
                    times.complete(byte, byte + range.len() as u64),
                    expected,
                    "write {n}, byte {byte}"
                );
            }
        }
    }
}
