//! Headers of a packet: the offsets that expressions load from (`nft_pktinfo`), and changes that keep
//! checksums right.

use belljar_wire::checksum;
use belljar_wire::ipv6::extension;
use belljar_wire::{ipv4, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of an IPv6 header in bytes.
pub(crate) const V6_LEN: usize = 40;

/// Offsets in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// True for IPv6.
    pub(crate) v6: bool,
    /// Protocol above IP; `None` if the headers are malformed.
    pub(crate) protocol: Option<u8>,
    /// Offset of the transport header.
    pub(crate) transport: usize,
    /// Offset of the payload in the original datagram, in units of eight bytes; 0 but for later fragments.
    pub(crate) fragment_offset: u16,
    /// End of the packet without link-layer padding.
    pub(crate) end: usize,
}

impl Headers {
    /// Finds the headers of a packet.
    pub(crate) fn of(packet: &[u8]) -> Headers {
        let malformed =
            Headers { v6: false, protocol: None, transport: 0, fragment_offset: 0, end: packet.len() };
        match packet.first().map(|first| first >> 4) {
            Some(4) if packet.len() >= ipv4::HEADER_LEN => {
                let transport = usize::from(packet[0] & 0xf) * 4;
                let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                if total < transport || total > packet.len() || transport < ipv4::HEADER_LEN {
                    return malformed;
                }
                let fragment_offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
                Headers { v6: false, protocol: Some(packet[9]), transport, fragment_offset, end: total }
            }
            Some(6) if packet.len() >= V6_LEN => Headers::of_v6(packet, malformed),
            _ => malformed,
        }
    }
    /// Follows the extension headers (`ipv6_find_hdr`).
    fn of_v6(packet: &[u8], malformed: Headers) -> Headers {
        let mut found = Headers { v6: true, transport: V6_LEN, ..malformed };
        let end = V6_LEN + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        if end > packet.len() {
            return found;
        }
        found.end = end;
        let mut next = packet[6];
        loop {
            let at = found.transport;
            let len = match next {
                0 | 43 | 60 | 135 => packet.get(at + 1).map(|len| (usize::from(*len) + 1) * 8),
                51 => packet.get(at + 1).map(|len| (usize::from(*len) + 2) * 4),
                extension::FRAGMENT => Some(8),
                _ => {
                    found.protocol = Some(next);
                    return found;
                }
            };
            let Some(len) = len.filter(|len| at + len <= end) else { return found };
            if next == extension::FRAGMENT {
                found.fragment_offset = u16::from_be_bytes([packet[at + 2], packet[at + 3]]) >> 3;
                if found.fragment_offset != 0 {
                    found.protocol = Some(packet[at]);
                    found.transport += len;
                    return found;
                }
            }
            next = packet[at];
            found.transport += len;
        }
    }
    /// Offset of the payload above the transport header, where its protocol has a header of known length.
    pub(crate) fn inner(&self, packet: &[u8]) -> Option<usize> {
        let len = match self.protocol? {
            protocol::UDP | protocol::UDP_LITE => 8,
            protocol::TCP => usize::from(packet.get(self.transport + 12)? >> 4) * 4,
            _ => return None,
        };
        Some(self.transport + len)
    }
    /// Offset of the checksum of the transport protocol in its header.
    pub(crate) fn checksum_offset(&self) -> Option<usize> {
        let at = match self.protocol? {
            protocol::TCP => 16,
            protocol::UDP | protocol::UDP_LITE => 6,
            protocol::ICMPV6 => 2,
            _ => return None,
        };
        Some(self.transport + at)
    }
}

/// Source address of an IP packet with a whole header.
pub(crate) fn source(packet: &[u8]) -> IpAddr {
    address(packet, 12, 8)
}

/// Destination address of an IP packet with a whole header.
pub(crate) fn destination(packet: &[u8]) -> IpAddr {
    address(packet, 16, 24)
}

fn address(packet: &[u8], v4: usize, v6: usize) -> IpAddr {
    match packet[0] >> 4 {
        6 => Ipv6Addr::from(<[u8; 16]>::try_from(&packet[v6..v6 + 16]).unwrap_or_default()).into(),
        _ => Ipv4Addr::from(<[u8; 4]>::try_from(&packet[v4..v4 + 4]).unwrap_or_default()).into(),
    }
}

/// Updates the one's complement checksum at an offset for the replacement of bytes, which begin at an even
/// offset of the sum (RFC 1624).
pub(crate) fn update_checksum(packet: &mut [u8], at: usize, before: &[u8], after: &[u8]) {
    let Some(field) = packet.get(at..at + 2) else { return };
    let word = u16::from_be_bytes([field[0], field[1]]);
    let sum = |bytes: &[u8]| u32::from(!checksum::internet(bytes));
    let total = u32::from(!word) + (0xffff - sum(before)) + sum(after);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    packet[at..at + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_both_versions() {
        let mut v4 = vec![0x46, 0, 0, 32, 0, 0, 0, 0, 64, 6];
        v4.resize(40, 0);
        let found = Headers::of(&v4);
        assert_eq!((found.protocol, found.transport, found.end), (Some(6), 24, 32));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
        v6.resize(40, 0);
        v6.extend([44, 0, 0, 0, 0, 0, 0, 0]);
        v6.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        v6.extend([0; 8]);
        let found = Headers::of(&v6);
        assert_eq!((found.protocol, found.transport, found.fragment_offset), (Some(17), 56, 0));
        v6[51] = 8;
        let found = Headers::of(&v6);
        assert_eq!((found.protocol, found.transport, found.fragment_offset), (Some(17), 56, 1));
        for len in 0..v6.len() {
            Headers::of(&v6[..len]);
        }
        for len in 0..v4.len().min(32) {
            assert_eq!(Headers::of(&v4[..len]).protocol, None);
        }
    }

    #[test]
    fn an_updated_checksum_is_that_of_the_new_bytes() {
        let mut packet = *b"\0\0abcdefgh";
        let sum = checksum::internet(&packet);
        packet[..2].copy_from_slice(&sum.to_be_bytes());
        let before = packet;
        packet[4..8].copy_from_slice(b"wxyz");
        update_checksum(&mut packet, 0, &before[4..8], b"wxyz");
        assert_eq!(checksum::internet(&packet), 0);
    }
}
