//! IP headers in the representation of the stack. They are written without options or extension headers,
//! except for the IPv6 fragment header; options and extension headers of received packets are skipped.

use belljar_wire::{ParseError, checksum, ipv6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The length of an IPv4 header without options.
pub const V4_LEN: usize = 20;
/// The length of an IPv6 header.
pub const V6_LEN: usize = 40;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// The fields of an IP header that the stack uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Protocol of the payload; 58 for ICMPv6.
    pub protocol: u8,
    /// Type of service or traffic class, ECN bits included.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification: 16 bits in IPv4, 32 bits in an IPv6 fragment header.
    pub id: u32,
    /// Flow label (IPv6).
    pub flow_label: u32,
    /// True if the flow label stays 0.
    pub unlabelled: bool,
    /// `DF` (IPv4).
    pub dont_fragment: bool,
    /// `MF`.
    pub more_fragments: bool,
    /// Offset of the fragment's payload in the datagram, in bytes.
    pub fragment_offset: usize,
}

impl IpHeader {
    /// Creates the header of an unfragmented datagram.
    pub fn new(src: IpAddr, dst: IpAddr, protocol: u8) -> IpHeader {
        IpHeader {
            src,
            dst,
            protocol,
            tos: 0,
            ttl: 64,
            id: 0,
            flow_label: 0,
            unlabelled: false,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
        }
    }
    /// True for a header of a fragment.
    pub(crate) fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset > 0
    }
    /// Length of the header in bytes.
    pub(crate) fn len(&self) -> usize {
        header_len(self.dst)
    }
    /// Writes the header to the start of `packet`, which is the complete packet.
    pub fn emit(&self, packet: &mut [u8]) {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.emit_v4(src, dst, packet),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.emit_v6(src, dst, packet),
            _ => unreachable!("a packet from {} to {}", self.src, self.dst),
        }
    }
    fn emit_v4(&self, src: Ipv4Addr, dst: Ipv4Addr, packet: &mut [u8]) {
        let total = packet.len() as u16;
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let header = &mut packet[..V4_LEN];
        header[0] = 0x45;
        header[1] = self.tos;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&(self.id as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(flags | (self.fragment_offset / 8) as u16).to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&src.octets());
        header[16..20].copy_from_slice(&dst.octets());
        let sum = checksum::internet(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    fn emit_v6(&self, src: Ipv6Addr, dst: Ipv6Addr, packet: &mut [u8]) {
        let header = ipv6::Repr {
            src,
            dst,
            next_header: self.protocol,
            payload_len: packet.len() - V6_LEN,
            hop_limit: self.ttl,
            traffic_class: self.tos,
            flow_label: self.flow_label,
        };
        header.emit(packet);
    }
    /// Parses the header of `packet`. Returns it with the range of the payload.
    pub fn parse(packet: &[u8]) -> Result<(IpHeader, std::ops::Range<usize>), ParseError> {
        match packet.first().map(|b| b >> 4) {
            Some(4) => IpHeader::parse_v4(packet),
            Some(6) => IpHeader::parse_v6(packet),
            Some(_) => Err(ParseError::Malformed),
            None => Err(ParseError::Truncated),
        }
    }
    fn parse_v4(packet: &[u8]) -> Result<(IpHeader, std::ops::Range<usize>), ParseError> {
        let fixed: &[u8; V4_LEN] = packet.first_chunk().ok_or(ParseError::Truncated)?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let header_len = usize::from(fixed[0] & 0xf) * 4;
        let total = usize::from(word(2));
        if header_len < V4_LEN || total < header_len {
            return Err(ParseError::Malformed);
        }
        if total > packet.len() {
            return Err(ParseError::Truncated);
        }
        if checksum::internet(&packet[..header_len]) != 0 {
            return Err(ParseError::Checksum);
        }
        let octets = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
        let header = IpHeader {
            src: octets(12).into(),
            dst: octets(16).into(),
            protocol: fixed[9],
            tos: fixed[1],
            ttl: fixed[8],
            id: u32::from(word(4)),
            flow_label: 0,
            unlabelled: false,
            dont_fragment: word(6) & DONT_FRAGMENT != 0,
            more_fragments: word(6) & MORE_FRAGMENTS != 0,
            fragment_offset: usize::from(word(6) & 0x1fff) * 8,
        };
        Ok((header, header_len..total))
    }
    fn parse_v6(packet: &[u8]) -> Result<(IpHeader, std::ops::Range<usize>), ParseError> {
        let fixed = ipv6::Repr::parse(packet)?;
        let upper = ipv6::upper(packet)?;
        let fragment = upper.fragment;
        let header = IpHeader {
            tos: fixed.traffic_class,
            ttl: fixed.hop_limit,
            id: fragment.map_or(0, |fragment| fragment.ident),
            flow_label: fixed.flow_label,
            unlabelled: false,
            more_fragments: fragment.is_some_and(|fragment| fragment.more),
            fragment_offset: fragment.map_or(0, |fragment| fragment.offset),
            ..IpHeader::new(fixed.src.into(), fixed.dst.into(), upper.protocol)
        };
        Ok((header, upper.payload))
    }
}

/// Length in bytes of the header of a packet to `dst`.
pub fn header_len(dst: IpAddr) -> usize {
    if dst.is_ipv4() { V4_LEN } else { V6_LEN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_written() {
        let v4 = IpHeader {
            tos: 0x12,
            ttl: 3,
            id: 77,
            more_fragments: true,
            fragment_offset: 1480,
            ..IpHeader::new([11, 0, 0, 1].into(), [11, 0, 0, 2].into(), 17)
        };
        let mut packet = vec![0; V4_LEN + 5];
        v4.emit(&mut packet);
        assert_eq!(IpHeader::parse(&packet), Ok((v4, 20..25)));
        packet[8] ^= 1;
        assert_eq!(IpHeader::parse(&packet), Err(ParseError::Checksum));

        let lo = Ipv6Addr::LOCALHOST.into();
        let v6 = IpHeader { tos: 0xab, ttl: 9, flow_label: 0xabcde, ..IpHeader::new(lo, lo, 6) };
        let mut packet = vec![0; V6_LEN + 7];
        v6.emit(&mut packet);
        assert_eq!(IpHeader::parse(&packet), Ok((v6, 40..47)));
        assert_eq!(IpHeader::parse(&packet[..46]), Err(ParseError::Truncated));
        assert_eq!(IpHeader::parse(&[]), Err(ParseError::Truncated));
    }
}
