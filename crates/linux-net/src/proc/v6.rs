//! `/proc/net/if_inet6`, `ipv6_route`, `igmp6` and `snmp6`, in the columns of Linux.

use belljar_net::routes::RouteKind;
use belljar_netstack::v6::ALL_NODES_HERE;
use belljar_netstack::v6::source::scope;
use belljar_netstack::{Stack, interface_index};
use belljar_wire::ipv6;
use std::fmt::Write;
use std::net::Ipv6Addr;

/// Address as 32 hexadecimal digits.
fn hex(ip: Ipv6Addr) -> String {
    format!("{:032x}", ip.to_bits())
}

/// `/proc/net/if_inet6`.
pub fn proc_if_inet6(net: &Stack) -> String {
    let mut text = String::new();
    if !net.v6.on {
        return text;
    }
    for (number, interface) in net.interfaces.iter().enumerate() {
        for own in &interface.addresses6 {
            let reach = match scope(own.ip) {
                _ if own.ip.is_loopback() => 0x10,
                2 => 0x20,
                5 => 0x40,
                _ => 0,
            };
            let flags = match () {
                () if net.v6.is_duplicate(number, own.ip) => 0xc8,
                () if net.v6.is_tentative(number, own.ip) => 0xc0,
                () if net.v6.valid_until(number, own.ip).is_some() => 0,
                () => 0x80,
            };
            let (ip, name, index) = (hex(own.ip), &interface.name, interface_index(number));
            let _ = writeln!(text, "{ip} {index:02x} {:02x} {reach:02x} {flags:02x} {name:>8}", own.len);
        }
    }
    text
}

/// `/proc/net/ipv6_route`: destination and source with prefix lengths, next hop, metric, reference counts,
/// flags, interface name.
pub fn proc_ipv6_route(net: &Stack) -> String {
    const UP: u32 = 1;
    const GATEWAY: u32 = 2;
    const REJECT: u32 = 0x200;
    const LOCAL: u32 = 0x8000_0000;
    let mut text = String::new();
    let none = "0".repeat(32);
    let mut line = |to: String, len: u8, gateway: Option<Ipv6Addr>, metric: u32, flags: u32, name: &str| {
        let gateway = hex(gateway.unwrap_or(Ipv6Addr::UNSPECIFIED));
        let _ = writeln!(
            text,
            "{to} {len:02x} {none} 00 {gateway} {metric:08x} 00000001 00000000 {flags:08x} {name:>8}"
        );
    };
    for (prefix, metric, route) in net.v6.routes.iter() {
        let (to, len) = (hex(prefix.address()), prefix.bits());
        if route.kind != RouteKind::Unicast {
            line(to.clone(), len, None, metric, UP | REJECT, "lo");
        }
        for hop in &route.hops {
            let flags = UP | if hop.gateway.is_some() { GATEWAY } else { 0 };
            line(to.clone(), len, hop.gateway, metric, flags, &net.interfaces[hop.interface].name);
        }
    }
    for interface in net.interfaces.iter() {
        for own in &interface.addresses6 {
            line(hex(own.ip), 128, None, 0, UP | LOCAL, &interface.name);
        }
    }
    text
}

/// `/proc/net/igmp6`.
pub fn proc_igmp6(net: &Stack) -> String {
    // `MAF_NOREPORT` and `MAF_LOADED`: the group is not reported; it is loaded into the interface.
    const NO_REPORT: u8 = 8;
    const LOADED: u8 = 4;
    let mut text = String::new();
    for (number, interface) in net.interfaces.iter().enumerate() {
        for (group, users) in net.v6.groups_on(&net.interfaces, number).iter().rev() {
            let flags = match *group {
                ALL_NODES_HERE => NO_REPORT,
                ipv6::ALL_NODES => NO_REPORT | LOADED,
                _ => LOADED,
            };
            let (index, name) = (interface_index(number), &interface.name);
            let _ = writeln!(text, "{index:<4} {name:<15} {} {users:5} {flags:08X} 0", hex(*group));
        }
    }
    text
}

/// `/proc/net/snmp6`.
pub fn proc_snmp6(net: &Stack) -> String {
    let (ip, icmp, reassembly) = (&net.counters.ip[1], &net.counters.icmp[1], &net.reassembly.counters[1]);
    let [not_ect, ect1, ect0, ce] = ip.ecn;
    let mut known: Vec<(String, u64)> = [
        ("Ip6InReceives", ip.received.packets),
        ("Ip6InHdrErrors", ip.in_header_errors),
        ("Ip6InTooBigErrors", ip.not_cut),
        ("Ip6InNoRoutes", ip.in_no_routes),
        ("Ip6InAddrErrors", ip.in_address_errors),
        ("Ip6InUnknownProtos", ip.in_unknown_protocols),
        ("Ip6InTruncatedPkts", ip.in_truncated),
        ("Ip6InDiscards", 0),
        ("Ip6InDelivers", ip.in_delivers()),
        ("Ip6OutForwDatagrams", ip.forwarded),
        ("Ip6OutRequests", ip.out_requests),
        ("Ip6OutDiscards", 0),
        ("Ip6OutNoRoutes", ip.out_no_routes),
        ("Ip6ReasmTimeout", reassembly.timeouts),
        ("Ip6ReasmReqds", ip.fragments),
        ("Ip6ReasmOKs", ip.reassembled),
        ("Ip6ReasmFails", reassembly.failed),
        ("Ip6FragOKs", ip.cut),
        ("Ip6FragFails", ip.not_cut),
        ("Ip6FragCreates", ip.fragments_created),
        ("Ip6InMcastPkts", ip.in_group.packets),
        ("Ip6OutMcastPkts", ip.out_group.packets),
        ("Ip6InOctets", ip.received.octets),
        ("Ip6OutOctets", ip.sent.octets),
        ("Ip6InMcastOctets", ip.in_group.octets),
        ("Ip6OutMcastOctets", ip.out_group.octets),
        ("Ip6InBcastOctets", 0),
        ("Ip6OutBcastOctets", 0),
        ("Ip6InNoECTPkts", not_ect),
        ("Ip6InECT1Pkts", ect1),
        ("Ip6InECT0Pkts", ect0),
        ("Ip6InCEPkts", ce),
        ("Ip6OutTransmits", ip.sent.packets),
        ("Icmp6InMsgs", icmp.received),
        ("Icmp6InErrors", icmp.in_errors),
        ("Icmp6OutMsgs", icmp.sent),
        ("Icmp6OutErrors", 0),
        ("Icmp6InCsumErrors", icmp.in_wrong_checksums),
        ("Icmp6OutRateLimitHost", icmp.limited[1]),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    let ways = [("In", &icmp.received_by_kind), ("Out", &icmp.sent_by_kind)];
    for (way, counts) in ways {
        known.extend(
            KINDS
                .iter()
                .map(|(kind, name)| (format!("Icmp6{way}{name}"), counts.get(kind).copied().unwrap_or(0))),
        );
    }
    for (way, counts) in ways {
        known.extend(counts.iter().map(|(kind, count)| (format!("Icmp6{way}Type{kind}"), *count)));
    }
    for (group, [_, c]) in ["Udp6", "UdpLite6"].into_iter().zip(&net.counters.udp) {
        let lite_has_not = |name: &str| group == "UdpLite6" && name == "IgnoredMulti";
        let there = c.columns().into_iter().filter(|(name, _)| !lite_has_not(name));
        known.extend(there.map(|(name, value)| (format!("{group}{name}"), value)));
    }
    known.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<32}\t{value}");
        text
    })
}

/// ICMPv6 types that have a line each (`icmp6type2name` in Linux).
const KINDS: [(u8, &str); 15] = [
    (1, "DestUnreachs"),
    (2, "PktTooBigs"),
    (3, "TimeExcds"),
    (4, "ParmProblems"),
    (128, "Echos"),
    (129, "EchoReplies"),
    (130, "GroupMembQueries"),
    (131, "GroupMembResponses"),
    (132, "GroupMembReductions"),
    (133, "RouterSolicits"),
    (134, "RouterAdvertisements"),
    (135, "NeighborSolicits"),
    (136, "NeighborAdvertisements"),
    (137, "Redirects"),
    (143, "MLDv2Reports"),
];
