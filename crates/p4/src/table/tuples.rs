//! Masks and priorities: tuple space search.
//!
//! Entries with the same mask share a hash table of their masked keys. The hash tables are searched in order
//! of their best priority, until none can contain a better entry than the one found. A range is split into
//! the prefixes that cover it exactly. If these are too many, it is covered by fewer, wider prefixes, and a
//! match is verified against the entry.

use super::hash_index::{HashIndex, hash};
use belljar_base::Map;

/// Rank of an entry: its priority, then its insertion number.
pub(super) type Rank = (i32, u64);

#[derive(Clone, Debug, Default)]
pub(super) struct Tuples {
    tuples: Vec<Tuple>,
    by_mask: Map<Vec<u64>, u32>,
    /// Non-empty tuples, best priority first.
    order: Vec<(i32, u32)>,
}

#[derive(Clone, Debug)]
struct Tuple {
    mask: Vec<u64>,
    index: HashIndex,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    priorities: Map<i32, u32>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    key: Vec<u64>,
    /// Items, best rank first.
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    rank: Rank,
    entry: u32,
    /// True if the piece covers more keys than its entry, so that a match must be verified.
    loose: bool,
}

/// Part of an entry: the keys equal to `value` under `mask`.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub value: Vec<u64>,
    pub mask: Vec<u64>,
    pub loose: bool,
}

impl Tuple {
    fn memory(&self) -> usize {
        let bucket = |bucket: &Bucket| size_of_val(&bucket.key[..]) + size_of_val(&bucket.items[..]);
        let buckets = size_of_val(&self.buckets[..]) + self.buckets.iter().map(bucket).sum::<usize>();
        size_of::<Tuple>() + 2 * size_of_val(&self.mask[..]) + self.index.memory() + buckets
    }
}

impl Tuples {
    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.tuples.iter().map(Tuple::memory).sum::<usize>() + size_of_val(&self.order[..])
    }

    /// Best entry for a key. `matches` verifies an entry, `masked` is scratch memory for the masked key.
    #[inline]
    pub fn find(&self, key: &[u64], masked: &mut [u64], matches: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<Item> = None;
        for (priority, tuple) in &self.order {
            if best.is_some_and(|best| best.rank.0 < *priority) {
                break;
            }
            let tuple = &self.tuples[*tuple as usize];
            for (masked, (key, mask)) in masked.iter_mut().zip(key.iter().zip(&tuple.mask)) {
                *masked = key & mask;
            }
            let masked = &masked[..key.len()];
            let bucket =
                tuple.index.find(hash(masked), |bucket| tuple.buckets[bucket as usize].key == masked);
            let Some(bucket) = bucket else { continue };
            let items = &tuple.buckets[bucket as usize].items;
            let item = items.iter().find(|item| !item.loose || matches(item.entry));
            if let Some(item) = item
                && best.is_none_or(|best| item.rank < best.rank)
            {
                best = Some(*item);
            }
        }
        best.map(|item| item.entry)
    }

    pub fn insert(&mut self, piece: &Piece, rank: Rank, entry: u32) {
        let n = *self.by_mask.entry(piece.mask.clone()).or_insert_with(|| {
            self.tuples.push(Tuple {
                mask: piece.mask.clone(),
                index: HashIndex::default(),
                buckets: Vec::new(),
                free: Vec::new(),
                priorities: Map::new(),
            });
            self.tuples.len() as u32 - 1
        });
        let tuple = &mut self.tuples[n as usize];
        let before = tuple.best();
        let hash = hash(&piece.value);
        let found = tuple.index.find(hash, |bucket| tuple.buckets[bucket as usize].key == piece.value);
        let bucket = found.unwrap_or_else(|| {
            let bucket = tuple.free.pop().unwrap_or_else(|| {
                tuple.buckets.push(Bucket::default());
                tuple.buckets.len() as u32 - 1
            });
            tuple.buckets[bucket as usize].key.clone_from(&piece.value);
            tuple.index.insert(hash, bucket);
            bucket
        });
        let items = &mut tuple.buckets[bucket as usize].items;
        let place = items.partition_point(|item| item.rank < rank);
        items.insert(place, Item { rank, entry, loose: piece.loose });
        *tuple.priorities.entry(rank.0).or_insert(0) += 1;
        let after = tuple.best();
        self.reorder(n, before, after);
    }

    pub fn remove(&mut self, piece: &Piece, rank: Rank) {
        let Some(n) = self.by_mask.get(&piece.mask).copied() else { return };
        let tuple = &mut self.tuples[n as usize];
        let before = tuple.best();
        let hash = hash(&piece.value);
        let Some(bucket) = tuple.index.find(hash, |bucket| tuple.buckets[bucket as usize].key == piece.value)
        else {
            return;
        };
        let items = &mut tuple.buckets[bucket as usize].items;
        let Ok(place) = items.binary_search_by_key(&rank, |item| item.rank) else { return };
        items.remove(place);
        if items.is_empty() {
            tuple.index.remove(hash, bucket);
            tuple.free.push(bucket);
        }
        if let Some(count) = tuple.priorities.get_mut(&rank.0) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&rank.0);
            }
        }
        let after = tuple.best();
        self.reorder(n, before, after);
    }

    fn reorder(&mut self, tuple: u32, before: Option<i32>, after: Option<i32>) {
        if before == after {
            return;
        }
        if let Some(best) = before
            && let Ok(place) = self.order.binary_search(&(best, tuple))
        {
            self.order.remove(place);
        }
        if let Some(best) = after
            && let Err(place) = self.order.binary_search(&(best, tuple))
        {
            self.order.insert(place, (best, tuple));
        }
    }
}

impl Tuple {
    fn best(&self) -> Option<i32> {
        self.priorities.first_key_value().map(|(priority, _)| *priority)
    }
}

/// Prefixes that cover a range exactly: value, and number of free low bits.
pub(super) fn prefixes(low: u128, high: u128, width: u32) -> Vec<(u128, u32)> {
    let (mut out, mut at) = (Vec::new(), low);
    loop {
        let aligned = if at == 0 { width } else { at.trailing_zeros().min(width) };
        let left = high - at;
        let fits = if left == u128::MAX { 128 } else { 127 - (left + 1).leading_zeros() };
        let free = aligned.min(fits);
        out.push((at, free));
        let last = at | crate::bits::mask(free);
        if last >= high {
            return out;
        }
        at = last + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_a_range_once() {
        for width in 1..7u32 {
            for low in 0..1u128 << width {
                for high in low..1 << width {
                    let all = prefixes(low, high, width);
                    let covered: Vec<u128> =
                        all.iter().flat_map(|(at, free)| *at..at + (1 << free)).collect();
                    assert_eq!(covered, (low..=high).collect::<Vec<_>>());
                    assert!(all.len() <= (2 * width) as usize);
                }
            }
        }
        assert_eq!(prefixes(0, u128::MAX, 128), [(0, 128)]);
        assert_eq!(prefixes(u128::MAX, u128::MAX, 128), [(u128::MAX, 0)]);
        assert_eq!(prefixes(1, u128::MAX, 128).len(), 128);
    }
}
