//! Single rules of the RFC, and malicious neighbours.

use super::{at, config};
use crate::aodv::packet::{Message, Rerr, Rrep, Rreq};
use crate::aodv::{Aodv, Config};
use crate::tests::ip_packet;
use crate::{DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Prefix, Protocol, Received, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Node 0 alone; the tests inject its messages.
struct Solo {
    aodv: Aodv,
    now: Time,
}

const REQUEST: Rreq = Rreq {
    join: false,
    repair: false,
    gratuitous: false,
    destination_only: false,
    unknown_sequence: true,
    hop_count: 0,
    id: 1,
    destination: Ipv4Addr::UNSPECIFIED,
    destination_sequence: 0,
    originator: Ipv4Addr::UNSPECIFIED,
    originator_sequence: 1,
};
const REPLY: Rrep = Rrep {
    repair: false,
    acknowledge: false,
    prefix_size: 0,
    hop_count: 0,
    destination: Ipv4Addr::UNSPECIFIED,
    destination_sequence: 1,
    originator: Ipv4Addr::UNSPECIFIED,
    lifetime: Duration::from_secs(6),
    hello_interval: None,
};

impl Solo {
    fn new(config: Config) -> Solo {
        let address = config.main_address;
        let mut aodv = Aodv::new(Time::ZERO, config);
        aodv.on_interface(
            Time::ZERO,
            InterfaceEvent::Up(Interface { id: InterfaceId(1), address, mtu: 1500 }),
        );
        Solo { aodv, now: Time::ZERO }
    }
    fn take(&mut self, from: usize, ttl: u8, message: Message) {
        let payload = message.encode();
        let received = Received { interface: InterfaceId(1), source: at(from), ttl, payload: &payload };
        self.aodv.on_packet(self.now, received).expect("a sound message");
    }
    /// The packets sent within the next 10 ms: destination, TTL, message.
    fn sent(&mut self) -> Vec<(Option<Ipv4Addr>, u8, Message)> {
        self.now = self.now + Duration::from_millis(10);
        self.aodv.on_timer(self.now);
        let mut out = Vec::new();
        while let Some(packet) = self.aodv.poll_transmit() {
            out.push((packet.destination, packet.ttl, Message::decode(&packet.payload).expect("readable")));
        }
        while self.aodv.poll_route().is_some() {}
        out
    }
    fn requests(&mut self) -> Vec<Rreq> {
        let of = |message| if let (None, _, Message::Rreq(rreq)) = message { Some(rreq) } else { None };
        self.sent().into_iter().filter_map(of).collect()
    }
    fn hops(&self, to: usize) -> Option<(u32, Option<u32>)> {
        let entries = self.aodv.entries(self.now);
        entries.iter().find(|e| e.destination == at(to)).map(|e| (e.hop_count, e.sequence))
    }
}

#[test]
fn a_request_is_forwarded_once_with_the_highest_sequence_number() {
    let mut solo = Solo::new(config(0));
    let reply =
        Rrep { destination: at(9), destination_sequence: 50, originator: at(0), hop_count: 1, ..REPLY };
    solo.take(3, 5, Message::Rrep(reply));
    solo.sent();
    // A request for a more recent route than this node has is forwarded with a higher hop count and a lower
    // TTL.
    let request = Rreq {
        destination: at(9),
        originator: at(5),
        unknown_sequence: false,
        destination_sequence: 60,
        hop_count: 2,
        ..REQUEST
    };
    solo.take(1, 7, Message::Rreq(request));
    let forwarded: Vec<_> = solo.sent().into_iter().filter(|(to, ..)| to.is_none()).collect();
    let want = Message::Rreq(Rreq { hop_count: 3, ..request });
    assert!(forwarded.contains(&(None, 6, want)), "{forwarded:?}");
    assert_eq!(solo.hops(5), Some((3, Some(1))), "the way back");
    solo.take(2, 7, Message::Rreq(request));
    assert!(solo.requests().is_empty(), "the second copy");
    solo.take(1, 1, Message::Rreq(Rreq { id: 2, ..request }));
    assert!(solo.requests().is_empty(), "its TTL is spent");
    // Only the destination may reply: this node inserts the sequence number that it knows.
    solo.take(
        1,
        7,
        Message::Rreq(Rreq { id: 3, destination_only: true, destination_sequence: 40, ..request }),
    );
    assert_eq!(solo.requests()[0].destination_sequence, 50);
    // This node replies to a request for a route that it has.
    solo.take(1, 7, Message::Rreq(Rreq { id: 4, destination_sequence: 50, ..request }));
    let replies: Vec<_> = solo.sent().into_iter().filter(|(to, ..)| *to == Some(at(1))).collect();
    assert!(
        matches!(replies[..], [(_, _, Message::Rrep(Rrep { hop_count: 2, destination_sequence: 50, .. }))]),
        "{replies:?}"
    );
}

#[test]
fn the_destination_replies_with_its_sequence_number() {
    let mut solo = Solo::new(Config { sequence: 10, ..config(0) });
    let ask = |id, unknown_sequence, destination_sequence| {
        let (destination, originator) = (at(0), at(5));
        Message::Rreq(Rreq { id, unknown_sequence, destination_sequence, destination, originator, ..REQUEST })
    };
    let replied = |solo: &mut Solo| match solo.sent().into_iter().find(|(to, ..)| to.is_some()) {
        Some((Some(to), _, Message::Rrep(rrep))) => {
            (to, rrep.destination_sequence, rrep.hop_count, rrep.lifetime)
        }
        other => panic!("no reply: {other:?}"),
    };
    let lifetime = Duration::from_secs(6);
    solo.take(1, 7, ask(1, true, 0));
    assert_eq!(replied(&mut solo), (at(1), 10, 0, lifetime));
    solo.take(1, 7, ask(2, false, 9));
    assert_eq!(replied(&mut solo).1, 10, "an older one changes nothing");
    // 6.6.1: "equal to that incremented value"
    solo.take(1, 7, ask(3, false, 11));
    assert_eq!(replied(&mut solo).1, 11);
}

#[test]
fn routes_are_replaced_by_more_recent_or_shorter_ones_only() {
    let mut solo = Solo::new(config(0));
    let reply = |sequence, hop_count| {
        let (destination, originator) = (at(9), at(0));
        Message::Rrep(Rrep { destination_sequence: sequence, hop_count, destination, originator, ..REPLY })
    };
    solo.take(1, 5, reply(5, 4));
    assert_eq!(solo.hops(9), Some((5, Some(5))));
    solo.take(2, 5, reply(4, 1));
    assert_eq!(solo.hops(9), Some((5, Some(5))), "older");
    solo.take(2, 5, reply(5, 4));
    assert_eq!(solo.hops(9), Some((5, Some(5))), "no shorter");
    solo.take(2, 5, reply(5, 2));
    assert_eq!(solo.hops(9), Some((3, Some(5))), "shorter");
    solo.take(1, 5, reply(6, 7));
    assert_eq!(solo.hops(9), Some((8, Some(6))), "more recent");
    solo.take(1, 5, reply(0x8000_0007, 1));
    assert_eq!(solo.hops(9), Some((8, Some(6))), "half the circle away is older");
}

#[test]
fn errors_go_to_precursors_and_count_only_from_the_next_hop() {
    let mut solo = Solo::new(config(0));
    // 5 requests 9 over 1, and 9 replies over 2: 1 is a precursor of the route to 9.
    solo.take(1, 7, Message::Rreq(Rreq { destination: at(9), originator: at(5), hop_count: 1, ..REQUEST }));
    solo.take(2, 7, Message::Rrep(Rrep { destination: at(9), originator: at(5), hop_count: 1, ..REPLY }));
    assert!(
        solo.sent()
            .iter()
            .any(|(to, _, m)| *to == Some(at(1)) && matches!(m, Message::Rrep(r) if r.hop_count == 2))
    );
    let error = |from: &mut Solo, node| {
        let unreachable = vec![(at(9), 77)];
        from.take(node, 1, Message::Rerr(Rerr { no_delete: false, unreachable }));
        from.sent()
            .into_iter()
            .filter(|(_, _, message)| matches!(message, Message::Rerr(_)))
            .collect::<Vec<_>>()
    };
    assert_eq!(error(&mut solo, 3), [], "3 is not the next hop");
    assert!(solo.aodv.routes.table().contains_key(&Prefix::host(at(9))));
    let told = error(&mut solo, 2);
    let want = Message::Rerr(Rerr { no_delete: false, unreachable: vec![(at(9), 77)] });
    assert!(matches!(&told[..], [(Some(to), _, message)] if *to == at(1) && *message == want), "{told:?}");
    assert!(!solo.aodv.routes.table().contains_key(&Prefix::host(at(9))));
    assert_eq!(error(&mut solo, 2), [], "it has been told");
}

#[test]
fn acknowledgments_are_given_when_asked_for() {
    let mut solo = Solo::new(config(0));
    let reply = Rrep { acknowledge: true, destination: at(9), originator: at(0), ..REPLY };
    solo.take(1, 5, Message::Rrep(reply));
    assert!(solo.sent().iter().any(|(to, _, message)| *to == Some(at(1)) && *message == Message::RrepAck));
}

#[test]
fn lies_stay_within_bounds_and_expire() {
    let mut solo = Solo::new(config(0));
    for n in 0..100_000u32 {
        let originator = Ipv4Addr::from(0x0b00_0000 + n);
        solo.take(1, 1, Message::Rreq(Rreq { id: n, originator, destination: at(9), ..REQUEST }));
        let hello = Rrep { destination: at(1), originator: at(1), ..REPLY };
        solo.take(1, 1, Message::Rrep(hello));
    }
    assert!(solo.aodv.footprint() < 150_000, "{}", solo.aodv.footprint());
    // Messages about this node's own address, or invalid addresses, are ignored.
    let own = Rrep { destination: at(0), originator: at(5), ..REPLY };
    solo.take(1, 5, Message::Rrep(own));
    for address in [Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 5)] {
        solo.take(1, 5, Message::Rrep(Rrep { destination: address, originator: at(0), ..REPLY }));
        assert!(!solo.aodv.routes.table().contains_key(&Prefix::host(address)));
    }
    assert!(!solo.aodv.routes.table().contains_key(&Prefix::host(at(0))));
    for _ in 0..300 {
        solo.now = solo.now + Duration::from_secs(1);
        solo.aodv.on_timer(solo.now);
        while solo.aodv.poll_transmit().is_some() {}
        while solo.aodv.poll_route().is_some() {}
    }
    assert_eq!(solo.aodv.footprint(), 0);
}

#[test]
fn no_broadcast_delays_the_next_hello() {
    let interval = Duration::from_secs(1);
    for after in (0..40).map(|n| Duration::from_millis(50 * n)) {
        // An active route makes the node send Hello messages; a forwarded request is a broadcast at any time
        // between them.
        let mut solo = Solo::new(config(0));
        solo.take(1, 5, Message::Rreq(Rreq { originator: at(5), destination: at(9), ..REQUEST }));
        let (mut last, mut forwarded) = (solo.now, 0);
        while solo.now < Time::ZERO + Duration::from_secs(4) {
            if solo.now == Time::ZERO + after {
                let again = Rreq { id: 2, originator: at(6), destination: at(9), ..REQUEST };
                solo.take(1, 5, Message::Rreq(again));
            }
            let said: Vec<_> = solo.sent().into_iter().filter(|(to, ..)| to.is_none()).collect();
            forwarded += said.iter().filter(|(.., message)| matches!(message, Message::Rreq(_))).count();
            last = if said.is_empty() { last } else { solo.now };
            let silent = solo.now.since(last);
            assert!(silent <= interval, "silent for {silent:?} after a broadcast at {after:?}");
        }
        assert_eq!(forwarded, 2);
    }
}

#[test]
fn what_is_no_ip_packet_is_counted() {
    let mut solo = Solo::new(config(0));
    solo.aodv.on_data_plane(solo.now, DataPlaneEvent::NoRoute { packet: &[0x45, 0] });
    assert_eq!(solo.aodv.counts().malformed, 1);
    let packet = ip_packet(at(0), Ipv4Addr::BROADCAST);
    solo.aodv.on_data_plane(solo.now, DataPlaneEvent::NoRoute { packet: &packet });
    assert!(solo.requests().is_empty());
}
