//! Routes converge, follow changes of the network, and are the same in every run.

use super::{at, config, is_complete, line, nodes};
use crate::olsr::Olsr;
use crate::tests::{Medium, Network};
use crate::{Prefix, Time};
use belljar_base::Seed;
use std::time::Duration;

#[test]
fn lines_converge_and_tables_are_exact() {
    for count in [2, 3, 5, 8] {
        let mut net = line(count, 1);
        let done = net.run_until_done(Duration::from_secs(20), |net| is_complete(net, 0..count));
        assert!(done < Time::from_secs(12), "{count} nodes: {done:?}");
        net.run_for(Duration::from_secs(20));
        for n in 0..count {
            assert_eq!(net.nodes[n].table.len(), count - 1, "node {n} of {count}");
            for (to, route) in &net.nodes[n].table {
                let index = (0..count).find(|m| Prefix::host(at(*m)) == *to).expect("a node's address");
                assert_eq!(route.distance as usize, index.abs_diff(n));
                assert_eq!(route.next_hop, at(if index > n { n + 1 } else { n - 1 }));
            }
        }
    }
}

#[test]
fn partitions_and_merges() {
    let mut net = line(6, 2);
    net.run_until_done(Duration::from_secs(30), |net| is_complete(net, 0..6));
    net.cut((2, 1), (3, 1));
    // NEIGHB_HOLD_TIME for the link, TOP_HOLD_TIME for earlier TC messages.
    net.run_for(Duration::from_secs(25));
    assert!(is_complete(&net, 0..3) && is_complete(&net, 3..6));
    for n in 0..6 {
        assert_eq!(
            net.nodes[n].table.len(),
            2,
            "node {n} keeps routes into the other part: {:?}",
            net.nodes[n].table
        );
    }
    net.join((2, 1), (3, 1), Medium::GOOD);
    net.run_until_done(Duration::from_secs(15), |net| is_complete(net, 0..6));
}

#[test]
fn a_ring_goes_the_other_way_when_it_is_cut() {
    let mut net = line(6, 3);
    net.join((5, 1), (0, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.trace(0, at(2)), Some(vec![0, 1, 2]));
    net.cut((0, 1), (1, 1));
    let cut = net.now;
    let healed = net
        .run_until_done(Duration::from_secs(20), |net| net.trace(0, at(1)) == Some(vec![0, 5, 4, 3, 2, 1]));
    assert!(
        healed.since(cut) > Duration::from_secs(2),
        "a silent neighbour is only missed after its validity"
    );
}

#[test]
fn loss_reordering_and_hysteresis() {
    let mut net = Network::new(4);
    for n in 0..5 {
        let hysteresis = Some(Default::default());
        net.add(Olsr::new(crate::olsr::Config { hysteresis, ..config(n, 4) }), &[at(n)]);
    }
    let medium = Medium { delay: Duration::from_millis(2), jitter: Duration::from_millis(300), loss: 0.05 };
    (1..5).for_each(|n| net.join((n - 1, 1), (n, 1), medium));
    net.run_until_done(Duration::from_secs(120), |net| is_complete(net, 0..5));
    // With one packet in three, hysteresis establishes no link.
    let mut lossy = Network::new(5);
    for n in 0..2 {
        let hysteresis = Some(Default::default());
        lossy.add(Olsr::new(crate::olsr::Config { hysteresis, ..config(n, 5) }), &[at(n)]);
    }
    lossy.join((0, 1), (1, 1), Medium::loss(0.75));
    let mut up = 0;
    for _ in 0..200 {
        lossy.run_for(Duration::from_secs(1));
        up += usize::from(is_complete(&lossy, 0..2));
    }
    assert!(up < 40, "the link counted for {up} of 200 seconds");
}

#[test]
fn nodes_on_the_move() {
    let seed = 6;
    let mut net = nodes(16, seed);
    let mut dice = Seed(seed).stream(&["mobility"]);
    let mut positions: Vec<(f64, f64)> =
        (0..16).map(|n| (f64::from(n % 4) * 80.0, f64::from(n / 4) * 80.0)).collect();
    let mut speeds: Vec<(f64, f64)> =
        (0..16).map(|_| (dice.unit() * 4.0 - 2.0, dice.unit() * 4.0 - 2.0)).collect();
    net.place(&positions, 120.0);
    net.run_for(Duration::from_secs(30));
    assert!(is_complete(&net, 0..16));
    let mut arrived = 0;
    for second in 0..60 {
        for (position, speed) in positions.iter_mut().zip(&mut speeds) {
            *position = (position.0 + speed.0, position.1 + speed.1);
            for (coordinate, speed) in [(position.0, &mut speed.0), (position.1, &mut speed.1)] {
                if !(0.0..=240.0).contains(&coordinate) {
                    *speed = -*speed;
                }
            }
        }
        net.place(&positions, 120.0);
        net.run_for(Duration::from_secs(1));
        arrived += usize::from(net.trace(second % 16, at((second * 7 + 3) % 16)).is_some());
    }
    assert!(arrived >= 45, "{arrived} of 60 packets found their way");
    // Once all nodes stand still, all reachable nodes have routes.
    net.run_for(Duration::from_secs(30));
    let mut reached = vec![0];
    let mut next = 0;
    while next < reached.len() {
        let from = reached[next];
        reached.extend(
            (0..16).filter(|n| net.is_joined((from, 1), (*n, 1)) && !reached.contains(n)).collect::<Vec<_>>(),
        );
        next += 1;
    }
    assert!(is_complete(&net, reached));
}

#[test]
fn a_grid_floods_by_relays_only() {
    let mut net = nodes(25, 7);
    let positions: Vec<_> = (0..25).map(|n| (f64::from(n % 5), f64::from(n / 5))).collect();
    net.place(&positions, 1.5);
    net.run_for(Duration::from_secs(40));
    assert!(is_complete(&net, 0..25));
    for (n, node) in net.nodes.iter().enumerate() {
        let near = node.protocol.links(net.now).len();
        assert!(
            node.protocol.relays().count() < near,
            "node {n} relays by {} of {near}",
            node.protocol.relays().count()
        );
        // Shortest paths: the larger of the two distances on the grid.
        for (to, route) in &node.table {
            let other = (0..25).find(|m| Prefix::host(at(*m)) == *to).expect("a node");
            let want = (other % 5).abs_diff(n % 5).max((other / 5).abs_diff(n / 5));
            assert_eq!(route.distance as usize, want, "from {n} to {other}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = |seed| {
        let mut net = line(5, seed);
        net.join((4, 1), (0, 1), Medium { jitter: Duration::from_millis(5), ..Medium::loss(0.1) });
        net.run_until(Time::from_secs(60));
        (net.digest(), net.sent)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}
