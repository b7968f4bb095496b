//! vDSO stubs that read the clock without leaving the guest.
//!
//! A stub reads the time from the worker block, through GS, as long as the kernel allows further readings.
//! Otherwise, and for arguments that it does not handle, it makes the system call like any other stub; a
//! guest cannot distinguish the two. Every address of a stub represents the start of its site, so a thread
//! that is stopped in the stub and does not resume at the same address starts over. To allow this, a stub
//! writes only RAX, RCX, RDX and R11, which functions may clobber, and the result. A single load reads the
//! clock, so the time cannot be torn.

use super::stub::{self, Stub};
use belljar_shim::worker::{Answers, CLOCKS, Clocks, REALTIME, Worker};
use std::mem::offset_of;

const SHOWN: usize = offset_of!(Worker, clocks) + offset_of!(Clocks, shown_ns);
const LEFT: usize = offset_of!(Worker, clocks) + offset_of!(Clocks, left);
const GIVEN: usize = offset_of!(Worker, clocks) + offset_of!(Clocks, given);
const _: () = assert!(GIVEN + size_of::<Answers>() <= i32::MAX as usize);

/// `n / 10^9` is the upper half of `n / 2^9` times this, divided by 2^11, for every 64-bit `n`: the
/// reciprocal is rounded up by less than 2^-9 units in the last place (Granlund and Montgomery, 1994).
const RECIPROCAL: u64 = 0x0044_b82f_a09b_5a53;

/// Machine code with conditional jumps to its end.
#[derive(Default)]
pub struct Code {
    pub bytes: Vec<u8>,
    to_call: Vec<usize>,
}

impl Code {
    pub fn put(&mut self, bytes: &[u8]) -> &mut Code {
        self.bytes.extend_from_slice(bytes);
        self
    }
    pub fn put_u32(&mut self, value: usize) -> &mut Code {
        self.put(&(value as u32).to_le_bytes())
    }
    /// Emits a conditional jump with this opcode to the system call.
    pub fn call_if(&mut self, opcode: u8) -> &mut Code {
        self.put(&[opcode, 0]);
        self.to_call.push(self.bytes.len());
        self
    }
    /// Takes one of the allowed readings; if none is left, jumps to the system call.
    pub fn take_one(&mut self) -> &mut Code {
        // decl %gs:LEFT; js
        self.put(&[0x65, 0xff, 0x0c, 0x25]).put_u32(LEFT).call_if(JS)
    }
    /// Divides the nanoseconds in RAX: RDX receives the seconds, RCX the nanoseconds, and R11 saves RDX.
    fn divide(&mut self) -> &mut Code {
        // mov %rdx, %r11; mov %rax, %rcx; shr $9, %rax; movabs $RECIPROCAL, %rdx
        self.put(&[0x49, 0x89, 0xd3, 0x48, 0x89, 0xc1, 0x48, 0xc1, 0xe8, 9, 0x48, 0xba]);
        // mul %rdx; shr $11, %rdx
        self.put(&RECIPROCAL.to_le_bytes()).put(&[0x48, 0xf7, 0xe2, 0x48, 0xc1, 0xea, 11])
    }
    /// Leaves the remaining nanoseconds in RCX; destroys RDX.
    fn rest(&mut self) -> &mut Code {
        // imul $10^9, %rdx, %rdx; sub %rdx, %rcx
        self.put(&[0x48, 0x69, 0xd2]).put_u32(1_000_000_000).put(&[0x48, 0x29, 0xd1])
    }
    /// Counts an answer to `call`.
    pub fn count(&mut self, call: usize) -> &mut Code {
        // incl %gs:GIVEN
        self.put(&[0x65, 0xff, 0x04, 0x25]).put_u32(GIVEN + 4 * call)
    }
    /// Counts the answer and returns.
    fn end(&mut self, call: usize) -> &mut Code {
        // mov %r11, %rdx; then ret
        self.put(&[0x4c, 0x89, 0xda]).count(call).put(&[0xc3])
    }
    /// The machine code, to be followed by the system call; `None` if a jump does not reach its end.
    pub fn end_here(self) -> Option<Vec<u8>> {
        let Code { mut bytes, to_call } = self;
        for behind in to_call {
            bytes[behind - 1] = i8::try_from(bytes.len() - behind).ok()? as u8;
        }
        Some(bytes)
    }
}

const JA: u8 = 0x77;
const JZ: u8 = 0x74;
const JNZ: u8 = 0x75;
pub const JS: u8 = 0x78;

/// The stub at `at` for a `syscall` of the vDSO at `syscall`, preceded by `mov`, which loads `nr`.
pub fn stub(at: u64, syscall: u64, mov: &[u8], nr: u64) -> Option<Stub> {
    let mut code = Code::default();
    match nr as i64 {
        libc::SYS_clock_gettime => clock_gettime(&mut code),
        libc::SYS_gettimeofday => gettimeofday(&mut code),
        libc::SYS_time => time(&mut code),
        _ => {}
    }
    stub::behind(code.end_here()?, at, |at| stub::form_a(at, syscall, mov))
}

fn clock_gettime(code: &mut Code) {
    // cmp $CLOCKS - 1, %edi; ja; mov %edi, %eax; mov %gs:SHOWN(, %rax, 8), %rax; test %rax, %rax; jz
    code.put(&[0x83, 0xff, CLOCKS as u8 - 1]).call_if(JA).put(&[0x89, 0xf8]);
    code.put(&[0x65, 0x48, 0x8b, 0x04, 0xc5]).put_u32(SHOWN).put(&[0x48, 0x85, 0xc0]).call_if(JZ);
    code.take_one().divide();
    // mov %rdx, (%rsi); then mov %rcx, 8(%rsi); xor %eax, %eax
    code.put(&[0x48, 0x89, 0x16]).rest().put(&[0x48, 0x89, 0x4e, 8, 0x31, 0xc0]).end(0);
}

fn gettimeofday(code: &mut Code) {
    // test %rdi, %rdi; jz; test %rsi, %rsi; jnz
    code.put(&[0x48, 0x85, 0xff]).call_if(JZ).put(&[0x48, 0x85, 0xf6]).call_if(JNZ);
    code.take_one().load_realtime().divide();
    // mov %rdx, (%rdi)
    code.put(&[0x48, 0x89, 0x17]).rest();
    // Microseconds: below 2^30 * 274877907 / 2^38 is exact (the reciprocal of 1000).
    // imul $274877907, %rcx, %rax; shr $38, %rax; mov %rax, 8(%rdi); xor %eax, %eax
    code.put(&[0x48, 0x69, 0xc1]).put_u32(274_877_907).put(&[0x48, 0xc1, 0xe8, 38]);
    code.put(&[0x48, 0x89, 0x47, 8, 0x31, 0xc0]).end(1);
}

fn time(code: &mut Code) {
    code.take_one().load_realtime().divide();
    // mov %rdx, %rax; test %rdi, %rdi; jz over; mov %rax, (%rdi); over:
    code.put(&[0x48, 0x89, 0xd0, 0x48, 0x85, 0xff, JZ, 3, 0x48, 0x89, 0x07]).end(2);
}

impl Code {
    fn load_realtime(&mut self) -> &mut Code {
        // mov %gs:SHOWN + REALTIME, %rax
        self.put(&[0x65, 0x48, 0x8b, 0x04, 0x25]).put_u32(SHOWN + 8 * REALTIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Register};

    /// Every stub decodes as one run of instructions, ends like that of any other site, leaves the stack
    /// alone, and every address in it maps to the start of its site.
    #[test]
    fn stubs_are_code_that_ends_with_the_call() {
        for nr in [libc::SYS_clock_gettime, libc::SYS_gettimeofday, libc::SYS_time, libc::SYS_getcpu] {
            let mov = [&[0xb8][..], &(nr as u32).to_le_bytes()].concat();
            let (at, syscall) = (0x10_0000, 0x20_0005);
            let plain = stub::form_a(at, syscall, &mov).unwrap();
            let fast = stub(at, syscall, &mov, nr as u64).unwrap();
            let before = (fast.code.len() - plain.code.len()) as u64;
            assert_eq!(before == 0, nr == libc::SYS_getcpu);
            assert_eq!(fast.places, [(0, 0x20_0000), (before + 5, 0x20_0005)]);
            let (mut starts, mut targets) = (vec![], vec![before]);
            for instruction in Decoder::with_ip(64, &fast.code, 0, DecoderOptions::NONE).iter() {
                let at = instruction.ip();
                assert!(!instruction.is_invalid(), "{nr} at {at:#x}");
                assert!(at >= before || instruction.memory_base() != Register::RSP, "{nr} at {at:#x}");
                let is_return = instruction.code() == iced_x86::Code::Retnq;
                assert!(is_return || !instruction.is_stack_instruction(), "{nr} at {at:#x}");
                starts.push(at);
                if instruction.is_jcc_short_or_near() {
                    targets.push(instruction.near_branch64());
                }
            }
            assert!(targets.iter().all(|to| starts.contains(to)), "{nr}: {targets:x?} in {starts:x?}");
        }
    }

    #[test]
    fn division_by_reciprocals_is_exact() {
        let seconds = |n: u64| ((u128::from(n >> 9) * u128::from(RECIPROCAL)) >> 75) as u64;
        let around = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
        let ends = (0..=18_446_744_073u64).step_by(7_919).map(|s| s * 1_000_000_000);
        for n in ends.chain([u64::MAX]).flat_map(around) {
            assert_eq!(seconds(n), n / 1_000_000_000, "{n}");
        }
        let micros = |n: u64| (n * 274_877_907) >> 38;
        assert!((0..1_000_000u64).flat_map(|m| around(m * 1_000)).all(|n| micros(n) == n / 1_000));
    }
}
