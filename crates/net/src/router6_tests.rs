use super::*;
use crate::nic::NicConfig;
use belljar_base::Seed;
use belljar_wire::ethernet::{self, Frame};

const HOST: Address = Address([2, 0, 0, 0, 0, 9]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}
fn router(advertise: bool) -> Router {
    let interface = |n: u8, mtu| RouterInterface {
        mac: Address([2, 0, 0, 0, 0, n]),
        mtu,
        addresses: Vec::new(),
        addresses6: vec![format!("2001:db8:{n}::1/64").parse().unwrap()],
        advertise: advertise && n == 1,
        nic: NicConfig::default(),
    };
    let mut router = Router::new(vec![interface(1, 1_500), interface(2, 1_280)], &mut Seed(1).stream(&["r"]));
    router.start_v6(&mut Seed(1).stream(&["r6"]));
    router
}
fn send(router: &mut Router, bytes: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
    let now = SimTime::from_secs(1);
    let to = router.interfaces[0].mac;
    router.receive(now, 0, crate::router::framed(Packet::new(bytes), to, HOST, ethertype::IPV6));
    sent(router, now)
}
fn sent(router: &mut Router, now: SimTime) -> Vec<(usize, Vec<u8>)> {
    std::iter::from_fn(|| router.poll(now)).map(|l| (l.port, l.packet.into_bytes())).collect()
}
/// A datagram from a host on the first link, with the payload of so many bytes.
fn datagram(to: &str, hop_limit: u8, len: usize) -> Vec<u8> {
    let mut bytes = packet(ip("2001:db8:1::9"), ip(to), hop_limit, 0, &vec![0; len]);
    bytes[6] = ip_protocol::UDP;
    bytes
}
/// Says that a host has an address.
fn tell(router: &mut Router, port: usize, target: &str) {
    let own = router.interfaces[port].addresses6[0].ip;
    let message = Discovery::NeighbourSolicit { target: own, source: Some(HOST) };
    let bytes = packet(ip(target), own, 255, 0, &message.emit(ip(target), own));
    let (to, now) = (router.interfaces[port].mac, SimTime::from_secs(1));
    router.receive(now, port, crate::router::framed(Packet::new(bytes), to, HOST, ethertype::IPV6));
    let answers = sent(router, now);
    assert_eq!(answers.len(), 1, "who asks is answered, and known from then on");
    let answer = Discovery::parse(&answers[0].1[ethernet::HEADER_LEN + ipv6::HEADER_LEN..]);
    assert!(matches!(answer, Some(Discovery::NeighbourAdvert { router: true, solicited: true, .. })));
}
/// The ICMPv6 message in the only frame.
fn message(frames: &[(usize, Vec<u8>)]) -> &[u8] {
    let [(0, frame)] = frames else { panic!("{} frames", frames.len()) };
    let bytes = &frame[ethernet::HEADER_LEN..];
    let (src, dst) = (ipv6::source(bytes), ipv6::destination(bytes));
    let message = &bytes[ipv6::HEADER_LEN..];
    assert_eq!(checksum::transport(src.into(), dst.into(), ip_protocol::ICMPV6, message), 0);
    message
}

#[test]
fn packets_are_passed_on_to_neighbours_that_are_asked_for() {
    let mut router = router(false);
    let frames = send(&mut router, datagram("2001:db8:2::7", 9, 8));
    assert_eq!(frames.len(), 1);
    let question = Frame::new_checked(&frames[0].1).unwrap();
    assert_eq!((frames[0].0, question.dst().0), (1, [0x33, 0x33, 0xff, 0, 0, 7]));
    let answer = Discovery::NeighbourAdvert {
        target: ip("2001:db8:2::7"),
        router: false,
        solicited: true,
        overrides: true,
        address: Some(HOST),
    };
    let (us, them) = (link_local(&router.interfaces[1]), ip("2001:db8:2::7"));
    let bytes = packet(them, us, 255, 0, &answer.emit(them, us));
    let to = router.interfaces[1].mac;
    let now = SimTime::from_secs(1);
    router.receive(now, 1, crate::router::framed(Packet::new(bytes), to, HOST, ethertype::IPV6));
    let frames = sent(&mut router, now);
    let passed = &frames[0].1[ethernet::HEADER_LEN..];
    assert_eq!((frames.len(), frames[0].0, ipv6::hop_limit(passed)), (1, 1, 8));
    assert_eq!(router.counters().forwarded, 1);
}

#[test]
fn senders_are_told_why_packets_go_no_further() {
    let mut router = router(false);
    tell(&mut router, 0, "2001:db8:1::9");
    assert_eq!(message(&send(&mut router, datagram("2001:db8:2::7", 1, 8)))[..2], [kind::TIME_EXCEEDED, 0]);
    assert_eq!(message(&send(&mut router, datagram("2001:db8:9::7", 9, 8)))[..2], [kind::UNREACHABLE, 0]);
    let too_big = send(&mut router, datagram("2001:db8:2::7", 9, 1_241));
    assert_eq!(
        message(&too_big)[..8],
        [&[kind::PACKET_TOO_BIG, 0], &message(&too_big)[2..4], &[0, 0, 5, 0]].concat()
    );
    assert_eq!(message(&send(&mut router, datagram("2001:db8:1::1", 9, 8)))[..2], [kind::UNREACHABLE, 4]);
    // A link-local source stays on its link.
    let mut local = datagram("2001:db8:2::7", 9, 8);
    local[8..24].copy_from_slice(&ip("fe80::9").octets());
    assert_eq!(send(&mut router, local), []);
}

#[test]
fn announcements_come_by_themselves_and_soon_after_a_question() {
    let mut router = router(true);
    let mut times = Vec::new();
    let mut now = SimTime::ZERO;
    while times.len() < 4 {
        now = router.next_event().unwrap();
        router.on_timeout(now);
        for (port, frame) in sent(&mut router, now) {
            let advert = Discovery::parse(&frame[ethernet::HEADER_LEN + ipv6::HEADER_LEN..]);
            let Some(Discovery::RouterAdvert { lifetime: 1_800, prefixes, mtu: Some(1_500), .. }) = advert
            else {
                panic!("{advert:?}")
            };
            assert_eq!((port, prefixes[0].prefix, prefixes[0].autonomous), (0, ip("2001:db8:1::"), true));
            times.push(now);
        }
    }
    let soon = SimTime::ZERO + SimDuration::from_millis(500);
    assert!(times[0] < soon && times[2].since(times[1]) == INITIAL_INTERVAL);
    assert!(times[3].since(times[2]) >= SimDuration::from_secs(200));
    let (src, dst) = (ip("fe80::9"), ipv6::ALL_ROUTERS);
    let question = packet(src, dst, 255, 0, &Discovery::RouterSolicit { source: Some(HOST) }.emit(src, dst));
    let frame = crate::router::framed(Packet::new(question), ipv6::group_address(dst), HOST, ethertype::IPV6);
    router.receive(now, 0, frame);
    assert!(router.next_event().unwrap() < now + SimDuration::from_millis(500));
}
