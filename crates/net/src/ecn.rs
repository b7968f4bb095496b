//! IP header fields used by queues: traffic class and explicit congestion notification (RFC 3168), in IPv4
//! and IPv6 packets with and without an Ethernet header.

use belljar_wire::ethernet::{self, ethertype};
use belljar_wire::{ipv4, ipv6};

/// IP version of a packet, with the offset of its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4(usize),
    /// IPv6.
    V6(usize),
}

/// Finds the IP header of a packet, or of a frame if `framed`; `None` if there is none.
pub fn ip_header(bytes: &[u8], framed: bool) -> Option<IpVersion> {
    let at = if framed { ethernet::HEADER_LEN } else { 0 };
    let kind = framed.then(|| bytes.get(12..14).map(|word| u16::from_be_bytes([word[0], word[1]])));
    match (kind, bytes.get(at)? >> 4) {
        (None | Some(Some(ethertype::IPV4)), 4) if bytes.len() >= at + 20 => Some(IpVersion::V4(at)),
        (None | Some(Some(ethertype::IPV6)), 6) if bytes.len() >= at + 40 => Some(IpVersion::V6(at)),
        _ => None,
    }
}

/// Traffic class of a packet: DSCP in the upper six bits, ECN in the lower two. `None` if it is no IP
/// packet.
pub fn traffic_class(bytes: &[u8], framed: bool) -> Option<u8> {
    Some(match ip_header(bytes, framed)? {
        IpVersion::V4(at) => bytes[at + 1],
        IpVersion::V6(at) => bytes[at] << 4 | bytes[at + 1] >> 4,
    })
}

/// Sets the codepoint CE of a packet. Returns false if the packet is not ECN-capable.
pub fn mark(bytes: &mut [u8], framed: bool) -> bool {
    match ip_header(bytes, framed) {
        Some(IpVersion::V4(at)) => ipv4::mark_congestion(&mut bytes[at..]),
        Some(IpVersion::V6(at)) => ipv6::mark_congestion(&mut bytes[at..]),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_wire::checksum;

    fn v4(tos: u8, id: u16) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        (bytes[0], bytes[1], bytes[3]) = (0x45, tos, 20);
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        let sum = checksum::internet(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn marks_keep_the_checksum() {
        for id in (0..=u16::MAX).step_by(7) {
            for tos in [0x01, 0x02, 0xb9, 0xfe] {
                let mut bytes = v4(tos, id);
                assert!(mark(&mut bytes, false));
                assert_eq!((bytes[1], checksum::internet(&bytes)), (tos | 3, 0), "{tos} {id}");
            }
        }
        let mut marked = v4(3, 9);
        assert!(mark(&mut marked, false) && marked == v4(3, 9), "it stays as it is");
    }

    #[test]
    fn who_does_not_understand_marks_gets_none() {
        let mut plain = v4(0xb8, 1);
        assert!(!mark(&mut plain, false) && plain == v4(0xb8, 1));
        assert!(!mark(&mut [0; 60], false) && !mark(&mut [], false) && !mark(&mut [0x45; 19], false));
        assert_eq!(traffic_class(&plain, false), Some(0xb8));
    }

    #[test]
    fn frames_and_ipv6() {
        let mut frame = vec![0x45; 12];
        frame.extend([0x86, 0xdd, 0x60 | 0x0b, 0x80 | 0x10]);
        frame.resize(14 + 40, 0);
        assert_eq!(ip_header(&frame, true), Some(IpVersion::V6(14)));
        assert_eq!(traffic_class(&frame, true), Some(0xb9));
        assert!(mark(&mut frame, true));
        assert_eq!(traffic_class(&frame, true), Some(0xbb));
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(traffic_class(&frame, true), None, "ARP has no class");
    }
}
