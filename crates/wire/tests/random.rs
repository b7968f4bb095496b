//! Fuzz tests: parsing arbitrary bytes neither panics nor yields data beyond them, and emitted packets parse
//! back unchanged.

use belljar_base::{Seed, Stream};
use belljar_wire::icmpv6::Discovery;
use belljar_wire::tcp::{Flags, Options, SackBlocks, Seq, Timestamps};
use belljar_wire::{arp, ethernet, icmpv4, ipv4, ipv6, tcp, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ENDS: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

/// Parses bytes as every protocol.
fn read_all(bytes: &[u8]) {
    if let Ok(frame) = ethernet::Frame::new_checked(bytes) {
        let _ = ethernet::Repr::parse(&frame);
        assert_eq!(frame.payload().len(), bytes.len() - ethernet::HEADER_LEN);
    }
    if let Ok(packet) = arp::Packet::new_checked(bytes) {
        let _ = arp::Repr::parse(&packet);
    }
    if let Ok(packet) = ipv4::Packet::new_checked(bytes) {
        assert!(packet.header_len() + packet.payload().len() <= bytes.len());
        let _ = (ipv4::Repr::parse(&packet), packet.verify_checksum(), packet.options());
    }
    if let Ok(packet) = icmpv4::Packet::new_checked(bytes) {
        let _ = (icmpv4::Repr::parse(&packet).map(|repr| repr.emitted_len()), packet.verify_checksum());
    }
    if let Ok(packet) = udp::Packet::new_checked(bytes) {
        let _ = (udp::Repr::parse(&packet), packet.verify_checksum(ENDS.0, ENDS.1), packet.payload());
    }
    if let Ok(packet) = tcp::Packet::new_checked(bytes) {
        let _ = (tcp::Repr::parse(&packet), packet.verify_checksum(ENDS.0, ENDS.1), packet.payload());
    }
    if let Ok(header) = ipv6::Repr::parse(bytes) {
        assert!(ipv6::HEADER_LEN + header.payload_len <= bytes.len());
        let mut again = [0; ipv6::HEADER_LEN];
        header.emit(&mut again);
        assert_eq!(again, bytes[..ipv6::HEADER_LEN], "nothing of a header is left out");
    }
    if let Ok(upper) = ipv6::upper(bytes) {
        assert!(upper.payload.start <= upper.payload.end && upper.payload.end <= bytes.len());
        assert_eq!(bytes[upper.named_at], upper.protocol);
    }
    let _ = ipv6::is_icmp_error(bytes);
    if let Some(message) = Discovery::parse(bytes) {
        let again = message.emit(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        assert_eq!(Discovery::parse(&again), Some(message));
    }
}

/// Fuzz test of chains of extension headers that end in a neighbour discovery message with options, all
/// nearly valid.
#[test]
fn chains_of_ipv6_headers_and_options_cannot_hurt() {
    let mut dice = Seed(4).stream(&["wire"]);
    let (mut chains, mut messages) = (0, 0);
    for _ in 0..200_000 {
        let mut bytes = vec![0; 40 + 8 * dice.below(20) as usize];
        dice.fill(&mut bytes);
        bytes[0] = 0x60 | bytes[0] & 0xf;
        let len = (bytes.len() - 40).saturating_sub(dice.below(3) as usize) as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        let (mut named_at, mut at) = (6, 40);
        while at + 8 <= bytes.len() {
            let kind = [0, 43, 44, 60, 58, 58][dice.below(6) as usize];
            bytes[named_at] = kind;
            if kind == 58 {
                bytes[at] = 133 + dice.below(4) as u8;
                bytes[at + 1] = u8::from(dice.chance(0.1));
                let fixed = [8, 16, 24, 24][usize::from(bytes[at]) - 133];
                let mut option = at + fixed;
                while option + 8 <= bytes.len() {
                    (bytes[option], bytes[option + 1]) = (1 + dice.below(6) as u8, 1);
                    if bytes[option] == 3 {
                        bytes[option + 1] = 4;
                    }
                    if dice.chance(0.1) {
                        bytes[option + 1] = dice.below(6) as u8;
                    }
                    option += 8 * usize::from(bytes[option + 1]).max(1);
                }
                messages += u32::from(Discovery::parse(&bytes[at..]).is_some());
                read_all(&bytes[at..]);
                break;
            }
            if kind == 44 {
                // Mostly the first of several fragments.
                bytes[at + 2..at + 4].copy_from_slice(&[0, u8::from(dice.chance(0.2)) << 4 | 1]);
            } else {
                bytes[at + 1] = dice.below(3) as u8;
            }
            (named_at, at) = (at, at + if kind == 44 { 8 } else { 8 + 8 * usize::from(bytes[at + 1]) });
        }
        chains += u32::from(ipv6::upper(&bytes).is_ok_and(|upper| upper.payload.start > 40));
        read_all(&bytes);
    }
    assert!(chains > 10_000 && messages > 10_000, "{chains} {messages}: what is drawn is read");
}

#[test]
fn nothing_that_is_read_can_hurt() {
    let mut dice = Seed(1).stream(&["wire"]);
    for _ in 0..200_000 {
        let mut bytes = vec![0; dice.below(120) as usize];
        dice.fill(&mut bytes);
        if let (Some(first), true) = (bytes.first_mut(), dice.chance(0.7)) {
            *first = 0x40 | *first & 0xf;
        }
        read_all(&bytes);
    }
}

fn some_segment(dice: &mut Stream) -> (tcp::Repr, Vec<u8>) {
    let mut options = Options::default();
    if dice.chance(0.3) {
        options.mss = Some(dice.next_u32() as u16);
        options.window_scale = dice.chance(0.5).then(|| dice.below(15) as u8);
        options.sack_permitted = dice.chance(0.5);
    }
    if dice.chance(0.5) {
        options.timestamps = Some(Timestamps { value: dice.next_u32(), echo: dice.next_u32() });
    }
    if !options.sack_permitted && options.mss.is_none() {
        let mut blocks = SackBlocks::default();
        (0..dice.below(4)).for_each(|_| blocks.push(Seq(dice.next_u32()), Seq(dice.next_u32())));
        options.sack = blocks;
    }
    let repr = tcp::Repr {
        src_port: dice.next_u32() as u16,
        dst_port: dice.next_u32() as u16,
        seq: Seq(dice.next_u32()),
        ack: Seq(dice.next_u32()),
        flags: Flags::from_bits_truncate(dice.next_u32() as u8),
        window: dice.next_u32() as u16,
        urgent: dice.next_u32() as u16,
        options,
    };
    let mut payload = vec![0; dice.below(200) as usize];
    dice.fill(&mut payload);
    (repr, payload)
}

#[test]
fn segments_read_back_and_no_wrong_bit_passes() {
    let mut dice = Seed(2).stream(&["wire"]);
    for _ in 0..20_000 {
        let (repr, payload) = some_segment(&mut dice);
        let (mut bytes, cut) = (Vec::new(), dice.below(payload.len() as u64 + 1) as usize);
        repr.append(ENDS.0, ENDS.1, payload.split_at(cut), &mut bytes);
        let packet = tcp::Packet::new_checked(&bytes[..]).unwrap();
        assert!(packet.verify_checksum(ENDS.0, ENDS.1));
        assert_eq!((tcp::Repr::parse(&packet), packet.payload()), (repr, &payload[..]));
        let bit = dice.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        read_all(&bytes);
        if let Ok(packet) = tcp::Packet::new_checked(&bytes[..]) {
            assert!(!packet.verify_checksum(ENDS.0, ENDS.1), "a wrong bit: {bit}");
        }
    }
}

#[test]
fn datagrams_read_back_and_no_wrong_bit_passes() {
    let mut dice = Seed(3).stream(&["wire"]);
    for _ in 0..20_000 {
        let mut payload = vec![0; dice.below(200) as usize];
        dice.fill(&mut payload);
        let (from, to) = (dice.next_u32() as u16, dice.next_u32() as u16);
        let mut bytes = Vec::new();
        udp::Repr::append((ENDS.0, from), (ENDS.1, to), &payload, &mut bytes);
        let packet = udp::Packet::new_checked(&bytes[..]).unwrap();
        assert!(packet.verify_checksum(ENDS.0, ENDS.1));
        assert_eq!((packet.src_port(), packet.dst_port(), packet.payload()), (from, to, &payload[..]));
        let bit = dice.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(packet) = udp::Packet::new_checked(&bytes[..]) {
            // A checksum of 0 stands for none.
            assert!(packet.checksum() == 0 || !packet.verify_checksum(ENDS.0, ENDS.1), "a wrong bit: {bit}");
        }
    }
}
