//! Tests of helpers: conversations through a router, with and without translation.

use crate::testing::{Router, is_intact, tcp, tuple_of, udp, v4, v6};
use crate::{CtInfo, EventGroups, Helper, InetAddress, NatRange, Template, Tuple};
use belljar_wire::tcp::Flags;
use std::net::IpAddr;

type End = (IpAddr, u16);

/// Control connection of FTP through a router.
struct Control {
    router: Router,
    client: End,
    server: End,
    /// Client as the server knows it.
    public: End,
    /// Next sequence numbers of client and server, each as it has them.
    numbers: (u32, u32),
}

impl Control {
    fn open(mut router: Router, client: End, server: End, public: End) -> Control {
        router.template = Template { helper: Some(Helper::Ftp), ..Template::default() };
        router.forward(&tcp(client, server, Flags::SYN, (100, 0), b"")).unwrap();
        router.forward(&tcp(server, public, Flags::SYN | Flags::ACK, (500, 101), b"")).unwrap();
        router.forward(&tcp(client, server, Flags::ACK, (101, 501), b"")).unwrap();
        let mut control = Control { router, client, server, public, numbers: (101, 501) };
        control.say(b"220 ready\r\n").unwrap();
        control.ask(b"USER anonymous\r\n").unwrap();
        control
    }

    /// Line of the client, as the server receives it.
    fn ask(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let packet = tcp(self.client, self.server, Flags::ACK, self.numbers, line);
        let (packet, _) = self.router.forward(&packet)?;
        assert!(is_intact(&packet));
        self.numbers.0 += line.len() as u32;
        let headers = if self.client.0.is_ipv4() { 40 } else { 60 };
        Some(packet[headers..].to_vec())
    }

    /// Line of the server, as the client receives it.
    fn say(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let (ack, seq) = self.numbers;
        let packet = tcp(self.server, self.public, Flags::ACK, (seq, ack), line);
        let (packet, _) = self.router.forward(&packet)?;
        assert!(is_intact(&packet));
        self.numbers.1 += line.len() as u32;
        let headers = if self.client.0.is_ipv4() { 40 } else { 60 };
        Some(packet[headers..].to_vec())
    }
}

#[test]
fn an_active_data_connection_is_related() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 21));
    let mut control = Control::open(Router::new(), client, server, client);
    control.router.ct.listen(EventGroups::all());
    let line = b"PORT 10,0,1,1,19,137\r\n";
    assert_eq!(control.ask(line).unwrap(), line);
    let text = crate::proc::nf_conntrack_expect(&control.router.ct, control.router.now);
    assert_eq!(text, "300 l3proto = 2 proto=6 src=10.0.2.2 dst=10.0.1.1 sport=0 dport=5001 ftp/ftp\n");
    let data = tcp((v4(2, 2), 20), (v4(1, 1), 5001), Flags::SYN, (1, 0), b"");
    assert_eq!(control.router.relation(&data), Some(CtInfo::Related));
    let statistics = control.router.ct.statistics();
    assert_eq!((statistics.expect_create, statistics.expect_new, statistics.expect_delete), (1, 1, 1));
    // It was for one connection.
    let again = tcp((v4(2, 2), 22), (v4(1, 1), 5001), Flags::SYN, (1, 0), b"");
    assert_eq!(control.router.relation(&again), Some(CtInfo::New));
    let events = control.router.ct.take_events();
    let groups: Vec<u32> = events.iter().map(|event| event.group.number()).collect();
    assert_eq!(groups, [4, 6, 1, 1]);
    let master = control.router.ct.connections().find_map(|(_, conn)| conn.master()).unwrap();
    assert_eq!(control.router.ct.conn_of(master).unwrap().original().destination_port, 21);
}

#[test]
fn a_passive_data_connection_is_related_for_five_minutes() {
    for (client, server, line) in [
        ((v4(1, 1), 5000), (v4(2, 2), 21), &b"227 Entering Passive Mode (10,0,2,2,19,137).\r\n"[..]),
        ((v4(1, 1), 5000), (v4(2, 2), 21), b"229 Entering Extended Passive Mode (|||5001|)\r\n"),
        ((v6(1, 1), 5000), (v6(2, 2), 21), b"229 Entering Extended Passive Mode (|||5001|)\r\n"),
    ] {
        for late in [false, true] {
            let mut control = Control::open(Router::new(), client, server, client);
            assert_eq!(control.say(line).unwrap(), line);
            control.router.wait(if late { 300 } else { 299 });
            let data = tcp((client.0, 6000), (server.0, 5001), Flags::SYN, (1, 0), b"");
            let expected = if late { CtInfo::New } else { CtInfo::Related };
            assert_eq!(control.router.relation(&data), Some(expected));
        }
    }
}

#[test]
fn announcements_count_at_the_beginning_of_a_line_and_for_the_own_address() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 21));
    let mut control = Control::open(Router::new(), client, server, client);
    control.ask(b"NOOP").unwrap();
    control.ask(b"PORT 10,0,1,1,19,137\r\n").unwrap();
    assert_eq!(control.router.ct.expectations().count(), 0);
    // Another host's address.
    control.ask(b"PORT 10,0,1,7,19,137\r\n").unwrap();
    assert_eq!(control.router.ct.expectations().count(), 0);
    // Half a command would be missed.
    assert!(control.ask(b"PORT 10,0").is_none());
    control.ask(b"PORT 10,0,1,1,19,138\r\n").unwrap();
    control.ask(b"EPRT |1|10.0.1.1|5003|\r\n").unwrap();
    // The latest replaces the earlier one.
    let ports: Vec<u16> =
        control.router.ct.expectations().map(|expectation| expectation.tuple.destination_port).collect();
    assert_eq!(ports, [5003]);
}

#[test]
fn announcements_of_translated_clients_are_rewritten_and_followed() {
    let mut router = Router::new();
    router.source = |tuple: &Tuple| {
        let inside = tuple.source.0[..3] == [10, 0, 1];
        inside.then(|| NatRange::address(InetAddress::from(v4(100, 200))))
    };
    let (client, server, public) = ((v4(1, 1), 5000), (v4(2, 2), 21), (v4(100, 200), 5000));
    let mut control = Control::open(router, client, server, public);
    // The text grows by four bytes.
    let line = b"PORT 10,0,1,1,19,137\r\n";
    assert_eq!(control.ask(line).unwrap(), b"PORT 10,0,100,200,19,137\r\n");
    let data = tcp((v4(2, 2), 20), (v4(100, 200), 5001), Flags::SYN, (1, 0), b"");
    let (data, attached) = control.router.forward(&data).unwrap();
    assert_eq!(attached.info(), Some(CtInfo::Related));
    assert_eq!(tuple_of(&data), Tuple::between(6, (v4(2, 2), 20), (v4(1, 1), 5001)));
    // The server acknowledges what it has received, and the client what it has sent.
    let (sent, seq) = control.numbers;
    let reply = tcp(server, public, Flags::ACK, (seq, sent + 4), b"200 ok\r\n");
    let (reply, attached) = control.router.forward(&reply).unwrap();
    assert_eq!(attached.info(), Some(CtInfo::EstablishedReply));
    assert_eq!(reply[28..32], sent.to_be_bytes());
    assert!(is_intact(&reply));
    let next = tcp(client, server, Flags::ACK, (sent, seq + 8), b"LIST\r\n");
    let (next, attached) = control.router.forward(&next).unwrap();
    assert_eq!((attached.info(), &next[24..28]), (Some(CtInfo::Established), &(sent + 4).to_be_bytes()[..]));
    assert!(is_intact(&next));
}

#[test]
fn two_clients_with_one_data_port_get_two() {
    let mut router = Router::new();
    router.source = |tuple: &Tuple| {
        let inside = tuple.source.0[..3] == [10, 0, 1];
        inside.then(|| NatRange::address(InetAddress::from(v4(100, 200))))
    };
    let server = (v4(2, 2), 21);
    let mut first = Control::open(router, (v4(1, 1), 5000), server, (v4(100, 200), 5000));
    first.ask(b"EPRT |1|10.0.1.1|5001|\r\n").unwrap();
    let mut second = Control::open(first.router, (v4(1, 2), 5001), server, (v4(100, 200), 5001));
    let line = second.ask(b"EPRT |1|10.0.1.2|5001|\r\n").unwrap();
    let text = String::from_utf8(line).unwrap();
    let port: u16 = text.split('|').nth(3).unwrap().parse().unwrap();
    assert!(text.starts_with("EPRT |1|10.0.100.200|") && port > 5001);
    let data = tcp((v4(2, 2), 20), (v4(100, 200), port), Flags::SYN, (1, 0), b"");
    let (data, _) = second.router.forward(&data).unwrap();
    assert_eq!(tuple_of(&data), Tuple::between(6, (v4(2, 2), 20), (v4(1, 2), 5001)));
}

#[test]
fn the_server_of_tftp_answers_from_another_port() {
    let mut router = Router::new();
    router.template = Template { helper: Some(Helper::Tftp), ..Template::default() };
    router.source = |tuple: &Tuple| {
        let inside = tuple.source.0[..3] == [10, 0, 1];
        inside.then(|| NatRange::address(InetAddress::from(v4(9, 9))))
    };
    let request = udp((v4(1, 1), 5000), (v4(2, 2), 69), b"\0\x01file\0octet\0");
    router.forward(&request).unwrap();
    let data = udp((v4(2, 2), 4321), (v4(9, 9), 5000), b"\0\x03\0\x01data");
    let (data, attached) = router.forward(&data).unwrap();
    assert_eq!(attached.info(), Some(CtInfo::Related));
    assert_eq!(tuple_of(&data), Tuple::between(17, (v4(2, 2), 4321), (v4(1, 1), 5000)));
    let ack = udp((v4(1, 1), 5000), (v4(2, 2), 4321), b"\0\x04\0\x01");
    let (ack, attached) = router.forward(&ack).unwrap();
    assert_eq!(attached.info(), Some(CtInfo::EstablishedReply));
    assert_eq!(tuple_of(&ack), Tuple::between(17, (v4(9, 9), 5000), (v4(2, 2), 4321)));
}

#[test]
fn a_connection_takes_its_expectations_along() {
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 21));
    let mut control = Control::open(Router::new(), client, server, client);
    control.ask(b"PORT 10,0,1,1,19,137\r\n").unwrap();
    control.router.ct.flush(crate::Reporter::default(), control.router.now, |_| true);
    assert_eq!(control.router.ct.expectations().count(), 0);
    assert_eq!((Helper::by_name("ftp"), Helper::by_name("sip")), (Some(Helper::Ftp), None));
}
