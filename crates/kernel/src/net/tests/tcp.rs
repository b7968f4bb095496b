use super::*;
use belljar_linux_abi::socket::TcpInfo;

/// Connects host A to a listener on host B; returns the client's and the server's descriptor.
fn joined(wire: &mut Wire) -> (u64, u64) {
    let listener = wire.hosts[B].listener(at(B, 80));
    let client = wire.hosts[A].tcp4();
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Blocked);
    wire.pass(millis(40));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Ok(0)));
    let server = wire.hosts[B].accept(listener).expect("one waits");
    wire.hosts[B].close(listener);
    (client, server)
}

/// Sends `data` from one host to the other and reads it concurrently; returns the received bytes.
fn transfer(wire: &mut Wire, from: usize, sender: u64, receiver: u64, data: &[u8]) -> Vec<u8> {
    let mut sent = 0;
    let mut got = Vec::new();
    wire.hosts[from].host_set_nonblocking(sender);
    for _ in 0..20_000 {
        while sent < data.len() {
            let end = data.len().min(sent + 50_000);
            match wire.hosts[from].send(sender, &data[sent..end]) {
                Answer::Ended(Ok(n)) => sent += n as usize,
                Answer::Ended(Err(Errno::EAGAIN)) => break,
                other => panic!("{other:?} after {sent} bytes"),
            }
        }
        wire.pass(millis(1));
        while let Ok(bytes) = wire.hosts[1 - from].receive(receiver) {
            if bytes.is_empty() {
                return got;
            }
            got.extend(bytes);
        }
        if got.len() == data.len() {
            return got;
        }
    }
    panic!("{} of {} bytes arrived", got.len(), data.len());
}

impl TestHost {
    fn host_set_nonblocking(&mut self, fd: u64) {
        self.call(c::SYS_fcntl, &[fd, c::F_SETFL as u64, c::O_NONBLOCK as u64]).unwrap();
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

#[test]
fn a_handshake_takes_one_round_trip() {
    let mut wire = Wire::new();
    let listener = wire.hosts[B].listener(at(B, 80));
    let client = wire.hosts[A].tcp4();
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Blocked);
    wire.pass(SimDuration::from_micros(19_999));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Blocked);
    wire.pass(SimDuration::from_micros(1));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Ok(0)));
    wire.pass(millis(10));
    let server = wire.hosts[B].accept(listener).unwrap();
    assert_eq!(wire.hosts[B].name_of(c::SYS_getpeername, server), Ok(wire.hosts[A].local(client)));
    assert_eq!(wire.hosts[A].name_of(c::SYS_getpeername, client), Ok(at(B, 80)));
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Ended(Err(Errno::EISCONN)));
}

#[test]
fn accept_waits_for_a_connection() {
    let mut wire = Wire::new();
    let listener = wire.hosts[B].listener(at(B, 80));
    assert_eq!(wire.hosts[B].attempt(0, c::SYS_accept, &[listener, 0, 0]), Answer::Blocked);
    let client = wire.hosts[A].tcp4();
    wire.hosts[A].connect(client, at(B, 80));
    wire.pass(millis(40));
    assert!(matches!(wire.hosts[B].go_on(0), Answer::Ended(Ok(_))));
}

#[test]
fn a_megabyte_arrives_whole_in_both_directions() {
    let mut wire = Wire::new();
    let (client, server) = joined(&mut wire);
    let data = pattern(1 << 20);
    assert_eq!(transfer(&mut wire, A, client, server, &data), data);
    assert_eq!(transfer(&mut wire, B, server, client, &data), data);
    assert!(wire.seen.iter().all(|(_, _, bytes)| bytes.len() <= 1_500));
}

#[test]
fn lost_packets_are_sent_again() {
    let mut wire = Wire::new();
    let (client, server) = joined(&mut wire);
    let data = pattern(1 << 20);
    wire.lost = (0..1_000).filter(|n| n % 37 == 5).collect();
    assert_eq!(transfer(&mut wire, A, client, server, &data), data);
}

#[test]
fn the_queue_of_the_interface_stays_short() {
    let nic = NicConfig { bandwidth_up: Some(10_000_000), ..NicConfig::default() };
    let mut wire = Wire::with_nic(&nic);
    let (client, server) = joined(&mut wire);
    let data = pattern(1 << 20);
    let started = wire.now();
    let mut longest = 0;
    wire.hosts[A].host_set_nonblocking(client);
    let (mut sent, mut got) = (0, 0);
    while got < data.len() {
        while sent < data.len()
            && let Answer::Ended(Ok(n)) =
                wire.hosts[A].send(client, &data[sent..data.len().min(sent + 50_000)])
        {
            sent += n as usize;
        }
        longest = longest.max(wire.hosts[A].host.net.eth0.nic.egress_queue_len());
        wire.pass(millis(1));
        while let Ok(bytes) = wire.hosts[B].receive(server) {
            got += bytes.len();
        }
    }
    // A millisecond at 10 Mbit/s is less than a segment: two are allowed, and ACKs.
    assert!(longest <= 6, "{longest} packets queued");
    let rate = data.len() as f64 * 8.0 / (wire.now() - started).as_secs_f64();
    assert!(rate > 8.5e6, "{rate} bit/s");
}

#[test]
fn nobody_listening_refuses() {
    let mut wire = Wire::new();
    let client = wire.hosts[A].tcp4();
    wire.hosts[A].connect(client, at(B, 81));
    wire.pass(millis(20));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Err(Errno::ECONNREFUSED)));
    // The socket can connect again.
    let listener = wire.hosts[B].listener(at(B, 81));
    wire.hosts[A].connect(client, at(B, 81));
    wire.pass(millis(40));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Ok(0)));
    assert!(wire.hosts[B].accept(listener).is_ok());
}

#[test]
fn a_connection_without_waiting_is_in_progress() {
    let mut wire = Wire::new();
    let listener = wire.hosts[B].listener(at(B, 80));
    let client = wire.hosts[A].socket(c::AF_INET, c::SOCK_STREAM | c::SOCK_NONBLOCK);
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Ended(Err(Errno::EINPROGRESS)));
    assert_eq!(wire.hosts[A].connect(client, at(B, 80)), Answer::Ended(Err(Errno::EALREADY)));
    assert_eq!(wire.hosts[A].ready(client) & c::EPOLLOUT as u32, 0);
    wire.pass(millis(40));
    assert_ne!(wire.hosts[A].ready(client) & c::EPOLLOUT as u32, 0);
    assert_eq!(wire.hosts[A].get_int(client, c::SOL_SOCKET, c::SO_ERROR), Ok(0));
    assert_ne!(wire.hosts[B].ready(listener) & READABLE, 0);
    // A connection to a closed port reports its error through SO_ERROR.
    let client = wire.hosts[A].socket(c::AF_INET, c::SOCK_STREAM | c::SOCK_NONBLOCK);
    wire.hosts[A].connect(client, at(B, 82));
    wire.pass(millis(40));
    let hung_up = (c::EPOLLERR | c::EPOLLHUP) as u32;
    assert_eq!(wire.hosts[A].ready(client) & hung_up, hung_up);
    let refused = i32::from(Errno::ECONNREFUSED.0);
    assert_eq!(wire.hosts[A].get_int(client, c::SOL_SOCKET, c::SO_ERROR), Ok(refused));
}

#[test]
fn closing_ends_both_sides_and_leaves_nothing() {
    let mut wire = Wire::new();
    let (client, server) = joined(&mut wire);
    wire.hosts[A].send(client, b"last words");
    wire.hosts[A].close(client);
    wire.pass(millis(30));
    assert_eq!(wire.hosts[B].receive(server).unwrap(), b"last words");
    assert_eq!(wire.hosts[B].receive(server).unwrap(), b"");
    wire.hosts[B].close(server);
    wire.pass(millis(1_000));
    assert_eq!(wire.hosts[B].host.net.sockets.len(), 0, "LAST-ACK is over");
    assert_eq!(wire.hosts[A].host.net.sockets.len(), 1, "TIME-WAIT");
    wire.pass(millis(61_000));
    assert_eq!(wire.hosts[A].host.net.sockets.len(), 0);
    assert_eq!(wire.hosts[A].host.timers.next(), None);
}

#[test]
fn unread_data_resets_the_sender() {
    let mut wire = Wire::new();
    let (client, server) = joined(&mut wire);
    wire.hosts[A].send(client, b"unread");
    wire.pass(millis(20));
    wire.hosts[B].close(server);
    wire.pass(millis(20));
    assert_eq!(wire.hosts[A].receive(client), Err(Errno::ECONNRESET));
    assert_eq!(wire.hosts[A].receive(client).unwrap(), b"");
    assert_eq!(wire.hosts[A].send(client, b"x"), Answer::Ended(Err(Errno::EPIPE)));
}

#[test]
fn a_closed_listener_resets_who_waits() {
    let mut wire = Wire::new();
    let listener = wire.hosts[B].listener(at(B, 80));
    let client = wire.hosts[A].tcp4();
    wire.hosts[A].connect(client, at(B, 80));
    wire.pass(millis(40));
    wire.hosts[A].go_on(0);
    wire.hosts[B].close(listener);
    wire.pass(millis(20));
    assert_eq!(wire.hosts[A].receive(client), Err(Errno::ECONNRESET));
    assert_eq!(wire.hosts[B].host.net.sockets.len(), 0);
}

#[test]
fn a_host_talks_to_itself_within_an_instant() {
    for address in [loopback(80), at(A, 80), "[::1]:80".parse().unwrap()] {
        let mut test = TestHost::new(2);
        let domain = if address.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
        let listener = test.socket(domain, c::SOCK_STREAM);
        test.bind(listener, address).unwrap();
        test.call(c::SYS_listen, &[listener, 5]).unwrap();
        let client = test.socket(domain, c::SOCK_STREAM);
        assert_eq!(test.connect(client, address), Answer::Blocked);
        test.pass(SimDuration::ZERO);
        assert_eq!(test.go_on(0), Answer::Ended(Ok(0)), "{address}");
        let server = test.accept(listener).unwrap();
        test.send(client, b"hello");
        test.pass(SimDuration::ZERO);
        assert_eq!(test.receive(server).unwrap(), b"hello");
        assert_eq!(test.name_of(c::SYS_getpeername, client), Ok(address));
        assert_eq!(test.host.net.clock.now(), SimTime::ZERO);
    }
}

#[test]
fn a_dual_stack_listener_accepts_ipv4() {
    let mut wire = Wire::new();
    let listener = wire.hosts[B].socket(c::AF_INET6, c::SOCK_STREAM);
    wire.hosts[B].bind(listener, "[::]:80".parse().unwrap()).unwrap();
    wire.hosts[B].call(c::SYS_listen, &[listener, 5]).unwrap();
    let client = wire.hosts[A].tcp4();
    wire.hosts[A].connect(client, at(B, 80));
    wire.pass(millis(40));
    wire.hosts[A].go_on(0);
    let server = wire.hosts[B].accept(listener).unwrap();
    let peer = wire.hosts[B].name_of(c::SYS_getpeername, server).unwrap();
    assert_eq!(peer.ip().to_string(), "::ffff:11.0.0.1");
}

#[test]
fn a_port_with_connections_can_be_taken_again_only_with_reuse() {
    let mut wire = Wire::new();
    let (_client, _server) = joined(&mut wire);
    let again = wire.hosts[B].tcp4();
    assert_eq!(wire.hosts[B].bind(again, at(B, 80)), Err(Errno::EADDRINUSE));
    let listener = wire.hosts[B].tcp4();
    wire.hosts[B].set(listener, c::SOL_SOCKET, c::SO_REUSEADDR, 1).unwrap();
    wire.hosts[B].bind(listener, at(B, 81)).unwrap();
    wire.hosts[B].call(c::SYS_listen, &[listener, 5]).unwrap();
    let client = wire.hosts[A].tcp4();
    wire.hosts[A].connect(client, at(B, 81));
    wire.pass(millis(40));
    wire.hosts[B].accept(listener).unwrap();
    wire.hosts[B].close(listener);
    let again = wire.hosts[B].tcp4();
    wire.hosts[B].set(again, c::SOL_SOCKET, c::SO_REUSEADDR, 1).unwrap();
    assert_eq!(wire.hosts[B].bind(again, at(B, 81)), Ok(0));
    assert_eq!(wire.hosts[B].call(c::SYS_listen, &[again, 5]), Ok(0));
}

#[test]
fn a_blocked_sender_goes_on_when_there_is_room() {
    let mut wire = Wire::new();
    let (client, server) = joined(&mut wire);
    wire.hosts[A].set(client, c::SOL_SOCKET, c::SO_SNDBUF, 10_000).unwrap();
    let data = pattern(500_000);
    assert_eq!(wire.hosts[A].send(client, &data), Answer::Blocked);
    let mut got = Vec::new();
    for _ in 0..5_000 {
        wire.pass(millis(1));
        while let Ok(bytes) = wire.hosts[B].receive(server) {
            got.extend(bytes);
        }
        if wire.hosts[A].go_on(0) == Answer::Ended(Ok(500_000)) {
            break;
        }
    }
    wire.pass(millis(50));
    while let Ok(bytes) = wire.hosts[B].receive(server) {
        got.extend(bytes);
    }
    assert!(got == data, "{} bytes", got.len());
}

#[test]
fn tcp_info_tells_the_state_and_the_round_trip() {
    let mut wire = Wire::new();
    let (client, _) = joined(&mut wire);
    let test = &mut wire.hosts[A];
    let len = test.put(ADDRESS_LEN, &(size_of::<TcpInfo>() as i32).to_le_bytes());
    let at = crate::testing::DATA + BUFFER;
    let args = [client, c::IPPROTO_TCP as u64, c::TCP_INFO as u64, at, len];
    test.call(c::SYS_getsockopt, &args).unwrap();
    let info = TcpInfo::read_from_bytes(&test.get(BUFFER, size_of::<TcpInfo>())).unwrap();
    assert_eq!(info.state, 1);
    assert_eq!(info.rtt, 20_000);
    assert!(info.snd_mss >= 1_400 && info.snd_cwnd >= 10, "{info:?}");
}

#[test]
fn ephemeral_ports_come_from_their_range_and_differ() {
    let mut test = TestHost::new(1);
    let mut ports: Vec<u16> = (0..200)
        .map(|_| {
            let fd = test.tcp4();
            test.bind(fd, loopback(0)).unwrap();
            test.local(fd).port()
        })
        .collect();
    assert!(ports.iter().all(|port| belljar_netstack::endpoint::EPHEMERAL.contains(port)));
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 200);
}

#[test]
fn a_full_window_over_loopback_opens_again_as_it_is_read() {
    let mut test = TestHost::new(1);
    let listener = test.listener(loopback(80));
    let client = test.tcp4();
    test.connect(client, loopback(80));
    test.pass(SimDuration::ZERO);
    test.go_on(0);
    let server = test.accept(listener).unwrap();
    test.host_set_nonblocking(client);
    let mut total = 0;
    for _ in 0..5 {
        while let Answer::Ended(Ok(n)) = test.send(client, &[7; 65_536]) {
            total += n as usize;
            test.pass(SimDuration::ZERO);
        }
        test.pass(millis(30));
    }
    assert_eq!(test.ready(client) & c::EPOLLOUT as u32, 0);
    let mut got = 0;
    while got < total {
        got += test.receive(server).expect("more is to come").len();
        test.pass(SimDuration::ZERO);
    }
    assert_eq!(got, total);
    // A segment of lo's whole MTU would not fit into the length field of its IP header.
    assert_eq!(test.host.net.counters.malformed, 0);
    assert_ne!(test.ready(client) & c::EPOLLOUT as u32, 0);
}
