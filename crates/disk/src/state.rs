//! Drawn state of a disk after a crash.

use crate::{InodeId, PAGE, Slot};
use belljar_base::Map;

/// Differences of a crash state to the files that programs saw before the crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Inode of each entry that was not synced; `None` if the entry does not exist.
    pub entries: Map<Slot, Option<InodeId>>,
    /// Files that were not synced.
    pub files: Map<InodeId, FileState>,
    /// Attributes that were not synced.
    pub attributes: Map<InodeId, u64>,
}

/// Content of a file after a crash. Pages that are not listed are those from before the crash, as far as both
/// sizes reach; the rest is zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Size in bytes.
    pub size: u64,
    /// Pages by number.
    pub pages: Map<u64, Box<[u8]>>,
}

impl FileState {
    /// Offset and bytes of each listed page, up to the size of the file.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().filter_map(|(number, page)| {
            let offset = number * PAGE;
            let len = self.size.saturating_sub(offset).min(PAGE) as usize;
            (len > 0).then(|| (offset, &page[..len]))
        })
    }
}
