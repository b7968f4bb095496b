//! Expressions of extended matches: `cmp`, `nbyte` and `u32`, joined by and, or and parentheses
//! (`net/sched/ematch.c`, tc-ematch(8)).

use crate::attributes::{Attributes, Out, half, word};
use crate::buffer::Buffer;
use crate::error::{TcError, error};
use belljar_linux_abi::Errno;

const HDR: u16 = 1;
const LIST: u16 = 2;
/// Length of `struct tcf_ematch_hdr` in bytes.
const HEADER: usize = 8;
/// Kinds.
const CONTAINER: u16 = 0;
const CMP: u16 = 1;
const NBYTE: u16 = 2;
const U32: u16 = 3;
/// Relation to the next match, and inversion.
const AND: u16 = 1;
const OR: u16 = 2;
const INVERT: u16 = 4;
/// Maximum nesting of parentheses.
const DEPTH: usize = 32;

/// Match of an expression.
#[derive(Debug)]
struct Ematch {
    kind: u16,
    flags: u16,
    /// `struct tcf_ematch_hdr` and the data, as given.
    bytes: Vec<u8>,
}

/// Expression; an empty one matches every packet.
#[derive(Debug, Default)]
pub(crate) struct Expression {
    header: [u8; 4],
    matches: Vec<Ematch>,
}

impl Expression {
    /// Reads `TCA_EMATCH_TREE_*` (`tcf_em_tree_validate`).
    pub(crate) fn read(attributes: Option<Attributes<'_>>) -> Result<Expression, TcError> {
        let Some(attributes) = attributes else { return Ok(Expression::default()) };
        let header = attributes.array::<4>(HDR)?.ok_or(Errno::EINVAL)?;
        let list = attributes.nested(LIST).ok_or(Errno::EINVAL)?;
        let mut matches = Vec::new();
        for (number, (kind, value)) in list.iter().enumerate() {
            if usize::from(kind) != number + 1 || value.len() < HEADER {
                return Err(Errno::EINVAL.into());
            }
            let (kind, flags, data) = (half(value, 2), half(value, 4), &value[HEADER..]);
            let needed = match kind {
                CONTAINER => 4,
                CMP => 12,
                NBYTE => 8,
                U32 => 16,
                _ => return Err(error(Errno::ENOENT, "kind of extended match not found")),
            };
            if data.len() < needed {
                return Err(Errno::EINVAL.into());
            }
            matches.push(Ematch { kind, flags, bytes: value.to_vec() });
        }
        if matches.len() != usize::from(half(&header, 0)) {
            return Err(Errno::EINVAL.into());
        }
        // Parentheses refer to matches further on.
        let refers = |(at, em): (usize, &Ematch)| {
            em.kind == CONTAINER
                && (word(&em.bytes, HEADER) as usize <= at
                    || word(&em.bytes, HEADER) as usize >= matches.len())
        };
        if matches.iter().enumerate().any(refers) {
            return Err(Errno::EINVAL.into());
        }
        Ok(Expression { header, matches })
    }
    /// True if a packet matches.
    pub(crate) fn matches(&self, buffer: &Buffer) -> bool {
        self.matches.is_empty() || self.sequence(0, buffer, 0)
    }
    /// Result of the matches from `at` to the end of their parentheses.
    fn sequence(&self, mut at: usize, buffer: &Buffer, depth: usize) -> bool {
        loop {
            let Some(em) = self.matches.get(at).filter(|_| depth < DEPTH) else { return false };
            let value = match em.kind {
                CONTAINER => self.sequence(word(&em.bytes, HEADER) as usize, buffer, depth + 1),
                _ => em.matches(buffer),
            };
            let value = value != (em.flags & INVERT != 0);
            match em.flags & (AND | OR) {
                AND if value => at += 1,
                OR if !value => at += 1,
                _ => return value,
            }
        }
    }
    /// Appends the expression.
    pub(crate) fn dump(&self, kind: u16, out: &mut Out) {
        if self.matches.is_empty() {
            return;
        }
        out.nest(kind, |out| {
            out.put(HDR, &self.header);
            out.nest(LIST, |out| {
                for (number, em) in self.matches.iter().enumerate() {
                    out.put(number as u16 + 1, &em.bytes);
                }
            });
        });
    }
}

impl Ematch {
    /// Offset of a layer: link, network or transport.
    fn layer(number: u8, buffer: &Buffer) -> Option<usize> {
        match number {
            0 => Some(0),
            1 => Some(buffer.network_offset()),
            2 => buffer.transport_offset().map(|at| buffer.network_offset() + at),
            _ => None,
        }
    }
    fn matches(&self, buffer: &Buffer) -> bool {
        self.test(buffer).unwrap_or(false)
    }
    fn test(&self, buffer: &Buffer) -> Option<bool> {
        let (data, bytes) = (&self.bytes[HEADER..], buffer.bytes());
        match self.kind {
            CMP => {
                // struct tcf_em_cmp: val, mask, off, align:4 flags:4, layer:4 opnd:4.
                let (align, flags) = (data[10] & 0xf, data[10] >> 4);
                let (layer, operand) = (data[11] & 0xf, data[11] >> 4);
                let at = Ematch::layer(layer, buffer)? + usize::from(half(data, 8));
                let field = bytes.get(at..at + usize::from(align))?;
                let value = match (align, flags & 1 != 0) {
                    (1, _) => u32::from(field[0]),
                    (2, false) => u32::from(u16::from_be_bytes([field[0], field[1]])),
                    (2, true) => u32::from(u16::from_ne_bytes([field[0], field[1]])),
                    (4, false) => u32::from_be_bytes(field.try_into().ok()?),
                    (4, true) => u32::from_ne_bytes(field.try_into().ok()?),
                    _ => return None,
                };
                let mask = word(data, 4);
                let value = if mask != 0 { value & mask } else { value };
                Some(match operand {
                    0 => value == word(data, 0),
                    1 => value > word(data, 0),
                    2 => value < word(data, 0),
                    _ => return None,
                })
            }
            NBYTE => {
                // struct tcf_em_nbyte: off, len:12 layer:4, then the bytes.
                let len = usize::from(half(data, 2) & 0xfff);
                let layer = (half(data, 2) >> 12) as u8;
                let at = Ematch::layer(layer, buffer)? + usize::from(half(data, 0));
                Some(bytes.get(at..at + len)? == data.get(4..4 + len)?)
            }
            U32 => {
                let (mask, value) = (word(data, 0), word(data, 4));
                let offset = i64::from(word(data, 8) as i32) + buffer.network_offset() as i64;
                let at = usize::try_from(offset).ok()?;
                let field = bytes.get(at..at + 4)?;
                Some((word(field, 0) ^ value) & mask == 0)
            }
            _ => None,
        }
    }
}
