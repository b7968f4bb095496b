//! Segmentation and checksums offloaded by a program: the `struct virtio_net_hdr` before a packet that it
//! writes (`IFF_VNET_HDR`).

use belljar_linux_abi::Errno;
use belljar_wire::checksum;

/// Length of `struct virtio_net_hdr` in bytes.
pub const HEADER_LEN: usize = 10;
/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6` and `TUN_F_TSO_ECN`, the offloads that a program can accept; none
/// is used towards it.
pub const KNOWN: u64 = 0x1 | 0x2 | 0x4 | 0x8;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_*`.
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;
/// TCP flags that only the last segment carries: FIN and PSH.
const LAST_ONLY: u8 = 0x01 | 0x08;

/// Offloads requested for a packet (`virtio_net_hdr`).
#[derive(Clone, Copy, Debug)]
pub struct VirtioNetHeader {
    flags: u8,
    kind: u8,
    segment: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl VirtioNetHeader {
    /// Decodes the header: `EINVAL` if it is too short or of an unsupported type.
    pub fn parse(bytes: &[u8]) -> Result<VirtioNetHeader, Errno> {
        let bytes = bytes.get(..HEADER_LEN).ok_or(Errno::EINVAL)?;
        let word = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let header = VirtioNetHeader {
            flags: bytes[0],
            kind: bytes[1] & !GSO_ECN,
            segment: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        };
        let known = matches!(header.kind, GSO_NONE | GSO_TCP4 | GSO_TCP6);
        if !known || header.kind != GSO_NONE && header.segment == 0 { Err(Errno::EINVAL) } else { Ok(header) }
    }

    /// Packets that result from the offloads; the IP header of `packet` begins at `ip`.
    pub fn packets(&self, packet: &[u8], ip: usize) -> Result<Vec<Vec<u8>>, Errno> {
        if self.kind == GSO_NONE {
            let mut packet = packet.to_vec();
            if self.flags & NEEDS_CHECKSUM != 0 {
                // The field holds the sum of the pseudo header.
                let at = self.checksum_start + self.checksum_offset;
                if at + 2 > packet.len() {
                    return Err(Errno::EINVAL);
                }
                let sum = checksum::internet(&packet[self.checksum_start..]);
                packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            return Ok(vec![packet]);
        }
        self.segments(packet, ip)
    }

    /// Splits a packet into TCP segments of `segment` bytes.
    fn segments(&self, packet: &[u8], ip: usize) -> Result<Vec<Vec<u8>>, Errno> {
        let v4 = self.kind == GSO_TCP4;
        let ip_len = match packet.get(ip) {
            Some(first) if v4 && first >> 4 == 4 => usize::from(first & 0xf) * 4,
            Some(first) if !v4 && first >> 4 == 6 => 40,
            _ => return Err(Errno::EINVAL),
        };
        let tcp = ip + ip_len;
        let tcp_len = packet.get(tcp + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        if tcp_len < 20 || tcp + tcp_len > packet.len() {
            return Err(Errno::EINVAL);
        }
        let (headers, payload) = packet.split_at(tcp + tcp_len);
        let first_seq = u32::from_be_bytes(headers[tcp + 4..tcp + 8].try_into().expect("four bytes"));
        let first_id = u16::from_be_bytes([headers[ip + 4], headers[ip + 5]]);
        let count = payload.len().div_ceil(self.segment).max(1);
        let mut packets = Vec::with_capacity(count);
        for n in 0..count {
            let start = n * self.segment;
            let piece = &payload[start..payload.len().min(start + self.segment)];
            let mut segment = [headers, piece].concat();
            let seq = first_seq.wrapping_add(start as u32);
            segment[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
            if n + 1 < count {
                segment[tcp + 13] &= !LAST_ONLY;
            }
            let total = (segment.len() - ip) as u16;
            if v4 {
                segment[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
                let id = first_id.wrapping_add(n as u16);
                segment[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
                segment[ip + 10..ip + 12].fill(0);
                let sum = checksum::internet(&segment[ip..tcp]);
                segment[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            } else {
                segment[ip + 4..ip + 6].copy_from_slice(&(total - 40).to_be_bytes());
            }
            segment[tcp + 16..tcp + 18].fill(0);
            let sum = transport_sum(&segment, ip, tcp, v4);
            segment[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
            packets.push(segment);
        }
        Ok(packets)
    }
}

fn transport_sum(packet: &[u8], ip: usize, tcp: usize, v4: bool) -> u16 {
    const TCP: u8 = 6;
    let octets4 = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("four bytes");
    let octets6 = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("16 bytes");
    let (from, to): (std::net::IpAddr, std::net::IpAddr) = match v4 {
        true => (octets4(ip + 12).into(), octets4(ip + 16).into()),
        false => (octets6(ip + 8).into(), octets6(ip + 24).into()),
    };
    checksum::transport(from, to, TCP, &packet[tcp..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_segment_becomes_small_ones_with_sums_of_their_own() {
        let mut packet = vec![0u8; 40 + 2_500];
        packet[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet[24..28].copy_from_slice(&1_000u32.to_be_bytes());
        (packet[32], packet[33]) = (0x50, 0x18);
        packet[40..].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
        let mut header = [0; HEADER_LEN];
        (header[0], header[1]) = (NEEDS_CHECKSUM, GSO_TCP4);
        header[4..6].copy_from_slice(&1_000u16.to_le_bytes());
        let packets = VirtioNetHeader::parse(&header).unwrap().packets(&packet, 0).unwrap();
        assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [1_040, 1_040, 540]);
        for (n, packet) in packets.iter().enumerate() {
            assert_eq!(checksum::internet(&packet[..20]), 0);
            assert_eq!(transport_sum(packet, 0, 20, true), 0);
            assert_eq!(packet[24..28], (1_000 + 1_000 * n as u32).to_be_bytes());
            assert_eq!(packet[33], if n == 2 { 0x18 } else { 0x10 });
        }
        assert_eq!(packets.iter().flat_map(|p| p[40..].to_vec()).collect::<Vec<_>>(), packet[40..]);
        header[1] = 3;
        assert!(VirtioNetHeader::parse(&header).is_err(), "UDP fragmentation is not offered");
    }
}
