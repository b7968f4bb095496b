//! TCP (RFC 9293, section 3.1) with the options MSS, window scale, SACK-permitted, SACK and
//! timestamps (RFC 7323, RFC 2018).

mod options;
mod seq;

pub use options::{FastOpen, Options, SackBlocks, Timestamps};
pub use seq::Seq;

use crate::checksum::Checksum;
use crate::{ParseError, be16, be32, protocol, put16, put32};
use bitflags::bitflags;
use std::net::IpAddr;

mod field {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const SEQ: usize = 4;
    pub const ACK: usize = 8;
    pub const OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
    pub const URGENT: usize = 18;
}

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Maximum length of a header in bytes: the data offset has four bits.
pub const MAX_HEADER_LEN: usize = 60;

bitflags! {
    /// Control bits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// No more data from the sender.
        const FIN = 0x01;
        /// Synchronize sequence numbers.
        const SYN = 0x02;
        /// Reset the connection.
        const RST = 0x04;
        /// Push: deliver the data to the reader without delay.
        const PSH = 0x08;
        /// The acknowledgment number is valid.
        const ACK = 0x10;
        /// The urgent pointer is valid.
        const URG = 0x20;
        /// ECN echo (RFC 3168).
        const ECE = 0x40;
        /// Congestion window reduced (RFC 3168).
        const CWR = 0x80;
    }
}

/// TCP segment over bytes, from the header on.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that `bytes` holds the header of the length in its data offset.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, ParseError> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        let header_len = usize::from(b[field::OFFSET] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(ParseError::Malformed);
        }
        if header_len > b.len() {
            return Err(ParseError::Truncated);
        }
        Ok(Packet { bytes })
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        be16(self.bytes.as_ref(), field::SRC_PORT)
    }
    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes.as_ref(), field::DST_PORT)
    }
    /// Sequence number of the first byte (or of SYN).
    pub fn seq(&self) -> Seq {
        Seq(be32(self.bytes.as_ref(), field::SEQ))
    }
    /// Next sequence number that the sender expects; meaningless without [`Flags::ACK`].
    pub fn ack(&self) -> Seq {
        Seq(be32(self.bytes.as_ref(), field::ACK))
    }
    /// Length of header and options in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes.as_ref()[field::OFFSET] >> 4) * 4
    }
    /// Control bits.
    pub fn flags(&self) -> Flags {
        Flags::from_bits_retain(self.bytes.as_ref()[field::FLAGS])
    }
    /// Window field, not scaled.
    pub fn window(&self) -> u16 {
        be16(self.bytes.as_ref(), field::WINDOW)
    }
    /// Checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), field::CHECKSUM)
    }
    /// Urgent pointer; meaningless without [`Flags::URG`].
    pub fn urgent(&self) -> u16 {
        be16(self.bytes.as_ref(), field::URGENT)
    }
    /// Option bytes, padding included.
    pub fn options(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..self.header_len()]
    }
    /// Bytes after the header.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..]
    }
    /// True if the checksum matches addresses and content.
    pub fn verify_checksum(&self, src: IpAddr, dst: IpAddr) -> bool {
        let b = self.bytes.as_ref();
        Checksum::new().pseudo_header(src, dst, protocol::TCP, b.len() as u32).add_bytes(b).is_valid()
    }
}

/// TCP header as a plain value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte (or of SYN).
    pub seq: Seq,
    /// Next sequence number expected; meaningless without [`Flags::ACK`], and then zero.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window field, not scaled.
    pub window: u16,
    /// Urgent pointer; meaningless without [`Flags::URG`].
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Parses a checked segment. The checksum is not verified: see [`Packet::verify_checksum`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            options: Options::parse(packet.options()),
        }
    }

    /// Length of the emitted header in bytes, options and padding included.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.emitted_len()
    }

    /// Number of sequence numbers that a segment with `payload_len` bytes occupies.
    pub fn sequence_len(&self, payload_len: usize) -> u32 {
        payload_len as u32 + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }

    /// True if all of `flags` are set.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes of `bytes`, with a
    /// checksum of zero.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        put16(bytes, field::SRC_PORT, self.src_port);
        put16(bytes, field::DST_PORT, self.dst_port);
        put32(bytes, field::SEQ, self.seq.0);
        put32(bytes, field::ACK, self.ack.0);
        bytes[field::OFFSET] = ((header_len / 4) as u8) << 4;
        bytes[field::FLAGS] = self.flags.bits();
        put16(bytes, field::WINDOW, self.window);
        put16(bytes, field::CHECKSUM, 0);
        put16(bytes, field::URGENT, self.urgent);
        self.options.emit(&mut bytes[HEADER_LEN..header_len]);
    }

    /// Appends header, payload (in two pieces, as in a ring buffer) and checksum to `out`.
    pub fn append(&self, src: IpAddr, dst: IpAddr, payload: (&[u8], &[u8]), out: &mut Vec<u8>) {
        let start = out.len();
        self.append_open(payload, out);
        fill_checksum(src, dst, &mut out[start..]);
    }

    /// Appends header and payload as [`append`](Self::append) does, with a checksum of zero that
    /// [`fill_checksum`] computes if it is needed.
    pub fn append_open(&self, payload: (&[u8], &[u8]), out: &mut Vec<u8>) {
        let start = out.len();
        let header_len = self.header_len();
        out.reserve(header_len + payload.0.len() + payload.1.len());
        out.resize(start + header_len, 0);
        self.emit(&mut out[start..]);
        out.extend_from_slice(payload.0);
        out.extend_from_slice(payload.1);
    }
}

/// Computes and stores the checksum of `segment`, a complete TCP segment.
pub fn fill_checksum(src: IpAddr, dst: IpAddr, segment: &mut [u8]) {
    put16(segment, field::CHECKSUM, 0);
    let sum = crate::checksum::transport(src, dst, protocol::TCP, segment);
    put16(segment, field::CHECKSUM, sum);
}

#[cfg(test)]
mod tests;
