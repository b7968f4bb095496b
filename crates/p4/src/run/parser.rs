//! Parser. An error ends parsing and is reported to ingress in `parser_error`; the parser drops no packet.

use super::Run;
use crate::program::code::Operation;
use crate::program::{Expr, NONE, Transition};

/// Maximum number of states that a packet visits in addition to one per byte.
const MAX_STATES: usize = 1_024;

type Parsed<T> = Result<T, u32>;

impl Run<'_> {
    /// Parses the packet from its first byte.
    pub fn parse(&mut self) {
        self.packet.parsed = 0;
        self.packet.checksum_error = false;
        self.packet.error = self.program.errors.none;
        if let Err(error) = self.states() {
            self.packet.error = error;
            self.trace(|program| {
                let name = program.errors.names.iter().find(|(code, _)| *code == error);
                let name = name.map_or_else(|| error.to_string(), |(_, name)| name.clone());
                format!("  parser error {name}")
            });
        }
        self.verify_checksums();
    }

    fn states(&mut self) -> Parsed<()> {
        let program = self.program;
        let (mut next, mut visits) = (program.first_state, 0);
        while next != NONE {
            visits += 1;
            if visits > MAX_STATES + self.packet.data.len() {
                return Err(program.errors.timeout);
            }
            let state = &program.states[next as usize];
            self.trace(|_| format!("  parser state {}", state.name));
            for operation in &state.operations {
                self.operation(operation)?;
            }
            next = if state.transitions.is_empty() { state.otherwise } else { self.transition(next)? };
            if self.trace.is_some()
                && let Some(condition) = &state.branch
            {
                // The preceding line covers the statements before the branch.
                self.trace_effect();
                let truth = next != state.otherwise;
                self.trace(|_| format!("    if {} is {truth}", crate::trace::condition(condition)));
            }
        }
        Ok(())
    }

    fn left(&self) -> usize {
        self.packet.data.len() - self.packet.parsed
    }
    fn need(&self, bytes: u32) -> Parsed<()> {
        if self.left() < bytes as usize { Err(self.program.errors.packet_too_short) } else { Ok(()) }
    }

    fn operation(&mut self, operation: &Operation) -> Parsed<()> {
        match *operation {
            Operation::Extract { header, length } => self.extract(header, length)?,
            Operation::ExtractStack { stack, length } => {
                let next = self.packet.phv.stacks[stack as usize];
                let headers = &self.program.stacks[stack as usize].headers;
                let Some(header) = headers.get(next as usize).copied() else {
                    return Err(self.program.errors.stack_out_of_bounds);
                };
                self.extract(header, length)?;
                self.packet.phv.stacks[stack as usize] += 1;
            }
            Operation::ExtractUnionStack { stack, member, length } => {
                let next = self.packet.phv.union_stacks[stack as usize];
                let unions = &self.program.union_stacks[stack as usize].unions;
                let Some(union) = unions.get(next as usize) else {
                    return Err(self.program.errors.stack_out_of_bounds);
                };
                let headers = &self.program.unions[*union as usize].headers;
                let Some(header) = headers.get(member as usize).copied() else {
                    return Err(self.program.errors.stack_out_of_bounds);
                };
                self.extract(header, length)?;
                self.packet.phv.union_stacks[stack as usize] += 1;
            }
            Operation::Set { to, value, ahead } => {
                self.need(ahead)?;
                self.assign(to, value);
            }
            Operation::Verify { condition, error } => {
                if !self.env().truth(condition) {
                    return Err(self.env().low(error) as u32);
                }
            }
            Operation::Advance(bits) => {
                let bits = self.env().index(bits);
                if !bits.is_multiple_of(8) {
                    return Err(self.program.errors.invalid_argument);
                }
                if (self.left() as u64) < bits / 8 {
                    return Err(self.program.errors.packet_too_short);
                }
                self.packet.parsed += (bits / 8) as usize;
            }
            Operation::Code { start, end } => self.code(start, end),
        }
        Ok(())
    }

    fn extract(&mut self, header: u32, length: Option<Expr>) -> Parsed<()> {
        let program = self.program;
        let kind = program.kind_of(header);
        let place = &program.headers[header as usize];
        let mut variable = 0;
        if let Some(described) = kind.variable {
            let length = match (length, place.length) {
                (Some(length), _) => Some(length),
                (None, Some(length)) => {
                    // The length is computed from fields of the header itself.
                    self.need(kind.fixed_bits.div_ceil(8))?;
                    let packet = &mut *self.packet;
                    packet.phv.extract(program, header, &packet.data[packet.parsed..], 0);
                    Some(length)
                }
                (None, None) => None,
            };
            if let Some(length) = length {
                let bits = self.env().index(length);
                if !bits.is_multiple_of(8) {
                    return Err(program.errors.invalid_argument);
                }
                let bytes = bits / 8 + u64::from(kind.fixed_bits.div_ceil(8));
                if (self.left() as u64) < bytes {
                    return Err(program.errors.packet_too_short);
                }
                if bits > u64::from(described.max_bits) {
                    return Err(program.errors.header_too_short);
                }
                variable = bits as u32;
            }
        }
        let bytes = (kind.fixed_bits + variable).div_ceil(8);
        self.need(bytes)?;
        let packet = &mut *self.packet;
        packet.phv.extract(program, header, &packet.data[packet.parsed..], variable);
        packet.parsed += bytes as usize;
        self.trace(|program| {
            format!("    extract {} ({bytes} bytes)", program.headers[header as usize].name)
        });
        Ok(())
    }

    fn transition(&mut self, state: u32) -> Parsed<u32> {
        let program = self.program;
        let state = &program.states[state as usize];
        if state.key_bytes <= 16 {
            let mut key = 0u128;
            for part in &state.key {
                self.need(part.ahead)?;
                let bits = part.width.next_multiple_of(8);
                let value = self.env().low(part.value) & crate::bits::mask(part.width);
                key = key.checked_shl(bits).unwrap_or(0) | value;
            }
            for transition in &state.transitions {
                match transition {
                    Transition::Narrow { value, mask, next } if key & mask == *value => return Ok(*next),
                    Transition::Set { set, mask, next } => {
                        let bytes = key.to_be_bytes();
                        if self.in_set(
                            *set,
                            &bytes[16 - state.key_bytes as usize..],
                            mask.as_deref(),
                            &state.key,
                        ) {
                            return Ok(*next);
                        }
                    }
                    _ => {}
                }
            }
            return Ok(state.otherwise);
        }
        let mut key = vec![0; state.key_bytes as usize];
        let mut at = 0;
        for part in &state.key {
            self.need(part.ahead)?;
            let bytes = part.width.div_ceil(8) as usize;
            self.env().bytes(part.value, &mut key[at..at + bytes]);
            if part.width % 8 != 0 {
                key[at] &= 0xff >> (8 - part.width % 8);
            }
            at += bytes;
        }
        for transition in &state.transitions {
            match transition {
                Transition::Wide { value, mask, next } => {
                    if key.iter().zip(mask).zip(value).all(|((key, mask), value)| key & mask == *value) {
                        return Ok(*next);
                    }
                }
                Transition::Set { set, mask, next } => {
                    if self.in_set(*set, &key, mask.as_deref(), &state.key) {
                        return Ok(*next);
                    }
                }
                Transition::Narrow { .. } => {}
            }
        }
        Ok(state.otherwise)
    }

    /// True if a key, each part padded to bytes, is in a value set, whose values are not padded.
    fn in_set(
        &self,
        set: u32,
        key: &[u8],
        mask: Option<&[u8]>,
        parts: &[crate::program::code::KeyPart],
    ) -> bool {
        let values = &self.state.vsets[set as usize];
        if values.is_empty() {
            return false;
        }
        let pack = |padded: &[u8]| {
            let bits: u32 = parts.iter().map(|part| part.width).sum();
            let bytes = bits.div_ceil(8);
            let (mut out, mut to) = (vec![0; bytes as usize + crate::bits::PADDING], bytes * 8 - bits);
            let mut source = padded.to_vec();
            source.resize(padded.len() + crate::bits::PADDING, 0);
            let mut from = 0;
            for part in parts {
                let padding = part.width.next_multiple_of(8) - part.width;
                crate::bits::copy(&mut out, to, &source, from + padding, part.width);
                to += part.width;
                from += padding + part.width;
            }
            out.truncate(bytes as usize);
            out
        };
        let key = pack(key);
        match mask.map(pack) {
            None => values.contains(&key),
            Some(mask) => values.iter().any(|value| {
                let mut bytes = value.iter().zip(&key).zip(&mask);
                bytes.all(|((value, key), mask)| value & mask == key & mask)
            }),
        }
    }
}
