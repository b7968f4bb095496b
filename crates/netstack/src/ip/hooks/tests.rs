//! Two hosts, `A` and `B`, on the links of a router `R`, with a recording of every hook call.

use super::{HookPoint, HookVerdict, Passage};
use crate::ip::IpHeader;
use crate::testing::{A, B, ETH, GROUP, GROUP6, R, far, own, v4, v6};
use crate::udp::SendOptions;
use crate::{interface_index, raw};
use belljar_base::SimDuration;
use belljar_linux_abi::{Errno, c};
use belljar_net::Packet;
use belljar_wire::protocol;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

const NOT_FORWARD: [HookPoint; 4] =
    [HookPoint::Output, HookPoint::Postrouting, HookPoint::Prerouting, HookPoint::Input];

/// A recorded hook call: the host, the point, the protocol and, for ICMP, the type.
type Note = (usize, HookPoint, u8, Option<u8>);

/// The hosts of a [`testing::TestNetwork`](crate::testing::TestNetwork) with a recording of every hook call.
struct Network {
    hosts: crate::testing::TestNetwork,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Deref for Network {
    type Target = crate::testing::TestNetwork;
    fn deref(&self) -> &crate::testing::TestNetwork {
        &self.hosts
    }
}

impl DerefMut for Network {
    fn deref_mut(&mut self) -> &mut crate::testing::TestNetwork {
        &mut self.hosts
    }
}

impl Network {
    fn new() -> Network {
        let mut hosts = crate::testing::TestNetwork::new();
        let notes: Arc<Mutex<Vec<Note>>> = Arc::default();
        for (host, stack) in hosts.stacks.iter_mut().enumerate() {
            for point in HookPoint::ALL {
                let notes = notes.clone();
                let note = move |packet: &mut Packet, passage: &Passage| {
                    let (header, payload) = IpHeader::parse(packet.bytes()).expect("a whole packet");
                    assert_eq!((passage.point, passage.v6), (point, header.dst.is_ipv6()));
                    let is_icmp = [protocol::ICMP, protocol::ICMPV6].contains(&header.protocol);
                    let kind = is_icmp.then(|| packet.bytes()[payload.start]);
                    notes.lock().unwrap().push((host, point, header.protocol, kind));
                    HookVerdict::Accept
                };
                stack.hooks.register(point, 0, Box::new(note));
            }
        }
        hosts.warm_up();
        notes.lock().unwrap().clear();
        Network { hosts, notes }
    }
    /// Registers a hook that drops packets with this mark.
    fn drop_marked(&mut self, host: usize, point: HookPoint, mark: u32) {
        let hook = move |packet: &mut Packet, _: &Passage| match packet.mark() == mark {
            true => HookVerdict::Drop,
            false => HookVerdict::Accept,
        };
        self.stacks[host].hooks.register(point, 10, Box::new(hook));
    }
    /// The hook calls for a protocol, and a type if given, since the last call.
    fn passed(&mut self, number: u8, kind: Option<u8>) -> Vec<(usize, HookPoint)> {
        self.pass(SimDuration::from_secs(5));
        let notes = std::mem::take(&mut *self.notes.lock().unwrap());
        let of_kind = notes.into_iter().filter(|note| note.2 == number && (kind.is_none() || note.3 == kind));
        of_kind.map(|(host, point, ..)| (host, point)).collect()
    }
}

fn sent(host: usize) -> Vec<(usize, HookPoint)> {
    vec![(host, HookPoint::Output), (host, HookPoint::Postrouting)]
}
fn received(host: usize) -> Vec<(usize, HookPoint)> {
    vec![(host, HookPoint::Prerouting), (host, HookPoint::Input)]
}
fn forwarded(host: usize) -> Vec<(usize, HookPoint)> {
    vec![(host, HookPoint::Prerouting), (host, HookPoint::Forward), (host, HookPoint::Postrouting)]
}

#[test]
fn datagrams_pass_each_host_on_their_path() {
    let mut network = Network::new();
    for v6_ in [false, true] {
        network.udp_socket(B, v6_, 9);
        let key = network.udp_socket(A, v6_, 0);
        network.send(key, far(v6_), 10);
        assert_eq!(network.passed(protocol::UDP, None), [sent(A), forwarded(R), received(B)].concat());
        network.send(key, own(v6_), 10);
        assert_eq!(network.passed(protocol::UDP, None), NOT_FORWARD.map(|point| (A, point)));
    }
}

#[test]
fn segments_and_their_answers_pass() {
    let mut network = Network::new();
    for v6_ in [false, true] {
        network.stacks[A].connect(SocketAddr::new(far(v6_), 80)).unwrap();
        let there = [sent(A), forwarded(R), received(B)].concat();
        let back = [sent(B), forwarded(R), received(A)].concat();
        assert_eq!(network.passed(protocol::TCP, None), [there, back].concat(), "a SYN and a reset");
    }
}

#[test]
fn icmp_errors_are_packets_of_the_host_that_sends_them() {
    let mut network = Network::new();
    for (v6_, icmp, unreachable, exceeded) in [(false, protocol::ICMP, 3, 11), (true, protocol::ICMPV6, 1, 3)]
    {
        let key = network.udp_socket(A, v6_, 0);
        network.send(key, far(v6_), 10);
        let back = [sent(B), forwarded(R), received(A)].concat();
        assert_eq!(network.passed(icmp, Some(unreachable)), back);
        let key = network.udp_socket(A, v6_, 0);
        let options = network.stacks[A].socket(key).ip_options_mut().unwrap();
        (options.ttl, options.hop_limit) = (Some(1), Some(1));
        network.send(key, far(v6_), 10);
        network.pass(SimDuration::from_secs(1));
        let udp: Vec<Note> =
            network.notes.lock().unwrap().iter().copied().filter(|n| n.2 == protocol::UDP).collect();
        assert_eq!(udp.last().map(|note| (note.0, note.1)), Some((R, HookPoint::Prerouting)));
        assert_eq!(network.passed(icmp, Some(exceeded)), [sent(R), received(A)].concat());
    }
}

#[test]
fn raw_packets_pass_whole_or_not() {
    let mut network = Network::new();
    let path = [sent(A), forwarded(R), received(B)].concat();
    for (v6_, whole) in [(false, false), (false, true), (true, false)] {
        let domain = if v6_ { c::AF_INET6 } else { c::AF_INET };
        let key = raw::create(&mut network.stacks[A], domain, 200).unwrap();
        let data = match whole {
            false => vec![1; 8],
            true => {
                network.stacks[A].sockets.raw(key).header_included = true;
                let mut packet = vec![0; 28];
                IpHeader::new(own(v6_), far(v6_), 200).emit(&mut packet);
                packet
            }
        };
        network.stacks[A].raw_output(key, far(v6_), data, &SendOptions::default()).unwrap();
        network.stacks[A].flush_network();
        assert_eq!(network.passed(200, None), path);
    }
}

#[test]
fn fragments_are_made_behind_the_hooks_and_ipv4_joins_them_before_input() {
    let mut network = Network::new();
    for v6_ in [false, true] {
        network.udp_socket(B, v6_, 9);
        let key = network.udp_socket(A, v6_, 0);
        network.send(key, far(v6_), 2_000);
        let mut passed = network.passed(protocol::UDP, None);
        let mut count = |host, point| {
            let before = passed.len();
            passed.retain(|passage| *passage != (host, point));
            before - passed.len()
        };
        assert_eq!((count(A, HookPoint::Output), count(A, HookPoint::Postrouting)), (1, 1));
        for point in [HookPoint::Prerouting, HookPoint::Forward, HookPoint::Postrouting] {
            assert_eq!(count(R, point), 2);
        }
        assert_eq!(count(B, HookPoint::Prerouting), 2);
        assert_eq!(count(B, HookPoint::Input), if v6_ { 2 } else { 1 });
        assert!(passed.is_empty());
        assert_eq!(network.stacks[B].counters.udp[0][usize::from(v6_)].received, 1);
    }
}

#[test]
fn memberships_and_discovery_are_packets_too() {
    let mut network = Network::new();
    let key = network.udp_socket(A, false, 0);
    network.stacks[A].join_group(key, ETH, GROUP).unwrap();
    network.stacks[A].flush_network();
    let once = [sent(A), vec![(R, HookPoint::Prerouting)]].concat();
    assert_eq!(network.passed(2, None), [once.clone(), once.clone()].concat());
    network.stacks[A].join_group6(ETH, GROUP6);
    assert_eq!(network.passed(protocol::ICMPV6, Some(143)), [once.clone(), once].concat());
    // A neighbour solicitation and its advertisement.
    let key = network.udp_socket(A, true, 0);
    network.stacks[A].v6.neighbours.flush(ETH, true);
    network.send(key, v6(1, 2).into(), 10);
    network.pass(SimDuration::from_millis(500));
    let discovery = |kind| {
        let notes = network.notes.lock().unwrap();
        let of_kind = notes.iter().filter(|note| note.3 == Some(kind));
        of_kind.map(|note| (note.0, note.1)).collect::<Vec<_>>()
    };
    assert_eq!(discovery(135), [sent(A), received(R)].concat());
    assert_eq!(discovery(136), [sent(R), received(A)].concat());
}

#[test]
fn the_copy_of_a_multicast_passes_as_received_by_its_interface() {
    let mut network = Network::new();
    let key = network.udp_socket(A, false, 0);
    network.stacks[A].join_group(key, ETH, GROUP).unwrap();
    network.stacks[A].join_group6(ETH, GROUP6);
    let key6 = network.udp_socket(A, true, 0);
    for (key, group) in [(key, IpAddr::from(GROUP)), (key6, GROUP6.into())] {
        network.stacks[A].socket(key).options.bound_device = Some(interface_index(ETH));
        network.send(key, group, 10);
        let copy = [(A, HookPoint::Postrouting)].into_iter();
        let mut expected: Vec<_> = sent(A).into_iter().chain(copy).chain(received(A)).collect();
        let mut passed = network.passed(protocol::UDP, None);
        assert!(passed.contains(&(R, HookPoint::Prerouting)));
        passed.retain(|passage| passage.0 == A);
        expected.sort();
        passed.sort();
        assert_eq!(passed, expected);
        // With TTL 0 the packet does not leave the host.
        let options = network.stacks[A].socket(key).ip_options_mut().unwrap();
        (options.multicast_ttl, options.multicast_hops) = (0, 0);
        network.send(key, group, 10);
        assert!(network.passed(protocol::UDP, None).iter().all(|passage| passage.0 == A));
    }
}

#[test]
fn marked_packets_are_dropped_at_each_hook_and_counted() {
    for v6_ in [false, true] {
        for point in NOT_FORWARD {
            let mut network = Network::new();
            network.drop_marked(A, point, 7);
            let receiver = network.udp_socket(A, v6_, 9);
            let key = network.udp_socket(A, v6_, 0);
            network.send(key, own(v6_), 10);
            network.stacks[A].socket(key).options.mark = 7;
            let to = SocketAddr::new(own(v6_), 9);
            let sent = network.stacks[A].send_to(key, to, b"marked");
            let refused = matches!(point, HookPoint::Output | HookPoint::Postrouting);
            assert_eq!(sent, if refused { Err(Errno::EPERM) } else { Ok(true) });
            network.pass(SimDuration::from_secs(1));
            let mut drops = [[0; 2]; 5];
            drops[point as usize][usize::from(v6_)] = 1;
            assert_eq!(network.stacks[A].counters.hook_drops, drops);
            assert_eq!(network.stacks[A].packet_account().dropped["hook"], 1);
            let mut bytes = Vec::new();
            assert!(network.stacks[A].receive_from(receiver, &mut bytes).unwrap().is_some());
            bytes.clear();
            assert!(network.stacks[A].receive_from(receiver, &mut bytes).unwrap().is_none());
        }
    }
}

#[test]
fn a_router_drops_what_it_has_marked() {
    for v6_ in [false, true] {
        let mut network = Network::new();
        let mark = |packet: &mut Packet, _: &Passage| {
            packet.set_mark(packet.mark() + 9);
            HookVerdict::Accept
        };
        network.stacks[R].hooks.register(HookPoint::Prerouting, -1, Box::new(mark));
        network.drop_marked(R, HookPoint::Forward, 9);
        let before = network.stacks[R].counters.ip[usize::from(v6_)].forwarded;
        network.udp_socket(B, v6_, 9);
        let key = network.udp_socket(A, v6_, 0);
        // The sender's mark is local to its host.
        network.stacks[A].socket(key).options.mark = 3;
        network.send(key, far(v6_), 10);
        let passed = network.passed(protocol::UDP, None);
        assert_eq!(passed, [sent(A), forwarded(R)[..2].to_vec()].concat());
        assert_eq!(network.stacks[R].counters.hook_drops[HookPoint::Forward as usize][usize::from(v6_)], 1);
        assert_eq!(network.stacks[R].counters.ip[usize::from(v6_)].forwarded, before);
        assert_eq!(network.stacks[R].packet_account().dropped["hook"], 1);
    }
}

#[test]
fn a_hook_may_change_a_packet() {
    let mut network = Network::new();
    let receiver = network.udp_socket(B, false, 9);
    let rewrite = |packet: &mut Packet, _: &Passage| {
        let (mut header, payload) = IpHeader::parse(packet.bytes()).unwrap();
        if header.protocol == protocol::UDP {
            header.dst = far(false);
            let bytes = packet.bytes_mut();
            // No checksum.
            bytes[payload.start + 6..payload.start + 8].fill(0);
            header.emit(bytes);
        }
        HookVerdict::Accept
    };
    network.stacks[R].hooks.register(HookPoint::Prerouting, 1, Box::new(rewrite));
    let key = network.udp_socket(A, false, 0);
    network.send(key, v4(1, 2).into(), 10);
    assert_eq!(network.passed(protocol::UDP, None), [sent(A), forwarded(R), received(B)].concat());
    let mut bytes = Vec::new();
    assert!(network.stacks[B].receive_from(receiver, &mut bytes).unwrap().is_some());
}
