//! Translation of packets: addresses, ports and checksums (`nf_nat_proto.c`). Checksums are adjusted by what
//! changes (RFC 1624), so a wrong one stays wrong.

use super::Manip;
use crate::conn::{Conn, CtStatus};
use crate::icmp;
use crate::parse::Datagram;
use crate::tuple::{L3, Tuple, TupleDirection, protocol};
use belljar_wire::checksum::{self, Checksum};
use belljar_wire::{ipv4, ipv6};

/// Type of an ICMP redirect (RFC 792).
const REDIRECT_V4: u8 = 5;
/// Type of an ICMPv6 redirect (RFC 4861).
const REDIRECT_V6: u8 = 137;

/// True if a packet is ICMP of its family.
pub(super) fn is_icmp(packet: &[u8]) -> bool {
    Datagram::parse(packet).is_some_and(|datagram| {
        matches!((datagram.l3, datagram.protocol), (L3::V4, protocol::ICMP) | (L3::V6, protocol::ICMPV6))
    })
}

/// Gives a packet the source or destination of `target`. False if it cannot be read.
pub(super) fn rewrite(packet: &mut [u8], target: &Tuple, manip: Manip) -> bool {
    match Datagram::parse(packet) {
        Some(datagram) => {
            rewrite_parsed(packet, &datagram, target, manip);
            true
        }
        None => false,
    }
}

/// Translates an ICMP error and the packet that it quotes (`nf_nat_icmp_reply_translation`). False if it is
/// to be dropped: its checksum is wrong, or it is a redirect about a connection that is translated.
pub(super) fn translate_error(
    packet: &mut [u8],
    conn: &Conn,
    direction: TupleDirection,
    manip: Manip,
) -> bool {
    let Some(datagram) = Datagram::parse(packet) else { return false };
    let range = datagram.transport.clone();
    if range.end > packet.len() || range.len() < icmp::HEADER_LEN || !datagram.checksum_is_right(packet) {
        return false;
    }
    let redirect = if datagram.l3 == L3::V4 { REDIRECT_V4 } else { REDIRECT_V6 };
    if packet[range.start] == redirect {
        let settled = conn.is(CtStatus::NAT_DONE_MASK) && !conn.status().intersects(CtStatus::NAT_MASK);
        if !settled {
            return false;
        }
    }
    if !conn.status().intersects(manip.changes_in(direction)) {
        return true;
    }
    // The quoted packet is one of the other direction, as it was before its translation in this hook.
    let other = conn.tuple(direction.opposite());
    let quote = &mut packet[range.start + icmp::HEADER_LEN..range.end];
    let Some(quoted) = Datagram::parse_quoted(quote) else { return false };
    rewrite_parsed(quote, &quoted, other, manip.other());
    fill_icmp_checksum(packet, &datagram);
    let Some(target) = other.inverse() else { return true };
    rewrite_parsed(packet, &datagram, &target, manip);
    true
}

fn fill_icmp_checksum(packet: &mut [u8], datagram: &Datagram) {
    let message = &mut packet[datagram.transport.clone()];
    message[2..4].fill(0);
    let sum = match datagram.l3 {
        L3::V4 => checksum::internet(message),
        L3::V6 => {
            let (from, to) = (datagram.source.to_ip(L3::V6), datagram.destination.to_ip(L3::V6));
            checksum::transport(from, to, protocol::ICMPV6, message)
        }
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Gives a packet that has been read the source or destination of `target`. A quoted packet may end early.
fn rewrite_parsed(packet: &mut [u8], datagram: &Datagram, target: &Tuple, manip: Manip) {
    let (old, new) = match manip {
        Manip::Source => (datagram.source, target.source),
        Manip::Destination => (datagram.destination, target.destination),
    };
    let (old, new) = (old.bytes(datagram.l3), new.bytes(datagram.l3));
    let end = datagram.transport.end.min(packet.len());
    let (header, transport) = packet[..end].split_at_mut(datagram.transport.start.min(end));
    rewrite_transport(transport, datagram, target, manip, (old, new));
    let at = match (datagram.l3, manip) {
        (L3::V4, Manip::Source) => 12,
        (L3::V4, Manip::Destination) => 16,
        (L3::V6, Manip::Source) => 8,
        (L3::V6, Manip::Destination) => 24,
    };
    header[at..at + new.len()].copy_from_slice(new);
    if datagram.l3 == L3::V4 {
        adjust(header, 10, old, new);
    }
    debug_assert!(header.len() >= if datagram.l3 == L3::V4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN });
}

/// Changes ports or identifiers, and the checksum for them and for the address in the pseudo header.
fn rewrite_transport(
    transport: &mut [u8],
    datagram: &Datagram,
    target: &Tuple,
    manip: Manip,
    (old, new): (&[u8], &[u8]),
) {
    // Eight bytes are what every ICMP error quotes of a transport.
    if transport.len() < 8 {
        return;
    }
    let (port_at, port) = match manip {
        Manip::Source => (0, target.source_port),
        Manip::Destination => (2, target.destination_port),
    };
    let complete = |transport: &[u8], len: usize| transport.len() >= len;
    match datagram.protocol {
        protocol::TCP => {
            let before = replace_port(transport, port_at, port);
            if complete(transport, belljar_wire::tcp::HEADER_LEN) {
                adjust(transport, 16, old, new);
                adjust(transport, 16, &before, &port.to_be_bytes());
            }
        }
        protocol::UDP | protocol::UDP_LITE => {
            let before = replace_port(transport, port_at, port);
            // "An all zero transmitted checksum value means that the transmitter generated no checksum".
            if transport[6..8] != [0, 0] || datagram.protocol == protocol::UDP_LITE {
                adjust(transport, 6, old, new);
                adjust(transport, 6, &before, &port.to_be_bytes());
                if transport[6..8] == [0, 0] {
                    transport[6..8].fill(0xff);
                }
            }
        }
        protocol::SCTP => {
            replace_port(transport, port_at, port);
            if complete(transport, 12) {
                let sum = sctp_checksum(transport);
                transport[8..12].copy_from_slice(&sum);
            }
        }
        protocol::ICMP if has_identifier(transport[0]) => {
            let before = replace_port(transport, 4, target.source_port);
            adjust(transport, 2, &before, &target.source_port.to_be_bytes());
        }
        protocol::ICMPV6 => {
            adjust(transport, 2, old, new);
            if matches!(transport[0], 128 | 129) {
                let before = replace_port(transport, 4, target.source_port);
                adjust(transport, 2, &before, &target.source_port.to_be_bytes());
            }
        }
        protocol::GRE => {
            // The call identifier of PPTP names the receiver's end.
            let is_pptp = transport[1] & 7 == 1 && transport[2..4] == [0x88, 0x0b];
            if is_pptp && manip == Manip::Destination {
                replace_port(transport, 6, target.destination_port);
            }
        }
        _ => {}
    }
}

/// True for ICMP queries and answers, which have an identifier.
const fn has_identifier(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=18)
}

/// Stores a 16-bit field and returns its old bytes.
fn replace_port(transport: &mut [u8], at: usize, port: u16) -> [u8; 2] {
    let before = [transport[at], transport[at + 1]];
    transport[at..at + 2].copy_from_slice(&port.to_be_bytes());
    before
}

/// Adjusts the checksum at `at` for bytes that change from `old` to `new`, both of the same even length:
/// "HC' = ~(~HC + ~m + m')" (RFC 1624, equation 3).
fn adjust(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let word = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let mut sum = Checksum::new().add_u16(!word(&bytes[at..]));
    for (old, new) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
        sum = sum.add_u16(!word(old)).add_u16(word(new));
    }
    let sum = sum.finish();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Checksum of an SCTP packet: CRC-32C (RFC 9260, appendix A) with the checksum field taken as zero.
pub(crate) fn sctp_checksum(segment: &[u8]) -> [u8; 4] {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let crc = segment.iter().enumerate().fold(u32::MAX, |crc, (n, byte)| {
        let byte = if (8..12).contains(&n) { 0 } else { *byte };
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 0 { 0 } else { REVERSED_POLYNOMIAL }
        })
    });
    (!crc).to_le_bytes()
}
