//! Traffic of every kind between two hosts, `A` and `B`, and their router `R`, whose accounts balance.

use super::*;
use crate::conf::{Scope, v4 as setting4, v6 as setting6};
use crate::filter::{Instruction, SocketFilter};
use crate::interface::Attachment;
use crate::ip::IpHeader;
use crate::testing::{A, B, ETH, GROUP, GROUP6, R, TestNetwork, far, link, own, stack_at, v4, v6};
use crate::udp::SendOptions;
use crate::{Stack, interface_index, raw};
use belljar_base::SimDuration;
use belljar_linux_abi::c;
use belljar_net::InterfaceAddress;
use belljar_net::{Packet, frame};
use belljar_wire::ethernet::{Address, ethertype};
use belljar_wire::protocol;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

mod machine;
mod virtual_interfaces;

fn secs(count: u64) -> SimDuration {
    SimDuration::from_secs(count)
}

/// The counts of a stack: packets originated, consumed and dropped of these names, which are followed by the
/// number of packets held.
fn counts(stack: &Stack, originated: &str, consumed: &str, dropped: &str) -> [u64; 4] {
    let account = stack.packet_account();
    assert_eq!(account.imbalance(), 0, "{account:?}");
    let count = |counts: &belljar_base::Map<&'static str, u64>, name| counts.get(name).copied().unwrap_or(0);
    [
        count(&account.originated, originated),
        count(&account.consumed, consumed),
        count(&account.dropped, dropped),
        account.held,
    ]
}

fn originated(stack: &Stack, origin: &str) -> u64 {
    counts(stack, origin, "", "")[0]
}
fn consumed(stack: &Stack, receiver: &str) -> u64 {
    counts(stack, "", receiver, "")[1]
}
fn dropped(stack: &Stack, cause: &str) -> u64 {
    counts(stack, "", "", cause)[2]
}
fn held(stack: &Stack) -> u64 {
    counts(stack, "", "", "")[3]
}

/// An IP packet with this payload.
fn packet(header: IpHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.len()];
    bytes.extend_from_slice(payload);
    header.emit(&mut bytes);
    bytes
}

/// A UDP datagram to a port, without a checksum.
fn datagram(port: u16) -> Vec<u8> {
    [&[0, 5][..], &port.to_be_bytes(), &[0, 12, 0, 0, 1, 2, 3, 4]].concat()
}

/// Passes a frame to the first link of a host.
fn receive(stack: &mut Stack, ethertype: u16, payload: Vec<u8>) {
    let mac = Address(stack.interfaces[ETH].mac);
    let packet = frame::framed(Packet::new(payload), mac, Address([2, 9, 9, 9, 9, 9]), ethertype);
    stack.frame_arrived(0, packet);
}

/// Creates an interface of a stack that is up, with an IPv4 address and the route to its network.
fn interface(stack: &mut Stack, name: &str, attachment: Attachment, net: u8) -> usize {
    let number = stack.add_virtual(name, attachment, None, None);
    stack.interfaces[number].up = true;
    stack.interfaces[number].addresses.push(InterfaceAddress::new(v4(net, 1), 24));
    stack.interface_is_up(number);
    number
}

#[test]
fn names_and_indices_are_distinct() {
    let receivers = Receiver::ALL.map(|receiver| PacketDisposition::consumed(receiver).0);
    let causes = DropCause::ALL.map(|cause| PacketDisposition::dropped(cause).0);
    let kinds = [
        PacketDisposition::SENT,
        PacketDisposition::HELD,
        PacketDisposition::COUNTED,
        PacketDisposition::REFUSED,
    ];
    let mut indices = [&kinds.map(|kind| kind.0)[..], &receivers, &causes].concat();
    indices.sort();
    assert!(indices.iter().enumerate().all(|(at, index)| at == usize::from(*index)));
    assert!(Origin::ALL.iter().enumerate().all(|(at, origin)| at == *origin as usize));
    let mut account = StackAccount::default();
    Origin::ALL.into_iter().for_each(|origin| account.originate(origin, PacketDisposition::SENT));
    let all = Receiver::ALL.map(PacketDisposition::consumed).into_iter();
    let all = all.chain(DropCause::ALL.map(PacketDisposition::dropped));
    all.for_each(|end| account.receive(end));
    let shown = account.with_held(0);
    assert_eq!(shown.originated.len(), Origin::ALL.len());
    assert_eq!((shown.consumed.len(), shown.dropped.len()), (Receiver::ALL.len(), DropCause::ALL.len()));
    assert_eq!(shown.imbalance(), 0);
}

#[test]
fn packets_in_a_stack_that_ends_are_dropped() {
    let mut account = StackAccount::default();
    account.originate(Origin::Udp, PacketDisposition::REFUSED);
    let mut other = StackAccount::default();
    other.receive(PacketDisposition::HELD);
    other.receive(PacketDisposition::dropped(DropCause::Hook).or(PacketDisposition::consumed(Receiver::Udp)));
    assert_eq!(other.with_held(1).imbalance(), 0);
    account.absorb(&other, 1, DropCause::InterfaceDown);
    let shown = account.with_held(0);
    assert_eq!((shown.received, shown.sent, shown.dropped["interface_down"]), (2, 1, 1));
    assert_eq!((shown.consumed["udp"], shown.imbalance()), (1, 0));
}

#[test]
fn datagrams_and_segments() {
    let mut network = TestNetwork::new();
    network.warm_up();
    for v6_ in [false, true] {
        // The probes for the warm-up had no receiver.
        let before = [A, B].map(|host| network.stacks[host].packet_account());
        let receiver = network.udp_socket(B, v6_, 9);
        let key = network.udp_socket(A, v6_, 0);
        network.send(key, far(v6_), 10);
        network.pass(secs(1));
        let sender = network.stacks[B].receive_from(receiver, &mut Vec::new()).unwrap().unwrap();
        assert_eq!(network.stacks[B].send_to(receiver, sender, b"back"), Ok(true));
        network.pass(secs(1));
        for (host, before) in [A, B].into_iter().zip(before) {
            let now = network.stacks[host].packet_account();
            let of_udp = |account: &PacketAccount| {
                [&account.originated, &account.consumed].map(|counts| counts.get("udp").copied().unwrap_or(0))
            };
            assert_eq!(of_udp(&now), of_udp(&before).map(|count| count + 1));
        }
        let listener = network.stacks[B].listen(SocketAddr::new(far(v6_), 80), 5).unwrap();
        let client = network.stacks[A].connect(SocketAddr::new(far(v6_), 80)).unwrap();
        network.pass(secs(1));
        network.stacks[A].write(client, &[7; 10_000]).unwrap();
        network.stacks[A].flush_network();
        network.pass(secs(1));
        let (server, _) = network.stacks[B].accept(listener).unwrap().unwrap();
        let mut data = vec![0; 10_000];
        assert_eq!(network.stacks[B].read(server, &mut data), Ok(Some(10_000)));
        // An idle connection keeps no packet buffers.
        assert_eq!(network.stacks[B].sockets.tcp(server).connection().unwrap().take_spent(), None);
        network.stacks[A].close(client);
        network.stacks[B].close(server);
        network.pass(secs(1));
        network.stacks[A].connect(SocketAddr::new(far(v6_), 81)).unwrap();
        network.pass(secs(1));
    }
    // Two warm-up datagrams and two SYNs to a closed port.
    assert_eq!(dropped(&network.stacks[B], "no_socket"), 4);
    assert_eq!((originated(&network.stacks[B], "icmp"), consumed(&network.stacks[A], "icmp")), (2, 2));
    let (of_a, of_b) = (network.stacks[A].packet_account(), network.stacks[B].packet_account());
    assert_eq!(
        (of_a.originated["tcp"], of_b.originated["tcp"]),
        (of_b.consumed["tcp"] + 2, of_a.consumed["tcp"])
    );
    assert_eq!(of_a.dropped.len(), 0);
}

#[test]
fn listeners_and_cookies() {
    let mut network = TestNetwork::new();
    network.warm_up();
    let at = SocketAddr::new(far(false), 80);
    network.stacks[B].listen(at, 0).unwrap();
    let before = dropped(&network.stacks[B], "no_socket");
    for _ in 0..3 {
        network.stacks[A].connect(at).unwrap();
        network.pass(SimDuration::from_millis(500));
    }
    let drops = network.stacks[B].counters.listen_drops;
    assert!(drops > 0);
    assert_eq!(dropped(&network.stacks[B], "listen_overflow"), drops);
    network.stacks[B].sysctls.syncookies = 2;
    network.stacks[B].listen(SocketAddr::new(far(false), 81), 5).unwrap();
    network.stacks[A].connect(SocketAddr::new(far(false), 81)).unwrap();
    network.pass(secs(1));
    assert_eq!(network.stacks[B].counters.cookies[..2], [1, 1]);
    assert_eq!(dropped(&network.stacks[B], "no_socket"), before);
}

#[test]
fn fragments() {
    for v6_ in [false, true] {
        let mut network = TestNetwork::new();
        network.warm_up();
        network.udp_socket(B, v6_, 9);
        let key = network.udp_socket(A, v6_, 0);
        network.send(key, far(v6_), 4_000);
        network.pass(secs(1));
        assert_eq!(originated(&network.stacks[A], "fragments"), 2);
        assert_eq!(counts(&network.stacks[B], "", "reassembly", ""), [0, 2, 0, 0]);
        assert_eq!(consumed(&network.stacks[B], "udp"), 1);
        // The last of three fragments is lost on the second link; the first one is also received twice.
        let kept: Arc<Mutex<Vec<Packet>>> = Arc::default();
        let seen = kept.clone();
        network.loss = Box::new(move |from, packet| {
            let lost = from == R && packet.len() > 200 && packet.len() < 1_300;
            if from == R && packet.len() > 1_300 {
                seen.lock().unwrap().push(packet.clone());
            }
            lost
        });
        network.send(key, far(v6_), 4_000);
        network.pass(secs(1));
        assert_eq!(held(&network.stacks[B]), 2);
        let copy = kept.lock().unwrap()[0].clone();
        network.stacks[B].frame_arrived(0, copy);
        assert_eq!(counts(&network.stacks[B], "", "", "reassembly"), [0, 0, 1, 2]);
        network.pass(secs(90));
        assert_eq!(counts(&network.stacks[B], "", "", "reassembly"), [0, 0, 3, 0]);
        // A fragment that overlaps the one before.
        for (offset, more) in [(0, true), (8, false)] {
            let header = IpHeader {
                id: 9,
                more_fragments: more,
                fragment_offset: offset,
                ..IpHeader::new(own(false), far(false), protocol::UDP)
            };
            receive(&mut network.stacks[B], ethertype::IPV4, packet(header, &[1; 16]));
        }
        assert_eq!(counts(&network.stacks[B], "", "", "reassembly"), [0, 0, 5, 0]);
    }
}

#[test]
fn unresolved_neighbours() {
    for v6_ in [false, true] {
        let mut network = TestNetwork::new();
        let nobody: IpAddr = if v6_ { v6(1, 77).into() } else { v4(1, 77).into() };
        let key = network.udp_socket(A, v6_, 0);
        (0..150).for_each(|_| network.send(key, nobody, 10));
        assert_eq!(counts(&network.stacks[A], "udp", "", "neighbour"), [150, 0, 49, 101]);
        network.pass(secs(5));
        assert_eq!(
            counts(&network.stacks[A], if v6_ { "ndp" } else { "arp" }, "", "neighbour")[2..],
            [150, 0]
        );
        (0..5).for_each(|_| network.send(key, nobody, 10));
        assert_eq!(held(&network.stacks[A]), 5);
        network.stacks[A].set_carrier(0, false);
        // The packets are in events that have not been processed.
        assert_eq!(held(&network.stacks[A]), 5);
        network.stacks[A].flush_network();
        assert_eq!(counts(&network.stacks[A], "", "", "neighbour")[2..], [155, 5], "errors on lo");
        network.pass(secs(1));
        assert_eq!(held(&network.stacks[A]), 0);
    }
}

#[test]
fn forwarding() {
    for v6_ in [false, true] {
        let mut network = TestNetwork::new();
        network.warm_up();
        let router = |network: &mut TestNetwork, cause| {
            network.pass(secs(2));
            dropped(&network.stacks[R], cause)
        };
        let key = network.udp_socket(A, v6_, 0);
        let nowhere: IpAddr =
            if v6_ { "2001:db9::1".parse().unwrap() } else { Ipv4Addr::new(192, 0, 2, 1).into() };
        network.send(key, nowhere, 10);
        assert_eq!(router(&mut network, "no_route"), 1);
        network.stacks[R].interfaces[ETH + 1].mtu = 1_280;
        network.send(key, far(v6_), 1_400);
        assert_eq!(router(&mut network, "too_big"), 1);
        // Fragmented by the router for IPv4, by its source for IPv6.
        if !v6_ {
            network.stacks[A].socket(key).ip_options_mut().unwrap().mtu_discover = c::IP_PMTUDISC_OMIT;
        }
        network.send(key, far(v6_), 1_400);
        assert_eq!(router(&mut network, "too_big"), 1);
        assert_eq!(originated(&network.stacks[if v6_ { A } else { R }], "fragments"), 1);
        let options = network.stacks[A].socket(key).ip_options_mut().unwrap();
        (options.ttl, options.hop_limit) = (Some(1), Some(1));
        network.send(key, far(v6_), 10);
        assert_eq!(router(&mut network, "ttl_expired"), 1);
        let src = if v6_ { IpAddr::from(std::net::Ipv6Addr::LOCALHOST) } else { Ipv4Addr::LOCALHOST.into() };
        let ethertype = if v6_ { ethertype::IPV6 } else { ethertype::IPV4 };
        let martian = IpHeader { ttl: 9, ..IpHeader::new(src, far(v6_), protocol::UDP) };
        receive(&mut network.stacks[R], ethertype, packet(martian, &datagram(9)));
        assert_eq!(router(&mut network, "martian"), 1);
        let header = IpHeader { ttl: 9, ..IpHeader::new(own(v6_), nowhere, protocol::UDP) };
        receive(&mut network.stacks[B], ethertype, packet(header, &datagram(9)));
        assert_eq!(dropped(&network.stacks[B], "forwarding_off"), 1);
    }
    let mut network = TestNetwork::new();
    network.stacks[R].set_interface_setting(false, setting4::RP_FILTER, Scope::All, 1).unwrap();
    let header = IpHeader { ttl: 9, ..IpHeader::new(far(false), own(false), protocol::UDP) };
    receive(&mut network.stacks[R], ethertype::IPV4, packet(header, &datagram(9)));
    assert_eq!(dropped(&network.stacks[R], "reverse_path"), 1);
    let off = Scope::Interface(ETH);
    network.stacks[B].set_interface_setting(true, setting6::DISABLE, off, 1).unwrap();
    let header = IpHeader::new(own(true), far(true), protocol::UDP);
    receive(&mut network.stacks[B], ethertype::IPV6, packet(header, &datagram(9)));
    assert_eq!(dropped(&network.stacks[B], "ipv6_disabled"), 1);
}

#[test]
fn groups() {
    let mut network = TestNetwork::new();
    let key = network.udp_socket(A, false, 9);
    network.stacks[A].join_group(key, ETH, GROUP).unwrap();
    network.stacks[A].join_group6(ETH, GROUP6);
    let key6 = network.udp_socket(A, true, 9);
    network.stacks[A].flush_network();
    network.pass(secs(5));
    assert!(originated(&network.stacks[A], "igmp") > 0 && originated(&network.stacks[A], "mld") > 0);
    assert!(originated(&network.stacks[A], "ndp") > 0, "router solicitations");
    for (key, group) in [(key, IpAddr::from(GROUP)), (key6, GROUP6.into())] {
        let before = consumed(&network.stacks[R], "other_address");
        network.stacks[A].socket(key).options.bound_device = Some(interface_index(ETH));
        network.send(key, group, 10);
        assert_eq!(held(&network.stacks[A]), 1);
        network.pass(secs(1));
        assert_eq!(consumed(&network.stacks[R], "other_address"), before + 1);
        let options = network.stacks[A].socket(key).ip_options_mut().unwrap();
        (options.multicast_ttl, options.multicast_hops) = (0, 0);
        network.send(key, group, 10);
        network.pass(secs(1));
    }
    assert_eq!(counts(&network.stacks[A], "loopback_copies", "udp", "ttl_expired"), [4, 4, 2, 0]);
    // A group of which the host is a member without a socket.
    let before = consumed(&network.stacks[A], "other_address");
    network.stacks[A].close(key);
    network.send(key6, GROUP6.into(), 10);
    network.stacks[A].close(key6);
    network.pass(secs(1));
    assert_eq!(consumed(&network.stacks[A], "other_address"), before + 1);
    assert_eq!(dropped(&network.stacks[A], "no_socket"), 0);
}

#[test]
fn filters_of_sockets_and_addresses() {
    let mut network = TestNetwork::new();
    let key = network.udp_socket(B, false, 9);
    let header = IpHeader::new(own(false), far(false), protocol::UDP);
    let stack = &mut network.stacks[B];
    stack.socket(key).options.receive_buffer = 1;
    (0..3).for_each(|_| receive(stack, ethertype::IPV4, packet(header, &datagram(9))));
    assert_eq!(counts(stack, "", "udp", "receive_buffer_full"), [0, 1, 2, 0]);
    let none = Instruction { code: 6, jt: 0, jf: 0, k: 0 };
    stack.socket(key).options.filter = Some(Arc::new(SocketFilter::new(vec![none]).unwrap()));
    receive(stack, ethertype::IPV4, packet(header, &datagram(9)));
    assert_eq!(dropped(stack, "socket_filter"), 1);
    let mut wrong = datagram(9);
    wrong[6] = 1;
    receive(stack, ethertype::IPV4, packet(header, &wrong));
    let mut wrong = packet(header, &datagram(9));
    wrong[10] ^= 1;
    receive(stack, ethertype::IPV4, wrong);
    assert_eq!(dropped(stack, "checksum"), 2);
    receive(stack, ethertype::IPV4, packet(header, &[0; 4]));
    receive(stack, ethertype::IPV4, vec![0x45; 10]);
    receive(stack, ethertype::ARP, vec![0; 9]);
    stack.frame_arrived(0, Packet::new(vec![0; 9]));
    assert_eq!(dropped(stack, "malformed"), 4);
    receive(stack, 0x88cc, vec![0; 50]);
    stack.watchers = 1;
    receive(stack, 0x88cc, vec![0; 50]);
    stack.watchers = 0;
    assert_eq!(counts(stack, "", "packet_socket", "unknown_protocol"), [0, 1, 1, 0]);
    let (other, from) = (Address([2, 8, 8, 8, 8, 8]), Address([2, 9, 9, 9, 9, 9]));
    stack.frame_arrived(0, frame::framed(Packet::new(vec![0; 40]), other, from, ethertype::IPV4));
    assert_eq!(consumed(stack, "other_address"), 1);
    let header = IpHeader { protocol: 200, ..header };
    receive(stack, ethertype::IPV4, packet(header, &[0; 4]));
    let raw = raw::create(stack, c::AF_INET, 200).unwrap();
    receive(stack, ethertype::IPV4, packet(header, &[0; 4]));
    assert_eq!(counts(stack, "icmp", "raw", "no_socket"), [1, 1, 1, 1], "an error waits for its neighbour");
    stack.raw_output(raw, own(false), vec![0; 8], &SendOptions::default()).unwrap();
    assert_eq!(counts(stack, "raw", "", ""), [1, 0, 0, 2]);
    network.pass(secs(5));
    assert_eq!(held(&network.stacks[B]), 0);
    // Frames for an interface that is down are drops of its card.
    let stack = &mut network.stacks[B];
    let before = stack.packet_account().received;
    stack.interfaces[ETH].up = false;
    receive(stack, ethertype::IPV4, packet(header, &[0; 4]));
    assert_eq!(stack.packet_account().received, before);
}
