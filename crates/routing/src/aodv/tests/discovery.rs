//! Routes are found on demand, and expire without use.

use super::{at, config, deliver, line, nodes};
use crate::aodv::{Aodv, Config, State};
use crate::tests::{Medium, Network, ip_packet};
use crate::{DataPlaneEvent, Prefix, Protocol, Time, Verdict};
use std::net::Ipv4Addr;
use std::time::Duration;

#[test]
fn lines_of_all_lengths() {
    for count in [2, 3, 5, 8, 12] {
        let mut net = line(count);
        let took = deliver(&mut net, 0, count - 1, Duration::from_secs(20)).expect("a route");
        assert_eq!(net.trace(0, at(count - 1)), Some((0..count).collect()));
        assert_eq!(
            net.trace(count - 1, at(0)),
            Some((0..count).rev().collect()),
            "the way back came with the request"
        );
        // Rings of 1, 3, 5 and 7 hops take 2 * 40 ms * (TTL + 2) each before the next is tried.
        let rings: u64 =
            [1u64, 3, 5, 7].iter().take_while(|ttl| **ttl < count as u64 - 1).map(|ttl| 80 * (ttl + 2)).sum();
        let took = took.as_millis() as u64;
        assert!(
            took >= rings && took < rings + 20 * count as u64,
            "{count} nodes: {took} ms, {rings} ms of rings"
        );
    }
}

#[test]
fn unused_routes_expire_and_used_ones_stay() {
    let mut net = line(3);
    deliver(&mut net, 0, 2, Duration::from_secs(5)).expect("a route");
    let requests = net.nodes[0].protocol.counts().requests;
    for _ in 0..30 {
        net.run_for(Duration::from_secs(1));
        assert!(net.send(0, &ip_packet(at(0), at(2))));
    }
    assert_eq!(net.nodes[0].protocol.counts().requests, requests, "its use keeps the route");
    net.run_for(Duration::from_secs(20));
    assert!(net.nodes.iter().all(|node| node.table.is_empty()), "nobody uses them");
    net.run_for(Duration::from_secs(40));
    assert!(net.nodes.iter().all(|node| node.protocol.footprint() == 0), "and nothing is left");
    let silent = net.sent;
    net.run_for(Duration::from_secs(60));
    assert_eq!(net.sent, silent, "without routes there are no Hello messages");
}

#[test]
fn a_destination_that_is_not_there_is_reported_after_all_retries() {
    let mut net = line(3);
    let nowhere = Ipv4Addr::new(10, 9, 9, 9);
    assert!(!net.send(0, &ip_packet(at(0), nowhere)));
    net.run_for(Duration::from_secs(30));
    let released = &net.nodes[0].released;
    assert_eq!((released.len(), released[0].verdict), (1, Verdict::Unreachable));
    // Four rings, then NET_DIAMETER once and RREQ_RETRIES repetitions.
    assert_eq!(net.nodes[0].protocol.counts().requests, 4 + 1 + 2);
    // 80 ms * (3 + 5 + 7 + 9), then 2.8 s, 5.6 s and 11.2 s.
    let waits = 80 * 24 + 2800 + 5600 + 11_200;
    let mut net = line(3);
    net.send(0, &ip_packet(at(0), nowhere));
    net.run_until(Time::from_millis(waits - 1));
    assert!(net.nodes[0].released.is_empty());
    net.run_until(Time::from_millis(waits + 1));
    assert_eq!(net.nodes[0].released.len(), 1);
}

#[test]
fn packets_wait_in_order_and_the_oldest_make_room() {
    let mut net = nodes(2, |config| Config { held_packets: (3, 100), ..config });
    for n in 0..5 {
        let mut packet = ip_packet(at(0), at(1));
        packet[23] = n;
        net.send(0, &packet);
    }
    let dropped: Vec<_> = net.nodes[0].released.drain(..).map(|r| (r.packet[23], r.verdict)).collect();
    assert_eq!(dropped, [(0, Verdict::Dropped), (1, Verdict::Dropped)]);
    net.join((0, 1), (1, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(2));
    let sent: Vec<_> = net.nodes[0].released.iter().map(|r| (r.packet[23], r.verdict)).collect();
    assert_eq!(sent, [(2, Verdict::Send), (3, Verdict::Send), (4, Verdict::Send)]);
}

#[test]
fn intermediate_nodes_reply_and_tell_the_destination() {
    // 0 -- 1 -- 2 -- 3, and 4 -- 1: once 0 has a route to 3, so does 1, and it replies to 4.
    let mut net = line(4);
    net.add(Aodv::new(Time::ZERO, config(4)), &[at(4)]);
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("a route");
    net.join((4, 1), (1, 1), Medium::GOOD);
    let replies = net.nodes[3].protocol.counts().replies;
    deliver(&mut net, 4, 3, Duration::from_secs(5)).expect("a route");
    assert_eq!(net.nodes[3].protocol.counts().replies, replies, "3 was not asked");
    net.run_for(Duration::from_millis(10));
    assert!(net.send(3, &ip_packet(at(3), at(4))), "the gratuitous RREP gave it the way back");
    // With the D flag, only the destination replies.
    let mut net = nodes(5, |config| Config { destination_only: true, ..config });
    (1..4).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("a route");
    net.join((4, 1), (1, 1), Medium::GOOD);
    let replies = net.nodes[3].protocol.counts().replies;
    deliver(&mut net, 4, 3, Duration::from_secs(5)).expect("a route");
    assert!(net.nodes[3].protocol.counts().replies > replies);
}

#[test]
fn sequence_numbers_roll_over() {
    let mut net = nodes(3, |config| Config { sequence: u32::MAX - 1, ..config });
    (1..3).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    for round in 0..4 {
        deliver(&mut net, 0, 2, Duration::from_secs(5)).unwrap_or_else(|| panic!("a route in round {round}"));
        net.run_for(Duration::from_secs(12));
        assert!(net.nodes[0].table.is_empty(), "the route has expired");
    }
    assert!(net.nodes[0].protocol.sequence() < 100, "it has gone past zero");
}

#[test]
fn requests_and_errors_keep_to_their_limits() {
    let mut net = line(2);
    for n in 0..40 {
        net.send(0, &ip_packet(at(0), Ipv4Addr::new(10, 9, 0, n)));
    }
    net.run_for(Duration::from_millis(999));
    assert_eq!(net.nodes[0].protocol.counts().requests, 10);
    net.run_for(Duration::from_secs(2));
    assert!(net.nodes[0].protocol.counts().requests <= 30);
    for n in 0..40 {
        let packet = ip_packet(Ipv4Addr::new(10, 8, 0, 1), Ipv4Addr::new(10, 7, 0, n));
        net.call(1, |p, now| p.on_data_plane(now, DataPlaneEvent::NoRoute { packet: &packet }));
    }
    assert_eq!(net.nodes[1].protocol.counts().errors, 10);
}

#[test]
fn several_interfaces() {
    let mut net = Network::new(1);
    let far = Ipv4Addr::new(10, 1, 0, 2);
    net.add(Aodv::new(Time::ZERO, config(0)), &[at(0)]);
    net.add(Aodv::new(Time::ZERO, config(1)), &[at(1), Ipv4Addr::new(10, 1, 0, 1)]);
    net.add(Aodv::new(Time::ZERO, Config::new(far, belljar_base::Seed(1))), &[far]);
    net.join((0, 1), (1, 1), Medium::GOOD);
    net.join((1, 2), (2, 1), Medium::GOOD);
    net.send(0, &ip_packet(at(0), far));
    net.run_for(Duration::from_secs(2));
    assert_eq!(net.send_released(0), 1);
    assert_eq!(net.nodes[1].table[&Prefix::host(far)].interface.0, 2);
    assert!(net.nodes[1].protocol.entries(net.now).iter().all(|entry| entry.state == State::Valid));
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = |seed| {
        let mut net = Network::new(seed);
        for n in 0..6 {
            net.add(Aodv::new(Time::ZERO, config(n)), &[at(n)]);
        }
        let medium = Medium { delay: Duration::from_millis(2), jitter: Duration::from_millis(5), loss: 0.1 };
        (0..6).for_each(|n| net.join((n, 1), ((n + 1) % 6, 1), medium));
        for n in 0..40 {
            net.send(n % 6, &ip_packet(at(n % 6), at((n * 5 + 2) % 6)));
            net.run_for(Duration::from_millis(700));
        }
        (net.digest(), net.sent)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}
