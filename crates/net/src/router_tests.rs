use super::*;
use belljar_base::Seed;

const LEFT: Address = Address([2, 0, 0, 0, 1, 1]);
const RIGHT: Address = Address([2, 0, 0, 0, 2, 1]);
const ALICE: Address = Address([2, 0, 0, 0, 1, 9]);
const BOB: Address = Address([2, 0, 0, 0, 2, 9]);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}
fn s(n: u64) -> SimTime {
    SimTime::from_secs(n)
}
fn router() -> Router {
    let interface = |mac, address: &str, mtu| RouterInterface {
        mac,
        mtu,
        addresses6: Vec::new(),
        advertise: false,
        addresses: vec![address.parse().unwrap()],
        nic: NicConfig::default(),
    };
    let interfaces = vec![interface(LEFT, "10.0.1.1/24", 1_500), interface(RIGHT, "10.0.2.1/24", 600)];
    Router::new(interfaces, &mut Seed(1).stream(&["router"]))
}
fn packet(from: &str, to: &str, ttl: u8, number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(payload);
    let len = bytes.len() as u16;
    (bytes[0], bytes[8], bytes[9]) = (0x45, ttl, number);
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[12..16].copy_from_slice(&ip(from).octets());
    bytes[16..20].copy_from_slice(&ip(to).octets());
    let sum = checksum::internet(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}
fn from_alice(bytes: Vec<u8>) -> Packet {
    framed(Packet::new(bytes), LEFT, ALICE, ethertype::IPV4)
}
/// Departures up to `now`: port, receiver, and what follows the Ethernet header.
fn left(router: &mut Router, now: SimTime) -> Vec<(usize, Address, Vec<u8>)> {
    let shown = |l: EgressFrame| {
        let frame = Frame::new_checked(l.packet.bytes()).unwrap();
        (l.port, frame.dst(), frame.payload().to_vec())
    };
    std::iter::from_fn(|| router.poll(now)).map(shown).collect()
}
/// A router that knows alice and bob.
fn acquainted() -> Router {
    let mut router = router();
    for (port, mac, address, own) in [(0, ALICE, "10.0.1.9", "10.0.1.1"), (1, BOB, "10.0.2.9", "10.0.2.1")] {
        let frame = arp_frame(Address::BROADCAST, &arp_request(mac, ip(address), ip(own)));
        router.receive(s(0), port, Packet::new(frame));
    }
    assert_eq!(left(&mut router, s(0)).len(), 2, "both are answered");
    router
}

#[test]
fn it_asks_for_the_next_hop_forwards_and_counts_the_hop() {
    let mut router = router();
    router.receive(s(0), 0, from_alice(packet("10.0.1.9", "10.0.2.9", 9, 17, &[7; 8])));
    let asked = left(&mut router, s(0));
    let request = arp::Repr::parse(&arp::Packet::new_checked(&asked[0].2).unwrap()).unwrap();
    assert_eq!((asked.len(), asked[0].0, asked[0].1), (1, 1, Address::BROADCAST));
    assert_eq!((request.sender_protocol, request.target_protocol), (ip("10.0.2.1"), ip("10.0.2.9")));
    router.receive(s(0), 1, Packet::new(arp_frame(RIGHT, &arp_reply(&request, BOB))));
    let expected = packet("10.0.1.9", "10.0.2.9", 8, 17, &[7; 8]);
    assert_eq!(left(&mut router, s(0)), [(1, BOB, expected)]);
    assert_eq!(router.counters().forwarded, 1);
}

/// The ICMP error that alice gets for a packet of hers: type, code, last word of the header, source.
fn refused(router: &mut Router, bytes: Vec<u8>) -> (u8, u8, u16, Ipv4Addr) {
    router.receive(s(1), 0, from_alice(bytes.clone()));
    let [(0, ALICE, error)] = &left(router, s(1))[..] else { panic!("no answer") };
    assert_eq!(checksum::internet(&error[..20]) | checksum::internet(&error[20..]), 0);
    assert_eq!(error[28..48], bytes[..20]);
    (error[20], error[21], u16::from_be_bytes([error[26], error[27]]), forward::source(error))
}

#[test]
fn it_says_why_a_packet_goes_no_further() {
    let (mut router, left) = (acquainted(), ip("10.0.1.1"));
    assert_eq!(refused(&mut router, packet("10.0.1.9", "10.0.2.9", 1, 17, &[])), (11, 0, 0, left));
    assert_eq!(refused(&mut router, packet("10.0.1.9", "10.9.0.1", 9, 17, &[])), (3, 0, 0, left));
    let mut long = packet("10.0.1.9", "10.0.2.9", 9, 17, &[0; 600]);
    (long[6], long[10]) = (0x40, long[10].wrapping_sub(0x40));
    assert_eq!(refused(&mut router, long), (3, 4, 600, left));
    assert_eq!(refused(&mut router, packet("10.0.1.9", "10.0.1.1", 9, 17, &[])), (3, 3, 0, left));
    assert_eq!(refused(&mut router, packet("10.0.1.9", "10.0.2.1", 9, 6, &[])), (3, 2, 0, ip("10.0.2.1")));
    // A host that does not answer, three seconds later.
    router.receive(s(2), 0, from_alice(packet("10.0.1.9", "10.0.2.77", 9, 17, &[])));
    while let Some(at) = router.next_event().filter(|at| *at < s(6)) {
        router.on_timeout(at);
        let last: Vec<_> = std::iter::from_fn(|| router.poll(at)).map(|l| (l.port, l.packet)).collect();
        if at == s(5) {
            assert_eq!((last.len(), last[0].0, &last[0].1.bytes()[34..36]), (1, 0, &[3u8, 1][..]));
        }
    }
    assert_eq!(router.counters().unanswered, 1);
}

#[test]
fn it_cuts_what_may_be_cut_and_answers_pings() {
    let mut router = acquainted();
    router.receive(s(1), 0, from_alice(packet("10.0.1.9", "10.0.2.9", 9, 17, &[5; 1_000])));
    let pieces = left(&mut router, s(1));
    assert_eq!(pieces.iter().map(|(_, _, bytes)| bytes.len()).collect::<Vec<_>>(), [596, 444]);
    let mut echo = vec![ECHO, 0, 0, 0, 1, 2, 3, 4, 5, 6];
    let sum = checksum::internet(&echo);
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    router.receive(s(1), 0, from_alice(packet("10.0.1.9", "10.0.2.1", 9, ICMP, &echo)));
    let answer = &left(&mut router, s(1))[0].2;
    assert_eq!(
        (answer[20], &answer[24..30], forward::source(answer)),
        (ECHO_REPLY, &echo[4..], ip("10.0.2.1"))
    );
}

#[test]
fn damaged_and_foreign_packets_are_not_answered() {
    let mut router = acquainted();
    let mut damaged = packet("10.0.1.9", "10.0.2.9", 9, 17, &[]);
    damaged[8] = 8;
    router.receive(s(1), 0, from_alice(damaged));
    router.receive(s(1), 0, Packet::new(vec![0; 13]));
    assert_eq!(router.counters().malformed, 2);
    let other = framed(Packet::new(packet("10.0.1.9", "10.0.2.9", 9, 17, &[])), BOB, ALICE, ethertype::IPV4);
    router.receive(s(1), 0, other);
    for to in ["255.255.255.255", "10.0.1.255", "224.0.0.5", "127.0.0.1"] {
        router.receive(s(1), 0, from_alice(packet("10.0.1.9", to, 9, 17, &[])));
    }
    assert_eq!(left(&mut router, s(1)), []);
}

#[test]
fn no_frame_whatever_is_in_it_makes_it_fail() {
    let mut router = acquainted();
    let mut stream = Seed(3).stream(&["frames"]);
    for n in 0..20_000 {
        let mut bytes = packet("10.0.1.9", "10.0.2.1", 2, ICMP, &vec![8; stream.below(64) as usize]);
        for _ in 0..stream.below(4) {
            let at = stream.below(bytes.len() as u64) as usize;
            bytes[at] = stream.next_u32() as u8;
        }
        bytes[10..12].fill(0);
        let header = (usize::from(bytes[0] & 15) * 4).min(bytes.len());
        let sum = checksum::internet(&bytes[..header]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.truncate(bytes.len() - stream.below(3) as usize);
        let kind = if n % 5 == 0 { ethertype::ARP } else { ethertype::IPV4 };
        router.receive(s(1), 0, framed(Packet::new(bytes), LEFT, ALICE, kind));
        left(&mut router, s(1));
    }
}
