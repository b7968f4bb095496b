//! Netlink messages of netfilter's subsystems: header, `struct nfgenmsg`, attributes (netlink(7)).

use belljar_linux_abi::Errno;

/// `NFNL_SUBSYS_CTNETLINK`.
pub const CONNECTIONS: u8 = 1;
/// `NFNL_SUBSYS_CTNETLINK_EXP`.
pub const EXPECTATIONS: u8 = 2;

/// `NLM_F_MULTI`.
pub(super) const MULTI: u16 = 0x2;
/// `NLM_F_ECHO`: the requester receives the notification, too.
pub(super) const ECHO: u16 = 0x8;
/// `NLM_F_DUMP_FILTERED`: a filter was applied to the dump.
pub(super) const DUMP_FILTERED: u16 = 0x20;
/// `NLM_F_DUMP`.
pub(super) const DUMP: u16 = 0x300;
/// `NLM_F_EXCL` of requests for changes.
pub(super) const EXCL: u16 = 0x200;
/// `NLM_F_CREATE` of requests for changes.
pub(super) const CREATE: u16 = 0x400;

/// Length of `struct nlmsghdr` and `struct nfgenmsg` in bytes.
const HEADERS_LEN: usize = 20;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// `NLA_TYPE_MASK`.
const TYPE_MASK: u16 = 0x3fff;

/// Message under construction.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

/// Addressing of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope {
    pub subsystem: u8,
    pub kind: u8,
    pub flags: u16,
    pub sequence: u32,
    pub port: u32,
    pub family: u8,
    /// `res_id`: the processor of statistics.
    pub resource: u16,
}

impl Writer {
    pub fn new(envelope: Envelope) -> Writer {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend([envelope.kind, envelope.subsystem]);
        bytes.extend(envelope.flags.to_ne_bytes());
        bytes.extend(envelope.sequence.to_ne_bytes());
        bytes.extend(envelope.port.to_ne_bytes());
        bytes.extend([envelope.family, 0]);
        bytes.extend(envelope.resource.to_be_bytes());
        Writer { bytes }
    }

    /// Adds an attribute with its padding.
    pub fn put(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn put_u8(&mut self, kind: u16, value: u8) {
        self.put(kind, &[value]);
    }

    pub fn put_be16(&mut self, kind: u16, value: u16) {
        self.put(kind, &value.to_be_bytes());
    }

    pub fn put_be32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_be_bytes());
    }

    pub fn put_be64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_be_bytes());
    }

    /// Adds a text with its terminator.
    pub fn put_text(&mut self, kind: u16, text: &str) {
        self.put(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// Adds a nested attribute with what `fill` adds.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Writer)) {
        let at = self.bytes.len();
        self.put(kind | NESTED, &[]);
        fill(self);
        let len = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// The complete message.
    pub fn finish(mut self) -> Vec<u8> {
        debug_assert!(self.bytes.len() >= HEADERS_LEN);
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes
    }
}

/// Attributes of a message, by type. Of several with one type the last counts.
pub(super) struct Attributes<'a> {
    values: Vec<Option<&'a [u8]>>,
}

impl<'a> Attributes<'a> {
    /// Reads attributes up to type `greatest`; others are ignored. `EINVAL` for an attribute that is longer
    /// than its message.
    pub fn parse(mut bytes: &'a [u8], greatest: u16) -> Result<Attributes<'a>, Errno> {
        let mut values = vec![None; usize::from(greatest) + 1];
        while bytes.len() >= 4 {
            let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
            let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & TYPE_MASK;
            let value = bytes.get(4..len).ok_or(Errno::EINVAL)?;
            if let Some(held) = values.get_mut(usize::from(kind)) {
                *held = Some(value);
            }
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Attributes { values })
    }

    /// Reads the attributes within the one of type `kind`.
    pub fn nested(&self, kind: u16, greatest: u16) -> Result<Option<Attributes<'a>>, Errno> {
        self.get(kind).map(|bytes| Attributes::parse(bytes, greatest)).transpose()
    }

    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.values.get(usize::from(kind)).copied().flatten()
    }

    pub fn has(&self, kind: u16) -> bool {
        self.get(kind).is_some()
    }

    /// First byte of an attribute; `ERANGE` if it is empty.
    pub fn u8(&self, kind: u16) -> Result<Option<u8>, Errno> {
        self.get(kind).map(|bytes| bytes.first().copied().ok_or(Errno::ERANGE)).transpose()
    }

    pub fn be16(&self, kind: u16) -> Result<Option<u16>, Errno> {
        self.fixed(kind).map(|bytes| bytes.map(u16::from_be_bytes))
    }

    pub fn be32(&self, kind: u16) -> Result<Option<u32>, Errno> {
        self.fixed(kind).map(|bytes| bytes.map(u32::from_be_bytes))
    }

    /// First bytes of an attribute; `ERANGE` if there are fewer.
    pub fn fixed<const N: usize>(&self, kind: u16) -> Result<Option<[u8; N]>, Errno> {
        let Some(bytes) = self.get(kind) else { return Ok(None) };
        let bytes = bytes.get(..N).ok_or(Errno::ERANGE)?;
        Ok(bytes.try_into().ok())
    }

    /// Text up to its terminator; `EINVAL` if it is not UTF-8.
    pub fn text(&self, kind: u16) -> Result<Option<&'a str>, Errno> {
        let Some(bytes) = self.get(kind) else { return Ok(None) };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).map(Some).map_err(|_| Errno::EINVAL)
    }
}
