//! A table of 1,000,000 connections: they are found, translated, renewed and expire.

use belljar_base::{Seed, SimDuration, SimTime};
use belljar_conntrack::{Attached, Conntrack, CtInfo, InetHook, Manip, NatRange, TrackContext, TrackVerdict};
use belljar_wire::{ipv4, udp};
use std::net::Ipv4Addr;

/// Datagram of a numbered client to one of 250 servers.
fn datagram(n: u32) -> Vec<u8> {
    let (client, port) = (Ipv4Addr::from(0x0a01_0000 + n / 60), 1024 + (n % 60) as u16);
    let server = Ipv4Addr::from(0x0a02_0000 + n % 250);
    let mut payload = Vec::new();
    udp::Repr::append((client.into(), port), (server.into(), 53), b"query", &mut payload);
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend_from_slice(&payload);
    ipv4::Repr::new(client, server, 17, payload.len()).emit(&mut packet);
    packet
}

/// Passes a packet through the hooks of a router that translates sources.
fn forward(ct: &mut Conntrack, packet: &mut Vec<u8>, now: SimTime) -> Attached {
    let context = TrackContext { hook: InetHook::Prerouting, now, checksum_verified: true };
    let attached = ct.track(packet, Attached::None, &context).attached;
    ct.translate(packet, attached, InetHook::Prerouting, None, now);
    if ct.nat_wanted(packet, attached, InetHook::Postrouting) {
        let range = NatRange::address(Ipv4Addr::new(192, 0, 2, 1).into());
        assert_eq!(ct.setup_nat(attached, &range, Manip::Source, now), TrackVerdict::Accept);
    }
    ct.translate(packet, attached, InetHook::Postrouting, None, now);
    let confirmed = ct.confirm(packet, attached, &context);
    assert_eq!(confirmed.verdict, TrackVerdict::Accept);
    confirmed.attached
}

fn fill(count: u32) {
    let mut ct = Conntrack::new(Seed(1).stream(&["test", "scale"]));
    ct.set_setting("nf_conntrack_max", "2000000").unwrap();
    ct.set_setting("nf_conntrack_udp_timeout", "1000").unwrap();
    ct.set_setting("nf_conntrack_udp_timeout_stream", "1000").unwrap();
    let mut now = SimTime::from_secs(10);
    let mut answers = Vec::new();
    for n in 0..count {
        let mut packet = datagram(n);
        let attached = forward(&mut ct, &mut packet, now);
        assert_eq!(attached.info(), Some(CtInfo::New));
        if n % 1000 == 0 {
            answers.push((n, packet));
        }
        now += SimDuration::from_micros(100);
    }
    assert_eq!(ct.len(), count as usize);
    for (n, sent) in answers {
        let header = udp::Packet::new_checked(&sent[20..]).unwrap();
        let (public, port) = (Ipv4Addr::new(192, 0, 2, 1), header.src_port());
        let server = Ipv4Addr::from(0x0a02_0000 + n % 250);
        let mut payload = Vec::new();
        udp::Repr::append((server.into(), 53), (public.into(), port), b"answer", &mut payload);
        let mut packet = vec![0; ipv4::HEADER_LEN];
        packet.extend_from_slice(&payload);
        ipv4::Repr::new(server, public, 17, payload.len()).emit(&mut packet);
        let attached = forward(&mut ct, &mut packet, now);
        assert_eq!(attached.info(), Some(CtInfo::EstablishedReply));
        let client = Ipv4Addr::from(0x0a01_0000 + n / 60);
        assert_eq!(packet[16..20], client.octets());
    }
    // Every other connection is used again, and outlives the rest.
    now += SimDuration::from_secs(500);
    for n in (0..count).step_by(2) {
        forward(&mut ct, &mut datagram(n), now);
    }
    now += SimDuration::from_secs(600);
    ct.expire(now);
    assert_eq!(ct.len(), count.div_ceil(2) as usize);
    ct.expire(now + SimDuration::from_secs(1000));
    assert!(ct.is_empty() && ct.next_deadline().is_none());
}

#[test]
fn many_connections_are_kept_apart() {
    fill(10_000);
}

/// In release, 17 s of a processor and 376 MB: `cargo test --release -p belljar-conntrack --test scale --
/// --ignored`.
#[test]
#[ignore = "takes seconds in release, minutes otherwise"]
fn a_million_connections_are_kept_apart() {
    fill(1_000_000);
}
