//! Mappings of spaces, and the budget for near ones. Linux limits a process to `vm.max_map_count` mappings.
//! Beyond the limit any call may fail, and the simulator itself occasionally needs mappings. The mappings of
//! near spaces are therefore counted, and a space that would exceed the budget becomes far at that call. The
//! mappings of a far space show which of its memory accepts deferred writes.

use belljar_base::Map;
use belljar_machine::Prot;
use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of mappings that a starting program needs: a small dynamic one 30, Python 120.
pub const OF_A_PROGRAM: u64 = 120;
/// Largest number of mappings that one call adds.
pub const OF_A_CALL: u64 = 3;
/// Linux's default limit, used if the actual one cannot be read.
const USUAL_LIMIT: u64 = 65_530;
/// Divisor of the limit that gives the share reserved for the simulator.
const OWN_SHARE: u64 = 16;
/// Least number of mappings reserved for the simulator.
const OWN_LEAST: u64 = 600;

/// Number of mappings of all near spaces and of the channels to far ones.
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// True if the budget allows near spaces `more` additional mappings.
pub fn has_room(more: u64) -> bool {
    static BUDGET: OnceLock<u64> = OnceLock::new();
    let budget = BUDGET.get_or_init(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_LIMIT);
        limit - (limit / OWN_SHARE).max(OWN_LEAST).min(limit)
    });
    TOTAL.load(Relaxed) + more <= *budget
}

/// A mapping outside of all spaces, counted until dropped.
#[derive(Debug)]
pub struct Counted(());

impl Counted {
    /// Adds one mapping to the total.
    pub fn new() -> Counted {
        TOTAL.fetch_add(1, Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TOTAL.fetch_sub(1, Relaxed);
    }
}

/// Kind of a mapping: adjacent mappings of the same kind merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private memory without a file.
    Anonymous,
    /// Part of a private file mapping; the number identifies the call that made it.
    File(u64),
    /// Part of memory that other spaces may also map; the number identifies the call that mapped it.
    Shared(u64),
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    prot: Prot,
    kind: Kind,
}

/// The mappings of one space, merged and split as Linux does.
#[derive(Debug)]
pub struct Mappings {
    by_start: Map<u64, Mapping>,
    files: u64,
    /// True if the mappings count against the budget of near spaces.
    counted: bool,
    /// The mapping looked up last, with its start.
    recent: Cell<Option<(u64, Mapping)>>,
}

impl Mappings {
    /// An empty set of mappings; `counted` for a near space.
    pub fn none(counted: bool) -> Mappings {
        Mappings { by_start: Map::default(), files: 0, counted, recent: Cell::new(None) }
    }

    /// A copy of the mappings for a far space.
    pub fn copied_far(&self) -> Mappings {
        let mut copy = Mappings::none(false);
        copy.by_start.clone_from(&self.by_start);
        copy.files = self.files;
        copy
    }

    /// A new kind for one call's mapping of a file.
    pub fn of_file(&mut self, shared: bool) -> Kind {
        self.files += 1;
        if shared { Kind::Shared(self.files) } else { Kind::File(self.files) }
    }

    /// The mapping that contains `len` bytes at `addr`, if a single one does.
    fn around(&self, addr: u64, len: u64) -> Option<Mapping> {
        let end = addr.checked_add(len)?;
        if let Some((start, mapping)) = self.recent.get()
            && start <= addr
            && end <= mapping.end
        {
            return Some(mapping);
        }
        let (start, mapping) = self.by_start.range(..=addr).next_back()?;
        self.recent.set(Some((*start, *mapping)));
        (end <= mapping.end).then_some(*mapping)
    }

    /// True if only this space can change these bytes.
    pub fn are_own(&self, addr: u64, len: u64) -> bool {
        self.around(addr, len).is_some_and(|mapping| !matches!(mapping.kind, Kind::Shared(_)))
    }

    /// True if writes to these bytes cannot fail and reach no file: anonymous, writable memory in one
    /// mapping.
    pub fn take_writes(&self, addr: u64, len: u64) -> bool {
        let takes = |mapping: Mapping| mapping.kind == Kind::Anonymous && mapping.prot.contains(Prot::WRITE);
        self.around(addr, len).is_some_and(takes)
    }

    /// True if `range` is unmapped.
    pub fn are_none(&self, range: &Range<u64>) -> bool {
        self.within(range).next().is_none()
    }

    /// True if all mappings in `range` are private, read-only file mappings.
    pub fn are_files_read(&self, range: &Range<u64>) -> bool {
        self.within(range)
            .all(|mapping| matches!(mapping.kind, Kind::File(_)) && !mapping.prot.contains(Prot::WRITE))
    }

    /// The executable mappings in `range`, clipped to it, with true for those that are anonymous.
    pub fn executable(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let clipped = |mapping: &Mapping, start: u64| start.max(range.start)..mapping.end.min(range.end);
        let before = self.by_start.range(..range.start).next_back().filter(|(_, m)| m.end > range.start);
        let all = before.into_iter().chain(self.by_start.range(range.clone()));
        all.filter(|(_, mapping)| mapping.prot.contains(Prot::EXEC))
            .map(move |(start, mapping)| (clipped(mapping, *start), mapping.kind == Kind::Anonymous))
    }

    /// The mappings that overlap `range`.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = &Mapping> {
        let before = self.by_start.range(..range.start).next_back().map(|(_, mapping)| mapping);
        let before = before.filter(|mapping| mapping.end > range.start);
        before.into_iter().chain(self.by_start.range(range.clone()).map(|(_, mapping)| mapping))
    }

    /// Records a new mapping of `range`, which replaces existing ones.
    pub fn insert(&mut self, range: Range<u64>, prot: Prot, kind: Kind) {
        self.counting(|this| {
            this.cut(&range);
            this.join(range, prot, kind);
        });
    }

    /// Records that `range` is unmapped.
    pub fn remove(&mut self, range: &Range<u64>) {
        self.counting(|this| {
            this.cut(range);
        });
    }

    /// Records a new protection of the mappings in `range`.
    pub fn protect(&mut self, range: &Range<u64>, prot: Prot) {
        self.counting(|this| {
            for (part, mapping) in this.cut(range) {
                this.join(part, prot, mapping.kind);
            }
        });
    }

    /// Records that the mappings in `from` have moved to `to`; if `from` is empty, that the mapping at its
    /// start is duplicated at `to`.
    pub fn relocate(&mut self, from: &Range<u64>, to: &Range<u64>) {
        self.counting(|this| {
            let model = match from.is_empty() {
                true => this.around(from.start, 1),
                false => this.cut(from).first().map(|(_, mapping)| *mapping),
            };
            this.cut(to);
            if let Some(mapping) = model {
                this.join(to.clone(), mapping.prot, mapping.kind);
            }
        });
    }

    fn counting(&mut self, change: impl FnOnce(&mut Mappings)) {
        let before = self.by_start.len() as u64;
        change(self);
        self.recent.set(None);
        if self.counted {
            TOTAL.fetch_add((self.by_start.len() as u64).wrapping_sub(before), Relaxed);
        }
    }

    /// Removes and returns the mappings in `range`, clipped to it.
    fn cut(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, Mapping)> {
        let first = self.by_start.range(..range.start).next_back().filter(|(_, m)| m.end > range.start);
        let first = first.map_or(range.start, |(start, _)| *start);
        let hit: Vec<u64> =
            self.by_start.range(first..range.end.max(first)).map(|(start, _)| *start).collect();
        let mut taken = Vec::with_capacity(hit.len());
        for start in hit {
            let Some(mapping) = self.by_start.remove(&start) else { continue };
            if start < range.start {
                self.by_start.insert(start, Mapping { end: range.start, ..mapping });
            }
            if mapping.end > range.end {
                self.by_start.insert(range.end, mapping);
            }
            taken.push((start.max(range.start)..mapping.end.min(range.end), mapping));
        }
        taken
    }

    /// Inserts a mapping into a free range and merges it with equal neighbours.
    fn join(&mut self, mut range: Range<u64>, prot: Prot, kind: Kind) {
        let alike = |m: &Mapping| m.prot == prot && m.kind == kind;
        if let Some((&start, before)) = self.by_start.range(..range.start).next_back()
            && before.end == range.start
            && alike(before)
        {
            range.start = start;
        }
        if let Some(after) = self.by_start.get(&range.end).copied().filter(alike) {
            self.by_start.remove(&range.end);
            range.end = after.end;
        }
        self.by_start.insert(range.start, Mapping { end: range.end, prot, kind });
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        if self.counted {
            TOTAL.fetch_sub(self.by_start.len() as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_split_as_by_linux() {
        let (read, write) = (Prot::READ, Prot::READ | Prot::WRITE);
        let mut mappings = Mappings::none(true);
        mappings.insert(0..10, write, Kind::Anonymous);
        mappings.insert(10..20, write, Kind::Anonymous);
        assert_eq!(mappings.by_start.len(), 1);
        mappings.protect(&(5..6), read);
        assert_eq!(mappings.by_start.len(), 3);
        mappings.protect(&(0..20), write);
        assert_eq!(mappings.by_start.len(), 1);
        let file = mappings.of_file(false);
        mappings.insert(4..8, read, file);
        let other = mappings.of_file(false);
        mappings.insert(8..12, read, other);
        assert_eq!(mappings.by_start.len(), 4);
        mappings.remove(&(5..11));
        assert_eq!(mappings.by_start.keys().copied().collect::<Vec<_>>(), [0, 4, 11, 12]);
        mappings.relocate(&(12..20), &(100..140));
        assert_eq!(mappings.by_start[&100].end, 140);
        mappings.remove(&(0..u64::MAX));
        assert!(mappings.by_start.is_empty());
    }

    #[test]
    fn what_lies_in_one_mapping_is_told_by_its_kind_and_protection() {
        let write = Prot::READ | Prot::WRITE;
        let mut mappings = Mappings::none(false);
        mappings.insert(0..10, write, Kind::Anonymous);
        let (private, shared) = (mappings.of_file(false), mappings.of_file(true));
        mappings.insert(10..20, write, private);
        mappings.insert(20..30, write, shared);
        let told = |mappings: &Mappings, at, len| (mappings.are_own(at, len), mappings.take_writes(at, len));
        assert_eq!(told(&mappings, 0, 10), (true, true));
        assert_eq!(told(&mappings, 9, 2), (false, false), "two mappings");
        assert_eq!(told(&mappings, 10, 10), (true, false), "a file that may become short");
        assert_eq!(told(&mappings, 20, 1), (false, false), "somebody else's too");
        assert_eq!(told(&mappings, 30, 1), (false, false), "nothing");
        assert_eq!(told(&mappings, u64::MAX, 2), (false, false), "no addresses");
        assert_eq!(told(&mappings, 2, 4), (true, true));
        mappings.protect(&(4..5), Prot::READ);
        assert_eq!(told(&mappings, 2, 4), (false, false), "one that is split");
        assert_eq!(told(&mappings, 4, 1), (true, false), "cannot be written");
        mappings.insert(20..30, write, Kind::Anonymous);
        assert_eq!(told(&mappings.copied_far(), 20, 1), (true, true), "another mapping there");
        mappings.remove(&(20..30));
        assert_eq!(told(&mappings, 20, 1), (false, false));
    }
}
