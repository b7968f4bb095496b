use super::*;
use belljar_wire::checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SRC4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// Frame with a TCP (20-byte header, flags `flags`) or UDP segment; the checksum field contains the
/// pseudo-header sum.
fn frame(v6: bool, protocol: u8, flags: u8, payload: usize, vlan: bool) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if vlan {
        f.extend([0x81, 0, 0, 7]);
    }
    let header = if protocol == 6 { 20 } else { 8 };
    let len = header + payload;
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((len as u16).to_be_bytes());
        f.extend([protocol, 64]);
        f.extend(SRC6.octets());
        f.extend(DST6.octets());
    } else {
        f.extend([0x08, 0x00, 0x45, 0]);
        f.extend((20 + len as u16).to_be_bytes());
        f.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
        f.extend(SRC4.octets());
        f.extend(DST4.octets());
    }
    let transport = f.len();
    f.extend([0, 80, 0, 90]);
    if protocol == 6 {
        f.extend([0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    } else {
        f.extend((len as u16).to_be_bytes());
        f.extend([0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 7) as u8));
    let layers = Layers::of(&f).expect("an IP packet");
    assert_eq!(layers.transport, transport);
    let bare = !layers.pseudo_header(&f, len).finish();
    let field = transport + if protocol == 6 { 16 } else { 6 };
    f[field..field + 2].copy_from_slice(&bare.to_be_bytes());
    f
}

fn vnet(flags: u8, gso_type: u8, size: u16, start: u16, offset: u16, frame: &[u8]) -> Vec<u8> {
    let mut b = vec![flags, gso_type, 0, 0];
    for word in [size, start, offset] {
        b.extend(word.to_ne_bytes());
    }
    b.extend(frame);
    b
}

fn finish(buffer: &mut [u8], tag: Option<Tag>) -> Result<Vec<Vec<u8>>, Unfit> {
    let mut frames = Vec::new();
    let mut count = Count::default();
    let n =
        Finisher::default().finish(buffer, tag, None, &mut count, &mut |f| frames.push(f.bytes.to_vec()))?;
    assert_eq!(n, frames.len());
    assert_eq!(count.frames, n as u64);
    assert_eq!(count.bytes, frames.iter().map(|f| f.len() as u64).sum::<u64>());
    Ok(frames)
}

/// Validates IP header and transport checksum with `wire`.
fn assert_valid(frame: &[u8]) {
    let layers = Layers::of(frame).expect("an IP packet");
    let (src, dst): (IpAddr, IpAddr) = if layers.v6 {
        (SRC6.into(), DST6.into())
    } else {
        assert_eq!(checksum::internet(&frame[layers.network..layers.transport]), 0, "IPv4 header");
        (SRC4.into(), DST4.into())
    };
    let segment = &frame[layers.transport..layers.end];
    assert_eq!(checksum::transport(src, dst, layers.protocol, segment), 0, "transport");
}

fn transport_at(f: &[u8]) -> u16 {
    Layers::of(f).unwrap().transport as u16
}

#[test]
fn a_frame_that_is_whole_passes_as_it_is() {
    let f = frame(false, 6, 0x10, 100, false);
    assert_eq!(finish(&mut vnet(0, 0, 0, 0, 0, &f), None).unwrap(), [f]);
}

#[test]
fn open_checksums_are_filled_in() {
    for v6 in [false, true] {
        for (protocol, offset) in [(6, 16), (17, 6)] {
            for payload in [0, 1, 2, 999, 1400] {
                let f = frame(v6, protocol, 0x18, payload, false);
                let frames =
                    finish(&mut vnet(NEEDS_CHECKSUM, 0, 0, transport_at(&f), offset, &f), None).unwrap();
                let mut ip = frames[0].clone();
                if !v6 {
                    let sum = checksum::internet(&ip[14..34]);
                    ip[24..26].copy_from_slice(&sum.to_be_bytes());
                }
                assert_valid(&ip);
                let mut bare = f.clone();
                bare.extend([0xee; 7]);
                fill_bare_checksum(&mut bare);
                assert_eq!(&bare[..f.len()], frames[0], "found without a mark, and padding does not count");
                assert_eq!(&bare[f.len()..], [0xee; 7]);
            }
        }
    }
}

#[test]
fn a_whole_checksum_is_not_touched() {
    let mut f = frame(false, 17, 0, 64, false);
    fill_bare_checksum(&mut f);
    f[60] ^= 1;
    let broken = f.clone();
    fill_bare_checksum(&mut f);
    assert_eq!(f, broken, "a wrong bit on the way stays to be found");
}

#[test]
fn a_tag_stands_in_the_frame_again() {
    let f = frame(false, 6, 0x10, 50, false);
    let tag = Tag { protocol: 0x88a8, control: 0x6123 };
    let mut buffer = vnet(NEEDS_CHECKSUM, 0, 0, transport_at(&f), 16, &f);
    let frames = finish(&mut buffer, Some(tag)).unwrap();
    let tagged = &frames[0];
    assert_eq!(tagged.len(), f.len() + 4);
    assert_eq!(tagged[..12], f[..12]);
    assert_eq!(tagged[12..16], [0x88, 0xa8, 0x61, 0x23]);
    let mut without = tagged.clone();
    without.drain(12..16);
    let untagged = finish(&mut vnet(NEEDS_CHECKSUM, 0, 0, transport_at(&f), 16, &f), None).unwrap();
    assert_eq!(without, untagged[0]);
}

#[test]
fn large_tcp_segments_are_cut() {
    for v6 in [false, true] {
        for vlan in [false, true] {
            let flags = 0x80 | 0x08 | 0x01 | 0x10; // CWR, PSH, FIN, ACK
            let f = frame(v6, 6, flags, 3500, vlan);
            let kind = if v6 { GSO_TCPV6 } else { GSO_TCPV4 };
            let at = Layers::of(&f).unwrap();
            let frames =
                finish(&mut vnet(NEEDS_CHECKSUM, kind, 1000, at.transport as u16, 16, &f), None).unwrap();
            assert_eq!(frames.len(), 4);
            let mut payload = Vec::new();
            for (i, s) in frames.iter().enumerate() {
                assert_valid(s);
                let t = Layers::of(s).unwrap();
                assert_eq!(t.end, s.len());
                let tcp = &s[t.transport..];
                let sequence = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
                assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1000 * i as u32));
                let expected = match i {
                    0 => 0x90,
                    3 => 0x19,
                    _ => 0x10,
                };
                assert_eq!(tcp[13], expected, "flags of segment {i}");
                if !v6 {
                    assert_eq!(
                        s[t.network + 4..t.network + 6],
                        0xffffu16.wrapping_add(i as u16).to_be_bytes()
                    );
                }
                payload.extend_from_slice(&tcp[20..]);
            }
            assert_eq!(payload, f[at.transport + 20..]);
        }
    }
}

#[test]
fn large_udp_segments_are_cut() {
    let f = frame(false, 17, 0, 2500, false);
    let frames = finish(&mut vnet(NEEDS_CHECKSUM, GSO_UDP, 1200, 34, 6, &f), None).unwrap();
    assert_eq!(frames.iter().map(|s| s.len() - 42).collect::<Vec<_>>(), [1200, 1200, 100]);
    for s in &frames {
        assert_valid(s);
        assert_eq!(usize::from(u16::from_be_bytes([s[38], s[39]])), s.len() - 34);
    }
}

#[test]
fn sctp_has_a_checksum_of_its_own() {
    let mut f = frame(false, 17, 0, 24, false);
    f[23] = SCTP;
    let frames = finish(&mut vnet(NEEDS_CHECKSUM, 0, 0, 34, 8, &f), None).unwrap();
    let mut zeroed = frames[0][34..].to_vec();
    let stored = u32::from_le_bytes(zeroed[8..12].try_into().unwrap());
    zeroed[8..12].fill(0);
    assert_eq!(stored, crc32c::crc32c(&zeroed));
}

#[test]
fn nonsense_is_refused() {
    let f = frame(false, 6, 0x10, 100, false);
    let cases = [
        vnet(NEEDS_CHECKSUM, 0, 0, 3, 16, &f),
        vnet(NEEDS_CHECKSUM, 0, 0, 150, 16, &f),
        vnet(NEEDS_CHECKSUM, 0, 0, 0xffff, 0xffff, &f),
        vnet(NEEDS_CHECKSUM, GSO_TCPV4, 0, 34, 16, &f),
        vnet(NEEDS_CHECKSUM, GSO_UDP, 100, 34, 16, &f),
        vnet(NEEDS_CHECKSUM, GSO_TCPV4, 100, 34, 16, &f[..40]),
        vnet(NEEDS_CHECKSUM, 3, 100, 34, 16, &f),
        vec![0; VNET_LEN + MIN_FRAME - 1],
        vec![],
    ];
    for mut case in cases {
        assert_eq!(finish(&mut case, None), Err(Unfit), "{case:?}");
    }
    for len in 0..f.len() {
        fill_bare_checksum(&mut f[..len].to_vec());
    }
}
