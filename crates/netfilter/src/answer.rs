//! Answers to rejected packets (`nf_reject_ipv4.c`, `nf_reject_ipv6.c` of Linux).

use crate::packet::{Headers, V6_LEN, destination, source};
use belljar_wire::tcp::{self, Flags, Seq};
use belljar_wire::{checksum, ipv4, ipv6, protocol};
use std::net::IpAddr;

/// Hop limit of resets.
const TTL: u8 = 64;

/// The reset, as a whole IP packet, that answers a TCP segment. `None` for other packets, fragments, resets,
/// and segments with a wrong checksum.
pub fn reset_answer(packet: &[u8]) -> Option<Vec<u8>> {
    let headers = Headers::of(packet);
    if headers.protocol != Some(protocol::TCP) || headers.fragment_offset != 0 {
        return None;
    }
    let (from, to) = (source(packet), destination(packet));
    let segment = &packet[headers.transport..headers.end];
    let received = tcp::Packet::new_checked(segment).ok()?;
    if received.flags().contains(Flags::RST) || checksum::transport(from, to, protocol::TCP, segment) != 0 {
        return None;
    }
    let mut answer = tcp::Repr {
        src_port: received.dst_port(),
        dst_port: received.src_port(),
        flags: Flags::RST,
        window: 0,
        ..tcp::Repr::default()
    };
    if received.flags().contains(Flags::ACK) {
        answer.seq = received.ack();
    } else {
        let payload = segment.len() - usize::from(segment[12] >> 4) * 4;
        let control = received.flags().intersection(Flags::SYN | Flags::FIN).bits().count_ones();
        answer.flags |= Flags::ACK;
        answer.ack = Seq(received.seq().0.wrapping_add(payload as u32).wrapping_add(control));
    }
    let mut bytes = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.resize(ipv4::HEADER_LEN, 0);
            let header = ipv4::Repr::new(to, from, protocol::TCP, tcp::HEADER_LEN);
            ipv4::Repr { ttl: TTL, ..header }.emit(&mut bytes);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.resize(V6_LEN, 0);
            let (next_header, payload_len) = (protocol::TCP, tcp::HEADER_LEN);
            let (hop_limit, traffic_class, flow_label) = (TTL, 0, 0);
            let (src, dst) = (to, from);
            ipv6::Repr { src, dst, next_header, payload_len, hop_limit, traffic_class, flow_label }
                .emit(&mut bytes);
        }
        _ => return None,
    }
    answer.append(to, from, (&[], &[]), &mut bytes);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn segment(flags: Flags) -> Vec<u8> {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        ipv4::Repr::new(from, to, protocol::TCP, tcp::HEADER_LEN + 3).emit(&mut bytes);
        let (seq, ack) = (Seq(u32::MAX), Seq(77));
        let header = tcp::Repr { src_port: 5, dst_port: 6, seq, ack, flags, ..tcp::Repr::default() };
        header.append(from.into(), to.into(), (b"abc", &[]), &mut bytes);
        bytes
    }

    #[test]
    fn a_reset_is_acceptable_to_the_sender() {
        let answer = reset_answer(&segment(Flags::SYN)).unwrap();
        let header = ipv4::Packet::new_checked(&answer[..]).unwrap();
        assert_eq!(header.src(), Ipv4Addr::new(10, 0, 0, 2));
        let reset = tcp::Packet::new_checked(header.payload()).unwrap();
        assert_eq!((reset.src_port(), reset.dst_port(), reset.ack()), (6, 5, Seq(3)));
        assert_eq!(reset.flags(), Flags::RST | Flags::ACK);
        let answer = reset_answer(&segment(Flags::ACK)).unwrap();
        let reset = tcp::Packet::new_checked(&answer[20..]).unwrap();
        assert_eq!((reset.seq(), reset.flags()), (Seq(77), Flags::RST));
        assert_eq!(reset_answer(&segment(Flags::RST)), None);
        let mut wrong = segment(Flags::SYN);
        wrong[41] ^= 1;
        assert_eq!(reset_answer(&wrong), None);
    }
}
