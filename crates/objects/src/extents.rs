//! Allocated and written ranges of a file: `SEEK_DATA`, `SEEK_HOLE` and `st_blocks`. They are tracked here
//! since the holes of the native file depend on the machine's file system.

use belljar_base::Map;

/// Allocation unit in bytes.
pub const BLOCK: u64 = 4_096;

/// Ranges of a file that hold data and those that are allocated, in whole blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents {
    /// The whole file is allocated and holds data.
    Everything,
    /// Only parts of the file are allocated.
    Parts {
        /// Allocated ranges, including those of `fallocate(2)` without data.
        aside: Ranges,
        /// Ranges that hold data.
        data: Ranges,
    },
}

/// Disjoint ranges that do not touch, from start to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Map<u64, u64>);

impl Ranges {
    fn add(&mut self, start: u64, end: u64) {
        let parts = &mut self.0;
        let (mut start, mut end) = (start / BLOCK * BLOCK, end.div_ceil(BLOCK) * BLOCK);
        if let Some((from, to)) = parts.range_mut(..=start).next_back()
            && *to >= start
        {
            if *to >= end {
                return;
            }
            start = *from;
        }
        while let Some((from, to)) = parts.range(start..=end).next() {
            let from = *from;
            end = end.max(*to);
            parts.remove(&from);
        }
        parts.insert(start, end);
    }
    /// Removes the whole blocks within `start..end`.
    fn remove(&mut self, start: u64, end: u64) {
        let parts = &mut self.0;
        let (start, end) = (start.div_ceil(BLOCK) * BLOCK, end / BLOCK * BLOCK);
        if start >= end {
            return;
        }
        let touched: Vec<(u64, u64)> =
            parts.range(..end).rev().take_while(|(_, to)| **to > start).map(|(f, t)| (*f, *t)).collect();
        for (from, to) in touched {
            parts.remove(&from);
            if from < start {
                parts.insert(from, start);
            }
            if to > end {
                parts.insert(end, to);
            }
        }
    }
}

impl Extents {
    /// Extents of a new, empty file.
    pub fn none() -> Extents {
        Extents::Parts { aside: Ranges::default(), data: Ranges::default() }
    }
    /// Marks the bytes `start..end` as data.
    pub fn add(&mut self, start: u64, end: u64) {
        if let Extents::Parts { aside, data } = self
            && start < end
        {
            aside.add(start, end);
            data.add(start, end);
        }
    }
    /// Allocates the bytes `start..end` without making them data.
    pub fn set_aside(&mut self, start: u64, end: u64) {
        if let Extents::Parts { aside, .. } = self
            && start < end
        {
            aside.add(start, end);
        }
    }
    /// Punches a hole over `start..end` of a file of `size` bytes: the whole blocks within are freed.
    pub fn remove(&mut self, start: u64, end: u64, size: u64) {
        if start.div_ceil(BLOCK) >= end / BLOCK {
            return;
        }
        self.split(size);
        if let Extents::Parts { aside, data } = self {
            aside.remove(start, end);
            data.remove(start, end);
        }
    }
    /// Replaces `Everything` by the ranges of a file of `size` bytes, so that growth beyond `size` is a hole.
    pub fn split(&mut self, size: u64) {
        if let Extents::Everything = self {
            *self = Extents::none();
            self.add(0, size);
        }
    }
    /// Truncates the extents to `size` bytes.
    pub fn cut(&mut self, size: u64) {
        if matches!(self, Extents::Parts { .. }) {
            self.remove(size, u64::MAX, u64::MAX);
        }
    }
    /// Offset of the first data byte at or after `at`; `None` if there is none before `size`.
    pub fn next_data(&self, at: u64, size: u64) -> Option<u64> {
        let Extents::Parts { data: Ranges(parts), .. } = self else { return (at < size).then_some(at) };
        if parts.range(..=at).next_back().is_some_and(|(_, to)| *to > at) {
            return (at < size).then_some(at);
        }
        parts.range(at..).next().map(|(from, _)| *from).filter(|from| *from < size)
    }
    /// Offset of the first hole at or after `at`; the end of the file counts as a hole.
    pub fn next_hole(&self, at: u64, size: u64) -> u64 {
        let Extents::Parts { data: Ranges(parts), .. } = self else { return size };
        match parts.range(..=at).next_back() {
            Some((_, to)) if *to > at => (*to).min(size),
            _ => at,
        }
    }
    /// End of the range that can be written from `start` to a file of `size` bytes if at most `left` more
    /// bytes can be allocated.
    pub fn end_of_room(&self, start: u64, size: u64, left: u64) -> u64 {
        let (mut at, mut left) = (start / BLOCK * BLOCK, left / BLOCK * BLOCK);
        let Extents::Parts { aside: Ranges(parts), .. } = self else {
            return at.max(size.div_ceil(BLOCK) * BLOCK).saturating_add(left);
        };
        for (from, to) in parts.iter().filter(|(_, to)| **to > start) {
            let hole = from.saturating_sub(at);
            if hole > left {
                break;
            }
            (at, left) = (at.max(*to), left - hole);
        }
        at.saturating_add(left)
    }
    /// Allocated bytes of a file of `size` bytes.
    pub fn allocated(&self, size: u64) -> u64 {
        match self {
            Extents::Everything => size.div_ceil(BLOCK) * BLOCK,
            Extents::Parts { aside: Ranges(parts), .. } => parts.iter().map(|(from, to)| to - from).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1_024;

    fn parts<const N: usize>(parts: [(u64, u64); N]) -> Extents {
        let ranges = Ranges(parts.into());
        Extents::Parts { aside: ranges.clone(), data: ranges }
    }

    #[test]
    fn holes_take_room_and_data_does_not() {
        let mut extents = Extents::none();
        extents.add(8 * K, 16 * K);
        extents.add(24 * K, 28 * K);
        assert_eq!(extents.end_of_room(0, 28 * K, 4 * K), 4 * K);
        assert_eq!(extents.end_of_room(0, 28 * K, 8 * K), 16 * K);
        assert_eq!(extents.end_of_room(9 * K, 28 * K, 0), 16 * K);
        assert_eq!(extents.end_of_room(9 * K, 28 * K, 12 * K), 32 * K);
        assert_eq!(extents.end_of_room(100 * K, 28 * K, 5 * K), 104 * K);
        assert_eq!(extents.end_of_room(100 * K, 28 * K, u64::MAX), u64::MAX);
        assert_eq!(Extents::Everything.end_of_room(0, 5 * K, 0), 8 * K);
    }

    #[test]
    fn parts_join_and_split_at_blocks() {
        let mut extents = Extents::none();
        extents.add(0, 10);
        extents.add(64 * K, 64 * K + 1);
        assert_eq!(extents.allocated(65 * K), 8 * K);
        assert_eq!(extents.next_hole(0, 65 * K), 4 * K);
        assert_eq!(extents.next_data(4 * K, 65 * K), Some(64 * K));
        assert_eq!(extents.next_data(68 * K, 100 * K), None);
        assert_eq!(extents.next_hole(64 * K, 65 * K), 65 * K, "behind the end is a hole");
        extents.add(4 * K, 64 * K);
        assert_eq!(extents, parts([(0, 68 * K)]));
        extents.remove(5 * K, 33 * K, 68 * K);
        assert_eq!(extents, parts([(0, 8 * K), (32 * K, 68 * K)]));
        extents.cut(40 * K);
        assert_eq!(extents, parts([(0, 8 * K), (32 * K, 40 * K)]));
    }

    #[test]
    fn a_hole_in_everything_leaves_the_rest() {
        let mut extents = Extents::Everything;
        extents.remove(0, 100, 64 * K);
        assert_eq!(extents, Extents::Everything, "less than a block");
        extents.remove(4 * K, 8 * K, 64 * K);
        assert_eq!(extents, parts([(0, 4 * K), (8 * K, 64 * K)]));
        assert_eq!(extents.next_hole(0, 64 * K), 4 * K);
    }

    #[test]
    fn what_is_set_aside_holds_no_data() {
        let mut extents = Extents::none();
        extents.set_aside(4 * K, 4 * K + 10);
        assert_eq!((extents.allocated(5 * K), extents.next_data(0, 5 * K)), (4 * K, None));
        extents.add(5 * K, 5 * K + 1);
        assert_eq!((extents.allocated(6 * K), extents.next_data(0, 6 * K)), (4 * K, Some(4 * K)));
    }
}
