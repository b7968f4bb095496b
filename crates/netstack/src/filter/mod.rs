//! Socket filters: classic BPF programs (`SO_ATTACH_FILTER`), validated and executed as in Linux
//! (`net/core/filter.c`).
//!
//! A program is run on one packet and returns the number of bytes to deliver; 0 drops the packet.

mod run;
#[cfg(test)]
mod tests;

use belljar_linux_abi::Errno;

/// `BPF_MAXINSNS`.
pub const MAX_INSTRUCTIONS: usize = 4_096;
/// `BPF_MEMWORDS`: number of words of scratch memory.
pub const MEMORY_WORDS: usize = 16;

/// Instruction classes: the low three bits of a code.
pub(crate) mod class {
    pub const LD: u16 = 0;
    pub const LDX: u16 = 1;
    pub const ST: u16 = 2;
    pub const STX: u16 = 3;
    pub const ALU: u16 = 4;
    pub const JMP: u16 = 5;
    pub const RET: u16 = 6;
    pub const MISC: u16 = 7;
}
/// Sizes of loads.
pub(crate) mod size {
    pub const W: u16 = 0x00;
    pub const H: u16 = 0x08;
    pub const B: u16 = 0x10;
}
/// Modes of loads.
pub(crate) mod mode {
    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const IND: u16 = 0x40;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    pub const MSH: u16 = 0xa0;
}
/// ALU operations on the accumulator.
pub(crate) mod alu {
    pub const ADD: u16 = 0x00;
    pub const SUB: u16 = 0x10;
    pub const MUL: u16 = 0x20;
    pub const DIV: u16 = 0x30;
    pub const OR: u16 = 0x40;
    pub const AND: u16 = 0x50;
    pub const LSH: u16 = 0x60;
    pub const RSH: u16 = 0x70;
    pub const NEG: u16 = 0x80;
    pub const MOD: u16 = 0x90;
    pub const XOR: u16 = 0xa0;
}
/// Jump conditions.
pub(crate) mod jump {
    pub const JA: u16 = 0x00;
    pub const JEQ: u16 = 0x10;
    pub const JGT: u16 = 0x20;
    pub const JGE: u16 = 0x30;
    pub const JSET: u16 = 0x40;
}
/// `BPF_X`: the operand is X instead of K.
pub const SOURCE_X: u16 = 0x08;
/// `BPF_RET | BPF_A`.
pub const RET_A: u16 = class::RET | 0x10;
/// `BPF_MISC | BPF_TAX`.
pub const TAX: u16 = class::MISC;
/// `BPF_MISC | BPF_TXA`.
pub const TXA: u16 = class::MISC | 0x80;

/// One instruction, `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Number of instructions to skip if the condition is true.
    pub jt: u8,
    /// Number of instructions to skip if the condition is false.
    pub jf: u8,
    /// The operand K.
    pub k: u32,
}

impl Instruction {
    /// Length of a `struct sock_filter` in bytes.
    pub const LEN: usize = 8;

    /// Decodes the eight bytes of a `struct sock_filter`.
    pub fn from_bytes(bytes: &[u8]) -> Instruction {
        Instruction {
            code: u16::from_ne_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }
    fn class(self) -> u16 {
        self.code & 7
    }
}

/// Metadata that a filter can load in addition to the packet's bytes: `SKF_AD_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metadata {
    /// The ethertype.
    pub protocol: u16,
    /// `PACKET_*`: type of the packet.
    pub packet_type: u8,
    /// The interface's index.
    pub interface: u32,
    /// `ARPHRD_*` of the interface.
    pub hardware_type: u16,
    /// Offset of the network header from the first byte of the packet as passed to the filter.
    pub network_offset: usize,
    /// A random number for `SKF_AD_RANDOM`.
    pub random: u32,
}

/// A validated program: it ends with a `ret` and reads no memory that it has not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFilter {
    program: Vec<Instruction>,
    /// True if the program loads random numbers.
    pub(crate) is_random: bool,
}

impl SocketFilter {
    /// Validates a program as `bpf_check_classic` of Linux does. Fails with `EINVAL` for a program that Linux
    /// rejects.
    pub fn new(program: Vec<Instruction>) -> Result<SocketFilter, Errno> {
        if program.is_empty() || program.len() > MAX_INSTRUCTIONS {
            return Err(Errno::EINVAL);
        }
        for (at, instruction) in program.iter().enumerate() {
            check(instruction, program.len() - at - 1)?;
        }
        if program.last().map(|last| last.class()) != Some(class::RET) {
            return Err(Errno::EINVAL);
        }
        check_memory(&program)?;
        let random = Instruction { code: mode::ABS, jt: 0, jf: 0, k: run::RANDOM };
        let is_random = program.iter().any(|i| (i.code & 0xe7, i.k) == (random.code, random.k));
        Ok(SocketFilter { program, is_random })
    }

    /// Number of instructions.
    pub fn instructions(&self) -> usize {
        self.program.len()
    }

    /// Runs the filter on a packet. Returns the number of bytes to deliver; 0 drops the packet.
    pub fn run(&self, packet: &[u8], metadata: &Metadata) -> usize {
        run::run(&self.program, packet, metadata) as usize
    }
}

/// Validates an instruction that is followed by `left` others.
fn check(instruction: &Instruction, left: usize) -> Result<(), Errno> {
    let Instruction { code, jt, jf, k } = *instruction;
    let refuse = |bad: bool| if bad { Err(Errno::EINVAL) } else { Ok(()) };
    match code & 7 {
        class::LD => match (code & 0xe0, code & 0x18) {
            (mode::IMM, size::W) | (mode::LEN, size::W) => Ok(()),
            (mode::MEM, size::W) => refuse(k as usize >= MEMORY_WORDS),
            (mode::ABS, width) => refuse(width == 0x18 || run::is_unknown_ancillary(k)),
            (mode::IND, width) => refuse(width == 0x18),
            _ => Err(Errno::EINVAL),
        },
        class::LDX => match (code & 0xe0, code & 0x18) {
            (mode::IMM, size::W) | (mode::LEN, size::W) | (mode::MSH, size::B) => Ok(()),
            (mode::MEM, size::W) => refuse(k as usize >= MEMORY_WORDS),
            _ => Err(Errno::EINVAL),
        },
        class::ST | class::STX => refuse(code & !7 != 0 || k as usize >= MEMORY_WORDS),
        class::ALU => {
            let by_constant = code & SOURCE_X == 0;
            match code & 0xf0 {
                alu::DIV | alu::MOD => refuse(by_constant && k == 0),
                alu::LSH | alu::RSH => refuse(by_constant && k >= 32),
                alu::NEG => refuse(!by_constant),
                operation => refuse(operation > alu::XOR),
            }?;
            refuse(code > 0xff)
        }
        class::JMP => match code & 0xf0 {
            jump::JA => refuse(code & SOURCE_X != 0 || code > 0xff || k as usize >= left),
            jump::JEQ | jump::JGT | jump::JGE | jump::JSET => {
                refuse(code > 0xff || usize::from(jt) >= left || usize::from(jf) >= left)
            }
            _ => Err(Errno::EINVAL),
        },
        class::RET => refuse(code != class::RET && code != RET_A),
        _ => refuse(code != TAX && code != TXA),
    }
}

/// Validates that no path reads a word of the scratch memory before writing it: `check_load_and_stores`.
fn check_memory(program: &[Instruction]) -> Result<(), Errno> {
    // The words that are certainly written when a jump reaches an instruction.
    let mut reached = vec![u16::MAX; program.len()];
    let mut valid: u16 = 0;
    for (at, instruction) in program.iter().enumerate() {
        valid &= reached[at];
        let word = 1u16.checked_shl(instruction.k).unwrap_or(0);
        match (instruction.class(), instruction.code & 0xe0) {
            (class::ST | class::STX, _) => valid |= word,
            (class::LD | class::LDX, mode::MEM) if valid & word == 0 => return Err(Errno::EINVAL),
            (class::JMP, _) if instruction.code & 0xf0 == jump::JA => {
                reached[at + 1 + instruction.k as usize] &= valid;
                valid = u16::MAX;
            }
            (class::JMP, _) => {
                reached[at + 1 + usize::from(instruction.jt)] &= valid;
                reached[at + 1 + usize::from(instruction.jf)] &= valid;
                valid = u16::MAX;
            }
            _ => {}
        }
    }
    Ok(())
}
