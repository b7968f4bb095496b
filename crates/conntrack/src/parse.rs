//! Packets as the tracker sees them: the network header, the range of the transport, and the tuple.

use crate::tuple::{InetAddress, L3, Tuple, protocol};
use belljar_wire::checksum::{self, Checksum};
use belljar_wire::{ipv4, ipv6};
use std::net::IpAddr;
use std::ops::Range;

/// Network header of a packet, and the bounds of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// Network protocol.
    pub l3: L3,
    /// Transport protocol.
    pub protocol: u8,
    /// Source address.
    pub source: InetAddress,
    /// Destination address.
    pub destination: InetAddress,
    /// Range of transport header and payload in the packet. The packet may end before it if it is quoted.
    pub transport: Range<usize>,
}

impl Datagram {
    /// Reads the header of a packet. `None` if it is malformed, or a fragment other than the first, which has
    /// no transport header.
    pub fn parse(packet: &[u8]) -> Option<Datagram> {
        match packet.first()? >> 4 {
            4 => {
                let header = ipv4::Packet::new_checked(packet).ok()?;
                (header.fragment_offset() == 0).then(|| Datagram {
                    l3: L3::V4,
                    protocol: header.protocol(),
                    source: header.src().into(),
                    destination: header.dst().into(),
                    transport: header.header_len()..header.total_len(),
                })
            }
            6 => {
                let upper = ipv6::upper(packet).ok()?;
                if upper.fragment.is_some_and(|fragment| fragment.offset > 0) {
                    return None;
                }
                Some(Datagram {
                    l3: L3::V6,
                    protocol: upper.protocol,
                    source: ipv6::source(packet).into(),
                    destination: ipv6::destination(packet).into(),
                    transport: upper.payload,
                })
            }
            _ => None,
        }
    }

    /// Reads the header of a packet quoted by an ICMP error, which may have been cut after the first bytes of
    /// its transport.
    pub fn parse_quoted(quote: &[u8]) -> Option<Datagram> {
        match quote.first()? >> 4 {
            4 => {
                let header_len = usize::from(quote[0] & 15) * 4;
                if header_len < ipv4::HEADER_LEN || quote.len() < header_len {
                    return None;
                }
                let word = |at: usize| u16::from_be_bytes([quote[at], quote[at + 1]]);
                if word(6) & 0x1fff != 0 {
                    return None;
                }
                Some(Datagram {
                    l3: L3::V4,
                    protocol: quote[9],
                    source: InetAddress::read(L3::V4, &quote[12..])?,
                    destination: InetAddress::read(L3::V4, &quote[16..])?,
                    transport: header_len..usize::from(word(2)).max(header_len),
                })
            }
            6 => Datagram::parse_quoted_v6(quote),
            _ => None,
        }
    }

    fn parse_quoted_v6(quote: &[u8]) -> Option<Datagram> {
        if quote.len() < ipv6::HEADER_LEN {
            return None;
        }
        let (mut protocol, mut at) = (quote[6], ipv6::HEADER_LEN);
        let end = at + usize::from(u16::from_be_bytes([quote[4], quote[5]]));
        loop {
            let len = match protocol {
                ipv6::extension::HOP_BY_HOP | ipv6::extension::ROUTING | ipv6::extension::DESTINATION => {
                    8 + 8 * usize::from(*quote.get(at + 1)?)
                }
                ipv6::extension::FRAGMENT => {
                    let word = u16::from_be_bytes([*quote.get(at + 2)?, *quote.get(at + 3)?]);
                    if word & 0xfff8 != 0 {
                        return None;
                    }
                    ipv6::FRAGMENT_LEN
                }
                _ => break,
            };
            protocol = *quote.get(at)?;
            at += len;
        }
        Some(Datagram {
            l3: L3::V6,
            protocol,
            source: InetAddress::read(L3::V6, &quote[8..])?,
            destination: InetAddress::read(L3::V6, &quote[24..])?,
            transport: at..end.max(at),
        })
    }

    /// Transport header and payload, as far as they are in the packet.
    pub fn transport_of<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let end = self.transport.end.min(packet.len());
        packet.get(self.transport.start..end).unwrap_or_default()
    }

    /// Tuple of the packet (`nf_ct_get_tuple`). `None` if its transport header is too short for one.
    pub fn tuple(&self, packet: &[u8]) -> Option<Tuple> {
        let (source_port, destination_port) = self.ports(self.transport_of(packet))?;
        let (source, destination) = (self.source, self.destination);
        Some(Tuple {
            source,
            destination,
            source_port,
            destination_port,
            l3: self.l3,
            protocol: self.protocol,
        })
    }

    fn ports(&self, transport: &[u8]) -> Option<(u16, u16)> {
        let word = |at: usize| Some(u16::from_be_bytes([*transport.get(at)?, *transport.get(at + 1)?]));
        match self.protocol {
            protocol::ICMP | protocol::ICMPV6 => {
                // Identifier, which messages without one have as their first word of data.
                Some((word(4)?, word(0)?)).filter(|_| transport.len() >= 8)
            }
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
                Some((word(0)?, word(2)?)).filter(|_| transport.len() >= 8)
            }
            protocol::GRE => gre_keys(transport),
            _ => Some((0, 0)),
        }
    }

    /// True if the transport checksum of a whole packet is right. Protocols without one that is known here
    /// count as right.
    pub fn checksum_is_right(&self, packet: &[u8]) -> bool {
        let segment = self.transport_of(packet);
        let (from, to) = (self.source.to_ip(self.l3), self.destination.to_ip(self.l3));
        match self.protocol {
            // None was computed, which Linux lets pass over IPv6 as well.
            protocol::UDP if segment.get(6..8) == Some(&[0, 0]) => true,
            protocol::TCP | protocol::UDP => sum_is_zero(from, to, self.protocol, segment),
            protocol::ICMP => checksum::internet(segment) == 0,
            protocol::ICMPV6 => sum_is_zero(from, to, self.protocol, segment),
            _ => true,
        }
    }
}

fn sum_is_zero(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> bool {
    Checksum::new().pseudo_header(from, to, protocol, segment.len() as u32).add_bytes(segment).is_valid()
}

/// Keys of a GRE packet: the call identifier of PPTP (RFC 2637, section 4.1), zeros for all others. Linux
/// knows the source key of PPTP's packets from the control connection alone, which has no helper here.
fn gre_keys(transport: &[u8]) -> Option<(u16, u16)> {
    const PPTP_VERSION: u8 = 1;
    let header = transport.get(..4)?;
    if header[1] & 7 != PPTP_VERSION {
        return Some((0, 0));
    }
    // "Protocol type: 880B" of an enhanced GRE header, with a key.
    if header[2..4] != [0x88, 0x0b] {
        return None;
    }
    let call = transport.get(6..8)?;
    Some((0, u16::from_be_bytes([call[0], call[1]])))
}
