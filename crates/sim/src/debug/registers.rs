//! Register format of gdb's description of x86-64 Linux (`target.xml`).

use belljar_machine::Regs;
use gdbstub::arch::{Arch, Registers};

/// Offsets in an XSAVE image: x87 registers, SSE registers, header, upper halves of the AVX registers; and
/// the component bits of these states.
const ST: usize = 32;
const XMM: usize = 160;
const XSTATE_BV: usize = 512;
const YMM_UPPER: usize = 576;
const X87_SSE_AVX: u8 = 7;
/// Segment selectors of 64-bit user code on Linux.
const CS: u32 = 0x33;
const SS: u32 = 0x2b;
/// Value of `orig_rax` outside of system calls.
const NO_CALL: u64 = u64::MAX;

/// Architecture x86-64 Linux.
pub enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = ThreadRegisters;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("target.xml"))
    }
}

/// All registers of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadRegisters {
    pub regs: Regs,
    /// Number of the system call in which the thread waits.
    pub call: Option<u64>,
    /// XSAVE image in standard format.
    pub xstate: Vec<u8>,
}

impl ThreadRegisters {
    fn state(&self, at: usize, len: usize) -> Vec<u8> {
        let part = self.xstate.get(at..at + len);
        part.map_or_else(|| vec![0; len], <[u8]>::to_vec)
    }
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.state(at, 2).try_into().expect("two bytes"))
    }

    /// Full x87 tag word: FXSAVE only stores which registers are in use.
    fn tags(&self) -> u16 {
        let used = self.u16_at(4) as u8;
        (0..8).filter(|n| used & 1 << n == 0).fold(0, |tags, n| tags | 3 << (2 * n))
    }
}

impl Registers for ThreadRegisters {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.regs.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|byte| write_byte(Some(*byte)));
        for value in general(&mut self.regs.clone()) {
            put(&value.to_le_bytes());
        }
        put(&(self.regs.rflags as u32).to_le_bytes());
        for selector in [CS, SS, 0, 0, 0, 0] {
            put(&selector.to_le_bytes());
        }
        for n in 0..8 {
            put(&self.state(ST + 16 * n, 10));
        }
        let (fcw, fsw, fop) = (self.u16_at(0), self.u16_at(2), self.u16_at(6));
        let pointer = |at| u32::from_le_bytes(self.state(at, 4).try_into().expect("four bytes"));
        let (fioff, fiseg, fooff, foseg) = (pointer(8), pointer(12), pointer(16), pointer(20));
        for value in [fcw.into(), fsw.into(), self.tags().into(), fiseg, fioff, foseg, fooff, fop.into()] {
            put(&u32::to_le_bytes(value));
        }
        put(&self.state(XMM, 256));
        put(&self.state(24, 4));
        put(&self.call.unwrap_or(NO_CALL).to_le_bytes());
        put(&self.regs.fs_base.to_le_bytes());
        put(&self.regs.gs_base.to_le_bytes());
        put(&self.state(YMM_UPPER, 256));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut rest = bytes;
        let mut take = |len: usize| {
            let (part, after) = rest.split_at_checked(len).ok_or(())?;
            rest = after;
            Ok(part)
        };
        let u64_of = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("eight bytes"));
        let u32_of = |part: &[u8]| u32::from_le_bytes(part.try_into().expect("four bytes"));
        for value in general(&mut self.regs) {
            *value = u64_of(take(8)?);
        }
        self.regs.rflags = u64::from(u32_of(take(4)?));
        take(6 * 4)?;
        let mut state = vec![0; YMM_UPPER + 256];
        for n in 0..8 {
            state[ST + 16 * n..][..10].copy_from_slice(take(10)?);
        }
        let mut word = || take(4).map(u32_of);
        let [fcw, fsw, tags, fiseg, fioff, foseg, fooff, fop] =
            [word()?, word()?, word()?, word()?, word()?, word()?, word()?, word()?];
        let used = (0..8).filter(|n| tags >> (2 * n) & 3 != 3).fold(0u8, |used, n| used | 1 << n);
        state[0..2].copy_from_slice(&(fcw as u16).to_le_bytes());
        state[2..4].copy_from_slice(&(fsw as u16).to_le_bytes());
        state[4] = used;
        state[6..8].copy_from_slice(&(fop as u16).to_le_bytes());
        for (at, value) in [(8, fioff), (12, fiseg), (16, fooff), (20, foseg)] {
            state[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        state[XMM..XMM + 256].copy_from_slice(take(256)?);
        state[24..28].copy_from_slice(take(4)?);
        self.call = Some(u64_of(take(8)?)).filter(|call| *call != NO_CALL);
        self.regs.fs_base = u64_of(take(8)?);
        self.regs.gs_base = u64_of(take(8)?);
        state[YMM_UPPER..].copy_from_slice(take(256)?);
        state[XSTATE_BV] = X87_SSE_AVX;
        self.xstate = state;
        Ok(())
    }
}

/// The 64-bit registers in gdb's order.
fn general(regs: &mut Regs) -> [&mut u64; 17] {
    [
        &mut regs.rax,
        &mut regs.rbx,
        &mut regs.rcx,
        &mut regs.rdx,
        &mut regs.rsi,
        &mut regs.rdi,
        &mut regs.rbp,
        &mut regs.rsp,
        &mut regs.r8,
        &mut regs.r9,
        &mut regs.r10,
        &mut regs.r11,
        &mut regs.r12,
        &mut regs.r13,
        &mut regs.r14,
        &mut regs.r15,
        &mut regs.rip,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_what_was_shown() {
        let mut xstate: Vec<u8> = (0..832).map(|n| (n * 7) as u8).collect();
        xstate[28..32].fill(0);
        xstate[5] = 0;
        for n in 0..8 {
            xstate[ST + 16 * n + 10..ST + 16 * n + 16].fill(0);
        }
        xstate[416..YMM_UPPER].fill(0);
        xstate[XSTATE_BV] = X87_SSE_AVX;
        let regs = Regs { rax: 1, r15: 2, rip: 3, rflags: 0x246, fs_base: 4, rsp: 5, ..Regs::default() };
        let shown = ThreadRegisters { regs, call: Some(35), xstate };
        let mut bytes = Vec::new();
        shown.gdb_serialize(|byte| bytes.extend(byte));
        let mut read = ThreadRegisters::default();
        read.gdb_deserialize(&bytes).unwrap();
        assert_eq!(read, shown);
        assert!(read.gdb_deserialize(&bytes[1..]).is_err());
    }
}
