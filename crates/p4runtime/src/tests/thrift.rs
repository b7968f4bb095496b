//! Mutation test of the Thrift server: calls of every method with drawn arguments, some of them damaged, and
//! packets in between. No call may panic or hang the server, and intact calls are answered.

use super::mutations::ENTRIES;
use super::noise::Draw;
use crate::thrift::Server;
use crate::thrift::value::{Message, MessageType, Struct, Value, types};
use belljar_p4::servers::Connections;
use belljar_p4::{SwitchConfig, SwitchDevice};
use belljar_p4c::ProgramFile;
use std::path::Path;

/// Services with the sources that name their methods.
const SOURCES: [(&str, &str); 6] = [
    ("standard", include_str!("../thrift/tables.rs")),
    ("standard", include_str!("../thrift/profiles.rs")),
    ("standard", include_str!("../thrift/arrays.rs")),
    ("standard", include_str!("../thrift/mod.rs")),
    ("simple_pre_lag", include_str!("../thrift/replication.rs")),
    ("simple_switch", include_str!("../thrift/replication.rs")),
];

/// Objects of `everything.p4`, and names of none.
const NAMES: [&str; 16] = [
    "MyIngress.exactly",
    "MyIngress.longest",
    "MyIngress.rules",
    "MyIngress.chosen",
    "MyIngress.given",
    "MyIngress.paths",
    "MyIngress.plain",
    "MyIngress.limit",
    "MyIngress.last",
    "MyIngress.seen",
    "MyIngress.send",
    "MyIngress.note",
    "Parse.known",
    "0110",
    "",
    "nothing",
];

fn methods() -> Vec<String> {
    let starts = ["bm_", "mirroring_", "set_", "get_"];
    let quoted = SOURCES
        .iter()
        .flat_map(|(service, source)| source.split('"').skip(1).step_by(2).map(move |text| (service, text)));
    let named = quoted.filter(|(_, text)| {
        starts.iter().any(|start| text.starts_with(start))
            && !text.ends_with('_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    named.map(|(service, text)| format!("{service}:{text}")).collect()
}

fn value(draw: &mut Draw, depth: usize) -> Value {
    let small = |draw: &mut Draw| [0, 1, 2, 3, -1, 7, 255, i32::MAX][draw.next(8)];
    match draw.next(if depth == 0 { 8 } else { 12 }) {
        0..3 => Value::I32(small(draw)),
        3..5 => Value::text(NAMES[draw.next(NAMES.len())]),
        5 => Value::I64(i64::from(small(draw)) << draw.next(32)),
        6 => Value::Bool(draw.next(2) == 0),
        7 => Value::Bytes((0..draw.next(6)).map(|_| draw.next(256) as u8).collect()),
        8 => Value::Double([0.0, 0.5, -1.0, 1e300, f64::NAN][draw.next(5)]),
        9 | 10 => Value::of((1..=draw.next(7) as i16).map(|number| (number, value(draw, depth - 1)))),
        _ if draw.next(2) == 0 => {
            let texts = (0..draw.next(4)).map(|_| Value::Bytes(vec![draw.next(256) as u8; draw.next(4)]));
            Value::list(types::STRING, texts.collect::<Vec<_>>())
        }
        _ => {
            let structs = (0..draw.next(4))
                .map(|_| Value::of((1..=draw.next(7) as i16).map(|number| (number, value(draw, depth - 1)))));
            Value::list(types::STRUCT, structs.collect::<Vec<_>>())
        }
    }
}

#[test]
fn drawn_calls_are_answered_and_damaged_ones_refused() {
    let source = include_str!("everything.p4").to_owned();
    let file =
        ProgramFile::of_text(Path::new("everything.p4"), source).unwrap_or_else(|error| panic!("{error}"));
    let rounds =
        std::env::var("BELLJAR_FUZZ_ROUNDS").map_or(3_000, |rounds| rounds.parse().expect("a number"));
    let methods = methods();
    assert!(methods.len() > 60, "{} methods", methods.len());
    let mut draw = Draw(0x9e37_79b9 + rounds as u64);
    let mut server = Server::new(1, 9090);
    let mut connection = server.accept();
    let mut device = SwitchDevice::new(SwitchConfig { ports: 8, ..SwitchConfig::default() });
    let (mut answered, mut intact) = (0, 0);
    for round in 0..rounds {
        if round % 300 == 0 {
            let mut switch = device.load(&file.json).unwrap_or_else(|error| panic!("{error}"));
            belljar_p4files::commands::apply(&mut switch, ENTRIES).unwrap_or_else(|error| panic!("{error}"));
            device.install(switch);
        }
        let fields = (2..=6).map(|number| (number, value(&mut draw, 3))).collect::<Vec<_>>();
        let fields = Struct([vec![(1, Value::I32(0))], fields].concat());
        let name = methods[draw.next(methods.len())].clone();
        let mut bytes = Vec::new();
        Message { kind: MessageType::Call, name: name.clone(), sequence: 7, fields }.write(&mut bytes);
        let damaged = draw.next(4) == 0;
        for _ in 0..if damaged { 1 + draw.next(4) } else { 0 } {
            let at = draw.next(bytes.len());
            bytes[at] = draw.next(256) as u8;
        }
        server.receive(connection, &bytes);
        server.poll(&mut device, 0);
        let answer = server.transmit(connection, usize::MAX);
        if damaged {
            server.close(connection);
            connection = server.accept();
        } else {
            intact += 1;
            answered += usize::from(!answer.is_empty());
        }
        device.receive(device.now(), (round % 8) as u16, vec![draw.next(256) as u8; 40]);
        while device.poll(device.now()).is_some() {}
    }
    assert_eq!(answered, intact);
}
