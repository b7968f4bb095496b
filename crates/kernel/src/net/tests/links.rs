//! Hosts connected by an Ethernet link.

use super::*;
use belljar_netstack::LinkConfig;
use belljar_wire::arp;
use belljar_wire::ethernet::{self, Address, Frame, ethertype};

/// Two hosts, 10.0.0.1 and 10.0.0.2, with their `eth0` connected by a link.
fn lan() -> Wire {
    let hosts = [A, B].map(|n| {
        let mut test = TestHost::new(2);
        linked(&mut test.host, n, &[(n as u8 + 1, 24)]);
        test
    });
    Wire { hosts, sequence: 0, seen: Vec::new(), checksums: Vec::new(), lost: Vec::new() }
}

/// Connects a host to one link instead of the graph, with addresses 10.0.0.x.
fn linked(host: &mut Host, n: usize, addresses: &[(u8, u8)]) {
    host.net.config.on_graph = false;
    host.net.config.links = vec![LinkConfig {
        name: "eth0".into(),
        mac: [2, 0, 0, 0, 0, n as u8 + 1],
        mtu: 1_500,
        addresses6: Vec::new(),
        addresses: addresses
            .iter()
            .map(|(last, len)| InterfaceAddress::new(Ipv4Addr::new(10, 0, 0, *last), *len))
            .collect(),
        nic: NicConfig::default(),
        carrier: true,
        ptp: None,
    }];
    host.net = Stack::new(host.net.config.clone(), host.net.clock.clone());
}

fn on_link(host: usize, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host as u8 + 1].into(), port)
}

/// Frames seen on the link: time in ms, sender, content.
fn frames(wire: &Wire) -> Vec<(u64, usize, String)> {
    let shown = |(at, from, bytes): &(SimTime, usize, Vec<u8>)| {
        let frame = Frame::new_checked(&bytes[..]).unwrap();
        let what = match frame.ethertype() {
            ethertype::ARP => {
                let arp = arp::Packet::new_checked(frame.payload()).unwrap();
                let to = if frame.dst() == Address::BROADCAST { "all" } else { "one" };
                format!("arp {} {} {to}", arp.operation(), arp.target_protocol())
            }
            _ => format!("ip {}", bytes.len() - ethernet::HEADER_LEN),
        };
        (at.as_nanos() / 1_000_000, *from, what)
    };
    wire.seen.iter().map(shown).collect()
}

#[test]
fn the_first_datagram_waits_for_the_neighbours_answer() {
    let mut wire = lan();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, "0.0.0.0:7".parse().unwrap()).unwrap();
    wire.hosts[A].send_to(a, b"one", on_link(B, 7)).unwrap();
    wire.hosts[A].send_to(a, b"two", on_link(B, 7)).unwrap();
    wire.pass(millis(100));
    let expected =
        [(0, A, "arp 1 10.0.0.2 all"), (10, B, "arp 2 10.0.0.1 one"), (20, A, "ip 31"), (20, A, "ip 31")];
    assert_eq!(frames(&wire), expected.map(|(at, from, what)| (at, from, what.to_owned())));
    let (data, from) = wire.hosts[B].receive_from(b).unwrap();
    assert_eq!((data, from.ip()), (b"one".to_vec(), on_link(A, 0).ip()));
    // B has learnt A's address from its ARP request: it replies at once and verifies the entry later.
    wire.hosts[B].send_to(b, b"back", from).unwrap();
    wire.pass(SimDuration::from_secs(10));
    let later: Vec<String> = frames(&wire)[4..].iter().map(|(_, _, what)| what.clone()).collect();
    assert_eq!(later, ["ip 32", "arp 1 10.0.0.1 one", "arp 2 10.0.0.2 one"]);
}

#[test]
fn a_connection_to_nobody_fails_after_three_questions() {
    let mut wire = lan();
    let fd = wire.hosts[A].tcp4();
    wire.hosts[A].connect(fd, on_link(6, 80));
    wire.pass(millis(2_999));
    assert!(matches!(wire.hosts[A].go_on(0), Answer::Blocked));
    wire.pass(millis(1));
    let times: Vec<u64> = frames(&wire).iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [0, 1_000, 2_000]);
    assert_eq!(ended(wire.hosts[A].go_on(0)), Err(Errno::EHOSTUNREACH));
}

#[test]
fn routes_lead_by_gateways_and_nowhere_else() {
    let mut wire = lan();
    let a = wire.hosts[A].udp4();
    let far = "192.0.2.1:9".parse().unwrap();
    assert_eq!(wire.hosts[A].send_to(a, b"x", far), Err(Errno::ENETUNREACH));
    let hops = vec![belljar_net::routes::NextHop::new(1, Some([10, 0, 0, 2].into()))];
    let route = belljar_net::routes::Route { hops, ..belljar_net::routes::Route::by(0, None, 188) };
    wire.hosts[A].host.net.set_routes(vec![(belljar_net::Prefix::ALL, 20, route)]);
    wire.hosts[A].send_to(a, b"x", far).unwrap();
    wire.pass(millis(30));
    // B does not forward: it drops packets for other hosts.
    assert_eq!(frames(&wire).len(), 3);
    assert_eq!(wire.hosts[B].host.net.counters.not_for_us, 1);
    // With forwarding, B has no route and sends an ICMP error.
    wire.hosts[B].host.net.sysctls.forwarding = true;
    wire.hosts[A].set(a, c::IPPROTO_IP, c::IP_RECVERR, 1).unwrap();
    wire.hosts[A].send_to(a, b"x", far).unwrap();
    wire.pass(millis(30));
    assert_eq!(wire.hosts[A].get_int(a, c::SOL_SOCKET, c::SO_ERROR), Ok(i32::from(Errno::ENETUNREACH.0)));
}

#[test]
fn broadcasts_reach_the_link_if_the_socket_may_send_them() {
    let mut wire = lan();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, "0.0.0.0:7".parse().unwrap()).unwrap();
    let all = "10.0.0.255:7".parse().unwrap();
    assert_eq!(wire.hosts[A].send_to(a, b"x", all), Err(Errno::EACCES));
    wire.hosts[A].set(a, c::SOL_SOCKET, c::SO_BROADCAST, 1).unwrap();
    wire.hosts[A].send_to(a, b"x", all).unwrap();
    wire.pass(millis(10));
    assert_eq!(wire.hosts[B].receive(b), Ok(b"x".to_vec()));
    assert_eq!(frames(&wire).len(), 1, "nobody is asked for");
}

#[test]
fn without_a_carrier_nothing_leaves_and_neighbours_are_forgotten() {
    let mut wire = lan();
    let (a, b) = (wire.hosts[A].udp4(), wire.hosts[B].udp4());
    wire.hosts[B].bind(b, "0.0.0.0:7".parse().unwrap()).unwrap();
    wire.hosts[A].send_to(a, b"x", on_link(B, 7)).unwrap();
    wire.pass(millis(50));
    wire.hosts[A].host.net.set_carrier(0, false);
    wire.hosts[A].send_to(a, b"y", on_link(B, 7)).unwrap();
    wire.pass(millis(50));
    assert_eq!(frames(&wire).len(), 3);
    wire.hosts[A].host.net.set_carrier(0, true);
    wire.pass(SimDuration::from_secs(1));
    let what: Vec<String> = frames(&wire)[3..].iter().map(|(_, _, what)| what.clone()).collect();
    assert_eq!(what, ["arp 1 10.0.0.2 all", "arp 2 10.0.0.1 one", "ip 29"], "asked for again");
}

#[test]
fn a_crashed_host_answers_nothing_and_comes_back() {
    let mut wire = lan();
    let b = wire.hosts[B].udp4();
    wire.hosts[A].host.crash(belljar_machine::CrashFiles::Kept);
    wire.hosts[B].send_to(b, b"x", on_link(A, 7)).unwrap();
    wire.pass(millis(1_500));
    assert_eq!(frames(&wire).len(), 2, "asked twice, in vain");
    wire.hosts[A].host.restart();
    wire.pass(millis(1_500));
    assert!(frames(&wire).iter().any(|(_, from, what)| *from == A && what.starts_with("arp 2")));
}
