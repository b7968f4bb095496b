//! Hash table of numbers whose keys are stored elsewhere. The hash function is fixed, so that runs are
//! reproducible.

/// The hash of a key.
#[inline]
pub(super) fn hash(words: &[u64]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15u64;
    for word in words {
        let product = u128::from(sum ^ word) * 0xff51_afd7_ed55_8ccd_u128;
        sum = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }
    sum ^ sum >> 29
}

/// Numbers by the hash of their key.
#[derive(Clone, Debug, Default)]
pub(super) struct HashIndex {
    /// Upper half of the hash, and the number plus one; 0 if free. The length is a power of two.
    slots: Vec<u64>,
    len: usize,
}

impl HashIndex {
    /// Number with this hash for which `is` holds.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash >> 32 && is(slot as u32 - 1) {
                return Some(slot as u32 - 1);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// Adds a number that the table does not contain.
    pub fn insert(&mut self, hash: u64, number: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![0; (old.len() * 2).max(8)];
            for slot in old.into_iter().filter(|slot| *slot != 0) {
                self.place(slot);
            }
        }
        self.place(hash >> 32 << 32 | (u64::from(number) + 1));
        self.len += 1;
    }
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }
    fn place(&mut self, slot: u64) {
        let mut at = self.home(slot);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }

    /// Removes a number.
    pub fn remove(&mut self, hash: u64, number: u32) {
        if self.slots.is_empty() {
            return;
        }
        let ones = self.slots.len() - 1;
        let mut at = self.home(hash);
        while self.slots[at] != 0 && self.slots[at] as u32 != number + 1 {
            at = (at + 1) & ones;
        }
        if self.slots[at] == 0 {
            return;
        }
        self.len -= 1;
        // Following entries of the probe chain move up, as far as their home slot allows.
        let mut next = at;
        loop {
            next = (next + 1) & ones;
            let slot = self.slots[next];
            if slot == 0 {
                break;
            }
            let from_home = next.wrapping_sub(self.home(slot)) & ones;
            if from_home >= (next.wrapping_sub(at) & ones) {
                self.slots[at] = slot;
                at = next;
            }
        }
        self.slots[at] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::{Map, Seed};

    #[test]
    fn it_is_a_map() {
        let (mut index, mut model, mut stream) =
            (HashIndex::default(), Map::new(), Seed(3).stream(&["index"]));
        for _ in 0..20_000 {
            let key = stream.below(500);
            // A poor hash creates long probe chains.
            let hash = (key % 37) << 32;
            if let Some(number) = model.remove(&key) {
                index.remove(hash, number);
            } else {
                index.insert(hash, key as u32);
                model.insert(key, key as u32);
            }
            let key = stream.below(500);
            let found = index.find((key % 37) << 32, |number| u64::from(number) == key);
            assert_eq!(found, model.get(&key).copied());
        }
    }
}
