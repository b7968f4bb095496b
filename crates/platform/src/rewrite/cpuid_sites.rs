//! Search for `cpuid` instructions in an image's text, for machines on which replacing them is better than
//! trapping.
//!
//! Text may contain tables, and two bytes of a table may look like the instruction. A candidate therefore
//! counts only if nearly all decodings that start well before it arrive at it, and if the surrounding
//! instructions are plain integer code that sets EAX before and uses a result after. If EAX is not set to a
//! constant leaf nearby, other candidates in the neighbourhood must have constant leaves. A missed
//! instruction returns native values; a false positive would break a program.

use super::read_sites;
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register,
};

/// Distances before a candidate at which decodings start: by then most have found the boundaries of
/// instructions.
pub const STARTS: std::ops::RangeInclusive<usize> = 40..=96;
/// Number of instructions before a candidate that are examined; one of them must set EAX.
const BEFORE: usize = 10;
const BEHIND: usize = 6;
/// Number of decodings that must arrive at a proven instruction.
pub const HITS: usize = 20;
/// Distance within which other proven candidates must lie.
pub const NEIGHBOURHOOD: u64 = 4096;
const NEIGHBOURS: usize = 2;

/// Classification of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Not a `cpuid` instruction.
    Wrong,
    /// `cpuid` of a leaf that is not a constant.
    Computed,
    /// `cpuid` of a constant leaf.
    Constant,
}

/// Offsets of all proven `cpuid` instructions in `code`.
pub fn find(code: &[u8]) -> Vec<u64> {
    let pairs = read_sites::pairs(code, [0x0f, 0xa2]);
    let places: Vec<(u64, Looks)> = pairs.map(|at| (at as u64, looks(code, at))).collect();
    let constant = |at: u64| {
        places.iter().filter(|p| p.1 == Looks::Constant && p.0.abs_diff(at) < NEIGHBOURHOOD).count()
    };
    let certain = |place: &&(u64, Looks)| match place.1 {
        Looks::Wrong => false,
        Looks::Computed => constant(place.0) >= NEIGHBOURS,
        Looks::Constant => true,
    };
    places.iter().filter(certain).map(|p| p.0).collect()
}

fn looks(code: &[u8], at: usize) -> Looks {
    if at < *STARTS.end() {
        return Looks::Wrong;
    }
    let mut met: Vec<Instruction> = Vec::new();
    let (mut hits, mut misses) = (0, 0);
    for back in STARTS.rev() {
        let (instructions, end) = decode(code, at - back, at);
        if end == Some(at) {
            hits += 1;
            if met.is_empty() {
                met = instructions;
            }
        } else if end.is_some() {
            misses += 1;
        }
    }
    if hits < HITS || misses * 10 > hits {
        return Looks::Wrong;
    }
    let before = &met[met.len().saturating_sub(BEFORE)..];
    // A leaf number loaded immediately before is sufficient evidence: seven bytes in all.
    let on_the_spot = met.last().is_some_and(|last| last.code() == Code::Mov_r32_imm32 && sets_leaf(last));
    if !on_the_spot && (before.len() < BEFORE || !before.iter().all(is_plain)) {
        return Looks::Wrong;
    }
    let mut info = InstructionInfoFactory::new();
    let mut touches = |instruction: &Instruction, registers: &[Register], accesses: &[OpAccess]| {
        let used = info.info(instruction).used_registers();
        used.iter()
            .any(|u| registers.contains(&u.register().full_register()) && accesses.contains(&u.access()))
    };
    let writes = [OpAccess::Write, OpAccess::CondWrite, OpAccess::ReadWrite];
    if !before.iter().any(|i| touches(i, &[Register::RAX], &writes)) {
        return Looks::Wrong;
    }
    let (behind, _) = decode(code, at + 2, (at + 2 + BEHIND * 15).min(code.len()));
    let behind = &behind[..behind.len().min(BEHIND)];
    let results = [Register::RAX, Register::RBX, Register::RCX, Register::RDX];
    let reads = [OpAccess::Read, OpAccess::CondRead, OpAccess::ReadWrite];
    let used = behind.len() == BEHIND
        && behind.iter().all(is_plain)
        && behind.iter().any(|i| i.mnemonic() != Mnemonic::Cpuid && touches(i, &results, &reads));
    match used {
        false => Looks::Wrong,
        true if before.iter().any(sets_leaf) => Looks::Constant,
        true => Looks::Computed,
    }
}

/// True if the instruction sets EAX to a valid leaf number.
pub fn sets_leaf(instruction: &Instruction) -> bool {
    match instruction.code() {
        Code::Mov_r32_imm32 if instruction.op0_register() == Register::EAX => {
            matches!(instruction.immediate32(), 0..=0x24 | 0x4000_0000..=0x4000_0010 | 0x8000_0000..=0x8000_0026)
        }
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32 | Code::Sub_r32_rm32 | Code::Sub_rm32_r32 => {
            instruction.op0_register() == Register::EAX && instruction.op1_register() == Register::EAX
        }
        _ => false,
    }
}

/// The instructions from `from` to `to`, and the end of the last one; `None` if one is invalid.
fn decode(code: &[u8], from: usize, to: usize) -> (Vec<Instruction>, Option<usize>) {
    let end = (to + 15).min(code.len());
    let mut decoder = Decoder::with_ip(64, &code[from..end], from as u64, DecoderOptions::NONE);
    let mut out = Vec::new();
    while (decoder.ip() as usize) < to {
        let next = decoder.decode();
        if next.is_invalid() {
            return (out, None);
        }
        out.push(next);
    }
    let end = decoder.ip() as usize;
    (out, Some(end))
}

/// True if the instruction occurs in ordinary integer code, compiled or written by hand.
fn is_plain(instruction: &Instruction) -> bool {
    const FEATURES: [CpuidFeature; 9] = [
        CpuidFeature::INTEL8086,
        CpuidFeature::INTEL186,
        CpuidFeature::INTEL386,
        CpuidFeature::INTEL486,
        CpuidFeature::X64,
        CpuidFeature::CMOV,
        CpuidFeature::CPUID,
        CpuidFeature::MULTIBYTENOP,
        CpuidFeature::CET_IBT,
    ];
    // Padding has prefixes that other instructions lack.
    if instruction.mnemonic() == Mnemonic::Nop {
        return true;
    }
    let control = matches!(
        instruction.flow_control(),
        FlowControl::Next
            | FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Call
            | FlowControl::Return
    );
    let odd = is_rare(instruction)
        || instruction.is_string_instruction()
        || instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Leave;
    control && !odd && instruction.cpuid_features().iter().all(|f| FEATURES.contains(f))
}

/// True if neither compilers nor programmers use the instruction in programs.
pub fn is_rare(instruction: &Instruction) -> bool {
    instruction.is_privileged()
        || instruction.has_segment_prefix() && instruction.segment_prefix() != Register::FS
        || instruction.is_loop()
        || instruction.is_loopcc()
        || instruction.is_jcx_short()
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Xlatb
                | Mnemonic::Enter
                | Mnemonic::Cmc
                | Mnemonic::Stc
                | Mnemonic::Clc
                | Mnemonic::Std
                | Mnemonic::Lahf
                | Mnemonic::Sahf
                | Mnemonic::Rcl
                | Mnemonic::Rcr
                | Mnemonic::Wait
                | Mnemonic::Retf
                | Mnemonic::In
                | Mnemonic::Out
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code like that of glibc's loader, with padding around it.
    fn function() -> Vec<u8> {
        let one: [&[u8]; 6] = [
            &[0x31, 0xc9],                   // xor %ecx, %ecx
            &[0xb8, 7, 0, 0, 0],             // mov $7, %eax
            &[0x0f, 0xa2],                   // cpuid
            &[0x89, 0x5c, 0x24, 0x08],       // mov %ebx, 8(%rsp)
            &[0x48, 0x8b, 0x7c, 0x24, 0x10], // mov 16(%rsp), %rdi
            &[0x83, 0xc0, 0x01],             // add $1, %eax
        ];
        one.concat().repeat(16)
    }

    #[test]
    fn instructions_among_ordinary_code_are_found() {
        let code = function();
        let all: Vec<u64> = code
            .windows(2)
            .enumerate()
            .filter(|(_, w)| *w == [0x0f, 0xa2])
            .map(|(at, _)| at as u64)
            .collect();
        let found = find(&code);
        let inner: Vec<u64> =
            all.iter().copied().filter(|&at| at >= 96 && at + 60 < code.len() as u64).collect();
        assert!(inner.len() > 5);
        assert!(inner.iter().all(|at| found.contains(at)), "{found:?} of {all:?}");
        assert!(found.iter().all(|at| all.contains(at)));
    }

    #[test]
    fn the_number_of_a_leaf_just_before_says_enough() {
        // lock decl (%rdx); jmp *%rax; mov $0x80000000, %eax; cpuid; cmp $0x80000000, %eax
        let odd = [0xf0, 0xff, 0x0a, 0xff, 0xe0];
        let leaf = [0xb8, 0, 0, 0, 0x80, 0x0f, 0xa2, 0x3d, 0, 0, 0, 0x80];
        let mut code = function();
        code.splice(138..138, [&odd[..], &leaf].concat());
        assert!(find(&code).contains(&148), "{:?}", find(&code));
        // A number that is not a leaf
        code[144..148].copy_from_slice(&[1, 2, 3, 4]);
        assert!(!find(&code).contains(&148));
    }

    #[test]
    fn tables_and_immediates_are_not_taken() {
        // mov $0xa20f, %eax
        let mut code = function();
        code.splice(140..142, [0xb8, 0x0f, 0xa2, 0, 0, 0x89, 0xc3]);
        assert!(!find(&code).contains(&141));
        // Pseudo-random bytes with the pair sown in: no table passes for code.
        let mut state = 1u64;
        let mut table: Vec<u8> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for at in (200..table.len() - 2).step_by(20) {
            table[at..at + 2].copy_from_slice(&[0x0f, 0xa2]);
        }
        assert_eq!(find(&table), []);
    }
}
