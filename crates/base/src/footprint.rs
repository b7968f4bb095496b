//! What lies where, for fetching it ahead of time.

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;
/// Where no object lies.
const FIRST_PAGE: usize = 4096;

/// The memory that something reads when it runs next, by cache line, in the order in which it does.
///
/// A simulation of many hosts visits each for a few microseconds at a time, and finds all of it in memory that has gone cold since.
/// One after the other these lines take longer to come than all that is done with them; asked for together, while another host
/// runs, hardly any time. Which they are is a guess: a wrong one costs a little time.
#[derive(Debug, Default)]
pub struct Footprint {
    lines: Vec<usize>,
}

impl Footprint {
    /// All of an object; not what it points to.
    pub fn object<T: ?Sized>(&mut self, object: &T) {
        self.bytes(&raw const *object as *const u8 as usize, size_of_val(object));
    }
    /// The first items of a buffer, whether there are any in it now or not.
    pub fn start<T>(&mut self, buffer: *const T, items: usize) {
        self.bytes(buffer as usize, items * size_of::<T>());
    }
    /// Some bytes from an address on.
    pub fn bytes(&mut self, address: usize, len: usize) {
        if address < FIRST_PAGE {
            return;
        }
        let last = address.saturating_add(len.max(1) - 1) / CACHE_LINE;
        for line in address / CACHE_LINE..=last {
            let line = line * CACHE_LINE;
            if !self.lines.contains(&line) {
                self.lines.push(line);
            }
        }
    }
    /// The addresses of the lines.
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_told_once_in_the_order_of_use() {
        let mut footprint = Footprint::default();
        footprint.bytes(0x10_0030, 0x20);
        footprint.bytes(0x5000, 1);
        footprint.bytes(0x10_0070, 0x11);
        assert_eq!(footprint.lines(), [0x10_0000, 0x10_0040, 0x5000, 0x10_0080]);
        let mut footprint = Footprint::default();
        footprint.start(Vec::<u64>::new().as_ptr(), 4);
        assert_eq!(footprint.lines(), [] as [usize; 0], "no buffer, no lines");
        let words = [0u64; 16];
        footprint.object(&words);
        assert!((2..=3).contains(&footprint.lines().len()));
    }
}
