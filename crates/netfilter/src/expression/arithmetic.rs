//! Expressions on registers alone: immediate, cmp, range, bitwise, byteorder.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::operation::{Data, DumpScope, Operation, Outcome, Passing, Reference, Scope, dump_value};
use crate::registers::{Destination, Register, Registers};
use belljar_linux_abi::Errno;
use std::cmp::Ordering;

/// `immediate`: data or a verdict.
#[derive(Debug)]
pub(super) struct Immediate {
    to: Destination,
    data: Data,
}

impl Immediate {
    pub(super) fn read(attributes: Attributes<'_>, scope: &dyn Scope) -> Result<Immediate, NetfilterError> {
        let register = attributes.need(1)?;
        let data = Data::read(attributes.need(2)?.nested(), scope)?;
        let to = match (Register::of_number(register.u32()?)?, &data) {
            (Destination::Verdict, Data::Verdict(_)) => Destination::Verdict,
            (Destination::Data(_), Data::Value(value)) => {
                Destination::Data(Register::read(register, value.len())?)
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        Ok(Immediate { to, data })
    }
}

impl Operation for Immediate {
    fn name(&self) -> &'static str {
        "immediate"
    }
    fn dump(&self, names: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, destination_number(self.to));
        self.data.dump(2, names, out);
    }
    fn evaluate(&self, registers: &mut Registers, _: &mut Passing<'_>) -> Outcome {
        match (&self.data, self.to) {
            (Data::Verdict(verdict), _) => Outcome::Verdict(*verdict),
            (Data::Value(value), Destination::Data(register)) => {
                registers.store(register, value);
                Outcome::Continue
            }
            (Data::Value(_), Destination::Verdict) => Outcome::Continue,
        }
    }
    fn references(&self, visit: &mut dyn FnMut(Reference)) {
        if let Data::Verdict(verdict) = self.data
            && let Some(chain) = verdict.chain()
        {
            visit(Reference::Chain(chain));
        }
    }
}

/// The number of a destination in dumps.
pub(super) fn destination_number(to: Destination) -> u32 {
    match to {
        Destination::Verdict => 0,
        Destination::Data(register) => register.number(),
    }
}

/// `cmp`: a comparison of a register with a value, byte by byte.
#[derive(Debug)]
pub(super) struct Compare {
    from: Register,
    operator: u32,
    value: Vec<u8>,
}

impl Compare {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Compare, NetfilterError> {
        let value = Data::read_value(attributes.need(3)?.nested(), None)?;
        let from = Register::read(attributes.need(1)?, value.len())?;
        match attributes.need(2)?.u32()? {
            operator @ 0..=5 => Ok(Compare { from, operator, value }),
            _ => Err(Errno::EINVAL.into()),
        }
    }
}

impl Operation for Compare {
    fn name(&self) -> &'static str {
        "cmp"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.from.number());
        out.u32(2, self.operator);
        dump_value(3, &self.value, out);
    }
    fn evaluate(&self, registers: &mut Registers, _: &mut Passing<'_>) -> Outcome {
        let order = registers.load(self.from, self.value.len()).cmp(&self.value);
        Outcome::given(match self.operator {
            0 => order == Ordering::Equal,
            1 => order != Ordering::Equal,
            2 => order == Ordering::Less,
            3 => order != Ordering::Greater,
            4 => order == Ordering::Greater,
            _ => order != Ordering::Less,
        })
    }
}

/// `range`: a register is within two values, both included.
#[derive(Debug)]
pub(super) struct Range {
    from: Register,
    negated: bool,
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Range {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Range, NetfilterError> {
        let low = Data::read_value(attributes.need(3)?.nested(), None)?;
        let high = Data::read_value(attributes.need(4)?.nested(), Some(low.len()))?;
        let from = Register::read(attributes.need(1)?, low.len())?;
        match attributes.need(2)?.u32()? {
            operator @ 0..=1 => Ok(Range { from, negated: operator == 1, low, high }),
            _ => Err(Errno::EINVAL.into()),
        }
    }
}

impl Operation for Range {
    fn name(&self) -> &'static str {
        "range"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.from.number());
        out.u32(2, u32::from(self.negated));
        dump_value(3, &self.low, out);
        dump_value(4, &self.high, out);
    }
    fn evaluate(&self, registers: &mut Registers, _: &mut Passing<'_>) -> Outcome {
        let value = registers.load(self.from, self.low.len());
        let within = self.low.as_slice() <= value && value <= self.high.as_slice();
        Outcome::given(within != self.negated)
    }
}

/// Operator of `bitwise`.
#[derive(Debug)]
enum BitOperator {
    /// AND with a mask, then XOR.
    Mask(Vec<u8>, Vec<u8>),
    /// Shift to the left, in bits.
    Left(u32),
    /// Shift to the right, in bits.
    Right(u32),
}

/// `bitwise`.
#[derive(Debug)]
pub(super) struct Bitwise {
    from: Register,
    to: Register,
    len: usize,
    operator: BitOperator,
}

impl Bitwise {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Bitwise, NetfilterError> {
        let len = byte_len(attributes.need(3)?.u32()?)?;
        let from = Register::read(attributes.need(1)?, len)?;
        let to = Register::read(attributes.need(2)?, len)?;
        let value = |kind| Data::read_value(attributes.need(kind)?.nested(), Some(len));
        let shift = || {
            let value = Data::read_value(attributes.need(7)?.nested(), Some(4))?;
            match u32::from_ne_bytes(*value.first_chunk().unwrap_or(&[0; 4])) {
                bits @ 1..=31 => Ok(bits),
                _ => Err(NetfilterError::from(Errno::EINVAL)),
            }
        };
        let operator = match attributes.u32(6)?.unwrap_or(0) {
            0 => BitOperator::Mask(value(4)?, value(5)?),
            1 => BitOperator::Left(shift()?),
            2 => BitOperator::Right(shift()?),
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        Ok(Bitwise { from, to, len, operator })
    }
}

impl Operation for Bitwise {
    fn name(&self) -> &'static str {
        "bitwise"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.from.number());
        out.u32(2, self.to.number());
        out.u32(3, self.len as u32);
        match &self.operator {
            BitOperator::Mask(mask, xor) => {
                out.u32(6, 0);
                dump_value(4, mask, out);
                dump_value(5, xor, out);
            }
            BitOperator::Left(bits) => {
                out.u32(6, 1);
                dump_value(7, &bits.to_ne_bytes(), out);
            }
            BitOperator::Right(bits) => {
                out.u32(6, 2);
                dump_value(7, &bits.to_ne_bytes(), out);
            }
        }
    }
    fn evaluate(&self, registers: &mut Registers, _: &mut Passing<'_>) -> Outcome {
        let mut value = registers.load(self.from, self.len.next_multiple_of(4)).to_vec();
        let word = |bytes: &[u8]| u32::from_ne_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]));
        match &self.operator {
            BitOperator::Mask(mask, xor) => {
                value.truncate(self.len);
                let pairs = mask.iter().zip(xor);
                value.iter_mut().zip(pairs).for_each(|(byte, (mask, xor))| *byte = *byte & mask ^ xor);
            }
            BitOperator::Left(bits) => {
                let mut carry = 0;
                for chunk in value.rchunks_exact_mut(4) {
                    let before = word(chunk);
                    chunk.copy_from_slice(&(before << bits | carry).to_ne_bytes());
                    carry = before >> (32 - bits);
                }
            }
            BitOperator::Right(bits) => {
                let mut carry = 0;
                for chunk in value.chunks_exact_mut(4) {
                    let before = word(chunk);
                    chunk.copy_from_slice(&(before >> bits | carry).to_ne_bytes());
                    carry = before << (32 - bits);
                }
            }
        }
        registers.store(self.to, &value);
        Outcome::Continue
    }
}

/// A length in bytes, of at most 255 (`nft_parse_u32_check`).
pub(super) fn byte_len(len: u32) -> Result<usize, NetfilterError> {
    if len > 255 { Err(Errno::ERANGE.into()) } else { Ok(len as usize) }
}

/// `byteorder`: swaps the bytes of numbers.
#[derive(Debug)]
pub(super) struct ByteOrder {
    from: Register,
    to: Register,
    operator: u32,
    len: usize,
    size: usize,
}

impl ByteOrder {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<ByteOrder, NetfilterError> {
        let operator = attributes.need(3)?.u32()?;
        let len = byte_len(attributes.need(4)?.u32()?)?;
        let size = byte_len(attributes.need(5)?.u32()?)?;
        if operator > 1 || ![2, 4, 8].contains(&size) {
            return Err(Errno::EINVAL.into());
        }
        let from = Register::read(attributes.need(1)?, len)?;
        let to = Register::read(attributes.need(2)?, len)?;
        Ok(ByteOrder { from, to, operator, len, size })
    }
}

impl Operation for ByteOrder {
    fn name(&self) -> &'static str {
        "byteorder"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.from.number());
        out.u32(2, self.to.number());
        out.u32(3, self.operator);
        out.u32(4, self.len as u32);
        out.u32(5, self.size as u32);
    }
    fn evaluate(&self, registers: &mut Registers, _: &mut Passing<'_>) -> Outcome {
        let mut value = registers.load(self.from, self.len).to_vec();
        value.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
        registers.store(self.to, &value);
        Outcome::Continue
    }
}
