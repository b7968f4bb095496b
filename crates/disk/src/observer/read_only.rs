//! Shared mappings that programs may only read. Their files are compared with nothing until the protection of one changes.

use crate::InodeId;
use belljar_machine::SpaceId;
use std::ops::Range;

/// A mapping of a file in an address space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    space: SpaceId,
    range: Range<u64>,
    inode: InodeId,
}

/// The mappings that may only be read. One that is unmapped in its middle stays as a whole: at worst its file is compared in vain.
#[derive(Debug, Default)]
pub(super) struct ReadOnly {
    mappings: Vec<Mapping>,
}

impl ReadOnly {
    /// Adds a mapping, which replaces what was in its range.
    pub(super) fn add(&mut self, space: SpaceId, range: Range<u64>, inode: InodeId) {
        self.remove(space, &range);
        self.mappings.push(Mapping { space, range, inode });
    }
    /// Removes what is mapped in a range.
    pub(super) fn remove(&mut self, space: SpaceId, range: &Range<u64>) {
        self.mappings.retain_mut(|mapping| {
            let own = &mut mapping.range;
            if mapping.space != space || own.end <= range.start || range.end <= own.start {
                return true;
            }
            if range.start <= own.start {
                own.start = range.end;
            } else if own.end <= range.end {
                own.end = range.start;
            }
            own.start < own.end
        });
    }
    /// Files that are mapped in a range.
    pub(super) fn files(&self, space: SpaceId, range: &Range<u64>) -> Vec<InodeId> {
        let is_inside =
            |own: &Mapping| own.space == space && own.range.start < range.end && range.start < own.range.end;
        self.mappings.iter().filter(|own| is_inside(own)).map(|own| own.inode).collect()
    }
    /// Copies the mappings of an address space to that of a new process.
    pub(super) fn fork(&mut self, space: SpaceId, child: SpaceId) {
        let own = self.mappings.iter().filter(|mapping| mapping.space == space).cloned();
        let copies: Vec<Mapping> = own.map(|mapping| Mapping { space: child, ..mapping }).collect();
        self.mappings.extend(copies);
    }
    /// Moves what is mapped in a range; the new range may be longer.
    pub(super) fn relocate(&mut self, space: SpaceId, from: &Range<u64>, to: Range<u64>) {
        let files = self.files(space, from);
        self.remove(space, from);
        self.remove(space, &to);
        self.mappings.extend(files.into_iter().map(|inode| Mapping { space, range: to.clone(), inode }));
    }
    /// Forgets an address space.
    pub(super) fn end(&mut self, space: SpaceId) {
        self.mappings.retain(|mapping| mapping.space != space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SpaceId = SpaceId(1);
    const B: SpaceId = SpaceId(2);

    #[test]
    fn ranges_are_cut_copied_and_moved() {
        let (one, two) = (InodeId(1), InodeId(2));
        let mut mappings = ReadOnly::default();
        mappings.add(A, 0x1000..0x5000, one);
        mappings.add(A, 0x4000..0x6000, two);
        assert_eq!(mappings.files(A, &(0x3000..0x4000)), [one]);
        assert_eq!(mappings.files(A, &(0x4000..0x5000)), [two]);
        assert_eq!(mappings.files(A, &(0x0..0x9000)), [one, two]);
        mappings.fork(A, B);
        mappings.remove(A, &(0x0..0x2000));
        assert_eq!(mappings.files(A, &(0x1000..0x2000)), []);
        assert_eq!(mappings.files(B, &(0x1000..0x2000)), [one]);
        mappings.relocate(A, &(0x2000..0x4000), 0x8000..0x9000);
        assert_eq!(mappings.files(A, &(0x2000..0x4000)), []);
        assert_eq!(mappings.files(A, &(0x8000..0x8001)), [one]);
        // The file of a mapping with a hole in it counts in the hole too.
        mappings.remove(B, &(0x2000..0x3000));
        assert_eq!(mappings.files(B, &(0x1000..0x4000)), [one]);
        mappings.end(A);
        assert_eq!(mappings.files(A, &(0..u64::MAX)), []);
        assert_eq!(mappings.files(B, &(0..u64::MAX)), [one, two]);
    }
}
