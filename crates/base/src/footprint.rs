//! Footprints: the cache lines that an object will read, for fetching them ahead of time.
//!
//! Large structures of which a host reads a little for each packet, call or window are `repr(C)` and have that first: by itself
//! Rust orders fields mostly by alignment, and what is read lay one or two words in a cache line.

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;
/// Bytes of the page at address 0, in which no object lies.
const FIRST_PAGE: usize = 4096;

/// Cache lines that lie in the same KiB, in one word: the KiB's number, and a bit for each of its lines. Most of what a host reads
/// lies close together, and what is told of it is memory that has to be fetched too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineGroup(usize);

impl LineGroup {
    /// Lines of a group.
    const LINES: usize = 16;
    /// No lines.
    pub const NONE: LineGroup = LineGroup(0);

    /// The groups of `len` bytes from an address on.
    #[inline]
    pub fn of(address: usize, len: usize) -> impl Iterator<Item = LineGroup> {
        let (first, last) = (address / CACHE_LINE, address.saturating_add(len.max(1) - 1) / CACHE_LINE);
        (first / Self::LINES..=last / Self::LINES).map(move |kib| {
            let least = first.max(kib * Self::LINES) % Self::LINES;
            let greatest = last.min((kib + 1) * Self::LINES - 1) % Self::LINES;
            LineGroup((kib << Self::LINES) | ((2 << greatest) - (1 << least)))
        })
    }
    /// The group that a word stands for.
    pub fn from_word(word: usize) -> LineGroup {
        LineGroup(word)
    }
    /// The group as a word: 0 if it has no lines.
    pub fn word(self) -> usize {
        self.0
    }
    /// The addresses of its lines.
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

/// Footprint: the memory that something reads when it runs next, by cache line, about in the order of reading.
///
/// A simulation of many hosts visits each for a few microseconds at a time, and finds all of it in memory that has gone cold since.
/// One after the other these lines take longer to come than all that is done with them; asked for together, while another host
/// runs, hardly any time. Which they are is a guess: a wrong one costs a little time.
#[derive(Debug, Default)]
pub struct Footprint {
    groups: Vec<LineGroup>,
}

impl Footprint {
    /// Adds all of an object, without what it points to.
    pub fn object<T: ?Sized>(&mut self, object: &T) {
        self.bytes(&raw const *object as *const u8 as usize, size_of_val(object));
    }
    /// Adds the first items of a buffer, even if it is empty now.
    pub fn start<T>(&mut self, buffer: *const T, items: usize) {
        self.bytes(buffer as usize, items * size_of::<T>());
    }
    /// Adds bytes from an address on.
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
    /// The lines.
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
