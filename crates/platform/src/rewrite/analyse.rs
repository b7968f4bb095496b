//! Analysis of call sites: the form in which each can be rewritten. The result depends on the file's content
//! alone and is cached for all guests of the process.

use super::LONGEST_INSTRUCTION;
use super::reads::HardwareReads;
use crate::native::Native;
use belljar_base::Map;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Identity and version of a file.
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
        // SAFETY: `ManuallyDrop` leaves the descriptor open; only its metadata is read.
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

/// Form in which a site is rewritten.
#[derive(Clone, Debug)]
pub enum Form {
    /// The `mov $nr` before the `syscall` is replaced by the jump.
    A {
        /// Encoding of the `mov`: 5 bytes, or 7 with a 64-bit destination.
        mov: Vec<u8>,
    },
    /// The `syscall` and the instructions behind it are replaced by the jump.
    B {
        /// The displaced instructions behind the `syscall`, with addresses relative to it: the first one's IP
        /// is 2.
        displaced: Vec<Instruction>,
    },
}

#[derive(Default)]
struct Analysis {
    /// `None` until needed.
    branches: Option<Branches>,
    /// Instructions that read the machine. `None` until needed.
    reads: Option<Arc<HardwareReads>>,
    forms: Map<u64, Option<(Form, Option<u64>)>>,
}

/// Potential direct branches into the bytes behind `syscall` instructions: sources by target, as offsets into
/// the mapping.
type Branches = Map<u64, Vec<u64>>;

/// Analyses by file, and by the mapping's offset and length in it.
static ANALYSES: Mutex<Map<(FileKey, u64, u64), Analysis>> = Mutex::new(Map::new());

/// Length of the longest mapping for which form B is considered.
const LONGEST_TEXT: u64 = 128 << 20;
/// Upper bound on the bytes that form B displaces: 4 bytes and an instruction.
const LONGEST_DISPLACED: u64 = 4 + LONGEST_INSTRUCTION as u64;
/// Largest distance before a site at which decoding starts, to find the instruction before the site.
const FAR_BACK: u64 = 64;
const NEAR_BACK: u64 = 20;
/// Number of decodings that must agree that a candidate is not a branch.
const ENOUGH_READINGS: usize = 8;

/// Instructions that read the machine in a mapping of `len` bytes of the file open as `fd`, from `offset`.
pub fn hardware_reads(file: &FileKey, fd: i32, offset: u64, len: u64) -> Arc<HardwareReads> {
    let mut analyses = ANALYSES.lock().unwrap_or_else(PoisonError::into_inner);
    let analysis = analyses.entry((*file, offset, len)).or_default();
    let find = || HardwareReads::of_file(fd, offset, len).unwrap_or_default();
    analysis.reads.get_or_insert_with(|| Arc::new(find())).clone()
}

/// Form for the `syscall` at `site` in a guest's mapping `range`, which maps `file` from `offset`; `None` if
/// the site cannot be rewritten. `nr` is the value of RAX at the trap: form A must load the same.
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
        // The `mov` loads another number: control reached the `syscall` by a jump.
        (_, Some(_)) => None,
        (form, None) => Some(form),
    }
}

impl Analysis {
    /// The form of the site at offset `at`, and the number that form A loads.
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

/// True if a branch may lead to an offset in `places`; `None` if the code is unreadable. `code` reads a part
/// of the mapping.
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

/// A call site proven without a trap.
#[derive(Debug)]
pub struct ProvenSite {
    /// Offset of the `syscall` in the code.
    pub at: u64,
    /// Form in which the site is rewritten.
    pub form: Form,
    /// The number that form A loads.
    pub nr: u64,
}

/// Proven call sites in `code`, a whole mapping at an address congruent to `addr`. A site is proven if the
/// preceding instruction loads the call's number or the following one compares the result with the error
/// range, and if nearly all decodings of the preceding code arrive there.
pub fn certain(code: &[u8], addr: u64) -> Vec<ProvenSite> {
    let mut branches = None;
    pairs(code)
        .filter(|&at| at >= FAR_BACK as usize)
        .filter_map(|at| certain_at(code, at, addr, &mut branches))
        .collect()
}

/// Offsets of the two bytes of a `syscall`, instructions or not.
pub fn pairs(code: &[u8]) -> impl Iterator<Item = usize> {
    code.windows(2).enumerate().filter(|(_, pair)| *pair == [0x0f, 0x05]).map(|(at, _)| at)
}

/// Upper bound on system-call numbers.
const HIGHEST_NR: u32 = 1023;
/// Number of decodings that must arrive at a site.
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

/// True if nearly all decodings of the preceding code yield an instruction at `start..end`.
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

/// The `mov $nr, %eax` or `mov $nr, %rax` that ends at `site`, and its number. Decoding starts at every
/// offset some distance before the site: all decodings that arrive at the site must agree on this
/// instruction.
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

/// The instructions behind the `syscall` at the start of `code`, at least 3 bytes of them; `None` if they
/// cannot be displaced. `addr` is the site's address.
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
            // Behind the end of a function, only padding may be displaced, and nothing at an address where
            // the next function may start.
            let padding = matches!(next.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            if !padding || (addr + next.ip()).is_multiple_of(16) {
                return None;
            }
        }
        match next.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {
                let loops = next.is_loop() || next.is_loopcc() || next.is_jcx_short();
                let relative_to_eip = next.memory_base() == iced_x86::Register::EIP;
                // Trapping instructions must keep their address.
                let traps = matches!(
                    next.mnemonic(),
                    Mnemonic::Syscall
                        | Mnemonic::Rdtsc
                        | Mnemonic::Rdtscp
                        | Mnemonic::Cpuid
                        | Mnemonic::Rdrand
                        | Mnemonic::Rdseed
                        | Mnemonic::Rdpid
                        | Mnemonic::Hlt
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

/// All offsets within [`LONGEST_DISPLACED`] bytes behind a `syscall` that are the target of some byte
/// sequence read as a direct branch. Reading every offset as an instruction finds all real branches and some
/// false ones: see [`may_branch`].
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

/// True if the bytes at `source` may be a branch to `target`. `code` starts at offset `begin`. The bytes are
/// not a branch if they lie inside another instruction, for instance in its operand: a decoding of the
/// preceding code synchronises with the CPU's after a few instructions, wherever it starts.
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

/// The instructions that contain the byte at `at`, one for each of several starts of decoding before it in
/// `code`, which begins at offset `begin`. The bytes do not show the boundaries of instructions, but most
/// decodings soon agree.
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
        // mov $44, %r8d; movl $44, -0x48(%rsp); a number above the limit; neither a load nor a comparison
        assert_eq!(found(&[0x41, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05]), []);
        assert_eq!(found(&[0xc7, 0x44, 0x24, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05]), []);
        assert_eq!(found(&[0xb8, 0x2c, 1, 2, 3, 0x0f, 0x05]), []);
        assert_eq!(found(&[0x31, 0xc0, 0x0f, 0x05, 0x48, 0x89, 0xc7]), []);
        // An operand with the same bytes: movabs $..., %rax
        assert_eq!(found(&[0x48, 0xb8, 0xb8, 0x2c, 0, 0, 0, 0x0f, 0x05, 0x90]), []);
        // A branch into the instructions to be displaced: jmp to the cmp
        let entered = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xeb, 0xf8];
        assert_eq!(found(&entered), []);
    }

    #[test]
    fn operands_that_look_like_a_branch_are_none() {
        // mov %rsi, 0x10(%rsp), whose second and third byte read as a short branch of 0x24
        let store = [0x48, 0x89, 0x74, 0x24, 0x10];
        let code = |before: &[u8], at: &[u8]| [&[0x90; 60][..], before, at, &[0x90; 32]].concat();
        let (before, at) = (63, 67);
        let looks = code(&store[..3], &store[3..]);
        assert!(!may_branch(&looks, 0, before - 1, before + 1 + 0x24));
        // The same bytes as an instruction, also with the prefix `bnd`
        assert!(may_branch(&code(&[0x90; 7], &[0x74, 0x24]), 0, at, at + 2 + 0x24));
        assert!(may_branch(&code(&[&[0x90; 6][..], &[0xf2]].concat(), &[0x74, 0x24]), 0, at, at + 2 + 0x24));
        // At the start of a mapping there is no preceding code to decode.
        assert!(may_branch(&looks[61..], 0, 1, 3 + 0x24));
    }
}
