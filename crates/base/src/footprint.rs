//! Footprints: the cache lines that an object will read, for prefetching.
//!
//! Large structures of which a host reads a small part for each packet, call or window are `repr(C)` with
//! that part first. Rust itself orders fields mostly by alignment, which scattered the fields read over many
//! cache lines.

/// Cache line size in bytes.
pub const CACHE_LINE: usize = 64;
/// Size of the page at address 0, which contains no object, in bytes.
const FIRST_PAGE: usize = 4096;

/// Cache lines within one KiB, packed into a word: the number of the KiB, and a bit for each of its lines.
/// Most of the memory that a host reads is close together, and a footprint must itself be fetched, so it is
/// kept compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineGroup(usize);

impl LineGroup {
    /// Number of lines in a group.
    const LINES: usize = 16;
    /// Empty group.
    pub const NONE: LineGroup = LineGroup(0);

    /// Groups that cover `len` bytes from an address on.
    #[inline]
    pub fn of(address: usize, len: usize) -> impl Iterator<Item = LineGroup> {
        let (first, last) = (address / CACHE_LINE, address.saturating_add(len.max(1) - 1) / CACHE_LINE);
        (first / Self::LINES..=last / Self::LINES).map(move |kib| {
            let least = first.max(kib * Self::LINES) % Self::LINES;
            let greatest = last.min((kib + 1) * Self::LINES - 1) % Self::LINES;
            LineGroup((kib << Self::LINES) | ((2 << greatest) - (1 << least)))
        })
    }
    /// Group encoded by a word.
    pub fn from_word(word: usize) -> LineGroup {
        LineGroup(word)
    }
    /// Encoding of the group as a word: 0 if it has no lines.
    pub fn word(self) -> usize {
        self.0
    }
    /// Addresses of the lines.
    #[inline]
    pub fn addresses(self) -> impl Iterator<Item = usize> {
        let first = (self.0 >> Self::LINES) * Self::LINES * CACHE_LINE;
        let mut lines = self.0 as u16;
        std::iter::from_fn(move || {
            let line = (lines != 0).then(|| lines.trailing_zeros() as usize)?;
            lines &= lines - 1;
            Some(first + line * CACHE_LINE)
        })
    }
}

/// Footprint: the memory that an object reads when it next runs, by cache line, approximately in the order of
/// reading.
///
/// A simulation of many hosts runs each for a few microseconds at a time, after its memory has left the
/// caches. Fetching these lines one by one takes longer than processing them; requested together while
/// another host runs, they cost hardly any time. The set is an estimate: an error costs some time and changes
/// no result.
#[derive(Debug, Default)]
pub struct Footprint {
    groups: Vec<LineGroup>,
}

impl Footprint {
    /// Adds the bytes of an object, without the memory it points to.
    pub fn object<T: ?Sized>(&mut self, object: &T) {
        self.bytes(&raw const *object as *const u8 as usize, size_of_val(object));
    }
    /// Adds the first items of a buffer, even if it is empty now.
    pub fn start<T>(&mut self, buffer: *const T, items: usize) {
        self.bytes(buffer as usize, items * size_of::<T>());
    }
    /// Adds `len` bytes from an address on.
    pub fn bytes(&mut self, address: usize, len: usize) {
        if address < FIRST_PAGE {
            return;
        }
        for group in LineGroup::of(address, len) {
            let same = |other: &&mut LineGroup| other.0 >> LineGroup::LINES == group.0 >> LineGroup::LINES;
            match self.groups.iter_mut().find(same) {
                Some(known) => known.0 |= group.0,
                None => self.groups.push(group),
            }
        }
    }
    /// Line groups of the footprint.
    pub fn groups(&self) -> &[LineGroup] {
        &self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(footprint: &Footprint) -> Vec<usize> {
        footprint.groups().iter().flat_map(|group| group.addresses()).collect()
    }

    #[test]
    fn each_line_is_told_once() {
        let mut footprint = Footprint::default();
        footprint.bytes(0x10_0030, 0x20);
        footprint.bytes(0x5000, 1);
        footprint.bytes(0x10_0070, 0x11);
        footprint.bytes(0x7fff_ffff_fbc0, 0x440);
        let last = (0..16).map(|line| 0x7fff_ffff_fc00 + line * CACHE_LINE);
        let expected: Vec<usize> =
            [0x10_0000, 0x10_0040, 0x10_0080, 0x5000, 0x7fff_ffff_fbc0].into_iter().chain(last).collect();
        assert_eq!(lines(&footprint), expected);
        assert_eq!(footprint.groups().len(), 4);
        let again = footprint.groups().iter().map(|group| LineGroup::from_word(group.word()));
        assert_eq!(again.flat_map(LineGroup::addresses).collect::<Vec<_>>(), expected);
        assert_eq!(LineGroup::NONE.addresses().next(), None);
        let mut footprint = Footprint::default();
        footprint.start(Vec::<u64>::new().as_ptr(), 4);
        assert_eq!(lines(&footprint), [] as [usize; 0], "no buffer, no lines");
        let words = [0u64; 16];
        footprint.object(&words);
        assert!((2..=3).contains(&lines(&footprint).len()));
    }
}
