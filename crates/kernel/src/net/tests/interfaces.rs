use super::*;
use crate::testing::DATA;
use belljar_linux_net::proc;

/// Sends a netlink request; returns the datagrams of the answer.
fn ask(test: &mut TestHost, fd: u64, kind: u16, flags: u16, body: &[u8]) -> Vec<Vec<u8>> {
    let mut request = ((16 + body.len()) as u32).to_le_bytes().to_vec();
    request.extend(kind.to_le_bytes());
    request.extend(flags.to_le_bytes());
    request.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    request.extend(body);
    let at = test.put(BUFFER, &request);
    test.call(c::SYS_sendto, &[fd, at, request.len() as u64]).unwrap();
    std::iter::from_fn(|| test.receive(fd).ok()).collect()
}

#[test]
fn rtnetlink_lists_links_and_addresses() {
    let mut test = TestHost::new(1);
    let fd = test.socket(c::AF_NETLINK, c::SOCK_RAW);
    let dump = (c::NLM_F_REQUEST | c::NLM_F_DUMP) as u16;
    let links = ask(&mut test, fd, c::RTM_GETLINK, dump, &[0; 16]);
    assert_eq!(links.len(), 2, "the links, then that this was all");
    let text = String::from_utf8_lossy(&links[0]).into_owned();
    assert!(text.contains("lo\0") && text.contains("eth0\0"), "{text}");
    assert_eq!(links[1][4], c::NLMSG_DONE as u8);

    let addresses = ask(&mut test, fd, c::RTM_GETADDR, dump, &[c::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0]);
    for ip in [[127, 0, 0, 1], [11, 0, 0, 1]] {
        assert!(addresses[0].windows(4).any(|window| window == ip), "{ip:?}");
    }
    // Unsupported requests are refused, not ignored.
    let refused = ask(&mut test, fd, c::RTM_NEWADDR, c::NLM_F_REQUEST as u16, &[0; 8]);
    assert_eq!(refused[0][4], c::NLMSG_ERROR as u8);
    let errno = i32::from_le_bytes(refused[0][16..20].try_into().unwrap());
    assert_eq!(errno, -i32::from(Errno::EOPNOTSUPP.0));
}

#[test]
fn ioctls_describe_the_interfaces() {
    let mut test = TestHost::new(1);
    let fd = test.udp4();
    let ask = |test: &mut TestHost, name: &[u8], request: u64| {
        let mut entry = [0; 40];
        entry[..name.len()].copy_from_slice(name);
        test.put(BUFFER, &entry);
        test.call(c::SYS_ioctl, &[fd, request, DATA + BUFFER]).map(|_| test.get(BUFFER + 16, 24))
    };
    assert_eq!(ask(&mut test, b"eth0", 0x8915).unwrap()[4..8], [11, 0, 0, 1]);
    assert_eq!(ask(&mut test, b"lo", 0x8915).unwrap()[4..8], [127, 0, 0, 1]);
    assert_eq!(ask(&mut test, b"eth0", 0x8921).unwrap()[..4], 1_500i32.to_le_bytes());
    assert_eq!(ask(&mut test, b"eth0", 0x8933).unwrap()[..4], 2i32.to_le_bytes());
    assert_eq!(ask(&mut test, b"eth7", 0x8933), Err(Errno::ENODEV));
    // SIOCGIFCONF: length and buffer.
    test.put(ADDRESS, &1_000i32.to_le_bytes());
    test.put(ADDRESS + 8, &(DATA + BUFFER).to_le_bytes());
    test.call(c::SYS_ioctl, &[fd, 0x8912, DATA + ADDRESS]).unwrap();
    assert_eq!(test.get(ADDRESS, 4), 80i32.to_le_bytes());
    assert_eq!(test.get(BUFFER + 40, 5), b"eth0\0");
}

#[test]
fn packets_are_captured_at_their_interface() {
    let mut wire = Wire::new();
    wire.hosts.iter_mut().for_each(|test| test.host.net.config.capture = true);
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, "0.0.0.0:7".parse().unwrap()).unwrap();
    wire.hosts[A].send_to(a, b"x", at(B, 7)).unwrap();
    wire.hosts[B].send_to(b, b"y", loopback(7)).unwrap();
    wire.pass(millis(20));
    let times = |test: &mut TestHost| -> Vec<(u64, String)> {
        let mut times = Vec::new();
        test.host.net.drain_captured(|run| {
            for (at, packet) in run.iter() {
                assert_eq!(packet[0], 0x45);
                times.push((at.as_nanos() / 1_000_000, run.interface.to_string()));
            }
        });
        times
    };
    assert_eq!(times(&mut wire.hosts[A]), [(0, "eth0".to_string())]);
    assert_eq!(times(&mut wire.hosts[B]), [(0, "lo".to_string()), (10, "eth0".to_string())]);
}

#[test]
fn what_a_crash_sets_off_is_in_no_capture() {
    let mut wire = Wire::new();
    let (server, client) = (wire.hosts[B].listener("0.0.0.0:80".parse().unwrap()), wire.hosts[A].tcp4());
    wire.hosts[A].connect(client, at(B, 80));
    wire.pass(millis(100));
    wire.hosts[B].accept(server).unwrap();
    let crashing = &mut wire.hosts[A];
    crashing.host.net.config.capture = true;
    crashing.send(client, b"seen");
    crashing.host.crash(belljar_machine::CrashFiles::Kept);
    crashing.host.restart();
    // The peer is unaware of the crash; later packets to it are captured after the earlier ones.
    wire.pass(millis(500));
    let mut lengths = Vec::new();
    wire.hosts[A].host.net.drain_captured(|run| {
        for (at, packet) in run.iter() {
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            assert_eq!((packet[0], length), (0x45, packet.len()), "{at}: {packet:?}");
            lengths.push(length);
        }
    });
    assert!(lengths.len() > 2, "{lengths:?}");
}

#[test]
fn proc_net_shows_sockets_as_linux_does() {
    let mut test = TestHost::new(1);
    let listener = test.listener(loopback(80));
    let client = test.tcp4();
    test.connect(client, loopback(80));
    test.pass(SimDuration::ZERO);
    test.go_on(0);
    test.send(client, b"unread");
    test.pass(SimDuration::ZERO);
    let port = test.local(client).port();
    let tcp = proc::proc_net_tcp(&test.host.net, c::AF_INET);
    let lines: Vec<&str> = tcp.lines().collect();
    assert_eq!(lines.len(), 4, "{tcp}");
    // The listener with one connection queued, the client, and the connection not yet accepted.
    assert!(lines[1].starts_with("   0: 0100007F:0050 00000000:0000 0A 00000000:00000001 "), "{tcp}");
    let ends = format!("0100007F:{port:04X} 0100007F:0050 01 00000000:00000000 ");
    assert!(lines[2].contains(&ends), "{tcp}");
    let ends = format!("0100007F:0050 0100007F:{port:04X} 01 00000000:00000006 ");
    assert!(lines[3].contains(&ends), "{tcp}");
    assert!(lines.iter().all(|line| line.len() == 149), "{tcp}");
    let file = test.host.file_of(test.process, listener as i32).unwrap();
    let number = test.host.file_attributes(file).number;
    assert_eq!(lines[1].split_whitespace().nth(9), Some(number.to_string().as_str()));
    assert!(proc::proc_net_dev(&test.host.net).contains("    lo:"));
}
