//! [`Map`]: an ordered map that compiles quickly.
//!
//! Problem: every pair of key and value types for which a `BTreeMap` is used costs the compiler some 7,000 lines of
//! LLVM code, and this workspace has several hundred such pairs: they were two fifths of the code that its crates gave
//! the compiler's back end. Most of these maps have fewer than a hundred entries.
//!
//! Algorithm: entries lie sorted in *chunks*, and the chunks in a vector, so that a map with few entries is one sorted
//! vector. A look-up is a binary search among the chunks' first keys and one within a chunk. An insertion moves at most
//! one chunk's entries, and the vector of chunks where a full chunk is split; entries that arrive in ascending order
//! leave full chunks behind. A removal joins a chunk with its neighbour when both have become small.
//!
//! A chunk holds [`Map::CAPACITY`] entries, and more where there are many chunks: a split moves the vector of chunks,
//! so in a large map both have to grow. With n entries an insertion moves O(sqrt(n)) bytes.
//!
//! Limits: maps of 100,000 entries and more that are filled in random order are up to half slower than a `BTreeMap`.
//!
//! Invariants: no chunk is empty, keys ascend strictly, `len` is the sum of the chunks' lengths.

mod entry;
mod iter;
#[cfg(test)]
mod tests;
mod traits;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, Values, ValuesMut};

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// Ordered map for simulation code: it is iterated in key order, never in a random one. The methods are those of
/// `std::collections::BTreeMap` and mean the same.
#[derive(Clone)]
pub struct Map<K, V> {
    chunks: Vec<Vec<(K, V)>>,
    len: usize,
}

/// Position of an entry: its chunk, and its index within the chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    chunk: usize,
    index: usize,
}

impl<K, V> Map<K, V> {
    /// Number of entries that a chunk of a small map can hold: fewer where entries are large, since an insertion moves them.
    const CAPACITY: usize = match size_of::<(K, V)>() {
        0..=64 => 64,
        65..=256 => 24,
        _ => 8,
    };

    /// An empty map, which owns no memory.
    pub const fn new() -> Map<K, V> {
        Map { chunks: Vec::new(), len: 0 }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.len = 0;
    }

    /// Number of entries from which on a chunk is split.
    #[inline]
    fn capacity(&self) -> usize {
        Self::CAPACITY.max(self.chunks.len() / 32)
    }

    /// Removes the entry at a position, which must be one.
    fn take(&mut self, at: Position) -> (K, V) {
        let entry = self.chunks[at.chunk].remove(at.index);
        self.len -= 1;
        let (left, capacity) = (self.chunks[at.chunk].len(), self.capacity());
        if left == 0 {
            self.chunks.remove(at.chunk);
        } else if left <= capacity / 4 {
            for first in [at.chunk, at.chunk.wrapping_sub(1)] {
                if let Some([one, next]) = self.chunks.get_mut(first..).and_then(|rest| rest.get_mut(..2))
                    && one.len() + next.len() <= capacity / 2
                {
                    one.append(next);
                    self.chunks.remove(first + 1);
                    break;
                }
            }
        }
        entry
    }

    /// Puts an entry where a search for its key ended. Returns the entry's position.
    fn put(&mut self, mut at: Position, key: K, value: V) -> Position {
        if at.chunk == self.chunks.len() {
            self.chunks.push(Vec::new());
        } else if self.chunks[at.chunk].len() >= self.capacity() {
            // Ascending insertions leave full chunks behind; all others split in the middle.
            let full = self.chunks[at.chunk].len();
            let appends = at.chunk + 1 == self.chunks.len() && at.index == full;
            let middle = if appends { full } else { full / 2 };
            let second = self.chunks[at.chunk].split_off(middle);
            self.chunks.insert(at.chunk + 1, second);
            if at.index > middle || appends {
                at = Position { chunk: at.chunk + 1, index: at.index - middle };
            }
        }
        self.chunks[at.chunk].insert(at.index, (key, value));
        self.len += 1;
        at
    }

    /// The first entry.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        let (key, value) = self.chunks.first()?.first()?;
        Some((key, value))
    }

    /// The last entry.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        let (key, value) = self.chunks.last()?.last()?;
        Some((key, value))
    }

    /// Removes and returns the first entry.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.chunks.is_empty() {
            return None;
        }
        Some(self.take(Position { chunk: 0, index: 0 }))
    }

    /// Removes and returns the last entry.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let chunk = self.chunks.len().checked_sub(1)?;
        Some(self.take(Position { chunk, index: self.chunks[chunk].len() - 1 }))
    }

    /// Keeps the entries for which `keep` is true, asked in ascending order of keys.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let mut left = 0;
        for chunk in &mut self.chunks {
            chunk.retain_mut(|(key, value)| keep(key, value));
            left += chunk.len();
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = left;
    }
}

impl<K: Ord, V> Map<K, V> {
    /// Position of a key, or the position at which [`Map::put`] inserts it.
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Position, Position>
    where
        K: Borrow<Q>,
    {
        // The last chunk whose first key is at most the key, or the first chunk.
        let (mut low, mut high) = (0, self.chunks.len());
        while low + 1 < high {
            let middle = (low + high) / 2;
            if self.chunks[middle][0].0.borrow() <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        let chunk = low;
        let Some(entries) = self.chunks.get(chunk) else {
            return Err(Position { chunk, index: 0 });
        };
        let (mut low, mut high) = (0, entries.len());
        while low < high {
            let index = (low + high) / 2;
            match entries[index].0.borrow().cmp(key) {
                Ordering::Less => low = index + 1,
                Ordering::Greater => high = index,
                Ordering::Equal => return Ok(Position { chunk, index }),
            }
        }
        Err(Position { chunk, index: low })
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        Some(&self.chunks[at.chunk][at.index].1)
    }

    /// The value of a key, to change it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        Some(&mut self.chunks[at.chunk][at.index].1)
    }

    /// The stored key that equals `key`, with its value.
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        let (key, value) = &self.chunks[at.chunk][at.index];
        Some((key, value))
    }

    /// True if the key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.search(key).is_ok()
    }

    /// Sets the value of a key and returns the one that it had. A key that is there stays as it is.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.search(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.chunks[at.chunk][at.index].1, value)),
            Err(at) => {
                self.put(at, key, value);
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        Some(self.take(at).1)
    }

    /// Removes a key and returns it with its value.
    pub fn remove_entry<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        Some(self.take(at))
    }

    /// The entry of a key, to be read, changed, inserted or removed without another search.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        match self.search(&key) {
            Ok(at) => Entry::Occupied(OccupiedEntry { map: self, at }),
            Err(at) => Entry::Vacant(VacantEntry { map: self, at, key }),
        }
    }

    /// The entry of the first key.
    pub fn first_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        if self.chunks.is_empty() {
            return None;
        }
        Some(OccupiedEntry { map: self, at: Position { chunk: 0, index: 0 } })
    }

    /// The entry of the last key.
    pub fn last_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        let chunk = self.chunks.len().checked_sub(1)?;
        let index = self.chunks[chunk].len() - 1;
        Some(OccupiedEntry { map: self, at: Position { chunk, index } })
    }

    /// Moves all entries of another map here; a value that is there already is replaced.
    pub fn append(&mut self, other: &mut Map<K, V>) {
        self.extend(std::mem::take(other));
    }

    /// Splits the map: the keys from `key` on are returned, the ones before it stay.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q) -> Map<K, V>
    where
        K: Borrow<Q>,
    {
        let (Ok(at) | Err(at)) = self.search(key);
        if at.chunk == self.chunks.len() {
            return Map::new();
        }
        let mut chunks = vec![self.chunks[at.chunk].split_off(at.index)];
        chunks.extend(self.chunks.drain(at.chunk + 1..));
        chunks.retain(|chunk| !chunk.is_empty());
        self.chunks.retain(|chunk| !chunk.is_empty());
        let len = chunks.iter().map(Vec::len).sum();
        self.len -= len;
        Map { chunks, len }
    }

    /// First position that is not before a bound; `end` is true for the upper bound of a range.
    fn bound<Q: Ord + ?Sized>(&self, bound: Bound<&Q>, end: bool) -> Position
    where
        K: Borrow<Q>,
    {
        let (key, after) = match bound {
            Bound::Unbounded if end => return Position { chunk: self.chunks.len(), index: 0 },
            Bound::Unbounded => return Position { chunk: 0, index: 0 },
            Bound::Included(key) => (key, end),
            Bound::Excluded(key) => (key, !end),
        };
        match self.search(key) {
            Ok(at) => Position { index: at.index + usize::from(after), ..at },
            Err(at) => at,
        }
    }

    /// Positions of the first entry of a range and of the first one after it.
    fn positions<Q: Ord + ?Sized>(&self, range: &impl RangeBounds<Q>) -> (Position, Position)
    where
        K: Borrow<Q>,
    {
        let (start, end) = (range.start_bound(), range.end_bound());
        if let (
            Bound::Included(first) | Bound::Excluded(first),
            Bound::Included(last) | Bound::Excluded(last),
        ) = (start, end)
        {
            assert!(first <= last, "the range's start is greater than its end");
        }
        let (from, to) = (self.bound(start, false), self.bound(end, true));
        // Between two exclusive bounds on one key there is nothing.
        if (to.chunk, to.index) < (from.chunk, from.index) { (from, from) } else { (from, to) }
    }

    /// The entries whose keys lie in a range, in ascending order.
    ///
    /// # Panics
    ///
    /// If the range's start is greater than its end.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let (from, to) = self.positions(&range);
        Iter::between(&self.chunks, from, to)
    }

    /// The entries whose keys lie in a range, in ascending order, to change their values.
    ///
    /// # Panics
    ///
    /// If the range's start is greater than its end.
    pub fn range_mut<Q: Ord + ?Sized>(&mut self, range: impl RangeBounds<Q>) -> IterMut<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let (from, to) = self.positions(&range);
        IterMut::between(&mut self.chunks, from, to)
    }

    /// The keys in a range, in ascending order.
    ///
    /// # Panics
    ///
    /// If the range's start is greater than its end.
    pub(crate) fn range_keys<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Keys<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Keys::of(self.range(range))
    }
}
