//! Analysis of sites: the form in which each can be rewritten. It depends on the file's bytes alone, so it is kept for
//! all guests of the process.

use super::{LONGEST_INSTRUCTION, TRAP, cpuid_sites};
use crate::layout::PAGE;
use crate::native::Native;
use belljar_base::Map;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// A file and the state it was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
}

impl FileKey {
    /// The key of an open file.
    pub fn of(fd: i32) -> Option<FileKey> {
        // SAFETY: `ManuallyDrop` leaves the descriptor open; it is only asked for its metadata.
        let file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
        let found = file.metadata().ok()?;
        Some(FileKey {
            dev: found.dev(),
            ino: found.ino(),
            size: found.size(),
            mtime: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// Form: the way in which a site is rewritten.
#[derive(Clone, Debug)]
pub enum Form {
    /// The `mov $nr` before the `syscall` becomes the jump.
    A {
        /// The bytes of that instruction: 5, or 7 with a 64-bit destination.
        mov: Vec<u8>,
    },
    /// The `syscall` and the instructions behind it become the jump.
    B {
        /// The instructions behind the `syscall` that go with it, relative to it: the first one's
        /// IP is 2.
        displaced: Vec<Instruction>,
    },
}

#[derive(Default)]
struct Analysis {
    /// `None` until needed.
    branches: Option<Branches>,
    /// Its certain `cpuid` instructions. `None` until needed.
    cpuids: Option<Arc<Cpuids>>,
    forms: Map<u64, Option<(Form, Option<u64>)>>,
}

/// Possible direct branches, by the places behind `syscall` instructions into which they lead: offsets into the mapping.
type Branches = Map<u64, Vec<u64>>;

/// `cpuid` instructions, as offsets into the mapping.
#[derive(Debug, Default)]
pub struct Cpuids {
    /// All of them, ascending.
    pub places: Vec<u64>,
    /// Replacement bytes, from the first to the last place in each page. They are kept so that a page need not be read, and
    /// so mapped, before it is written to.
    pub replaced: Vec<(u64, Vec<u8>)>,
}

impl Cpuids {
    /// The certain ones in `code`.
    pub fn of(code: &[u8]) -> Cpuids {
        let places = cpuid_sites::find(code);
        let replace = |group: &[u64]| {
            let (first, last) = (group[0] as usize, group[group.len() - 1] as usize);
            let mut bytes = code[first..last + TRAP.len()].to_vec();
            for &place in group {
                bytes[place as usize - first..][..TRAP.len()].copy_from_slice(&TRAP);
            }
            (group[0], bytes)
        };
        let replaced = places.chunk_by(|a, b| a / PAGE == b / PAGE).map(replace).collect();
        Cpuids { places, replaced }
    }
}

/// Analyses by file, and by offset and length of the mapping in it.
static ANALYSES: Mutex<Map<(FileKey, u64, u64), Analysis>> = Mutex::new(Map::new());

/// Longer images keep trapping where form A does not do.
const LONGEST_TEXT: u64 = 128 << 20;
/// The longest run of bytes that form B displaces: 4 bytes and an instruction.
const LONGEST_DISPLACED: u64 = 4 + LONGEST_INSTRUCTION as u64;
/// Distance before a site at which decoding starts, to find the instruction before the site.
const FAR_BACK: u64 = 64;
const NEAR_BACK: u64 = 20;
/// Readings of the code before a place that must agree that it is no branch.
const ENOUGH_READINGS: usize = 8;

/// Longer images keep their `cpuid` instructions.
const LONGEST_CPUID_TEXT: u64 = 32 << 20;

/// The certain `cpuid` instructions of the mapping `range` of a guest, which shows `file` from `offset` on.
pub fn cpuids(file: &FileKey, offset: u64, range: &Range<u64>, native: &Native) -> Arc<Cpuids> {
    let len = range.end - range.start;
    let mut analyses = ANALYSES.lock().unwrap_or_else(PoisonError::into_inner);
    let analysis = analyses.entry((*file, offset, len)).or_default();
    if let Some(found) = &analysis.cpuids {
        return found.clone();
    }
    let found = match len {
        0..=LONGEST_CPUID_TEXT => match bytes(range.start, len, native) {
            Some(code) => Arc::new(Cpuids::of(&code)),
            // Another guest's copy may be readable.
            None => return Arc::default(),
        },
        _ => Arc::default(),
    };
    analysis.cpuids = Some(found.clone());
    found
}

/// The form for the `syscall` at `site` inside the mapping `range` of a guest, which shows `file` from
/// `offset` on. `nr` is what RAX held when it trapped: form A must load the same.
pub fn form(
    file: &FileKey,
    offset: u64,
    range: &Range<u64>,
    site: u64,
    nr: u64,
    native: &Native,
) -> Option<Form> {
    let at = site - range.start;
    let mut analyses = ANALYSES.lock().unwrap_or_else(PoisonError::into_inner);
    let analysis = analyses.entry((*file, offset, range.end - range.start)).or_default();
    if !analysis.forms.contains_key(&at) {
        let found = analysis.find(range, at, native);
        analysis.forms.insert(at, found);
    }
    match analysis.forms[&at].clone()? {
        (form, Some(loads)) if loads == nr => Some(form),
        // The number comes from elsewhere after all, by a jump to the `syscall` itself.
        (_, Some(_)) => None,
        (form, None) => Some(form),
    }
}

impl Analysis {
    /// The form, and the number that form A loads.
    fn find(&mut self, range: &Range<u64>, at: u64, native: &Native) -> Option<(Form, Option<u64>)> {
        let from = at.saturating_sub(FAR_BACK);
        let to = (at + 32).min(range.end - range.start);
        let code = bytes(range.start + from, to - from, native)?;
        let site = (at - from) as usize;
        if code.get(site..site + 2) != Some(&[0x0f, 0x05]) {
            return None;
        }
        if let Some((mov, loads)) = mov_before(&code, site) {
            return Some((Form::A { mov }, Some(loads)));
        }
        let displaced = displaced_behind(&code[site..], range.start + at)?;
        let len = displaced.last().map_or(2, Instruction::next_ip);
        if self.branches.is_none() {
            let all = range.end - range.start;
            if all > LONGEST_TEXT {
                return None;
            }
            self.branches = Some(branches_behind_sites(&bytes(range.start, all, native)?));
        }
        let branches = self.branches.as_ref().expect("just filled");
        let code = |begin, end: u64| {
            let end = end.min(range.end - range.start);
            bytes(range.start + begin, end - begin, native)
        };
        let free = !is_entered(branches, at + 1..at + len, code)?;
        free.then_some((Form::B { displaced }, None))
    }
}

/// True if a branch may lead to one of `places`. `code` reads a part of the mapping.
fn is_entered(
    branches: &Branches,
    places: Range<u64>,
    code: impl Fn(u64, u64) -> Option<Vec<u8>>,
) -> Option<bool> {
    for (&target, sources) in branches.range(places) {
        for &source in sources {
            let begin = source.saturating_sub(FAR_BACK);
            if may_branch(&code(begin, source + LONGEST_INSTRUCTION as u64)?, begin, source, target) {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// A site proven to be a call site without having trapped.
#[derive(Debug)]
pub struct ProvenSite {
    /// Offset of its `syscall` in the code.
    pub at: u64,
    /// Form in which it is rewritten.
    pub form: Form,
    /// The number that form A loads.
    pub nr: u64,
}

/// The sites in `code`, all of a mapping at an address like `addr`, that are no data by chance: where the number is loaded just
/// before, or the result compared with the errors just behind, and nearly all readings of what is before lead there.
pub fn certain(code: &[u8], addr: u64) -> Vec<ProvenSite> {
    let mut branches = None;
    pairs(code)
        .filter(|&at| at >= FAR_BACK as usize)
        .filter_map(|at| certain_at(code, at, addr, &mut branches))
        .collect()
}

/// Offsets of the bytes of a `syscall`.
pub fn pairs(code: &[u8]) -> impl Iterator<Item = usize> {
    code.windows(2).enumerate().filter(|(_, pair)| *pair == [0x0f, 0x05]).map(|(at, _)| at)
}

/// No system call has a higher number.
const HIGHEST_NR: u32 = 1023;
/// Readings that must lead to a site.
const HITS: usize = 8;
const MISSES: usize = 1;

fn certain_at(code: &[u8], at: usize, addr: u64, branches: &mut Option<Branches>) -> Option<ProvenSite> {
    let number = |from: usize| {
        let nr = u32::from_le_bytes(code[from..at].try_into().ok()?);
        (nr <= HIGHEST_NR).then_some(u64::from(nr))
    };
    let loads = match (&code[at - 7..at - 4], code[at - 5]) {
        ([0x48, 0xc7, 0xc0], _) => number(at - 4).map(|nr| (7, nr)),
        (_, 0xb8) => number(at - 4).map(|nr| (5, nr)),
        _ => None,
    };
    if let Some((len, nr)) = loads
        && leads_to(code, at - len, at)
    {
        return Some(ProvenSite { at: at as u64, form: Form::A { mov: code[at - len..at].to_vec() }, nr });
    }
    // cmp $-4095 or $-4096, %rax or %eax
    let compares = matches!(
        code.get(at + 2..)?,
        [0x48, 0x3d, 0 | 1, 0xf0, 0xff, 0xff, ..] | [0x3d, 0 | 1, 0xf0, 0xff, 0xff, ..]
    );
    if !compares || !leads_to(code, at, at + 2) {
        return None;
    }
    let end = (at + 32).min(code.len());
    let displaced = displaced_behind(&code[at..end], addr + at as u64)?;
    let len = displaced.last()?.next_ip();
    let branches = branches.get_or_insert_with(|| branches_behind_sites(code));
    let part = |begin: u64, end: u64| Some(code[begin as usize..(end as usize).min(code.len())].to_vec());
    let free = !is_entered(branches, at as u64 + 1..at as u64 + len, part)?;
    free.then_some(ProvenSite { at: at as u64, form: Form::B { displaced }, nr: 0 })
}

/// True if an instruction lies at `start..end` by nearly all readings of the code before it.
fn leads_to(code: &[u8], start: usize, end: usize) -> bool {
    let (mut hits, mut misses) = (0, 0);
    let code = &code[..(end + LONGEST_INSTRUCTION).min(code.len())];
    for instruction in readings(code, 0, end as u64 - 1) {
        match (instruction.ip(), instruction.next_ip()) == (start as u64, end as u64) {
            true => hits += 1,
            false => misses += 1,
        }
        if misses > MISSES {
            return false;
        }
        if hits == HITS {
            return true;
        }
    }
    false
}

fn bytes(addr: u64, len: u64, native: &Native) -> Option<Vec<u8>> {
    let mut out = vec![0; len as usize];
    native.read(addr, &mut out).ok()?;
    Some(out)
}

/// The `mov $nr, %eax` or `mov $nr, %rax` that ends at `site`, and its number. Whether these bytes
/// are an instruction of their own is decided by decoding from every start far enough before: all
/// decodings that meet the site must agree.
fn mov_before(code: &[u8], site: usize) -> Option<(Vec<u8>, u64)> {
    let mut found: Option<(usize, u64)> = None;
    let readings = readings(&code[..site], 0, (site as u64).checked_sub(1)?);
    for last in readings.filter(|last| last.next_ip() == site as u64) {
        let nr = match last.code() {
            Code::Mov_r32_imm32 if last.len() == 5 => u64::from(last.immediate32()),
            Code::Mov_rm64_imm32 if last.len() == 7 => last.immediate32to64() as u64,
            _ => return None,
        };
        if last.op0_register().full_register() != iced_x86::Register::RAX
            || last.op0_kind() != OpKind::Register
        {
            return None;
        }
        let start = last.ip() as usize;
        if found.is_some_and(|f| f.0 != start) {
            return None;
        }
        found = Some((start, nr));
    }
    found.map(|(start, nr)| (code[start..site].to_vec(), nr))
}

/// The instructions behind the `syscall` that `code` starts with, at least 3 bytes of them.
/// `addr` is the site's address.
fn displaced_behind(code: &[u8], addr: u64) -> Option<Vec<Instruction>> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let _syscall = decoder.decode();
    let mut out: Vec<Instruction> = Vec::new();
    let mut ended = false;
    while out.last().map_or(2, Instruction::next_ip) < 5 {
        let next = decoder.decode();
        if next.is_invalid() {
            return None;
        }
        if ended {
            // Behind the end of a function only padding, and nothing that looks like the start of
            // the next one.
            let padding = matches!(next.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            if !padding || (addr + next.ip()).is_multiple_of(16) {
                return None;
            }
        }
        match next.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {
                let loops = next.is_loop() || next.is_loopcc() || next.is_jcx_short();
                let relative_to_eip = next.memory_base() == iced_x86::Register::EIP;
                // What traps must be found where it was.
                let traps = matches!(
                    next.mnemonic(),
                    Mnemonic::Syscall | Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Cpuid
                );
                if loops || relative_to_eip || traps {
                    return None;
                }
            }
            FlowControl::UnconditionalBranch | FlowControl::Return => ended = true,
            FlowControl::Interrupt if ended => {}
            _ => return None,
        }
        out.push(next);
    }
    Some(out)
}

/// Every place within [`LONGEST_DISPLACED`] bytes behind a `syscall` into which some byte sequence,
/// read as a direct branch, leads. Reading every offset as an instruction finds all real branches
/// and some that are none: see [`may_branch`].
fn branches_behind_sites(code: &[u8]) -> Branches {
    let mut marks = vec![0u64; code.len().div_ceil(64) + 1];
    for site in pairs(code) {
        for at in site + 1..(site + LONGEST_DISPLACED as usize).min(code.len()) {
            marks[at / 64] |= 1 << (at % 64);
        }
    }
    let mut branches = Branches::new();
    let mut check = |source: usize, target: i64| {
        if let Ok(at) = usize::try_from(target)
            && at < code.len()
            && marks[at / 64] & (1 << (at % 64)) != 0
        {
            branches.entry(at as u64).or_default().push(source as u64);
        }
    };
    let rel32 = |at: usize| code.get(at..at + 4).map(|b| i32::from_le_bytes(b.try_into().expect("4 bytes")));
    for (at, &opcode) in code.iter().enumerate() {
        match opcode {
            0x70..=0x7f | 0xe0..=0xe3 | 0xeb => {
                if let Some(&rel) = code.get(at + 1) {
                    check(at, at as i64 + 2 + i64::from(rel as i8));
                }
            }
            0xe8 | 0xe9 => {
                if let Some(rel) = rel32(at + 1) {
                    check(at, at as i64 + 5 + i64::from(rel));
                }
            }
            0x80..=0x8f if at > 0 && code[at - 1] == 0x0f => {
                if let Some(rel) = rel32(at + 1) {
                    check(at - 1, at as i64 + 5 + i64::from(rel));
                }
            }
            _ => {}
        }
    }
    branches
}

/// True if the bytes at `source` of `code`, which starts at `begin`, may be a branch to `target`. They are none if they
/// lie in another instruction, as an operand for instance: wherever decoding of the code before them starts, after a few
/// instructions it agrees with the CPU.
fn may_branch(code: &[u8], begin: u64, source: u64, target: u64) -> bool {
    let mut others = 0;
    for instruction in readings(code, begin, source) {
        let branches = instruction.op0_kind() == OpKind::NearBranch64;
        if branches && instruction.near_branch_target() == target {
            return true;
        }
        others += 1;
    }
    others < ENOUGH_READINGS
}

/// The instructions that the byte at `at` is part of, by decoding `code`, which begins at `begin`, from each of some places before:
/// where an instruction begins cannot be told from the bytes, but most readings soon agree.
fn readings(code: &[u8], begin: u64, at: u64) -> impl Iterator<Item = Instruction> {
    let starts = at.saturating_sub(FAR_BACK)..=at.saturating_sub(NEAR_BACK);
    starts.filter(move |start| *start >= begin).filter_map(move |start| {
        let mut decoder =
            Decoder::with_ip(64, &code[(start - begin) as usize..], start, DecoderOptions::NONE);
        loop {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return None;
            }
            if instruction.next_ip() > at {
                return Some(instruction);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(code: &[u8]) -> (Vec<u8>, usize) {
        let mut out = vec![0x90; 64];
        out.extend_from_slice(code);
        let site = out.windows(2).position(|w| w == [0x0f, 0x05]).expect("a site");
        out.extend_from_slice(&[0x90; 32]);
        (out, site)
    }

    #[test]
    fn a_mov_of_either_length_is_found() {
        let (code, site) = padded(&[0xb8, 0x27, 0, 0, 0, 0x0f, 0x05]);
        assert_eq!(mov_before(&code, site), Some((vec![0xb8, 0x27, 0, 0, 0], 39)));
        let (code, site) = padded(&[0x48, 0xc7, 0xc0, 0x27, 0, 0, 0, 0x0f, 0x05]);
        assert_eq!(mov_before(&code, site), Some((vec![0x48, 0xc7, 0xc0, 0x27, 0, 0, 0], 39)));
    }

    #[test]
    fn what_only_looks_like_a_mov_is_not_taken() {
        // mov $0x27, %r8d
        let (code, site) = padded(&[0x41, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05]);
        assert_eq!(mov_before(&code, site), None);
        // movl $0x27, -0x48(%rsp)
        let (code, site) = padded(&[0xc7, 0x44, 0x24, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05]);
        assert_eq!(mov_before(&code, site), None);
        // mov %eax, %edi
        let (code, site) = padded(&[0x89, 0xc7, 0x0f, 0x05]);
        assert_eq!(mov_before(&code, site), None);
    }

    #[test]
    fn what_is_displaced_ends_with_an_instruction_and_holds_no_call() {
        // cmp $-4096, %rax
        let displaced =
            displaced_behind(&[0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x90, 0x90], 0).unwrap();
        assert_eq!((displaced.len(), displaced[0].next_ip()), (1, 8));
        // ret, then padding; or the next function at once
        let ret =
            |behind: [u8; 5], addr| displaced_behind(&[&[0x0f, 0x05, 0xc3][..], &behind].concat(), addr);
        assert_eq!(ret([0x66, 0x90, 0x90, 0x90, 0x90], 0).unwrap().last().unwrap().next_ip(), 5);
        assert!(ret([0x66, 0x90, 0x90, 0x90, 0x90], 13).is_none(), "perhaps a function's start");
        assert!(ret([0x48, 0x89, 0xc7, 0xc3, 0x90], 0).is_none());
        // call
        assert!(displaced_behind(&[0x0f, 0x05, 0xe8, 0, 0, 0, 0, 0x90], 0).is_none());
    }

    #[test]
    fn branches_into_what_is_displaced_are_found() {
        let cmp = [0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff];
        let with = |behind: &[u8]| branches_behind_sites(&[&cmp[..], behind].concat());
        assert!(with(&[0x90; 8]).is_empty());
        // jmp, jne short, jne near to the cmp
        assert_eq!(with(&[0xeb, 0xf8])[&2], [8]);
        assert_eq!(with(&[0x75, 0xf8])[&2], [8]);
        assert_eq!(with(&[0x0f, 0x85, 0xf4, 0xff, 0xff, 0xff])[&2], [8]);
        assert_eq!(with(&[0xe8, 0xf5, 0xff, 0xff, 0xff])[&2], [8]);
        // to the syscall itself: harmless
        assert!(with(&[0xeb, 0xf6]).is_empty());
    }

    #[test]
    fn what_has_not_trapped_is_certain_only_as_code_that_calls() {
        let found = |site: &[u8]| {
            let code = [&[0x90; 100][..], site, &[0x90; 100]].concat();
            certain(&code, 0x1000).into_iter().map(|site| (site.at, site.nr)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05]), [(105, 44)]);
        assert_eq!(found(&[0x48, 0xc7, 0xc0, 0x2c, 0, 0, 0, 0x0f, 0x05]), [(107, 44)]);
        // xor %eax, %eax; syscall; cmp $-4096, %rax
        assert_eq!(found(&[0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]), [(102, 0)]);
        // mov $44, %r8d; movl $44, -0x48(%rsp); a number that no call has; nothing that says what it is
        assert_eq!(found(&[0x41, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05]), []);
        assert_eq!(found(&[0xc7, 0x44, 0x24, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05]), []);
        assert_eq!(found(&[0xb8, 0x2c, 1, 2, 3, 0x0f, 0x05]), []);
        assert_eq!(found(&[0x31, 0xc0, 0x0f, 0x05, 0x48, 0x89, 0xc7]), []);
        // An operand with the same bytes: movabs $..., %rax
        assert_eq!(found(&[0x48, 0xb8, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05, 0x90]), []);
        // Where a branch leads into what would be displaced: jmp to the cmp
        let entered = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xeb, 0xf8];
        assert_eq!(found(&entered), []);
    }

    #[test]
    fn operands_that_look_like_a_branch_are_none() {
        // mov %rsi, 0x10(%rsp), whose second and third byte are a short branch of 0x24
        let store = [0x48, 0x89, 0x74, 0x24, 0x10];
        let code = |before: &[u8], at: &[u8]| [&[0x90; 60][..], before, at, &[0x90; 32]].concat();
        let (before, at) = (63, 67);
        let looks = code(&store[..3], &store[3..]);
        assert!(!may_branch(&looks, 0, before - 1, before + 1 + 0x24));
        // The same bytes as an instruction, also with the prefix `bnd`
        assert!(may_branch(&code(&[0x90; 7], &[0x74, 0x24]), 0, at, at + 2 + 0x24));
        assert!(may_branch(&code(&[&[0x90; 6][..], &[0xf2]].concat(), &[0x74, 0x24]), 0, at, at + 2 + 0x24));
        // At a mapping's start nothing is known of what comes before.
        assert!(may_branch(&looks[61..], 0, 1, 3 + 0x24));
    }
}
