//! Single rules of the RFC.

use super::{at, config, is_complete, line};
use crate::olsr::packet::{self, Head, Hello, LinkCode, LinkType, NeighborType, Tc, kind};
use crate::olsr::{Config, Olsr};
use crate::tests::{Medium, Network};
use crate::{DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Prefix, Protocol, Received, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

const SYM: LinkCode = LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Symmetric };

/// A single node; the tests inject its packets.
pub(super) struct Solo {
    pub olsr: Olsr,
    pub now: Time,
    seq: u16,
}

impl Solo {
    pub fn new(config: Config) -> Solo {
        let address = config.main_address;
        let mut olsr = Olsr::new(config);
        olsr.on_interface(
            Time::ZERO,
            InterfaceEvent::Up(Interface { id: InterfaceId(1), address, mtu: 1500 }),
        );
        Solo { olsr, now: Time::ZERO, seq: 0xfff8 }
    }
    /// Injects a message of `originator` from the interface `from`.
    pub fn message(
        &mut self,
        from: Ipv4Addr,
        originator: Ipv4Addr,
        kind: u8,
        ttl: u8,
        seq: u16,
        body: &[u8],
    ) {
        let validity = Duration::from_secs(6);
        let message = packet::encode_message(Head { kind, validity, originator, ttl, seq }, body);
        let payload = packet::encode_packet(self.seq, &[message]);
        self.seq = self.seq.wrapping_add(1);
        let received = Received { interface: InterfaceId(1), source: from, ttl: 1, payload: &payload };
        self.olsr.on_packet(self.now, received).expect("a sound packet");
        while self.olsr.poll_route().is_some() {}
    }
    pub fn hello(&mut self, from: Ipv4Addr, links: &[(LinkCode, Ipv4Addr)]) {
        self.hello_of(from, from, 3, links);
    }
    pub fn hello_of(
        &mut self,
        from: Ipv4Addr,
        main: Ipv4Addr,
        willingness: u8,
        links: &[(LinkCode, Ipv4Addr)],
    ) {
        let body = Hello { interval: Duration::from_secs(2), willingness, links: links.to_vec() }.encode();
        let seq = self.seq;
        self.message(from, main, kind::HELLO, 1, seq, &body);
    }
    pub fn route(&self, to: Ipv4Addr) -> Option<(Ipv4Addr, u32)> {
        let to = Prefix::host(to);
        self.olsr.routes().find(|route| route.destination == to).map(|route| (route.next_hop, route.distance))
    }
    /// Messages sent since the last call: kind, originator, TTL, hop count, body.
    pub fn sent(&mut self) -> Vec<(u8, Ipv4Addr, u8, u8, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some(packet) = self.olsr.poll_transmit() {
            let (_, messages) = packet::decode_packet(&packet.payload).unwrap();
            out.extend(
                messages
                    .map(Result::unwrap)
                    .map(|m| (m.kind, m.originator, m.ttl, m.hop_count, m.body.to_vec())),
            );
        }
        out
    }
    pub fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.olsr.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.olsr.on_timer(self.now);
        }
        self.now = end;
        while self.olsr.poll_route().is_some() {}
    }
}

#[test]
fn a_link_goes_from_heard_to_symmetric_to_lost() {
    let mut solo = Solo::new(config(0, 1));
    solo.hello(at(1), &[]);
    assert_eq!(solo.route(at(1)), None, "heard is not enough");
    assert!(!solo.olsr.links(solo.now)[0].symmetric);
    solo.hello(at(1), &[(LinkCode { link: LinkType::Asymmetric, neighbor: NeighborType::Not }, at(0))]);
    assert_eq!(solo.route(at(1)), Some((at(1), 1)));
    solo.hello(at(1), &[(LinkCode { link: LinkType::Lost, neighbor: NeighborType::Not }, at(0))]);
    assert_eq!(solo.route(at(1)), None, "the other side does not hear this one any more");
    solo.hello(at(1), &[(SYM, at(0))]);
    solo.advance(Duration::from_millis(5_999));
    assert!(solo.route(at(1)).is_some());
    solo.advance(Duration::from_millis(2));
    assert_eq!(solo.route(at(1)), None, "the validity time is over");
    solo.sent();
    solo.advance(Duration::from_secs(2));
    let hello = solo.sent().into_iter().find(|m| m.0 == kind::HELLO).expect("a HELLO in two seconds");
    let told = Hello::decode(&hello.4).unwrap().links;
    assert_eq!(told, [(LinkCode { link: LinkType::Lost, neighbor: NeighborType::Not }, at(1))]);
    solo.advance(Duration::from_secs(5));
    assert!(solo.olsr.links(solo.now).is_empty(), "L_time is L_SYM_time and NEIGHB_HOLD_TIME");
}

#[test]
fn topology_counts_from_symmetric_neighbours_only_and_in_order() {
    let mut solo = Solo::new(config(0, 1));
    let tc = |ansn, neighbors: &[usize]| {
        Tc { ansn, neighbors: neighbors.iter().map(|n| at(*n)).collect() }.encode()
    };
    solo.hello(at(1), &[]);
    solo.message(at(1), at(2), kind::TC, 9, 1, &tc(1, &[3]));
    assert_eq!(solo.olsr.topology().count(), 0, "the link is not symmetric");
    solo.hello(at(1), &[(SYM, at(0)), (SYM, at(2))]);
    solo.message(at(1), at(2), kind::TC, 9, 2, &tc(0xffff, &[3, 4]));
    assert_eq!((solo.route(at(3)), solo.route(at(4))), (Some((at(1), 3)), Some((at(1), 3))));
    // The ANSN wraps: 0 follows 0xffff, and withdraws 4.
    solo.message(at(1), at(2), kind::TC, 9, 3, &tc(0, &[3]));
    assert_eq!((solo.route(at(3)), solo.route(at(4))), (Some((at(1), 3)), None));
    // An older message that arrives late has no effect.
    solo.message(at(1), at(2), kind::TC, 9, 4, &tc(0xfffe, &[4]));
    assert_eq!(solo.route(at(4)), None);
    // The same holds for a duplicate.
    solo.message(at(1), at(2), kind::TC, 9, 3, &tc(1, &[5]));
    assert_eq!(solo.route(at(5)), None);
}

#[test]
fn neighbours_of_which_a_hello_is_missing_are_the_last_choice() {
    let mut solo = Solo::new(config(0, 1));
    let told = [(SYM, at(0)), (SYM, at(3))];
    solo.hello(at(1), &told);
    solo.hello(at(2), &told);
    solo.message(at(1), at(3), kind::TC, 9, 1, &Tc { ansn: 1, neighbors: vec![at(4)] }.encode());
    let ways = |solo: &Solo| [3, 4].map(|n| solo.route(at(n)).map(|(next_hop, _)| next_hop));
    assert_eq!(ways(&solo), [Some(at(1)); 2], "of equals the lowest address");
    solo.advance(Duration::from_secs(2));
    solo.hello(at(2), &told);
    solo.advance(Duration::from_millis(990));
    assert_eq!(ways(&solo), [Some(at(1)); 2], "a HELLO every 2 seconds may be a second late");
    solo.advance(Duration::from_millis(20));
    assert_eq!(ways(&solo), [Some(at(2)); 2]);
    assert_eq!(solo.route(at(1)), Some((at(1), 1)), "it is a neighbour still");
    solo.hello(at(1), &told);
    assert_eq!(ways(&solo), [Some(at(1)); 2]);
    solo.message(at(1), at(3), kind::TC, 9, 2, &Tc { ansn: 1, neighbors: vec![at(4)] }.encode());
    solo.advance(Duration::from_millis(2_500));
    assert_eq!(ways(&solo), [Some(at(1)); 2], "2 is overdue");
    solo.advance(Duration::from_secs(1));
    assert_eq!(ways(&solo), [Some(at(1)); 2], "both are");
}

#[test]
fn of_equal_ways_the_newest_is_taken_while_it_is_new() {
    let mut solo = Solo::new(config(0, 1));
    let told = |solo: &mut Solo, n| solo.hello(at(n), &[(SYM, at(0)), (SYM, at(3))]);
    let way = |solo: &Solo| solo.route(at(3)).map(|(next_hop, _)| next_hop);
    told(&mut solo, 1);
    solo.advance(Duration::from_secs(1));
    told(&mut solo, 2);
    assert_eq!(way(&solo), Some(at(2)));
    for _ in 0..7 {
        solo.advance(Duration::from_secs(2));
        told(&mut solo, 1);
        told(&mut solo, 2);
    }
    assert_eq!(way(&solo), Some(at(2)), "15 s after the first, 14 s after the second");
    solo.advance(Duration::from_secs(1));
    assert_eq!(
        way(&solo),
        Some(at(1)),
        "the lowest address: what nodes that do not move end with does not depend on when they came"
    );
}

#[test]
fn messages_are_forwarded_once_for_selectors() {
    let mut solo = Solo::new(config(0, 1));
    let chosen = LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Mpr };
    solo.hello(at(1), &[(SYM, at(0))]);
    solo.hello(at(2), &[(chosen, at(0))]);
    solo.advance(Duration::from_millis(600));
    solo.sent();
    let forwarded = |solo: &mut Solo| {
        solo.advance(Duration::from_millis(501));
        solo.sent().into_iter().filter(|m| m.1 == at(9)).collect::<Vec<_>>()
    };
    let body = Tc { ansn: 1, neighbors: vec![] }.encode();
    solo.message(at(1), at(9), kind::TC, 9, 1, &body);
    assert_eq!(forwarded(&mut solo), [], "1 has not chosen this node");
    solo.message(at(2), at(9), kind::TC, 9, 2, &body);
    assert_eq!(forwarded(&mut solo), [(kind::TC, at(9), 8, 1, body.clone())]);
    solo.message(at(2), at(9), kind::TC, 9, 2, &body);
    assert_eq!(forwarded(&mut solo), [], "it has been forwarded");
    solo.message(at(2), at(9), kind::TC, 1, 3, &body);
    assert_eq!(forwarded(&mut solo), [], "its TTL is spent");
    // The default forwarding algorithm carries unknown message types.
    solo.message(at(2), at(9), 200, 9, 4, &[1, 2, 3, 4]);
    assert_eq!(forwarded(&mut solo), [(200, at(9), 8, 1, vec![1, 2, 3, 4])]);
    solo.message(at(2), at(9), kind::HELLO, 9, 5, &[0, 0, 5, 3]);
    assert_eq!(forwarded(&mut solo), [], "HELLO is never forwarded");
}

#[test]
fn several_interfaces_are_one_node() {
    // 0 -- 1 -- 2, where 1 has an interface to each side: 0 reaches both addresses of 1, and 2.
    let mut net = Network::new(1);
    net.add(Olsr::new(config(0, 1)), &[at(0)]);
    net.add(Olsr::new(config(1, 1)), &[at(1), at(11)]);
    net.add(Olsr::new(config(2, 1)), &[at(2)]);
    net.join((0, 1), (1, 1), Medium::GOOD);
    net.join((1, 2), (2, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(20));
    let distance =
        |from: usize, to| net.nodes[from].table.get(&Prefix::host(to)).map(|r| (r.next_hop, r.distance));
    assert_eq!((distance(0, at(1)), distance(0, at(11))), (Some((at(1), 1)), Some((at(1), 1))));
    assert_eq!(distance(0, at(2)), Some((at(1), 2)));
    assert_eq!((distance(2, at(1)), distance(2, at(11))), (Some((at(11), 1)), Some((at(11), 1))));
    assert_eq!(distance(2, at(0)), Some((at(11), 2)));
}

#[test]
fn networks_go_by_the_nearest_gateway() {
    let network: Prefix = "192.168.7.0/24".parse().unwrap();
    let mut net = Network::new(1);
    for n in 0..5 {
        let networks = if n == 0 || n == 4 { vec![network] } else { vec![] };
        net.add(Olsr::new(Config { networks, ..config(n, 1) }), &[at(n)]);
    }
    (1..5).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    net.run_for(Duration::from_secs(30));
    let by = |n: usize| net.nodes[n].table.get(&network).map(|r| (r.next_hop, r.distance));
    assert_eq!([by(1), by(2), by(3)], [Some((at(0), 1)), Some((at(1), 2)), Some((at(4), 1))]);
    assert_eq!(by(0), None, "its own network");
    net.cut((0, 1), (1, 1));
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.nodes[1].table.get(&network).map(|r| (r.next_hop, r.distance)), Some((at(2), 3)));
}

#[test]
fn unwilling_nodes_relay_for_nobody() {
    // 1 and 2 both connect 0 and 3; 1 is unwilling.
    let mut net = Network::new(1);
    for n in 0..4 {
        let willingness = if n == 1 { 0 } else { 3 };
        net.add(Olsr::new(Config { willingness, ..config(n, 1) }), &[at(n)]);
    }
    for (a, b) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        net.join((a, 1), (b, 1), Medium::GOOD);
    }
    net.run_for(Duration::from_secs(20));
    assert_eq!(net.trace(0, at(3)), Some(vec![0, 2, 3]));
    net.cut((2, 1), (3, 1));
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.trace(0, at(3)), None);
}

#[test]
fn the_link_layer_is_believed_at_once() {
    let mut net = line(3, 1);
    net.join((0, 1), (2, 1), Medium::GOOD);
    net.run_for(Duration::from_secs(20));
    assert_eq!(net.trace(0, at(2)), Some(vec![0, 2]));
    net.cut((0, 1), (2, 1));
    net.call(0, |olsr, now| {
        olsr.on_data_plane(now, DataPlaneEvent::LinkLost { interface: InterfaceId(1), neighbor: at(2) });
    });
    net.run_for(Duration::from_millis(10));
    assert_eq!(net.trace(0, at(2)), Some(vec![0, 1, 2]));
}

#[test]
fn an_interface_that_goes_takes_its_routes_along() {
    let mut net = line(3, 1);
    net.run_until_done(Duration::from_secs(20), |net| is_complete(net, 0..3));
    net.call(0, |olsr, now| olsr.on_interface(now, InterfaceEvent::Down(InterfaceId(1))));
    assert!(net.nodes[0].table.is_empty());
    let interface = Interface { id: InterfaceId(1), address: at(0), mtu: 1500 };
    net.call(0, |olsr, now| olsr.on_interface(now, InterfaceEvent::Up(interface)));
    net.run_until_done(Duration::from_secs(20), |net| is_complete(net, 0..3));
}

#[test]
fn what_goes_with_an_interface_is_told_on_the_others() {
    // 0 -- 1 -- 2 -- 3 -- 0, with an interface for each link.
    let mut net = Network::new(1);
    for n in 0..4 {
        net.add(Olsr::new(config(n, 1)), &[at(n), at(n + 10)]);
    }
    for n in 0..4 {
        net.join((n, 2), ((n + 1) % 4, 1), Medium::GOOD);
    }
    net.run_for(Duration::from_secs(20));
    net.cut((1, 2), (2, 1));
    for (node, interface) in [(1, 2), (2, 1)] {
        net.call(node, |olsr, now| olsr.on_interface(now, InterfaceEvent::Down(InterfaceId(interface))));
    }
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.trace(1, at(2)), Some(vec![1, 0, 3, 2]), "not after NEIGHB_HOLD_TIME only");
}

#[test]
fn hello_and_tc_split_to_fit_the_mtu() {
    let mut solo = Solo::new(Config { tc_redundancy: 2, ..config(0, 1) });
    (1..500).for_each(|n| solo.hello(at(n), &[(SYM, at(0))]));
    solo.advance(Duration::from_secs(6));
    let mut told = [0, 0];
    let mut largest = 0;
    while let Some(packet) = solo.olsr.poll_transmit() {
        largest = largest.max(packet.payload.len());
        for message in packet::decode_packet(&packet.payload).unwrap().1.map(Result::unwrap) {
            match message.kind {
                kind::HELLO => told[0] += Hello::decode(message.body).unwrap().links.len(),
                _ => told[1] += Tc::decode(message.body).unwrap().neighbors.len(),
            }
        }
    }
    assert!(largest <= 1472 && told[0] >= 499 && told[1] >= 499, "{largest} {told:?}");
}

#[test]
fn an_empty_set_is_told_until_what_was_told_has_expired() {
    let mut net = line(3, 1);
    net.run_for(Duration::from_secs(20));
    assert!(net.nodes[0].protocol.topology().count() > 0);
    net.cut((1, 1), (2, 1));
    net.run_for(Duration::from_secs(9));
    // The empty TC has this effect within seconds, before TOP_HOLD_TIME.
    assert_eq!(net.nodes[0].protocol.topology().count(), 0);
}

#[test]
fn a_main_address_may_be_known_by_an_association_only() {
    let mut solo = Solo::new(config(0, 1));
    solo.hello(at(1), &[(SYM, at(0))]);
    solo.hello(at(1), &[(SYM, at(0))]);
    // 30 is an interface of 20, which is one of 1.
    solo.message(at(1), at(20), kind::MID, 9, 1, &at(30).octets());
    assert_eq!(solo.route(at(30)), None);
    solo.message(at(1), at(1), kind::MID, 9, 2, &at(20).octets());
    assert_eq!([solo.route(at(20)), solo.route(at(30))], [Some((at(1), 1)); 2]);
}
