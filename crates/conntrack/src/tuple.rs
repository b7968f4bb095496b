//! Tuples: the addresses and protocol fields by which packets are matched to connections
//! (`struct nf_conntrack_tuple`).
//!
//! A connection has two tuples, one for each direction. The reply tuple is the *inverse* of the original one
//! until NAT changes it: source and destination exchanged, and for ICMP the type of the answer instead of
//! that of the query.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Transport protocols that the crate distinguishes, by IANA number.
pub mod protocol {
    pub use belljar_wire::protocol::{ICMP, ICMPV6, TCP, UDP, UDP_LITE};
    /// Generic routing encapsulation (RFC 2784, RFC 2637).
    pub const GRE: u8 = 47;
    /// Stream control transmission protocol (RFC 9260).
    pub const SCTP: u8 = 132;
}

/// Network protocol of a tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum L3 {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl L3 {
    /// Address family number: `AF_INET` or `AF_INET6`.
    pub const fn family(self) -> u8 {
        match self {
            L3::V4 => 2,
            L3::V6 => 10,
        }
    }

    /// Network protocol of an address family number.
    pub const fn from_family(family: u8) -> Option<L3> {
        match family {
            2 => Some(L3::V4),
            10 => Some(L3::V6),
            _ => None,
        }
    }

    /// Length of an address in bytes.
    pub const fn address_len(self) -> usize {
        match self {
            L3::V4 => 4,
            L3::V6 => 16,
        }
    }
}

/// Address of either family: an IPv4 address is in the first four bytes, the others are zero
/// (`union nf_inet_addr`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InetAddress(pub [u8; 16]);

impl InetAddress {
    /// Unspecified address, `0.0.0.0` and `::`.
    pub const UNSPECIFIED: InetAddress = InetAddress([0; 16]);

    /// Address of `family` whose bytes are those at the start of `bytes`; `None` if there are too few.
    pub fn read(l3: L3, bytes: &[u8]) -> Option<InetAddress> {
        let mut address = InetAddress::UNSPECIFIED;
        let len = l3.address_len();
        address.0[..len].copy_from_slice(bytes.get(..len)?);
        Some(address)
    }

    /// Bytes of the address in network byte order, 4 or 16.
    pub fn bytes(&self, l3: L3) -> &[u8] {
        &self.0[..l3.address_len()]
    }

    /// Address as the standard library has it.
    pub fn to_ip(self, l3: L3) -> IpAddr {
        match l3 {
            L3::V4 => Ipv4Addr::new(self.0[0], self.0[1], self.0[2], self.0[3]).into(),
            L3::V6 => Ipv6Addr::from(self.0).into(),
        }
    }

    /// Four 32-bit words in host order.
    pub(crate) fn words(self) -> [u32; 4] {
        let word =
            |at: usize| u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]]);
        [word(0), word(4), word(8), word(12)]
    }

    /// Address of four 32-bit words in host order.
    pub(crate) fn from_words(words: [u32; 4]) -> InetAddress {
        let mut address = InetAddress::UNSPECIFIED;
        for (bytes, word) in address.0.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        address
    }
}

impl From<Ipv4Addr> for InetAddress {
    fn from(address: Ipv4Addr) -> InetAddress {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&address.octets());
        InetAddress(bytes)
    }
}

impl From<Ipv6Addr> for InetAddress {
    fn from(address: Ipv6Addr) -> InetAddress {
        InetAddress(address.octets())
    }
}

impl From<IpAddr> for InetAddress {
    fn from(address: IpAddr) -> InetAddress {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl fmt::Debug for InetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l3 = if self.0[4..] == [0; 12] { L3::V4 } else { L3::V6 };
        fmt::Display::fmt(&self.to_ip(l3), f)
    }
}

/// Direction of a packet within its connection (`enum ip_conntrack_dir`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TupleDirection {
    /// That of the first packet.
    Original,
    /// That of the answers.
    Reply,
}

impl TupleDirection {
    /// Both directions.
    pub const BOTH: [TupleDirection; 2] = [TupleDirection::Original, TupleDirection::Reply];

    /// The other direction.
    #[must_use]
    pub const fn opposite(self) -> TupleDirection {
        match self {
            TupleDirection::Original => TupleDirection::Reply,
            TupleDirection::Reply => TupleDirection::Original,
        }
    }
}

/// Addresses and protocol fields of the packets of one direction.
///
/// TCP, UDP, UDP-Lite and SCTP have their ports in `source_port` and `destination_port`. ICMP has its
/// identifier in `source_port`, and type and code in the high and low byte of `destination_port`. GRE has its
/// keys there. All other protocols have zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: InetAddress,
    /// Destination address.
    pub destination: InetAddress,
    /// Source port, ICMP identifier or GRE key.
    pub source_port: u16,
    /// Destination port, ICMP type and code, or GRE key.
    pub destination_port: u16,
    /// Network protocol.
    pub l3: L3,
    /// Transport protocol, by IANA number.
    pub protocol: u8,
}

impl Tuple {
    /// Tuple of packets from `source` to `destination`, both with their ports.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub fn between(protocol: u8, source: (IpAddr, u16), destination: (IpAddr, u16)) -> Tuple {
        assert_eq!(source.0.is_ipv4(), destination.0.is_ipv4(), "one family");
        Tuple {
            source: source.0.into(),
            destination: destination.0.into(),
            source_port: source.1,
            destination_port: destination.1,
            l3: if source.0.is_ipv4() { L3::V4 } else { L3::V6 },
            protocol,
        }
    }

    /// True for ICMP over IPv4 and ICMPv6 over IPv6.
    pub const fn is_icmp(&self) -> bool {
        matches!((self.l3, self.protocol), (L3::V4, protocol::ICMP) | (L3::V6, protocol::ICMPV6))
            || matches!(self.protocol, protocol::ICMP | protocol::ICMPV6)
    }

    /// ICMP type.
    pub const fn icmp_type(&self) -> u8 {
        (self.destination_port >> 8) as u8
    }

    /// ICMP code.
    pub const fn icmp_code(&self) -> u8 {
        self.destination_port as u8
    }

    /// Tuple of the answers to packets of this one. `None` for ICMP messages without an answer
    /// (`nf_ct_invert_tuple`).
    pub fn inverse(&self) -> Option<Tuple> {
        let (source_port, destination_port) = match self.protocol {
            protocol::ICMP => (self.source_port, self.answer(icmp_answer(self.icmp_type())?)),
            protocol::ICMPV6 => (self.source_port, self.answer(icmpv6_answer(self.icmp_type())?)),
            _ => (self.destination_port, self.source_port),
        };
        let (source, destination) = (self.destination, self.source);
        Some(Tuple { source, destination, source_port, destination_port, ..*self })
    }

    fn answer(&self, kind: u8) -> u16 {
        u16::from(kind) << 8 | u16::from(self.icmp_code())
    }
}

/// Type of the message that answers an ICMP query, or that it answers (RFC 792, RFC 950).
const fn icmp_answer(kind: u8) -> Option<u8> {
    Some(match kind {
        8 => 0,
        0 => 8,
        13 => 14,
        14 => 13,
        15 => 16,
        16 => 15,
        17 => 18,
        18 => 17,
        _ => return None,
    })
}

/// Type of the message that answers an ICMPv6 query, or that it answers: echo (RFC 4443) and node information
/// (RFC 4620).
const fn icmpv6_answer(kind: u8) -> Option<u8> {
    Some(match kind {
        128 => 129,
        129 => 128,
        139 => 140,
        140 => 139,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_inverse_of_ports_exchanges_them() {
        let tuple = Tuple::between(protocol::TCP, (A, 1000), (B, 80));
        let inverse = tuple.inverse().unwrap();
        assert_eq!(inverse, Tuple::between(protocol::TCP, (B, 80), (A, 1000)));
        assert_eq!(inverse.inverse(), Some(tuple));
    }

    #[test]
    fn icmp_queries_have_answers_and_errors_have_none() {
        for (v6, kinds) in [(false, [8, 13, 15, 17].as_slice()), (true, &[128, 139])] {
            for kind in kinds {
                let number = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
                let query = Tuple::between(number, (A, 7), (B, kind << 8));
                let answer = query.inverse().unwrap();
                assert_eq!((answer.source_port, answer.source), (7, B.into()));
                assert_ne!(answer.icmp_type(), query.icmp_type());
                assert_eq!(answer.inverse(), Some(query));
            }
        }
        for kind in [3, 4, 5, 11, 12] {
            assert_eq!(Tuple::between(protocol::ICMP, (A, 0), (B, kind << 8)).inverse(), None);
        }
    }

    #[test]
    fn addresses_keep_their_bytes() {
        let v6: IpAddr = "2001:db8::7".parse().unwrap();
        assert_eq!(InetAddress::from(v6).to_ip(L3::V6), v6);
        assert_eq!(InetAddress::from(A).to_ip(L3::V4), A);
        assert_eq!(InetAddress::from(A).bytes(L3::V4), [10, 0, 0, 1]);
        assert_eq!(InetAddress::from_words(InetAddress::from(v6).words()), InetAddress::from(v6));
        assert_eq!(InetAddress::read(L3::V6, &[0; 15]), None);
        assert_eq!(format!("{:?}", InetAddress::from(A)), "10.0.0.1");
    }
}
