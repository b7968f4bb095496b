use super::*;
use std::net::Ipv4Addr;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn emitted(repr: &Repr, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; 3];
    repr.append(A, B, (payload, &[]), &mut out);
    out.split_off(3)
}

#[test]
fn syn_has_the_layout_of_linux() {
    let repr = Repr {
        src_port: 49152,
        dst_port: 80,
        seq: Seq(0x0102_0304),
        flags: Flags::SYN,
        window: 64240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 5, echo: 0 }),
            ..Options::default()
        },
        ..Repr::default()
    };
    let bytes = emitted(&repr, &[]);
    let expected: [u8; 40] = [
        0xc0, 0x00, 0x00, 0x50, 1, 2, 3, 4, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, bytes[16], bytes[17], 0, 0,
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(bytes, expected);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert!(packet.verify_checksum(A, B));
    assert!(!packet.verify_checksum(A, A));
    assert_eq!(Repr::parse(&packet), repr);
}

#[test]
fn every_combination_of_options_comes_back() {
    for bits in 0..32u32 {
        let mut options = Options::default();
        if bits & 1 != 0 {
            options.mss = Some(536);
        }
        if bits & 2 != 0 {
            options.window_scale = Some(14);
        }
        options.sack_permitted = bits & 4 != 0;
        if bits & 8 != 0 {
            options.timestamps = Some(Timestamps { value: 0xffff_ffff, echo: 1 });
        }
        if bits & 16 != 0 {
            options.sack.push(Seq(u32::MAX - 1), Seq(10));
            options.sack.push(Seq(20), Seq(30));
        }
        let repr = Repr { flags: Flags::ACK | Flags::PSH, options, ..Repr::default() };
        let bytes = emitted(&repr, b"odd");
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.verify_checksum(A, B), "{options:?}");
        assert_eq!(packet.payload(), b"odd");
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.header_len() % 4, 0);
    }
}

#[test]
fn fast_open_has_two_forms() {
    for (len, experimental) in [(0, false), (4, false), (8, true), (16, false), (16, true), (0, true)] {
        let cookie: Vec<u8> = (1..=len).collect();
        let option = FastOpen::new(&cookie).unwrap().in_form(experimental);
        // Largest set of other options in a SYN of Linux.
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            fast_open: Some(option),
            ..Options::default()
        };
        let repr = Repr { flags: Flags::SYN, options, ..Repr::default() };
        let bytes = emitted(&repr, b"data");
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!((Repr::parse(&packet), packet.payload()), (repr, &b"data"[..]), "{len} {experimental}");
        assert!(packet.verify_checksum(A, B));
    }
    assert_eq!(
        Options::parse(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8]).fast_open,
        FastOpen::new(&[1, 2, 3, 4, 5, 6, 7, 8])
    );
    assert_eq!(Options::parse(&[254, 4, 0xf9, 0x89]).fast_open, Some(FastOpen::REQUEST.in_form(true)));
    // RFC 7413, section 4.1.1: 4 to 16 bytes, an even number of them.
    for bad in [&[34, 4, 1, 2][..], &[34, 7, 1, 2, 3, 4, 5], &[254, 6, 0xf9, 0x89, 1, 2], &[254, 3, 0xf9]] {
        assert_eq!(Options::parse(bad).fast_open, None, "{bad:?}");
    }
}

/// Parsing arbitrary headers terminates, and the parsed options survive emission and reparsing.
#[test]
fn random_headers_are_read_and_written_again() {
    let mut dice = belljar_base::Seed(7).stream(&["wire-tcp"]);
    for _ in 0..200_000 {
        let mut bytes = vec![0; 20 + dice.below(60) as usize];
        dice.fill(&mut bytes);
        if dice.chance(0.8) {
            // Known kinds with nearly valid lengths.
            let mut at = 20;
            while at + 2 < bytes.len() {
                bytes[at] = [0, 1, 2, 3, 4, 5, 8, 34, 254][dice.below(9) as usize];
                bytes[at + 1] = [2, 3, 4, 10, 18, 26, 34, 6][dice.below(8) as usize];
                at += usize::from(bytes[at + 1]).max(1);
            }
            bytes[field::OFFSET] = ((bytes.len() / 4).min(15) as u8) << 4;
        }
        let Ok(packet) = Packet::new_checked(&bytes[..]) else { continue };
        let repr = Repr::parse(&packet);
        if repr.options.emitted_len() <= 40 {
            let again = emitted(&repr, packet.payload());
            let packet = Packet::new_checked(&again[..]).unwrap();
            assert_eq!(Repr::parse(&packet), repr, "{bytes:?}");
        }
    }
}

#[test]
fn unknown_options_are_skipped_and_broken_ones_end_the_list() {
    let unknown_then_mss = [254, 4, 0xab, 0xcd, 2, 4, 0x05, 0xb4];
    assert_eq!(Options::parse(&unknown_then_mss).mss, Some(1460));
    let zero_length = [254, 0, 2, 4, 5, 0xb4];
    assert_eq!(Options::parse(&zero_length), Options::default());
    let overlong = [2, 4, 5, 0xb4, 8, 10, 0, 0];
    assert_eq!(Options::parse(&overlong), Options { mss: Some(1460), ..Options::default() });
    let lone_kind = [1, 1, 1, 5];
    assert_eq!(Options::parse(&lone_kind), Options::default());
    let end_hides_the_rest = [0, 2, 4, 5, 0xb4];
    assert_eq!(Options::parse(&end_hides_the_rest), Options::default());
}

#[test]
fn short_or_impossible_headers_are_refused() {
    let bytes = emitted(&Repr::default(), &[]);
    assert_eq!(Packet::new_checked(&bytes[..19]).unwrap_err(), ParseError::Truncated);
    let mut small_offset = bytes.clone();
    small_offset[field::OFFSET] = 4 << 4;
    assert_eq!(Packet::new_checked(&small_offset).unwrap_err(), ParseError::Malformed);
    let mut large_offset = bytes;
    large_offset[field::OFFSET] = 15 << 4;
    assert_eq!(Packet::new_checked(&large_offset).unwrap_err(), ParseError::Truncated);
}

#[test]
fn sequence_numbers_compare_across_the_wrap() {
    assert!(Seq(u32::MAX).before(Seq(3)));
    assert!(Seq(3).after(Seq(u32::MAX)));
    assert!(Seq(3) > Seq(u32::MAX));
    assert_eq!(Seq(u32::MAX).wrapping_add(4), Seq(3));
    assert_eq!(Seq(2).distance(Seq(u32::MAX)), 3);
}

#[test]
fn control_bits_take_sequence_space() {
    let repr = Repr { flags: Flags::SYN | Flags::FIN, ..Repr::default() };
    assert_eq!(repr.sequence_len(5), 7);
}
