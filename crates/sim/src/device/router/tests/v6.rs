use super::super::advertise::INITIAL_INTERVAL;
use super::*;
use belljar_netstack::v6::link_local;
use belljar_wire::icmpv6::{DISCOVERY_HOP_LIMIT, Discovery, kind};
use belljar_wire::protocol;

/// IPv6 packet with this payload.
fn packet6(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    let (payload_len, traffic_class, flow_label) = (payload.len(), 0, 0);
    ipv6::Repr { src, dst, next_header, payload_len, hop_limit, traffic_class, flow_label }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}
fn discovery(src: Ipv6Addr, dst: Ipv6Addr, message: &Discovery) -> Vec<u8> {
    packet6(src, dst, DISCOVERY_HOP_LIMIT, protocol::ICMPV6, &message.emit(src, dst))
}
/// UDP datagram of `len` bytes from the station at the first port.
pub fn datagram(to: &str, hop_limit: u8, len: usize) -> Vec<u8> {
    let mut udp = vec![0; len];
    let announced = (len as u16).to_be_bytes();
    udp.iter_mut()
        .zip([0, 1, 0, 2, announced[0], announced[1], 0, 1])
        .for_each(|(byte, value)| *byte = value);
    packet6(ip6("2001:db8::9"), ip6(to), hop_limit, protocol::UDP, &udp)
}
/// Introduces the station at the first port to the router by a neighbour solicitation.
pub fn introduce(bench: &mut Bench) {
    let (them, us) = (ip6("2001:db8::9"), ip6("2001:db8::1"));
    let question = Discovery::NeighbourSolicit { target: us, source: Some(station(0)) };
    let answers = bench.send(s(1), 0, discovery(them, us, &question));
    assert_eq!(answers.len(), 1, "a question is answered, and its sender known from then on");
    let answer = Discovery::parse(&answers[0].2[ipv6::HEADER_LEN..]);
    assert!(matches!(answer, Some(Discovery::NeighbourAdvert { router: true, solicited: true, .. })));
}
/// ICMPv6 message in the only frame.
pub fn message(frames: &[(usize, Address, Vec<u8>)]) -> &[u8] {
    let [(0, _, bytes)] = frames else { panic!("{frames:?}") };
    let (src, dst) = (ipv6::source(bytes), ipv6::destination(bytes));
    let message = &bytes[ipv6::HEADER_LEN..];
    assert_eq!(checksum::transport(src.into(), dst.into(), protocol::ICMPV6, message), 0);
    message
}

#[test]
fn packets_are_passed_on_to_neighbours_that_are_asked_for() {
    let mut bench = Bench::new(config(&[1_500, 1_280]));
    let frames = bench.send(s(1), 0, datagram("2001:db8:1::7", 9, 8));
    assert_eq!((frames.len(), frames[0].0, frames[0].1.0), (1, 1, [0x33, 0x33, 0xff, 0, 0, 7]));
    // `ndisc_solicit`: the packet's source is not the router's.
    let (us, them) = (link_local(own(1).0).ip, ip6("2001:db8:1::7"));
    assert_eq!(ipv6::source(&frames[0].2), us);
    let address = Some(station(1));
    let answer =
        Discovery::NeighbourAdvert { target: them, router: false, solicited: true, overrides: true, address };
    let frames = bench.send(s(1), 1, discovery(them, us, &answer));
    assert_eq!((frames.len(), frames[0].0, ipv6::hop_limit(&frames[0].2)), (1, 1, 8));
    assert_eq!(bench.statistics().forwarded, 1);
}

#[test]
fn senders_are_told_why_packets_go_no_further() {
    let mut bench = Bench::new(config(&[1_500, 1_280]));
    introduce(&mut bench);
    let mut told = |bytes| message(&bench.send(s(1), 0, bytes))[..8].to_vec();
    assert_eq!(told(datagram("2001:db8:1::7", 1, 8))[..2], [kind::TIME_EXCEEDED, 0]);
    assert_eq!(told(datagram("2001:db8:9::7", 9, 8))[..2], [kind::UNREACHABLE, 0]);
    let too_big = told(datagram("2001:db8:1::7", 9, 1_241));
    assert_eq!((&too_big[..2], &too_big[4..]), (&[kind::PACKET_TOO_BIG, 0][..], &[0, 0, 5, 0][..]));
    // A link-local source stays on its link.
    let mut local = datagram("2001:db8:1::7", 9, 8);
    local[8..24].copy_from_slice(&ip6("fe80::9").octets());
    assert_eq!(bench.send(s(1), 0, local), []);
    assert_eq!((bench.statistics().no_route, bench.statistics().expired), (2, 1));
}

#[test]
fn announcements_come_by_themselves_and_soon_after_a_question() {
    let mut bench = Bench::new(RouterConfig { advertise: vec![0], ..config(&[1_500, 1_280]) });
    let adverts = bench.pass(s(700));
    for (_, port, bytes) in &adverts {
        let advert = Discovery::parse(&bytes[ipv6::HEADER_LEN..]);
        let Some(Discovery::RouterAdvert { lifetime: 1_800, prefixes, mtu: Some(1_500), .. }) = advert else {
            panic!("{advert:?}")
        };
        let prefix = (prefixes.len(), prefixes[0].prefix, prefixes[0].autonomous);
        assert_eq!((*port, prefix), (0, (1, ip6("2001:db8::"), true)));
    }
    let times: Vec<SimTime> = adverts.iter().map(|(at, ..)| *at).collect();
    assert!(times[0] < ms(500) && times[2].since(times[1]) == INITIAL_INTERVAL);
    assert!(times[3].since(times[2]) >= SimDuration::from_secs(200));
    let (src, dst) = (ip6("fe80::9"), ipv6::ALL_ROUTERS);
    let mut ask = |hop_limit| {
        let mut question = discovery(src, dst, &Discovery::RouterSolicit { source: Some(station(0)) });
        question[7] = hop_limit;
        let to = ipv6::group_address(dst);
        bench.receive(s(700), 0, framed(Packet::new(question), to, station(0), ethertype::IPV6));
        bench.0.next_event().unwrap()
    };
    assert!(ask(254) > ms(700_500), "it has come from beyond the link");
    assert!(ask(255) < ms(700_500));
}
