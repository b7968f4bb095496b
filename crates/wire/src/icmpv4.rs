//! ICMP for IPv4 (RFC 792, RFC 1191): echo, destination unreachable, time exceeded.

use crate::checksum;
use crate::{ParseError, be16, ipv4, put16};

mod field {
    pub const KIND: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const IDENT: usize = 4;
    pub const SEQUENCE: usize = 6;
    pub const NEXT_HOP_MTU: usize = 6;
}

mod kind {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const ECHO_REQUEST: u8 = 8;
    pub const TIME_EXCEEDED: u8 = 11;
}

/// Length of the header of the messages represented here, in bytes.
pub const HEADER_LEN: usize = 8;
/// Maximum number of quoted bytes in an error message. RFC 1812, section 4.3.2.3: "as much of the original
/// datagram as possible without the length of the ICMP datagram exceeding 576 bytes".
pub const MAX_QUOTE: usize = ipv4::MIN_MTU - ipv4::HEADER_LEN - HEADER_LEN;

/// Code of destination unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network.
    Network,
    /// The host is not reachable.
    Host,
    /// The host does not support the protocol.
    Protocol,
    /// No socket is bound to the port.
    Port,
    /// The packet is too large and must not be fragmented; the MTU of the next hop (RFC 1191) is 0 if the
    /// router does not report it.
    FragmentationNeeded {
        /// Maximum packet length in bytes, IP header included.
        mtu: u16,
    },
    /// Administratively prohibited (code 13) or another code.
    Other(u8),
}

impl Unreachable {
    const fn from_code(code: u8, mtu: u16) -> Unreachable {
        match code {
            0 => Unreachable::Network,
            1 => Unreachable::Host,
            2 => Unreachable::Protocol,
            3 => Unreachable::Port,
            4 => Unreachable::FragmentationNeeded { mtu },
            other => Unreachable::Other(other),
        }
    }

    /// Value of the code field.
    pub const fn code(self) -> u8 {
        match self {
            Unreachable::Network => 0,
            Unreachable::Host => 1,
            Unreachable::Protocol => 2,
            Unreachable::Port => 3,
            Unreachable::FragmentationNeeded { .. } => 4,
            Unreachable::Other(code) => code,
        }
    }
}

/// Message over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that `bytes` holds a header.
    pub fn new_checked(bytes: T) -> Result<Packet<T>, ParseError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        Ok(Packet { bytes })
    }

    /// Message type.
    pub fn kind(&self) -> u8 {
        self.bytes.as_ref()[field::KIND]
    }
    /// Code field.
    pub fn code(&self) -> u8 {
        self.bytes.as_ref()[field::CODE]
    }
    /// Bytes after the header: the data of an echo, the packet quoted in an error.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }
    /// True if the checksum is correct.
    pub fn verify_checksum(&self) -> bool {
        checksum::internet(self.bytes.as_ref()) == 0
    }
}

/// Message as a plain value that borrows its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr<'a> {
    /// Echo request.
    EchoRequest {
        /// Identifier that distinguishes the pings of programs.
        ident: u16,
        /// Sequence number.
        sequence: u16,
        /// Data returned in the reply.
        data: &'a [u8],
    },
    /// Echo reply.
    EchoReply {
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        sequence: u16,
        /// Data of the request.
        data: &'a [u8],
    },
    /// Destination unreachable.
    Unreachable {
        /// Code.
        reason: Unreachable,
        /// Header and first payload bytes of the packet.
        quote: &'a [u8],
    },
    /// Time exceeded: the TTL (code 0) or the reassembly time (code 1).
    TimeExceeded {
        /// Code.
        code: u8,
        /// Header and first payload bytes of the packet.
        quote: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Reads a checked message. [`ParseError::Unsupported`] for other types.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>, ParseError> {
        let bytes: &'a [u8] = packet.bytes.as_ref();
        let (ident, sequence) = (be16(bytes, field::IDENT), be16(bytes, field::SEQUENCE));
        let body = &bytes[HEADER_LEN..];
        match packet.kind() {
            kind::ECHO_REQUEST => Ok(Repr::EchoRequest { ident, sequence, data: body }),
            kind::ECHO_REPLY => Ok(Repr::EchoReply { ident, sequence, data: body }),
            kind::UNREACHABLE => {
                let reason = Unreachable::from_code(packet.code(), be16(bytes, field::NEXT_HOP_MTU));
                Ok(Repr::Unreachable { reason, quote: body })
            }
            kind::TIME_EXCEEDED => Ok(Repr::TimeExceeded { code: packet.code(), quote: body }),
            _ => Err(ParseError::Unsupported),
        }
    }

    fn payload(&self) -> &'a [u8] {
        match *self {
            Repr::EchoRequest { data, .. } | Repr::EchoReply { data, .. } => data,
            Repr::Unreachable { quote, .. } | Repr::TimeExceeded { quote, .. } => {
                &quote[..quote.len().min(MAX_QUOTE)]
            }
        }
    }

    /// Length of the emitted message in bytes.
    pub fn emitted_len(&self) -> usize {
        HEADER_LEN + self.payload().len()
    }

    /// Writes the message with its checksum to `bytes`, which has [`emitted_len`](Self::emitted_len) bytes.
    /// Quotes are truncated to [`MAX_QUOTE`].
    ///
    /// # Panics
    /// If `bytes` has another length.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[..HEADER_LEN].fill(0);
        bytes[HEADER_LEN..].copy_from_slice(self.payload());
        match *self {
            Repr::EchoRequest { ident, sequence, .. } | Repr::EchoReply { ident, sequence, .. } => {
                let is_request = matches!(self, Repr::EchoRequest { .. });
                bytes[field::KIND] = if is_request { kind::ECHO_REQUEST } else { kind::ECHO_REPLY };
                put16(bytes, field::IDENT, ident);
                put16(bytes, field::SEQUENCE, sequence);
            }
            Repr::Unreachable { reason, .. } => {
                bytes[field::KIND] = kind::UNREACHABLE;
                bytes[field::CODE] = reason.code();
                if let Unreachable::FragmentationNeeded { mtu } = reason {
                    put16(bytes, field::NEXT_HOP_MTU, mtu);
                }
            }
            Repr::TimeExceeded { code, .. } => {
                bytes[field::KIND] = kind::TIME_EXCEEDED;
                bytes[field::CODE] = code;
            }
        }
        let sum = checksum::internet(bytes);
        put16(bytes, field::CHECKSUM, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(repr: &Repr<'_>) -> Vec<u8> {
        let mut bytes = vec![0xaa; repr.emitted_len()];
        repr.emit(&mut bytes);
        bytes
    }

    #[test]
    fn every_message_comes_back() {
        let messages = [
            Repr::EchoRequest { ident: 7, sequence: 9, data: b"ping" },
            Repr::EchoReply { ident: 0xffff, sequence: 0, data: b"" },
            Repr::Unreachable { reason: Unreachable::Port, quote: b"quoted" },
            Repr::Unreachable { reason: Unreachable::FragmentationNeeded { mtu: 1400 }, quote: b"q" },
            Repr::Unreachable { reason: Unreachable::Other(13), quote: b"" },
            Repr::TimeExceeded { code: 1, quote: b"late" },
        ];
        for message in messages {
            let bytes = emitted(&message);
            let packet = Packet::new_checked(&bytes).unwrap();
            assert!(packet.verify_checksum(), "{message:?}");
            assert_eq!(Repr::parse(&packet), Ok(message));
        }
    }

    #[test]
    fn echo_has_the_layout_of_the_rfc() {
        let bytes = emitted(&Repr::EchoRequest { ident: 0x1234, sequence: 1, data: &[0xab] });
        assert_eq!(bytes[..2], [8, 0]);
        assert_eq!(bytes[4..], [0x12, 0x34, 0, 1, 0xab]);
    }

    #[test]
    fn quotes_are_cut_and_other_types_are_refused() {
        let long = [1u8; 2000];
        let bytes = emitted(&Repr::TimeExceeded { code: 0, quote: &long });
        assert_eq!(bytes.len() + ipv4::HEADER_LEN, ipv4::MIN_MTU);
        let redirect = [5u8, 0, 0, 0, 0, 0, 0, 0];
        let packet = Packet::new_checked(&redirect).unwrap();
        assert_eq!(Repr::parse(&packet), Err(ParseError::Unsupported));
        assert_eq!(Packet::new_checked(&redirect[..7]).unwrap_err(), ParseError::Truncated);
    }
}
