//! IPv6 forwarding on packet bytes: ICMPv6 errors to senders (RFC 4443), and flow hashes for multipath
//! routes. Routers don't fragment IPv6 packets.

use crate::forward::ForwardError;
use belljar_wire::icmpv6::kind;
use belljar_wire::{ipv6, protocol};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// An error quotes "as much of invoking packet as possible without the ICMPv6 packet exceeding the minimum
/// IPv6 MTU" (RFC 4443, section 2.4).
const MAX_QUOTE: usize = ipv6::MIN_MTU - ipv6::HEADER_LEN - belljar_wire::icmpv6::HEADER_LEN;

/// ICMPv6 type, code and the last four bytes of the header of the error `why` about `packet`.
pub fn icmp(why: ForwardError, packet: &[u8]) -> (u8, u8, u32) {
    match why {
        ForwardError::NetworkUnreachable => (kind::UNREACHABLE, 0, 0),
        ForwardError::Prohibited => (kind::UNREACHABLE, 1, 0),
        ForwardError::HostUnreachable => (kind::UNREACHABLE, 3, 0),
        ForwardError::PortUnreachable => (kind::UNREACHABLE, 4, 0),
        ForwardError::FragmentationNeeded(mtu) => (kind::PACKET_TOO_BIG, 0, u32::from(mtu)),
        ForwardError::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0),
        ForwardError::ReassemblyTimeExceeded => (kind::TIME_EXCEEDED, 1, 0),
        ForwardError::Malformed(at) => (kind::PARAMETER_PROBLEM, 0, at.into()),
        // The pointer names the unrecognised next header.
        ForwardError::ProtocolUnreachable => {
            (kind::PARAMETER_PROBLEM, 1, ipv6::upper(packet).map_or(6, |upper| upper.named_at as u32))
        }
    }
}

/// ICMPv6 error, without IP header and checksum, that reports `why` to the sender of `packet`. `None` if no
/// error may be sent (RFC 4443, section 2.4): for an ICMPv6 error, a source that is not a single host, a
/// multicast destination unless the packet is too big, or a fragment other than the first unless it is
/// malformed.
pub fn refusal_message(packet: &[u8], why: ForwardError) -> Option<Vec<u8>> {
    let upper = ipv6::upper(packet).ok()?;
    let source = ipv6::source(packet);
    let too_big = matches!(why, ForwardError::FragmentationNeeded(_));
    if source.is_unspecified()
        || source.is_multicast()
        || ipv6::destination(packet).is_multicast() && !too_big
        || upper.fragment.is_some_and(|fragment| fragment.offset > 0)
            && !matches!(why, ForwardError::Malformed(_))
        || ipv6::is_icmp_error(packet)
    {
        return None;
    }
    let (kind, code, extra) = icmp(why, packet);
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&extra.to_be_bytes());
    message.extend_from_slice(&packet[..upper.payload.end.min(MAX_QUOTE)]);
    Some(message)
}

/// ICMPv6 Destination Unreachable of this code, without IP header and checksum; `None` under the same
/// conditions.
pub fn unreachable_message(packet: &[u8], code: u8) -> Option<Vec<u8>> {
    let mut message = refusal_message(packet, ForwardError::NetworkUnreachable)?;
    message[1] = code;
    Some(message)
}

/// Flow hash of a packet: addresses, protocol and, unless the packet is a fragment, the ports of TCP, UDP and
/// UDP-Lite. Routers use different keys, so that their hashes differ.
pub fn flow_hash(key: u64, packet: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&packet[8..40]);
    if let Ok(upper) = ipv6::upper(packet) {
        hasher.write_u8(upper.protocol);
        let start = upper.payload.start;
        if let (protocol::TCP | protocol::UDP | protocol::UDP_LITE, None, Some(ports)) =
            (upper.protocol, upper.fragment, packet.get(start..start + 4))
        {
            hasher.write(ports);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; ipv6::HEADER_LEN];
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        ipv6::Repr {
            src,
            dst,
            next_header,
            payload_len: payload.len(),
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        }
        .emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn errors_quote_the_packet_and_never_answer_errors() {
        let message =
            refusal_message(&packet(17, &[7; 2_000]), ForwardError::FragmentationNeeded(1_400)).unwrap();
        assert_eq!((message.len(), message[0], message[1]), (1_240, kind::PACKET_TOO_BIG, 0));
        assert_eq!(message[4..8], 1_400u32.to_be_bytes());
        let unknown = refusal_message(&packet(99, &[0; 8]), ForwardError::ProtocolUnreachable).unwrap();
        assert_eq!(unknown[..8], [kind::PARAMETER_PROBLEM, 1, 0, 0, 0, 0, 0, 6]);
        let about = |payload: &[u8]| refusal_message(&packet(58, payload), ForwardError::TimeExceeded);
        assert!(about(&[128, 0, 0, 0]).is_some() && about(&[1, 0, 0, 0]).is_none());
        let later = [17, 0, 0, 8, 0, 0, 0, 1, 0, 0];
        assert_eq!(refusal_message(&packet(44, &later), ForwardError::TimeExceeded), None);
        let mut to_many = packet(17, &[0; 8]);
        to_many[24] = 0xff;
        assert_eq!(refusal_message(&to_many, ForwardError::PortUnreachable), None);
        assert!(refusal_message(&to_many, ForwardError::FragmentationNeeded(1_280)).is_some());
    }

    #[test]
    fn a_flow_is_told_by_its_ports() {
        let [one, other] = [packet(6, &[0, 1, 0, 2]), packet(6, &[0, 1, 0, 3])];
        assert_ne!(flow_hash(1, &one), flow_hash(1, &other));
        assert_ne!(flow_hash(1, &one), flow_hash(2, &one));
        assert_eq!(flow_hash(1, &packet(58, &[1, 2, 3, 4])), flow_hash(1, &packet(58, &[4, 3, 2, 1])));
    }
}
