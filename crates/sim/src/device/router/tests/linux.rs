//! Behaviour that routers share with Linux through the stack, checked against Linux 6.18 in a network
//! namespace.

use super::v6::{datagram, introduce, message};
use super::*;
use belljar_net::routes::{NextHop, Prefix, Route};
use belljar_wire::icmpv6::kind;
use belljar_wire::tcp;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[test]
fn errors_go_to_one_host_six_at_once_and_then_one_each_second() {
    let mut bench = Bench::acquainted();
    let expired = || packet("10.0.0.9", "10.0.1.9", 1, UDP, &[]);
    let told: Vec<u64> =
        (1_000..4_000).step_by(20).filter(|n| !bench.send(ms(*n), 0, expired()).is_empty()).collect();
    assert_eq!(told, [1_000, 1_020, 1_040, 1_060, 1_080, 1_100, 2_000, 3_000]);
    assert_eq!(bench.statistics().expired, 150);
    let mut bench = Bench::new(config(&[1_500, 1_280]));
    introduce(&mut bench);
    let mut is_told = |n: &u64| !bench.send(ms(*n), 0, datagram("2001:db8:1::7", 1, 8)).is_empty();
    let told: Vec<u64> = (1_000..1_420).step_by(20).filter(|n| is_told(n)).collect();
    assert_eq!(told, [1_000, 1_020, 1_040, 1_060, 1_080, 1_100, 1_120, 1_200, 1_300, 1_400]);
}

#[test]
fn errors_come_from_the_interface_that_they_leave_by() {
    let mut bench = Bench::acquainted();
    let back = Route { hops: vec![NextHop::new(3, Some(ip("10.0.2.9")))], ..Route::by(3, None, 0) };
    bench.0.stack.routes.insert(Prefix::new(ip("10.0.0.0"), 25), 0, back);
    let frames = bench.send(s(1), 0, packet("10.0.0.9", "10.0.1.9", 1, UDP, &[]));
    let [(2, to, error)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((*to, belljar_net::forward::source(error)), (station(2), ip("10.0.2.1")));
}

#[test]
fn a_packet_to_all_on_another_network_is_not_passed_on() {
    let mut bench = Bench::acquainted();
    assert_eq!(bench.send(s(1), 0, packet("10.0.0.9", "10.0.1.255", 9, UDP, &[])), []);
    assert_eq!(bench.statistics().forwarded, 0);
}

#[test]
fn a_packet_from_an_address_of_no_host_is_not_passed_on() {
    let mut bench = Bench::acquainted();
    for from in ["127.0.0.1", "0.0.0.0", "224.0.0.5", "255.255.255.255"] {
        assert_eq!(bench.send(s(1), 0, packet(from, "10.0.1.9", 9, UDP, &[])), [], "{from}");
    }
}

#[test]
fn a_sender_is_told_of_a_better_router_on_its_link() {
    let mut bench = Bench::acquainted();
    bench.ask(0, "10.0.0.8", "10.0.0.1");
    let frames = bench.send(s(1), 0, packet("10.0.0.9", "10.0.0.8", 9, UDP, &[]));
    let [(0, _, redirect), (0, _, passed)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((&redirect[20..22], &redirect[24..28]), (&[5, 1][..], &[10, 0, 0, 8][..]));
    // The redirect quotes the packet as forwarded.
    assert_eq!((&redirect[28..48], passed[8]), (&passed[..20], 8));
}

#[test]
fn a_connection_to_a_router_is_refused() {
    let mut bench = Bench::acquainted();
    let (from, to) = (ip("10.0.0.9"), ip("10.0.1.1"));
    let mut syn = Vec::new();
    tcp::Repr { src_port: 1, dst_port: 2, flags: tcp::Flags::SYN, ..tcp::Repr::default() }.append(
        from.into(),
        to.into(),
        (b"", b""),
        &mut syn,
    );
    let frames = bench.send(s(1), 0, packet("10.0.0.9", "10.0.1.1", 9, TCP, &syn));
    let [(0, _, answer)] = &frames[..] else { panic!("{frames:?}") };
    // RST and ACK.
    assert_eq!((answer[9], answer[33]), (TCP, 0x14));
}

#[test]
fn a_ping_in_pieces_is_answered() {
    let mut bench = Bench::acquainted();
    let whole = packet("10.0.0.9", "10.0.1.1", 9, ICMP, &echo(1_000));
    let mut frames = Vec::new();
    belljar_net::forward::fragment(&whole, 600, |piece| frames.extend(bench.send(s(1), 0, piece)));
    let [(0, _, answer)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((answer.len(), answer[20]), (1_020, 0));
}

#[test]
fn identifications_are_counted_by_receiver() {
    let mut bench = Bench::acquainted();
    let mut ident = |to: &str| {
        let frames = bench.send(s(1), 0, packet("10.0.0.9", to, 9, ICMP, &echo(10)));
        u16::from_be_bytes([frames[0].2[4], frames[0].2[5]])
    };
    let (first, other, second) = (ident("10.0.0.1"), ident("10.0.1.1"), ident("10.0.0.1"));
    assert_eq!(second, first.wrapping_add(1));
    assert_ne!(other, first.wrapping_add(1));
}

#[test]
fn messages_of_icmpv6_have_a_flow_label() {
    let mut bench = Bench::new(config(&[1_500, 1_280]));
    introduce(&mut bench);
    let frames = bench.send(s(1), 0, datagram("2001:db8:1::7", 1, 8));
    assert_eq!(message(&frames)[0], kind::TIME_EXCEEDED);
    assert_ne!(frames[0].2[1..4], [0, 0, 0]);
}
