//! Encapsulation of packets and frames in IP packets of the host.
//!
//! The packet that enters a tunnel is consumed there, and the one that leaves the host originates
//! ([`Origin::Tunnel`]). Its sender is notified when it has entered.

use crate::Stack;
use crate::account::Origin;
use crate::ip::{IpHeader, Outbound};
use crate::stamping;
use crate::timestamps::is_stamped;
use belljar_net::{Packet, ecn};
use belljar_wire::ethernet::{HEADER_LEN, ethertype};
use belljar_wire::{checksum, protocol};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;

/// Bits of ECN in a type of service.
const ECN: u8 = 3;
const CONGESTION: u8 = 3;

/// Parameters of an encapsulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encapsulation {
    pub local: Option<IpAddr>,
    pub remote: IpAddr,
    pub link: Option<usize>,
    /// TTL; 0 for the default.
    pub ttl: u8,
    pub ttl_inherit: bool,
    /// Type of service; 1 for that of the inner packet.
    pub tos: u8,
    /// DF: 0 not set, 1 set, 2 as in the inner packet.
    pub df: u8,
    pub mark: u32,
}

/// TTL, type of service and DF of the IP packet in a frame or packet.
fn inner(bytes: &[u8]) -> Option<(u8, u8, bool)> {
    match bytes.first()? >> 4 {
        4 => Some((*bytes.get(8)?, *bytes.get(1)?, bytes.get(6)? & 0x40 != 0)),
        6 => {
            let head = u16::from_be_bytes([bytes[0], *bytes.get(1)?]);
            Some((*bytes.get(7)?, (head >> 4) as u8, true))
        }
        _ => None,
    }
}

/// Carries congestion experienced of the outer packet over to the inner one (RFC 6040). Returns false if the inner packet
/// is not capable of it, and is dropped.
pub(super) fn carry_congestion(tos: u8, bytes: &mut [u8], framed: bool) -> bool {
    tos & ECN != CONGESTION || ecn::ip_header(bytes, framed).is_none() || ecn::mark(bytes, framed)
}

/// The IP packet of a frame.
fn packet_of(frame: &[u8]) -> Option<&[u8]> {
    let kind = frame.get(HEADER_LEN - 2..HEADER_LEN)?;
    let kind = u16::from_be_bytes([kind[0], kind[1]]);
    (kind == ethertype::IPV4 || kind == ethertype::IPV6).then(|| &frame[HEADER_LEN..])
}

/// UDP port from which a frame is sent: by its flow, within a range (`udp_flow_src_port`).
pub(super) fn source_port(stack: &Stack, frame: &[u8], [low, high]: [u16; 2]) -> u16 {
    let spread = u64::from(high - low).max(1);
    low + ((inner_hash(stack, frame) as u32 as u64 * spread) >> 32) as u16
}

/// Hash of the flow of a frame: its addresses and ports.
fn inner_hash(stack: &Stack, frame: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(stack.flow_key, 7);
    match packet_of(frame) {
        Some(packet) if packet.first().is_some_and(|first| first >> 4 == 4) && packet.len() >= 24 => {
            hasher.write(&packet[9..10]);
            hasher.write(&packet[12..20]);
            let ports = usize::from(packet[0] & 0xf) * 4;
            let whole = packet[6] & 0x3f == 0 && packet[7] == 0;
            if whole && [protocol::TCP, protocol::UDP].contains(&packet[9]) {
                hasher.write(packet.get(ports..ports + 4).unwrap_or_default());
            }
        }
        Some(packet) if packet.len() >= 44 => {
            hasher.write(&packet[6..7]);
            hasher.write(&packet[8..40]);
            if [protocol::TCP, protocol::UDP].contains(&packet[6]) {
                hasher.write(&packet[40..44]);
            }
        }
        _ => hasher.write(frame.get(..HEADER_LEN).unwrap_or(frame)),
    }
    hasher.finish()
}

/// Takes a packet out of the hands of its sender; returns its bytes.
pub(super) fn take_over(stack: &mut Stack, device: usize, packet: Packet) -> Vec<u8> {
    let (cookie, len) = (packet.cookie(), packet.len());
    if is_stamped(cookie) {
        stamping::sent(stack, stack.clock.now(), device, &packet);
    }
    if cookie != 0 {
        stack.taken_over.push_back((cookie, len));
    }
    packet.into_bytes()
}

/// Sends an IP packet of this protocol with a payload that contains `packet`, whose header determines the outer one.
/// Returns false if there is no route.
pub(super) fn encapsulate(
    stack: &mut Stack,
    given: &Encapsulation,
    number: u8,
    packet: Option<&[u8]>,
    payload: impl FnOnce(IpAddr, IpAddr) -> Vec<u8>,
) -> bool {
    let device = given.link.map(crate::interface_index);
    let Ok(route) = stack.route(given.remote, given.local, device) else { return false };
    let within = packet.and_then(inner);
    let (source, remote) = (route.source, given.remote);
    let tos = match (given.tos, within) {
        (1, Some((_, tos, _))) => tos & !ECN,
        (1, None) => 0,
        (tos, _) => tos & !ECN,
    };
    // The ECN field is that of the inner packet, except for congestion experienced (RFC 6040 and INET_ECN_encapsulate).
    let ecn = match within.map_or(0, |(_, tos, _)| tos & ECN) {
        CONGESTION => 2,
        ecn => ecn,
    };
    let ttl = match (given.ttl, within) {
        (_, Some((ttl, ..))) if given.ttl_inherit => ttl,
        (0, _) if remote.is_multicast() => 1,
        (0, _) => 64,
        (ttl, _) => ttl,
    };
    let dont_fragment = match given.df {
        0 => false,
        1 => true,
        _ => within.is_some_and(|(.., df)| df),
    };
    let header = IpHeader { tos: tos | ecn, ttl, dont_fragment, ..IpHeader::new(source, remote, number) };
    let mut bytes = vec![0; if remote.is_ipv4() { 20 } else { 40 }];
    bytes.extend(payload(source, remote));
    // The sockets of UDP tunnels do not loop multicast datagrams back.
    let loop_back = remote.is_multicast() && number != protocol::UDP;
    let outbound =
        Outbound { loop_back, mark: given.mark, ..Outbound::new(Origin::Tunnel, &route, header, bytes) };
    stack.ip_output(outbound).is_ok()
}

/// Sends a UDP datagram with a tunnel header and a frame. Returns false if there is no route.
pub(super) fn encapsulate_udp(
    stack: &mut Stack,
    given: &Encapsulation,
    (source, port): (u16, u16),
    (header, frame): (&[u8], &[u8]),
    checksummed: bool,
) -> bool {
    encapsulate(stack, given, protocol::UDP, packet_of(frame), |from, to| {
        let len = (8 + header.len() + frame.len()) as u16;
        let mut bytes = [source, port, len, 0].map(u16::to_be_bytes).concat();
        bytes.extend(header);
        bytes.extend(frame);
        if checksummed {
            let sum = checksum::transport(from, to, protocol::UDP, &bytes);
            let sum = if sum == 0 { 0xffff } else { sum };
            bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    })
}
