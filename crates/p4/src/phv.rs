//! Packet header vector: headers and metadata of a packet in the switch.
//!
//! As in simple_switch, a header that becomes invalid keeps its fields, which remain readable and writable;
//! `add_header` clears them. A packet starts with all fields 0.

use crate::bits::{self, PADDING};
use crate::program::{Field, Program};

/// Headers and metadata of one packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phv {
    pub bytes: Vec<u8>,
    pub valid: Vec<bool>,
    /// Width in bits of the variable-width field of each header.
    pub variable: Vec<u32>,
    /// Number of headers extracted to or pushed on each stack.
    pub stacks: Vec<u32>,
    pub union_stacks: Vec<u32>,
}

impl Phv {
    /// Resets the state to that of an unparsed packet.
    pub fn reset(&mut self, program: &Program) {
        refill(&mut self.bytes, program.phv_bytes + PADDING);
        refill(&mut self.variable, program.headers.len());
        refill(&mut self.stacks, program.stacks.len());
        refill(&mut self.union_stacks, program.union_stacks.len());
        self.valid.clear();
        self.valid.extend(program.headers.iter().map(|header| header.metadata));
    }
    /// Copies another packet's state without reallocation.
    pub fn copy_from(&mut self, other: &Phv) {
        self.bytes.clone_from(&other.bytes);
        self.valid.clone_from(&other.valid);
        self.variable.clone_from(&other.variable);
        self.stacks.clone_from(&other.stacks);
        self.union_stacks.clone_from(&other.union_stacks);
    }
    pub fn reset_metadata(&mut self, program: &Program) {
        for range in &program.metadata {
            self.bytes[range.clone()].fill(0);
        }
    }

    /// Reads a field of at most 128 bits.
    #[inline]
    pub fn get(&self, field: &Field) -> u128 {
        bits::get(&self.bytes, field.offset, field.width)
    }
    /// Writes the lowest bits of `value` to a field of at most 128 bits.
    #[inline]
    pub fn set(&mut self, field: &Field, value: u128) {
        bits::set(&mut self.bytes, field.offset, field.width, value);
    }
    /// Writes an optional field; does nothing if the program lacks it.
    #[inline]
    pub fn put(&mut self, field: Option<Field>, value: u64) {
        if let Some(field) = field {
            self.set(&field, u128::from(value));
        }
    }
    /// Reads an optional field; 0 if the program lacks it.
    #[inline]
    pub fn read(&self, field: Option<Field>) -> u64 {
        field.map_or(0, |field| self.get(&field) as u64)
    }
    pub fn set_bytes(&mut self, field: &Field, value: &[u8]) {
        bits::set_bytes(&mut self.bytes, field.offset, field.width, value);
    }

    /// Length of a header on the wire, in bytes.
    pub fn len(&self, program: &Program, header: u32) -> u32 {
        (program.kind_of(header).fixed_bits + self.variable[header as usize]).div_ceil(8)
    }

    /// Makes a header valid, and the other headers of its union invalid.
    pub fn set_valid(&mut self, program: &Program, header: u32) {
        self.valid[header as usize] = true;
        if let Some(union) = program.headers[header as usize].union {
            for other in &program.unions[union as usize].headers {
                if *other != header {
                    self.set_invalid(program, *other);
                }
            }
        }
    }
    /// Makes a header invalid. Its fields keep their values.
    pub fn set_invalid(&mut self, program: &Program, header: u32) {
        if !program.headers[header as usize].metadata {
            self.valid[header as usize] = false;
        }
    }
    /// Clears the fields of a header.
    pub fn clear(&mut self, program: &Program, header: u32) {
        self.variable[header as usize] = 0;
        let at = program.headers[header as usize].at as usize;
        let bytes = program.kind_of(header).bytes as usize;
        self.bytes[at..at + bytes].fill(0);
    }

    /// Swaps the fields and validity of two headers of one type.
    pub fn swap_headers(&mut self, program: &Program, left: u32, right: u32) {
        let bytes = program.kind_of(left).bytes as usize;
        let at = |header: u32| program.headers[header as usize].at as usize;
        for byte in 0..bytes {
            self.bytes.swap(at(left) + byte, at(right) + byte);
        }
        self.valid.swap(left as usize, right as usize);
        self.variable.swap(left as usize, right as usize);
    }

    pub fn copy_header(&mut self, program: &Program, to: u32, from: u32) {
        if to == from {
            return;
        }
        if !self.valid[from as usize] {
            self.set_invalid(program, to);
            return;
        }
        self.set_valid(program, to);
        let (source, place) = (&program.headers[from as usize], &program.headers[to as usize]);
        let bytes = program.types[source.kind as usize].bytes as usize;
        self.bytes.copy_within(source.at as usize..source.at as usize + bytes, place.at as usize);
        self.variable[to as usize] = self.variable[from as usize];
    }
    /// True if two headers of one type are equal: both invalid, or both valid with equal fields.
    pub fn same_header(&self, program: &Program, left: u32, right: u32) -> bool {
        let (a, b) = (self.valid[left as usize], self.valid[right as usize]);
        if !a || !b {
            return a == b;
        }
        let (left_at, right_at) =
            (program.headers[left as usize].at as usize, program.headers[right as usize].at as usize);
        let bytes = program.kind_of(left).bytes as usize;
        self.variable[left as usize] == self.variable[right as usize]
            && self.bytes[left_at..left_at + bytes] == self.bytes[right_at..right_at + bytes]
    }

    /// Extracts a header from `bytes`, which contain all of it.
    pub fn extract(&mut self, program: &Program, header: u32, bytes: &[u8], variable: u32) {
        self.set_valid(program, header);
        let kind = program.kind_of(header);
        let at = program.headers[header as usize].at as usize;
        let len = (kind.fixed_bits + variable).div_ceil(8) as usize;
        match kind.variable {
            None => self.bytes[at..at + len].copy_from_slice(&bytes[..len]),
            Some(place) => {
                let start = (at * 8) as u32;
                // Remains of an earlier, longer header would affect comparisons.
                self.clear(program, header);
                self.variable[header as usize] = variable;
                let mut padded = vec![0; len + PADDING];
                padded[..len].copy_from_slice(&bytes[..len]);
                bits::copy(&mut self.bytes, start, &padded, 0, place.before);
                bits::copy(&mut self.bytes, start + place.offset, &padded, place.before, variable);
                let after = kind.fixed_bits - place.before;
                bits::copy(&mut self.bytes, start + place.before, &padded, place.before + variable, after);
            }
        }
    }

    /// Copies the variable-width field of a header from another packet's state.
    pub fn copy_variable(&mut self, program: &Program, header: u32, from: &Phv) {
        let Some(place) = program.kind_of(header).variable else { return };
        let at = program.headers[header as usize].at * 8 + place.offset;
        let bits = from.variable[header as usize];
        self.variable[header as usize] = bits;
        bits::copy(&mut self.bytes, at, &from.bytes, at, bits);
    }

    /// Serializes a header; `out` has room for it and the padding.
    pub fn emit(&self, program: &Program, header: u32, out: &mut [u8]) {
        let kind = program.kind_of(header);
        let at = program.headers[header as usize].at as usize;
        let variable = self.variable[header as usize];
        match kind.variable {
            None => {
                let len = kind.fixed_bits.div_ceil(8) as usize;
                out[..len].copy_from_slice(&self.bytes[at..at + len]);
            }
            Some(place) => {
                let start = (at * 8) as u32;
                bits::copy(out, 0, &self.bytes, start, place.before);
                bits::copy(out, place.before, &self.bytes, start + place.offset, variable);
                let after = kind.fixed_bits - place.before;
                bits::copy(out, place.before + variable, &self.bytes, start + place.before, after);
            }
        }
    }
}

fn refill<T: Clone + Default>(vec: &mut Vec<T>, len: usize) {
    vec.clear();
    vec.resize(len, T::default());
}
