//! Two hosts, `A` and `B`, on the links of a router `R`, with a recording of every hook call.

use super::{HookPoint, HookVerdict, Passage};
use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
use crate::ip::IpHeader;
use crate::udp::{self, Protocol, SendOptions};
use crate::{
    Departure, InitialRoute, InitialRoute6, LinkConfig, SocketKey, Stack, StackConfig, interface_index, raw,
};
use belljar_base::{EventClass, EventKey, HostId, Seed, SimDuration};
use belljar_linux_abi::{Errno, c};
use belljar_net::routes::{InterfaceAddress, Prefix, Route, protocol as origin};
use belljar_net::{NicConfig, Packet};
use belljar_wire::protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

const A: usize = 0;
const R: usize = 1;
const B: usize = 2;
const NAMES: [&str; 3] = ["A", "R", "B"];
/// The number of the interface at a host's first link.
const ETH: usize = 1;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);
const NOT_FORWARD: [HookPoint; 4] =
    [HookPoint::Output, HookPoint::Postrouting, HookPoint::Prerouting, HookPoint::Input];

/// A recorded hook call: the host, the point, the protocol and, for ICMP, the type.
type Note = (usize, HookPoint, u8, Option<u8>);

fn v4(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, net, host)
}
fn v6(net: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host)
}
/// The addresses of `B`.
fn far(v6_: bool) -> IpAddr {
    if v6_ { v6(2, 1).into() } else { v4(2, 1).into() }
}
fn own(v6_: bool) -> IpAddr {
    if v6_ { v6(1, 1).into() } else { v4(1, 1).into() }
}

fn link(host: usize, name: &str, net: u8, number: u8) -> LinkConfig {
    LinkConfig {
        name: name.into(),
        mac: [2, 0, 0, 0, net, host as u8],
        mtu: 1_500,
        addresses: vec![InterfaceAddress { ip: v4(net, number), len: 24 }],
        addresses6: vec![InterfaceAddress { ip: v6(net.into(), number.into()), len: 64 }],
        nic: NicConfig { framed: true, ..NicConfig::default() },
        carrier: true,
    }
}

fn node(host: usize) -> Stack {
    let links = match host {
        A => vec![link(host, "eth0", 1, 1)],
        R => vec![link(host, "eth0", 1, 2), link(host, "eth1", 2, 2)],
        _ => vec![link(host, "eth0", 2, 1)],
    };
    let (mut routes, mut routes6): (Vec<InitialRoute>, Vec<InitialRoute6>) = (Vec::new(), Vec::new());
    if host != R {
        let net = if host == A { 1 } else { 2 };
        routes.push((Prefix::ALL, 0, Route::by(ETH, Some(v4(net, 2)), origin::BOOT)));
        routes6.push((Prefix::ALL, 1_024, Route::by(ETH, Some(v6(net.into(), 2)), origin::BOOT)));
    }
    let config = StackConfig {
        links,
        routes,
        routes6,
        ipv6: true,
        forwarding: host == R,
        ..StackConfig::new(HostId(host as u32), NAMES[host], Seed(1))
    };
    Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()))
}

struct Network {
    stacks: [Stack; 3],
    notes: Arc<Mutex<Vec<Note>>>,
    sequence: u64,
}

impl Network {
    fn new() -> Network {
        let mut stacks = [A, R, B].map(node);
        // The router forwards both IP versions.
        stacks[R].sysctls.forwarding6 = true;
        let notes: Arc<Mutex<Vec<Note>>> = Arc::default();
        for (host, stack) in stacks.iter_mut().enumerate() {
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
                stack.register_hook(point, 0, Box::new(note));
            }
        }
        let mut network = Network { stacks, notes, sequence: 0 };
        // Resolves the neighbours and completes router solicitation.
        for v6_ in [false, true] {
            let probe = network.udp_socket(A, v6_, 0);
            network.send(probe, far(v6_), 10);
        }
        network.pass(SimDuration::from_secs(20));
        network.notes.lock().unwrap().clear();
        network
    }
    /// Registers a hook that drops packets with this mark.
    fn drop_marked(&mut self, host: usize, point: HookPoint, mark: u32) {
        let hook = move |packet: &mut Packet, _: &Passage| match packet.mark() == mark {
            true => HookVerdict::Drop,
            false => HookVerdict::Accept,
        };
        self.stacks[host].register_hook(point, 10, Box::new(hook));
    }
    fn udp_socket(&mut self, host: usize, v6_: bool, port: u16) -> SocketKey {
        let domain = if v6_ { c::AF_INET6 } else { c::AF_INET };
        let key = udp::create(&mut self.stacks[host], domain, Protocol::Udp).unwrap();
        if v6_ {
            self.stacks[host].socket(key).ip_options_mut().unwrap().v6_only = true;
        }
        self.stacks[host].udp_bind(key, None, port, true).unwrap();
        key
    }
    /// Sends a datagram from `A` to port 9 of `to`.
    fn send(&mut self, key: SocketKey, to: IpAddr, len: usize) {
        assert_eq!(self.stacks[A].send_to(key, SocketAddr::new(to, 9), &vec![1; len]), Ok(true));
    }
    fn pass(&mut self, time: SimDuration) {
        let until = self.stacks[0].clock.now() + time;
        loop {
            for from in [A, R, B] {
                let mut departures: Vec<Departure> = Vec::new();
                self.stacks[from].take_departures(&mut departures);
                for departure in departures {
                    let (to, link) = match (from, departure.link.expect("there are links only")) {
                        (A, _) => (R, 0),
                        (R, 0) => (A, 0),
                        (R, _) => (B, 0),
                        (_, _) => (R, 1),
                    };
                    self.sequence += 1;
                    let key = EventKey {
                        time: departure.at + SimDuration::from_millis(1),
                        class: EventClass::Arrival,
                        source: HostId(from as u32),
                        sequence: self.sequence,
                    };
                    self.stacks[to].deliver(key, Some(link), departure.packet);
                }
            }
            let next = self.stacks.iter().filter_map(Stack::next_event).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.stacks.iter_mut().for_each(|stack| stack.pass_until(at));
        }
        self.stacks.iter_mut().for_each(|stack| stack.pass_until(until));
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
                network.stacks[A].raw(key).header_included = true;
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
        network.stacks[R].register_hook(HookPoint::Prerouting, -1, Box::new(mark));
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
    network.stacks[R].register_hook(HookPoint::Prerouting, 1, Box::new(rewrite));
    let key = network.udp_socket(A, false, 0);
    network.send(key, v4(1, 2).into(), 10);
    assert_eq!(network.passed(protocol::UDP, None), [sent(A), forwarded(R), received(B)].concat());
    let mut bytes = Vec::new();
    assert!(network.stacks[B].receive_from(receiver, &mut bytes).unwrap().is_some());
}
