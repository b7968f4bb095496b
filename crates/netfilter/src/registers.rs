//! Registers of the nf_tables machine: 64 bytes, addressed as four words of 16 bytes or 16 words of four
//! bytes, and a verdict. Data in them is in the byte order of packets, numbers in that of the host.

use crate::attributes::{Attribute, NetfilterError};
use belljar_linux_abi::Errno;

/// Number of bytes of data registers.
const SIZE: usize = 64;
/// `NFT_REG_1`, the first of 16 bytes.
const REG_1: u32 = 1;
/// `NFT_REG32_00`, the first of four bytes.
const REG32_00: u32 = 8;

/// Data register: the offset of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(u8);

/// Destination of an expression: data or the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Verdict,
    Data(Register),
}

impl Register {
    /// The register of an attribute, for data of `len` bytes (`nft_parse_register_load`).
    pub(crate) fn read(attribute: Attribute<'_>, len: usize) -> Result<Register, NetfilterError> {
        match Register::of_number(attribute.u32()?)? {
            Destination::Verdict => Err(Errno::EINVAL.into()),
            Destination::Data(_) if len == 0 => Err(Errno::EINVAL.into()),
            Destination::Data(Register(at)) if usize::from(at) + len > SIZE => Err(Errno::ERANGE.into()),
            Destination::Data(register) => Ok(register),
        }
    }
    /// The register of a number (`nft_parse_register`).
    pub(crate) fn of_number(number: u32) -> Result<Destination, NetfilterError> {
        match number {
            0 => Ok(Destination::Verdict),
            REG_1..=4 => Ok(Destination::Data(Register(((number - REG_1) * 16) as u8))),
            REG32_00..=23 => Ok(Destination::Data(Register(((number - REG32_00) * 4) as u8))),
            _ => Err(Errno::ERANGE.into()),
        }
    }
    /// The number of the register in dumps (`nft_dump_register`).
    pub(crate) fn number(self) -> u32 {
        match u32::from(self.0) {
            at if at % 16 == 0 => REG_1 + at / 16,
            at => REG32_00 + at / 4,
        }
    }
}

/// The data registers while a packet is evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Registers([u8; SIZE]);

impl Registers {
    pub(crate) fn new() -> Registers {
        Registers([0; SIZE])
    }
    /// The first `len` bytes from a register on.
    pub(crate) fn load(&self, register: Register, len: usize) -> &[u8] {
        let at = usize::from(register.0);
        &self.0[at..(at + len).min(SIZE)]
    }
    /// Stores bytes; the rest of the last word is zero.
    pub(crate) fn store(&mut self, register: Register, bytes: &[u8]) {
        let at = usize::from(register.0);
        let end = (at + bytes.len()).min(SIZE);
        self.0[at..end].copy_from_slice(&bytes[..end - at]);
        self.0[end..end.next_multiple_of(4)].fill(0);
    }
    pub(crate) fn load_u32(&self, register: Register) -> u32 {
        u32::from_ne_bytes(*self.load(register, 4).first_chunk().unwrap_or(&[0; 4]))
    }
    pub(crate) fn load_u16(&self, register: Register) -> u16 {
        u16::from_ne_bytes(*self.load(register, 2).first_chunk().unwrap_or(&[0; 2]))
    }
    pub(crate) fn store_u32(&mut self, register: Register, value: u32) {
        self.store(register, &value.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_namings_of_registers() {
        let number = |n| match Register::of_number(n) {
            Ok(Destination::Data(register)) => Some(register.number()),
            _ => None,
        };
        assert_eq!([1, 2, 4, 8, 9, 12, 23].map(number), [1, 2, 4, 1, 9, 2, 23].map(Some));
        assert_eq!([0, 5, 7, 24].map(number), [None; 4]);
        let read = |n: u32, len| Register::read(Attribute { value: &n.to_be_bytes(), at: 0 }, len);
        assert!(read(4, 16).is_ok() && read(23, 4).is_ok());
        assert_eq!(read(4, 17).unwrap_err().errno, Errno::ERANGE);
        assert_eq!(read(0, 4).unwrap_err().errno, Errno::EINVAL);
        assert_eq!(read(1, 0).unwrap_err().errno, Errno::EINVAL);
    }

    #[test]
    fn a_short_value_clears_its_word() {
        let mut registers = Registers::new();
        let Ok(Destination::Data(register)) = Register::of_number(9) else { unreachable!() };
        registers.store(register, &[0xff; 8]);
        registers.store(register, &[1]);
        assert_eq!(registers.load(register, 8), [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }
}
