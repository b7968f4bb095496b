//! Detection of programs whose run-time library requires Linux's layout of the address space:
//! ThreadSanitizer, Go's race detector (the same library), and MemorySanitizer compute the shadow of an
//! address by arithmetic, and accept only addresses that Linux assigns to programs.
//!
//! GCC links such a library dynamically, and the image names it. Clang links it statically and exports its
//! entry points. With static linking GCC does neither; the image then defines `pthread_create`, and its
//! symbol table contains the entry points unless it was stripped. Go records its build settings in the image.

use crate::elf::{Layout, u16_at, u32_at, u64_at};
use crate::{HostFiles, NativeFile};

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SYMBOL_LEN: u64 = 24;
const SHT_SYMTAB: u32 = 2;

/// Name fragments of these libraries.
const LIBRARIES: [&[u8]; 3] = [b"libtsan.so", b"libclang_rt.tsan", b"libclang_rt.msan"];
/// Entry points of these libraries.
const ENTRY_POINTS: [&[u8]; 2] = [b"__tsan_init", b"__msan_init"];
/// Function that these libraries replace.
const REPLACED: &[u8] = b"pthread_create";
/// Line written by `go build -race` into the build information.
const GO_RACE: &[u8] = b"build\t-race=true\n";

/// Maximum size of a dynamic section that is examined; the rest is ignored.
const MOST_DYNAMIC: u64 = 16 << 10;
const MOST_SECTIONS: usize = 1_000;
const MOST_SYMBOLS: u64 = 64 << 20;
const MOST_INFO: u64 = 256 << 10;
const LONGEST_NAME: u64 = 128;
/// Maximum number of symbols examined per hash chain.
const LONGEST_CHAIN: u64 = 64;

/// Section header.
struct Section {
    name: u64,
    kind: u32,
    offset: u64,
    size: u64,
    link: usize,
}

/// Tables of a dynamic section, by file offset.
#[derive(Default)]
struct Dynamic {
    needed: Vec<u64>,
    strings: Option<u64>,
    symbols: Option<u64>,
    hash: Option<u64>,
}

/// Reader of one image file.
struct Reader<'a> {
    files: &'a mut dyn HostFiles,
    file: NativeFile,
    layout: &'a Layout,
}

/// True if the image in `file`, which starts with `header`, requires Linux's layout.
pub fn needs_linux_layout(
    files: &mut dyn HostFiles,
    file: NativeFile,
    header: &[u8],
    layout: &Layout,
) -> bool {
    Reader { files, file, layout }.needs_linux_layout(header).unwrap_or(false)
}

/// All methods return `None` for an image with inconsistent offsets.
impl Reader<'_> {
    fn needs_linux_layout(&mut self, header: &[u8]) -> Option<bool> {
        if self.is_of_go() {
            return self.is_race_detector(header);
        }
        let Some(range) = self.layout.dynamic.clone() else { return Some(false) };
        let dynamic = self.dynamic(range)?;
        for name in &dynamic.needed {
            let name = self.name(dynamic.strings?, *name)?;
            if LIBRARIES.iter().any(|library| name.windows(library.len()).any(|part| part == *library)) {
                return Some(true);
            }
        }
        for name in ENTRY_POINTS {
            if self.defines(&dynamic, name)? {
                return Some(true);
            }
        }
        if self.defines(&dynamic, REPLACED)? {
            return self.has_symbol(header);
        }
        Some(false)
    }

    fn bytes(&mut self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        let got = self.files.read_at(self.file, offset, &mut bytes).ok()?;
        bytes.truncate(got);
        Some(bytes)
    }

    fn exactly(&mut self, offset: u64, len: u64) -> Option<Vec<u8>> {
        self.bytes(offset, len).filter(|bytes| bytes.len() as u64 == len)
    }

    /// String at `offset` of the string table at `strings`.
    fn name(&mut self, strings: u64, offset: u64) -> Option<Vec<u8>> {
        let bytes = self.bytes(strings.checked_add(offset)?, LONGEST_NAME)?;
        bytes.split(|b| *b == 0).next().map(<[u8]>::to_vec)
    }

    fn dynamic(&mut self, range: std::ops::Range<u64>) -> Option<Dynamic> {
        let mut found = Dynamic::default();
        for entry in self.bytes(range.start, (range.end - range.start).min(MOST_DYNAMIC))?.chunks_exact(16) {
            let value = u64_at(entry, 8);
            match u64_at(entry, 0) {
                0 => break,
                DT_NEEDED => found.needed.push(value),
                DT_STRTAB => found.strings = self.layout.offset_of_address(value),
                DT_SYMTAB => found.symbols = self.layout.offset_of_address(value),
                DT_GNU_HASH => found.hash = self.layout.offset_of_address(value),
                _ => {}
            }
        }
        Some(found)
    }

    /// True if the image exports a definition of `name`, by the table of `DT_GNU_HASH`: a Bloom filter,
    /// buckets, and hash chains in symbol order, whose end is marked by the lowest bit of a hash.
    fn defines(&mut self, dynamic: &Dynamic, name: &[u8]) -> Option<bool> {
        let Some(table) = dynamic.hash else { return Some(false) };
        let head = self.exactly(table, 16)?;
        let [buckets, first, words, shift] = [0, 4, 8, 12].map(|at| u64::from(u32_at(&head, at)));
        if buckets == 0 || words == 0 {
            return Some(false);
        }
        let hash = name.iter().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)));
        let wide = u64::from(hash);
        let filter = u64_at(&self.exactly(table + 16 + wide / 64 % words * 8, 8)?, 0);
        let bits = 1u64 << (wide % 64) | 1u64 << ((wide >> (shift % 32)) % 64);
        if filter & bits != bits {
            return Some(false);
        }
        let bucket = table + 16 + words * 8 + wide % buckets * 4;
        let symbol = u64::from(u32_at(&self.exactly(bucket, 4)?, 0));
        if symbol < first {
            return Some(false);
        }
        let chain = table + 16 + words * 8 + buckets * 4 + (symbol - first) * 4;
        let hashes = self.bytes(chain, LONGEST_CHAIN * 4)?;
        for (n, found) in hashes.chunks_exact(4).enumerate() {
            let found = u32_at(found, 0);
            if found | 1 == hash | 1 {
                let entry = self.exactly(dynamic.symbols? + (symbol + n as u64) * SYMBOL_LEN, SYMBOL_LEN)?;
                if self.name(dynamic.strings?, u64::from(u32_at(&entry, 0)))? == name {
                    return Some(true);
                }
            }
            if found & 1 != 0 {
                break;
            }
        }
        Some(false)
    }

    fn sections(&mut self, header: &[u8]) -> Option<Vec<Section>> {
        let count = usize::from(u16_at(header, 60)).min(MOST_SECTIONS);
        let bytes = self.exactly(u64_at(header, 40), count as u64 * 64)?;
        let section = |entry: &[u8]| Section {
            name: u64::from(u32_at(entry, 0)),
            kind: u32_at(entry, 4),
            offset: u64_at(entry, 24),
            size: u64_at(entry, 32),
            link: u32_at(entry, 40) as usize,
        };
        Some(bytes.chunks_exact(64).map(section).collect())
    }

    /// True if the symbol table contains one of the entry points.
    fn has_symbol(&mut self, header: &[u8]) -> Option<bool> {
        let sections = self.sections(header)?;
        let Some(table) = sections.iter().find(|section| section.kind == SHT_SYMTAB) else {
            return Some(false);
        };
        let strings = sections.get(table.link)?;
        let names = self.bytes(strings.offset, strings.size.min(MOST_SYMBOLS))?;
        let has = |name: &[u8]| names.split(|b| *b == 0).any(|found| found == name);
        Some(ENTRY_POINTS.iter().any(|name| has(name)))
    }

    /// True if the first note is the build id of Go's linker.
    fn is_of_go(&mut self) -> bool {
        let Some(notes) = self.layout.notes.clone() else { return false };
        self.exactly(notes.start, 16).is_some_and(|note| note[12..] == *b"Go\0\0")
    }

    /// True if the section `.go.buildinfo` records the race detector. Stripping preserves the section.
    fn is_race_detector(&mut self, header: &[u8]) -> Option<bool> {
        let sections = self.sections(header)?;
        let names = sections.get(usize::from(u16_at(header, 62)))?.offset;
        for section in sections.iter().filter(|section| section.kind != 0) {
            if self.name(names, section.name)? == b".go.buildinfo" {
                let info = self.bytes(section.offset, section.size.min(MOST_INFO))?;
                return Some(info.windows(GO_RACE.len()).any(|part| part == GO_RACE));
            }
        }
        Some(false)
    }
}
