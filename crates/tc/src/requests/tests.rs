//! Tests of requests: drawn at random, with packets between them.

use super::*;
use crate::control::Sent;
use crate::{Buffer, DefaultDiscipline};
use belljar_base::{Seed, SimDuration, Stream};
use belljar_net::Packet;
use belljar_wire::ethernet;

fn device(index: u32) -> TcDevice {
    TcDevice {
        index,
        mtu: 1_500,
        header: 14,
        queue_len: 1_000,
        up: true,
        default: DefaultDiscipline::None,
        sent: (0, 0, 0),
    }
}

fn devices() -> Vec<(usize, TcDevice)> {
    (0..3).map(|number| (number, device(number as u32 + 1))).collect()
}

/// Frame of UDP over IPv4 to a port.
fn frame(port: u16, len: usize) -> Buffer {
    let mut bytes = vec![0; ethernet::HEADER_LEN + 28 + len];
    let total = (28 + len) as u16;
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[36..38].copy_from_slice(&port.to_be_bytes());
    Buffer::new(Packet::new(bytes), true, 0)
}

const QDISCS: [&str; 18] = [
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "noqueue",
    "prio",
    "tbf",
    "htb",
    "netem",
    "codel",
    "fq_codel",
    "red",
    "sfq",
    "drr",
    "ingress",
    "clsact",
    "pfifo_head_drop",
    "cake",
    "",
];
const CLASSIFIERS: [&str; 6] = ["u32", "matchall", "fw", "flower", "basic", "bpf"];
const ACTIONS: [&str; 8] = ["gact", "mirred", "police", "skbedit", "vlan", "csum", "pedit", "ct"];

/// Random number that is often small.
fn number(stream: &mut Stream) -> u32 {
    match stream.below(6) {
        0 => stream.next_u32(),
        1 => stream.below(70_000) as u32,
        2 => u32::MAX - stream.below(20) as u32,
        3 => 1 << stream.below(32),
        _ => stream.below(20) as u32,
    }
}

/// Random attributes: numbers, structures and nested ones.
fn attributes(stream: &mut Stream, depth: u32) -> Out {
    let mut out = Out::default();
    for _ in 0..stream.below(6) {
        let kind = stream.below(16) as u16;
        if depth > 0 && stream.below(3) == 0 {
            out.put(kind, &attributes(stream, depth - 1).0);
            continue;
        }
        let words = stream.below(16);
        let mut value: Vec<u8> = (0..words).flat_map(|_| number(stream).to_ne_bytes()).collect();
        value.truncate(value.len() - stream.below(3).min(value.len() as u64) as usize);
        out.put(kind, &value);
    }
    out
}

fn action(stream: &mut Stream) -> Out {
    let mut out = Out::default();
    out.text(1, ACTIONS[stream.below(ACTIONS.len() as u64) as usize]);
    out.nest(2, |out| {
        for kind in [1, 2, 4] {
            let words: Vec<u8> = (0..16).flat_map(|_| number(stream).to_ne_bytes()).collect();
            out.put(kind, &words);
        }
        out.0.extend(attributes(stream, 1).0);
    });
    out
}

/// Options of a kind, well-formed more often than not.
fn options(kind: &str, stream: &mut Stream) -> Out {
    let mut small = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|_| (stream.below(200_000) as u32).to_ne_bytes()).collect()
    };
    let mut out = Out::default();
    match kind {
        "pfifo" | "bfifo" => out.0 = small(1),
        "prio" => {
            out.0 = 3u32.to_ne_bytes().to_vec();
            out.0.extend([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
        }
        "tbf" => {
            let mut parms = small(9);
            parms[12..24].fill(0);
            out.put(1, &parms);
        }
        "netem" => {
            out.0 = small(6);
            out.0.extend(attributes(stream, 1).0);
        }
        "htb" => out.put(2, &[3u32, 10, stream.below(4) as u32, 0, 0].map(u32::to_ne_bytes).concat()),
        "red" => {
            let mut parms = [100_000u32, 10_000, 30_000].map(u32::to_ne_bytes).concat();
            parms.extend([9, 10, 13, 1]);
            out.put(1, &parms);
            out.put(2, &[1; 256]);
        }
        "u32" => {
            out.u32(1, 0x1_0000 | stream.below(4) as u32);
            let mut sel = vec![1u8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            sel.extend([0u32, 0, stream.below(40) as u32, 0].map(u32::to_ne_bytes).concat());
            out.put(5, &sel);
        }
        _ => out = attributes(stream, 2),
    }
    if stream.below(3) == 0 && CLASSIFIERS.contains(&kind) {
        let list = [7, 2, 4, 3][stream.below(4) as usize];
        let made = action(stream);
        out.nest(list, |out| out.put(1, &made.0));
    }
    out
}

fn body(kind: u16, stream: &mut Stream) -> Vec<u8> {
    if (NEWACTION..=GETACTION).contains(&kind) {
        let mut out = Out(vec![0; 4]);
        let mut one = action(stream);
        one.u32(3, stream.below(3) as u32);
        out.nest(1, |out| out.put(1, &one.0));
        return out.0;
    }
    const PARENTS: [u32; 11] = [
        0xffff_ffff,
        0xffff_ffff,
        0xffff_fff1,
        0x1_0000,
        0x1_0000,
        0x1_0001,
        0x1_0002,
        0x2_0001,
        0,
        0xffff_fff2,
        0xffff_fff3,
    ];
    const HANDLES: [u32; 7] = [0, 0x1_0000, 0x2_0000, 0x1_0001, 0x1_0002, 0x8000_0800, 5];
    let pick = |all: &[u32], stream: &mut Stream| match stream.below(10) {
        0 => number(stream),
        _ => all[stream.below(all.len() as u64) as usize],
    };
    let index = stream.below(4) as u32 + u32::from(stream.below(8) != 0);
    let (mut handle, mut parent) = (pick(&HANDLES, stream), pick(&PARENTS, stream));
    if (NEWTCLASS..=GETTCLASS).contains(&kind) && stream.below(4) != 0 {
        handle = 0x1_0001 + stream.below(4) as u32;
        parent = [0x1_0000, 0xffff_ffff, 0x1_0001, 0x1_0002][stream.below(4) as usize];
    }
    if kind == NEWQDISC && parent == 0xffff_ffff && stream.below(2) == 0 {
        handle = 0x1_0000;
    }
    let of_filters = (NEWTFILTER..=GETTFILTER).contains(&kind);
    let info = match of_filters {
        true => (stream.below(4) as u32) << 16 | u32::from([0x0300u16, 0x0008][stream.below(2) as usize]),
        false => 0,
    };
    let mut out = message(index, handle, parent, info);
    let name = match of_filters {
        true => CLASSIFIERS[stream.below(CLASSIFIERS.len() as u64) as usize],
        false if parent == 0xffff_ffff && stream.below(2) == 0 => ["htb", "drr"][stream.below(2) as usize],
        false => QDISCS[stream.below(QDISCS.len() as u64) as usize],
    };
    let nameless = [DELQDISC, GETQDISC, DELTFILTER, NEWTCLASS, DELTCLASS].contains(&kind);
    if stream.below(10) != 0 && !(nameless && stream.below(3) != 0) {
        out.text(KIND, name);
    }
    if stream.below(8) != 0 {
        let made = match (NEWTCLASS..=GETTCLASS).contains(&kind) {
            true => {
                let mut made = Out::default();
                let opt: Vec<u8> =
                    (0..11).flat_map(|_| (stream.below(1_000_000) as u32 + 1).to_ne_bytes()).collect();
                made.put(1, &opt);
                made
            }
            false => options(name, stream),
        };
        out.put(OPTIONS, &made.0);
    }
    if stream.below(20) == 0 {
        out.0.extend(attributes(stream, 2).0);
    }
    out.0
}

/// Sends packets, and returns the number that left, were dropped, or were moved.
fn traffic(control: &mut TrafficControl, now: SimTime, stream: &mut Stream, offered: &mut u64) -> u64 {
    let mut results = Results::default();
    let mut ended = 0;
    for _ in 0..stream.below(8) {
        let interface = stream.below(3) as usize;
        let mut buffer = frame(stream.below(5) as u16, stream.below(1_400) as usize + 1);
        buffer.priority = stream.below(8) as u32;
        *offered += 1;
        if stream.below(3) == 0 {
            ended += u64::from(control.ingress(now, interface, buffer, &mut results).is_some());
            continue;
        }
        match control.egress(now, interface, buffer, &mut results) {
            Sent::Queued => {}
            Sent::Dropped(..) | Sent::Direct(_) => ended += 1,
        }
    }
    for interface in 0..3 {
        for _ in 0..50 {
            if control.dequeue(now, interface, &mut results).is_none() {
                break;
            }
            ended += 1;
        }
    }
    *offered +=
        results.copies + results.redirected.iter().filter(|redirected| redirected.copy).count() as u64;
    ended + (results.dropped.len() + results.consumed.len() + results.redirected.len()) as u64
}

/// Random requests between packets: nothing panics, and every packet is accounted for.
#[test]
fn random_requests_are_answered_or_refused() {
    let mut accepted = [0; 128];
    for seed in 0..80 {
        let mut stream = Seed(seed).stream(&["fuzz"]);
        let mut control = TrafficControl::new(Seed(seed));
        let (mut now, mut offered, mut ended) = (SimTime::ZERO, 0, 0);
        const KINDS: [u16; 12] = [
            NEWQDISC, NEWQDISC, NEWQDISC, DELQDISC, GETQDISC, NEWTCLASS, NEWTCLASS, DELTCLASS, NEWTFILTER,
            NEWTFILTER, DELTFILTER, NEWACTION,
        ];
        for _ in 0..200 {
            let kind = match stream.below(10) {
                0 => [GETTCLASS, GETTFILTER, DELACTION, GETACTION, NEWCHAIN, GETCHAIN]
                    [stream.below(6) as usize],
                _ => KINDS[stream.below(KINDS.len() as u64) as usize],
            };
            let mut body = body(kind, &mut stream);
            if stream.below(30) == 0 {
                body.truncate(stream.below(body.len() as u64 + 1) as usize);
            }
            let flags = [CREATE | EXCL, CREATE | REPLACE, CREATE, 0, REPLACE][stream.below(5) as usize];
            let dump = kind & 3 == 2 && stream.below(2) == 0;
            let request = TcRequest { kind, flags, dump, body: &body, now };
            let mut results = Results::default();
            if control.request(&request, &devices(), &mut results).is_ok() {
                accepted[usize::from(kind)] += 1;
            }
            ended += results.dropped.len() as u64;
            ended += traffic(&mut control, now, &mut stream, &mut offered);
            assert_eq!(
                ended + control.held(),
                offered,
                "seed {seed}, request {kind} {:?}",
                String::from_utf8_lossy(&body)
            );
            now = now.saturating_add(SimDuration::from_micros(stream.below(50_000)));
            for kind in [GETQDISC, GETTCLASS, GETTFILTER, GETCHAIN] {
                let body = message(stream.below(4) as u32, 0, 0, 0).0;
                let request = TcRequest { kind, flags: 0, dump: true, body: &body, now };
                control.request(&request, &devices(), &mut Results::default()).unwrap();
            }
        }
    }
    for kind in [NEWQDISC, DELQDISC, NEWTCLASS, NEWTFILTER, NEWACTION] {
        assert!(accepted[usize::from(kind)] > 0, "{kind}: {}", accepted[usize::from(kind)]);
    }
}

/// Bytes that two classes of `htb` send in ten seconds while both have packets.
fn shares(rates: [u32; 2], ceil: u32) -> [u64; 2] {
    let mut control = TrafficControl::new(Seed(1));
    let mut results = Results::default();
    let mut ask = |kind, handle, parent, options: Out| {
        let mut body = message(1, handle, parent, 0);
        body.text(KIND, "htb");
        body.put(OPTIONS, &options.0);
        let request =
            TcRequest { kind, flags: CREATE | EXCL, dump: false, body: &body.0, now: SimTime::ZERO };
        control.request(&request, &devices(), &mut results).unwrap();
    };
    let mut init = Out::default();
    init.put(2, &[3u32, 10, 2, 0, 0].map(u32::to_ne_bytes).concat());
    ask(NEWQDISC, 0x1_0000, 0xffff_ffff, init);
    let mut class = |handle, parent, rate: u32, ceil: u32| {
        let spec = |rate: u32| [[0, 1, 0, 0].as_slice(), &[0; 4], &rate.to_ne_bytes()].concat();
        // Bursts of 10 ms, in ticks of 64 ns.
        let rest = [156_250u32, 156_250, 1_514, 0, 0].map(u32::to_ne_bytes).concat();
        let mut options = Out::default();
        options.put(1, &[spec(rate), spec(ceil), rest].concat());
        ask(NEWTCLASS, handle, parent, options);
    };
    class(0x1_0001, 0x1_0000, ceil, ceil);
    class(0x1_0002, 0x1_0001, rates[0], ceil);
    class(0x1_0003, 0x1_0001, rates[1], ceil);
    let (mut sent, mut now) = ([0; 2], SimTime::ZERO);
    while now < SimTime::from_secs(10) {
        for class in 0..2 {
            while control.queue_len(0) < 20 + class * 20 {
                let mut buffer = frame(class as u16, 1_458);
                buffer.priority = 0x1_0002 + class as u32;
                control.egress(now, 0, buffer, &mut Results::default());
            }
        }
        while let Some(buffer) = control.dequeue(now, 0, &mut Results::default()) {
            sent[(buffer.priority - 0x1_0002) as usize] += u64::from(buffer.len);
            let mut again = frame(0, 1_458);
            again.priority = buffer.priority;
            control.egress(now, 0, again, &mut Results::default());
        }
        now = control.next().unwrap_or(now).max(now + SimDuration::from_micros(1));
    }
    sent
}

#[test]
fn classes_of_htb_get_their_rates_and_share_the_rest() {
    // 1,000,000 bytes/s: both within their rates.
    let [one, other] = shares([250_000, 750_000], 1_000_000);
    assert!((one as f64 / 2.5e6 - 1.0).abs() < 0.02, "{one}");
    assert!((other as f64 / 7.5e6 - 1.0).abs() < 0.02, "{other}");
    // What is left is shared by their quanta, which are equal.
    let [one, other] = shares([100_000, 300_000], 1_000_000);
    assert!(((one + other) as f64 / 1e7 - 1.0).abs() < 0.02, "{one} {other}");
    assert!(
        (one as f64 / 4e6 - 1.0).abs() < 0.03 && (other as f64 / 6e6 - 1.0).abs() < 0.03,
        "{one} {other}"
    );
}
