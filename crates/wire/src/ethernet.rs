//! Ethernet II frames: destination, source, type, payload. As in captures, the bytes exclude the frame check
//! sequence.

use crate::{ParseError, be16, put16};
use std::fmt;

mod field {
    pub const DST: usize = 0;
    pub const SRC: usize = 6;
    pub const ETHERTYPE: usize = 12;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 14;

/// Values of the type field, as IANA and IEEE assign them.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
}

/// 48-bit hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// Broadcast address.
    pub const BROADCAST: Address = Address([0xff; 6]);

    /// True for a multicast address, including broadcast.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Frame over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks that `bytes` holds a header.
    pub fn new_checked(bytes: T) -> Result<Frame<T>, ParseError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        Ok(Frame { bytes })
    }

    /// Destination address.
    pub fn dst(&self) -> Address {
        address(self.bytes.as_ref(), field::DST)
    }
    /// Source address.
    pub fn src(&self) -> Address {
        address(self.bytes.as_ref(), field::SRC)
    }
    /// EtherType of the payload: see [`ethertype`]. Below 0x600 it is an IEEE 802.3 length.
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes.as_ref(), field::ETHERTYPE)
    }
    /// Bytes after the header, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }
}

/// Address at offset `at`.
pub(crate) fn address(bytes: &[u8], at: usize) -> Address {
    let mut address = [0; 6];
    address.copy_from_slice(&bytes[at..at + 6]);
    Address(address)
}

/// Header as a plain value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: Address,
    /// Source address.
    pub src: Address,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl Repr {
    /// Reads a checked frame.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Repr {
        Repr { dst: frame.dst(), src: frame.src(), ethertype: frame.ethertype() }
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::DST..field::DST + 6].copy_from_slice(&self.dst.0);
        bytes[field::SRC..field::SRC + 6].copy_from_slice(&self.src.0);
        put16(bytes, field::ETHERTYPE, self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back() {
        let repr =
            Repr { dst: Address::BROADCAST, src: Address([2, 0, 0, 0, 0, 0x2a]), ethertype: ethertype::ARP };
        let mut bytes = [0u8; 16];
        repr.emit(&mut bytes);
        assert_eq!(bytes[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 42, 8, 6]);
        let frame = Frame::new_checked(bytes).unwrap();
        assert_eq!(Repr::parse(&frame), repr);
        assert_eq!(frame.payload(), [0, 0]);
        assert_eq!(Frame::new_checked(&bytes[..13]).unwrap_err(), ParseError::Truncated);
        assert_eq!(repr.src.to_string(), "02:00:00:00:00:2a");
        assert!(repr.dst.is_multicast() && !repr.src.is_multicast());
    }
}
