//! What lies where in this process, from `/proc/self`: the mappings of a range, and which of their
//! pages hold something of their own.

use std::fs::File;
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PAGE: u64 = belljar_shim::layout::PAGE;

/// A line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// `PROT_*`.
    pub prot: i32,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// Where in its file it starts.
    pub offset: u64,
    /// Device (major, minor) and inode number of the file; inode 0 without one.
    pub identity: (u32, u32, u64),
    /// The file's path.
    pub path: String,
}

fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = hex(start)?..hex(end)?;
    let flags = fields.next()?.as_bytes();
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_start().to_owned();
    let bit = |at: usize, letter: u8, value: i32| if flags.get(at) == Some(&letter) { value } else { 0 };
    let prot = bit(0, b'r', libc::PROT_READ) | bit(1, b'w', libc::PROT_WRITE) | bit(2, b'x', libc::PROT_EXEC);
    let identity = (hex(major)? as u32, hex(minor)? as u32, inode);
    Some(Mapping { range, prot, shared: flags.get(3) == Some(&b's'), offset, identity, path })
}

/// The mappings inside `ranges`, in order, cut to them.
pub fn mappings(ranges: &[Range<u64>]) -> Result<Vec<Mapping>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut found = Vec::new();
    for mapping in maps.lines().filter_map(parse) {
        for range in ranges {
            let part = mapping.range.start.max(range.start)..mapping.range.end.min(range.end);
            if part.start < part.end {
                let offset = mapping.offset + (part.start - mapping.range.start);
                found.push(Mapping { range: part, offset, ..mapping.clone() });
            }
        }
    }
    Ok(found)
}

/// `/proc/self/pagemap`.
pub struct PageMap(File);

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

impl PageMap {
    /// Opens it.
    pub fn open() -> Result<PageMap> {
        Ok(PageMap(File::open("/proc/self/pagemap")?))
    }

    /// The runs of pages in `range` that hold private content: written to since they were mapped.
    pub fn private_pages(&self, range: &Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        const CHUNK: u64 = 8192;
        let mut entries = vec![0u8; (CHUNK * 8).min((range.end - range.start) / PAGE * 8) as usize];
        let mut at = range.start;
        while at < range.end {
            let count = ((range.end - at) / PAGE).min(CHUNK);
            let entries = &mut entries[..count as usize * 8];
            self.0.read_exact_at(entries, at / PAGE * 8)?;
            for entry in entries.chunks_exact(8) {
                let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
                if entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0 {
                    match runs.last_mut() {
                        Some(run) if run.end == at => run.end += PAGE,
                        _ => runs.push(at..at + PAGE),
                    }
                }
                at += PAGE;
            }
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_a_file() {
        let line = "10000000a000-10000000c000 r-xp 00028000 fd:01 1234                       /usr/lib/a b.so (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!(mapping.range, 0x1000_0000_a000..0x1000_0000_c000);
        assert_eq!((mapping.prot, mapping.shared, mapping.offset), (5, false, 0x28000));
        assert_eq!((mapping.identity, mapping.path.as_str()), ((0xfd, 1, 1234), "/usr/lib/a b.so (deleted)"));
        let mapping = parse("10000000a000-10000000c000 rw-s 00000000 00:00 0 ").unwrap();
        assert_eq!((mapping.prot, mapping.shared, mapping.identity.2), (3, true, 0));
        assert_eq!(mapping.path, "");
    }

    #[test]
    fn written_pages_are_private_and_read_ones_of_a_file_are_not() {
        let size = 16 * PAGE as usize;
        let file = tempfile(size);
        use std::os::fd::AsRawFd;
        // SAFETY: fresh mappings of this test's own.
        unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), size, prot, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
            assert_ne!(at, libc::MAP_FAILED);
            let byte = |page: usize| at.cast::<u8>().add(page * PAGE as usize);
            byte(3).read_volatile();
            byte(5).write_volatile(1);
            byte(6).write_volatile(1);
            let at = at as u64;
            let runs = PageMap::open().unwrap().private_pages(&(at..at + size as u64)).unwrap();
            assert_eq!(runs.as_slice(), std::slice::from_ref(&(at + 5 * PAGE..at + 7 * PAGE)));
            libc::munmap(at as *mut libc::c_void, size);
        }
    }

    fn tempfile(size: usize) -> File {
        // SAFETY: the name is a C string; the descriptor is nobody else's.
        let file = unsafe {
            use std::os::fd::FromRawFd;
            File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC))
        };
        file.set_len(size as u64).unwrap();
        file
    }
}
