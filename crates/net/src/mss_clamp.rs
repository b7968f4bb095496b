//! MSS clamping: a router lowers the MSS option of passing SYNs, so that connections send no segment that a
//! later link cannot carry, even if "fragmentation needed" messages are lost. Corresponds to `iptables -j
//! TCPMSS` with `--clamp-mss-to-pmtu` or `--set-mss`.

use belljar_wire::{checksum, ipv4, ipv6};

const TCP: u8 = 6;
const TCP_HEADER_LEN: usize = 20;
const TCP_HEADER_MAX: usize = 60;
const SYN: u8 = 0x02;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_MSS_LEN: usize = 4;
/// Default MSS of a peer without the option (RFC 9293, section 3.7.1), an upper bound for an option that a
/// router adds.
const DEFAULT_V4: u16 = 536;
const DEFAULT_V6: u16 = 1220;

/// Limit of the MSS option of passing SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MssClamp {
    /// MTU minus headers, for the smaller MTU of the incoming and the outgoing link.
    PathMtu,
    /// Fixed limit in bytes.
    To(u16),
}

impl MssClamp {
    /// Clamps the MSS option of a TCP SYN in an IP packet of either family; `mtu` is the smaller MTU of
    /// both links. Other packets are unchanged. The option is never raised; a missing one is added.
    pub fn apply(self, packet: &mut Vec<u8>, mtu: usize) {
        let Some(at) = segment(packet) else { return };
        let v6 = packet[0] >> 4 == 6;
        let headers = TCP_HEADER_LEN + if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let most = match self {
            MssClamp::To(bytes) => bytes,
            MssClamp::PathMtu if mtu <= headers => return,
            MssClamp::PathMtu => (mtu - headers).min(usize::from(u16::MAX)) as u16,
        };
        let tcp = &mut packet[at..];
        let len = usize::from(tcp[12] >> 4) * 4;
        if tcp[13] & SYN == 0 || len < TCP_HEADER_LEN || len > tcp.len() {
            return;
        }
        if let Some(option) = option(&tcp[..len]) {
            let old = u16::from_be_bytes([tcp[option + 2], tcp[option + 3]]);
            if old > most {
                tcp[option + 2..option + 4].copy_from_slice(&most.to_be_bytes());
                // An option at an odd offset spans two words of the checksum.
                let shift = |value: u16| if option % 2 == 0 { value } else { value.swap_bytes() };
                adjust(tcp, shift(old), shift(most));
            }
        } else if tcp.len() == len && len + OPTION_MSS_LEN <= TCP_HEADER_MAX {
            add_option(packet, at, most.min(if v6 { DEFAULT_V6 } else { DEFAULT_V4 }));
        }
    }
}

/// Offset of the TCP segment in an unfragmented packet or a first fragment; `None` for other packets.
fn segment(packet: &[u8]) -> Option<usize> {
    let at = match packet.first()? >> 4 {
        4 if packet.len() >= ipv4::HEADER_LEN
            && packet[9] == TCP
            && u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0 =>
        {
            usize::from(packet[0] & 0xf) * 4
        }
        // `ip6tables -p tcp` skips extension headers; SYNs have none.
        6 if packet.len() >= ipv6::HEADER_LEN && packet[6] == TCP => ipv6::HEADER_LEN,
        _ => return None,
    };
    (packet.len() >= at + TCP_HEADER_LEN).then_some(at)
}

/// Offset of the MSS option in a TCP header.
fn option(header: &[u8]) -> Option<usize> {
    let mut at = TCP_HEADER_LEN;
    while at < header.len() {
        match header[at] {
            OPTION_END => return None,
            OPTION_NOP => at += 1,
            OPTION_MSS if header.get(at + 1) == Some(&4) && at + OPTION_MSS_LEN <= header.len() => {
                return Some(at);
            }
            _ => at += usize::from(*header.get(at + 1)?).max(1),
        }
    }
    None
}

/// Updates the checksum of a segment in which a word has changed (RFC 1624).
fn adjust(tcp: &mut [u8], old: u16, new: u16) {
    let sum = u16::from_be_bytes([tcp[16], tcp[17]]);
    let mut total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    tcp[16..18].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

/// Inserts the MSS option before the other options of the segment at `at`, which carries no data.
fn add_option(packet: &mut Vec<u8>, at: usize, mss: u16) {
    let [high, low] = mss.to_be_bytes();
    let option = [OPTION_MSS, OPTION_MSS_LEN as u8, high, low];
    let start = at + TCP_HEADER_LEN;
    packet.splice(start..start, option);
    let len = (packet.len() - at) as u16;
    let tcp = &mut packet[at..];
    adjust(tcp, 0, u16::from_be_bytes([option[0], option[1]]));
    adjust(tcp, 0, mss);
    // The pseudo header contains the segment's length; the data offset is in the word after the
    // acknowledgment number.
    adjust(tcp, len - OPTION_MSS_LEN as u16, len);
    let before = u16::from_be_bytes([tcp[12], tcp[13]]);
    tcp[12] += 0x10;
    adjust(tcp, before, u16::from_be_bytes([tcp[12], tcp[13]]));
    if packet[0] >> 4 == 6 {
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    } else {
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::internet(&packet[..at]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_wire::tcp::{Flags, Options, Packet, Repr};
    use std::net::IpAddr;

    fn ends(v6: bool) -> (IpAddr, IpAddr) {
        let of = |four: &str, six: &str| if v6 { six.parse().unwrap() } else { four.parse().unwrap() };
        (of("10.0.1.9", "2001:db8::1"), of("10.0.2.9", "2001:db8::2"))
    }

    /// Returns a packet with a segment that has these flags, option and payload.
    fn packet(v6: bool, flags: Flags, mss: Option<u16>, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = ends(v6);
        let repr = Repr {
            src_port: 1,
            dst_port: 2,
            flags,
            window: 1_000,
            options: Options { mss, window_scale: Some(7), ..Options::default() },
            ..Repr::default()
        };
        let mut bytes = vec![0; if v6 { 40 } else { 20 }];
        repr.append(src, dst, (payload, &[]), &mut bytes);
        let len = bytes.len() as u16;
        if v6 {
            (bytes[0], bytes[6], bytes[7]) = (0x60, TCP, 64);
            bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        } else {
            (bytes[0], bytes[8], bytes[9]) = (0x45, 64, TCP);
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            let sum = checksum::internet(&bytes[..20]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    /// Validates a packet as a receiver does, and returns the value of its MSS option.
    fn read(v6: bool, bytes: &[u8]) -> Option<u16> {
        let (src, dst) = ends(v6);
        let at = if v6 { 40 } else { 20 };
        if v6 {
            assert_eq!(usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + 40, bytes.len());
        } else {
            assert_eq!(checksum::internet(&bytes[..20]), 0);
            assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        }
        let segment = Packet::new_checked(&bytes[at..]).expect("a segment");
        assert!(segment.verify_checksum(src, dst), "the checksum is that of what is there now");
        let repr = Repr::parse(&segment);
        assert_eq!(repr.options.window_scale, Some(7), "other options stay");
        repr.options.mss
    }

    #[test]
    fn a_larger_mss_is_held_down_and_a_smaller_one_stays() {
        for v6 in [false, true] {
            let of_mtu = if v6 { 1_340 } else { 1_360 };
            for (clamp, said, becomes) in [
                (MssClamp::PathMtu, 1_460, of_mtu),
                (MssClamp::PathMtu, 900, 900),
                (MssClamp::To(1_000), 1_460, 1_000),
                (MssClamp::To(1_000), 536, 536),
                (MssClamp::To(1_000), 65_495, 1_000),
            ] {
                for flags in [Flags::SYN, Flags::SYN | Flags::ACK] {
                    let mut bytes = packet(v6, flags, Some(said), b"");
                    clamp.apply(&mut bytes, 1_400);
                    assert_eq!(read(v6, &bytes), Some(becomes), "{clamp:?} {said} v6 {v6}");
                }
            }
        }
    }

    #[test]
    fn an_option_that_is_missing_is_added() {
        for (v6, most) in [(false, 536), (true, 1_220)] {
            let mut bytes = packet(v6, Flags::SYN, None, b"");
            MssClamp::PathMtu.apply(&mut bytes, 1_400);
            assert_eq!(read(v6, &bytes), Some(most));
            let mut bytes = packet(v6, Flags::SYN, None, b"data behind it");
            MssClamp::PathMtu.apply(&mut bytes, 1_400);
            assert_eq!(read(v6, &bytes), None, "it cannot be moved");
        }
    }

    #[test]
    fn what_is_no_syn_stays_as_it_is() {
        let mut others =
            vec![packet(false, Flags::ACK, Some(1_460), b"x"), vec![0x45], vec![], vec![0x60; 41]];
        let mut piece = packet(false, Flags::SYN, Some(1_460), b"");
        piece[7] = 1;
        others.push(piece);
        let mut datagram = packet(true, Flags::SYN, Some(1_460), b"");
        datagram[6] = 17;
        others.push(datagram);
        for bytes in others {
            let mut after = bytes.clone();
            MssClamp::To(500).apply(&mut after, 1_400);
            assert_eq!(bytes, after);
        }
    }

    #[test]
    fn options_that_make_no_sense_are_survived() {
        let whole = packet(false, Flags::SYN, Some(1_460), b"");
        for at in 20..whole.len() {
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[at] = value;
                MssClamp::To(500).apply(&mut bytes, 1_400);
            }
        }
    }
}
