//! ARP (RFC 826) for IPv4 addresses on Ethernet.

use crate::ethernet::{self, Address};
use crate::{ParseError, be16, put16};
use std::net::Ipv4Addr;

mod field {
    pub const HARDWARE: usize = 0;
    pub const PROTOCOL: usize = 2;
    pub const HARDWARE_LEN: usize = 4;
    pub const PROTOCOL_LEN: usize = 5;
    pub const OPERATION: usize = 6;
    pub const SENDER_HARDWARE: usize = 8;
    pub const SENDER_PROTOCOL: usize = 14;
    pub const TARGET_HARDWARE: usize = 18;
    pub const TARGET_PROTOCOL: usize = 24;
}

/// Length of a packet in bytes.
pub const LEN: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;

/// Operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Request for the hardware address of the target's protocol address.
    Request,
    /// Reply with the sender's hardware address.
    Reply,
}

/// ARP packet over bytes, checked to be for IPv4 on Ethernet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the length and the address types.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, ParseError> {
        let b = bytes.as_ref();
        if b.len() < LEN {
            return Err(ParseError::Truncated);
        }
        let kinds = (be16(b, field::HARDWARE), be16(b, field::PROTOCOL));
        let lengths = (b[field::HARDWARE_LEN], b[field::PROTOCOL_LEN]);
        if kinds != (HARDWARE_ETHERNET, ethernet::ethertype::IPV4) || lengths != (6, 4) {
            return Err(ParseError::Unsupported);
        }
        Ok(Packet { bytes })
    }

    /// Operation number: 1 for a request, 2 for a reply.
    pub fn operation(&self) -> u16 {
        be16(self.bytes.as_ref(), field::OPERATION)
    }
    /// The sender's hardware address.
    pub fn sender_hardware(&self) -> Address {
        ethernet::address(self.bytes.as_ref(), field::SENDER_HARDWARE)
    }
    /// The sender's protocol address.
    pub fn sender_protocol(&self) -> Ipv4Addr {
        crate::ipv4::address(self.bytes.as_ref(), field::SENDER_PROTOCOL)
    }
    /// The target's hardware address; zero in requests.
    pub fn target_hardware(&self) -> Address {
        ethernet::address(self.bytes.as_ref(), field::TARGET_HARDWARE)
    }
    /// The target's protocol address.
    pub fn target_protocol(&self) -> Ipv4Addr {
        crate::ipv4::address(self.bytes.as_ref(), field::TARGET_PROTOCOL)
    }
}

/// An ARP packet as a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Operation.
    pub operation: Operation,
    /// The sender's hardware address.
    pub sender_hardware: Address,
    /// The sender's protocol address.
    pub sender_protocol: Ipv4Addr,
    /// The target's hardware address; zero in requests.
    pub target_hardware: Address,
    /// The target's protocol address.
    pub target_protocol: Ipv4Addr,
}

impl Repr {
    /// Reads a checked packet. [`ParseError::Unsupported`] for other operations (RARP, InARP).
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, ParseError> {
        let operation = match packet.operation() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(ParseError::Unsupported),
        };
        Ok(Repr {
            operation,
            sender_hardware: packet.sender_hardware(),
            sender_protocol: packet.sender_protocol(),
            target_hardware: packet.target_hardware(),
            target_protocol: packet.target_protocol(),
        })
    }

    /// Writes the packet to the first [`LEN`] bytes.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    pub fn emit(&self, bytes: &mut [u8]) {
        put16(bytes, field::HARDWARE, HARDWARE_ETHERNET);
        put16(bytes, field::PROTOCOL, ethernet::ethertype::IPV4);
        bytes[field::HARDWARE_LEN] = 6;
        bytes[field::PROTOCOL_LEN] = 4;
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        put16(bytes, field::OPERATION, operation);
        bytes[field::SENDER_HARDWARE..][..6].copy_from_slice(&self.sender_hardware.0);
        bytes[field::SENDER_PROTOCOL..][..4].copy_from_slice(&self.sender_protocol.octets());
        bytes[field::TARGET_HARDWARE..][..6].copy_from_slice(&self.target_hardware.0);
        bytes[field::TARGET_PROTOCOL..][..4].copy_from_slice(&self.target_protocol.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_layout_of_the_rfc() {
        let repr = Repr {
            operation: Operation::Request,
            sender_hardware: Address([2, 0, 0, 0, 0, 1]),
            sender_protocol: Ipv4Addr::new(10, 0, 0, 1),
            target_hardware: Address::default(),
            target_protocol: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut bytes = [0xaa; LEN];
        repr.emit(&mut bytes);
        let expected = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        assert_eq!(bytes, expected);
        assert_eq!(Repr::parse(&Packet::new_checked(bytes).unwrap()), Ok(repr));
        bytes[field::HARDWARE_LEN] = 8;
        assert_eq!(Packet::new_checked(bytes).unwrap_err(), ParseError::Unsupported);
        assert_eq!(Packet::new_checked(&expected[..27]).unwrap_err(), ParseError::Truncated);
    }
}
