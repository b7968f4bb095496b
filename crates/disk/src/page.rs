//! Versions of one page of a file.

use belljar_base::Stream;

/// Size of a page in bytes.
pub const PAGE: u64 = 4096;
/// Size of a sector in bytes.
pub const SECTOR: u64 = 512;

/// Granularity at which a page may be torn by a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tearing {
    /// Pages are written as a whole.
    None,
    /// At a multiple of [`SECTOR`].
    Sector,
    /// At any byte.
    Byte,
}

/// Change of a page.
#[derive(Clone, Debug)]
enum Change {
    /// Bytes written from this offset within the page on.
    Write(u16, Box<[u8]>),
    /// End of the file within the page: the bytes from this offset on are gone. At 0 the page is deallocated.
    Cut(u16),
}

/// Page that changed since it was synced.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Synced content.
    base: Box<[u8]>,
    /// Changes with their positions in the log, ascending.
    changes: Vec<(u64, Change)>,
    /// Content in memory until the first change, where the disk has failed to store it: that change writes the whole page.
    unstored: Option<Box<[u8]>>,
}

impl Page {
    /// Page with this synced content, unchanged.
    pub(crate) fn new(base: Box<[u8]>) -> Page {
        Page { base, changes: Vec::new(), unstored: None }
    }
    /// Page with this content on the disk, and another one in memory.
    pub(crate) fn unstored(base: Box<[u8]>, memory: Box<[u8]>) -> Page {
        Page { base, changes: Vec::new(), unstored: Some(memory) }
    }
    /// Content on the disk.
    pub(crate) fn into_base(self) -> Box<[u8]> {
        self.base
    }
    /// Adds a write at `position`; returns the bytes of memory that it takes.
    pub(crate) fn write(&mut self, position: u64, start: u64, data: &[u8]) -> usize {
        let (start, data) = match self.unstored.take() {
            Some(mut whole) => {
                whole[start as usize..][..data.len()].copy_from_slice(data);
                (0, whole)
            }
            None => (start, data.into()),
        };
        let len = data.len();
        self.changes.push((position, Change::Write(start as u16, data)));
        len + size_of::<(u64, Change)>()
    }
    /// Adds the end of the file at this offset within the page.
    pub(crate) fn cut(&mut self, position: u64, from: u64) -> usize {
        if let Some(whole) = self.unstored.take() {
            self.changes.push((position, Change::Write(0, whole)));
        }
        self.changes.push((position, Change::Cut(from as u16)));
        size_of::<(u64, Change)>()
    }
    /// Bytes of memory of the page and its changes.
    pub(crate) fn memory(&self) -> usize {
        let of_change = |(_, change): &(u64, Change)| match change {
            Change::Write(_, data) => data.len() + size_of::<(u64, Change)>(),
            Change::Cut(_) => size_of::<(u64, Change)>(),
        };
        self.base.len() + self.changes.iter().map(of_change).sum::<usize>()
    }

    /// Number of versions; version 0 is the synced one.
    pub(crate) fn versions(&self) -> usize {
        self.changes.len() + 1
    }
    /// Newest version at `position`: changes before it have been made.
    pub(crate) fn version_at(&self, position: u64) -> usize {
        self.changes.partition_point(|(at, _)| *at < position)
    }
    /// First version after version `from` that a deallocation made, if any, below version `end`.
    pub(crate) fn deallocated(&self, from: usize, end: usize) -> Option<usize> {
        (from + 1..end).find(|version| self.is_deallocation(*version))
    }
    /// Last version up to `last` that a deallocation made, if any.
    pub(crate) fn last_deallocated(&self, last: usize) -> Option<usize> {
        (1..=last).rev().find(|version| self.is_deallocation(*version))
    }
    /// True if the page was a hole before `position` and has been written since. `has_blocks` is true
    /// if its synced version is not a hole.
    pub(crate) fn is_hole(&self, has_blocks: bool, position: u64) -> bool {
        let at = self.version_at(position);
        let hole = self.last_deallocated(at).or((!has_blocks).then_some(0));
        hole == Some(at) && at < self.changes.len()
    }
    /// True if a version has data that was written.
    pub(crate) fn is_written(&self, version: usize) -> bool {
        let from = self.last_deallocated(version).unwrap_or(0);
        self.changes[from..version].iter().any(|(_, change)| matches!(change, Change::Write(..)))
    }
    fn is_deallocation(&self, version: usize) -> bool {
        matches!(self.changes[version - 1].1, Change::Cut(0))
    }

    /// Content of a version.
    pub(crate) fn content(&self, version: usize) -> Vec<u8> {
        let mut content = self.base.to_vec();
        for (_, change) in &self.changes[..version] {
            match change {
                Change::Write(start, data) => {
                    content[usize::from(*start)..][..data.len()].copy_from_slice(data);
                }
                Change::Cut(from) => content[usize::from(*from)..].fill(0),
            }
        }
        content
    }
    /// Content of a version, torn with one of the versions `oldest..version`, if there are any.
    pub(crate) fn torn(&self, version: usize, oldest: usize, tearing: Tearing, draw: &mut Stream) -> Vec<u8> {
        let mut content = self.content(version);
        let grain = match tearing {
            Tearing::None => return content,
            Tearing::Sector => SECTOR,
            Tearing::Byte => 1,
        };
        if version <= oldest || draw.below(3) != 0 {
            return content;
        }
        let older = self.content(oldest + draw.below((version - oldest) as u64) as usize);
        let at = ((1 + draw.below(PAGE / grain - 1)) * grain) as usize;
        let old = if draw.below(2) == 0 { at..PAGE as usize } else { 0..at };
        content[old.clone()].copy_from_slice(&older[old]);
        content
    }
}

/// Version drawn from `first..=last`: the ends are likelier than the rest.
pub(crate) fn draw_version(first: usize, last: usize, draw: &mut Stream) -> usize {
    match draw.below(4) {
        0 => first,
        1 | 2 if last - first < 2 => last,
        1 => last,
        _ => first + draw.below((last - first + 1) as u64) as usize,
    }
}
