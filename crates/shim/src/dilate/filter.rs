//! Seccomp filter: selects the system calls that raise SIGSYS. It is structured for the kernel's cache of
//! verdicts: for a call that the filter allows regardless of its arguments, the kernel does not run the
//! filter at all.

use super::calls::{CALLS, OF_FROZEN, OF_STOPPED, When, nr};
use super::clock;
use super::layout::UPPER;
use super::memory::native;

/// One instruction of classic BPF: `struct sock_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    value: u32,
}

/// Mark of this filter in `si_errno`, distinct from those of a guest's own filters.
pub const MARK: u32 = 0x6a72;

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRAP: u32 = 0x0003_0000 | MARK;
const NO_SUCH_CALL: u32 = 0x0005_0000 | 38;
const X86_64: u32 = 0xc000_003e;
const FIRST_X32: u32 = 0x4000_0000;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const POINTER: u32 = 8;
const ARGUMENTS: u32 = 16;

/// Futex operations that wait, without their flags.
const WAITING: [u32; 5] = [0, 6, 9, 11, 13];
const SIG_UNBLOCK: u32 = 1;
const SOL_PACKET: u32 = super::rings::SOL_PACKET as u32;

/// Capacity of the filter of a host's programs; the filters lie on a stack.
const MOST: usize = 768;
/// Capacity of the additional filters of some programs, see [`MOST`].
pub const FEW: usize = 80;

/// A filter of at most `N` instructions.
pub struct Filter<const N: usize> {
    code: [Instruction; N],
    len: usize,
}

/// Verdicts to which the test of a call leads.
const TO_TRAP: u32 = 1;
const TO_ALLOW: u32 = 2;

impl<const N: usize> Filter<N> {
    /// A filter for these calls.
    pub fn new(calls: &[(u64, When)]) -> Filter<N> {
        let mut filter = Filter { code: [Instruction::default(); N], len: 0 };
        filter.push(LOAD, 0, 0, ARCHITECTURE);
        filter.push(EQUAL, 1, 0, X86_64);
        filter.push(RETURN, 0, 0, NO_SUCH_CALL);
        filter.push(LOAD, 0, 0, NUMBER);
        filter.push(AT_LEAST, 0, 1, FIRST_X32);
        filter.push(RETURN, 0, 0, NO_SUCH_CALL);
        for (number, when) in calls {
            filter.call(*number, *when);
        }
        filter.push(RETURN, 0, 0, ALLOW);
        filter
    }

    /// The instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code[..self.len]
    }

    fn push(&mut self, code: u16, yes: u8, no: u8, value: u32) {
        if let Some(place) = self.code.get_mut(self.len) {
            *place = Instruction { code, yes, no, value };
        }
        self.len += 1;
    }

    fn load(&mut self, argument: u8, half: u32) {
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * u32::from(argument) + 4 * half);
    }

    /// Jumps to one of the two verdicts at the end of a call's block; resolved once the block is complete.
    fn lead(&mut self, to: u32) {
        self.push(JUMP, 0, 0, to);
    }

    fn if_given(&mut self, argument: u8) {
        for half in [0, 1] {
            self.load(argument, half);
            self.push(EQUAL, 1, 0, 0);
            self.lead(TO_TRAP);
        }
    }

    fn if_one_of(&mut self, values: &[u32]) {
        for value in values {
            self.push(EQUAL, 0, 1, *value);
            self.lead(TO_TRAP);
        }
    }

    fn call(&mut self, number: u64, when: When) {
        let start = self.len;
        self.push(EQUAL, 0, 0, number as u32);
        match when {
            When::Always => self.lead(TO_TRAP),
            When::Never => self.push(RETURN, 0, 0, NO_SUCH_CALL),
            When::Given(arguments) => arguments.iter().for_each(|argument| self.if_given(*argument)),
            When::Milliseconds(argument, other) => {
                self.load(argument, 0);
                self.push(EQUAL, 2, 0, 0);
                self.push(ANY_BIT, 1, 0, 0x8000_0000);
                self.lead(TO_TRAP);
                other.into_iter().for_each(|argument| self.if_given(argument));
            }
            When::OneOf(argument, values) => {
                self.load(argument, 0);
                self.if_one_of(values);
            }
            When::Futex => {
                self.load(1, 0);
                self.push(AND, 0, 0, 0x7f);
                for value in WAITING {
                    self.push(EQUAL, 0, 1, value);
                    self.push(JUMP, 0, 0, 0x100 + value);
                }
                self.lead(TO_ALLOW);
                // The target of the jumps above.
                let here = self.len;
                for place in start..here {
                    if self.code[place].code == JUMP && self.code[place].value >= 0x100 {
                        self.code[place].value = (here - place - 1) as u32;
                        // Marks the jump as resolved.
                        self.code[place].no = 1;
                    }
                }
                self.if_given(3);
            }
            When::Blocks => {
                self.load(0, 0);
                self.push(EQUAL, 0, 1, SIG_UNBLOCK);
                self.lead(TO_ALLOW);
                self.if_given(1);
            }
            When::Option(socket, tcp, packet) => {
                for (level, values) in [(1, socket), (6, tcp), (SOL_PACKET, packet)] {
                    self.load(1, 0);
                    self.push(EQUAL, 0, (1 + 2 * values.len()) as u8, level);
                    self.load(2, 0);
                    self.if_one_of(values);
                }
            }
        }
        self.lead(TO_ALLOW);
        let trap = self.len;
        self.push(LOAD, 0, 0, POINTER + 4);
        self.push(EQUAL, 1, 0, UPPER);
        self.push(RETURN, 0, 0, TRAP);
        let allow = self.len;
        self.push(RETURN, 0, 0, ALLOW);
        for place in start..trap {
            let instruction = &mut self.code[place];
            if instruction.code == JUMP {
                match (instruction.no, instruction.value) {
                    (0, TO_TRAP) => instruction.value = (trap - place - 1) as u32,
                    (0, TO_ALLOW) => instruction.value = (allow - place - 1) as u32,
                    _ => instruction.no = 0,
                }
            }
        }
        self.code[start].no = (self.len - start - 1) as u8;
    }

    /// Installs the filter for this thread or, with `all`, for all threads of the process.
    pub fn install(&self, all: bool) -> i64 {
        const SET_MODE_FILTER: u64 = 1;
        const ALL_THREADS: u64 = 1;
        const FULL_SPEED: u64 = 4;
        const PR_SET_NO_NEW_PRIVS: u64 = 38;
        /// `struct sock_fprog`.
        #[repr(C)]
        struct Program {
            len: u64,
            code: *const Instruction,
        }
        if self.len > N {
            return super::error::NOMEM;
        }
        let program = Program { len: self.len as u64, code: self.code.as_ptr() };
        let flags = FULL_SPEED | if all { ALL_THREADS } else { 0 };
        let args = [SET_MODE_FILTER, flags, &raw const program as u64, 0, 0, 0];
        match native(nr::SECCOMP, args) {
            0 => 0,
            // A user without privileges renounces privileges gained by execution (`setuid`).
            _ => {
                native(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
                native(nr::SECCOMP, args)
            }
        }
    }
}

/// Installs a filter for further calls in all threads of the process, once: filters accumulate. The page `mark` is mapped from
/// then on.
pub fn install_once<const N: usize>(mark: u64, calls: &[(u64, When)]) {
    let page = [mark, super::layout::PAGE, 0, 0x10_0022, u64::MAX, 0];
    if native(nr::MMAP, page) >= 0 {
        Filter::<N>::new(calls).install(true);
    }
}

/// Installs the filter of a host's first program. `freezes` is the method by which the host is frozen.
pub fn install(freezes: u64) -> i64 {
    let mut done = 0;
    for (calls, is_wanted) in
        [(OF_FROZEN, freezes != clock::NOT_FROZEN), (OF_STOPPED, freezes == clock::BY_SIGNALS)]
    {
        if done == 0 && is_wanted {
            done = Filter::<FEW>::new(calls).install(false);
        }
    }
    if done == 0 { Filter::<MOST>::new(CALLS).install(false) } else { done }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
