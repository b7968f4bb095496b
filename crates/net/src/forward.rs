//! IPv4 forwarding (RFC 1812) on packet bytes: TTL decrement, fragmentation, ICMP errors to senders, and flow
//! hashes for multipath routes.

use belljar_wire::checksum;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::Ipv4Addr;

/// Length of an IPv4 header without options in bytes.
const HEADER_LEN: usize = 20;
const ICMP_HEADER_LEN: usize = 8;
const MORE_FRAGMENTS: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;
const OFFSET: u16 = 0x1fff;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
/// RFC 1812, section 4.3.2.3: "as much of the original datagram as possible without the length of the
/// ICMP datagram exceeding 576 bytes".
const MAX_ERROR: usize = 576;

/// Reason for not forwarding or delivering a packet, as reported by ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardError {
    /// No route matches the destination.
    NetworkUnreachable,
    /// The destination host is unreachable.
    HostUnreachable,
    /// The destination does not support the protocol.
    ProtocolUnreachable,
    /// No socket is bound to the destination port.
    PortUnreachable,
    /// The packet exceeds this MTU of the outgoing link and must not be fragmented.
    FragmentationNeeded(u16),
    /// A route prohibits the packet.
    Prohibited,
    /// The TTL or hop limit is exhausted.
    TimeExceeded,
    /// Reassembly timed out.
    ReassemblyTimeExceeded,
    /// The header byte at this offset is invalid.
    Malformed(u8),
}

impl ForwardError {
    /// ICMP type, code and the last four bytes of the header.
    pub fn icmp(self) -> (u8, u8, u32) {
        match self {
            ForwardError::NetworkUnreachable => (3, 0, 0),
            ForwardError::HostUnreachable => (3, 1, 0),
            ForwardError::ProtocolUnreachable => (3, 2, 0),
            ForwardError::PortUnreachable => (3, 3, 0),
            ForwardError::FragmentationNeeded(mtu) => (3, 4, mtu.into()),
            ForwardError::Prohibited => (3, 13, 0),
            ForwardError::TimeExceeded => (11, 0, 0),
            ForwardError::ReassemblyTimeExceeded => (11, 1, 0),
            ForwardError::Malformed(at) => (12, 0, u32::from(at) << 24),
        }
    }
}

/// Big-endian 16-bit word at `at`.
fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Source address of an IPv4 packet.
pub fn source(packet: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15])
}

/// Destination address of an IPv4 packet.
pub fn destination(packet: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19])
}

/// Decrements the TTL and adjusts the checksum (RFC 1141); false, with the packet unchanged, if the TTL is
/// exhausted.
pub fn count_hop(packet: &mut [u8]) -> bool {
    if packet[8] <= 1 {
        return false;
    }
    packet[8] -= 1;
    let (sum, carry) = word(packet, 10).overflowing_add(0x100);
    let sum = sum + u16::from(carry);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// True if the don't-fragment flag is not set.
pub fn may_fragment(packet: &[u8]) -> bool {
    word(packet, 6) & DONT_FRAGMENT == 0
}

/// Fragments a packet, which may be a fragment itself, so that no piece exceeds `mtu` bytes. Options are
/// copied to the first piece only.
pub fn fragment(packet: &[u8], mtu: usize, mut piece: impl FnMut(Vec<u8>)) {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let total = usize::from(word(packet, 2));
    let (offset, flags) = (word(packet, 6) & OFFSET, word(packet, 6) & !OFFSET);
    let payload = &packet[header_len..total];
    let mut done = 0;
    while done < payload.len() {
        let header = if done == 0 { header_len } else { HEADER_LEN };
        let step = (mtu.saturating_sub(header) & !7).max(8);
        let part = &payload[done..payload.len().min(done + step)];
        let mut bytes = Vec::with_capacity(header + part.len());
        bytes.extend_from_slice(&packet[..header]);
        bytes.extend_from_slice(part);
        let last = done + part.len() == payload.len();
        let more = if last { 0 } else { MORE_FRAGMENTS };
        bytes[0] = 0x40 | (header / 4) as u8;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let place = flags | more | (offset + (done / 8) as u16);
        bytes[6..8].copy_from_slice(&place.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = checksum::internet(&bytes[..header]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        piece(bytes);
        done += part.len();
    }
}

/// Source address of ICMP errors of a router without an IPv4 address: RFC 7600, section 4.8.
pub const NO_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// ICMP error, without IP header, that reports `why` to the sender of `packet`. `None` if no error may be
/// sent (RFC 1122, section 3.2.2): for an ICMP error, a fragment other than the first, or a source address
/// that is not a single host.
pub fn refusal_message(packet: &[u8], why: ForwardError) -> Option<Vec<u8>> {
    message_about(packet, why.icmp())
}

/// ICMP Destination Unreachable of this code, without IP header; `None` under the same conditions, but for
/// packets of this host over `lo`.
pub fn unreachable_message(packet: &[u8], code: u8) -> Option<Vec<u8>> {
    if source(packet).is_loopback() {
        return (!is_exempt(packet)).then(|| quote(packet, (3, code, 0)));
    }
    message_about(packet, (3, code, 0))
}

/// ICMP redirect, without IP header, that reports a better router on the link to the sender of `packet`;
/// `None` under the same conditions.
pub fn redirect_message(packet: &[u8], router: Ipv4Addr) -> Option<Vec<u8>> {
    message_about(packet, (5, 1, router.into()))
}

/// ICMP message about a packet, with this type, code and last four bytes of the header.
fn message_about(packet: &[u8], header: (u8, u8, u32)) -> Option<Vec<u8>> {
    let source = source(packet);
    let no_host =
        source.is_unspecified() || source.is_broadcast() || source.is_multicast() || source.is_loopback();
    (!no_host && !is_exempt(packet)).then(|| quote(packet, header))
}

/// True for ICMP errors and later fragments, which no error may answer.
fn is_exempt(packet: &[u8]) -> bool {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let answers_error =
        packet[9] == ICMP && !matches!(packet.get(header_len), Some(0 | 8 | 13 | 14 | 15 | 16 | 17 | 18));
    answers_error || word(packet, 6) & OFFSET != 0
}

/// ICMP message that quotes a packet.
fn quote(packet: &[u8], (kind, code, extra): (u8, u8, u32)) -> Vec<u8> {
    let total = usize::from(word(packet, 2)).min(packet.len());
    let quoted = &packet[..total.min(MAX_ERROR - HEADER_LEN - ICMP_HEADER_LEN)];
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&extra.to_be_bytes());
    message.extend_from_slice(quoted);
    let sum = checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Flow hash of a packet: addresses, protocol and, unless the packet is a fragment, the ports of TCP, UDP and
/// UDP-Lite. Routers use different keys, so that their hashes differ.
pub fn flow_hash(key: u64, packet: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&packet[12..20]);
    hasher.write_u8(packet[9]);
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let whole = word(packet, 6) & (MORE_FRAGMENTS | OFFSET) == 0;
    if let (TCP | UDP | UDP_LITE, true, Some(ports)) =
        (packet[9], whole, packet.get(header_len..header_len + 4))
    {
        hasher.write(ports);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: usize, flags: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN + payload];
        let len = bytes.len() as u16;
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        (bytes[8], bytes[9]) = (3, UDP);
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 9, 2]);
        let sum = checksum::internet(&bytes[..HEADER_LEN]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        (HEADER_LEN..bytes.len()).for_each(|n| bytes[n] = n as u8);
        bytes
    }

    #[test]
    fn hops_are_counted_and_the_checksum_holds() {
        // All checksums, including those with a carry.
        for id in 0..=u16::MAX {
            let mut bytes = packet(0, 0);
            bytes[4..6].copy_from_slice(&id.to_be_bytes());
            bytes[10..12].fill(0);
            let sum = checksum::internet(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(count_hop(&mut bytes));
            assert_eq!(checksum::internet(&bytes), 0, "{id}");
        }
        let mut bytes = packet(0, 0);
        assert!(count_hop(&mut bytes) && count_hop(&mut bytes) && !count_hop(&mut bytes));
    }

    #[test]
    fn fragments_of_fragments_fit_together() {
        let whole = packet(1_400, 0);
        let mut pieces = Vec::new();
        fragment(&whole, 700, |piece| fragment(&piece, 300, |piece| pieces.push(piece)));
        let mut payload = Vec::new();
        for (n, piece) in pieces.iter().enumerate() {
            assert!(piece.len() <= 300 && checksum::internet(&piece[..HEADER_LEN]) == 0);
            assert_eq!(usize::from(word(piece, 6) & OFFSET) * 8, payload.len());
            assert_eq!(word(piece, 6) & MORE_FRAGMENTS != 0, n + 1 < pieces.len());
            payload.extend_from_slice(&piece[HEADER_LEN..]);
        }
        assert_eq!(payload, whole[HEADER_LEN..]);
        assert!(may_fragment(&whole) && !may_fragment(&packet(1, DONT_FRAGMENT)));
    }

    #[test]
    fn errors_quote_the_packet_and_never_answer_errors() {
        let message = refusal_message(&packet(1_000, 0), ForwardError::FragmentationNeeded(900)).unwrap();
        assert_eq!((message.len(), message[0], message[1], word(&message, 6)), (548 + 8, 3, 4, 900));
        assert_eq!(checksum::internet(&message), 0);
        let mut error = packet(8, 0);
        (error[9], error[20]) = (ICMP, 11);
        assert_eq!(refusal_message(&error, ForwardError::TimeExceeded), None);
        error[20] = 8;
        assert!(refusal_message(&error, ForwardError::TimeExceeded).is_some());
        assert_eq!(refusal_message(&packet(8, 1), ForwardError::TimeExceeded), None, "a later fragment");
    }

    #[test]
    fn a_flow_is_told_by_its_ports_unless_it_is_cut() {
        let (one, mut other) = (packet(8, 0), packet(8, 0));
        other[21] ^= 1;
        assert_ne!(flow_hash(1, &one), flow_hash(1, &other));
        assert_ne!(flow_hash(1, &one), flow_hash(2, &one));
        let (one, mut other) = (packet(8, MORE_FRAGMENTS), packet(8, MORE_FRAGMENTS));
        other[21] ^= 1;
        assert_eq!(flow_hash(1, &one), flow_hash(1, &other));
    }
}
