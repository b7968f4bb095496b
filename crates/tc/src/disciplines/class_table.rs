//! Order in which Linux lists the classes of a discipline: that of its hash table (`struct Qdisc_class_hash`).

/// Hash table of class numbers, which only determines their order.
#[derive(Debug)]
pub(super) struct ClassTable {
    buckets: Vec<Vec<u32>>,
    len: usize,
}

impl Default for ClassTable {
    fn default() -> ClassTable {
        ClassTable { buckets: vec![Vec::new(); 4], len: 0 }
    }
}

impl ClassTable {
    fn bucket(&self, handle: u32) -> usize {
        let mixed = handle ^ handle >> 8;
        ((mixed ^ mixed >> 4) as usize) & (self.buckets.len() - 1)
    }
    /// Adds a class by its handle (`qdisc_class_hash_insert` and `qdisc_class_hash_grow`).
    pub(super) fn insert(&mut self, handle: u32) {
        let bucket = self.bucket(handle);
        self.buckets[bucket].insert(0, handle);
        self.len += 1;
        if self.len * 4 > self.buckets.len() * 3 {
            let size = self.buckets.len() * 2;
            let former = std::mem::replace(&mut self.buckets, vec![Vec::new(); size]);
            for handle in former.into_iter().flatten() {
                let bucket = self.bucket(handle);
                self.buckets[bucket].insert(0, handle);
            }
        }
    }
    /// Removes a class.
    pub(super) fn remove(&mut self, handle: u32) {
        let bucket = self.bucket(handle);
        self.buckets[bucket].retain(|other| *other != handle);
        self.len -= 1;
    }
    /// Classes in the order of listings.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().flatten().copied()
    }
}
