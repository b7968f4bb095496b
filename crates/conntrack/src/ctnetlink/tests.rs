//! Tests of requests and notifications. The bytes are those that Linux 6.18 and conntrack(8) 1.4.7 exchange.

use super::attribute::{help, nat, proto, protoinfo, tuple};
use super::message::{Envelope, Writer};
use super::*;
use crate::conn::Conn;
use crate::event::EventGroups;
use crate::testing::{Router, tcp, udp, v4, v6};
use crate::{CtZone, L3, Tuple};
use belljar_base::Seed;
use belljar_wire::tcp::Flags;

const ROOT: u16 = 0x300;
const CREATE_NEW: u16 = 0x600;

/// Attributes as a request has them.
fn attributes(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new(Envelope::default());
    fill(&mut out);
    out.finish()[20..].to_vec()
}

fn put(out: &mut Writer, kind: u16, wanted: &Tuple) {
    out.nest(kind, |out| {
        out.nest(tuple::IP, |out| {
            let first = if wanted.l3 == L3::V4 { 1 } else { 3 };
            out.put(first, wanted.source.bytes(wanted.l3));
            out.put(first + 1, wanted.destination.bytes(wanted.l3));
        });
        out.nest(tuple::PROTO, |out| {
            out.put_u8(proto::NUM, wanted.protocol);
            out.put_be16(proto::SRC_PORT, wanted.source_port);
            out.put_be16(proto::DST_PORT, wanted.destination_port);
        });
    });
}

fn ask(router: &mut Router, kind: u8, flags: u16, attributes: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let request = CtRequest { kind, flags, sequence: 9, port: 42, family: 2, version: 0, attributes };
    answer(&mut router.ct, CONNECTIONS, &request, router.now)
}

fn dump(router: &mut Router, attributes: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    ask(router, 1, ROOT, attributes)
}

/// Values of the attributes of a message, and their types in order.
fn parse(message: &[u8]) -> (Attributes<'_>, Vec<u16>) {
    let mut kinds = Vec::new();
    let mut rest = &message[20..];
    while rest.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        kinds.push(u16::from_ne_bytes([rest[2], rest[3]]) & 0x3fff);
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    (Attributes::parse(&message[20..], cta::MAX).unwrap(), kinds)
}

const UDP: Tuple = Tuple {
    source: crate::InetAddress([10, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    destination: crate::InetAddress([10, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    source_port: 5000,
    destination_port: 53,
    l3: L3::V4,
    protocol: 17,
};

/// The request of `conntrack -I -p udp -s 10.0.1.1 -d 10.0.2.2 --sport 5000 --dport 53 -t 30 --src-nat
/// 10.0.9.9:6000 -w 5`.
fn insertion() -> Vec<u8> {
    attributes(|out| {
        put(out, cta::TUPLE_ORIG, &UDP);
        put(out, cta::TUPLE_REPLY, &UDP.inverse().unwrap());
        out.put_be32(cta::STATUS, CtStatus::CONFIRMED.bits());
        out.nest(cta::NAT_SRC, |out| {
            out.put(nat::V4_MINIP, &[10, 0, 9, 9]);
            out.nest(nat::PROTO, |out| {
                out.put_be16(nat::PORT_MIN, 6000);
                out.put_be16(nat::PORT_MAX, 6000);
            });
        });
        out.put_be32(cta::TIMEOUT, 30);
        out.put_be16(cta::ZONE, 5);
    })
}

#[test]
fn a_connection_is_listed_with_the_bytes_of_linux() {
    let mut router = Router::new();
    router.ct.set_setting("nf_conntrack_acct", "1").unwrap();
    ask(&mut router, 0, CREATE_NEW, &insertion()).unwrap();
    let messages = dump(&mut router, &[]).unwrap();
    let [message] = messages.try_into().unwrap();
    assert_eq!(message[4..8], [0, 1, 0x22, 0]);
    assert_eq!(message[8..20], [9, 0, 0, 0, 42, 0, 0, 0, 2, 0, 0, 0]);
    let original: &[u8] =
        b"\x14\x00\x01\x80\x08\x00\x01\x00\x0a\x00\x01\x01\x08\x00\x02\x00\x0a\x00\x02\x02\x1c\x00\x02\
        \x80\x05\x00\x01\x00\x11\x00\x00\x00\x06\x00\x02\x00\x13\x88\x00\x00\x06\x00\x03\x00\x00\x35\x00\x00";
    let reply: &[u8] =
        b"\x14\x00\x01\x80\x08\x00\x01\x00\x0a\x00\x02\x02\x08\x00\x02\x00\x0a\x00\x09\x09\x1c\x00\x02\x80\
        \x05\x00\x01\x00\x11\x00\x00\x00\x06\x00\x02\x00\x00\x35\x00\x00\x06\x00\x03\x00\x17\x70\x00\x00";
    let (parsed, kinds) = parse(&message);
    assert_eq!(kinds, [1, 2, 0x12, 3, 8, 0xc, 0xb, 7, 9, 0xa]);
    assert_eq!((parsed.get(1), parsed.get(2)), (Some(original), Some(reply)));
    assert_eq!(parsed.be16(cta::ZONE), Ok(Some(5)));
    assert_eq!((parsed.be32(3), parsed.be32(8)), (Ok(Some(0x198)), Ok(Some(0))));
    assert_eq!((parsed.be32(7), parsed.be32(0xb)), (Ok(Some(30)), Ok(Some(1))));
    assert_eq!(
        parsed.get(9).unwrap(),
        b"\x0c\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    );
    assert_eq!(router.ct.statistics().insert, 1);
}

#[test]
fn connections_are_created_changed_found_and_deleted() {
    let mut router = Router::new();
    let own = attributes(|out| {
        put(out, cta::TUPLE_ORIG, &UDP);
        out.put_be16(cta::ZONE, 5);
    });
    assert_eq!(ask(&mut router, 1, 0, &own), Err(Errno::ENOENT));
    assert_eq!(ask(&mut router, 0, 0, &insertion()), Err(Errno::ENOENT));
    ask(&mut router, 0, CREATE_NEW, &insertion()).unwrap();
    assert_eq!(ask(&mut router, 0, CREATE_NEW, &insertion()), Err(Errno::EEXIST));
    assert_eq!(ask(&mut router, 0, 0, &insertion()), Err(Errno::EOPNOTSUPP));
    let change = attributes(|out| {
        put(out, cta::TUPLE_ORIG, &UDP);
        out.put_be16(cta::ZONE, 5);
        out.put_be32(cta::MARK, 0x70);
        out.put_be32(cta::TIMEOUT, 100);
        out.put(cta::LABELS, &[2, 0, 0, 0]);
    });
    ask(&mut router, 0, 0, &change).unwrap();
    let found = ask(&mut router, 1, 0, &own).unwrap();
    let (parsed, _) = parse(&found[0]);
    assert_eq!((parsed.be32(cta::MARK), parsed.be32(cta::TIMEOUT)), (Ok(Some(0x70)), Ok(Some(100))));
    assert_eq!((parsed.get(cta::LABELS).unwrap()[0], parsed.be32(cta::USE)), (2, Ok(Some(2))));
    let id = parsed.be32(cta::ID).unwrap().unwrap();
    let masked = attributes(|out| {
        put(out, cta::TUPLE_REPLY, &router.ct.connections().next().unwrap().1.reply().clone());
        out.put_be16(cta::ZONE, 5);
        out.put_be32(cta::MARK, 0x01);
        out.put_be32(cta::MARK_MASK, 0x0f);
    });
    ask(&mut router, 0, 0, &masked).unwrap();
    assert_eq!(router.ct.connections().next().unwrap().1.mark(), 0x71);
    let other = attributes(|out| {
        put(out, cta::TUPLE_ORIG, &UDP);
        out.put_be16(cta::ZONE, 5);
        out.put_be32(cta::ID, id ^ 1);
    });
    assert_eq!(ask(&mut router, 2, 0, &other), Err(Errno::ENOENT));
    assert_eq!(ask(&mut router, 2, 0, &own), Ok(vec![]));
    assert!(router.ct.is_empty());
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut router = Router::new();
    let base = |out: &mut Writer| {
        put(out, cta::TUPLE_ORIG, &UDP);
        put(out, cta::TUPLE_REPLY, &UDP.inverse().unwrap());
    };
    let mut refused = |fill: &dyn Fn(&mut Writer)| {
        let request = attributes(|out| {
            base(out);
            fill(out);
        });
        ask(&mut router, 0, CREATE_NEW, &request).unwrap_err()
    };
    assert_eq!(refused(&|_| {}), Errno::EINVAL);
    let timed = |out: &mut Writer| out.put_be32(cta::TIMEOUT, 30);
    assert_eq!(
        refused(&|out| {
            timed(out);
            out.nest(cta::HELP, |out| out.put_text(help::NAME, "sip"));
        }),
        Errno::EOPNOTSUPP
    );
    assert_eq!(
        refused(&|out| {
            timed(out);
            out.nest(cta::SYNPROXY, |_| {});
        }),
        Errno::EOPNOTSUPP
    );
    // Without the bit of a confirmed connection, and with those of another packet.
    for bits in [CtStatus::SEEN_REPLY, CtStatus::CONFIRMED | CtStatus::DYING] {
        assert_eq!(
            refused(&|out| {
                timed(out);
                out.put_be32(cta::STATUS, bits.bits());
            }),
            Errno::EBUSY
        );
    }
    assert_eq!(
        refused(&|out| {
            timed(out);
            put(out, cta::TUPLE_MASTER, &UDP.inverse().unwrap());
        }),
        Errno::ENOENT
    );
    assert!(router.ct.is_empty());
    assert_eq!(ask(&mut router, 9, 0, &[]), Err(Errno::EINVAL));
    assert_eq!(ask(&mut router, 1, 0, &[]), Err(Errno::EINVAL));
    assert_eq!(ask(&mut router, 1, 0, &[8, 0, 1]), Err(Errno::EINVAL));
    assert_eq!(ask(&mut router, 1, 0, &[9, 0, 1, 0, 0, 0, 0, 0]), Err(Errno::EINVAL));
    assert_eq!(dump(&mut router, &attributes(|out| out.put_be32(cta::MARK_MASK, 1))), Err(Errno::EINVAL));
    let empty = CtRequest { kind: 0, flags: CREATE_NEW, ..CtRequest::default() };
    assert_eq!(answer(&mut router.ct, EXPECTATIONS, &empty, router.now), Err(Errno::EOPNOTSUPP));
}

#[test]
fn dumps_and_flushes_select() {
    let mut router = Router::new();
    for n in 0..4u8 {
        let packet = udp((v4(1, n), 5000), (v4(2, 2), 53 + u16::from(n % 2)), b"query");
        let (_, attached) = router.forward(&packet).unwrap();
        router.ct.set_mark(attached, u32::from(n));
    }
    router.forward(&udp((v6(1, 1), 5000), (v6(2, 2), 53), b"query"));
    assert_eq!(dump(&mut router, &[]).unwrap().len(), 4);
    let marked = attributes(|out| {
        out.put_be32(cta::MARK, 2);
        out.put_be32(cta::MARK_MASK, 2);
    });
    let messages = dump(&mut router, &marked).unwrap();
    assert_eq!((messages.len(), messages[0][6]), (2, 0x22));
    let by_tuple = |parts: u32| {
        attributes(|out| {
            put(out, cta::TUPLE_ORIG, &Tuple { source: v4(1, 3).into(), ..UDP });
            out.nest(cta::FILTER, |out| out.put(1, &parts.to_ne_bytes()));
        })
    };
    assert_eq!(dump(&mut router, &by_tuple(1)).unwrap().len(), 1);
    assert_eq!(dump(&mut router, &by_tuple(0x28)).unwrap().len(), 2);
    assert_eq!(dump(&mut router, &by_tuple(0x8000)), Err(Errno::ERANGE));
    assert_eq!(dump(&mut router, &by_tuple(0x20)), Err(Errno::EOPNOTSUPP));
    let confirmed = attributes(|out| out.put_be32(cta::STATUS, CtStatus::SEEN_REPLY.bits()));
    assert!(dump(&mut router, &confirmed).unwrap().is_empty());
    let zone = attributes(|out| out.put_be16(cta::ZONE, 1));
    assert!(dump(&mut router, &zone).unwrap().is_empty());
    assert_eq!(ask(&mut router, 2, 0, &marked), Ok(vec![]));
    assert_eq!(router.ct.len(), 3);
    // Without a version the family of a flush does not count.
    assert_eq!(ask(&mut router, 2, 0, &[]), Ok(vec![]));
    assert!(router.ct.is_empty());
}

#[test]
fn notifications_have_what_changed() {
    let mut router = Router::new();
    router.ct.listen(EventGroups::CONNECTIONS);
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    router.forward(&tcp(client, server, Flags::SYN, (100, 0), b""));
    router.forward(&tcp(server, client, Flags::SYN | Flags::ACK, (500, 101), b""));
    router.forward(&tcp(client, server, Flags::ACK, (101, 501), b""));
    router.forward(&tcp(client, server, Flags::ACK, (101, 501), b"data"));
    let events = router.ct.take_events();
    assert_eq!(events.len(), 3);
    // New: NLM_F_CREATE and NLM_F_EXCL, with the state of TCP.
    let (new, kinds) = parse(&events[0].message);
    assert_eq!((&events[0].message[4..8], kinds), (&[0, 1, 0, 6][..], vec![1, 2, 0xc, 3, 7, 4]));
    let state = |attributes: &Attributes<'_>| {
        let held = attributes.nested(cta::PROTOINFO, protoinfo::MAX).unwrap().unwrap();
        held.nested(protoinfo::TCP, protoinfo::tcp::MAX).unwrap().unwrap().u8(1).unwrap().unwrap()
    };
    assert_eq!(state(&new), 1);
    let (update, _) = parse(&events[1].message);
    assert_eq!(
        (events[1].group, state(&update), update.be32(cta::TIMEOUT)),
        (EventGroups::UPDATE, 2, Ok(Some(60)))
    );
    let (update, _) = parse(&events[2].message);
    assert_eq!((state(&update), update.be32(cta::STATUS)), (3, Ok(Some(0x18e))));
    let request = CtRequest { kind: 2, flags: 8, port: 7, family: 2, ..CtRequest::default() };
    router.ct.listen(EventGroups::empty());
    answer(&mut router.ct, CONNECTIONS, &request, router.now).unwrap();
    let [gone] = router.ct.take_events().try_into().unwrap();
    assert_eq!((gone.group, gone.group.number(), gone.reporter.port), (EventGroups::DESTROY, 3, 7));
    assert_eq!(gone.message[4..6], [2, 1]);
    assert_eq!(state(&parse(&gone.message).0), 3);
}

#[test]
fn counters_are_reported_and_zeroed() {
    let mut router = Router::new();
    router.ct.set_setting("nf_conntrack_acct", "1").unwrap();
    router.forward(&udp((v4(1, 1), 5000), (v4(2, 2), 53), b"query"));
    router.relation(&[]);
    let packets = |messages: &[Vec<u8>]| parse(&messages[0]).0.get(cta::COUNTERS_ORIG).unwrap()[11];
    assert_eq!(packets(&ask(&mut router, 3, ROOT, &[]).unwrap()), 1);
    assert_eq!(packets(&ask(&mut router, 3, ROOT, &[]).unwrap()), 0);
    let messages = ask(&mut router, 4, ROOT, &[]).unwrap();
    assert_eq!(messages[0][20 + 8..20 + 16], [8, 0, 4, 0, 0, 0, 0, 1]);
    let messages = ask(&mut router, 5, 0, &[]).unwrap();
    assert_eq!(messages[0][20..], [8, 0, 1, 0, 0, 0, 0, 1, 8, 0, 2, 0, 0, 4, 0, 0]);
    let waiting = router.context(crate::InetHook::Prerouting);
    router.ct.track(&udp((v4(1, 2), 1), (v4(2, 2), 2), b""), crate::Attached::None, &waiting);
    assert_eq!(ask(&mut router, 7, ROOT, &[]).unwrap().len(), 1);
    assert!(ask(&mut router, 6, ROOT, &[]).unwrap().is_empty());
    assert!(ask(&mut router, 4, 0, &[]).unwrap().is_empty());
}

#[test]
fn tcp_states_are_restored() {
    // As conntrackd(8) does it after a failure of its peer.
    let mut router = Router::new();
    let tuple = Tuple { protocol: 6, destination_port: 80, ..UDP };
    let request = attributes(|out| {
        put(out, cta::TUPLE_ORIG, &tuple);
        put(out, cta::TUPLE_REPLY, &tuple.inverse().unwrap());
        out.put_be32(cta::TIMEOUT, 600);
        let bits = CtStatus::CONFIRMED | CtStatus::SEEN_REPLY | CtStatus::ASSURED;
        out.put_be32(cta::STATUS, bits.bits());
        out.nest(cta::PROTOINFO, |out| {
            out.nest(protoinfo::TCP, |out| {
                out.put_u8(1, 3);
                out.put(4, &[0x0b, 0x0b]);
                out.put(5, &[0x0b, 0x0b]);
                out.put_u8(2, 7);
                out.put_u8(3, 20);
            });
        });
    });
    ask(&mut router, 0, CREATE_NEW, &request).unwrap();
    let (_, conn): (_, &Conn) = router.ct.connections().next().unwrap();
    assert_eq!(conn.tcp_state(), Some(crate::TcpState::Established));
    let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
    let packet = tcp(client, server, Flags::ACK, (77_000, 99_000), b"data");
    assert_eq!(router.relation(&packet), Some(crate::CtInfo::Established));
    let found = router.ct.find(CtZone::DEFAULT, &tuple, router.now);
    assert!(found.is_some());
}

#[test]
fn drawn_requests_are_never_fatal() {
    let mut draw = Seed(3).stream(&["test", "ctnetlink"]);
    let mut router = Router::new();
    router.ct.listen(EventGroups::all());
    let base = insertion();
    for n in 0..40_000u32 {
        let mut bytes = base.clone();
        for _ in 0..draw.below(6) {
            let at = draw.below(bytes.len() as u64) as usize;
            bytes[at] = match draw.below(2) {
                0 => draw.next_u32() as u8,
                _ => draw.below(30) as u8,
            };
        }
        bytes.truncate(draw.below(bytes.len() as u64 * 2) as usize);
        let flags = draw.next_u32() as u16;
        let (kind, family) = (draw.below(9) as u8, [2, 10, 0][n as usize % 3]);
        let request = CtRequest { kind, flags, sequence: n, port: 1, family, version: 1, attributes: &bytes };
        for subsystem in [CONNECTIONS, EXPECTATIONS] {
            let _ = answer(&mut router.ct, subsystem, &request, router.now);
        }
        router.ct.take_events();
    }
}
