use super::*;
use simple_dns::Question;
use std::net::Ipv6Addr;

fn zone() -> Zone {
    let hosts = [("alice", Ipv4Addr::new(11, 0, 0, 1)), ("www.bob", Ipv4Addr::new(11, 0, 0, 2))];
    let mut zone = Zone::new(DEFAULT_ADDRESS, hosts.into_iter());
    for line in [
        "example.org. 60 IN A 1.2.3.4",
        "Example.org AAAA 2001:db8::1",
        "www.example.org CNAME site.example.org",
        "site.example.org CNAME alice",
        "lost.example.org CNAME nowhere",
        "loop CNAME loop",
        "example.org MX 10 mail.example.org",
        "_x._tcp.example.org SRV 1 2 8080 alice",
        "example.org TXT \"some words\"",
    ] {
        zone.add(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
    zone
}

/// Returns type and data of the answers, and the status.
fn ask(name: &str, kind: TYPE) -> (Vec<String>, RCODE) {
    let mut query = Packet::new_query(77);
    let kind = QTYPE::TYPE(kind);
    query.questions.push(Question::new(Name::new_unchecked(name), kind, QCLASS::CLASS(CLASS::IN), false));
    let bytes = zone().answer(&query.build_bytes_vec().unwrap()).unwrap();
    let reply = Packet::parse(&bytes).unwrap();
    assert!(reply.id() == 77 && reply.has_flags(PacketFlag::RESPONSE) && reply.questions.len() == 1);
    let shown = reply.answers.iter().map(|record| match &record.rdata {
        RData::A(a) => Ipv4Addr::from(a.address).to_string(),
        RData::AAAA(a) => Ipv6Addr::from(a.address).to_string(),
        RData::CNAME(CNAME(name)) | RData::PTR(PTR(name)) => text(name),
        RData::MX(mx) => format!("{} {}", mx.preference, mx.exchange),
        RData::SRV(srv) => format!("{} {} {} {}", srv.priority, srv.weight, srv.port, srv.target),
        RData::TXT(_) => format!("ttl {}", record.ttl),
        other => format!("{other:?}"),
    });
    (shown.collect(), reply.rcode())
}
fn known(answers: &[&str]) -> (Vec<String>, RCODE) {
    (answers.iter().map(|a| (*a).to_owned()).collect(), RCODE::NoError)
}

#[test]
fn hosts_have_addresses_and_names() {
    assert_eq!(ask("alice", TYPE::A), known(&["11.0.0.1"]));
    assert_eq!(ask("WWW.Bob", TYPE::A), known(&["11.0.0.2"]));
    assert_eq!(ask("alice", TYPE::AAAA), known(&[]), "there is such a name, but no such record");
    assert_eq!(ask("carol", TYPE::A), (vec![], RCODE::NameError));
    assert_eq!(ask("2.0.0.11.in-addr.arpa", TYPE::PTR), known(&["www.bob"]));
    assert_eq!(ask("3.0.0.11.in-addr.arpa", TYPE::PTR).1, RCODE::NameError);
}

#[test]
fn records_of_the_experiment() {
    assert_eq!(ask("example.org", TYPE::A), known(&["1.2.3.4"]));
    assert_eq!(ask("example.org", TYPE::AAAA), known(&["2001:db8::1"]));
    assert_eq!(ask("example.org", TYPE::MX), known(&["10 mail.example.org"]));
    assert_eq!(ask("example.org", TYPE::TXT), known(&["ttl 3600"]));
    assert_eq!(ask("_x._tcp.example.org", TYPE::SRV), known(&["1 2 8080 alice"]));
    assert_eq!(ask("www.example.org", TYPE::A), known(&["site.example.org", "alice", "11.0.0.1"]));
    assert_eq!(ask("lost.example.org", TYPE::A), known(&["nowhere"]));
    assert_eq!(ask("loop", TYPE::A).1, RCODE::NoError);
}

#[test]
fn records_that_are_wrong() {
    let mut zone = zone();
    for (line, error) in [
        ("", "it is empty"),
        ("a", "it has no type"),
        ("a A", "A takes an IPv4 address"),
        ("a A 1.2.3", "'1.2.3' is not an IPv4 address"),
        ("a AAAA x", "'x' is not an IPv6 address"),
        ("a MX mail", "MX takes a preference and a name"),
        ("a MX ten mail", "'ten' is not a number up to 65535"),
        ("a SRV 1 2 3", "SRV takes priority, weight, port and a name"),
        ("a HINFO x", "'HINFO' is none of A, AAAA, CNAME, MX, NS, PTR, SRV, TXT"),
        ("a 99999999999 A 1.2.3.4", "99999999999 is too long a time to live"),
        ("a..b A 1.2.3.4", "'a..b' is not a name"),
    ] {
        assert_eq!(zone.add(line), Err(error.to_owned()));
    }
}

#[test]
fn long_answers_are_cut_and_garbage_is_not_answered() {
    let mut zone = zone();
    (0..60).for_each(|n| zone.add(&format!("many A 10.0.0.{n}")).unwrap());
    let mut query = Packet::new_query(1);
    let class = QCLASS::CLASS(CLASS::IN);
    query.questions.push(Question::new(Name::new_unchecked("many"), QTYPE::TYPE(TYPE::A), class, false));
    let bytes = zone.answer(&query.build_bytes_vec().unwrap()).unwrap();
    let reply = Packet::parse(&bytes).unwrap();
    assert!(reply.has_flags(PacketFlag::TRUNCATION) && reply.answers.is_empty());
    assert_eq!(zone.answer(&bytes), None, "a reply is no query");
    assert_eq!(zone.answer(b"hello"), None);
}

fn query(name: &str, kind: TYPE, edns: Option<(u16, u8)>) -> Vec<u8> {
    let mut query = Packet::new_query(5);
    let class = QCLASS::CLASS(CLASS::IN);
    query.questions.push(Question::new(Name::new_unchecked(name), QTYPE::TYPE(kind), class, false));
    *query.opt_mut() =
        edns.map(|(udp_packet_size, version)| OPT { opt_codes: vec![], udp_packet_size, version });
    query.build_bytes_vec().unwrap()
}

#[test]
fn what_is_not_there_is_said_for_how_long() {
    let zone = zone();
    for (name, kind, code) in [
        ("nobody", TYPE::A, RCODE::NameError),
        ("alice", TYPE::AAAA, RCODE::NoError),
        ("www.example.org", TYPE::TXT, RCODE::NoError),
        // Empty non-terminals: only names below them have records.
        ("_tcp.example.org", TYPE::A, RCODE::NoError),
        ("0.11.in-addr.arpa", TYPE::PTR, RCODE::NoError),
        ("9.in-addr.arpa", TYPE::PTR, RCODE::NameError),
    ] {
        let bytes = zone.answer(&query(name, kind, None)).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert_eq!(reply.rcode(), code, "{name}");
        let [RData::SOA(soa)] = reply.name_servers.iter().map(|r| &r.rdata).collect::<Vec<_>>()[..] else {
            panic!("{name}: {:?}", reply.name_servers)
        };
        assert_eq!((soa.minimum, reply.name_servers[0].ttl), (60, 60));
    }
    let bytes = zone.answer(&query("alice", TYPE::A, None)).unwrap();
    assert!(Packet::parse(&bytes).unwrap().name_servers.is_empty());
    let bytes = zone.answer(&query("", TYPE::SOA, None)).unwrap();
    assert_eq!(Packet::parse(&bytes).unwrap().answers.len(), 1);
}

#[test]
fn who_speaks_edns_is_answered_in_it() {
    let mut zone = zone();
    (0..60).for_each(|n| zone.add(&format!("many A 10.0.0.{n}")).unwrap());
    let ask = |edns: Option<(u16, u8)>| {
        let bytes = zone.answer(&query("many", TYPE::A, edns)).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        (bytes.len(), reply.answers.len(), reply.rcode(), reply.opt().map(|opt| opt.udp_packet_size))
    };
    let (length, answers, _, opt) = ask(None);
    assert!(length <= 512 && answers == 0 && opt.is_none());
    let (length, answers, code, opt) = ask(Some((4_096, 0)));
    assert!((900..1_232).contains(&length) && answers == 60 && code == RCODE::NoError && opt == Some(1_232));
    assert_eq!(ask(Some((700, 0))).1, 0, "cut at what fits there");
}

#[test]
fn over_tcp_nothing_is_cut() {
    let mut zone = zone();
    (0..250).for_each(|n| zone.add(&format!("many A 10.0.0.{n}")).unwrap());
    let bytes = zone.answer_over_tcp(&query("many", TYPE::A, None)).unwrap();
    assert_eq!(Packet::parse(&bytes).unwrap().answers.len(), 250);
}

#[test]
fn what_cannot_be_read_is_a_format_error() {
    let mut bytes = query("alice", TYPE::A, None);
    bytes[5] = 9;
    let answer = zone().answer(&bytes).unwrap();
    assert_eq!((answer.len(), &answer[..2], answer[2] & 0x80, answer[3]), (12, &[0, 5][..], 0x80, 1));
    assert_eq!(zone().answer(&[0; 11]), None);
}

#[test]
fn texts_are_kept_as_they_are_written() {
    let strings = |line: &str| {
        let mut zone = zone();
        zone.add(line).unwrap();
        let bytes = zone.answer(&query("t", TYPE::TXT, None)).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        // The record's data ends the message.
        let RData::TXT(text) = &reply.answers[0].rdata else { panic!("no text") };
        let length: usize =
            text.iter_raw().map(|(key, value)| 1 + key.len() + value.map_or(0, |v| v.len() + 1)).sum();
        bytes[bytes.len() - length..].to_vec()
    };
    let expected = |parts: &[&str]| {
        parts.iter().flat_map(|p| [&[p.len() as u8][..], p.as_bytes()].concat()).collect::<Vec<u8>>()
    };
    assert_eq!(strings("t TXT v=spf1  -all"), expected(&["v=spf1  -all"]));
    assert_eq!(strings("t 60 IN TXT \"one  two\" \"a \\\"b\\\"\""), expected(&["one  two", "a \"b\""]));
}

#[test]
fn hosts_with_ipv6_are_found_both_ways() {
    let hosts = [("alice", Ipv4Addr::new(11, 0, 0, 1)), ("bob", Ipv4Addr::new(11, 0, 0, 2))];
    let mut zone = Zone::new(DEFAULT_ADDRESS, hosts.into_iter());
    let ip: Ipv6Addr = "2001:db8::b00:1".parse().unwrap();
    zone.add_ipv6([("alice", ip)].into_iter());
    let find = |name: &str, kind| zone.find(name, QTYPE::TYPE(kind));
    assert!(
        matches!(&find("alice", TYPE::AAAA).0[..], [ResourceRecord { rdata: RData::AAAA(a), .. }] if a.address == ip.to_bits())
    );
    assert_eq!((find("bob", TYPE::AAAA).0.len(), find("bob", TYPE::AAAA).1), (0, true));
    let reverse = nibbles(ip);
    assert_eq!(reverse, "1.0.0.0.0.0.b.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    assert!(matches!(&find(&reverse, TYPE::PTR).0[..], [ResourceRecord { rdata: RData::PTR(_), .. }]));
    assert_eq!(find(&reverse[2..], TYPE::PTR), (Vec::new(), true), "an empty name above others");
    assert!(!find("x.8.b.d.0.1.0.0.2.ip6.arpa", TYPE::PTR).1);
}

#[test]
fn faults_change_the_answers_to_names_that_they_concern() {
    let zone = zone();
    let answered = |answer: DnsAnswer, kind: TYPE| {
        let mut faults = DnsFaults::default();
        faults.begin(0, DnsFault { names: vec!["ali*".to_owned()], answer });
        let other = zone.faulty_answer(&query("bob", TYPE::A, None), false, &faults);
        assert_eq!(other, zone.answer(&query("bob", TYPE::A, None)));
        let bytes = zone.faulty_answer(&query("alice", kind, None), true, &faults)?;
        let packet = Packet::parse(&bytes).unwrap();
        Some((packet.rcode(), packet.answers.len()))
    };
    assert_eq!(answered(DnsAnswer::Timeout, TYPE::A), None);
    assert_eq!(answered(DnsAnswer::ServerFailure, TYPE::A), Some((RCODE::ServerFailure, 0)));
    assert_eq!(answered(DnsAnswer::Refused, TYPE::A), Some((RCODE::Refused, 0)));
    assert_eq!(answered(DnsAnswer::NoName, TYPE::A), Some((RCODE::NameError, 0)));
    let addresses = DnsAnswer::Addresses(vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]);
    assert_eq!(answered(addresses.clone(), TYPE::A), Some((RCODE::NoError, 2)));
    assert_eq!(answered(addresses, TYPE::AAAA), Some((RCODE::NoError, 0)));
}
