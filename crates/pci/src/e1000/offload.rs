//! Offloads: checksum insertion and verification, segmentation, frame check sequence.

use crate::fields::get_u16;
use belljar_wire::checksum::{self, crc32, internet};
use std::net::Ipv4Addr;

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|field| u16::from_be_bytes([field[0], field[1]]))
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Checksum to insert: range of the sum and offset of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// First summed byte.
    pub start: usize,
    /// Offset of the checksum field.
    pub offset: usize,
    /// Last summed byte; 0 for the end of the frame.
    pub end: usize,
}

impl Checksum {
    /// Decodes the three fields of a context descriptor.
    pub fn of(bytes: &[u8]) -> Checksum {
        Checksum { start: bytes[0].into(), offset: bytes[1].into(), end: get_u16(bytes, 2).into() }
    }

    /// Inserts the checksum into a frame; does nothing if a field lies outside the frame.
    pub fn insert(&self, frame: &mut [u8]) {
        let end = if self.end == 0 { frame.len() } else { frame.len().min(self.end + 1) };
        if self.start >= end {
            return;
        }
        // 0 would mean "no checksum"; 0xffff is its one's complement equivalent.
        let value = match internet(&frame[self.start..end]) {
            0 => 0xffff,
            value => value,
        };
        put16(frame, self.offset, value);
    }
}

/// Context to which extended data descriptors refer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Checksum of the IP header.
    pub ip: Checksum,
    /// TCP or UDP checksum.
    pub transport: Checksum,
    /// True for IPv4, false for IPv6.
    pub is_v4: bool,
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
    /// Length of the headers in bytes.
    pub header: usize,
    /// Maximum payload of a segment in bytes.
    pub mss: usize,
}

impl Context {
    /// Decodes a context descriptor.
    pub fn read(bytes: &[u8; super::DESCRIPTOR]) -> Context {
        Context {
            ip: Checksum::of(&bytes[..4]),
            transport: Checksum::of(&bytes[4..8]),
            is_v4: bytes[11] & 2 != 0,
            is_tcp: bytes[11] & 1 != 0,
            header: bytes[13].into(),
            mss: get_u16(bytes, 14).into(),
        }
    }

    /// Adjusts the headers of a segment: the `number`th, whose payload starts at offset `at`.
    pub fn fit(&self, segment: &mut [u8], number: u16, at: u32, is_last: bool) {
        let (ip, transport) = (self.ip.start, self.transport.start);
        let len = |from: usize| segment.len().saturating_sub(from) as u16;
        let (of_ip, of_transport) = (len(ip), len(transport));
        if self.is_v4 {
            put16(segment, ip + 2, of_ip);
            let id = be16(segment, ip + 4).unwrap_or(0);
            put16(segment, ip + 4, id.wrapping_add(number));
        } else {
            put16(segment, ip + 4, of_ip.saturating_sub(40));
        }
        if self.is_tcp {
            if let Some(field) = segment.get_mut(transport + 4..transport + 8) {
                let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
                field.copy_from_slice(&sequence.wrapping_add(at).to_be_bytes());
            }
            if let Some(flags) = segment.get_mut(transport + 13).filter(|_| !is_last) {
                // FIN and PSH are kept in the last segment only.
                *flags &= !0b1001;
            }
        } else {
            put16(segment, transport + 4, of_transport);
        }
        // The driver has summed the pseudo header without its length.
        let pseudo = be16(segment, self.transport.offset).unwrap_or(0);
        let sum = checksum::Checksum::new().add_u16(pseudo).add_u16(of_transport);
        put16(segment, self.transport.offset, !sum.finish());
    }
}

/// Checksum verification of a received frame; `None` for checksums that the controller does not verify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// True if the checksum of the IPv4 header is correct.
    pub ip: Option<bool>,
    /// True if the TCP or UDP checksum of an unfragmented IPv4 packet is correct.
    pub transport: Option<bool>,
}

/// Verifies the checksums of a received frame.
pub fn check(frame: &[u8]) -> Checked {
    let none = Checked::default();
    let Some(packet) = frame.get(14..).filter(|_| be16(frame, 12) == Some(0x0800)) else { return none };
    let header = usize::from(packet.first().map_or(0, |first| first & 0xf)) * 4;
    let total = usize::from(be16(packet, 2).unwrap_or(0));
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    if !is_v4 || header < 20 || total < header || packet.len() < total {
        return none;
    }
    let ip = Some(internet(&packet[..header]) == 0);
    let (protocol, payload) = (packet[9], &packet[header..total]);
    let is_fragment = be16(packet, 6).unwrap_or(0) & 0x3fff != 0;
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => return Checked { ip, transport: None },
    };
    let field = be16(payload, at).filter(|field| !is_fragment && (protocol == 6 || *field != 0));
    let address = |at: usize| Ipv4Addr::from(crate::fields::get::<4>(packet, at)).into();
    let transport = field.map(|_| checksum::transport(address(12), address(16), protocol, payload) == 0);
    Checked { ip, transport }
}

/// Sum of a received frame from `start` on, for checksums that the controller does not verify.
pub fn packet_checksum(frame: &[u8], start: usize) -> u16 {
    !internet(frame.get(start..).unwrap_or_default())
}

/// Check sequence of a frame in wire order.
pub fn check_sequence(frame: &[u8]) -> [u8; 4] {
    crc32(frame).to_le_bytes()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Ethernet frame with IPv4, TCP and a payload, with correct checksums.
    pub fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &(40 + payload.len() as u16).to_be_bytes()].concat();
        frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 80, 0, 90, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        let ip = Checksum { start: 14, offset: 24, end: 33 };
        ip.insert(&mut frame);
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let pseudo = checksum::Checksum::new().pseudo_header(from, to, 6, 20 + payload.len() as u32);
        put16(&mut frame, 50, !pseudo.finish());
        Checksum { start: 34, offset: 50, end: 0 }.insert(&mut frame);
        frame
    }

    #[test]
    fn checksums_that_are_inserted_are_right_and_wrong_ones_are_found() {
        for len in [0, 1, 2, 999, 1_460] {
            let good = tcp(&vec![7; len]);
            assert_eq!(check(&good), Checked { ip: Some(true), transport: Some(true) });
            let mut bad = good.clone();
            bad[40] ^= 1;
            assert_eq!(check(&bad), Checked { ip: Some(true), transport: Some(false) });
            bad[22] ^= 1;
            assert_eq!(check(&bad).ip, Some(false));
            let mut fragment = good.clone();
            fragment[20] = 0x20;
            assert_eq!(check(&fragment).transport, None);
        }
        assert_eq!(check(&[0; 60]), Checked::default());
        assert_eq!(check(&tcp(b"short")[..50]), Checked::default());
    }

    #[test]
    fn sums_beyond_a_frame_are_left() {
        let mut frame = vec![1; 20];
        for (start, offset, end) in [(20, 0, 0), (4, 19, 0), (4, 255, 0), (10, 2, 5), (255, 255, 65_535)] {
            Checksum { start, offset, end }.insert(&mut frame);
            assert_eq!(frame, [1; 20]);
        }
        Checksum { start: 0, offset: 2, end: 65_535 }.insert(&mut frame);
        assert_ne!(frame, [1; 20]);
    }

    #[test]
    fn the_check_sequence_is_that_of_ethernet() {
        assert_eq!(check_sequence(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    }
}
