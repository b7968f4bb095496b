//! Bridges in a network in virtual time.

use super::packet::{Frame, Hello, LinkState};
use super::{Bridge, Config};
use crate::tests::{Medium, Network};
use crate::{DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Time};
use belljar_base::{Seed, Stream};
use belljar_wire::ethernet::{self, Address};
use std::time::Duration;

const CLIENT: InterfaceId = InterfaceId(99);

fn at(n: usize) -> Address {
    Address([2, 0, 0, 0, 0, n as u8 + 1])
}
fn station(n: usize) -> Address {
    Address([6, 0, 0, 0, 0, n as u8 + 1])
}

fn bridges(count: usize, seed: u64) -> Network<Bridge> {
    let mut net = Network::new(seed);
    for n in 0..count {
        net.add(Bridge::new(Config::new(at(n), Seed(seed)), [CLIENT]), &[at(n)]);
    }
    net
}

fn line(count: usize, seed: u64) -> Network<Bridge> {
    let mut net = bridges(count, seed);
    (1..count).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    net
}

fn client_frame(src: Address, dst: Address) -> Vec<u8> {
    let mut frame = vec![0; 60];
    ethernet::Repr { src, dst, ethertype: 0x0800 }.emit(&mut frame);
    frame
}

/// A station at bridge `from` sends a frame; returns the bridges whose clients received it within 100 ms.
fn send(net: &mut Network<Bridge>, from: usize, dst: Address) -> Vec<usize> {
    let frame = client_frame(station(from), dst);
    net.call(from, |bridge, now| bridge.on_client_frame(now, CLIENT, &frame));
    net.run_for(Duration::from_millis(100));
    let mut got = Vec::new();
    for n in 0..net.nodes.len() {
        while let Some(delivery) = net.nodes[n].protocol.poll_delivery() {
            assert_eq!((delivery.port, &delivery.frame), (CLIENT, &frame));
            got.push(n);
        }
    }
    got
}

#[test]
fn frames_go_to_the_bridge_of_their_receiver() {
    let mut net = line(5, 1);
    net.run_for(Duration::from_secs(5));
    assert!(net.nodes.iter().all(|node| node.table.len() == 4));
    assert_eq!(net.nodes[0].table[&at(4)].distance, 4);
    assert_eq!(send(&mut net, 0, Address::BROADCAST), [1, 2, 3, 4], "each of the others, once");
    assert_eq!(send(&mut net, 4, station(0)), [0], "known from the frame before");
    net.run_for(Duration::from_secs(1));
    assert_eq!(send(&mut net, 2, station(4)), [4], "known from its link state");
    assert_eq!(send(&mut net, 2, station(77)), [0, 1, 3, 4], "known by nobody");
}

#[test]
fn a_ring_has_no_loop_and_heals() {
    let mut net = line(6, 2);
    net.join((5, 1), (0, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(5));
    assert_eq!(net.nodes[0].table[&at(4)].distance, 2);
    assert_eq!(send(&mut net, 0, Address::BROADCAST), [1, 2, 3, 4, 5]);
    send(&mut net, 4, Address::BROADCAST);
    net.cut((0, 1), (5, 1));
    let cut = net.now;
    net.run_until_done(Duration::from_secs(10), |net| {
        net.nodes[0].table.get(&at(4)).is_some_and(|r| r.distance == 4)
    });
    assert!(net.now.since(cut) <= Duration::from_secs(4), "three HELLOs and a flood");
    assert_eq!(send(&mut net, 0, station(4)), [4]);
}

#[test]
fn partitions_merges_and_the_link_layer() {
    let mut net = line(4, 3);
    net.run_for(Duration::from_secs(5));
    net.cut((1, 1), (2, 1));
    for (node, neighbor) in [(1, at(2)), (2, at(1))] {
        net.call(node, |b, now| {
            b.on_data_plane(now, DataPlaneEvent::LinkLost { interface: InterfaceId(1), neighbor })
        });
    }
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.nodes.iter().map(|node| node.table.len()).collect::<Vec<_>>(), [1, 1, 1, 1]);
    net.join((1, 1), (2, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.nodes.iter().map(|node| node.table.len()).collect::<Vec<_>>(), [3, 3, 3, 3]);
}

#[test]
fn a_station_that_moves_is_found() {
    let mut net = line(3, 4);
    net.run_for(Duration::from_secs(5));
    send(&mut net, 0, Address::BROADCAST);
    assert_eq!(send(&mut net, 1, station(0)), [0]);
    let frame = client_frame(station(0), Address::BROADCAST);
    net.call(2, |bridge, now| bridge.on_client_frame(now, CLIENT, &frame));
    net.run_for(Duration::from_millis(100));
    net.nodes.iter_mut().for_each(|node| while node.protocol.poll_delivery().is_some() {});
    assert_eq!(send(&mut net, 1, station(0)), [2]);
    net.run_for(Duration::from_secs(60));
    assert_eq!(send(&mut net, 1, station(0)), [2], "the old bridge no longer tells of it");
}

#[test]
fn a_bridge_that_begins_again_is_believed() {
    let mut net = line(3, 5);
    net.run_for(Duration::from_secs(100));
    net.nodes[1].protocol = Bridge::new(Config::new(at(1), Seed(9)), [CLIENT]);
    let interface = Interface { id: InterfaceId(1), address: at(1), mtu: 1500 };
    net.call(1, |bridge, now| bridge.on_interface(now, InterfaceEvent::Up(interface)));
    net.cut((1, 1), (2, 1));
    net.run_for(Duration::from_secs(6));
    assert_eq!(net.nodes[0].table.len(), 1, "its new link state counts, though it began to number from one");
}

#[test]
fn loss_and_reordering() {
    let mut net = bridges(6, 6);
    let medium = Medium { delay: Duration::from_millis(2), jitter: Duration::from_millis(20), loss: 0.1 };
    (0..6).for_each(|n| net.join((n, 1), ((n + 1) % 6, 1), medium));
    net.run_until_done(Duration::from_secs(60), |net| net.nodes.iter().all(|node| node.table.len() == 5));
    let run = |seed| {
        let mut net = line(4, seed);
        net.join((3, 1), (0, 1), medium);
        net.run_until(Time::from_secs(30));
        (net.digest(), net.sent)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut net = line(2, 7);
    net.run_for(Duration::from_secs(3));
    let mut frame = client_frame(station(0), Address::BROADCAST);
    frame.resize(1500 - super::packet::ENCAPSULATION, 0);
    net.call(0, |bridge, now| bridge.on_client_frame(now, CLIENT, &frame));
    assert_eq!(net.nodes[0].protocol.counts().oversize, 0);
    frame.push(0);
    net.call(0, |bridge, now| bridge.on_client_frame(now, CLIENT, &frame));
    assert_eq!(net.nodes[0].protocol.counts().oversize, 1);
}

fn fuzz(seed: u64) {
    let mut dice = Seed(seed).stream(&["bridge fuzz"]);
    let address = |dice: &mut Stream| {
        let mut any = [0; 6];
        dice.fill(&mut any);
        if dice.chance(0.1) { Address(any) } else { at(dice.below(6) as usize) }
    };
    let mut bridge = Bridge::new(Config::new(at(0), Seed(seed)), [CLIENT]);
    let mut now = Time::ZERO;
    for _ in 0..400 {
        let interface = InterfaceId(dice.below(3) as u32);
        let neighbor = address(&mut dice);
        let span = Duration::from_millis(u64::from(dice.next_u32() >> dice.below(32)));
        let many = |dice: &mut Stream| (0..dice.below(4)).map(|_| address(dice)).collect::<Vec<_>>();
        let frame = client_frame(address(&mut dice), address(&mut dice));
        let frame = &frame[..if dice.chance(0.1) { dice.below(60) as usize } else { 60 }];
        let (sequence, hop_limit) = (u32::MAX.wrapping_add(dice.below(6) as u32), dice.below(4) as u8);
        let (a, b) = (address(&mut dice), address(&mut dice));
        let packet = match dice.below(10) {
            0 => {
                let up = Interface {
                    id: interface,
                    address: at(20 + interface.0 as usize),
                    mtu: dice.below(1600) as usize,
                };
                let event =
                    if dice.chance(0.7) { InterfaceEvent::Up(up) } else { InterfaceEvent::Down(interface) };
                bridge.on_interface(now, event);
                None
            }
            1 => {
                bridge.on_client_frame(now, InterfaceId(97 + dice.below(3) as u32), frame);
                None
            }
            2 => {
                now = now + Duration::from_millis(dice.below(3000));
                for _ in 0..1000 {
                    if bridge.next_timer().is_none_or(|at| at > now) {
                        break;
                    }
                    bridge.on_timer(now);
                }
                assert!(bridge.next_timer().is_none_or(|at| at > now), "seed {seed}: the timer stands still");
                None
            }
            3..6 => {
                let mut heard = many(&mut dice);
                heard.push(at(20 + interface.0 as usize));
                Some(Frame::Hello(Hello { bridge: a, hold: span, heard }).encode())
            }
            6 | 7 => {
                let (part, neighbors, stations) = (hop_limit, many(&mut dice), many(&mut dice));
                let state = LinkState { originator: a, sequence, lifetime: span, part, neighbors, stations };
                Some(Frame::LinkState(state).encode())
            }
            8 => Some(Frame::Unicast { egress: a, hop_limit, ingress: b, frame }.encode()),
            _ => Some(Frame::Flood { ingress: a, sequence, hop_limit, frame }.encode()),
        };
        if let Some(mut payload) = packet {
            if dice.chance(0.1) {
                let at = dice.below(payload.len() as u64) as usize;
                payload[at] = dice.next_u32() as u8;
                payload.truncate(dice.below(payload.len() as u64 + 1) as usize);
            }
            let _ =
                bridge.on_packet(now, Received { interface, source: neighbor, ttl: 1, payload: &payload });
        }
        while let Some(packet) = bridge.poll_transmit() {
            assert!(Frame::decode(&packet.payload).is_ok(), "seed {seed}: what is sent can be read");
        }
        while bridge.poll_route().is_some() {}
        while bridge.poll_delivery().is_some() {}
        assert!(bridge.footprint() < 5_000, "seed {seed}");
    }
}

#[test]
fn random_frames_and_calls() {
    (0..300).for_each(fuzz);
}

#[test]
fn forged_link_state_stays_within_bounds() {
    let mut bridge = Bridge::new(Config::new(at(0), Seed(1)), [CLIENT]);
    let up = Interface { id: InterfaceId(1), address: at(0), mtu: 1500 };
    bridge.on_interface(Time::ZERO, InterfaceEvent::Up(up));
    let take = |bridge: &mut Bridge, frame: Frame<'_>| {
        let payload = frame.encode();
        let received = Received { interface: InterfaceId(1), source: at(1), ttl: 1, payload: &payload };
        bridge.on_packet(Time::ZERO, received).expect("a sound frame");
        while bridge.poll_transmit().is_some() {}
        while bridge.poll_route().is_some() {}
    };
    let state = |n: u32| {
        let forged =
            |m: u32| Address([&[2, 9], &m.to_be_bytes()[..]].concat().try_into().expect("six bytes"));
        let stations = (0..20).map(|m| forged(n * 20 + m)).collect();
        let lifetime = Duration::from_secs(1_000_000);
        Frame::LinkState(LinkState {
            originator: forged(n),
            sequence: 1,
            lifetime,
            part: 0,
            neighbors: vec![],
            stations,
        })
    };
    take(&mut bridge, state(0));
    assert_eq!(bridge.footprint(), 0, "it comes from no neighbour");
    take(
        &mut bridge,
        Frame::Hello(Hello { bridge: at(1), hold: Duration::from_secs(9), heard: vec![at(0)] }),
    );
    (0..20_000).for_each(|n| take(&mut bridge, state(n)));
    assert!(bridge.footprint() < 90_000 && bridge.counts().refused > 0, "{}", bridge.footprint());
    bridge.on_timer(Time::from_secs(400));
    assert_eq!(bridge.footprint(), 0, "a lifetime has an upper bound");
}
