use super::*;

#[test]
fn a_ping_is_answered_by_the_kernel() {
    let mut wire = Wire::new();
    let icmp = c::IPPROTO_ICMP as u64;
    let ping = wire.hosts[A].call(c::SYS_socket, &[c::AF_INET as u64, c::SOCK_DGRAM as u64, icmp]).unwrap();
    let raw = wire.hosts[A].call(c::SYS_socket, &[c::AF_INET as u64, c::SOCK_RAW as u64, icmp]).unwrap();
    // Type, code, checksum, id, sequence, data; the kernel fills in checksum and id.
    let request = [8, 0, 0, 0, 0, 0, 0, 3, b'd', b'a', b't', b'a'];
    assert_eq!(wire.hosts[A].send_to(ping, &request, at(B, 0)), Ok(12));
    wire.pass(millis(19));
    assert_eq!(wire.hosts[A].receive(ping), Err(Errno::EAGAIN));
    wire.pass(millis(1));
    let (reply, source) = wire.hosts[A].receive_from(ping).unwrap();
    assert_eq!((reply[0], &reply[6..]), (0, &request[6..]));
    assert_eq!(source, at(B, 0));
    // A raw socket sees the IP header too.
    let (packet, _) = wire.hosts[A].receive_from(raw).unwrap();
    assert_eq!((packet[0], packet[9], packet[20]), (0x45, 1, 0));
    assert_eq!(&packet[20..], &reply);
    assert_eq!(wire.hosts[A].send_to(ping, &[0; 12], at(B, 0)), Err(Errno::EINVAL), "no request");
}

#[test]
fn a_damaged_packet_is_dropped() {
    let mut wire = Wire::new();
    let b = wire.hosts[B].udp4();
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    let a = wire.hosts[A].udp4();
    wire.hosts[A].send_to(a, b"whole", at(B, 7)).unwrap();
    let mut departures = Vec::new();
    wire.hosts[A].host.net.take_departures(&mut departures);
    let mut packet = departures.remove(0).packet.into_bytes();
    let last = packet.len() - 1;
    packet[last] ^= 1;
    let net = &mut wire.hosts[B].host.net;
    let end = net.ip_input(ETH0, Packet::new(packet));
    net.account.receive(end);
    assert_eq!(wire.hosts[B].receive(b), Err(Errno::EAGAIN));
    assert_eq!(wire.hosts[B].host.net.counters.malformed, 1);
    // A packet with a wrong header is malformed too.
    let net = &mut wire.hosts[B].host.net;
    let end = net.ip_input(ETH0, Packet::new(vec![0x45; 40]));
    net.account.receive(end);
    assert_eq!(net.counters.malformed, 2);
    let dropped = net.packet_account().dropped;
    assert_eq!((dropped["checksum"], dropped["malformed"]), (1, 1));
}
