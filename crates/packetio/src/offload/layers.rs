//! Offsets of the layers in a frame that carries IP.

use belljar_wire::checksum::Checksum;
use belljar_wire::ethernet::ethertype;
use std::net::{Ipv4Addr, Ipv6Addr};

const IPV6_HEADER: usize = 40;

/// Offsets of the network and transport headers of an unfragmented IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// Offset of the IP header.
    pub network: usize,
    /// Offset of the transport header.
    pub transport: usize,
    /// Offset of the end of the packet, which padding may follow.
    pub end: usize,
    /// True for IPv6, false for IPv4.
    pub v6: bool,
    /// Transport protocol number.
    pub protocol: u8,
}

impl Layers {
    /// Parses the headers of `frame`, including VLAN tags and IPv6 extension headers.
    pub fn of(frame: &[u8]) -> Option<Layers> {
        let mut at = 12;
        let mut kind = be16(frame, at)?;
        while kind == 0x8100 || kind == 0x88a8 {
            at += 4;
            kind = be16(frame, at)?;
        }
        let network = at + 2;
        match kind {
            ethertype::IPV4 => Layers::of_ipv4(frame, network),
            ethertype::IPV6 => Layers::of_ipv6(frame, network),
            _ => None,
        }
    }

    fn of_ipv4(frame: &[u8], network: usize) -> Option<Layers> {
        let header = frame.get(network..network + 20)?;
        let len = usize::from(header[0] & 0xf) * 4;
        let fragment = be16(header, 6)? & 0x3fff != 0;
        let end = network + usize::from(be16(header, 2)?);
        if header[0] >> 4 != 4 || len < 20 || fragment || end > frame.len() || network + len > end {
            return None;
        }
        Some(Layers { network, transport: network + len, end, v6: false, protocol: header[9] })
    }

    fn of_ipv6(frame: &[u8], network: usize) -> Option<Layers> {
        let header = frame.get(network..network + IPV6_HEADER)?;
        let end = network + IPV6_HEADER + usize::from(be16(header, 4)?);
        if header[0] >> 4 != 6 || end > frame.len() {
            return None;
        }
        let mut next = header[6];
        let mut transport = network + IPV6_HEADER;
        // The length of hop-by-hop, routing and destination options headers is in units of 8 bytes, without
        // the first unit.
        while matches!(next, 0 | 43 | 60) {
            next = *frame.get(transport)?;
            transport += (usize::from(*frame.get(transport + 1)?) + 1) * 8;
        }
        (transport <= end).then_some(Layers { network, transport, end, v6: true, protocol: next })
    }

    /// Pseudo-header sum of a segment of `len` bytes. The final destination in a routing header is not used:
    /// kernels never leave the checksum of such packets open.
    pub fn pseudo_header(&self, frame: &[u8], len: usize) -> Checksum {
        let address = |offset: usize| &frame[self.network + offset..];
        let sum = Checksum::new();
        if self.v6 {
            let read = |offset| Ipv6Addr::from(*address(offset).first_chunk::<16>().expect("parsed")).into();
            sum.pseudo_header(read(8), read(24), self.protocol, len as u32)
        } else {
            let read = |offset| Ipv4Addr::from(*address(offset).first_chunk::<4>().expect("parsed")).into();
            sum.pseudo_header(read(12), read(16), self.protocol, len as u32)
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
