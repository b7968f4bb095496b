//! LRU index of the native descriptors of a host's files.

use crate::ids::InodeKey;
use belljar_base::Map;
use belljar_machine::NativeFile;

/// Inodes with a native descriptor, in order of last use.
#[derive(Debug, Default)]
pub struct NativeCache {
    /// Inode by the sequence number of its last use.
    by_use: Map<u64, InodeKey>,
    uses: u64,
}

impl NativeCache {
    /// Records a use and returns its sequence number; `before` is that of the inode's previous use.
    #[inline]
    pub fn used(&mut self, key: InodeKey, before: Option<u64>) -> u64 {
        if let Some(before) = before {
            if before == self.uses {
                return before;
            }
            self.by_use.remove(&before);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        self.uses
    }
    /// Least recently used inode.
    pub fn oldest(&self) -> Option<InodeKey> {
        self.by_use.first_key_value().map(|(_, key)| *key)
    }
    /// Removes the inode with this last use, whose native file is closed.
    pub fn forget(&mut self, last_use: u64) {
        self.by_use.remove(&last_use);
    }
    /// Number of open native files.
    #[inline]
    pub fn len(&self) -> usize {
        self.by_use.len()
    }
    /// True if no native file is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_use.is_empty()
    }
}

/// Open native file of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Native file.
    pub file: NativeFile,
    /// Sequence number of the last use, see [`NativeCache`].
    pub last_use: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_the_oldest() {
        let mut cache = NativeCache::default();
        let [a, b, c] = [InodeKey(1), InodeKey(2), InodeKey(3)];
        let first = cache.used(a, None);
        cache.used(b, None);
        let third = cache.used(c, None);
        assert_eq!(cache.used(c, Some(third)), third, "nothing has been used since");
        let again = cache.used(a, Some(first));
        assert_eq!((cache.oldest(), cache.len()), (Some(b), 3));
        cache.forget(again);
        assert_eq!(cache.len(), 2);
    }
}
