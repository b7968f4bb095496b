//! Malformed input: histories with bytes and lines changed at random give an error or a report, never a panic.

use crate::{History, Level, Limits, MODELS, check};
use belljar_base::{Seed, Stream};

const SEEDS: [&str; 7] = [
    r#"{"time": 1, "process": 0, "type": "invoke", "f": "write", "value": 1}
{"time": "2 us", "process": 1, "type": "invoke", "f": "read", "key": "x"}
{"time": 2000, "process": 0, "type": "ok", "f": "write", "value": 1}
{"time": 2001, "process": 1, "type": "ok", "f": "read", "key": "x", "value": 1}
"#,
    r#"{"process": 0, "type": "invoke", "f": "cas", "key": 1, "value": [1, 2]}
{"process": 0, "type": "info", "f": "cas", "key": 1, "value": [1, 2]}
{"process": 0, "type": "invoke", "f": "put", "key": 1, "value": {"a": [1, null]}}
{"process": 1, "type": "invoke", "f": "snapshot"}
{"process": 1, "type": "ok", "f": "snapshot", "value": [[1, {"a": [1, null]}]]}
"#,
    r#"{"process": 0, "type": "invoke", "f": "add", "value": 9223372036854775807}
{"process": 1, "type": "invoke", "f": "contains", "value": 1}
{"process": 1, "type": "ok", "f": "contains", "value": [1, true]}
{"process": 0, "type": "ok", "f": "add", "value": 9223372036854775807}
{"process": 2, "type": "invoke", "f": "read"}
{"process": 2, "type": "ok", "f": "read", "value": [1, 2]}
"#,
    r#"{"process": 0, "type": "invoke", "f": "txn", "value": [["append", "x", 1], ["r", "y", null]]}
{"process": 1, "type": "invoke", "f": "txn", "value": [["append", "y", 1], ["r", "x", null]]}
{"process": 0, "type": "ok", "f": "txn", "value": [["append", "x", 1], ["r", "y", [1]]]}
{"process": 1, "type": "ok", "f": "txn", "value": [["append", "y", 1], ["r", "x", [1, 1]]]}
"#,
    r#"{"process": "a", "type": "invoke", "f": "txn", "value": [["w", 1, 1], ["r", 2, null], ["w", 1, 2]]}
{"process": "b", "type": "invoke", "f": "txn", "value": [["w", 2, 1], ["r", 1, null]]}
{"process": "a", "type": "fail", "f": "txn", "value": [["w", 1, 1], ["r", 2, 1], ["w", 1, 2]]}
{"process": "b", "type": "ok", "f": "txn", "value": [["w", 2, 1], ["r", 1, 1]]}
"#,
    r#"{"process": 0, "type": "invoke", "f": "send", "value": ["a", 1]}
{"process": 0, "type": "ok", "f": "send", "value": ["a", [0, 1]]}
{"process": 1, "type": "invoke", "f": "poll", "value": {"a": 0, "b": 3}}
{"process": 1, "type": "ok", "f": "poll", "value": {"a": [[0, 1], [2, 3]], "b": []}}
"#,
    r#"{"process": 0, "type": "invoke", "f": "broadcast", "value": 1}
{"process": 1, "type": "invoke", "f": "read", "final": true}
{"process": 0, "type": "ok", "f": "broadcast", "value": 1}
{"process": 1, "type": "ok", "f": "read", "value": [1, 2]}
"#,
];
const PIECES: [&str; 16] = [
    "null",
    "[]",
    "{}",
    "-1",
    "1e999",
    "\"invoke\"",
    "\"ok\"",
    "\"read\"",
    "\"append\"",
    "18446744073709551615",
    "\n",
    "\"",
    "]",
    ",",
    "\\u0000",
    "\u{202e}",
];

fn mutate(random: &mut Stream, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let end = (at + random.below(3) as usize).min(bytes.len());
        let piece: Vec<u8> = match random.below(5) {
            0 => Vec::new(),
            1 => PIECES[random.below(PIECES.len() as u64) as usize].bytes().collect(),
            2 => vec![random.below(256) as u8],
            3 => {
                // Another digit: the history stays well-formed, and means something else.
                let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                bytes[digits[random.below(digits.len() as u64) as usize]] = b'0' + random.below(4) as u8;
                continue;
            }
            _ => {
                // A line in another place.
                let lines: Vec<&str> = text.lines().collect();
                let line = lines[random.below(lines.len() as u64) as usize];
                bytes.extend(format!("\n{line}\n").into_bytes());
                continue;
            }
        };
        bytes.splice(at..end, piece);
    }
    bytes
}

#[test]
fn malformed_histories_are_refused_without_a_panic() {
    let limits = Limits { configurations: 1_000, bytes: 1 << 20 };
    let (mut refused, mut judged) = (0, 0);
    for round in 0..20_000 {
        let mut random = Seed(round).stream(&["histories", "mutations"]);
        let text = SEEDS[random.below(SEEDS.len() as u64) as usize];
        let bytes = mutate(&mut random, text);
        let Ok(history) = History::read(&bytes[..]) else {
            refused += 1;
            continue;
        };
        assert!(!history.to_edn().contains("\n\n"));
        for (model, _) in MODELS {
            match check(&history, model, Level::default(), limits) {
                Ok(report) => {
                    judged += 1;
                    let text = format!("{report}{}", report.to_json());
                    assert!(!text.is_empty());
                }
                Err(error) => assert!(error.line > 0 && !error.remedy.is_empty(), "{error}"),
            }
        }
    }
    assert!(refused > 2_000 && judged > 2_000, "{refused} {judged}");
}
