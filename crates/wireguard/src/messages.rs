//! Formats of the four messages. Numbers are little-endian.

use crate::primitives::{Key, TAG_LEN};

/// Types of messages: the first byte, followed by three zeros.
pub const INITIATION: u32 = 1;
/// Response to an initiation.
pub const RESPONSE: u32 = 2;
/// Cookie reply.
pub const COOKIE: u32 = 3;
/// Transport data.
pub const DATA: u32 = 4;

/// Length of an initiation in bytes.
pub const INITIATION_LEN: usize = 148;
/// Length of a response in bytes.
pub const RESPONSE_LEN: usize = 92;
/// Length of a cookie reply in bytes.
pub const COOKIE_LEN: usize = 64;
/// Length of the header of transport data in bytes.
pub const DATA_HEADER_LEN: usize = 16;
/// Length of transport data without a packet: a keepalive.
pub const KEEPALIVE_LEN: usize = DATA_HEADER_LEN + TAG_LEN;
/// Length of both MACs at the end of a handshake message.
pub const MACS_LEN: usize = 32;
/// Length of a time stamp (TAI64N) in bytes.
pub const TIMESTAMP_LEN: usize = 12;

/// Reader of the fields of a message of a known length.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().expect("the length of the message is checked");
        self.0 = rest;
        *field
    }
    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}

/// Handshake initiation without its MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiation {
    /// Index of the initiator.
    pub sender: u32,
    /// Ephemeral public key.
    pub ephemeral: Key,
    /// Encrypted static public key.
    pub static_key: [u8; 48],
    /// Encrypted time stamp.
    pub timestamp: [u8; TIMESTAMP_LEN + TAG_LEN],
}

impl Initiation {
    /// Reads a message of [`INITIATION_LEN`] bytes.
    pub fn parse(bytes: &[u8; INITIATION_LEN]) -> Initiation {
        let mut fields = Fields(&bytes[4..]);
        Initiation {
            sender: fields.word(),
            ephemeral: fields.take(),
            static_key: fields.take(),
            timestamp: fields.take(),
        }
    }
    /// Writes the message, with MACs of zero.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = INITIATION.to_le_bytes().to_vec();
        out.extend(self.sender.to_le_bytes());
        out.extend(self.ephemeral);
        out.extend(self.static_key);
        out.extend(self.timestamp);
        out.extend([0; MACS_LEN]);
        out
    }
}

/// Handshake response without its MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Index of the responder.
    pub sender: u32,
    /// Index of the initiator.
    pub receiver: u32,
    /// Ephemeral public key.
    pub ephemeral: Key,
    /// Encrypted empty text.
    pub empty: [u8; TAG_LEN],
}

impl Response {
    /// Reads a message of [`RESPONSE_LEN`] bytes.
    pub fn parse(bytes: &[u8; RESPONSE_LEN]) -> Response {
        let mut fields = Fields(&bytes[4..]);
        Response {
            sender: fields.word(),
            receiver: fields.word(),
            ephemeral: fields.take(),
            empty: fields.take(),
        }
    }
    /// Writes the message, with MACs of zero.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = RESPONSE.to_le_bytes().to_vec();
        out.extend(self.sender.to_le_bytes());
        out.extend(self.receiver.to_le_bytes());
        out.extend(self.ephemeral);
        out.extend(self.empty);
        out.extend([0; MACS_LEN]);
        out
    }
}

/// Cookie reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieReply {
    /// Index of the sender of the message that is answered.
    pub receiver: u32,
    /// Nonce.
    pub nonce: [u8; 24],
    /// Encrypted cookie.
    pub cookie: [u8; 32],
}

impl CookieReply {
    /// Reads a message of [`COOKIE_LEN`] bytes.
    pub fn parse(bytes: &[u8; COOKIE_LEN]) -> CookieReply {
        let mut fields = Fields(&bytes[4..]);
        CookieReply { receiver: fields.word(), nonce: fields.take(), cookie: fields.take() }
    }
    /// Writes the message.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = COOKIE.to_le_bytes().to_vec();
        out.extend(self.receiver.to_le_bytes());
        out.extend(self.nonce);
        out.extend(self.cookie);
        out
    }
}

/// Header of transport data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Index of the receiver.
    pub receiver: u32,
    /// Counter of the packet, its nonce.
    pub counter: u64,
}

impl DataHeader {
    /// Reads the header.
    pub fn parse(bytes: &[u8; DATA_HEADER_LEN]) -> DataHeader {
        let mut fields = Fields(&bytes[4..]);
        DataHeader { receiver: fields.word(), counter: u64::from_le_bytes(fields.take()) }
    }
    /// Writes the header.
    pub fn emit(&self) -> [u8; DATA_HEADER_LEN] {
        let mut out = [0; DATA_HEADER_LEN];
        out[..4].copy_from_slice(&DATA.to_le_bytes());
        out[4..8].copy_from_slice(&self.receiver.to_le_bytes());
        out[8..].copy_from_slice(&self.counter.to_le_bytes());
        out
    }
}

/// Type of a message whose length is that of its type (`validate_header_len`).
pub fn kind(bytes: &[u8]) -> Option<u32> {
    let kind = u32::from_le_bytes(*bytes.first_chunk()?);
    let fits = match kind {
        INITIATION => bytes.len() == INITIATION_LEN,
        RESPONSE => bytes.len() == RESPONSE_LEN,
        COOKIE => bytes.len() == COOKIE_LEN,
        DATA => bytes.len() >= KEEPALIVE_LEN,
        _ => false,
    };
    fits.then_some(kind)
}
