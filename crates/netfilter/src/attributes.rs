//! Netlink attributes: a reader that knows the offset of each attribute in its message, and a writer. Numbers
//! of nf_tables are in network byte order.

use belljar_linux_abi::Errno;

/// Length of the header of an attribute in bytes.
const HEADER: usize = 4;
/// `NLA_TYPE_MASK`.
const TYPE_MASK: u16 = 0x3fff;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// Error of a request, with the offset of the attribute that caused it (`NLMSGERR_ATTR_OFFS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetfilterError {
    /// The error number.
    pub errno: Errno,
    /// Offset of the attribute in the message, if one is to blame.
    pub at: Option<u32>,
}

impl From<Errno> for NetfilterError {
    fn from(errno: Errno) -> NetfilterError {
        NetfilterError { errno, at: None }
    }
}

/// Attribute value with the offset of its header in the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Attribute<'a> {
    /// An error to blame on this attribute.
    pub(crate) fn failure(&self, errno: Errno) -> NetfilterError {
        NetfilterError { errno, at: Some(self.at as u32) }
    }
    pub(crate) fn u32(&self) -> Result<u32, NetfilterError> {
        let bytes = self.value.first_chunk().ok_or(self.failure(Errno::ERANGE))?;
        Ok(u32::from_be_bytes(*bytes))
    }
    pub(crate) fn u64(&self) -> Result<u64, NetfilterError> {
        let bytes = self.value.first_chunk().ok_or(self.failure(Errno::ERANGE))?;
        Ok(u64::from_be_bytes(*bytes))
    }
    /// Text up to its first zero byte, of at most 255 bytes.
    pub(crate) fn text(&self) -> Result<&'a str, NetfilterError> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        if end > 255 {
            return Err(self.failure(Errno::ERANGE));
        }
        str::from_utf8(&self.value[..end]).map_err(|_| self.failure(Errno::EINVAL))
    }
    /// Attributes within this one.
    pub(crate) fn nested(&self) -> Attributes<'a> {
        Attributes { bytes: self.value, at: self.at + HEADER }
    }
}

/// Sequence of attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    bytes: &'a [u8],
    /// Offset of the bytes in the message.
    at: usize,
}

impl<'a> Attributes<'a> {
    /// The attributes that begin at an offset of a message.
    pub(crate) fn of_message(message: &'a [u8], at: usize) -> Attributes<'a> {
        Attributes { bytes: message.get(at..).unwrap_or_default(), at }
    }
    /// All attributes with their types. Ends at the first malformed one.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, Attribute<'a>)> {
        let Attributes { mut bytes, mut at } = self;
        std::iter::from_fn(move || {
            let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
            let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & TYPE_MASK;
            let value = bytes.get(HEADER..len)?;
            let found = Attribute { value, at };
            let step = len.next_multiple_of(4).min(bytes.len());
            bytes = &bytes[step..];
            at += step;
            Some((kind, found))
        })
    }
    /// The last attribute of a type, as in Linux.
    pub(crate) fn get(self, kind: u16) -> Option<Attribute<'a>> {
        self.iter().filter(|(number, _)| *number == kind).last().map(|(_, found)| found)
    }
    /// An attribute that must be present: else `EINVAL`.
    pub(crate) fn need(self, kind: u16) -> Result<Attribute<'a>, NetfilterError> {
        self.get(kind).ok_or(Errno::EINVAL.into())
    }
    pub(crate) fn u32(self, kind: u16) -> Result<Option<u32>, NetfilterError> {
        self.get(kind).map(|found| found.u32()).transpose()
    }
    pub(crate) fn u64(self, kind: u16) -> Result<Option<u64>, NetfilterError> {
        self.get(kind).map(|found| found.u64()).transpose()
    }
    pub(crate) fn text(self, kind: u16) -> Result<Option<&'a str>, NetfilterError> {
        self.get(kind).map(|found| found.text()).transpose()
    }
}

/// Writer of attributes.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&((value.len() + HEADER) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }
    pub(crate) fn u16(&mut self, kind: u16, value: u16) {
        self.bytes(kind, &value.to_be_bytes());
    }
    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }
    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_be_bytes());
    }
    /// Text with its final zero byte.
    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes);
    }
    /// An attribute of attributes.
    pub(crate) fn nest(&mut self, kind: u16, content: impl FnOnce(&mut Writer)) {
        let start = self.0.len();
        self.bytes(kind | NESTED, &[]);
        content(self);
        let len = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut writer = Writer(vec![0; 20]);
        writer.text(1, "filter");
        writer.nest(2, |inner| {
            inner.u32(1, 7);
            inner.u64(2, 8);
        });
        let message = writer.0;
        let all = Attributes::of_message(&message, 20);
        assert_eq!(all.text(1), Ok(Some("filter")));
        let nest = all.get(2).unwrap();
        assert_eq!((nest.at, nest.nested().u32(1), nest.nested().u64(2)), (32, Ok(Some(7)), Ok(Some(8))));
        assert_eq!(nest.nested().get(2).unwrap().at, 44);
        assert_eq!(all.u64(1).unwrap_err(), NetfilterError { errno: Errno::ERANGE, at: Some(20) });
        assert_eq!(all.need(9).unwrap_err(), Errno::EINVAL.into());
    }

    #[test]
    fn malformed_attributes_end_the_sequence() {
        for bytes in [&[][..], &[3, 0, 1, 0], &[8, 0, 1, 0, 1], &[4, 0], &[0; 12]] {
            assert_eq!(Attributes::of_message(bytes, 0).iter().count(), 0, "{bytes:?}");
        }
    }
}
