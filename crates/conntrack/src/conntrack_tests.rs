//! Tests of the course of packets: states, timeouts, ICMP errors, zones, a full table, events.

use crate::testing::{Router, echo, icmp, ip, tcp, tuple_of, udp, unreachable, v4, v6};
use crate::tuple::protocol;
use crate::{
    Attached, Conn, CtInfo, CtStatus, CtZone, EventGroups, InetHook, Reporter, Template, TrackVerdict,
    TupleDirection,
};
use belljar_wire::tcp::Flags;

/// The only connection.
fn only(router: &Router) -> &Conn {
    let mut all = router.ct.connections();
    let (_, conn) = all.next().expect("a connection");
    assert!(all.next().is_none());
    conn
}

fn left(router: &Router) -> u64 {
    only(router).expires(router.now).as_millis() / 1000
}

#[test]
fn udp_becomes_a_stream_after_two_seconds_of_both_directions() {
    for (client, server) in [(v4(1, 1), v4(2, 2)), (v6(1, 1), v6(2, 2))] {
        let mut router = Router::new();
        let there = udp((client, 5000), (server, 53), b"query");
        let back = udp((server, 53), (client, 5000), b"answer");
        assert_eq!(router.relation(&there), Some(CtInfo::New));
        assert_eq!((left(&router), only(&router).status().contains(CtStatus::SEEN_REPLY)), (30, false));
        assert_eq!(router.relation(&there), Some(CtInfo::New));
        assert_eq!(router.relation(&back), Some(CtInfo::EstablishedReply));
        assert_eq!(router.relation(&there), Some(CtInfo::Established));
        assert_eq!(left(&router), 30);
        router.wait(3);
        assert_eq!(left(&router), 27);
        router.relation(&there);
        assert_eq!((left(&router), only(&router).status().contains(CtStatus::ASSURED)), (120, true));
        router.wait(119);
        assert_eq!(router.ct.len(), 1);
        router.wait(1);
        assert!(router.ct.is_empty());
    }
}

#[test]
fn tcp_is_tracked_from_handshake_to_reset() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    let mut router = Router::new();
    assert_eq!(router.relation(&tcp(client, server, Flags::SYN, (100, 0), b"")), Some(CtInfo::New));
    assert_eq!(left(&router), 120);
    let answer = tcp(server, client, Flags::SYN | Flags::ACK, (500, 101), b"");
    assert_eq!(router.relation(&answer), Some(CtInfo::EstablishedReply));
    let ack = tcp(client, server, Flags::ACK, (101, 501), b"");
    assert_eq!(router.relation(&ack), Some(CtInfo::Established));
    assert_eq!(left(&router), 432_000);
    // Out of the window: invalid, without an attachment.
    let wild = tcp(client, server, Flags::ACK, (90_000, 501), b"x");
    assert_eq!(router.relation(&wild), None);
    assert_eq!(router.ct.statistics().invalid, 1);
    let reset = tcp(server, client, Flags::RST, (501, 0), b"");
    assert_eq!(router.relation(&reset), Some(CtInfo::EstablishedReply));
    assert_eq!(left(&router), 10);
    // The same ports again: the client may not reopen what the server has reset, until the entry has gone.
    router.wait(10);
    assert_eq!(router.relation(&tcp(client, server, Flags::SYN, (900, 0), b"")), Some(CtInfo::New));
}

#[test]
fn a_reset_instead_of_an_answer_removes_the_entry_and_is_delivered() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    let mut router = Router::new();
    router.forward(&tcp(client, server, Flags::SYN, (100, 0), b""));
    let reset = tcp(server, client, Flags::RST | Flags::ACK, (0, 101), b"");
    assert_eq!(router.relation(&reset), Some(CtInfo::EstablishedReply));
    assert!(router.ct.is_empty());
}

#[test]
fn a_syn_reopens_a_connection_that_was_closed() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    let mut router = Router::new();
    let fin = Flags::FIN | Flags::ACK;
    router.forward(&tcp(client, server, Flags::SYN, (100, 0), b""));
    router.forward(&tcp(server, client, Flags::SYN | Flags::ACK, (500, 101), b""));
    router.forward(&tcp(client, server, Flags::ACK, (101, 501), b""));
    router.forward(&tcp(client, server, fin, (101, 501), b""));
    router.forward(&tcp(server, client, fin, (501, 102), b""));
    router.forward(&tcp(client, server, Flags::ACK, (102, 502), b""));
    let id = only(&router).id();
    assert_eq!(only(&router).tcp_state(), Some(crate::TcpState::TimeWait));
    assert_eq!(router.relation(&tcp(client, server, Flags::SYN, (9000, 0), b"")), Some(CtInfo::New));
    assert_ne!(only(&router).id(), id);
}

#[test]
fn echo_requests_begin_connections_and_answers_do_not() {
    for (a, b) in [(v4(1, 1), v4(2, 2)), (v6(1, 1), v6(2, 2))] {
        let mut router = Router::new();
        assert_eq!(router.relation(&echo(a, b, false, 7)), None);
        assert_eq!(router.relation(&echo(a, b, true, 7)), Some(CtInfo::New));
        assert_eq!(router.relation(&echo(b, a, false, 7)), Some(CtInfo::EstablishedReply));
        assert_eq!(router.relation(&echo(b, a, false, 8)), None);
        assert_eq!(router.relation(&echo(a, b, true, 7)), Some(CtInfo::Established));
        assert_eq!(left(&router), 30);
    }
}

#[test]
fn icmp_errors_are_related_to_the_packet_that_they_quote() {
    for (client, server, between) in [(v4(1, 1), v4(2, 2), v4(9, 9)), (v6(1, 1), v6(2, 2), v6(9, 9))] {
        let mut router = Router::new();
        let there = udp((client, 5000), (server, 53), b"query");
        // About a connection that is not known.
        assert_eq!(router.relation(&unreachable(between, &there)), None);
        router.forward(&there);
        // An error about the original direction is one of the reply direction.
        assert_eq!(router.relation(&unreachable(server, &there)), Some(CtInfo::RelatedReply));
        assert_eq!(router.relation(&unreachable(between, &there)), Some(CtInfo::RelatedReply));
        let back = udp((server, 53), (client, 5000), b"answer");
        router.forward(&back);
        assert_eq!(router.relation(&unreachable(client, &back)), Some(CtInfo::Related));
        // Quoted after eight bytes of the transport.
        let cut = &there[..there.len() - b"query".len()];
        let kind = if client.is_ipv4() { (11, 0) } else { (3, 0) };
        assert_eq!(router.relation(&icmp(between, client, kind, [0; 4], cut)), Some(CtInfo::RelatedReply));
        // Addressed to another host than the sender of what is quoted.
        assert_eq!(router.relation(&icmp(between, server, kind, [0; 4], cut)), None);
        assert_eq!(router.relation(&icmp(between, client, kind, [0; 4], &cut[..10])), None);
        assert_eq!(left(&router), 30);
    }
}

#[test]
fn neighbour_discovery_is_exempt_and_broken_packets_are_invalid() {
    let mut router = Router::new();
    let solicitation = icmp(v6(1, 1), v6(2, 2), (135, 0), [0; 4], &[0; 16]);
    let context = router.context(InetHook::Prerouting);
    let tracked = router.ct.track(&solicitation, Attached::None, &context);
    assert_eq!((tracked.attached, tracked.attached.state_bits()), (Attached::Untracked, 64));
    let mut wrong = udp((v4(1, 1), 1), (v4(2, 2), 2), b"data");
    wrong[30] ^= 1;
    assert_eq!(router.relation(&wrong), None);
    // What this host sends need not be verified.
    assert!(router.send(&wrong).unwrap().1.info().is_some());
    let mut error = unreachable(v4(2, 2), &udp((v4(1, 1), 1), (v4(2, 2), 2), b"data"));
    error[22] ^= 1;
    assert_eq!(router.relation(&error), None);
    assert_eq!(router.ct.statistics().error, 1);
    let short = ip(v4(1, 1), v4(2, 2), protocol::TCP, &[0; 7]);
    for broken in [&short[..], &[], &[0x45], &[0xff; 40]] {
        assert_eq!(router.relation(broken), None);
    }
    let mut fragment = udp((v4(1, 1), 1), (v4(2, 2), 2), b"data");
    fragment[7] = 1;
    belljar_wire::ipv4::fill_checksum(&mut fragment[..20]);
    assert_eq!(router.relation(&fragment), None);
}

#[test]
fn other_protocols_are_tracked_by_addresses() {
    let mut router = Router::new();
    let there = ip(v4(1, 1), v4(2, 2), 89, b"hello");
    assert_eq!(router.relation(&there), Some(CtInfo::New));
    assert_eq!(left(&router), 600);
    assert_eq!(router.relation(&ip(v4(2, 2), v4(1, 1), 89, b"hi")), Some(CtInfo::EstablishedReply));
    let mut router = Router::new();
    let tunnel = |from, to| ip(from, to, protocol::GRE, &[0, 0, 8, 0, 1, 2, 3, 4]);
    assert_eq!(router.relation(&tunnel(v4(1, 1), v4(2, 2))), Some(CtInfo::New));
    assert_eq!(left(&router), 30);
    router.relation(&tunnel(v4(2, 2), v4(1, 1)));
    router.relation(&tunnel(v4(1, 1), v4(2, 2)));
    assert_eq!((left(&router), only(&router).is(CtStatus::ASSURED)), (180, true));
}

#[test]
fn packets_are_counted_where_the_setting_says_so() {
    let mut router = Router::new();
    let there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    router.forward(&there);
    assert!(!only(&router).is_counted());
    router.ct.flush(Reporter::default(), router.now, |_| true);
    router.ct.set_setting("nf_conntrack_acct", "1").unwrap();
    router.forward(&there);
    router.forward(&udp((v4(2, 2), 53), (v4(1, 1), 5000), b"four"));
    router.forward(&there);
    let conn = only(&router);
    let [there, back] = TupleDirection::BOTH.map(|direction| conn.counters(direction));
    assert_eq!((there.packets, there.bytes, back.packets, back.bytes), (2, 66, 1, 32));
}

#[test]
fn zones_keep_equal_tuples_apart() {
    let mut router = Router::new();
    let there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    for id in [0, 1, 2] {
        let template = Template { zone: CtZone::both(id), ..Template::default() };
        let context = router.context(InetHook::Prerouting);
        let tracked = router.ct.track(&there, Attached::Template(template), &context);
        assert_eq!(tracked.attached.info(), Some(CtInfo::New));
        router.ct.confirm(&mut there.clone(), tracked.attached, &context);
    }
    assert_eq!(router.ct.connections().count(), 3);
    let tuple = tuple_of(&there);
    let found = router.ct.find(CtZone::both(2), &tuple, router.now).unwrap();
    assert_eq!(router.ct.conn_of(found.0).unwrap().zone().id, 2);
    assert!(router.ct.find(CtZone::both(3), &tuple, router.now).is_none());
    // A zone of the original direction: its answers are found in zone 0.
    let template = Template { zone: CtZone { id: 7, directions: CtZone::ORIGINAL }, ..Template::default() };
    let other = udp((v4(1, 1), 6000), (v4(2, 2), 53), b"query");
    let context = router.context(InetHook::Prerouting);
    let tracked = router.ct.track(&other, Attached::Template(template), &context);
    router.ct.confirm(&mut other.clone(), tracked.attached, &context);
    let back = udp((v4(2, 2), 53), (v4(1, 1), 6000), b"answer");
    assert_eq!(router.relation(&back), Some(CtInfo::EstablishedReply));
}

#[test]
fn a_packet_that_is_released_leaves_nothing() {
    let mut router = Router::new();
    let there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    let context = router.context(InetHook::Prerouting);
    let tracked = router.ct.track(&there, Attached::None, &context);
    assert_eq!(router.ct.len(), 1);
    router.ct.release(tracked.attached);
    assert!(router.ct.is_empty());
    // A packet for which that is forgotten leaves nothing either, a minute later.
    let forgotten = router.ct.track(&there, Attached::None, &context).attached;
    router.wait(59);
    assert!(router.ct.conn(forgotten).is_some());
    router.wait(2);
    assert!(router.ct.is_empty());
    router.wait(1);
    assert!(router.ct.conn(forgotten).is_none());
    assert_eq!(router.ct.attach_reply(forgotten).direction(), Some(TupleDirection::Reply));
}

#[test]
fn packets_of_one_flow_that_are_on_their_path_together_join() {
    let mut router = Router::new();
    let mut there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    let context = router.context(InetHook::Prerouting);
    let first = router.ct.track(&there, Attached::None, &context).attached;
    let second = router.ct.track(&there, Attached::None, &context).attached;
    assert_ne!(first, second);
    assert_eq!(router.ct.confirm(&mut there, first, &context).attached, first);
    assert_eq!(router.ct.confirm(&mut there, second, &context).attached, first);
    assert_eq!((router.ct.connections().count(), router.ct.statistics().clash_resolve), (1, 1));
    // TCP's second packet is dropped, since its sender repeats it.
    let mut syn = tcp((v4(1, 1), 5000), (v4(2, 2), 80), Flags::SYN, (1, 0), b"");
    let first = router.ct.track(&syn, Attached::None, &context).attached;
    let second = router.ct.track(&syn, Attached::None, &context).attached;
    router.ct.confirm(&mut syn, first, &context);
    assert_eq!(router.ct.confirm(&mut syn, second, &context).verdict, TrackVerdict::Drop);
    assert_eq!(router.ct.statistics().insert_failed, 1);
}

#[test]
fn a_full_table_drops_packets_unless_an_entry_near_by_can_go() {
    let mut router = Router::new();
    router.ct.set_setting("nf_conntrack_max", "10").unwrap();
    let packet = |n: u16| udp((v4(1, 1), 1000 + n), (v4(2, 2), 53), b"query");
    for n in 0..10 {
        assert!(router.forward(&packet(n)).is_some());
    }
    // Ten entries in 262,144 buckets: none is near.
    assert!(router.forward(&packet(10)).is_none());
    assert_eq!((router.ct.statistics().drop, router.ct.len()), (1, 10));
    // In one bucket all are.
    router.ct.set_setting("nf_conntrack_buckets", "1").unwrap();
    assert!(router.forward(&packet(10)).is_some());
    assert_eq!((router.ct.statistics().early_drop, router.ct.len()), (10, 1));
    router.ct.set_setting("nf_conntrack_max", "0").unwrap();
    for n in 20..60 {
        assert!(router.forward(&packet(n)).is_some());
    }
}

#[test]
fn assured_entries_are_not_evicted() {
    let mut router = Router::new();
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    router.forward(&tcp(client, server, Flags::SYN, (100, 0), b""));
    router.forward(&tcp(server, client, Flags::SYN | Flags::ACK, (500, 101), b""));
    router.forward(&tcp(client, server, Flags::ACK, (101, 501), b""));
    router.ct.set_setting("nf_conntrack_max", "1").unwrap();
    router.ct.set_setting("nf_conntrack_buckets", "1").unwrap();
    assert!(router.forward(&udp((v4(1, 1), 1), (v4(2, 2), 2), b"")).is_none());
}

#[test]
fn events_report_what_happened() {
    let mut router = Router::new();
    let there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    router.forward(&there);
    assert!(router.ct.take_events().is_empty());
    router.ct.flush(Reporter::default(), router.now, |_| true);
    router.ct.listen(EventGroups::CONNECTIONS);
    let (_, attached) = router.forward(&there).unwrap();
    router.forward(&there);
    router.ct.set_mark(attached, 7);
    router.forward(&udp((v4(2, 2), 53), (v4(1, 1), 5000), b"answer"));
    router.wait(31);
    let groups: Vec<EventGroups> = router.ct.take_events().iter().map(|event| event.group).collect();
    assert_eq!(groups, [EventGroups::NEW, EventGroups::UPDATE, EventGroups::DESTROY]);
}

#[test]
fn marks_and_labels_stay_with_the_connection() {
    let mut router = Router::new();
    let there = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    let (_, attached) = router.forward(&there).unwrap();
    router.ct.set_mark(attached, 0xabc);
    router.ct.set_label(attached, 9);
    router.ct.set_label(attached, 128);
    let mut value = [0; 16];
    value[0] = 0xff;
    router.ct.set_labels(attached, value, [0x0f; 16]);
    let conn = only(&router);
    assert_eq!((conn.mark(), &conn.labels()[..3]), (0xabc, &[0x0f, 0x02 & 0xf0, 0][..]));
    router.ct.set_mark(Attached::Untracked, 1);
}

#[test]
fn deadlines_are_kept_in_one_order() {
    let mut router = Router::new();
    assert_eq!(router.ct.next_deadline(), None);
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    router.forward(&tcp(client, server, Flags::SYN, (100, 0), b""));
    router.forward(&tcp(server, client, Flags::SYN | Flags::ACK, (500, 101), b""));
    router.forward(&tcp(client, server, Flags::ACK, (101, 501), b""));
    // The first deadline is the old one: there is nothing to do then.
    let first = router.ct.next_deadline().unwrap();
    assert!(first < router.now + belljar_base::SimDuration::from_secs(121));
    router.ct.expire(first);
    assert_eq!(router.ct.len(), 1);
    assert!(router.ct.next_deadline().unwrap() > router.now + belljar_base::SimDuration::from_secs(431_000));
    // A deadline that comes nearer is there at once.
    router.forward(&tcp(client, server, Flags::RST, (101, 0), b""));
    let last = router.ct.next_deadline().unwrap();
    assert_eq!((last - router.now).as_millis(), 10_000);
    router.ct.expire(last);
    assert!(router.ct.is_empty() && router.ct.next_deadline().is_none());
}

/// Events and listing of drawn traffic between 20 clients and 5 servers, with translation.
fn drawn(seed: u64) -> (Vec<Vec<u8>>, String) {
    let mut draw = belljar_base::Seed(5).stream(&["test", "traffic"]);
    let mut router = Router::new();
    router.ct = crate::Conntrack::new(belljar_base::Seed(seed).stream(&["host", "conntrack"]));
    router.source = |tuple| {
        let inside = tuple.source.0[..3] == [10, 0, 1];
        inside.then(|| crate::NatRange::address(v4(9, 9).into()))
    };
    router.ct.listen(EventGroups::all());
    let mut events = Vec::new();
    for _ in 0..2_000 {
        let client = (v4(1, draw.below(20) as u8), 5000 + draw.below(3) as u16);
        let server = (v4(2, draw.below(5) as u8), 53);
        let packet = match draw.below(3) {
            0 => udp(client, server, b"query"),
            1 => tcp(client, server, Flags::SYN, (draw.next_u32(), 0), b""),
            _ => echo(client.0, server.0, true, client.1),
        };
        if let Some((sent, _)) = router.forward(&packet) {
            router.forward(&unreachable(server.0, &sent));
        }
        router.now += belljar_base::SimDuration::from_millis(draw.below(200));
        events.extend(router.ct.take_events().into_iter().map(|event| event.message));
    }
    (events, crate::proc::nf_conntrack(&router.ct, router.now))
}

#[test]
fn equal_seeds_give_equal_bytes_and_others_do_not() {
    let (events, text) = drawn(1);
    assert!(events.len() > 500 && text.lines().count() > 50);
    assert_eq!(drawn(1), (events.clone(), text));
    assert_ne!(drawn(2).0, events);
}

#[test]
fn times_of_start_and_end_are_kept_where_the_setting_says_so() {
    let mut router = Router::new();
    router.ct.set_setting("nf_conntrack_timestamp", "1").unwrap();
    router.ct.set_start(1_000_000_000);
    router.ct.listen(EventGroups::DESTROY);
    router.forward(&udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query"));
    router.wait(12);
    assert!(crate::proc::nf_conntrack(&router.ct, router.now).contains(" delta-time=12 use=2\n"));
    router.wait(20);
    let [gone] = router.ct.take_events().try_into().unwrap();
    let has = |seconds: u64| {
        let bytes = (seconds * 1_000_000_000).to_be_bytes();
        gone.message.windows(8).any(|window| window == bytes)
    };
    // Begun 100 s after the start, removed 32 s later.
    assert!(has(101) && has(133));
}

#[test]
fn a_table_that_was_full_is_thinned_out_at_the_next_minute() {
    let mut router = Router::new();
    router.ct.set_setting("nf_conntrack_max", "200").unwrap();
    let packet = |n: u16| ip(v4(1, (n % 200) as u8), v4(2, (n / 200) as u8), 89, b"hello");
    for n in 0..200 {
        assert!(router.forward(&packet(n)).is_some());
    }
    assert!(router.forward(&packet(200)).is_none());
    router.wait(19);
    assert!(router.forward(&packet(200)).is_none());
    router.wait(1);
    assert_eq!(router.ct.len(), 189);
    assert!(router.forward(&packet(200)).is_some());
}
