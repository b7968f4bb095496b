use super::*;

const ECHO_REPLY: u8 = 0;
const ICMP: u8 = 1;
const UDP: u8 = 17;
/// Protocol number that no host supports.
const UNKNOWN: u8 = 99;

#[test]
fn it_asks_for_the_next_hop_forwards_and_counts_the_hop() {
    let mut bench = Bench::new(config(&[1_500, 1_500]));
    let asked = bench.send(s(0), 0, packet("10.0.0.9", "10.0.1.9", 9, UDP, &[7; 8]));
    let request = arp::Repr::parse(&arp::Packet::new_checked(&asked[0].2).unwrap()).unwrap();
    assert_eq!((asked.len(), asked[0].0, asked[0].1), (1, 1, Address::BROADCAST));
    assert_eq!((request.sender_protocol, request.target_protocol), (ip("10.0.1.1"), ip("10.0.1.9")));
    let reply = belljar_net::frame::arp_reply(&request, station(1));
    let frame = belljar_net::frame::arp_frame(own(1), &reply);
    let expected = packet("10.0.0.9", "10.0.1.9", 8, UDP, &[7; 8]);
    assert_eq!(bench.receive(s(0), 1, Packet::new(frame)), [(1, station(1), expected)]);
    assert_eq!(bench.statistics().forwarded, 1);
}

/// ICMP error that the station at the first port gets for its packet: type, code, last two bytes of the
/// header, source.
fn refused(bench: &mut Bench, now: SimTime, bytes: Vec<u8>) -> (u8, u8, u16, Ipv4Addr) {
    let frames = bench.send(now, 0, bytes.clone());
    let [(0, to, error)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(*to, station(0));
    assert_eq!(checksum::internet(&error[..20]) | checksum::internet(&error[20..]), 0);
    assert_eq!(error[28..48], bytes[..20]);
    let source = belljar_net::forward::source(error);
    (error[20], error[21], u16::from_be_bytes([error[26], error[27]]), source)
}

#[test]
fn it_says_why_a_packet_goes_no_further() {
    let (mut bench, own) = (Bench::acquainted(), ip("10.0.0.1"));
    let mut told = |bytes| refused(&mut bench, s(1), bytes);
    assert_eq!(told(packet("10.0.0.9", "10.0.1.9", 1, UDP, &[])), (11, 0, 0, own));
    assert_eq!(told(packet("10.0.0.9", "10.9.0.1", 9, UDP, &[])), (3, 0, 0, own));
    let mut long = packet("10.0.0.9", "10.0.1.9", 9, UDP, &[0; 600]);
    long[6] = 0x40;
    fill_header(&mut long);
    assert_eq!(told(long), (3, 4, 600, own));
    assert_eq!(told(packet("10.0.0.9", "10.0.0.1", 9, UDP, &[0, 1, 0, 2, 0, 8, 0, 0])), (3, 3, 0, own));
    let unknown = packet("10.0.0.9", "10.0.1.1", 9, UNKNOWN, &[]);
    assert_eq!(told(unknown), (3, 2, 0, ip("10.0.1.1")));
    // Unresolved next hop: the error follows after three seconds.
    bench.send(s(3), 0, packet("10.0.0.9", "10.0.1.77", 9, UDP, &[]));
    let frames = bench.pass(ms(6_500));
    let errors: Vec<_> = frames.iter().filter(|(_, _, bytes)| bytes[0] == 0x45).collect();
    assert_eq!((errors.len(), errors[0].0, errors[0].1, &errors[0].2[20..22]), (1, s(6), 0, &[3u8, 1][..]));
    let counted = bench.statistics();
    assert_eq!((counted.unanswered, counted.no_route, counted.expired), (1, 1, 1));
}

#[test]
fn it_cuts_what_may_be_cut_and_answers_pings() {
    let mut bench = Bench::acquainted();
    let pieces = bench.send(s(1), 0, packet("10.0.0.9", "10.0.1.9", 9, UDP, &[5; 1_000]));
    assert_eq!(pieces.iter().map(|(_, _, bytes)| bytes.len()).collect::<Vec<_>>(), [596, 444]);
    let question = echo(10);
    let answers = bench.send(s(1), 0, packet("10.0.0.9", "10.0.1.1", 9, ICMP, &question));
    let answer = &answers[0].2;
    let source = belljar_net::forward::source(answer);
    assert_eq!((answer[20], &answer[24..30], source), (ECHO_REPLY, &question[4..], ip("10.0.1.1")));
}

#[test]
fn damaged_and_foreign_packets_are_not_answered() {
    let mut bench = Bench::acquainted();
    let mut damaged = packet("10.0.0.9", "10.0.1.9", 9, UDP, &[]);
    damaged[8] = 8;
    assert_eq!(bench.send(s(1), 0, damaged), []);
    assert_eq!(bench.receive(s(1), 0, Packet::new(vec![0; 13])), []);
    assert_eq!(bench.statistics().malformed, 2);
    let bytes = Packet::new(packet("10.0.0.9", "10.0.1.9", 9, UDP, &[]));
    assert_eq!(bench.receive(s(1), 0, framed(bytes, station(1), station(0), ethertype::IPV4)), []);
    for to in ["255.255.255.255", "10.0.0.255", "224.0.0.5", "127.0.0.1"] {
        assert_eq!(bench.send(s(1), 0, packet("10.0.0.9", to, 9, UDP, &[])), []);
    }
}

#[test]
fn no_frame_whatever_is_in_it_makes_it_fail() {
    let mut bench = Bench::acquainted();
    let mut stream = Seed(3).stream(&["frames"]);
    for n in 0..20_000 {
        let mut bytes = packet("10.0.0.9", "10.0.1.1", 2, ICMP, &vec![8; stream.below(64) as usize]);
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
        bench.receive(s(1), 0, framed(Packet::new(bytes), own(0), station(0), kind));
    }
}
