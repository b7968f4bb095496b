//! Broken links, neighbours that do not hear, rebooting nodes, and partitions.

use super::{at, config, deliver, line, nodes};
use crate::aodv::{Aodv, Config, State};
use crate::tests::{Medium, Network, ip_packet};
use crate::{DataPlaneEvent, InterfaceId, Protocol, Time};
use belljar_base::Seed;
use std::time::Duration;

/// Unconnected nodes with local repair.
fn repairing(count: usize) -> Network<Aodv> {
    nodes(count, |config| Config { local_repair: true, ..config })
}

/// The state of node `n`'s entry for node `to`.
fn state(net: &Network<Aodv>, n: usize, to: usize) -> Option<State> {
    let entries = net.nodes[n].protocol.entries(net.now);
    entries.iter().find(|entry| entry.destination == at(to)).map(|entry| entry.state)
}

#[test]
fn a_break_is_reported_to_the_source_which_finds_another_way() {
    // 0 -- 1 -- 2 -- 3, and the longer path 0 -- 4 -- 5 -- 6 -- 3.
    let mut net = nodes(7, |config| config);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (6, 3)] {
        net.join((a, 1), (b, 1), Medium::GOOD);
    }
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("a route");
    assert_eq!(net.trace(0, at(3)), Some(vec![0, 1, 2, 3]));
    net.cut((2, 1), (3, 1));
    assert!(!net.send(0, &ip_packet(at(0), at(3))), "it is lost where the link was");
    net.run_for(Duration::from_millis(20));
    assert!(net.nodes[0].table.keys().all(|to| to.address() != at(3)), "the RERR has come back");
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("another route");
    assert_eq!(net.trace(0, at(3)), Some(vec![0, 4, 5, 6, 3]));
}

#[test]
fn a_break_near_the_destination_is_repaired_there() {
    // 0 -- 1 -- 2 -- 3, and 2 -- 4 -- 3: the source receives only the RERR which reports that the path is
    // longer.
    let mut net = repairing(5);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (2, 4), (4, 3)] {
        net.join((a, 1), (b, 1), Medium::GOOD);
    }
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("a route");
    assert_eq!(net.trace(0, at(3)), Some(vec![0, 1, 2, 3]));
    let requests = net.nodes[0].protocol.counts().requests;
    net.cut((2, 1), (3, 1));
    net.send(0, &ip_packet(at(0), at(3)));
    assert_eq!(state(&net, 2, 3), Some(State::Invalid), "the link layer has lost the packet");
    // The next packet starts the repair, and is held together with another one.
    net.send(0, &ip_packet(at(0), at(3)));
    assert_eq!(state(&net, 2, 3), Some(State::Repairing));
    net.send(0, &ip_packet(at(0), at(3)));
    net.run_for(Duration::from_millis(500));
    assert_eq!(net.send_released(2), 2);
    assert_eq!(net.trace(0, at(3)), Some(vec![0, 1, 2, 4, 3]));
    assert_eq!(net.nodes[0].protocol.counts().requests, requests);
    assert!(net.nodes[2].protocol.counts().errors > 0, "an RERR with the N flag");
}

#[test]
fn a_repair_that_fails_is_reported() {
    let mut net = repairing(4);
    (1..4).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    deliver(&mut net, 0, 3, Duration::from_secs(5)).expect("a route");
    net.cut((2, 1), (3, 1));
    net.send(0, &ip_packet(at(0), at(3)));
    net.send(0, &ip_packet(at(0), at(3)));
    net.run_for(Duration::from_secs(2));
    assert!(net.nodes[0].table.keys().all(|to| to.address() != at(3)), "{:?}", net.nodes[0].table);
    assert_eq!(net.nodes[2].released.len(), 1, "the held packet is dropped");
    assert_eq!(net.nodes[2].protocol.counts().requests, 1, "one attempt");
}

#[test]
fn a_break_of_many_routes_repairs_those_that_packets_need() {
    // 0 -- 1 -- 2 -- 3, behind which 4, 5 and 6 are; and 1 -- 7 -- 3.
    let mut net = repairing(8);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (3, 6)] {
        net.join((a, 1), (b, 1), Medium::GOOD);
    }
    for to in [4, 5, 6] {
        deliver(&mut net, 0, to, Duration::from_secs(5)).expect("a route");
        assert_eq!(net.trace(0, at(to)).expect("a route")[..3], [0, 1, 2]);
    }
    for n in [1, 3] {
        net.join((7, 1), (n, 1), Medium::GOOD);
    }
    net.cut((1, 1), (2, 1));
    net.call(1, |p, now| {
        p.on_data_plane(now, DataPlaneEvent::LinkLost { interface: InterfaceId(1), neighbor: at(2) })
    });
    net.run_for(Duration::from_millis(500));
    assert_eq!(net.nodes[1].protocol.counts().requests, 0, "no packet has needed a route");
    net.send(0, &ip_packet(at(0), at(4)));
    net.run_for(Duration::from_millis(500));
    assert_eq!(net.nodes[1].protocol.counts().requests, 1);
    assert_eq!(net.send_released(1), 1);
    assert_eq!(net.trace(0, at(4)), Some(vec![0, 1, 7, 3, 4]));
    assert_eq!([5, 6].map(|to| state(&net, 1, to)), [Some(State::Invalid); 2]);
    // Before the route would have expired, a packet to another destination starts a repair of its own.
    net.send(0, &ip_packet(at(0), at(5)));
    net.run_for(Duration::from_millis(500));
    assert_eq!((net.nodes[1].protocol.counts().requests, net.send_released(1)), (2, 1));
    // After that time its sender is notified that there is no route.
    let errors = net.nodes[1].protocol.counts().errors;
    net.run_for(Duration::from_secs(6));
    let route = crate::Route {
        destination: crate::Prefix::host(at(6)),
        next_hop: at(1),
        interface: InterfaceId(1),
        distance: 4,
    };
    net.nodes[0].table.insert(route.destination, route);
    assert!(!net.send(0, &ip_packet(at(0), at(6))));
    net.run_for(Duration::from_millis(500));
    assert_eq!(net.nodes[1].protocol.counts().requests, 2);
    assert!(net.nodes[1].protocol.counts().errors > errors);
}

#[test]
fn silence_of_a_neighbour_counts_as_a_break() {
    let mut net = line(3);
    deliver(&mut net, 0, 2, Duration::from_secs(5)).expect("a route");
    for _ in 0..4 {
        net.run_for(Duration::from_secs(1));
        assert!(net.send(0, &ip_packet(at(0), at(2))));
    }
    net.cut((1, 1), (2, 1));
    // Without traffic only the missing Hello messages reveal the break, after ALLOWED_HELLO_LOSS *
    // HELLO_INTERVAL.
    net.run_for(Duration::from_millis(2_500));
    assert!(net.nodes[1].table.keys().all(|to| to.address() != at(2)));
    assert!(net.nodes[0].table.keys().all(|to| to.address() != at(2)));
}

#[test]
fn a_forwarded_miss_is_an_error_to_the_neighbours() {
    let mut net = line(3);
    deliver(&mut net, 0, 2, Duration::from_secs(5)).expect("a route");
    // 1 reboots without state; 0 still sends to it.
    net.nodes[1].protocol = Aodv::new(net.now, Config { after_reboot: true, ..config(1) });
    net.nodes[1].table.clear();
    let interface = crate::Interface { id: crate::InterfaceId(1), address: at(1), mtu: 1500 };
    net.call(1, |p, now| p.on_interface(now, crate::InterfaceEvent::Up(interface)));
    assert!(!net.send(0, &ip_packet(at(0), at(2))));
    net.run_for(Duration::from_millis(20));
    assert!(net.nodes[0].table.keys().all(|to| to.address() != at(2)), "the RERR has come");
    // Section 6.13: it does not route for DELETE_PERIOD, and then does.
    assert_eq!(deliver(&mut net, 0, 2, Duration::from_secs(10)), None);
    net.run_for(Duration::from_secs(15));
    assert!(deliver(&mut net, 0, 2, Duration::from_secs(10)).is_some());
}

#[test]
fn neighbours_that_do_not_hear_are_blacklisted() {
    // 2 hears 0 directly, but 0 does not hear 2; over 1 both directions work.
    let mut net = nodes(3, |config| Config { acknowledge: true, ttl_start: 5, ..config });
    net.join_one_way((0, 1), (2, 1), Medium::GOOD);
    let slow = Medium { delay: Duration::from_millis(3), ..Medium::GOOD };
    net.join((0, 1), (1, 1), slow);
    net.join((1, 1), (2, 1), slow);
    let packet = ip_packet(at(0), at(2));
    net.send(0, &packet);
    net.run_for(Duration::from_millis(80));
    assert_eq!(net.nodes[2].protocol.blacklist().collect::<Vec<_>>(), [at(0)]);
    net.run_for(Duration::from_secs(5));
    assert_eq!(net.send_released(0), 1);
    assert_eq!(net.trace(0, at(2)), Some(vec![0, 1, 2]));
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.nodes[2].protocol.blacklist().count(), 0, "BLACKLIST_TIMEOUT is over");
}

#[test]
fn partitions_and_merges() {
    let mut net = line(6);
    deliver(&mut net, 0, 5, Duration::from_secs(5)).expect("a route");
    net.cut((2, 1), (3, 1));
    assert_eq!(deliver(&mut net, 0, 5, Duration::from_secs(40)), None);
    assert!(
        deliver(&mut net, 0, 2, Duration::from_secs(5)).is_some()
            && deliver(&mut net, 3, 5, Duration::from_secs(5)).is_some()
    );
    net.join((2, 1), (3, 1), Medium::GOOD);
    assert!(deliver(&mut net, 0, 5, Duration::from_secs(5)).is_some());
}

#[test]
fn nodes_on_the_move() {
    let mut net = Network::new(1);
    let mut dice = Seed(3).stream(&["mobility"]);
    for n in 0..16 {
        net.add(Aodv::new(Time::ZERO, config(n)), &[at(n)]);
    }
    let mut positions: Vec<(f64, f64)> =
        (0..16).map(|n| (f64::from(n % 4) * 80.0, f64::from(n / 4) * 80.0)).collect();
    let mut arrived = 0;
    for second in 0..60 {
        for position in &mut positions {
            position.0 = (position.0 + dice.unit() * 8.0 - 4.0).clamp(0.0, 240.0);
            position.1 = (position.1 + dice.unit() * 8.0 - 4.0).clamp(0.0, 240.0);
        }
        net.place(&positions, 130.0);
        let (from, to) = (second % 16, (second * 7 + 3) % 16);
        if from != to {
            arrived += usize::from(deliver(&mut net, from, to, Duration::from_secs(1)).is_some());
        }
        net.run_for(Duration::from_millis(500));
        for n in 0..16 {
            for m in (0..16).filter(|m| *m != n) {
                if let Some(path) = net.trace(n, at(m)) {
                    let mut nodes = path.clone();
                    nodes.sort();
                    nodes.dedup();
                    assert_eq!(nodes.len(), path.len(), "a loop: {path:?}");
                }
            }
        }
    }
    assert!(arrived >= 40, "{arrived} packets arrived");
}
