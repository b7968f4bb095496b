//! Encoding of netlink messages, netlink(7): header, family header, attributes.

use super::policy::{ATTRIBUTE, split};
use belljar_linux_abi::Errno;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;

/// Length of `struct nlmsghdr` in bytes.
pub const HEADER_LEN: usize = 16;
/// `NLM_F_MULTI`.
pub const MULTI: u16 = 2;
/// `NLM_F_CAPPED`: the request is not quoted.
pub const CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`: attributes follow.
pub const ACK_TLVS: u16 = 0x200;
/// `NLM_F_ACK`.
pub const ACK: u16 = 4;
/// `NLM_F_DUMP`: `NLM_F_ROOT | NLM_F_MATCH`.
pub const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`.
pub const DONE: u16 = 3;

/// `NLA_TYPE_MASK`: an attribute type without the flags of nested attributes.
pub(super) const TYPE_MASK: u16 = 0x3fff;

/// Addressing of a message: sequence number, flags and the receiver's port id. A notification carries those
/// of the request that caused it, by which daemons distinguish their own changes from others'.
pub type To = (u32, u16, u32);

/// Request: the fields of its header and its payload.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`.
    pub sequence: u32,
    /// Family header and attributes.
    pub body: &'a [u8],
    /// Complete message, quoted in errors.
    pub whole: &'a [u8],
    /// `NETLINK_GET_STRICT_CHK`: queries are checked strictly.
    pub strict: bool,
    /// Message of the extended ack unless an error has one of its own.
    notice: Cell<Option<&'static str>>,
    /// Message of the extended ack that is not constant.
    notice_text: RefCell<Option<String>>,
}

impl<'a> Request<'a> {
    /// Splits the first request off `bytes`; `None` at the end or if it is malformed.
    pub fn split(bytes: &'a [u8]) -> Option<(Request<'a>, &'a [u8])> {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() < HEADER_LEN {
            return None;
        }
        let len = word(0) as usize;
        if len < HEADER_LEN || len > bytes.len() {
            return None;
        }
        let request = Request {
            kind: word(4) as u16,
            flags: (word(4) >> 16) as u16,
            sequence: word(8),
            body: &bytes[HEADER_LEN..len],
            whole: &bytes[..len],
            strict: false,
            notice: Cell::new(None),
            notice_text: RefCell::new(None),
        };
        Some((request, &bytes[len.next_multiple_of(4).min(bytes.len())..]))
    }
    /// True if the request is a dump.
    pub fn is_dump(&self) -> bool {
        // The flags have other meanings in requests for changes.
        self.kind & 3 == 2 && self.flags & DUMP != 0
    }
    /// Sets the message of the extended ack.
    pub fn note(&self, words: &'static str) {
        self.notice.set(Some(words));
    }
    /// Sets the message of the extended ack of a success.
    pub(super) fn note_text(&self, words: String) {
        self.notice_text.replace(Some(words));
    }
    /// Message of the extended ack set by [`note_text`](Self::note_text).
    pub(super) fn notice_text(&self) -> Option<String> {
        self.notice_text.borrow().clone()
    }
    /// Offset of a part of the request.
    pub(super) fn offset_of(&self, part: &[u8]) -> usize {
        part.as_ptr() as usize - self.whole.as_ptr() as usize
    }
    /// Copy of the request whose extended ack is discarded.
    pub(super) fn silent(&self) -> Request<'a> {
        Request { notice: Cell::new(None), ..self.clone() }
    }
    /// Message of the extended ack that was set last.
    pub fn notice(&self) -> Option<&'static str> {
        self.notice.get()
    }
    /// Native-endian word at an offset of the family header.
    pub fn word(&self, at: usize) -> Result<u32, Errno> {
        let bytes = self.body.get(at..at + 4).ok_or(Errno::EINVAL)?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }
    /// Value of a four-byte attribute.
    pub fn number(&self, skip: usize, kind: u16) -> Result<Option<u32>, Errno> {
        let Some(value) = self.attribute(skip, kind) else { return Ok(None) };
        let bytes = value.first_chunk().ok_or(Errno::EINVAL)?;
        Ok(Some(u32::from_ne_bytes(*bytes)))
    }
    /// Attributes after a family header of `skip` bytes.
    pub fn attributes(&self, skip: usize) -> impl Iterator<Item = (u16, &'a [u8])> {
        attributes(self.body.get(skip..).unwrap_or_default())
    }
    /// Value of attribute `kind` after a family header of `skip` bytes.
    pub fn attribute(&self, skip: usize, kind: u16) -> Option<&'a [u8]> {
        attribute(self.body.get(skip..)?, kind)
    }
}

/// Value of attribute `kind` in a sequence of attributes: the last one, as in Linux.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).filter(|(number, _)| *number == kind).last().map(|(_, value)| value)
}

/// Attributes of a sequence, by type without flags.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, value) = split(bytes)?;
        bytes = &bytes[(ATTRIBUTE + value.len()).next_multiple_of(4).min(bytes.len())..];
        Some((kind & TYPE_MASK, value))
    })
}

/// Builder of a message.
#[derive(Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// Starts a message of type `kind` to port id `port`, in answer to `sequence`.
    pub fn new(kind: u16, flags: u16, sequence: u32, port: u32) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&port.to_ne_bytes());
        Message(bytes)
    }
    /// Appends a family header.
    pub fn put(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends an attribute.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        put(&mut self.0, kind, value);
        self
    }
    /// Fills in the length and returns the message, padded to four bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0
    }
}

/// Appends an attribute to a sequence.
pub(super) fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(((value.len() + 4) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Attribute value of an IP address.
pub fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// IP address in an attribute value.
pub fn parse_ip(bytes: &[u8]) -> Result<IpAddr, Errno> {
    match bytes.len() {
        4 => Ok(<[u8; 4]>::try_from(bytes).expect("four bytes").into()),
        16 => Ok(<[u8; 16]>::try_from(bytes).expect("16 bytes").into()),
        _ => Err(Errno::EINVAL),
    }
}
