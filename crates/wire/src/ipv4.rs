//! IPv4 (RFC 791). Options are skipped when read and never emitted.

use crate::checksum::{self, Checksum};
use crate::{Ecn, ParseError, be16, put16};
use std::net::Ipv4Addr;

mod field {
    pub const VERSION_IHL: usize = 0;
    pub const TOS: usize = 1;
    pub const TOTAL_LEN: usize = 2;
    pub const IDENT: usize = 4;
    pub const FLAGS_OFFSET: usize = 6;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SRC: usize = 12;
    pub const DST: usize = 16;
}

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Packet length in bytes that every host must accept (RFC 791, section 3.1).
pub const MIN_MTU: usize = 576;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Packet over bytes; Ethernet padding may follow it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version and lengths, but not the header checksum: see
    /// [`verify_checksum`](Self::verify_checksum).
    pub fn new_checked(bytes: T) -> Result<Packet<T>, ParseError> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        let packet = Packet { bytes };
        let b = packet.bytes.as_ref();
        if b[field::VERSION_IHL] >> 4 != 4
            || packet.header_len() < HEADER_LEN
            || packet.total_len() < packet.header_len()
        {
            return Err(ParseError::Malformed);
        }
        if b.len() < packet.total_len() {
            return Err(ParseError::Truncated);
        }
        Ok(packet)
    }

    /// Length of header and options in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes.as_ref()[field::VERSION_IHL] & 0xf) * 4
    }
    /// Length of the packet in bytes.
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), field::TOTAL_LEN))
    }
    /// TOS byte: DSCP and ECN.
    pub fn tos(&self) -> u8 {
        self.bytes.as_ref()[field::TOS]
    }
    /// ECN codepoint.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.tos())
    }
    /// Identification, common to the fragments of a packet.
    pub fn ident(&self) -> u16 {
        be16(self.bytes.as_ref(), field::IDENT)
    }
    /// Don't-fragment flag.
    pub fn dont_fragment(&self) -> bool {
        be16(self.bytes.as_ref(), field::FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }
    /// More-fragments flag.
    pub fn more_fragments(&self) -> bool {
        be16(self.bytes.as_ref(), field::FLAGS_OFFSET) & MORE_FRAGMENTS != 0
    }
    /// Offset of the payload in the original one, in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), field::FLAGS_OFFSET) & OFFSET_MASK) * 8
    }
    /// Time to live in hops.
    pub fn ttl(&self) -> u8 {
        self.bytes.as_ref()[field::TTL]
    }
    /// Protocol of the payload: see [`protocol`](crate::protocol).
    pub fn protocol(&self) -> u8 {
        self.bytes.as_ref()[field::PROTOCOL]
    }
    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        address(self.bytes.as_ref(), field::SRC)
    }
    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        address(self.bytes.as_ref(), field::DST)
    }
    /// Option bytes, padding included.
    pub fn options(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..self.header_len()]
    }
    /// Bytes after the header, up to the packet's length.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..self.total_len()]
    }
    /// True if the header checksum is correct.
    pub fn verify_checksum(&self) -> bool {
        Checksum::new().add_bytes(&self.bytes.as_ref()[..self.header_len()]).is_valid()
    }
}

/// Address at offset `at`.
pub(crate) fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

/// Header as a plain value, without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload: see [`protocol`](crate::protocol).
    pub protocol: u8,
    /// Length of the payload in bytes.
    pub payload_len: usize,
    /// Time to live in hops.
    pub ttl: u8,
    /// TOS byte: DSCP and ECN.
    pub tos: u8,
    /// Identification, common to the fragments of a packet.
    pub ident: u16,
    /// Don't-fragment flag.
    pub dont_fragment: bool,
    /// More-fragments flag.
    pub more_fragments: bool,
    /// Offset of the payload in the original one in bytes, a multiple of 8.
    pub fragment_offset: usize,
}

impl Repr {
    /// Header of an unfragmented packet with Linux's defaults: TTL 64, TOS 0, fragmentation forbidden.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: usize) -> Repr {
        Repr {
            src,
            dst,
            protocol,
            payload_len,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
    }

    /// Reads a checked packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            payload_len: packet.total_len() - packet.header_len(),
            ttl: packet.ttl(),
            tos: packet.tos(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
        }
    }

    /// True if the packet is a fragment.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset > 0
    }

    /// Writes the header with its checksum to the first [`HEADER_LEN`] bytes.
    ///
    /// # Panics
    /// If `bytes` is shorter than that or the packet would be longer than 65,535 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let total = u16::try_from(HEADER_LEN + self.payload_len).expect("a packet of at most 65,535 bytes");
        bytes[field::VERSION_IHL] = 0x45;
        bytes[field::TOS] = self.tos;
        put16(bytes, field::TOTAL_LEN, total);
        put16(bytes, field::IDENT, self.ident);
        let mut word = (self.fragment_offset / 8) as u16 & OFFSET_MASK;
        word |= if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        word |= if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        put16(bytes, field::FLAGS_OFFSET, word);
        bytes[field::TTL] = self.ttl;
        bytes[field::PROTOCOL] = self.protocol;
        bytes[field::SRC..][..4].copy_from_slice(&self.src.octets());
        bytes[field::DST..][..4].copy_from_slice(&self.dst.octets());
        fill_checksum(&mut bytes[..HEADER_LEN]);
    }
}

/// Computes and stores the checksum of `header`, a header with its options.
pub fn fill_checksum(header: &mut [u8]) {
    put16(header, field::CHECKSUM, 0);
    let sum = checksum::internet(header);
    put16(header, field::CHECKSUM, sum);
}

/// Decrements the TTL of a packet in place and updates the checksum (RFC 1624). Returns false, without a
/// change, if no hop is left: the packet must be dropped with a time exceeded message.
pub fn decrement_ttl(packet: &mut [u8]) -> bool {
    if packet[field::TTL] <= 1 {
        return false;
    }
    packet[field::TTL] -= 1;
    // The word whose high half is the TTL decreases by 0x0100, so the sum increases by as much.
    let sum = u32::from(be16(packet, field::CHECKSUM)) + 0x0100;
    put16(packet, field::CHECKSUM, (sum + (sum >> 16)) as u16);
    true
}

/// Sets the ECN codepoint to congestion experienced in place and updates the checksum. Returns false, without
/// a change, if the transport is not ECN-capable: the packet must be dropped instead.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    if !Ecn::from_tos(packet[field::TOS]).is_capable() {
        return false;
    }
    let before = be16(packet, field::VERSION_IHL);
    packet[field::TOS] |= Ecn::Ce.bits();
    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). A wrong checksum stays wrong.
    let sum = u32::from(!be16(packet, field::CHECKSUM))
        + u32::from(!before)
        + u32::from(be16(packet, field::VERSION_IHL));
    let sum = (sum & 0xffff) + (sum >> 16);
    put16(packet, field::CHECKSUM, !((sum & 0xffff) + (sum >> 16)) as u16);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;

    const SRC: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 199);

    /// Well-known example of a header with checksum 0xb861.
    const UDP_HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn header_is_emitted_and_read() {
        let repr = Repr::new(SRC, DST, protocol::UDP, 0x73 - 20);
        let mut bytes = [0xaau8; 0x73 + 5];
        repr.emit(&mut bytes);
        assert_eq!(bytes[..20], UDP_HEADER);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.payload().len(), 0x73 - 20, "padding is not payload");
    }

    #[test]
    fn fragments_come_back() {
        let repr = Repr {
            ident: 0xbeef,
            dont_fragment: false,
            more_fragments: true,
            fragment_offset: 65_528,
            tos: 0xb9,
            ..Repr::new(SRC, DST, protocol::TCP, 0)
        };
        let mut bytes = [0u8; 20];
        repr.emit(&mut bytes);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(Repr::parse(&packet), repr);
        assert!(repr.is_fragment());
        assert_eq!(packet.ecn(), Ecn::Ect1);
    }

    #[test]
    fn options_are_skipped() {
        let mut bytes = [1u8; 28];
        Repr::new(SRC, DST, protocol::ICMP, 8).emit(&mut bytes);
        bytes[0] = 0x46;
        fill_checksum(&mut bytes[..24]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!((packet.options(), packet.payload()), (&[1; 4][..], &[1; 4][..]));
    }

    #[test]
    fn bad_headers_are_refused() {
        let error = |at: usize, value: u8| {
            let mut bytes = [0u8; 20];
            Repr::new(SRC, DST, 1, 0).emit(&mut bytes);
            bytes[at] = value;
            Packet::new_checked(bytes).unwrap_err()
        };
        assert_eq!(error(0, 0x65), ParseError::Malformed);
        assert_eq!(error(0, 0x44), ParseError::Malformed);
        assert_eq!(error(3, 19), ParseError::Malformed);
        assert_eq!(error(3, 21), ParseError::Truncated);
        assert_eq!(Packet::new_checked([0x45; 19]).unwrap_err(), ParseError::Truncated);
    }

    #[test]
    fn changes_in_place_keep_the_checksum_right() {
        for ident in [0, 0xb6, 0x1234, 0xffff] {
            let mut bytes = [0u8; 20];
            Repr { ident, tos: 2, ..Repr::new(SRC, DST, 6, 0) }.emit(&mut bytes);
            for left in (1..64).rev() {
                assert!(decrement_ttl(&mut bytes));
                let packet = Packet::new_checked(&bytes).unwrap();
                assert!(packet.verify_checksum(), "ident {ident} ttl {left}");
                assert_eq!(packet.ttl(), left);
            }
            assert!(!decrement_ttl(&mut bytes));
            assert!(mark_congestion(&mut bytes));
            let packet = Packet::new_checked(&bytes).unwrap();
            assert!(packet.verify_checksum());
            assert_eq!(packet.ecn(), Ecn::Ce);
        }
        let mut bytes = [0u8; 20];
        Repr::new(SRC, DST, 6, 0).emit(&mut bytes);
        assert!(!mark_congestion(&mut bytes));
    }
}
