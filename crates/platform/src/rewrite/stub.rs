//! Machine code of stubs.
//!
//! Form A is `mov $nr, %eax; lea behind, %rcx; lea behind, %r11; jmp *%gs:0`, form B `lea behind, %rcx; lea
//! rest, %r11; jmp *%gs:0; rest: displaced instructions; jmp back`. RCX and R11 are free because the
//! `syscall` instruction destroys them.

use super::analyse::Form;
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock};
use std::ops::Range;

/// Upper bound on the length of a stub.
pub const LONGEST: u64 = 160;
const JMP_GS_0: [u8; 8] = [0x65, 0xff, 0x24, 0x25, 0, 0, 0, 0];
pub const LEA_RCX: [u8; 3] = [0x48, 0x8d, 0x0d];
const LEA_R11: [u8; 3] = [0x4c, 0x8d, 0x1d];

/// A stub and the site from which it is reached.
pub struct Stub {
    pub code: Vec<u8>,
    /// Address of the first byte to be rewritten.
    pub site: u64,
    /// Least number of rewritten bytes.
    pub patched: u64,
    /// See `Patch::places`.
    pub places: Vec<(u64, u64)>,
    /// See `Patch::displaced`.
    pub displaced: Range<u64>,
}

impl Stub {
    /// New content of the site for this form: a jump to the stub at `at`.
    pub fn jump_to(&self, at: u64, form: &Form) -> Option<Vec<u8>> {
        let mut code = jump(self.site, at)?.to_vec();
        match form {
            Form::A { mov } => code.extend_from_slice(&mov[5..]),
            // Remainders of displaced instructions must not execute.
            Form::B { .. } => code.resize(self.patched.max(5) as usize, 0xcc),
        }
        Some(code)
    }
}

/// `jmp rel32` from `from` to `to`.
pub fn jump(from: u64, to: u64) -> Option<[u8; 5]> {
    let rel = distance(from + 5, to)?.to_le_bytes();
    Some([0xe9, rel[0], rel[1], rel[2], rel[3]])
}

fn distance(from: u64, to: u64) -> Option<i32> {
    i32::try_from(to.wrapping_sub(from) as i64).ok()
}

/// Appends `lea to(%rip), register`.
pub fn lea(code: &mut Vec<u8>, at: u64, opcode: [u8; 3], to: u64) -> Option<()> {
    let rel = distance(at + code.len() as u64 + 7, to)?;
    code.extend_from_slice(&opcode);
    code.extend_from_slice(&rel.to_le_bytes());
    Some(())
}

/// The stub at `at` for the `syscall` at `syscall`, preceded by `mov`.
pub fn form_a(at: u64, syscall: u64, mov: &[u8]) -> Option<Stub> {
    let site = syscall - mov.len() as u64;
    let mut code = mov.to_vec();
    lea(&mut code, at, LEA_RCX, syscall + 2)?;
    lea(&mut code, at, LEA_R11, syscall + 2)?;
    code.extend_from_slice(&JMP_GS_0);
    // Behind its `mov`, the stub's thread corresponds to one at the `syscall`, which is still intact.
    let places = vec![(0, site), (mov.len() as u64, syscall)];
    Some(Stub { code, site, patched: 5, places, displaced: 0..0 })
}

/// A stub at `at` that runs `code` before the call; every address in `code` represents the start of the site.
pub fn behind(mut code: Vec<u8>, at: u64, form: impl Fn(u64) -> Option<Stub>) -> Option<Stub> {
    let len = code.len() as u64;
    let call = form(at + len)?;
    code.extend_from_slice(&call.code);
    let moved = |(offset, rip)| if offset == 0 { (0, rip) } else { (offset + len, rip) };
    let places = call.places.into_iter().map(moved).collect();
    (code.len() as u64 <= LONGEST).then_some(Stub { code, places, ..call })
}

/// The stub at `at` for the `syscall` at `site`, with the instructions displaced.
pub fn form_b(at: u64, site: u64, displaced: &[Instruction]) -> Option<Stub> {
    let mut code = Vec::new();
    let rest = at + (LEA_RCX.len() + 4 + LEA_R11.len() + 4 + JMP_GS_0.len()) as u64;
    lea(&mut code, at, LEA_RCX, site + 2)?;
    lea(&mut code, at, LEA_R11, rest)?;
    code.extend_from_slice(&JMP_GS_0);

    let moved: Vec<Instruction> = displaced.iter().map(|i| at_site(i, site)).collect();
    let end = moved.last()?.next_ip();
    let block = InstructionBlock::new(&moved, rest);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let encoded = BlockEncoder::encode(64, block, options).ok()?;
    let mut places = vec![(0, site)];
    for (instruction, &offset) in moved.iter().zip(&encoded.new_instruction_offsets) {
        // An instruction expanded to several has no single offset.
        if offset == u32::MAX {
            return None;
        }
        places.push((rest - at + u64::from(offset), instruction.ip()));
    }
    code.extend_from_slice(&encoded.code_buffer);
    places.push((code.len() as u64, end));
    let back = jump(at + code.len() as u64, end)?;
    code.extend_from_slice(&back);
    (code.len() as u64 <= LONGEST).then_some(Stub {
        code,
        site,
        patched: end - site,
        places,
        displaced: site + 2..end,
    })
}

/// An instruction decoded relative to its site, relocated to the site.
fn at_site(instruction: &Instruction, site: u64) -> Instruction {
    let mut moved = *instruction;
    moved.set_ip(instruction.ip().wrapping_add(site));
    if moved.is_ip_rel_memory_operand() {
        moved.set_memory_displacement64(instruction.memory_displacement64().wrapping_add(site));
    }
    if moved.is_jcc_short_or_near() || moved.is_jmp_short_or_near() {
        moved.set_near_branch64(instruction.near_branch64().wrapping_add(site));
    }
    moved
}
