//! Lazy checksums: computed only where a consumer reads them.

use super::*;
use belljar_netstack::ip::IpHeader;
use belljar_wire::{protocol, tcp, udp};

/// `ETH_P_ALL` in network order.
const ALL: u64 = 0x0300;
const RAW: u64 = c::SOCK_RAW as u64;

/// True if an IP packet has a correct transport checksum.
fn is_right(packet: &[u8]) -> bool {
    let (header, payload) = IpHeader::parse(packet).expect("a header");
    let segment = &packet[payload];
    match header.protocol {
        protocol::TCP => tcp::Packet::new_checked(segment).unwrap().verify_checksum(header.src, header.dst),
        protocol::UDP => {
            let datagram = udp::Packet::new_checked(segment).unwrap();
            datagram.checksum() != 0 && datagram.verify_checksum(header.src, header.dst)
        }
        other => panic!("protocol {other}"),
    }
}

/// UDP sockets of A, bound to port 1000, and of B, bound to port 7.
fn talkers(wire: &mut Wire) -> (u64, u64) {
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[A].bind(a, at(A, 1000)).unwrap();
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    (a, b)
}

/// Sends a datagram from A to B and receives it; returns its checksum state at departure.
fn said(wire: &mut Wire, a: u64, b: u64) -> ChecksumState {
    let before = wire.checksums.len();
    wire.hosts[A].send_to(a, b"a message", at(B, 7)).unwrap();
    wire.pass(millis(11));
    assert_eq!(wire.hosts[B].receive(b), Ok(b"a message".to_vec()));
    assert_eq!(wire.checksums.len(), before + 1);
    wire.checksums[before]
}

/// Packets that a host has captured since the previous call.
fn captured(wire: &mut Wire, host: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    wire.hosts[host].host.net.drain_captured(|run| found.extend(run.iter().map(|(_, bytes)| bytes.to_vec())));
    found
}

#[test]
fn what_nobody_looks_at_is_not_computed() {
    let mut wire = Wire::new();
    let (a, b) = talkers(&mut wire);
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
    let listener = wire.hosts[B].listener(at(B, 80));
    let client = wire.hosts[A].tcp4();
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Blocked);
    wire.pass(millis(40));
    let server = wire.hosts[B].accept(listener).unwrap();
    assert_eq!(wire.hosts[A].send(client, b"a stream"), Answer::Ended(Ok(8)));
    wire.pass(millis(40));
    assert_eq!(wire.hosts[B].receive(server), Ok(b"a stream".to_vec()));
    assert!(wire.checksums.len() > 5 && wire.checksums.iter().all(|known| *known == ChecksumState::Open));
    assert!(wire.seen.iter().all(|(_, _, bytes)| is_right(bytes)));
    let malformed = |host: usize| wire.hosts[host].host.net.counters.malformed;
    assert_eq!((malformed(A), malformed(B)), (0, 0));
}

#[test]
fn who_looks_at_what_is_sent_has_it_computed() {
    let mut wire = Wire::new();
    let (a, b) = talkers(&mut wire);
    wire.hosts[A].host.net.config.capture = true;
    assert_eq!(said(&mut wire, a, b), ChecksumState::Intact);
    let found = captured(&mut wire, A);
    assert!(found.len() == 1 && is_right(&found[0]));
    wire.hosts[A].host.net.config.capture = false;
    let tap = wire.hosts[A].call(c::SYS_socket, &[c::AF_PACKET as u64, RAW, ALL]).unwrap();
    assert_eq!(said(&mut wire, a, b), ChecksumState::Intact);
    assert!(is_right(&wire.hosts[A].receive(tap).unwrap()[14..]));
    wire.hosts[A].close(tap);
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
}

#[test]
fn one_that_begins_to_look_while_a_packet_waits_sees_it_whole() {
    // A packet of 500 bytes takes 40 ms.
    let slow = NicConfig { bandwidth_up: Some(100_000), ..NicConfig::default() };
    let mut wire = Wire::with_nic(&slow);
    let (a, _) = talkers(&mut wire);
    for _ in 0..3 {
        wire.hosts[A].send_to(a, &[1; 500], at(B, 7)).unwrap();
    }
    let tap = wire.hosts[A].call(c::SYS_socket, &[c::AF_PACKET as u64, RAW, ALL]).unwrap();
    wire.pass(millis(200));
    let mut heard = 0;
    while let Ok(frame) = wire.hosts[A].receive(tap) {
        assert!(is_right(&frame[14..]));
        heard += 1;
    }
    assert!(heard >= 2, "{heard}");
    assert_eq!(wire.checksums[0], ChecksumState::Open);
}

#[test]
fn who_looks_at_what_has_come_has_it_computed() {
    let mut wire = Wire::new();
    let (a, b) = talkers(&mut wire);
    let raw = wire.hosts[B].call(c::SYS_socket, &[c::AF_INET as u64, RAW, 17]).unwrap();
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
    let heard = wire.hosts[B].receive(raw).unwrap();
    assert!(is_right(&heard));
    wire.hosts[B].close(raw);
    let tap = wire.hosts[B].call(c::SYS_socket, &[c::AF_PACKET as u64, RAW, ALL]).unwrap();
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
    assert!(is_right(&wire.hosts[B].receive(tap).unwrap()[14..]));
    wire.hosts[B].close(tap);
    wire.hosts[B].host.net.config.capture = true;
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
    let found = captured(&mut wire, B);
    assert!(found.len() == 1 && is_right(&found[0]));
    wire.hosts[B].host.net.config.capture = false;
    // Filter that accepts this checksum only, which is the same for the same datagram: ldh [6]; jeq; ret;
    // ret.
    let sum = u32::from(u16::from_be_bytes([heard[26], heard[27]]));
    let program = [(0x28u16, 0u8, 0u8, 6u32), (0x15, 0, 1, sum), (0x06, 0, 0, 0xffff), (0x06, 0, 0, 0)];
    let raw: Vec<u8> = program
        .iter()
        .flat_map(|i| [&i.0.to_le_bytes()[..], &[i.1, i.2], &i.3.to_le_bytes()].concat())
        .collect();
    let instructions = wire.hosts[B].put(BUFFER, &raw);
    let described = [&4u64.to_le_bytes()[..], &instructions.to_le_bytes()].concat();
    let described = wire.hosts[B].put(ADDRESS, &described);
    let (level, name) = (c::SOL_SOCKET as u64, c::SO_ATTACH_FILTER as u64);
    wire.hosts[B].call(c::SYS_setsockopt, &[b, level, name, described, 16]).unwrap();
    assert_eq!(said(&mut wire, a, b), ChecksumState::Open);
}

#[test]
fn an_error_quotes_what_was_sent() {
    let mut wire = Wire::new();
    let a = wire.hosts[A].udp4();
    wire.hosts[A].send_to(a, b"to nobody", at(B, 9)).unwrap();
    wire.pass(millis(30));
    assert_eq!(wire.checksums, [ChecksumState::Open, ChecksumState::Untested]);
    let quoted = &wire.seen[1].2[28..];
    assert!(quoted == wire.seen[0].2 && is_right(quoted));
}

#[test]
fn what_is_passed_on_has_it() {
    let mut wire = Wire::new();
    let a = wire.hosts[A].udp4();
    wire.hosts[A].send_to(a, b"for another", at(B, 9)).unwrap();
    let mut departures = Vec::new();
    wire.hosts[A].host.net.take_departures(&mut departures);
    let packet = departures.remove(0).packet;
    assert_eq!(packet.checksum(), ChecksumState::Open);
    // B has changed its address and forwards.
    wire.hosts[B].host.net.sysctls.forwarding = true;
    wire.hosts[B].host.net.interfaces[ETH0].addresses[0].ip = address(2);
    let end = wire.hosts[B].host.net.ip_input(ETH0, packet);
    wire.hosts[B].host.net.account.receive(end);
    wire.hosts[B].host.net.flush_network();
    wire.hosts[B].host.net.take_departures(&mut departures);
    let passed: Vec<_> = departures.iter().filter(|d| d.packet.bytes()[9] == protocol::UDP).collect();
    assert_eq!(passed.len(), 1);
    assert!(passed[0].packet.bytes()[8] == 63 && is_right(passed[0].packet.bytes()));
}

#[test]
fn what_has_no_checksum_or_goes_in_pieces_is_not_left_open() {
    let mut wire = Wire::new();
    let (a, b) = talkers(&mut wire);
    wire.hosts[A].send_to(a, &[5; 2_000], at(B, 7)).unwrap();
    wire.pass(millis(11));
    assert_eq!(wire.hosts[B].receive(b), Ok(vec![5; 2_000]));
    assert_eq!(wire.checksums, [ChecksumState::Untested; 2]);
    wire.hosts[A].set(a, c::SOL_SOCKET, c::SO_NO_CHECK, 1).unwrap();
    assert_eq!(said(&mut wire, a, b), ChecksumState::Intact);
    assert_eq!(wire.seen[2].2[26..28], [0, 0]);
}

/// Checksum states of the packets queued on A's `lo`.
fn on_lo(wire: &Wire) -> Vec<ChecksumState> {
    wire.hosts[A].host.net.lo.queue.iter().map(|(packet, _)| packet.checksum()).collect()
}

#[test]
fn over_lo_it_is_the_same() {
    let mut wire = Wire::new();
    let (one, other) = (wire.hosts[A].udp4(), wire.hosts[A].udp4());
    wire.hosts[A].bind(other, loopback(7)).unwrap();
    let raw = wire.hosts[A].call(c::SYS_socket, &[c::AF_INET as u64, RAW, 17]).unwrap();
    wire.hosts[A].send_to(one, b"here", loopback(7)).unwrap();
    assert_eq!(on_lo(&wire), [ChecksumState::Open]);
    wire.pass(millis(1));
    assert_eq!(wire.hosts[A].receive(other), Ok(b"here".to_vec()));
    assert!(is_right(&wire.hosts[A].receive(raw).unwrap()));
    wire.hosts[A].host.net.config.capture = true;
    wire.hosts[A].send_to(one, b"there", loopback(7)).unwrap();
    assert_eq!(on_lo(&wire), [ChecksumState::Intact]);
    wire.pass(millis(1));
    let found = captured(&mut wire, A);
    assert!(found.len() == 1 && is_right(&found[0]));
}
