//! UDP (RFC 768).

use crate::checksum::Checksum;
use crate::{ParseError, be16, protocol, put16};
use std::net::IpAddr;

mod field {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const LEN: usize = 4;
    pub const CHECKSUM: usize = 6;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// Datagram over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the length field against the header and the bytes.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, ParseError> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        let len = usize::from(be16(b, field::LEN));
        if len < HEADER_LEN {
            return Err(ParseError::Malformed);
        }
        if len > b.len() {
            return Err(ParseError::Truncated);
        }
        Ok(Packet { bytes })
    }

    /// Source port; 0 if no reply is expected.
    pub fn src_port(&self) -> u16 {
        be16(self.bytes.as_ref(), field::SRC_PORT)
    }
    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes.as_ref(), field::DST_PORT)
    }
    /// Length of header and payload in bytes.
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), field::LEN))
    }
    /// Checksum field; 0 if the sender computed none.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), field::CHECKSUM)
    }
    /// Bytes after the header, up to the datagram's length.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..self.total_len()]
    }
    /// True if the checksum matches addresses and content. "An all zero transmitted checksum value means that
    /// the transmitter generated no checksum": valid over IPv4, invalid over IPv6 (RFC 8200, section 8.1).
    pub fn verify_checksum(&self, src: IpAddr, dst: IpAddr) -> bool {
        if self.checksum() == 0 {
            return src.is_ipv4();
        }
        let len = self.total_len();
        let bytes = &self.bytes.as_ref()[..len];
        Checksum::new().pseudo_header(src, dst, protocol::UDP, len as u32).add_bytes(bytes).is_valid()
    }
}

/// Header as a plain value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the payload in bytes.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a checked datagram.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: packet.total_len() - HEADER_LEN,
        }
    }

    /// Writes the header with the checksum to the first [`HEADER_LEN`] bytes of `datagram`, whose remaining
    /// bytes are the payload.
    ///
    /// # Panics
    /// If `datagram` does not have the length of header and payload, or exceeds 65,535 bytes.
    pub fn emit(&self, src: IpAddr, dst: IpAddr, datagram: &mut [u8]) {
        assert_eq!(datagram.len(), HEADER_LEN + self.payload_len, "header and payload");
        let len = u16::try_from(datagram.len()).expect("a datagram of at most 65,535 bytes");
        put16(datagram, field::SRC_PORT, self.src_port);
        put16(datagram, field::DST_PORT, self.dst_port);
        put16(datagram, field::LEN, len);
        fill_checksum(src, dst, datagram);
    }

    /// Appends header, payload and checksum to `out`.
    pub fn append(src: (IpAddr, u16), dst: (IpAddr, u16), payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        out.extend_from_slice(payload);
        let repr = Repr { src_port: src.1, dst_port: dst.1, payload_len: payload.len() };
        repr.emit(src.0, dst.0, &mut out[start..]);
    }
}

/// Computes and stores the checksum of `datagram`, a complete one.
pub fn fill_checksum(src: IpAddr, dst: IpAddr, datagram: &mut [u8]) {
    put16(datagram, field::CHECKSUM, 0);
    let sum = crate::checksum::transport(src, dst, protocol::UDP, datagram);
    // "If the computed checksum is zero, it is transmitted as all ones".
    put16(datagram, field::CHECKSUM, if sum == 0 { 0xffff } else { sum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn datagram_comes_back() {
        let mut bytes = vec![9; 3];
        Repr::append((A, 5353), (B, 53), b"hello", &mut bytes);
        let packet = Packet::new_checked(&bytes[3..]).unwrap();
        assert!(packet.verify_checksum(A, B));
        assert!(!packet.verify_checksum(A, A));
        assert_eq!(Repr::parse(&packet), Repr { src_port: 5353, dst_port: 53, payload_len: 5 });
        assert_eq!(packet.payload(), b"hello");
    }

    #[test]
    fn zero_checksum_is_sent_as_ones_and_read_as_none() {
        // Two payload bytes for which the sum is zero.
        let mut found = false;
        for word in 0..=u16::MAX {
            let mut bytes = Vec::new();
            Repr::append((A, 0), (B, 0), &word.to_be_bytes(), &mut bytes);
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            assert_ne!(packet.checksum(), 0);
            if packet.checksum() == 0xffff {
                found = true;
                assert!(packet.verify_checksum(A, B));
                break;
            }
        }
        assert!(found);
        let none = [0, 1, 0, 2, 0, 8, 0, 0];
        let packet = Packet::new_checked(none).unwrap();
        assert!(packet.verify_checksum(A, B));
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert!(!packet.verify_checksum(v6, v6));
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(Packet::new_checked([0; 7]).unwrap_err(), ParseError::Truncated);
        assert_eq!(Packet::new_checked([0, 1, 0, 2, 0, 7, 0, 0]).unwrap_err(), ParseError::Malformed);
        assert_eq!(Packet::new_checked([0, 1, 0, 2, 0, 9, 0, 0]).unwrap_err(), ParseError::Truncated);
        let padded = [0, 1, 0, 2, 0, 9, 0, 0, 7, 0, 0];
        assert_eq!(Packet::new_checked(padded).unwrap().payload(), [7]);
    }
}
