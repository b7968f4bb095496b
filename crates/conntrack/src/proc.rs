//! Texts of `/proc/net/nf_conntrack`, `/proc/net/nf_conntrack_expect` and `/proc/net/stat/nf_conntrack`, as
//! Linux prints them (`nf_conntrack_standalone.c`).

use crate::conn::{Conn, CtStatus, CtZone, ProtocolState};
use crate::conntrack::Conntrack;
use crate::tuple::{InetAddress, L3, Tuple, TupleDirection, protocol};
use belljar_base::{HZ, SimTime};
use std::fmt::Write;

/// `/proc/net/nf_conntrack`: a line for each connection.
pub fn nf_conntrack(ct: &Conntrack, now: SimTime) -> String {
    let mut text = String::new();
    for (_, conn) in ct.connections().filter(|(_, conn)| !conn.is_expired(now)) {
        // Writing to a string does not fail.
        let _ = line(&mut text, ct, conn, now);
    }
    text
}

/// `/proc/net/nf_conntrack_expect`: a line for each expectation.
pub fn nf_conntrack_expect(ct: &Conntrack, now: SimTime) -> String {
    let mut text = String::new();
    for expectation in ct.expectations() {
        let tuple = &expectation.tuple;
        let family = tuple.l3.family();
        let left = expectation.seconds_left(now);
        let _ = write!(text, "{left} l3proto = {family} proto={} ", tuple.protocol);
        let _ = print_tuple(&mut text, tuple);
        let flags = if expectation.permanent { "PERMANENT " } else { "" };
        let name = expectation.helper.name();
        let _ = writeln!(text, "{flags}{name}/{name}");
    }
    text
}

/// `/proc/net/stat/nf_conntrack`: the counters of the one processor, in hexadecimal.
pub fn stat(ct: &Conntrack) -> String {
    let counted = ct.statistics();
    let mut text = String::from(
        "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop \
         icmp_error  expect_new expect_create expect_delete search_restart\n",
    );
    let _ = writeln!(
        text,
        "{:08x}  {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x} {:08x}  {:08x} \
         {:08x} {:08x} {:08x}",
        ct.len(),
        counted.clash_resolve,
        counted.found,
        0,
        counted.invalid,
        0,
        0,
        0,
        counted.insert,
        counted.insert_failed,
        counted.drop,
        counted.early_drop,
        counted.error,
        counted.expect_new,
        counted.expect_create,
        counted.expect_delete,
        0
    );
    text
}

fn line(text: &mut String, ct: &Conntrack, conn: &Conn, now: SimTime) -> std::fmt::Result {
    let original = conn.original();
    let family = if original.l3 == L3::V4 { "ipv4" } else { "ipv6" };
    let number = original.l3.family();
    let name = protocol_name(original.protocol);
    let left = conn.ticks_left(now) / HZ;
    write!(text, "{family:<8} {number} {name:<8} {} {left} ", original.protocol)?;
    match &conn.protocol {
        ProtocolState::Tcp(track) => write!(text, "{} ", track.state.name())?,
        ProtocolState::Sctp(track) => write!(text, "{} ", track.state.name())?,
        _ if original.protocol == protocol::GRE => {
            let settings = ct.settings();
            write!(
                text,
                "timeout={}, stream_timeout={} ",
                settings.gre_timeout, settings.gre_timeout_stream
            )?;
        }
        _ => {}
    }
    for direction in TupleDirection::BOTH {
        print_tuple(text, conn.tuple(direction))?;
        let (bits, key) = match direction {
            TupleDirection::Original => (CtZone::ORIGINAL, "zone-orig"),
            TupleDirection::Reply => (CtZone::REPLY, "zone-reply"),
        };
        print_zone(text, conn, bits, key)?;
        if conn.is_counted() {
            let counted = conn.counters(direction);
            write!(text, "packets={} bytes={} ", counted.packets, counted.bytes)?;
        }
        if direction == TupleDirection::Original && !conn.is(CtStatus::SEEN_REPLY) {
            text.push_str("[UNREPLIED] ");
        }
    }
    if conn.is(CtStatus::ASSURED) {
        text.push_str("[ASSURED] ");
    }
    write!(text, "mark={} ", conn.mark())?;
    print_zone(text, conn, CtZone::DEFAULT.directions, "zone")?;
    if let Some((start, _)) = conn.timestamps {
        let age = ct.real_time(now).saturating_sub(start);
        write!(text, "delta-time={} ", age / 1_000_000_000)?;
    }
    // The reader holds a reference beside the table.
    text.push_str("use=2\n");
    Ok(())
}

fn print_zone(text: &mut String, conn: &Conn, bits: u8, key: &str) -> std::fmt::Result {
    match conn.zone().directions == bits {
        true => write!(text, "{key}={} ", conn.zone().id),
        false => Ok(()),
    }
}

fn print_address(text: &mut String, l3: L3, address: InetAddress) -> std::fmt::Result {
    match l3 {
        L3::V4 => write!(text, "{}", address.to_ip(l3)),
        // All groups with all digits.
        L3::V6 => {
            for (n, pair) in address.0.chunks_exact(2).enumerate() {
                let colon = if n > 0 { ":" } else { "" };
                write!(text, "{colon}{:02x}{:02x}", pair[0], pair[1])?;
            }
            Ok(())
        }
    }
}

fn print_tuple(text: &mut String, tuple: &Tuple) -> std::fmt::Result {
    text.push_str("src=");
    print_address(text, tuple.l3, tuple.source)?;
    text.push_str(" dst=");
    print_address(text, tuple.l3, tuple.destination)?;
    let (source, destination) = (tuple.source_port, tuple.destination_port);
    match tuple.protocol {
        protocol::ICMP | protocol::ICMPV6 => {
            write!(text, " type={} code={} id={source} ", tuple.icmp_type(), tuple.icmp_code())
        }
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
            write!(text, " sport={source} dport={destination} ")
        }
        protocol::GRE => write!(text, " srckey=0x{source:x} dstkey=0x{destination:x} "),
        _ => write!(text, " "),
    }
}

const fn protocol_name(number: u8) -> &'static str {
    match number {
        protocol::ICMP => "icmp",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::GRE => "gre",
        protocol::SCTP => "sctp",
        protocol::UDP_LITE => "udplite",
        protocol::ICMPV6 => "icmpv6",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Router, echo, ip, tcp, udp, v4, v6};
    use belljar_wire::tcp::Flags;

    #[test]
    fn lines_are_those_of_linux() {
        // Printed by Linux 6.18 for connections made with conntrack(8).
        let mut router = Router::new();
        router.ct.set_setting("nf_conntrack_acct", "1").unwrap();
        let (client, server) = ((v4(1, 1), 5000), (v4(2, 2), 80));
        let (_, attached) = router.forward(&tcp(client, server, Flags::SYN, (1, 0), b"")).unwrap();
        router.ct.set_mark(attached, 7);
        router.forward(&echo(v4(1, 1), v4(2, 2), true, 77));
        assert_eq!(
            nf_conntrack(&router.ct, router.now),
            "ipv4     2 tcp      6 120 SYN_SENT src=10.0.1.1 dst=10.0.2.2 sport=5000 dport=80 packets=1 bytes=40 \
             [UNREPLIED] src=10.0.2.2 dst=10.0.1.1 sport=80 dport=5000 packets=0 bytes=0 mark=7 zone=0 use=2\n\
             ipv4     2 icmp     1 30 src=10.0.1.1 dst=10.0.2.2 type=8 code=0 id=77 packets=1 bytes=32 \
             [UNREPLIED] src=10.0.2.2 dst=10.0.1.1 type=0 code=0 id=77 packets=0 bytes=0 mark=0 zone=0 use=2\n"
        );
        let mut router = Router::new();
        router.forward(&udp((v6(1, 1), 5000), (v6(2, 2), 53), b"query"));
        router.forward(&udp((v6(2, 2), 53), (v6(1, 1), 5000), b"answer"));
        router.forward(&ip(v4(1, 1), v4(2, 2), protocol::GRE, &[0, 0, 8, 0, 1, 2, 3, 4]));
        assert_eq!(
            nf_conntrack(&router.ct, router.now),
            "ipv6     10 udp      17 30 src=2001:0db8:0001:0000:0000:0000:0000:0001 \
             dst=2001:0db8:0002:0000:0000:0000:0000:0002 sport=5000 dport=53 \
             src=2001:0db8:0002:0000:0000:0000:0000:0002 dst=2001:0db8:0001:0000:0000:0000:0000:0001 sport=53 \
             dport=5000 mark=0 zone=0 use=2\n\
             ipv4     2 gre      47 30 timeout=30, stream_timeout=180 src=10.0.1.1 dst=10.0.2.2 srckey=0x0 \
             dstkey=0x0 [UNREPLIED] src=10.0.2.2 dst=10.0.1.1 srckey=0x0 dstkey=0x0 mark=0 zone=0 use=2\n"
        );
        let counters = stat(&router.ct);
        assert_eq!(counters.lines().count(), 2);
        assert!(counters.ends_with("00000002  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000  00000000 00000000 00000000 00000000\n"));
    }
}
