//! Connections and expectations as messages.

use super::attribute::{counters, cta, expect, help, ip, proto, protoinfo, seqadj, stats, timestamp, tuple};
use super::message::{CONNECTIONS, EXPECTATIONS, Envelope, MULTI, Writer};
use crate::conn::{Conn, CtStatus, CtZone, ProtocolState};
use crate::conntrack::Conntrack;
use crate::event::{EventGroups, Reporter, change};
use crate::expect::Expectation;
use crate::statistics::CtStatistics;
use crate::tuple::{InetAddress, L3, Tuple, protocol};
use belljar_base::{HZ, SimTime};

/// `NLM_F_CREATE | NLM_F_EXCL` of a notification about something new.
const NEW_FLAGS: u16 = 0x600;

/// Kinds of messages (`IPCTNL_MSG_*`).
const NEW: u8 = 0;
const DELETE: u8 = 2;
const STATS_CPU: u8 = 4;
const STATS: u8 = 5;
const EXPECT_STATS_CPU: u8 = 3;

fn put_tuple(out: &mut Writer, kind: u16, tuple: &Tuple, zone: Option<u16>) {
    out.nest(kind, |out| {
        put_addresses(out, tuple);
        put_protocol(out, tuple);
        if let Some(zone) = zone {
            out.put_be16(tuple::ZONE, zone);
        }
    });
}

fn put_addresses(out: &mut Writer, tuple: &Tuple) {
    let (source, destination) = match tuple.l3 {
        L3::V4 => (ip::V4_SRC, ip::V4_DST),
        L3::V6 => (ip::V6_SRC, ip::V6_DST),
    };
    out.nest(tuple::IP, |out| {
        out.put(source, tuple.source.bytes(tuple.l3));
        out.put(destination, tuple.destination.bytes(tuple.l3));
    });
}

fn put_protocol(out: &mut Writer, tuple: &Tuple) {
    out.nest(tuple::PROTO, |out| {
        out.put_u8(proto::NUM, tuple.protocol);
        match tuple.protocol {
            protocol::ICMP => {
                out.put_be16(proto::ICMP_ID, tuple.source_port);
                out.put_u8(proto::ICMP_TYPE, tuple.icmp_type());
                out.put_u8(proto::ICMP_CODE, tuple.icmp_code());
            }
            protocol::ICMPV6 => {
                out.put_be16(proto::ICMPV6_ID, tuple.source_port);
                out.put_u8(proto::ICMPV6_TYPE, tuple.icmp_type());
                out.put_u8(proto::ICMPV6_CODE, tuple.icmp_code());
            }
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::GRE => {
                out.put_be16(proto::SRC_PORT, tuple.source_port);
                out.put_be16(proto::DST_PORT, tuple.destination_port);
            }
            _ => {}
        }
    });
}

fn put_tuples(out: &mut Writer, conn: &Conn) {
    let zone = |bits: u8| (conn.zone.id != 0 && conn.zone.directions == bits).then_some(conn.zone.id);
    put_tuple(out, cta::TUPLE_ORIG, conn.original(), zone(CtZone::ORIGINAL));
    put_tuple(out, cta::TUPLE_REPLY, conn.reply(), zone(CtZone::REPLY));
    if let Some(id) = zone(CtZone::DEFAULT.directions) {
        out.put_be16(cta::ZONE, id);
    }
}

fn put_protoinfo(out: &mut Writer, conn: &Conn, state_only: bool) {
    match &conn.protocol {
        ProtocolState::Tcp(track) => out.nest(cta::PROTOINFO, |out| {
            out.nest(protoinfo::TCP, |out| {
                use protoinfo::tcp;
                out.put_u8(tcp::STATE, track.state as u8);
                if state_only {
                    return;
                }
                let [original, reply] = track.sides;
                out.put_u8(tcp::WSCALE_ORIGINAL, original.scale);
                out.put_u8(tcp::WSCALE_REPLY, reply.scale);
                out.put(tcp::FLAGS_ORIGINAL, &[original.flags.bits(), 0]);
                out.put(tcp::FLAGS_REPLY, &[reply.flags.bits(), 0]);
            });
        }),
        ProtocolState::Sctp(track) => out.nest(cta::PROTOINFO, |out| {
            out.nest(protoinfo::SCTP, |out| {
                use protoinfo::sctp;
                out.put_u8(sctp::STATE, track.state as u8);
                if !state_only {
                    out.put_be32(sctp::VTAG_ORIGINAL, track.tags[0]);
                    out.put_be32(sctp::VTAG_REPLY, track.tags[1]);
                }
            });
        }),
        ProtocolState::Stateless | ProtocolState::Udp { .. } => {}
    }
}

fn put_counters(out: &mut Writer, conn: &Conn) {
    let Some(both) = &conn.counters else { return };
    for (kind, counted) in [(cta::COUNTERS_ORIG, both[0]), (cta::COUNTERS_REPLY, both[1])] {
        out.nest(kind, |out| {
            out.put_be64(counters::PACKETS, counted.packets);
            out.put_be64(counters::BYTES, counted.bytes);
        });
    }
}

fn put_timestamps(out: &mut Writer, conn: &Conn) {
    let Some((start, stop)) = conn.timestamps else { return };
    out.nest(cta::TIMESTAMP, |out| {
        out.put_be64(timestamp::START, start);
        if stop != 0 {
            out.put_be64(timestamp::STOP, stop);
        }
    });
}

fn put_helper(out: &mut Writer, conn: &Conn) {
    if let Some(helper) = conn.helper {
        out.nest(cta::HELP, |out| out.put_text(help::NAME, helper.name()));
    }
}

fn put_labels(out: &mut Writer, conn: &Conn) {
    if conn.labels != [0; 16] {
        out.put(cta::LABELS, &conn.labels);
    }
}

fn put_adjustments(out: &mut Writer, conn: &Conn) {
    let Some(extra) = conn.extra.as_ref().filter(|_| conn.is(CtStatus::SEQ_ADJUST)) else { return };
    for (kind, adjustment) in [cta::SEQ_ADJ_ORIG, cta::SEQ_ADJ_REPLY].into_iter().zip(&extra.adjustments) {
        out.nest(kind, |out| {
            out.put_be32(seqadj::CORRECTION_POS, adjustment.position);
            out.put_be32(seqadj::OFFSET_BEFORE, adjustment.before as u32);
            out.put_be32(seqadj::OFFSET_AFTER, adjustment.after as u32);
        });
    }
}

fn put_master(out: &mut Writer, conn: &Conn) {
    let Some(tuple) = conn.extra.as_ref().and_then(|extra| extra.master_tuple) else { return };
    if conn.is(CtStatus::EXPECTED) {
        put_tuple(out, cta::TUPLE_MASTER, &tuple, None);
    }
}

fn seconds_left(conn: &Conn, now: SimTime) -> u32 {
    (conn.ticks_left(now) / HZ) as u32
}

/// Connection as an answer or a part of a dump (`ctnetlink_fill_info`). `uses` is the number of references
/// that Linux would show.
pub(super) fn connection(conn: &Conn, to: (u32, u32), flags: u16, uses: u32, now: SimTime) -> Vec<u8> {
    let (sequence, port) = to;
    let mut out = Writer::new(Envelope {
        subsystem: CONNECTIONS,
        kind: NEW,
        flags: flags | if port != 0 { MULTI } else { 0 },
        sequence,
        port,
        family: conn.original().l3.family(),
        resource: 0,
    });
    put_tuples(&mut out, conn);
    out.put_be32(cta::STATUS, conn.status.bits());
    out.put_be32(cta::MARK, conn.mark);
    out.put_be32(cta::ID, conn.id);
    out.put_be32(cta::USE, uses);
    put_master(&mut out, conn);
    out.put_be32(cta::TIMEOUT, seconds_left(conn, now));
    put_protoinfo(&mut out, conn, false);
    put_counters(&mut out, conn);
    put_timestamps(&mut out, conn);
    put_helper(&mut out, conn);
    put_labels(&mut out, conn);
    put_adjustments(&mut out, conn);
    out.finish()
}

/// Notification about a connection (`ctnetlink_conntrack_event`).
pub(crate) fn event(
    conn: &Conn,
    group: EventGroups,
    changes: u16,
    reporter: Reporter,
    now: SimTime,
) -> Vec<u8> {
    let destroyed = group == EventGroups::DESTROY;
    let mut out = Writer::new(Envelope {
        subsystem: CONNECTIONS,
        kind: if destroyed { DELETE } else { NEW },
        flags: if group == EventGroups::NEW { NEW_FLAGS } else { 0 },
        sequence: 0,
        port: reporter.port,
        family: conn.original().l3.family(),
        resource: 0,
    });
    put_tuples(&mut out, conn);
    out.put_be32(cta::ID, conn.id);
    out.put_be32(cta::STATUS, conn.status.bits());
    let left = seconds_left(conn, now);
    if destroyed {
        if left != 0 {
            out.put_be32(cta::TIMEOUT, left);
        }
        put_counters(&mut out, conn);
        put_timestamps(&mut out, conn);
        put_protoinfo(&mut out, conn, true);
    } else {
        out.put_be32(cta::TIMEOUT, left);
        if changes & change::PROTOINFO != 0 {
            put_protoinfo(&mut out, conn, false);
        }
        put_helper(&mut out, conn);
        if changes & change::LABEL != 0 {
            put_labels(&mut out, conn);
        }
        if changes & change::RELATED != 0 {
            put_master(&mut out, conn);
        }
        if changes & change::SEQADJ != 0 {
            put_adjustments(&mut out, conn);
        }
    }
    if conn.mark != 0 || changes & change::MARK != 0 {
        out.put_be32(cta::MARK, conn.mark);
    }
    out.finish()
}

fn put_expectation(out: &mut Writer, ct: &Conntrack, expectation: &Expectation, now: SimTime) {
    let own = &expectation.tuple;
    put_tuple(out, expect::TUPLE, own, None);
    let all = InetAddress([0xff; 16]);
    let mask = Tuple {
        source: if expectation.has_source { all } else { InetAddress::UNSPECIFIED },
        destination: all,
        source_port: if expectation.has_source_port { 0xffff } else { 0 },
        destination_port: 0xffff,
        ..*own
    };
    put_tuple(out, expect::MASK, &mask, None);
    if let Some(master) = ct.conn_of(expectation.master) {
        put_tuple(out, expect::MASTER, master.original(), None);
    }
    if let Some(port) = expectation.saved_port {
        out.nest(expect::NAT, |out| {
            out.put_be32(expect::NAT_DIR, expectation.direction as u32);
            let saved = Tuple { source_port: port, l3: own.l3, protocol: own.protocol, ..Tuple::default() };
            put_tuple(out, expect::NAT_TUPLE, &saved, None);
        });
    }
    out.put_be32(expect::TIMEOUT, expectation.seconds_left(now) as u32);
    out.put_be32(expect::ID, expectation.id);
    out.put_be32(expect::FLAGS, u32::from(expectation.permanent));
    out.put_be32(expect::CLASS, 0);
    out.put_text(expect::HELP_NAME, expectation.helper.name());
    if expectation.saved_port.is_some() {
        out.put_text(expect::FN, "nat-follow-master");
    }
}

/// Expectation as an answer or a part of a dump (`ctnetlink_exp_fill_info`).
pub(super) fn expectation(
    ct: &Conntrack,
    expectation: &Expectation,
    (sequence, port): (u32, u32),
    now: SimTime,
) -> Vec<u8> {
    let mut out = Writer::new(Envelope {
        subsystem: EXPECTATIONS,
        kind: NEW,
        flags: if port != 0 { MULTI } else { 0 },
        sequence,
        port,
        family: expectation.tuple.l3.family(),
        resource: 0,
    });
    put_expectation(&mut out, ct, expectation, now);
    out.finish()
}

/// Notification about an expectation (`ctnetlink_expect_event`).
pub(crate) fn expectation_event(
    ct: &Conntrack,
    expectation: &Expectation,
    group: EventGroups,
    now: SimTime,
) -> Vec<u8> {
    let mut out = Writer::new(Envelope {
        subsystem: EXPECTATIONS,
        kind: if group == EventGroups::EXPECT_DESTROY { DELETE } else { NEW },
        flags: if group == EventGroups::EXPECT_NEW { NEW_FLAGS } else { 0 },
        family: expectation.tuple.l3.family(),
        ..Envelope::default()
    });
    put_expectation(&mut out, ct, expectation, now);
    out.finish()
}

fn statistics_envelope(subsystem: u8, kind: u8, (sequence, port): (u32, u32)) -> Envelope {
    let flags = if port != 0 { MULTI } else { 0 };
    Envelope { subsystem, kind, flags, sequence, port, family: 0, resource: 0 }
}

/// Counters of the one processor (`ctnetlink_ct_stat_cpu_fill_info`).
pub(super) fn processor_statistics(counted: &CtStatistics, to: (u32, u32)) -> Vec<u8> {
    let mut out = Writer::new(statistics_envelope(CONNECTIONS, STATS_CPU, to));
    for (kind, value) in [
        (stats::FOUND, counted.found),
        (stats::INVALID, counted.invalid),
        (stats::INSERT, counted.insert),
        (stats::INSERT_FAILED, counted.insert_failed),
        (stats::DROP, counted.drop),
        (stats::EARLY_DROP, counted.early_drop),
        (stats::ERROR, counted.error),
        (stats::SEARCH_RESTART, 0),
        (stats::CLASH_RESOLVE, counted.clash_resolve),
        (stats::CHAIN_TOOLONG, 0),
    ] {
        out.put_be32(kind, value as u32);
    }
    out.finish()
}

/// Number of connections and its limit (`ctnetlink_stat_ct_fill_info`).
pub(super) fn global_statistics(ct: &Conntrack, to: (u32, u32)) -> Vec<u8> {
    let mut out = Writer::new(statistics_envelope(CONNECTIONS, STATS, to));
    out.put_be32(stats::ENTRIES, ct.len() as u32);
    out.put_be32(stats::MAX_ENTRIES, ct.settings.max);
    out.finish()
}

/// Counters of expectations of the one processor (`ctnetlink_exp_stat_fill_info`).
pub(super) fn expectation_statistics(counted: &CtStatistics, to: (u32, u32)) -> Vec<u8> {
    let mut out = Writer::new(statistics_envelope(EXPECTATIONS, EXPECT_STATS_CPU, to));
    out.put_be32(stats::EXPECT_NEW, counted.expect_new as u32);
    out.put_be32(stats::EXPECT_CREATE, counted.expect_create as u32);
    out.put_be32(stats::EXPECT_DELETE, counted.expect_delete as u32);
    out.finish()
}
