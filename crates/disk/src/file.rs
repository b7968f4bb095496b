//! Size and pages of one file since it was synced.

use crate::page::{PAGE, Page};
use crate::{Contents, InodeId};
use belljar_base::Map;

/// Reason for a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Write of data: the size on disk follows when the data is there.
    Data,
    /// Truncation or allocation, which is metadata.
    Metadata,
    /// Flush of all data by `auto_da_alloc`; the size is unchanged.
    Flush,
}

/// Size of a file from a position of the log on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resize {
    pub(crate) position: u64,
    pub(crate) size: u64,
    pub(crate) cause: Cause,
}

/// File that changed since it was synced.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Size on disk.
    pub(crate) base_size: u64,
    /// Sizes after each change, in order.
    pub(crate) sizes: Vec<Resize>,
    /// Changed pages.
    pub(crate) pages: Map<u64, Page>,
    /// Content on the disk of pages that count as written, and that the disk has failed to store.
    pub(crate) unstored: Map<u64, Box<[u8]>>,
}

impl File {
    /// File of this size on disk, unchanged.
    pub(crate) fn new(base_size: u64) -> File {
        File { base_size, sizes: Vec::new(), pages: Map::new(), unstored: Map::new() }
    }
    /// Size in memory.
    pub(crate) fn size(&self) -> u64 {
        self.sizes.last().map_or(self.base_size, |last| last.size)
    }
    /// Size in memory when the changes before `position` had been made.
    pub(crate) fn size_at(&self, position: u64) -> u64 {
        let count = self.sizes.partition_point(|resize| resize.position < position);
        count.checked_sub(1).map_or(self.base_size, |last| self.sizes[last].size)
    }
    /// True if changes from this position on certainly changed the size or the allocation.
    pub(crate) fn is_resized(&self, committed: u64) -> bool {
        let is_metadata = |resize: &&Resize| resize.cause == Cause::Metadata;
        self.sizes.iter().filter(is_metadata).any(|resize| resize.position >= committed)
            || self.size() > self.size_at(committed)
            || self.pages.iter().any(|(number, page)| page.is_hole(number * PAGE < self.base_size, committed))
    }
    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let pages: usize = self.pages.values().map(Page::memory).sum();
        pages + self.sizes.len() * size_of::<Resize>()
    }

    /// Adds a write; returns the bytes of memory that it takes.
    pub(crate) fn write(
        &mut self,
        inode: InodeId,
        position: u64,
        offset: u64,
        data: &[u8],
        contents: &mut dyn Contents,
    ) -> usize {
        let end = offset + data.len() as u64;
        let mut memory = size_of::<Resize>();
        let mut at = offset;
        while at < end {
            let number = at / PAGE;
            let part = end.min((number + 1) * PAGE) - at;
            let (page, taken) = self.page(inode, number, contents);
            let from = (at - offset) as usize;
            memory += taken + page.write(position, at % PAGE, &data[from..][..part as usize]);
            at += part;
        }
        let size = self.size().max(end);
        self.sizes.push(Resize { position, size, cause: Cause::Data });
        memory
    }
    /// Adds a truncation or extension; returns the bytes of memory that it takes.
    pub(crate) fn resize(
        &mut self,
        inode: InodeId,
        position: u64,
        size: u64,
        contents: &mut dyn Contents,
    ) -> usize {
        let mut memory = size_of::<Resize>();
        for number in size / PAGE..self.size().div_ceil(PAGE) {
            let (page, taken) = self.page(inode, number, contents);
            memory += taken + page.cut(position, size.saturating_sub(number * PAGE));
        }
        self.sizes.push(Resize { position, size, cause: Cause::Metadata });
        memory
    }
    /// Adds a flush of all data that the journal commits with its position.
    pub(crate) fn flush(&mut self, position: u64) {
        let size = self.size();
        self.sizes.push(Resize { position, size, cause: Cause::Flush });
    }
    /// Loses the changed pages on their path to the disk: they count as written.
    pub(crate) fn lose_pages(&mut self) {
        for (number, page) in std::mem::take(&mut self.pages) {
            self.unstored.insert(number, page.into_base());
        }
    }
    /// The file once everything that counts as unwritten is on the disk; `None` if the disk then has all of it.
    pub(crate) fn synced(self, size: u64) -> Option<File> {
        let File { unstored, .. } = self;
        (!unstored.is_empty()).then(|| File { unstored, ..File::new(size) })
    }
    /// Changed page, read from the file if it was unchanged, and the bytes of memory that this takes.
    fn page(&mut self, inode: InodeId, number: u64, contents: &mut dyn Contents) -> (&mut Page, usize) {
        let mut taken = 0;
        let unstored = self.unstored.remove(&number);
        let page = self.pages.entry(number).or_insert_with(|| {
            let mut base = vec![0; PAGE as usize];
            contents.read(inode, number * PAGE, &mut base);
            taken = PAGE as usize;
            match unstored {
                Some(on_disk) => Page::unstored(on_disk, base.into()),
                None => Page::new(base.into()),
            }
        });
        (page, taken)
    }
}
