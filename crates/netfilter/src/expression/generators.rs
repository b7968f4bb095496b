//! `numgen` and `hash`: numbers to spread packets by.

use super::arithmetic::byte_len;
use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope};
use crate::packet;
use crate::registers::{Register, Registers};
use crate::stateful::Number;
use belljar_conntrack::jhash::jhash;
use belljar_linux_abi::Errno;
use std::net::IpAddr;

/// Scales a 32-bit number to `0..range` (`reciprocal_scale`).
fn scale(number: u32, range: u32) -> u32 {
    ((u64::from(number) * u64::from(range)) >> 32) as u32
}

/// Reads the modulus and the offset, whose sum must not overflow.
fn bounds(attributes: Attributes<'_>, modulus: u16, offset: u16) -> Result<(u32, u32), NetfilterError> {
    let modulus = attributes.need(modulus)?.u32()?;
    let offset = attributes.u32(offset)?.unwrap_or(0);
    match modulus.checked_sub(1).map(|last| offset.checked_add(last)) {
        None => Err(Errno::ERANGE.into()),
        Some(None) => Err(Errno::EOVERFLOW.into()),
        Some(Some(_)) => Ok((modulus, offset)),
    }
}

/// `numgen`.
#[derive(Debug)]
pub(super) struct NumberGenerator {
    to: Register,
    modulus: u32,
    offset: u32,
    random: bool,
    /// The last number.
    counter: Number,
}

impl NumberGenerator {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<NumberGenerator, NetfilterError> {
        let to = attributes.need(1)?;
        let kind = attributes.need(3)?.u32()?;
        let (modulus, offset) = bounds(attributes, 2, 4)?;
        if kind > 1 {
            return Err(Errno::EINVAL.into());
        }
        let counter = Number::new(u64::from(modulus - 1));
        Ok(NumberGenerator { to: Register::read(to, 4)?, modulus, offset, random: kind == 1, counter })
    }
}

impl Operation for NumberGenerator {
    fn name(&self) -> &'static str {
        "numgen"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.to.number());
        out.u32(2, self.modulus);
        out.u32(3, u32::from(self.random));
        out.u32(4, self.offset);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let number = match self.random {
            true => scale(passing.environment.random(), self.modulus),
            false => {
                let next = (self.counter.get() + 1) % u64::from(self.modulus);
                self.counter.set(next);
                next as u32
            }
        };
        registers.store_u32(self.to, number + self.offset);
        Outcome::Continue
    }
}

/// `hash`.
#[derive(Debug)]
pub(super) struct Hash {
    /// Hashed register and its length in bytes; `None` for the symmetric hash of the flow.
    from: Option<(Register, usize)>,
    to: Register,
    modulus: u32,
    offset: u32,
    seed: u32,
    /// True if the seed was given, not drawn.
    seed_given: bool,
}

impl Hash {
    pub(super) fn read(attributes: Attributes<'_>, scope: &mut dyn Scope) -> Result<Hash, NetfilterError> {
        let to = Register::read(attributes.need(2)?, 4)?;
        let (modulus, offset) = bounds(attributes, 4, 6)?;
        let from = match attributes.u32(7)?.unwrap_or(0) {
            0 => {
                let len = byte_len(attributes.need(3)?.u32()?)?;
                if modulus <= 1 {
                    return Err(Errno::ERANGE.into());
                }
                Some((Register::read(attributes.need(1)?, len)?, len))
            }
            1 => None,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        let given = attributes.u32(5)?;
        let seed = given.unwrap_or_else(|| scope.draw());
        Ok(Hash { from, to, modulus, offset, seed, seed_given: given.is_some() })
    }
}

impl Operation for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        if let Some((from, len)) = self.from {
            out.u32(1, from.number());
            out.u32(3, len as u32);
        }
        out.u32(2, self.to.number());
        out.u32(4, self.modulus);
        if self.seed_given {
            out.u32(5, self.seed);
        }
        if self.offset != 0 {
            out.u32(6, self.offset);
        }
        out.u32(7, u32::from(self.from.is_none()));
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let hash = match self.from {
            Some((from, len)) => jhash(registers.load(from, len), self.seed),
            None => jhash(&symmetric_flow(passing), 0),
        };
        registers.store_u32(self.to, scale(hash, self.modulus) + self.offset);
        Outcome::Continue
    }
}

/// Addresses, ports and protocol of a packet, the same for both directions of its flow.
fn symmetric_flow(passing: &Passing<'_>) -> Vec<u8> {
    let (bytes, headers) = (passing.bytes(), passing.headers);
    let octets = |ip| match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let port =
        |at| bytes.get(headers.transport + at..headers.transport + at + 2).unwrap_or_default().to_vec();
    let ported = matches!(headers.protocol, Some(6 | 17 | 132 | 136)) && headers.fragment_offset == 0;
    let end = |address, at| [octets(address), if ported { port(at) } else { Vec::new() }].concat();
    let mut ends = [end(packet::source(bytes), 0), end(packet::destination(bytes), 2)];
    ends.sort();
    [ends.concat(), headers.protocol.into_iter().collect()].concat()
}
