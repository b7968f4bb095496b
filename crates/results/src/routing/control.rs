//! Recognition of control packets: the protocols that find routes, elect routers and build the topology of a
//! network, by EtherType, LLC address, IP protocol number, ICMP type or port.

use belljar_wire::{ethernet, ipv4, ipv6};
use std::net::IpAddr;

/// EtherTypes of protocols without IP packets.
const ETHERTYPES: [(u16, &str); 7] = [
    (0x22f4, "IS-IS (TRILL)"),
    (0x4305, "B.A.T.M.A.N."),
    (0x8809, "LACP"),
    (0x88b5, "belljar-routed bridge"),
    (0x88cc, "LLDP"),
    (0x88e3, "MRP"),
    (0x8902, "CFM"),
];
/// Service access points of protocols above LLC (IEEE 802.3 frames with a length in place of a type).
const SERVICE_ACCESS_POINTS: [(u8, &str); 2] = [(0x42, "STP"), (0xfe, "IS-IS")];
/// IP protocol numbers of protocols without ports.
const NUMBERS: [(u8, &str); 10] = [
    (2, "IGMP"),
    (8, "EGP"),
    (9, "IGRP"),
    (46, "RSVP"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (103, "PIM"),
    (112, "VRRP"),
    (124, "IS-IS"),
    (138, "MANET"),
];
/// Types of ICMP messages about routers.
const ICMP: [(u8, &str); 2] = [(9, "ICMP router discovery"), (10, "ICMP router discovery")];
/// Types of ICMPv6 messages about routers and multicast listeners.
const ICMPV6: [(u8, &str); 9] = [
    (130, "MLD"),
    (131, "MLD"),
    (132, "MLD"),
    (133, "ICMPv6 router discovery"),
    (134, "ICMPv6 router discovery"),
    (143, "MLD"),
    (151, "MRD"),
    (152, "MRD"),
    (155, "RPL"),
];
/// Ports, each with its IP protocol number.
const PORTS: [(u8, u16, &str); 18] = [
    (UDP, 269, "MANET"),
    (UDP, 520, "RIP"),
    (UDP, 521, "RIPng"),
    (UDP, 646, "LDP"),
    (UDP, 654, "AODV"),
    (UDP, 698, "OLSR"),
    (UDP, 1985, "HSRP"),
    (UDP, 2029, "HSRP"),
    (UDP, 3222, "GLBP"),
    (UDP, 3784, "BFD"),
    (UDP, 3785, "BFD"),
    (UDP, 4784, "BFD"),
    (UDP, 6696, "Babel"),
    (UDP, 6784, "BFD"),
    (TCP, 179, "BGP"),
    (TCP, 639, "MSDP"),
    (TCP, 646, "LDP"),
    (SCTP, 179, "BGP"),
];
const ICMP_NUMBER: u8 = 1;
const ICMPV6_NUMBER: u8 = 58;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// The authentication header (RFC 4302), which OSPFv3 may use.
const AUTHENTICATION: u8 = 51;
/// EtherTypes of VLAN tags: those of customers and of providers.
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// Name of the protocol.
    pub(super) protocol: String,
    /// Source address and time to live (or hop limit) of an IP packet.
    pub(super) source: Option<(IpAddr, u8)>,
}

/// The control packet in an Ethernet frame, if it is one. `ports` are additional UDP ports.
pub(super) fn of_frame(bytes: &[u8], ports: &[u16]) -> Option<Control> {
    let frame = ethernet::Frame::new_checked(bytes).ok()?;
    let (mut ethertype, mut payload) = (frame.ethertype(), frame.payload());
    while VLAN.contains(&ethertype) {
        let &[_, _, high, low, ..] = payload else { return None };
        (ethertype, payload) = (u16::from_be_bytes([high, low]), &payload[4..]);
    }
    let of_link = |protocol: &str| Control { protocol: protocol.to_owned(), source: None };
    match ethertype {
        ethernet::ethertype::IPV4 | ethernet::ethertype::IPV6 => of_packet(payload, ports),
        0..0x600 => {
            let &[destination, source, ..] = payload else { return None };
            let known = SERVICE_ACCESS_POINTS.iter().find(|(own, _)| *own == destination && *own == source);
            known.map(|(_, name)| of_link(name))
        }
        _ => ETHERTYPES.iter().find(|(own, _)| *own == ethertype).map(|(_, name)| of_link(name)),
    }
}

/// The control packet in an IP packet, if it is one. `ports` are additional UDP ports.
pub(super) fn of_packet(packet: &[u8], ports: &[u16]) -> Option<Control> {
    let v4;
    let (source, number, payload) = match packet.first()? >> 4 {
        4 => {
            v4 = ipv4::Packet::new_checked(packet).ok()?;
            let payload = Some(v4.payload()).filter(|_| v4.fragment_offset() == 0);
            ((IpAddr::V4(v4.src()), v4.ttl()), v4.protocol(), payload)
        }
        6 => {
            let upper = ipv6::upper(packet).ok()?;
            let is_first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
            let source = (IpAddr::V6(ipv6::source(packet)), ipv6::hop_limit(packet));
            (source, upper.protocol, Some(&packet[upper.payload]).filter(|_| is_first))
        }
        _ => return None,
    };
    let (number, payload) = match (number, payload) {
        (AUTHENTICATION, Some(header)) => {
            let words = usize::from(*header.get(1)?);
            (*header.first()?, header.get(4 * (words + 2)..))
        }
        other => other,
    };
    let known = NUMBERS.iter().find(|(own, _)| *own == number).map(|(_, name)| (*name).to_owned());
    // A later fragment has neither a type nor ports.
    let protocol = known.or_else(|| by_payload(number, payload?, ports))?;
    Some(Control { protocol, source: Some(source) })
}

/// The protocol by the ICMP type or the ports at the start of the payload.
fn by_payload(number: u8, payload: &[u8], further: &[u16]) -> Option<String> {
    let by_type = |types: &[(u8, &str)]| {
        types.iter().find(|(own, _)| payload.first() == Some(own)).map(|(_, name)| (*name).to_owned())
    };
    match (number, payload) {
        (ICMP_NUMBER, _) => by_type(&ICMP),
        (ICMPV6_NUMBER, _) => by_type(&ICMPV6),
        (UDP | TCP | SCTP, [a, b, c, d, ..]) => {
            let ends = [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])];
            let known = PORTS.iter().find(|(own, port, _)| *own == number && ends.contains(port));
            let further = further.iter().find(|port| number == UDP && ends.contains(port));
            known.map(|(_, _, name)| (*name).to_owned()).or_else(|| further.map(|port| format!("UDP {port}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        [&[1, 0, 0x5e, 0, 0, 5, 2, 0, 0, 0, 0, 1][..], &ethertype.to_be_bytes(), payload].concat()
    }
    fn v4(protocol: u8, fragment: u8, payload: &[u8]) -> Vec<u8> {
        let len = 20 + payload.len() as u8;
        let head = [0x45, 0xc0, 0, len, 0, 0, 0, fragment, 1, protocol, 0, 0, 10, 0, 0, 1, 224, 0, 0, 5];
        [&head[..], payload].concat()
    }
    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut head = [0; 40];
        (head[0], head[5], head[6], head[7]) = (0x60, payload.len() as u8, next, 1);
        (head[8], head[9], head[23]) = (0xfe, 0x80, 1);
        [&head[..], payload].concat()
    }
    fn name(frame: &[u8]) -> Option<String> {
        of_frame(frame, &[7000]).map(|control| control.protocol)
    }

    #[test]
    fn protocols_above_ip_have_numbers_types_or_ports() {
        for (number, expected) in NUMBERS {
            assert_eq!(name(&frame(0x0800, &v4(number, 0, &[0; 8]))).as_deref(), Some(expected));
            assert_eq!(name(&frame(0x86dd, &v6(number, &[0; 8]))).as_deref(), Some(expected));
        }
        let udp = |from: u16, to: u16| [from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat();
        let of = |from, to| name(&frame(0x0800, &v4(17, 0, &udp(from, to))));
        assert_eq!(of(698, 698).as_deref(), Some("OLSR"));
        assert_eq!(of(40000, 3784).as_deref(), Some("BFD"));
        assert_eq!(of(7000, 9).as_deref(), Some("UDP 7000"));
        assert_eq!(of(53, 40000), None);
        assert_eq!(name(&frame(0x0800, &v4(6, 0, &udp(179, 40000)))).as_deref(), Some("BGP"));
        assert_eq!(name(&frame(0x0800, &v4(17, 9, &udp(698, 698)))), None, "a later fragment");
        assert_eq!(name(&frame(0x0800, &v4(89, 9, &[]))).as_deref(), Some("OSPF"), "a later fragment");
        assert_eq!(name(&frame(0x0800, &v4(1, 0, &[8, 0]))), None, "an echo request");
        let found = of_packet(&v4(112, 0, &[0; 8]), &[]).unwrap();
        assert_eq!(found.source, Some(("10.0.0.1".parse().unwrap(), 1)));
    }

    #[test]
    fn extension_headers_and_tags_are_skipped() {
        // A report of multicast listeners follows the option for routers.
        let report = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &[143, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(name(&frame(0x86dd, &v6(0, &report))).as_deref(), Some("MLD"));
        let authenticated = [&[89, 4, 0, 0][..], &[0; 20], &[3, 1]].concat();
        assert_eq!(name(&frame(0x86dd, &v6(51, &authenticated))).as_deref(), Some("OSPF"));
        assert_eq!(
            name(&frame(0x86dd, &v6(58, &[135, 0, 0, 0]))),
            None,
            "a search for a neighbour is about no route"
        );
        let tagged = [&[0, 5, 0x08, 0x00][..], &v4(88, 0, &[0; 20])].concat();
        assert_eq!(name(&frame(0x8100, &tagged)).as_deref(), Some("EIGRP"));
    }

    #[test]
    fn protocols_on_links_have_types_or_service_access_points() {
        assert_eq!(name(&frame(38, &[0x42, 0x42, 3, 0, 0])).as_deref(), Some("STP"));
        assert_eq!(name(&frame(1497, &[0xfe, 0xfe, 3, 0x83, 27])).as_deref(), Some("IS-IS"));
        assert_eq!(name(&frame(46, &[0xaa, 0xaa, 3])), None, "SNAP");
        assert_eq!(name(&frame(0x4305, &[])).as_deref(), Some("B.A.T.M.A.N."));
        assert_eq!(name(&frame(0x88b5, &[])).as_deref(), Some("belljar-routed bridge"));
        assert_eq!(name(&frame(0x0806, &[0; 28])), None, "ARP");
        assert_eq!((name(&[]), name(&frame(0x0800, &[])), name(&frame(0x8100, &[0]))), (None, None, None));
    }
}
