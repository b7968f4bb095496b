//! Native descriptors are a cache: a file is opened natively when its bytes are first needed and
//! closed again, the least recently used first, when a host has more open than its share of what
//! the system allows. Nothing in a simulation depends on which are open.

use super::tree::{Content, Node};
use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_machine::{NativeFile, OpenHow};
use std::path::Path;

/// A host keeps so many open however small its share is while it runs: a copy needs both its ends.
const LEAST: usize = 2;

/// The inodes that have a native descriptor, by their last use.
#[derive(Debug, Default)]
pub struct NativeCache {
    /// The inode by the number of its last use.
    by_use: Map<u64, InodeKey>,
    uses: u64,
}

impl NativeCache {
    /// The use is the last so far; gives its number.
    fn used(&mut self, key: InodeKey, before: Option<u64>) -> u64 {
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
    fn oldest(&self) -> Option<InodeKey> {
        self.by_use.first_key_value().map(|(_, key)| *key)
    }
    fn forget(&mut self, last_use: u64) {
        self.by_use.remove(&last_use);
    }
    /// Number of open native files.
    pub fn len(&self) -> usize {
        self.by_use.len()
    }
}

/// An open native file of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The file.
    pub file: NativeFile,
    /// When it was last used, in the count of [`NativeCache`].
    last_use: u64,
}

impl Files {
    fn set_cached(&mut self, key: InodeKey, cached: Option<Cached>) -> Option<Cached> {
        match &mut self.inode(key).node {
            Node::Regular(Content { native, .. }) => std::mem::replace(native, cached),
            _ => None,
        }
    }
}

impl Host {
    /// Opens a native file. Where no more can be open, those of the cache make room; `ENFILE` if
    /// even that does not help.
    pub(crate) fn open_native(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        match self.machine.open(path, how) {
            Err(Errno::EMFILE | Errno::ENFILE) => {}
            opened => return opened,
        }
        self.close_natives(0);
        self.machine.open(path, how).map_err(|errno| match errno {
            Errno::EMFILE | Errno::ENFILE => {
                self.warn("files that could not be opened because the simulator has no descriptors left: see `ulimit -n`");
                Errno::ENFILE
            }
            other => other,
        })
    }

    /// The native descriptor of a regular file, opened if it is not open. It stays open at least
    /// until the second next one is asked for.
    pub(crate) fn native_of(&mut self, key: InodeKey) -> Result<NativeFile, Errno> {
        let content = self.files.inode(key).content().ok_or(Errno::EINVAL)?;
        if let Some(cached) = content.native {
            let last_use = self.files.natives.used(key, Some(cached.last_use));
            if last_use != cached.last_use {
                self.files.set_cached(key, Some(Cached { last_use, ..cached }));
            }
            return Ok(cached.file);
        }
        let writes = content.store.is_upper();
        let path = self.content_path(key)?.ok_or(Errno::ENOENT)?;
        let how = OpenHow { write: writes, ..OpenHow::default() };
        let opened = self.open_native(&path, how);
        if opened == Err(Errno::EACCES) && !writes {
            self.withheld_file(&path);
        }
        let file = opened?;
        self.keep_native(key, file);
        Ok(file)
    }

    /// Gives a regular file a native descriptor that is open already.
    pub(crate) fn keep_native(&mut self, key: InodeKey, file: NativeFile) {
        self.close_native(key);
        let last_use = self.files.natives.used(key, None);
        self.files.set_cached(key, Some(Cached { file, last_use }));
        if self.files.natives.len() > LEAST {
            let share = self.machine.file_share().max(LEAST);
            self.close_natives(share);
        }
    }

    /// Closes an inode's native descriptor.
    pub(crate) fn close_native(&mut self, key: InodeKey) {
        if let Some(cached) = self.files.set_cached(key, None) {
            self.files.natives.forget(cached.last_use);
            self.machine.close(cached.file);
        }
    }

    /// The host rests: if there are not enough descriptors for each host, it leaves none open.
    pub(crate) fn rest_natives(&mut self) {
        if self.files.natives.len() > 0 && self.machine.file_share() < LEAST {
            self.close_natives(0);
        }
    }

    fn close_natives(&mut self, share: usize) {
        while self.files.natives.len() > share {
            let Some(oldest) = self.files.natives.oldest() else { return };
            self.close_native(oldest);
        }
    }
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
