//! Attributes of generic netlink messages as bytes: nested attributes, numbers, texts and bit sets.

pub(super) use super::message::put;

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// Request for a family other than the control family.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenericRequest<'a> {
    /// The command.
    pub command: u8,
    /// Attributes.
    pub attributes: &'a [u8],
    /// True if it is a dump.
    pub is_dump: bool,
}

/// Appends an attribute that contains others.
pub fn put_nested(all: &mut Vec<u8>, kind: u16, value: &[u8]) {
    put(all, kind | NESTED, value);
}

/// A sequence of attributes.
pub fn nested(parts: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut all = Vec::new();
    parts.iter().for_each(|(kind, value)| put(&mut all, *kind, value));
    all
}

/// Value of a 32-bit number.
pub fn word(number: u32) -> Vec<u8> {
    number.to_ne_bytes().to_vec()
}

/// Value of a text, with its terminating zero.
pub fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// `ETHTOOL_A_BITSET_*`.
mod bitset {
    pub const NO_MASK: u16 = 1;
    pub const SIZE: u16 = 2;
    pub const BITS: u16 = 3;
    pub const VALUE: u16 = 4;
    pub const MASK: u16 = 5;
    /// Parts of `BITS`.
    pub const BIT: u16 = 1;
    pub const INDEX: u16 = 1;
    pub const NAME: u16 = 2;
    pub const BIT_VALUE: u16 = 3;
}
use bitset::*;

/// A bit set of a message.
#[derive(Clone, Copy, Debug)]
pub struct BitSet<'a> {
    /// The set bits.
    pub value: u64,
    /// The bits that the set is about; `None` for a plain list of set bits.
    pub mask: Option<u64>,
    /// Number of bits.
    pub size: u32,
    /// Names of the bits, `-` for one without a name.
    pub names: &'a [&'a str],
}

impl BitSet<'_> {
    /// The bit set's attributes, in words (`compact`) or bit by bit.
    pub fn emit(&self, compact: bool) -> Vec<u8> {
        let mut all = Vec::new();
        if self.mask.is_none() {
            put(&mut all, NO_MASK, &[]);
        }
        put(&mut all, SIZE, &self.size.to_ne_bytes());
        let len = 4 * self.size.div_ceil(32) as usize;
        if compact {
            put(&mut all, VALUE, &self.value.to_ne_bytes()[..len]);
            if let Some(mask) = self.mask {
                put(&mut all, MASK, &mask.to_ne_bytes()[..len]);
            }
            return all;
        }
        let mut bits = Vec::new();
        for n in (0..self.size.min(64)).filter(|n| self.mask.unwrap_or(self.value) >> n & 1 != 0) {
            let name = self.names.get(n as usize).filter(|name| **name != "-").copied();
            let mut bit = Vec::new();
            put(&mut bit, INDEX, &word(n));
            if let Some(name) = name {
                put(&mut bit, NAME, &text(name));
            }
            if self.mask.is_some() && self.value >> n & 1 != 0 {
                put(&mut bit, BIT_VALUE, &[]);
            }
            put_nested(&mut bits, BIT, &bit);
        }
        put_nested(&mut all, BITS, &bits);
        all
    }
}

/// Parses a bit set of a request with these names; returns its value and mask. `None` if it is malformed or names
/// an unknown bit.
pub fn parse_bits(bytes: &[u8], names: &[&str]) -> Option<(u64, u64)> {
    use super::message::{attribute, attributes};
    let all = |bytes: &[u8]| {
        let mut words = [0; 8];
        let len = bytes.len().min(8);
        words[..len].copy_from_slice(&bytes[..len]);
        u64::from_ne_bytes(words)
    };
    let is_list = attribute(bytes, NO_MASK).is_some();
    let Some(bits) = attribute(bytes, BITS) else {
        let value = all(attribute(bytes, VALUE)?);
        return Some((value, if is_list { u64::MAX } else { all(attribute(bytes, MASK)?) }));
    };
    let (mut value, mut mask) = (0, 0);
    for (_, bit) in attributes(bits).filter(|(kind, _)| *kind == BIT) {
        let index = match (attribute(bit, INDEX), attribute(bit, NAME)) {
            (Some(index), _) => u32::from_ne_bytes(index.try_into().ok()?) as usize,
            (None, Some(name)) => {
                let name = name.strip_suffix(&[0]).unwrap_or(name);
                names.iter().position(|own| own.as_bytes() == name)?
            }
            _ => return None,
        };
        if index >= names.len().min(64) {
            return None;
        }
        mask |= 1 << index;
        if is_list || attribute(bit, BIT_VALUE).is_some() {
            value |= 1 << index;
        }
    }
    Some((value, if is_list { u64::MAX } else { mask }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["first", "-", "third"];

    #[test]
    fn bit_sets_are_read_as_they_are_written() {
        for compact in [false, true] {
            let set = BitSet { value: 4, mask: Some(5), size: 3, names: &NAMES };
            assert_eq!(parse_bits(&set.emit(compact), &NAMES), Some((4, 5)), "{compact}");
            let list = BitSet { mask: None, ..set };
            assert_eq!(parse_bits(&list.emit(compact), &NAMES), Some((4, u64::MAX)), "{compact}");
        }
        let mut unknown = Vec::new();
        let mut bits = Vec::new();
        put_nested(&mut bits, BIT, &nested(&[(NAME, text("second"))]));
        put_nested(&mut unknown, BITS, &bits);
        assert_eq!(parse_bits(&unknown, &NAMES), None);
        assert_eq!(parse_bits(&[], &NAMES), None);
    }
}
