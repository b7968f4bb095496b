//! Instructions of an image that read the machine, and the bytes that replace them.
//!
//! A proven instruction is replaced when its image is mapped, by one that raises a general-protection
//! exception at the same address; the exits then give it its result. A suspected one stays as it is, and the
//! run's warnings name it.

use super::read_sites::{self, Read};
use super::{TRAP, cpuid_sites};
use crate::cpuid;
use crate::files;
use crate::layout::PAGE;
use crate::native::Native;
use crate::near::worker;
use belljar_machine::{HardwareRead, NativeFile, NativeRead};
use std::ops::Range;

/// Fills the rest of a replaced instruction.
const NOP: u8 = 0x90;
/// Bytes of a text that are searched at a time, whole pages.
const PART: u64 = 4 << 20;
/// Bytes around a part that the search of its margins reads as well.
const MARGIN: u64 = 8 << 10;

/// Kinds of instructions that read this machine if they are left as they are.
pub fn native_kinds() -> Vec<HardwareRead> {
    let mut kinds =
        vec![HardwareRead::Rdrand, HardwareRead::Rdseed, HardwareRead::Rdpid, HardwareRead::Xgetbv];
    if cpuid::has_rdpru() {
        kinds.push(HardwareRead::Rdpru);
    }
    if !worker::counter_traps() {
        kinds.extend([HardwareRead::Rdtsc, HardwareRead::Rdtscp]);
    }
    if !cpuid::can_fault() {
        kinds.push(HardwareRead::Cpuid);
    }
    kinds
}

/// Instructions that read the machine in one mapping of a file, by offsets into the mapping.
#[derive(Debug, Default)]
pub struct HardwareReads {
    /// Replaced instructions, ascending.
    replaced: Vec<Read>,
    /// Instructions left as they are, because they are not proven.
    suspected: Vec<Read>,
    /// Replacement bytes for each page, from its first to its last instruction. They are cached so that a
    /// page need not be read, and hence made resident, before it is written.
    pages: Vec<(u64, Vec<u8>)>,
}

impl HardwareReads {
    /// The instructions in `code`, the whole of a mapping.
    pub fn of(code: &[u8]) -> HardwareReads {
        let mut found = HardwareReads::default();
        found.add(code, 0, 0..code.len() as u64);
        found
    }

    /// The instructions in the `len` bytes of a file from `offset`; `None` if they cannot be read.
    pub fn of_file(fd: i32, offset: u64, len: u64) -> Option<HardwareReads> {
        let mut found = HardwareReads::default();
        let mut code = Vec::new();
        for start in (0..len).step_by(PART as usize) {
            let part = start..(start + PART).min(len);
            let begin = start.saturating_sub(MARGIN);
            code.resize(((part.end + MARGIN).min(len) - begin) as usize, 0);
            let got = files::read_at(NativeFile(fd), offset + begin, &mut code).ok()?;
            code[got..].fill(0);
            found.add(&code, begin, part);
        }
        Some(found)
    }

    /// Adds the instructions that begin in `part`; `code` begins at offset `begin`, at most the part's start.
    fn add(&mut self, code: &[u8], begin: u64, part: Range<u64>) {
        let is_in_part = |read: &Read| part.contains(&(begin + read.at));
        let known = if cpuid::is_better_replaced() { cpuid_sites::find(code) } else { Vec::new() };
        let (mut proven, suspected): (Vec<Read>, Vec<Read>) =
            read_sites::find(code, &native_kinds(), &known).into_iter().partition(|read| read.is_proven);
        self.suspected.extend(suspected.into_iter().filter(is_in_part).map(|read| moved(read, begin)));
        proven.extend(known.into_iter().map(Read::cpuid));
        proven.retain(is_in_part);
        proven.sort_unstable_by_key(|read| read.at);
        let page = |read: &Read| (begin + read.at) / PAGE;
        self.pages.extend(proven.chunk_by(|a, b| page(a) == page(b)).map(|group| {
            let (first, last) = (group[0].at as usize, group[group.len() - 1]);
            let mut bytes = code[first..(last.at + u64::from(last.len)) as usize].to_vec();
            for read in group {
                let place = &mut bytes[read.at as usize - first..][..usize::from(read.len)];
                place.fill(NOP);
                place[0] = TRAP;
            }
            (begin + group[0].at, bytes)
        }));
        self.replaced.extend(proven.into_iter().map(|read| moved(read, begin)));
    }

    /// Replacement bytes with their offsets, at most one run for each page.
    pub fn pages(&self) -> &[(u64, Vec<u8>)] {
        &self.pages
    }

    /// True if nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty()
    }

    /// The replaced instruction at offset `at`.
    pub fn at(&self, at: u64) -> Option<&Read> {
        let found = self.replaced.binary_search_by_key(&at, |read| read.at).ok()?;
        Some(&self.replaced[found])
    }

    /// Offsets of the replaced `cpuid` instructions.
    pub fn cpuids(&self) -> impl Iterator<Item = u64> {
        self.replaced.iter().filter(|read| read.what == HardwareRead::Cpuid).map(|read| read.at)
    }

    /// The instructions left as they are, in a mapping at `start`; with `all`, also those that should have
    /// been replaced.
    pub fn native(&self, start: u64, all: bool) -> impl Iterator<Item = NativeRead> {
        let failed = self.replaced.iter().filter(move |_| all);
        self.suspected.iter().chain(failed).map(move |read| native_read(start, read))
    }
}

/// A read of code that begins at offset `begin`.
fn moved(read: Read, begin: u64) -> Read {
    Read { at: begin + read.at, ..read }
}

/// A read left as it is, in code that begins at `start`.
pub fn native_read(start: u64, read: &Read) -> NativeRead {
    NativeRead { what: read.what, addr: start + read.at, is_proven: read.is_proven, is_gone: false }
}

/// Bytes of executable memory that are searched at a time, whole pages.
const WRITTEN_PART: u64 = 1 << 20;

/// Adds the instructions in the executable memory `range`, which a program has written. Only pages of
/// anonymous memory that have been touched are read.
pub fn search(range: Range<u64>, is_anonymous: bool, native: &Native, found: &mut Vec<NativeRead>) {
    let kinds = native_kinds();
    for start in (range.start..range.end).step_by(WRITTEN_PART as usize) {
        let part = start..(start + WRITTEN_PART).min(range.end);
        if is_anonymous && !is_touched(&part, native) {
            continue;
        }
        // An instruction may begin in one part and end in the next; the search wants the code before it.
        let begin = start.saturating_sub(PAGE).max(range.start);
        let mut code = vec![0; ((part.end + PAGE).min(range.end) - begin) as usize];
        if native.read(begin, &mut code).is_err() {
            continue;
        }
        let reads = read_sites::find(&code, &kinds, &[]).into_iter().map(|read| native_read(begin, &read));
        found.extend(reads.filter(|read| part.contains(&read.addr)));
    }
}

fn is_touched(range: &Range<u64>, native: &Native) -> bool {
    let mut pages = vec![0; ((range.end - range.start) / PAGE) as usize];
    native.mincore(range.start, &mut pages).is_err() || pages.iter().any(|page| page & 1 != 0)
}
