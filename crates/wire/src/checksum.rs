//! Internet checksum (RFC 1071): the one's complement of the one's complement sum of 16-bit words, and the
//! CRC-32 of Ethernet. The sum is independent of byte order and word size provided that carries are added
//! back, so it is taken over native-endian 64-bit words.

use crate::{ipv4, ipv6, protocol, tcp, udp};
use std::net::IpAddr;
use std::ops::Range;

/// Running one's complement sum. Every piece but the last must have even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Empty sum.
    pub const fn new() -> Checksum {
        Checksum(0)
    }

    /// Adds `bytes`; an odd last byte is padded with zero.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Checksum {
        // Two independent accumulators of 32-bit halves: sums of up to 2^32 words cannot
        // overflow 64 bits, and the compiler vectorises the loop because no carry is tested.
        let mut low = self.0;
        let mut high = 0u64;
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word = u64::from_ne_bytes(word.try_into().expect("chunks of 8"));
            low += word & 0xffff_ffff;
            high += word >> 32;
        }
        let mut sum = low + high;
        let mut pairs = words.remainder().chunks_exact(2);
        for pair in &mut pairs {
            sum += u64::from(u16::from_ne_bytes([pair[0], pair[1]]));
        }
        if let [last] = pairs.remainder() {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Checksum(fold(sum))
    }

    /// Adds a 16-bit word of the packet.
    #[must_use]
    pub fn add_u16(self, word: u16) -> Checksum {
        Checksum(self.0 + u64::from(word.to_be()))
    }

    /// Adds the pseudo header of RFC 9293, section 3.1 (IPv4) or RFC 8200, section 8.1 (IPv6). `len` is the
    /// length of transport header and payload in bytes.
    ///
    /// # Panics
    /// If the addresses are of different families.
    #[inline]
    #[must_use]
    pub fn pseudo_header(self, src: IpAddr, dst: IpAddr, protocol: u8, len: u32) -> Checksum {
        let addresses = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.add_bytes(&src.octets()).add_bytes(&dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.add_bytes(&src.octets()).add_bytes(&dst.octets()),
            _ => panic!("pseudo header of {src} and {dst}"),
        };
        addresses.add_bytes(&len.to_be_bytes()).add_u16(u16::from(protocol))
    }

    /// Value of the checksum field, in host order for [`u16::to_be_bytes`].
    #[inline]
    pub fn finish(self) -> u16 {
        let mut sum = fold(self.0);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !u16::from_be(sum as u16)
    }

    /// True if the bytes added, checksum field included, are intact.
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }
}

/// Folds the carries of a sum into slightly more than 32 bits.
const fn fold(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// Checksum of `bytes` alone, as in IPv4 headers and ICMP.
#[inline]
pub fn internet(bytes: &[u8]) -> u16 {
    Checksum::new().add_bytes(bytes).finish()
}

/// Checksum of a transport `segment` (header and payload) between `src` and `dst`.
pub fn transport(src: IpAddr, dst: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    partial(src, dst, protocol, segment, segment.len())
}

/// Checksum over the first `covered` bytes of a segment, for UDP-Lite: the pseudo header has the length of
/// the whole segment (RFC 3828, section 3.1).
///
/// # Panics
/// If the segment is shorter than `covered`.
pub fn partial(src: IpAddr, dst: IpAddr, protocol: u8, segment: &[u8], covered: usize) -> u16 {
    let sum = Checksum::new().pseudo_header(src, dst, protocol, segment.len() as u32);
    sum.add_bytes(&segment[..covered]).finish()
}

/// CRC-32 of the Ethernet frame check sequence (IEEE 802.3, section 3.2.9) and of gzip (RFC 1952, section 8).
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| crc >> 8 ^ CRC_32[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

/// Remainder for each byte value.
static CRC_32: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut value, mut bit) = (n as u32, 0);
        while bit < 8 {
            value = if value & 1 != 0 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
}

/// Computes and stores the checksum of the TCP segment or UDP datagram in an IP packet. Fragments, IPv6
/// packets with extension headers and packets of other protocols are left unchanged.
pub fn fill_transport(packet: &mut [u8]) {
    let Some((src, dst, number, payload)) = transport_of(packet) else { return };
    let segment = &mut packet[payload];
    match number {
        protocol::TCP if segment.len() >= tcp::HEADER_LEN => tcp::fill_checksum(src, dst, segment),
        protocol::UDP if segment.len() >= udp::HEADER_LEN => udp::fill_checksum(src, dst, segment),
        _ => {}
    }
}

/// Addresses, protocol and payload range of an IP packet that is not a fragment.
fn transport_of(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, Range<usize>)> {
    if packet.first()? >> 4 == 6 {
        let header = ipv6::Repr::parse(packet).ok()?;
        let payload = ipv6::HEADER_LEN..ipv6::HEADER_LEN + header.payload_len;
        return Some((header.src.into(), header.dst.into(), header.next_header, payload));
    }
    let header = ipv4::Packet::new_checked(packet).ok()?;
    let whole = !header.more_fragments() && header.fragment_offset() == 0;
    let payload = header.header_len()..header.total_len();
    whole.then(|| (header.src().into(), header.dst().into(), header.protocol(), payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Literal implementation of RFC 1071.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn agrees_with_the_definition_at_every_length_and_split() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in (0..200).chain([1459, 1460, 2999, 3000]) {
            assert_eq!(internet(&bytes[..len]), reference(&bytes[..len]), "length {len}");
            let cut = (len / 2) & !1;
            let split = Checksum::new().add_bytes(&bytes[..cut]).add_bytes(&bytes[cut..len]).finish();
            assert_eq!(split, reference(&bytes[..len]), "length {len} cut at {cut}");
        }
        assert_eq!(internet(&[0xff; 4096]), 0);
    }

    #[test]
    fn the_check_value_of_crc_32() {
        assert_eq!((crc32(b"123456789"), crc32(b"")), (0xcbf4_3926, 0));
    }

    #[test]
    fn example_of_rfc_1071() {
        assert_eq!(internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    /// IP packet of a protocol with a checksum of zero, and the offset of its transport header; the IPv4
    /// packet has options.
    fn packet(v6: bool, number: u8, segment: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = vec![0; 40];
        if v6 {
            (bytes[0], bytes[5], bytes[6]) = (0x60, segment.len() as u8, number);
            (bytes[23], bytes[39]) = (1, 2);
        } else {
            bytes.truncate(24);
            (bytes[0], bytes[3], bytes[9]) = (0x46, 24 + segment.len() as u8, number);
            (bytes[12], bytes[16]) = (10, 11);
        }
        let start = bytes.len();
        bytes.extend_from_slice(segment);
        // Ethernet padding is not part of the packet.
        bytes.extend([7, 7, 7]);
        (bytes, start)
    }

    fn filled(v6: bool, number: u8, segment: &[u8]) -> Vec<u8> {
        let (mut bytes, start) = packet(v6, number, segment);
        fill_transport(&mut bytes);
        assert_eq!(bytes[start + segment.len()..], [7, 7, 7]);
        bytes[start..start + segment.len()].to_vec()
    }

    #[test]
    fn whole_packets_get_the_checksum_of_their_transport() {
        let ends = |v6| match v6 {
            false => (IpAddr::from([10, 0, 0, 0]), IpAddr::from([11, 0, 0, 0])),
            true => (Ipv6Addr::from(1).into(), Ipv6Addr::from(2).into()),
        };
        let segment = [&[0, 1, 0, 2, 0, 25, 0, 0][..], &[0x50; 17]].concat();
        for v6 in [false, true] {
            let (src, dst) = ends(v6);
            let datagram = filled(v6, protocol::UDP, &segment);
            let datagram = udp::Packet::new_checked(&datagram[..]).unwrap();
            assert!(datagram.checksum() != 0 && datagram.verify_checksum(src, dst));
            let bytes = filled(v6, protocol::TCP, &segment);
            assert!(tcp::Packet::new_checked(&bytes[..]).unwrap().verify_checksum(src, dst));
        }
    }

    #[test]
    fn a_datagram_whose_checksum_is_zero_gets_ones() {
        let zero = (0..=u16::MAX).find(|word| {
            let mut segment = [0, 1, 0, 2, 0, 10, 0, 0, 0, 0];
            segment[8..].copy_from_slice(&word.to_be_bytes());
            transport([10, 0, 0, 0].into(), [11, 0, 0, 0].into(), 17, &segment) == 0
        });
        let mut segment = [0, 1, 0, 2, 0, 10, 0, 0, 0, 0];
        segment[8..].copy_from_slice(&zero.unwrap().to_be_bytes());
        assert_eq!(filled(false, protocol::UDP, &segment)[6..8], [0xff, 0xff]);
    }

    #[test]
    fn what_has_no_transport_checksum_is_left_alone() {
        let (mut bytes, _) = packet(false, protocol::UDP, &[0; 20]);
        // Last fragment.
        bytes[7] = 5;
        let (short, _) = packet(true, protocol::TCP, &[0; 19]);
        let (other, _) = packet(true, protocol::UDP_LITE, &[9; 20]);
        let cut = packet(false, protocol::UDP, &[0; 20]).0[..30].to_vec();
        for before in [bytes, short, other, cut, vec![0x60; 39], vec![]] {
            let mut after = before.clone();
            fill_transport(&mut after);
            assert_eq!(after, before);
        }
    }

    #[test]
    fn pseudo_headers_of_both_families() {
        let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let mut flat = vec![10, 0, 0, 1, 10, 0, 0, 1, 0, 17, 0, 3];
        flat.extend([1, 2, 3]);
        assert_eq!(transport(v4, v4, 17, &[1, 2, 3]), reference(&flat));
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let mut flat = Ipv6Addr::LOCALHOST.octets().to_vec();
        flat.extend(Ipv6Addr::LOCALHOST.octets());
        flat.extend([0, 0, 0, 3, 0, 0, 0, 6, 1, 2, 3]);
        assert_eq!(transport(v6, v6, 6, &[1, 2, 3]), reference(&flat));
    }
}
