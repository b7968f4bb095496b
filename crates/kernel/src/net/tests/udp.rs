use super::*;

#[test]
fn a_datagram_takes_the_latency_and_the_serialisation() {
    let nic = NicConfig { bandwidth_up: Some(8_000_000), ..NicConfig::default() };
    let mut wire = Wire::with_nic(&nic);
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    assert_eq!(wire.hosts[A].send_to(a, &[5; 972], at(B, 7)), Ok(972));
    // 1,000 bytes with headers at 1 MB/s.
    wire.pass(SimDuration::from_nanos(10_999_999));
    assert_eq!(wire.hosts[B].receive(b), Err(Errno::EAGAIN));
    wire.pass(SimDuration::from_nanos(1));
    let (data, source) = wire.hosts[B].receive_from(b).unwrap();
    assert_eq!(data, [5; 972]);
    assert_eq!(source, at(A, wire.hosts[A].local(a).port()));
    assert_eq!(wire.hosts[A].local(a).ip(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
}

#[test]
fn large_datagrams_are_fragmented_and_put_together() {
    let mut wire = Wire::new();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    let data: Vec<u8> = (0..60_000u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(wire.hosts[A].send_to(a, &data, at(B, 7)), Ok(60_000));
    wire.pass(millis(20));
    assert_eq!(wire.hosts[B].receive_from(b).unwrap().0, data);
    assert_eq!(wire.seen.len(), 60_008usize.div_ceil(1_480));
    assert!(wire.seen.iter().all(|(_, _, bytes)| bytes.len() <= 1_500));
    // With DF the send fails.
    wire.hosts[A].set(a, c::IPPROTO_IP, c::IP_MTU_DISCOVER, c::IP_PMTUDISC_DO).unwrap();
    assert_eq!(wire.hosts[A].send_to(a, &data, at(B, 7)), Err(Errno::EMSGSIZE));
}

#[test]
fn a_closed_port_is_reported_to_a_connected_socket_once() {
    let mut wire = Wire::new();
    let a = wire.hosts[A].udp4();
    assert_eq!(wire.hosts[A].connect(a, at(B, 9)), Answer::Ended(Ok(0)));
    assert_eq!(wire.hosts[A].send(a, b"x"), Answer::Ended(Ok(1)));
    wire.pass(millis(30));
    assert_ne!(wire.hosts[A].ready(a) & c::EPOLLERR as u32, 0);
    assert_eq!(wire.hosts[A].receive(a), Err(Errno::ECONNREFUSED));
    assert_eq!(wire.hosts[A].receive(a), Err(Errno::EAGAIN));
    // An unconnected socket does not receive the error.
    let a = wire.hosts[A].udp4();
    wire.hosts[A].send_to(a, b"x", at(B, 9)).unwrap();
    wire.pass(millis(30));
    assert_eq!(wire.hosts[A].receive(a), Err(Errno::EAGAIN));
}

#[test]
fn a_reader_waits_until_its_time_out_or_a_datagram() {
    let mut wire = Wire::new();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    let base = crate::testing::DATA;
    let receive = [b, base + BUFFER, 100];
    assert_eq!(wire.hosts[B].attempt(0, c::SYS_recvfrom, &receive), Answer::Blocked);
    wire.pass(millis(5));
    assert_eq!(wire.hosts[B].go_on(0), Answer::Blocked);
    wire.hosts[A].send_to(a, b"late", at(B, 7)).unwrap();
    wire.pass(millis(20));
    assert_eq!(wire.hosts[B].go_on(0), Answer::Ended(Ok(4)));

    // struct timeval: 0 s, 60,000 us.
    let mut time = 0u64.to_le_bytes().to_vec();
    time.extend(60_000u64.to_le_bytes());
    let value = wire.hosts[B].put(BUFFER, &time);
    let option = [b, c::SOL_SOCKET as u64, c::SO_RCVTIMEO as u64, value, 16];
    wire.hosts[B].call(c::SYS_setsockopt, &option).unwrap();
    assert_eq!(wire.hosts[B].attempt(0, c::SYS_recvfrom, &receive), Answer::Blocked);
    wire.pass(millis(59));
    assert_eq!(wire.hosts[B].go_on(0), Answer::Blocked);
    wire.pass(millis(1));
    assert_eq!(wire.hosts[B].go_on(0), Answer::Ended(Err(Errno::EAGAIN)));
}

#[test]
fn a_full_receive_buffer_loses_datagrams_and_counts_them() {
    let mut test = TestHost::new(1);
    let (a, b) = (test.udp4(), test.udp4());
    test.bind(b, loopback(7)).unwrap();
    for _ in 0..1_000 {
        test.send_to(a, b"x", loopback(7)).unwrap();
    }
    test.pass(SimDuration::ZERO);
    let received = std::iter::from_fn(|| test.receive(b).ok()).count();
    // Linux: 212,992 bytes at 832 each.
    assert_eq!(received, 256);
    assert_eq!(test.host.net.counters.udp[0][0].buffer_full, 744);
}

#[test]
fn a_sender_is_held_back_by_its_send_buffer() {
    let nic = NicConfig { bandwidth_up: Some(1_000_000), ..NicConfig::default() };
    let mut wire = Wire::with_nic(&nic);
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, at(B, 7)).unwrap();
    wire.hosts[A].connect(a, at(B, 7));
    let sent = (0..1_000).take_while(|_| wire.hosts[A].send(a, &[1; 1_000]) != Answer::Blocked).count();
    assert!((80..150).contains(&sent), "{sent} datagrams");
    wire.pass(millis(3_000));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Ok(1_000)));
    wire.pass(millis(3_000));
    let received = std::iter::from_fn(|| wire.hosts[B].receive(b).ok()).count();
    let lost = wire.hosts[B].host.net.counters.udp[0][0].buffer_full as usize;
    assert_eq!(received + lost, sent + 1);
    assert_eq!(wire.hosts[A].host.net.eth0.nic.counters().dropped_in_total(), 0);
}

#[test]
fn the_closest_socket_gets_the_datagram() {
    let mut test = TestHost::new(1);
    let sender = test.udp4();
    test.bind(sender, loopback(1_000)).unwrap();
    let reuse = |test: &mut TestHost| {
        let fd = test.udp4();
        test.set(fd, c::SOL_SOCKET, c::SO_REUSEADDR, 1).unwrap();
        fd
    };
    let any = reuse(&mut test);
    test.bind(any, "0.0.0.0:7".parse().unwrap()).unwrap();
    let bound = reuse(&mut test);
    test.bind(bound, loopback(7)).unwrap();
    let connected = reuse(&mut test);
    test.bind(connected, loopback(7)).unwrap();
    test.connect(connected, loopback(1_000));
    for expected in [connected, bound, any] {
        test.send_to(sender, b"x", loopback(7)).unwrap();
        test.pass(SimDuration::ZERO);
        for fd in [connected, bound, any] {
            let ready = fd <= expected && test.host.file_of(test.process, fd as i32).is_ok();
            assert_eq!(ready && test.ready(fd) & READABLE != 0, fd == expected, "fd {fd}");
        }
        test.receive(expected).unwrap();
        test.close(expected);
    }
}

#[test]
fn a_port_is_shared_only_by_agreement() {
    let mut test = TestHost::new(1);
    let (a, b, v6) = (test.udp4(), test.udp4(), test.socket(c::AF_INET6, c::SOCK_DGRAM));
    test.bind(a, loopback(7)).unwrap();
    assert_eq!(test.bind(b, loopback(7)), Err(Errno::EADDRINUSE));
    assert_eq!(test.bind(b, "0.0.0.0:7".parse().unwrap()), Err(Errno::EADDRINUSE));
    assert_eq!(test.bind(v6, "[::]:7".parse().unwrap()), Err(Errno::EADDRINUSE));
    assert_eq!(test.bind(b, at(A, 7)), Ok(0), "another address");
    assert_eq!(test.bind(b, at(A, 7)), Err(Errno::EINVAL), "bound already");
    test.set(v6, c::IPPROTO_IPV6, c::IPV6_V6ONLY, 1).unwrap();
    assert_eq!(test.bind(v6, "[::]:7".parse().unwrap()), Ok(0));
    let c = test.udp4();
    assert_eq!(test.bind(c, "9.9.9.9:7".parse().unwrap()), Err(Errno::EADDRNOTAVAIL));
}

#[test]
fn dual_stack_sockets_show_mapped_addresses() {
    let mut wire = Wire::new();
    let a = wire.hosts[A].udp4();
    let b = wire.hosts[B].socket(c::AF_INET6, c::SOCK_DGRAM);
    wire.hosts[B].bind(b, "[::]:7".parse().unwrap()).unwrap();
    wire.hosts[A].send_to(a, b"four", at(B, 7)).unwrap();
    wire.pass(millis(20));
    let (data, source) = wire.hosts[B].receive_from(b).unwrap();
    assert_eq!((data.as_slice(), source.ip().to_string()), (&b"four"[..], "::ffff:11.0.0.1".to_string()));
    // The reply, and a datagram to itself over IPv6.
    wire.hosts[B].send_to(b, b"back", source).unwrap();
    wire.hosts[B].send_to(b, b"six", "[::1]:7".parse().unwrap()).unwrap();
    wire.pass(millis(20));
    assert_eq!(wire.hosts[A].receive_from(a).unwrap(), (b"back".to_vec(), at(B, 7)));
    assert_eq!(wire.hosts[B].receive_from(b).unwrap(), (b"six".to_vec(), "[::1]:7".parse().unwrap()));
    let beyond = wire.hosts[B].send_to(b, b"x", "[2001:db8::1]:7".parse().unwrap());
    assert_eq!(beyond, Err(Errno::ENETUNREACH));
}

#[test]
fn corked_bytes_make_one_datagram() {
    let mut test = TestHost::new(1);
    let (a, b) = (test.udp4(), test.udp4());
    test.bind(b, loopback(7)).unwrap();
    test.connect(a, loopback(7));
    test.set(a, SOL_UDP, c::UDP_CORK, 1).unwrap();
    test.send(a, b"one ");
    test.send(a, b"datagram");
    test.pass(SimDuration::ZERO);
    assert_eq!(test.receive(b), Err(Errno::EAGAIN));
    test.set(a, SOL_UDP, c::UDP_CORK, 0).unwrap();
    test.pass(SimDuration::ZERO);
    assert_eq!(test.receive(b).unwrap(), b"one datagram");
}

const SOL_UDP: i32 = c::IPPROTO_UDP;

#[test]
fn broadcasts_need_permission_and_reach_everybody() {
    let mut wire = Wire::new();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, "0.0.0.0:67".parse().unwrap()).unwrap();
    let all = "255.255.255.255:67".parse().unwrap();
    assert_eq!(wire.hosts[A].send_to(a, b"x", all), Err(Errno::EACCES));
    wire.hosts[A].set(a, c::SOL_SOCKET, c::SO_BROADCAST, 1).unwrap();
    wire.hosts[A].send_to(a, b"x", all).unwrap();
    wire.pass(millis(20));
    assert_eq!(wire.hosts[B].receive(b).unwrap(), b"x");
}
