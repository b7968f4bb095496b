//! Tests of translations: the choice of addresses and ports, packets, ICMP errors.

use super::*;
use crate::testing::{Router, echo, icmp, ip, is_intact, tcp, tuple_of, udp, unreachable, v4, v6};
use crate::{TrackContext, Tuple};
use belljar_base::Seed;
use belljar_wire::tcp::Flags;
use std::net::IpAddr;

/// Address of the router towards the servers.
fn outside(l3: L3) -> IpAddr {
    match l3 {
        L3::V4 => v4(9, 9),
        L3::V6 => v6(9, 9),
    }
}

/// Masquerades all clients of network 1.
fn masquerade(tuple: &Tuple) -> Option<NatRange> {
    let inside = [v4(1, 0), v6(1, 0)].map(InetAddress::from);
    let len = if tuple.l3 == L3::V4 { 3 } else { 6 };
    let ours = inside.iter().any(|network| network.0[..len] == tuple.source.0[..len]);
    ours.then(|| NatRange::address(outside(tuple.l3).into()))
}

fn router() -> Router {
    let mut router = Router::new();
    router.source = masquerade;
    router
}

/// Source port that the packets of a client get for a server.
fn mapping(router: &mut Router, client: (IpAddr, u16), server: (IpAddr, u16)) -> u16 {
    let (packet, _) = router.forward(&udp(client, server, b"query")).expect("forwarded");
    assert!(is_intact(&packet));
    tuple_of(&packet).source_port
}

#[test]
fn a_client_behind_the_router_reaches_a_server() {
    for (client, server, outside) in [(v4(1, 1), v4(2, 2), v4(9, 9)), (v6(1, 1), v6(2, 2), v6(9, 9))] {
        let mut router = router();
        let (there, _) = router.forward(&udp((client, 5000), (server, 53), b"query")).unwrap();
        assert_eq!(tuple_of(&there), Tuple::between(17, (outside, 5000), (server, 53)));
        assert!(is_intact(&there));
        let (back, _) = router.forward(&udp((server, 53), (outside, 5000), b"answer")).unwrap();
        assert_eq!(tuple_of(&back), Tuple::between(17, (server, 53), (client, 5000)));
        assert!(is_intact(&back));
        // A stranger's packet is for the router itself.
        let (other, attached) = router.forward(&udp((v4(3, 3), 1), (v4(9, 9), 5000), b"x")).unwrap();
        assert_eq!((tuple_of(&other).destination_port, attached.info()), (5000, Some(CtInfo::New)));
    }
}

#[test]
fn tcp_is_translated_and_its_windows_are_tracked() {
    let mut router = router();
    let (client, server, outside) = ((v4(1, 1), 5000), (v4(2, 2), 80), (v4(9, 9), 5000));
    let steps = [
        (client, server, Flags::SYN, (100, 0)),
        (server, outside, Flags::SYN | Flags::ACK, (500, 101)),
        (client, server, Flags::ACK, (101, 501)),
        (server, outside, Flags::FIN | Flags::ACK, (501, 101)),
        (client, server, Flags::FIN | Flags::ACK, (101, 502)),
    ];
    for (from, to, flags, numbers) in steps {
        let (packet, attached) = router.forward(&tcp(from, to, flags, numbers, b"")).unwrap();
        assert!(is_intact(&packet) && attached.info().is_some());
        let expected = if from == client { (outside, server) } else { (server, client) };
        assert_eq!(tuple_of(&packet), Tuple::between(6, expected.0, expected.1));
    }
}

#[test]
fn the_port_is_kept_until_the_tuple_is_taken() {
    let mut router = router();
    let server = (v4(2, 2), 53);
    assert_eq!(mapping(&mut router, (v4(1, 1), 5000), server), 5000);
    // Another client with the same port gets another one towards the same server,
    let second = mapping(&mut router, (v4(1, 2), 5000), server);
    assert!(second != 5000 && second >= 1024);
    // and its mapping is kept for other servers, since they see the same address (endpoint-independent).
    assert_eq!(mapping(&mut router, (v4(1, 2), 5000), (v4(2, 3), 53)), second);
    // A third one has its own port at a server that the first does not speak with.
    assert_eq!(mapping(&mut router, (v4(1, 3), 5000), (v4(2, 9), 53)), 5000);
}

#[test]
fn the_search_stays_in_the_class_of_the_port() {
    for (port, class) in [(100, 1..=511), (700, 600..=1023), (40_000, 1024..=65_535)] {
        let mut router = router();
        for n in 1..100 {
            let got = mapping(&mut router, (v4(1, n), port), (v4(2, 2), 53));
            assert!(class.contains(&got), "{port}: {got}");
            assert_eq!(got == port, n == 1);
        }
    }
}

#[test]
fn ports_of_a_range_are_used_up() {
    let mut router = Router::new();
    router.source = |_| Some(NatRange::address(v4(9, 9).into()).with_ports(2000, 2009));
    let mut seen: Vec<u16> =
        (1..=10).map(|n| mapping(&mut router, (v4(1, n), 5000), (v4(2, 2), 53))).collect();
    seen.sort_unstable();
    assert_eq!(seen, (2000..=2009).collect::<Vec<_>>());
    // The eleventh has no port, and its packet is dropped when it is confirmed.
    assert!(router.forward(&udp((v4(1, 11), 5000), (v4(2, 2), 53), b"")).is_none());
    assert_eq!(router.ct.statistics().insert_failed, 1);
    // Another server has ten more.
    let (packet, _) = router.forward(&udp((v4(1, 11), 5000), (v4(2, 3), 53), b"")).unwrap();
    assert!((2000..=2009).contains(&tuple_of(&packet).source_port));
}

#[test]
fn a_single_port_is_used_for_all() {
    let mut router = Router::new();
    router.source = |_| Some(NatRange::address(v4(9, 9).into()).with_ports(2000, 2000));
    assert_eq!(mapping(&mut router, (v4(1, 1), 5000), (v4(2, 2), 53)), 2000);
    assert_eq!(mapping(&mut router, (v4(1, 2), 5000), (v4(2, 3), 53)), 2000);
    assert!(router.forward(&udp((v4(1, 3), 5000), (v4(2, 2), 53), b"")).is_none());
}

#[test]
fn random_ports_are_drawn_even_if_the_own_is_free() {
    for flag in [NatFlags::PROTO_RANDOM, NatFlags::PROTO_RANDOM_FULLY] {
        let mut router = Router::new();
        router.source = match flag == NatFlags::PROTO_RANDOM {
            true => |_| Some(NatRange::address(v4(9, 9).into()).with_flags(NatFlags::PROTO_RANDOM)),
            false => |_| Some(NatRange::address(v4(9, 9).into()).with_flags(NatFlags::PROTO_RANDOM_FULLY)),
        };
        let first = mapping(&mut router, (v4(1, 1), 5000), (v4(2, 2), 53));
        let second = mapping(&mut router, (v4(1, 1), 5000), (v4(2, 3), 53));
        assert!(first != 5000 && second != first && first >= 1024 && second >= 1024);
    }
}

#[test]
fn equal_streams_draw_equal_ports() {
    let draw = |seed| {
        let mut router = router();
        router.ct = Conntrack::new(Seed(seed).stream(&["host", "nat"]));
        (1..20).map(|n| mapping(&mut router, (v4(1, n), 5000), (v4(2, 2), 53))).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn echo_identifiers_are_translated() {
    for (a, b, server) in [(v4(1, 1), v4(1, 2), v4(2, 2)), (v6(1, 1), v6(1, 2), v6(2, 2))] {
        let mut router = router();
        let l3 = if a.is_ipv4() { L3::V4 } else { L3::V6 };
        let (first, _) = router.forward(&echo(a, server, true, 7)).unwrap();
        let (second, _) = router.forward(&echo(b, server, true, 7)).unwrap();
        assert!(is_intact(&first) && is_intact(&second));
        assert_eq!(tuple_of(&first).source_port, 7);
        let other = tuple_of(&second).source_port;
        assert_ne!(other, 7);
        let (back, _) = router.forward(&echo(server, outside(l3), false, other)).unwrap();
        assert_eq!((tuple_of(&back).destination.to_ip(l3), tuple_of(&back).source_port), (b, 7));
        assert!(is_intact(&back));
    }
}

#[test]
fn a_forwarded_port_leads_to_the_server_inside() {
    let mut router = Router::new();
    router.destination = |tuple| {
        (tuple.destination_port == 80).then(|| NatRange::address(v4(1, 5).into()).with_ports(8080, 8080))
    };
    let (client, public, inside) = ((v4(2, 2), 4000), (v4(9, 9), 80), (v4(1, 5), 8080));
    let (there, _) = router.forward(&tcp(client, public, Flags::SYN, (1, 0), b"")).unwrap();
    assert_eq!(tuple_of(&there), Tuple::between(6, client, inside));
    assert!(is_intact(&there));
    let answer = tcp(inside, client, Flags::SYN | Flags::ACK, (7, 2), b"");
    let (back, _) = router.forward(&answer).unwrap();
    assert_eq!(tuple_of(&back), Tuple::between(6, public, client));
    assert!(is_intact(&back));
}

#[test]
fn a_shifted_range_keeps_the_distance_of_ports() {
    let mut router = Router::new();
    router.destination = |_| {
        let range = NatRange::address(v4(1, 5).into()).with_ports(5000, 5100);
        Some(NatRange { base_port: 2000, ..range }.with_flags(NatFlags::PROTO_OFFSET))
    };
    let (packet, _) = router.forward(&udp((v4(2, 2), 1), (v4(9, 9), 2042), b"")).unwrap();
    assert_eq!(tuple_of(&packet).destination_port, 5042);
}

#[test]
fn both_ends_are_translated_for_a_client_on_the_servers_side() {
    // Hairpin: a client inside reaches the server inside by the public address.
    let mut router = Router::new();
    router.destination = |tuple| (tuple.destination_port == 80).then(|| NatRange::address(v4(1, 5).into()));
    router.source = masquerade;
    let (client, public, inside) = ((v4(1, 1), 4000), (v4(9, 9), 80), (v4(1, 5), 80));
    let (there, _) = router.forward(&tcp(client, public, Flags::SYN, (1, 0), b"")).unwrap();
    assert_eq!(tuple_of(&there), Tuple::between(6, (v4(9, 9), 4000), inside));
    let answer = tcp(inside, (v4(9, 9), 4000), Flags::SYN | Flags::ACK, (7, 2), b"");
    let (back, _) = router.forward(&answer).unwrap();
    assert_eq!(tuple_of(&back), Tuple::between(6, public, client));
    assert!(is_intact(&there) && is_intact(&back));
}

#[test]
fn netmap_replaces_the_network_and_keeps_the_host() {
    let mut router = Router::new();
    router.destination = |_| {
        let range =
            NatRange { min_address: v4(7, 0).into(), max_address: v4(7, 255).into(), ..NatRange::default() };
        Some(range.with_flags(NatFlags::NETMAP))
    };
    let (packet, _) = router.forward(&udp((v4(2, 2), 1), (v4(3, 42), 2), b"")).unwrap();
    assert_eq!(tuple_of(&packet).destination, v4(7, 42).into());
}

#[test]
fn masquerading_follows_the_interface() {
    let mut router = Router::new();
    let packet = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    let masquerade = |router: &mut Router, packet: &[u8], interface: u32| {
        let context = router.context(InetHook::Prerouting);
        let attached = router.ct.track(packet, Attached::None, &context).attached;
        let mut packet = packet.to_vec();
        let hook = InetHook::Postrouting;
        if router.ct.nat_wanted(&packet, attached, hook) {
            let range = NatRange::default();
            router.ct.setup_masquerade(attached, v4(9, 9).into(), interface, &range, router.now);
        }
        let verdict = router.ct.translate(&mut packet, attached, hook, Some(interface), router.now);
        router.ct.confirm(&mut packet, attached, &context);
        (verdict, tuple_of(&packet).source)
    };
    assert_eq!(masquerade(&mut router, &packet, 2), (TrackVerdict::Accept, v4(9, 9).into()));
    // The route has changed to another interface: the packet is dropped, the next one begins anew.
    assert_eq!(masquerade(&mut router, &packet, 3).0, TrackVerdict::Drop);
    assert!(router.ct.is_empty());
    assert_eq!(masquerade(&mut router, &packet, 3).0, TrackVerdict::Accept);
    router.ct.address_removed(3, v4(9, 8).into(), router.now);
    router.ct.interface_down(2, router.now);
    assert_eq!(router.ct.len(), 1);
    router.ct.address_removed(3, v4(9, 9).into(), router.now);
    assert!(router.ct.is_empty());
    let context = router.context(InetHook::Prerouting);
    let attached = router.ct.track(&packet, Attached::None, &context).attached;
    let none = InetAddress::UNSPECIFIED;
    let range = NatRange::default();
    assert_eq!(router.ct.setup_masquerade(attached, none, 2, &range, router.now), TrackVerdict::Drop);
    assert_eq!(router.ct.setup_redirect(attached, none, &range, router.now), TrackVerdict::Drop);
    let here = v4(1, 9).into();
    let port = range.with_ports(99, 99);
    assert_eq!(router.ct.setup_redirect(attached, here, &port, router.now), TrackVerdict::Accept);
    let mut packet = packet.clone();
    router.ct.translate(&mut packet, attached, InetHook::Prerouting, None, router.now);
    assert_eq!((tuple_of(&packet).destination, tuple_of(&packet).destination_port), (here, 99));
}

#[test]
fn a_local_connection_gets_another_port_than_a_translated_one() {
    let mut router = router();
    let server = (v4(2, 2), 53);
    assert_eq!(mapping(&mut router, (v4(1, 1), 5000), server), 5000);
    // The router's own socket has the same address and port: the null binding gives it another one.
    let (own, _) = router.send(&udp((v4(9, 9), 5000), server, b"own")).unwrap();
    let port = tuple_of(&own).source_port;
    assert!(port != 5000 && is_intact(&own));
    let (back, _) = router.forward(&udp(server, (v4(9, 9), port), b"answer")).unwrap();
    assert_eq!((tuple_of(&back).destination, tuple_of(&back).destination_port), (v4(9, 9).into(), 5000));
}

#[test]
fn a_connection_that_began_before_nat_was_in_use_stays_untranslated() {
    let mut router = router();
    router.nat = false;
    let packet = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    router.forward(&packet);
    router.nat = true;
    assert_eq!(router.forward(&packet).unwrap().0, packet);
}

#[test]
fn quoted_packets_of_icmp_errors_are_translated() {
    for (client, server, hop) in [(v4(1, 1), v4(2, 2), v4(4, 4)), (v6(1, 1), v6(2, 2), v6(4, 4))] {
        let mut router = router();
        let packet = udp((client, 5000), (server, 53), b"query");
        let (sent, _) = router.forward(&packet).unwrap();
        for from in [server, hop] {
            let (error, attached) = router.forward(&unreachable(from, &sent)).unwrap();
            assert_eq!(attached.info(), Some(CtInfo::RelatedReply));
            assert!(is_intact(&error));
            // The client receives the packet that it has sent.
            assert_eq!(error, unreachable(from, &packet));
        }
    }
}

#[test]
fn errors_about_forwarded_ports_leave_with_the_public_address() {
    let mut router = Router::new();
    router.destination = |tuple| {
        (tuple.destination_port == 80).then(|| NatRange::address(v4(1, 5).into()).with_ports(8080, 8080))
    };
    let packet = tcp((v4(2, 2), 4000), (v4(9, 9), 80), Flags::SYN, (1, 0), b"");
    let (inside, _) = router.forward(&packet).unwrap();
    let (error, attached) = router.forward(&unreachable(v4(1, 5), &inside)).unwrap();
    assert_eq!(attached.info(), Some(CtInfo::RelatedReply));
    assert_eq!(error, unreachable(v4(9, 9), &packet));
    // Cut after eight bytes of TCP, whose checksum is not there.
    let cut = icmp(v4(1, 5), v4(2, 2), (11, 0), [0; 4], &inside[..28]);
    let (error, _) = router.forward(&cut).unwrap();
    assert_eq!(error, icmp(v4(9, 9), v4(2, 2), (11, 0), [0; 4], &packet[..28]));
}

#[test]
fn redirects_about_translated_connections_are_dropped() {
    let mut router = router();
    let (sent, _) = router.forward(&udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query")).unwrap();
    let redirect = icmp(v4(4, 4), v4(9, 9), (5, 1), [10, 0, 4, 5], &sent[..28]);
    assert!(router.forward(&redirect).is_none());
    let mut wrong = unreachable(v4(4, 4), &sent);
    *wrong.last_mut().unwrap() ^= 1;
    router.ct.set_setting("nf_conntrack_checksum", "0").unwrap();
    assert!(router.forward(&wrong).is_none());
}

#[test]
fn a_datagram_without_a_checksum_keeps_none() {
    let mut router = router();
    let mut packet = udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query");
    packet[26..28].fill(0);
    let (sent, _) = router.forward(&packet).unwrap();
    assert_eq!((&sent[26..28], tuple_of(&sent).source), (&[0, 0][..], v4(9, 9).into()));
}

#[test]
fn sctp_gets_a_new_checksum() {
    // RFC 3720, appendix B.4: "32 bytes of zeroes" have the CRC-32C 0x8a9136aa.
    assert_eq!(sctp_checksum(&[0; 32]), 0x8a91_36aa_u32.to_le_bytes());
    let mut segment = vec![0x10, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20];
    segment.extend([0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    let sum = sctp_checksum(&segment);
    segment[8..12].copy_from_slice(&sum);
    let mut router = router();
    let (sent, attached) = router.forward(&ip(v4(1, 1), v4(2, 2), 132, &segment)).unwrap();
    assert_eq!((tuple_of(&sent).source, attached.info()), (v4(9, 9).into(), Some(CtInfo::New)));
    assert_eq!(sctp_checksum(&sent[20..]), sent[28..32]);
    segment[8] ^= 1;
    assert_eq!(router.forward(&ip(v4(1, 2), v4(2, 2), 132, &segment)).unwrap().1.info(), None);
}

#[test]
fn a_closed_connection_gives_its_port_to_a_new_one_at_last() {
    let mut router = Router::new();
    router.source = |_| Some(NatRange::address(v4(9, 9).into()).with_ports(2000, 2001));
    let server = (v4(2, 2), 80);
    let fin = Flags::FIN | Flags::ACK;
    for (n, port) in [(1, 5000), (2, 5000)] {
        let client = (v4(1, n), port);
        let (packet, _) = router.forward(&tcp(client, server, Flags::SYN, (100, 0), b"")).unwrap();
        let public = (v4(9, 9), tuple_of(&packet).source_port);
        for (from, to, flags, numbers) in [
            (server, public, Flags::SYN | Flags::ACK, (500, 101)),
            (client, server, Flags::ACK, (101, 501)),
            (client, server, fin, (101, 501)),
            (server, public, fin, (501, 102)),
            (client, server, Flags::ACK, (102, 502)),
        ] {
            router.forward(&tcp(from, to, flags, numbers, b"")).unwrap();
        }
    }
    // Sequence numbers below those of the old connection: its peer could confuse the two.
    assert!(router.forward(&tcp((v4(1, 3), 5000), server, Flags::SYN, (50, 0), b"")).is_none());
    assert!(router.forward(&tcp((v4(1, 3), 5000), server, Flags::SYN, (90_000, 0), b"")).is_some());
    assert_eq!(router.ct.len(), 2);
}

/// Drawn clients behind a router: no two connections to one server share a mapping, and each answer reaches
/// the client and port that asked, with its bytes intact.
#[test]
fn every_answer_finds_its_client() {
    let mut draw = Seed(7).stream(&["test", "clients"]);
    let mut router = router();
    let mut sent = belljar_base::Map::new();
    for n in 0..4_000u32 {
        let client = (v4(1, draw.below(40) as u8), 1 + draw.below(1_500) as u16);
        let server = (v4(2, draw.below(3) as u8), 53);
        let payload = n.to_be_bytes();
        let packet = match draw.below(3) {
            0 => tcp(client, server, Flags::SYN, (n, 0), b""),
            1 => echo(client.0, server.0, true, client.1),
            _ => udp(client, server, &payload),
        };
        let Some((there, attached)) = router.forward(&packet) else { continue };
        assert!(is_intact(&there));
        if attached.info() == Some(CtInfo::New) {
            let asked = tuple_of(&packet);
            let earlier = sent.insert(tuple_of(&there), asked);
            assert!(earlier.is_none_or(|earlier| earlier == asked), "{earlier:?} {asked:?}");
        }
    }
    assert!(sent.len() > 2_000);
    for (there, asked) in &sent {
        let (from, to) = (there.destination.to_ip(L3::V4), there.source.to_ip(L3::V4));
        let answer = match there.protocol {
            6 => tcp(
                (from, there.destination_port),
                (to, there.source_port),
                Flags::SYN | Flags::ACK,
                (1, 1),
                b"",
            ),
            1 => echo(from, to, false, there.source_port),
            _ => udp((from, there.destination_port), (to, there.source_port), b"answer"),
        };
        let (back, _) = router.forward(&answer).unwrap();
        let got = tuple_of(&back);
        if there.protocol != 6 || got.destination != to.into() {
            assert_eq!(Some(got), asked.inverse());
            assert!(is_intact(&back));
        }
    }
}

#[test]
fn broken_packets_are_never_fatal() {
    let mut draw = Seed(9).stream(&["test", "bytes"]);
    let mut router = router();
    let context = |hook, now| TrackContext { hook, now, checksum_verified: true };
    let base = [
        udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query"),
        tcp((v4(1, 1), 5000), (v4(2, 2), 80), Flags::SYN, (1, 0), b""),
        unreachable(v4(2, 2), &udp((v4(9, 9), 5000), (v4(2, 2), 53), b"query")),
        udp((v6(1, 1), 5000), (v6(2, 2), 53), b"query"),
        unreachable(v6(2, 2), &udp((v6(9, 9), 5000), (v6(2, 2), 53), b"query")),
        ip(v4(1, 1), v4(2, 2), 132, &[0; 40]),
        ip(v4(1, 1), v4(2, 2), 47, &[0, 1, 0x88, 0x0b, 0, 0, 0, 1]),
    ];
    for n in 0..60_000 {
        let mut packet = base[n % base.len()].clone();
        for _ in 0..draw.below(4) {
            let at = draw.below(packet.len() as u64) as usize;
            packet[at] = draw.next_u32() as u8;
        }
        if draw.below(4) == 0 {
            packet.truncate(draw.below(packet.len() as u64 + 1) as usize);
        }
        let len = packet.len();
        let now = router.now;
        let first = context(InetHook::Prerouting, now);
        let attached = router.ct.track(&packet, Attached::None, &first).attached;
        for hook in [InetHook::Prerouting, InetHook::Postrouting] {
            let _ = router.ct.translate(&mut packet, attached, hook, None, now);
        }
        router.ct.confirm(&mut packet, attached, &context(InetHook::Postrouting, now));
        assert_eq!(packet.len(), len);
    }
}
