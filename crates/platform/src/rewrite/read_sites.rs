//! Search for instructions that read the machine: RDRAND, RDSEED, RDPID, RDPRU, XGETBV, RDTSC, RDTSCP, and
//! `cpuid` as far as [`cpuid_sites`] does not prove it.
//!
//! No processor can make the first five trap, so they are replaced where they are certain and named where
//! they are not. Replacing bytes that are data would break a program silently, which is worse than a missed
//! instruction.
//!
//! * An instruction is *proven* under conditions like those of `cpuid_sites`: nearly all decodings that start
//!   well before it arrive at it, the code around it is ordinary, and what follows uses its result or the
//!   carry flag. The use is not required of instructions of four bytes and more. The two bytes of a `cpuid`
//!   are more frequent in tables: it also needs a constant leaf, the use of most of its results, or another
//!   proven one in its neighbourhood. Directly behind a constant leaf, the use of two results suffices.
//! * It is *suspected* if a good part of the decodings arrives at it, between instructions that occur in
//!   programs.
//! * Bytes that decodings pass as a part of another instruction are neither.
//! * XGETBV reads by ECX either the enabled registers, which the kernel fixes as long as the machine runs, or
//!   those in use, which follow from interruptions. One whose ECX is 0 is left alone, and one without a
//!   constant ECX is not suspected.

use super::LONGEST_INSTRUCTION;
use super::cpuid_sites::{self, HITS, STARTS};
use belljar_machine::HardwareRead;
use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register, RflagsBits,
};

/// Number of ordinary instructions before a proven instruction.
const BEFORE: usize = 14;
/// Number of instructions behind one in which its result is used.
const BEHIND: usize = 12;
/// Number of instructions before and behind a suspected one that must not be odd.
const AROUND: usize = 4;
/// Length of a padding instruction that no table contains by chance.
const PADDING: usize = 7;
/// Length of an instruction, with a prefix, that is rare enough in tables without the use of its result.
const RARE: usize = 4;
/// Number of results of a `cpuid` of which the use replaces a constant leaf.
const MOST_RESULTS: usize = 3;
/// Number of results of a `cpuid` directly behind the load of its leaf of which the use suffices.
const SEVERAL_RESULTS: usize = 2;
/// Number of instructions before a `cpuid` of which one sets its leaf.
const LEAF_BEFORE: usize = 10;
/// Bytes behind a candidate that are examined.
const BEHIND_BYTES: usize = (BEHIND + 1) * LONGEST_INSTRUCTION;

/// An instruction that reads the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The instruction.
    pub what: HardwareRead,
    /// Offset in the code.
    pub at: u64,
    /// Length in bytes.
    pub len: u8,
    /// Destination register of RDRAND, RDSEED and RDPID, by its number in the instruction set.
    pub register: u8,
    /// Size of the destination in bytes.
    pub size: u8,
    /// True if the instruction is proven.
    pub is_proven: bool,
}

impl Read {
    /// A proven `cpuid` at `at`.
    pub fn cpuid(at: u64) -> Read {
        Read { what: HardwareRead::Cpuid, at, len: 2, register: 0, size: 4, is_proven: true }
    }

    fn of(instruction: &Instruction) -> Option<Read> {
        let what = match instruction.mnemonic() {
            Mnemonic::Rdrand => HardwareRead::Rdrand,
            Mnemonic::Rdseed => HardwareRead::Rdseed,
            Mnemonic::Rdpid => HardwareRead::Rdpid,
            Mnemonic::Rdtsc => HardwareRead::Rdtsc,
            Mnemonic::Rdtscp => HardwareRead::Rdtscp,
            Mnemonic::Cpuid => HardwareRead::Cpuid,
            Mnemonic::Xgetbv => HardwareRead::Xgetbv,
            Mnemonic::Rdpru => HardwareRead::Rdpru,
            _ => return None,
        };
        let register = instruction.op0_register();
        let (register, size) = match register {
            Register::None => (0, 4),
            _ => (register.number() as u8, register.size() as u8),
        };
        Some(Read {
            what,
            at: instruction.ip(),
            len: instruction.len() as u8,
            register,
            size,
            is_proven: false,
        })
    }
}

/// Degree of certainty.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Suspected,
    /// A `cpuid` that is proven if there are others in its neighbourhood.
    Likely,
    Proven,
}

/// Suspected and proven instructions of these kinds in `code`, by ascending offset, without those at the
/// offsets of `known`, ascending, which are `cpuid` instructions.
pub fn find(code: &[u8], kinds: &[HardwareRead], known: &[u64]) -> Vec<Read> {
    let seconds: [(u8, &[HardwareRead]); 4] = [
        (0xc7, &[HardwareRead::Rdrand]),
        (0xa2, &[HardwareRead::Cpuid]),
        (0x31, &[HardwareRead::Rdtsc]),
        (0x01, &[HardwareRead::Rdtscp, HardwareRead::Xgetbv, HardwareRead::Rdpru]),
    ];
    let is_searched = |(_, of): &&(u8, &[HardwareRead])| of.iter().any(|kind| kinds.contains(kind));
    let seconds = seconds.iter().filter(is_searched).map(|(second, _)| second);
    let candidates = seconds.flat_map(|second| pairs(code, [0x0f, *second]));
    let mut candidates: Vec<usize> = candidates.filter(|&at| may_be(&code[at..], kinds)).collect();
    candidates.sort_unstable();
    let mut found: Vec<(Read, Looks)> =
        candidates.into_iter().filter_map(|at| read_at(code, at, kinds)).collect();
    found.retain(|(read, _)| known.binary_search(&read.at).is_err());
    let proven = |(read, looks): &(Read, Looks)| {
        (read.what == HardwareRead::Cpuid && *looks == Looks::Proven).then_some(read.at)
    };
    let cpuids: Vec<u64> = known.iter().copied().chain(found.iter().filter_map(proven)).collect();
    let has_neighbour = |at: u64| cpuids.iter().any(|cpuid| cpuid.abs_diff(at) < cpuid_sites::NEIGHBOURHOOD);
    let settled = |(read, looks): (Read, Looks)| {
        let is_proven = looks == Looks::Proven || looks == Looks::Likely && has_neighbour(read.at);
        Read { is_proven, ..read }
    };
    found.into_iter().map(settled).collect()
}

/// Bytes of code that are compared at once.
const BLOCK: usize = 64;

/// Offsets of two adjacent bytes in `code`. The comparison of whole blocks compiles to vector instructions.
pub fn pairs(code: &[u8], pair: [u8; 2]) -> impl Iterator<Item = usize> {
    let blocks = (0..code.len()).step_by(BLOCK).filter(move |&start| {
        let block = code.get(start..start + BLOCK + 1).map(<&[u8; BLOCK + 1]>::try_from);
        let Some(Ok(block)) = block else { return true };
        let hits = |at: usize| u8::from(block[at] == pair[0]) & u8::from(block[at + 1] == pair[1]);
        (0..BLOCK).fold(0, |any, at| any | hits(at)) != 0
    });
    let ends = move |start: usize| start..(start + BLOCK).min(code.len().saturating_sub(1));
    blocks.flat_map(ends).filter(move |&at| code[at..at + 2] == pair)
}

/// True if the opcode of an instruction of these kinds may begin `code`.
fn may_be(code: &[u8], kinds: &[HardwareRead]) -> bool {
    match code {
        [0x0f, 0xc7, 0xf0..=0xff, ..] => kinds
            .iter()
            .any(|k| matches!(k, HardwareRead::Rdrand | HardwareRead::Rdseed | HardwareRead::Rdpid)),
        [0x0f, 0xa2, ..] => kinds.contains(&HardwareRead::Cpuid),
        [0x0f, 0x31, ..] => kinds.contains(&HardwareRead::Rdtsc),
        [0x0f, 0x01, 0xf9, ..] => kinds.contains(&HardwareRead::Rdtscp),
        [0x0f, 0x01, 0xd0, ..] => kinds.contains(&HardwareRead::Xgetbv),
        [0x0f, 0x01, 0xfd, ..] => kinds.contains(&HardwareRead::Rdpru),
        _ => false,
    }
}

/// Decodings that pass a candidate.
struct Tally<'a> {
    code: &'a [u8],
    /// Offset of the candidate's opcode.
    at: usize,
    kinds: &'a [HardwareRead],
    /// Numbers of decodings that find an instruction of these kinds there, and that find another one.
    hits: usize,
    misses: usize,
    /// The instruction of the first hit, and the instructions before it.
    first: Option<(Read, Vec<Instruction>)>,
    /// True if all hits find the same instruction.
    agree: bool,
}

impl Tally<'_> {
    /// Decodes from each of these distances before the opcode.
    fn count(&mut self, distances: impl Iterator<Item = usize>) {
        for start in distances.filter_map(|back| self.at.checked_sub(back)) {
            let Some((before, instruction)) = reading(self.code, start, self.at) else { continue };
            match Read::of(&instruction).filter(|read| self.kinds.contains(&read.what)) {
                Some(read) => {
                    self.hits += 1;
                    let (first, _) = self.first.get_or_insert((read, before));
                    self.agree &= read == *first;
                }
                None => self.misses += 1,
            }
        }
    }
}

/// What an XGETBV reads, by ECX.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    /// ECX is 0: the registers that the kernel has enabled.
    Enabled,
    /// ECX is 1: the registers in use.
    InUse,
    Unknown,
}

/// What an XGETBV behind these instructions reads.
fn selector(before: &[Instruction]) -> Selector {
    let mut info = InstructionInfoFactory::new();
    let mut writes = |i: &&Instruction| {
        let registers = info.info(i).used_registers();
        let is_written = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
        registers.iter().any(|r| r.register().full_register() == Register::RCX && is_written(r.access()))
    };
    let Some(last) = before.iter().rev().find(|i| writes(i)) else { return Selector::Unknown };
    let is_zeroed = matches!(last.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && last.op0_register() == last.op1_register();
    let loads = |value| last.mnemonic() == Mnemonic::Mov && last.try_immediate(1).ok() == Some(value);
    match () {
        () if is_zeroed || loads(0) => Selector::Enabled,
        () if loads(1) => Selector::InUse,
        () => Selector::Unknown,
    }
}

/// The instruction whose opcode begins at `at`, proven or suspected.
fn read_at(code: &[u8], at: usize, kinds: &[HardwareRead]) -> Option<(Read, Looks)> {
    let mut tally = Tally { code, at, kinds, hits: 0, misses: 0, first: None, agree: true };
    tally.count(STARTS.rev());
    let is_far = tally.hits + tally.misses >= HITS;
    if !is_far {
        // The start of the code, or data that no decoding passes: shorter decodings give a suspicion. The
        // instruction itself, with its prefixes, may be the first one.
        tally.count((0..*STARTS.start()).rev());
    }
    let Tally { hits, misses, first, agree, .. } = tally;
    let (read, before) = first?;
    let behind = behind(code, (read.at + u64::from(read.len)) as usize);
    let last = |count: usize| &before[before.len().saturating_sub(count)..];
    if hits * 5 < (hits + misses) * 2 || last(AROUND).iter().any(is_odd) || !can_follow(&behind) {
        return None;
    }
    let selector = match read.what {
        HardwareRead::Xgetbv => selector(last(LEAF_BEFORE)),
        _ => Selector::Unknown,
    };
    if selector == Selector::Enabled {
        return None;
    }
    let is_cpuid = read.what == HardwareRead::Cpuid;
    let is_among_ordinary = before.len() >= BEFORE && last(BEFORE).iter().all(is_ordinary)
        || is_cpuid && follows_padding(&before);
    let (used, has_carry) = uses(&read, &behind);
    let has_leaf = is_cpuid && last(LEAF_BEFORE).iter().any(cpuid_sites::sets_leaf);
    let is_certain = is_far
        && agree
        && hits >= HITS
        && misses * 10 <= hits
        && is_among_ordinary
        && (used > 0 || has_carry || has_leaf || usize::from(read.len) >= RARE);
    // Data may precede a function, so that no decoding from far before arrives.
    let has_leaf_at_once = is_cpuid && before.last().is_some_and(cpuid_sites::sets_leaf);
    let is_certain = is_certain || agree && has_leaf_at_once && used >= SEVERAL_RESULTS;
    if !is_certain && read.what == HardwareRead::Xgetbv && selector == Selector::Unknown {
        return None;
    }
    let looks = match is_certain {
        false => Looks::Suspected,
        true if !is_cpuid || has_leaf || used >= MOST_RESULTS => Looks::Proven,
        true => Looks::Likely,
    };
    Some((read, looks))
}

/// The instructions from `start` up to the one that contains the byte at `at`, which is returned apart;
/// `None` if one is invalid.
fn reading(code: &[u8], start: usize, at: usize) -> Option<(Vec<Instruction>, Instruction)> {
    let end = (at + LONGEST_INSTRUCTION).min(code.len());
    let mut decoder = Decoder::with_ip(64, &code[start..end], start as u64, DecoderOptions::NONE);
    let mut before = Vec::new();
    loop {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        if instruction.next_ip() > at as u64 {
            return Some((before, instruction));
        }
        before.push(instruction);
    }
}

/// The instructions at `start`, up to the first one that is invalid.
fn behind(code: &[u8], start: usize) -> Vec<Instruction> {
    let bytes = &code[start.min(code.len())..(start + BEHIND_BYTES).min(code.len())];
    let decoder = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE);
    decoder.into_iter().take(BEHIND).take_while(|instruction| !instruction.is_invalid()).collect()
}

/// True if the next instructions, up to one that leaves them, occur in code.
fn can_follow(behind: &[Instruction]) -> bool {
    let leaves =
        |i: &Instruction| !matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
    let run = behind.iter().position(leaves).map_or(AROUND, |at| at + 1).min(AROUND);
    behind.len() >= run && !behind[..run].iter().any(is_odd)
}

/// True if the last padding of several bytes is followed by ordinary instructions alone.
fn follows_padding(before: &[Instruction]) -> bool {
    let is_padding = |i: &Instruction| i.mnemonic() == Mnemonic::Nop && i.len() >= PADDING;
    let last = before.iter().rposition(is_padding);
    last.is_some_and(|at| before[at..].iter().all(is_ordinary))
}

/// Number of registers with results of a read that ordinary instructions behind it use before they are
/// overwritten, and true if one uses the carry flag.
fn uses(read: &Read, behind: &[Instruction]) -> (usize, bool) {
    let is_random = matches!(read.what, HardwareRead::Rdrand | HardwareRead::Rdseed);
    let mut results = match read.what {
        HardwareRead::Rdtsc | HardwareRead::Rdtscp | HardwareRead::Xgetbv | HardwareRead::Rdpru => {
            vec![Register::RAX, Register::RDX]
        }
        HardwareRead::Cpuid => vec![Register::RAX, Register::RBX, Register::RCX, Register::RDX],
        _ => vec![Register::RAX + u32::from(read.register)],
    };
    let (mut used, mut carry) = (Vec::new(), is_random);
    let mut info = InstructionInfoFactory::new();
    for instruction in behind {
        match instruction.flow_control() {
            FlowControl::Return if results.contains(&Register::RAX) => {
                used.push(Register::RAX);
                break;
            }
            FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::Call => {}
            _ => break,
        }
        if !is_ordinary(instruction) {
            break;
        }
        if carry && instruction.rflags_read() & RflagsBits::CF != 0 {
            return (used.len(), true);
        }
        let mut lost = Vec::new();
        for access in info.info(instruction).used_registers() {
            let register = access.register().full_register();
            if !results.contains(&register) {
                continue;
            }
            match access.access() {
                OpAccess::Write => lost.push(register),
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                    used.push(register);
                }
                _ => {}
            }
        }
        results.retain(|register| !lost.contains(register));
        carry &= instruction.rflags_modified() & RflagsBits::CF == 0;
    }
    used.sort_unstable();
    used.dedup();
    (used.len(), false)
}

/// True for `rep stos` and `rep movs`, which compilers emit.
fn fills_or_copies(instruction: &Instruction) -> bool {
    let repeats = instruction.has_rep_prefix();
    repeats
        && matches!(
            instruction.mnemonic(),
            Mnemonic::Stosb
                | Mnemonic::Stosd
                | Mnemonic::Stosq
                | Mnemonic::Movsb
                | Mnemonic::Movsd
                | Mnemonic::Movsq
        )
}

/// True if the instruction occurs in compiled code, or between functions.
fn is_ordinary(instruction: &Instruction) -> bool {
    const FEATURES: [CpuidFeature; 34] = [
        CpuidFeature::INTEL8086,
        CpuidFeature::INTEL186,
        CpuidFeature::INTEL386,
        CpuidFeature::INTEL486,
        CpuidFeature::X64,
        CpuidFeature::CMOV,
        CpuidFeature::CPUID,
        CpuidFeature::TSC,
        CpuidFeature::RDTSCP,
        CpuidFeature::RDPID,
        CpuidFeature::RDPRU,
        CpuidFeature::RDRAND,
        CpuidFeature::RDSEED,
        CpuidFeature::MULTIBYTENOP,
        CpuidFeature::PAUSE,
        CpuidFeature::PREFETCHW,
        CpuidFeature::CET_IBT,
        CpuidFeature::CLFSH,
        CpuidFeature::SSE,
        CpuidFeature::SSE2,
        CpuidFeature::SSE3,
        CpuidFeature::SSSE3,
        CpuidFeature::SSE4_1,
        CpuidFeature::SSE4_2,
        CpuidFeature::AVX,
        CpuidFeature::AVX2,
        CpuidFeature::BMI1,
        CpuidFeature::BMI2,
        CpuidFeature::ADX,
        CpuidFeature::LZCNT,
        CpuidFeature::POPCNT,
        CpuidFeature::MOVBE,
        CpuidFeature::SYSCALL,
        CpuidFeature::XSAVE,
    ];
    !is_odd(instruction) && instruction.cpuid_features().iter().all(|feature| FEATURES.contains(feature))
}

/// True if the instruction hardly occurs in programs, although they could execute some of these.
fn is_odd(instruction: &Instruction) -> bool {
    // Padding has prefixes that other instructions lack.
    if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2) {
        return false;
    }
    cpuid_sites::is_rare(instruction)
        || instruction.is_string_instruction() && !fills_or_copies(instruction)
        || instruction.has_lock_prefix() && instruction.memory_base() == Register::None
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Cld
                | Mnemonic::Cli
                | Mnemonic::Sti
                | Mnemonic::Int
                | Mnemonic::Int1
                | Mnemonic::Iretd
                | Mnemonic::Iretq
        )
}

#[cfg(test)]
#[path = "read_sites_tests.rs"]
mod tests;
