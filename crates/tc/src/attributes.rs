//! Netlink attributes: a view of those of a request, and a builder of those of an answer.

use crate::error::{SHORT, TcError};

/// Length of an attribute's header.
const HEADER: usize = 4;
/// `NLA_TYPE_MASK`: a type without the flags of nested attributes.
const TYPE_MASK: u16 = 0x3fff;

/// View of a sequence of attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// All attributes in order, by type without flags.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut bytes = self.0;
        std::iter::from_fn(move || {
            let head = bytes.first_chunk::<HEADER>()?;
            let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            if len < HEADER || len > bytes.len() {
                return None;
            }
            let value = &bytes[HEADER..len];
            bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
            Some((u16::from_ne_bytes([head[2], head[3]]) & TYPE_MASK, value))
        })
    }
    /// Value of an attribute: the last one of its type, as in Linux.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().filter(|(number, _)| *number == kind).last().map(|(_, value)| value)
    }
    /// First `N` bytes of an attribute.
    pub(crate) fn array<const N: usize>(self, kind: u16) -> Result<Option<[u8; N]>, TcError> {
        self.get(kind).map(|value| value.first_chunk::<N>().copied().ok_or(SHORT)).transpose()
    }
    /// Number of one byte.
    pub(crate) fn u8(self, kind: u16) -> Result<Option<u8>, TcError> {
        Ok(self.array::<1>(kind)?.map(|[byte]| byte))
    }
    /// Number of two bytes.
    pub(crate) fn u16(self, kind: u16) -> Result<Option<u16>, TcError> {
        Ok(self.array(kind)?.map(u16::from_ne_bytes))
    }
    /// Number of two bytes in network order.
    pub(crate) fn be16(self, kind: u16) -> Result<Option<u16>, TcError> {
        Ok(self.array(kind)?.map(u16::from_be_bytes))
    }
    /// Number of four bytes.
    pub(crate) fn u32(self, kind: u16) -> Result<Option<u32>, TcError> {
        Ok(self.array(kind)?.map(u32::from_ne_bytes))
    }
    /// Number of eight bytes.
    pub(crate) fn u64(self, kind: u16) -> Result<Option<u64>, TcError> {
        Ok(self.array(kind)?.map(u64::from_ne_bytes))
    }
    /// Nested attributes.
    pub(crate) fn nested(self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(Attributes)
    }
    /// Text up to its NUL byte.
    pub(crate) fn text(self, kind: u16) -> Option<&'a [u8]> {
        self.get(kind).map(|value| value.split(|byte| *byte == 0).next().unwrap_or_default())
    }
}

/// Native-endian word of a structure.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}

/// Native-endian half word of a structure.
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |half| u16::from_ne_bytes([half[0], half[1]]))
}

/// Native-endian double word of a structure.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Words as the bytes of a structure.
pub(crate) fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Builder of a sequence of attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    /// Appends an attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((value.len() + HEADER) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
    /// Appends a number of one byte.
    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.put(kind, &[value]);
    }
    /// Appends a number of two bytes.
    pub(crate) fn u16(&mut self, kind: u16, value: u16) {
        self.put(kind, &value.to_ne_bytes());
    }
    /// Appends a number of four bytes.
    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }
    /// Appends a number of eight bytes.
    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }
    /// Appends a text with its NUL byte.
    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        self.put(kind, &[value.as_bytes(), &[0]].concat());
    }
    /// Appends nested attributes.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Out)) {
        let mut inner = Out::default();
        fill(&mut inner);
        self.put(kind, &inner.0);
    }
}
