//! Instructions that read the machine: random numbers, clocks, the processor's number, model and state. Their
//! results are not part of an experiment unless they trap or have been replaced.

use crate::Regs;

/// An unprivileged instruction whose result depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum HardwareRead {
    Rdrand,
    Rdseed,
    Rdtsc,
    Rdtscp,
    Rdpid,
    Cpuid,
    /// XGETBV with ECX = 1.
    Xgetbv,
    Rdpru,
}

impl HardwareRead {
    /// Mnemonic of the instruction.
    pub fn name(self) -> &'static str {
        match self {
            HardwareRead::Rdrand => "RDRAND",
            HardwareRead::Rdseed => "RDSEED",
            HardwareRead::Rdtsc => "RDTSC",
            HardwareRead::Rdtscp => "RDTSCP",
            HardwareRead::Rdpid => "RDPID",
            HardwareRead::Cpuid => "CPUID",
            HardwareRead::Xgetbv => "XGETBV of the registers in use",
            HardwareRead::Rdpru => "RDPRU",
        }
    }

    /// Result of an execution on the processor itself, for a warning.
    pub fn result(self) -> &'static str {
        match self {
            HardwareRead::Rdrand | HardwareRead::Rdseed => "gives real random bytes",
            HardwareRead::Rdtsc | HardwareRead::Rdtscp => "gives this machine's time",
            HardwareRead::Rdpid => "gives the number of this machine's processor",
            HardwareRead::Cpuid => "describes this machine's processor",
            HardwareRead::Xgetbv => "tells how the run was interrupted",
            HardwareRead::Rdpru => "gives this machine's cycles",
        }
    }
}

/// An instruction in guest memory that executes natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NativeRead {
    /// The instruction.
    pub what: HardwareRead,
    /// Address of the instruction.
    pub addr: u64,
    /// False if the bytes may be data or a part of another instruction.
    pub is_proven: bool,
    /// True if the memory has been unmapped since.
    pub is_gone: bool,
}

/// An `rdrand` or `rdseed` whose result the kernel supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomRead {
    /// Destination register by its number in the instruction set (0 for RAX, 1 for RCX).
    pub register: u8,
    /// Size of the destination: 2, 4 or 8 bytes.
    pub size: u8,
}

/// CF, which reports success.
const CARRY: u64 = 1;
/// CF PF AF ZF SF OF: all but CF are cleared.
const ARITHMETIC: u64 = 0x8d5;

impl RandomRead {
    /// Carries the instruction out with the random `value`: destination and flags, not RIP. As on the
    /// processor, a 32-bit destination clears the register's upper half and a 16-bit one preserves the rest.
    pub fn load(self, regs: &mut Regs, value: u64) {
        let register = regs.general_mut(self.register);
        *register = match self.size {
            2 => *register & !0xffff | value & 0xffff,
            4 => value & 0xffff_ffff,
            _ => value,
        };
        regs.rflags = regs.rflags & !ARITHMETIC | CARRY;
    }
}

impl Regs {
    /// The general register with this number in the instruction set: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI,
    /// R8 to R15.
    pub fn general_mut(&mut self, number: u8) -> &mut u64 {
        match number & 15 {
            0 => &mut self.rax,
            1 => &mut self.rcx,
            2 => &mut self.rdx,
            3 => &mut self.rbx,
            4 => &mut self.rsp,
            5 => &mut self.rbp,
            6 => &mut self.rsi,
            7 => &mut self.rdi,
            8 => &mut self.r8,
            9 => &mut self.r9,
            10 => &mut self.r10,
            11 => &mut self.r11,
            12 => &mut self.r12,
            13 => &mut self.r13,
            14 => &mut self.r14,
            _ => &mut self.r15,
        }
    }

    /// Loads the time-stamp counter, as `rdtsc` does or, with a processor's number, `rdtscp`.
    pub fn load_counter(&mut self, ticks: u64, processor: Option<u32>) {
        (self.rax, self.rdx) = (ticks & 0xffff_ffff, ticks >> 32);
        if let Some(processor) = processor {
            self.rcx = processor.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_fills_its_register_and_sets_carry_alone() {
        let loaded = |register, size| {
            let mut regs = Regs { rflags: 0x8d4 | 0x202, ..Regs::default() };
            *regs.general_mut(register) = u64::MAX;
            RandomRead { register, size }.load(&mut regs, 0x1122_3344_5566_7788);
            assert_eq!(regs.rflags, 0x203, "{register}");
            *regs.general_mut(register)
        };
        for register in 0..16 {
            assert_eq!(loaded(register, 2), 0xffff_ffff_ffff_7788);
            assert_eq!(loaded(register, 4), 0x5566_7788);
            assert_eq!(loaded(register, 8), 0x1122_3344_5566_7788);
        }
    }
}
