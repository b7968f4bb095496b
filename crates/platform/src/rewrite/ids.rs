//! Stubs of calls that return ids, which answer without leaving the guest.
//!
//! The ids are in the running context. Answers are counted in the worker block, as those of
//! [clocks](super::clock) are, and every address of a stub represents the start of its site, as there. The
//! site is in arbitrary code, so a stub has the same effects as the instruction: RCX receives the address
//! behind it, R11 the flags, and flags and stack are preserved. R11 reflects only the arithmetic flags:
//! reading the others would need the stack, and System V's ABI requires them to be clear.

use super::clock::{Code, JS};
use super::stub::{self, Stub};
use belljar_machine::ID_CALLS;
use belljar_shim::context::{Context, IDS};
use belljar_shim::worker::{CLOCK_CALLS, Worker};
use std::mem::offset_of;

const _: () = assert!(IDS == ID_CALLS.len());

/// The stub at `at` for the `syscall` at `syscall`, preceded by `mov`, which loads `nr`; `None` if `nr` is
/// not a call that returns an id.
pub fn stub(at: u64, syscall: u64, mov: &[u8], nr: u64) -> Option<Stub> {
    let id = ID_CALLS.iter().position(|call| *call as u64 == nr)?;
    let mut code = Code::default();
    // lahf; seto %al; movzwl %ax, %r11d
    code.put(&[0x9f, 0x0f, 0x90, 0xc0, 0x44, 0x0f, 0xb7, 0xd8]).take_one();
    // mov %gs:context, %rcx; mov ids(%rcx), %rcx; test %rcx, %rcx; js
    code.put(&[0x65, 0x48, 0x8b, 0x0c, 0x25]).put_u32(offset_of!(Worker, context));
    code.put(&[0x48, 0x8b, 0x89]).put_u32(offset_of!(Context, ids) + 8 * id);
    code.put(&[0x48, 0x85, 0xc9]).call_if(JS).count(CLOCK_CALLS + id);
    // R11 receives the id above the saved flags: shl $32, %rcx; or %rcx, %r11
    code.put(&[0x48, 0xc1, 0xe1, 32, 0x49, 0x09, 0xcb]);
    // ECX receives the flags: OF at its bit, AH, the interrupt flag. movzbl %r11b, %eax; shl $11, %eax;
    // movzwl %r11w, %ecx; shr $8, %ecx; lea 0x200(%rax, %rcx), %ecx
    code.put(&[0x41, 0x0f, 0xb6, 0xc3, 0xc1, 0xe0, 11, 0x41, 0x0f, 0xb7, 0xcb, 0xc1, 0xe9, 8]);
    code.put(&[0x8d, 0x8c, 0x08]).put_u32(0x200);
    // mov %r11d, %eax; shr $32, %r11; (flags); mov %r11d, %eax; mov %ecx, %r11d
    code.put(&[0x44, 0x89, 0xd8, 0x49, 0xc1, 0xeb, 32]).put(&FLAGS);
    code.put(&[0x44, 0x89, 0xd8, 0x41, 0x89, 0xcb]);
    let (behind, at_lea) = (syscall + 2, at + code.bytes.len() as u64);
    stub::lea(&mut code.bytes, at, stub::LEA_RCX, behind)?;
    code.put(&stub::jump(at_lea + 7, behind)?);
    // Restore the flags, then make the call: mov %r11d, %eax
    let mut all = code.end_here()?;
    all.extend_from_slice(&[0x44, 0x89, 0xd8]);
    all.extend_from_slice(&FLAGS);
    stub::behind(all, at, |at| stub::form_a(at, syscall, mov))
}

/// OF becomes 1 iff AL is, the rest comes from AH: add $127, %al; sahf
const FLAGS: [u8; 3] = [0x04, 127, 0x9e];

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn stubs_are_code_that_ends_with_the_call_and_leave_the_stack_alone() {
        for &nr in ID_CALLS {
            let mov = [&[0xb8][..], &(nr as u32).to_le_bytes()].concat();
            let (at, syscall) = (0x10_0000, 0x20_0005);
            let plain = stub::form_a(at, syscall, &mov).unwrap();
            let fast = stub(at, syscall, &mov, nr as u64).unwrap();
            let before = (fast.code.len() - plain.code.len()) as u64;
            assert_eq!(fast.places, [(0, 0x20_0000), (before + 5, 0x20_0005)]);
            let (mut starts, mut targets) = (vec![], vec![]);
            for instruction in Decoder::with_ip(64, &fast.code, at, DecoderOptions::NONE).iter() {
                assert!(!instruction.is_invalid() && !instruction.is_stack_instruction(), "{nr}");
                starts.push(instruction.ip());
                if instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near() {
                    targets.push(instruction.near_branch64());
                }
            }
            let to_call = at + before - 6;
            assert_eq!(targets, [to_call, to_call, syscall + 2], "{nr}");
            assert!(starts.contains(&to_call), "{nr}");
        }
        assert!(stub(0x10_0000, 0x20_0005, &[0xb8, 0, 0, 0, 0], 0).is_none(), "read asks for no id");
    }
}
