//! IPv6 (RFC 8200): the fixed header, and the extension headers between it and the payload.

use crate::{Ecn, ParseError, be16, be32, protocol, put16, put32};
use std::net::Ipv6Addr;
use std::ops::Range;

mod field {
    pub const VERSION_CLASS_LABEL: usize = 0;
    pub const PAYLOAD_LEN: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
}

/// Length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;
/// Length of a fragment header in bytes (RFC 8200, section 4.5).
pub const FRAGMENT_LEN: usize = 8;
/// Packet length in bytes that every link must carry (RFC 8200, section 5).
pub const MIN_MTU: usize = 1_280;

/// Numbers of the extension headers that [`upper`] skips.
pub mod extension {
    /// Hop-by-Hop Options.
    pub const HOP_BY_HOP: u8 = 0;
    /// Routing header.
    pub const ROUTING: u8 = 43;
    /// Fragment header.
    pub const FRAGMENT: u8 = 44;
    /// No Next Header.
    pub const NONE: u8 = 59;
    /// Destination Options.
    pub const DESTINATION: u8 = 60;
}

/// Fixed header as a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Next header: the extension header or protocol that follows.
    pub next_header: u8,
    /// Length of the payload in bytes.
    pub payload_len: usize,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Repr {
    /// Parses and checks the header of a packet, which may be followed by padding.
    pub fn parse(packet: &[u8]) -> Result<Repr, ParseError> {
        if packet.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        let word = be32(packet, field::VERSION_CLASS_LABEL);
        if word >> 28 != 6 {
            return Err(ParseError::Malformed);
        }
        let payload_len = usize::from(be16(packet, field::PAYLOAD_LEN));
        if packet.len() < HEADER_LEN + payload_len {
            return Err(ParseError::Truncated);
        }
        Ok(Repr {
            src: address(packet, field::SRC),
            dst: address(packet, field::DST),
            next_header: packet[field::NEXT_HEADER],
            payload_len,
            hop_limit: packet[field::HOP_LIMIT],
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
        })
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes.
    ///
    /// # Panics
    /// If `bytes` is shorter than that or the payload longer than 65,535 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let payload_len = u16::try_from(self.payload_len).expect("a payload of at most 65,535 bytes");
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        put32(bytes, field::VERSION_CLASS_LABEL, word);
        put16(bytes, field::PAYLOAD_LEN, payload_len);
        bytes[field::NEXT_HEADER] = self.next_header;
        bytes[field::HOP_LIMIT] = self.hop_limit;
        bytes[field::SRC..][..16].copy_from_slice(&self.src.octets());
        bytes[field::DST..][..16].copy_from_slice(&self.dst.octets());
    }
}

/// Fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Next header of the whole payload.
    pub next_header: u8,
    /// Offset of the payload in the original one in bytes, a multiple of 8.
    pub offset: usize,
    /// More-fragments flag.
    pub more: bool,
    /// Identification, common to the fragments of a packet.
    pub ident: u32,
}

impl Fragment {
    /// Writes the header to the first [`FRAGMENT_LEN`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[0] = self.next_header;
        bytes[1] = 0;
        put16(bytes, 2, self.offset as u16 & 0xfff8 | u16::from(self.more));
        put32(bytes, 4, self.ident);
    }
}

/// Upper-layer payload of a packet, after the extension headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Protocol of the payload.
    pub protocol: u8,
    /// Offset of the next-header field that names the protocol.
    pub named_at: usize,
    /// Range of the payload in the packet.
    pub payload: Range<usize>,
    /// Fragment header, if there is one.
    pub fragment: Option<Fragment>,
}

/// Skips the extension headers of a packet. In a fragment other than the first, the search ends at the
/// fragment header, since the middle of a payload follows.
pub fn upper(packet: &[u8]) -> Result<Upper, ParseError> {
    let header = Repr::parse(packet)?;
    let end = HEADER_LEN + header.payload_len;
    let (mut protocol, mut named_at, mut at) = (header.next_header, field::NEXT_HEADER, HEADER_LEN);
    let mut fragment = None;
    loop {
        let len = match protocol {
            extension::HOP_BY_HOP | extension::ROUTING | extension::DESTINATION => {
                let units = packet[..end].get(at + 1).ok_or(ParseError::Truncated)?;
                8 + 8 * usize::from(*units)
            }
            extension::FRAGMENT => FRAGMENT_LEN,
            _ => return Ok(Upper { protocol, named_at, payload: at..end, fragment }),
        };
        if at + len > end {
            return Err(ParseError::Truncated);
        }
        let is_fragment = protocol == extension::FRAGMENT;
        (protocol, named_at) = (packet[at], at);
        if is_fragment {
            let word = be16(packet, at + 2);
            let offset = usize::from(word & 0xfff8);
            let ident = be32(packet, at + 4);
            fragment = Some(Fragment { next_header: protocol, offset, more: word & 1 != 0, ident });
            if offset > 0 {
                return Ok(Upper { protocol, named_at, payload: at + len..end, fragment });
            }
        }
        at += len;
    }
}

/// Address at offset `at`.
fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
    octets.into()
}

/// Source address of a packet that is known to be long enough.
pub fn source(packet: &[u8]) -> Ipv6Addr {
    address(packet, field::SRC)
}

/// Destination address of a packet that is known to be long enough.
pub fn destination(packet: &[u8]) -> Ipv6Addr {
    address(packet, field::DST)
}

/// Hop limit of a packet that is known to be long enough.
pub fn hop_limit(packet: &[u8]) -> u8 {
    packet[field::HOP_LIMIT]
}

/// Decrements the hop limit in place. Returns false, without a change, if no hop is left.
pub fn decrement_hop_limit(packet: &mut [u8]) -> bool {
    let left = &mut packet[field::HOP_LIMIT];
    let goes_on = *left > 1;
    if goes_on {
        *left -= 1;
    }
    goes_on
}

/// Sets the ECN codepoint to congestion experienced in place. Returns false, without a change, if the
/// transport is not ECN-capable.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let class = (be32(packet, 0) >> 20) as u8;
    if !Ecn::from_tos(class).is_capable() {
        return false;
    }
    packet[1] |= Ecn::Ce.bits() << 4;
    true
}

/// True if an address is valid on one link only: unicast link-local, or multicast with link-local or smaller
/// scope.
pub fn is_link_scope(ip: Ipv6Addr) -> bool {
    match ip.is_multicast() {
        true => ip.octets()[1] & 0xf <= 2,
        false => ip.is_unicast_link_local(),
    }
}

/// Solicited-node multicast address of an address (RFC 4291, section 2.7.1).
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let o = ip.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(o[13]), u16::from_be_bytes([o[14], o[15]]))
}

/// All nodes of a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// All MLDv2-capable routers of a link (RFC 3810, section 5.2.14).
pub const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Hardware address of a multicast group (RFC 2464, section 7).
pub fn group_address(group: Ipv6Addr) -> crate::ethernet::Address {
    let o = group.octets();
    crate::ethernet::Address([0x33, 0x33, o[12], o[13], o[14], o[15]])
}

/// Address of an interface in a network with a 64-bit prefix, from its hardware address (RFC 4291, appendix
/// A).
pub fn eui64(network: Ipv6Addr, mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let interface = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(network.to_bits() >> 64 << 64 | u128::from(interface))
}

/// Link-local prefix.
pub const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// True if a packet carries an ICMPv6 error message, as far as its headers can be parsed.
pub fn is_icmp_error(packet: &[u8]) -> bool {
    upper(packet).is_ok_and(|upper| {
        upper.protocol == protocol::ICMPV6
            && upper.fragment.is_none_or(|f| f.offset == 0)
            && packet.get(upper.payload.start).is_none_or(|kind| *kind < 128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(next_header: u8, payload_len: usize) -> Repr {
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let (hop_limit, traffic_class, flow_label) = (3, 0xab, 0x12345);
        Repr { src, dst, next_header, payload_len, hop_limit, traffic_class, flow_label }
    }

    #[test]
    fn header_is_emitted_and_read() {
        let mut bytes = [0; 50];
        let repr = header(17, 8);
        repr.emit(&mut bytes);
        assert_eq!(bytes[..8], [0x6a, 0xb1, 0x23, 0x45, 0, 8, 17, 3]);
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert_eq!(upper(&bytes).map(|u| (u.protocol, u.named_at, u.payload)), Ok((17, 6, 40..48)));
        assert!(decrement_hop_limit(&mut bytes) && decrement_hop_limit(&mut bytes));
        assert!(!decrement_hop_limit(&mut bytes));
        assert_eq!(Repr::parse(&bytes[..47]), Err(ParseError::Truncated));
        bytes[0] = 0x4a;
        assert_eq!(Repr::parse(&bytes), Err(ParseError::Malformed));
    }

    #[test]
    fn extension_headers_are_read_over() {
        let mut bytes = [0; 40 + 8 + 16 + 8 + 4];
        header(extension::HOP_BY_HOP, 36).emit(&mut bytes);
        (bytes[40], bytes[48], bytes[49]) = (extension::ROUTING, extension::FRAGMENT, 1);
        let fragment = Fragment { next_header: 58, offset: 0, more: true, ident: 0xdead_beef };
        fragment.emit(&mut bytes[64..]);
        let found = upper(&bytes).unwrap();
        assert_eq!((found.protocol, found.named_at, found.payload), (58, 64, 72..76));
        assert_eq!(found.fragment, Some(fragment));
        // Chain of extension headers that exceeds the packet.
        bytes[49] = 4;
        assert_eq!(upper(&bytes), Err(ParseError::Truncated));
        // The payload of a later fragment contains no header.
        bytes[49] = 1;
        Fragment { next_header: extension::ROUTING, offset: 8, more: false, ident: 1 }.emit(&mut bytes[64..]);
        assert_eq!(upper(&bytes).map(|u| (u.protocol, u.payload)), Ok((extension::ROUTING, 72..76)));
    }

    #[test]
    fn congestion_is_marked_where_it_may_be() {
        let mut bytes = [0; 40];
        for (class, marked) in [(0, None), (1, Some(3)), (2, Some(3)), (0xfe, Some(0xff))] {
            Repr { traffic_class: class, ..header(6, 0) }.emit(&mut bytes);
            assert_eq!(
                mark_congestion(&mut bytes).then(|| Repr::parse(&bytes).unwrap().traffic_class),
                marked
            );
        }
    }

    #[test]
    fn addresses_follow_from_others() {
        let ip: Ipv6Addr = "2001:db8::12:3456".parse().unwrap();
        assert_eq!(solicited_node(ip).to_string(), "ff02::1:ff12:3456");
        assert_eq!(group_address(solicited_node(ip)).0, [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(eui64(LINK_LOCAL, [2, 0, 0, 0xaa, 0xbb, 1]).to_string(), "fe80::ff:feaa:bb01");
        assert!(is_link_scope(ALL_NODES) && is_link_scope(LINK_LOCAL) && !is_link_scope(ip));
        assert!(!is_link_scope("ff05::2".parse().unwrap()));
    }
}
