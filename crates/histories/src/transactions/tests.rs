//! Planted anomalies are found, and no anomaly is reported where an order of the transactions explains all reads.

use crate::{History, Level, Limits, Outcome, Report, TransactionKind, Verdict, check_transactions};
use belljar_base::{Seed, Stream};
use std::fmt::Write;

fn judge(text: &str, kind: TransactionKind, level: Level) -> Report {
    let history = History::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    check_transactions(&history, kind, level, Limits::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// History of transactions written as events: `0< ...` invokes, `0> ...` is ok, `0! ...` fails, `0? ...` is of unknown outcome.
/// Micro-operations are `ax1` (append or write 1 to x), `rx` (read not known) and `rx12` (read [1, 2]; of a register 12).
fn history(kind: TransactionKind, events: &[&str]) -> String {
    let mut text = String::new();
    for event in events {
        let (head, micros) = event.split_once(' ').unwrap();
        let (process, step) = head.split_at(head.len() - 1);
        let step = match step {
            "<" => "invoke",
            ">" => "ok",
            "!" => "fail",
            _ => "info",
        };
        let micro = |word: &str| {
            let (head, value) = word.split_at(2);
            let (f, key) = head.split_at(1);
            match (f, kind) {
                ("a", TransactionKind::ListAppend) => format!(r#"["append", "{key}", {value}]"#),
                ("a", TransactionKind::Register) => format!(r#"["w", "{key}", {value}]"#),
                (_, TransactionKind::Register) if !value.is_empty() => format!(r#"["r", "{key}", {value}]"#),
                (_, TransactionKind::ListAppend) if !value.is_empty() => {
                    let list: Vec<String> = value.chars().map(String::from).collect();
                    format!(r#"["r", "{key}", [{}]]"#, list.join(", "))
                }
                _ => format!(r#"["r", "{key}", null]"#),
            }
        };
        let micros: Vec<String> = micros.split_whitespace().map(micro).collect();
        let micros = micros.join(", ");
        writeln!(text, r#"{{"process": {process}, "type": "{step}", "f": "txn", "value": [{micros}]}}"#)
            .unwrap();
    }
    text
}

fn kinds(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.kind.as_str()).collect()
}

const LIST: TransactionKind = TransactionKind::ListAppend;
const REGISTER: TransactionKind = TransactionKind::Register;

/// Holds that the anomaly is found, which of the levels are excluded at the least, and that the mended history, in which events are replaced, has none.
fn planted(kind: TransactionKind, anomaly: &str, weakest: &str, events: &[&str], mended: &[(usize, &str)]) {
    let report = judge(&history(kind, events), kind, Level::StrictSerializable);
    assert!(kinds(&report).contains(&anomaly), "{anomaly} is not found: {report}");
    assert_eq!(report.verdict, Verdict::Invalid);
    assert_eq!(report.excluded[0], weakest, "{report}");
    let mut events = events.to_vec();
    for &(at, event) in mended {
        events[at] = event;
    }
    let report = judge(&history(kind, &events), kind, Level::StrictSerializable);
    assert!(report.findings.is_empty() && report.verdict == Verdict::Valid, "mended {anomaly}: {report}");
}

#[test]
fn anomalies_that_reads_show() {
    planted(LIST, "G1a", "read-committed", &["0< ax1", "0! ax1", "1< rx", "1> rx1"], &[(1, "0> ax1")]);
    planted(REGISTER, "G1a", "read-committed", &["0< ax1", "0! ax1", "1< rx", "1> rx1"], &[(1, "0? ax1")]);
    let intermediate = ["0< ax1 ax2", "1< rx", "1> rx1", "0> ax1 ax2"];
    planted(LIST, "G1b", "read-committed", &intermediate, &[(2, "1> rx12")]);
    planted(REGISTER, "G1b", "read-committed", &intermediate, &[(2, "1> rx2")]);
    planted(
        LIST,
        "garbage-read",
        "read-committed",
        &["0< ax1", "0> ax1", "1< rx", "1> rx13"],
        &[(3, "1> rx1")],
    );
    planted(
        REGISTER,
        "garbage-read",
        "read-committed",
        &["0< ax1", "0> ax1", "1< rx", "1> rx3"],
        &[(3, "1> rx1")],
    );
    let twice = ["0< ax1", "0> ax1", "1< rx", "1> rx11"];
    planted(LIST, "duplicate-elements", "read-uncommitted", &twice, &[(3, "1> rx1")]);
    let orders = ["0< ax1", "1< ax2", "2< rx", "3< rx", "2> rx12", "3> rx21", "0> ax1", "1> ax2"];
    planted(LIST, "incompatible-order", "read-committed", &orders, &[(5, "3> rx12")]);
    planted(LIST, "internal", "repeatable-read", &["0< ax1 rx", "0> ax1 rx"], &[(1, "0> ax1 rx1")]);
    planted(REGISTER, "internal", "repeatable-read", &["0< ax1 rx", "0> ax1 rx"], &[(1, "0> ax1 rx1")]);
    planted(
        LIST,
        "internal",
        "repeatable-read",
        &["0< ax1", "1< rx rx", "1> rx rx1", "0> ax1"],
        &[(2, "1> rx rx")],
    );
    let lost = ["0< rx ax1", "1< rx ax2", "0> rx ax1", "1> rx ax2"];
    planted(LIST, "lost-update", "repeatable-read", &lost, &[(3, "1> rx1 ax2")]);
    planted(REGISTER, "lost-update", "repeatable-read", &lost, &[(3, "1> rx1 ax2")]);
}

#[test]
fn cycles_of_writes() {
    let writes = ["0< ax1 ay1", "1< ax2 ay2", "0> ax1 ay1", "1> ax2 ay2", "2< rx ry", "2> rx12 ry21"];
    planted(LIST, "G0", "read-uncommitted", &writes, &[(5, "2> rx12 ry12")]);
    let process = ["0< ax2", "0> ax2", "0< ax1", "0> ax1", "1< rx", "1> rx12"];
    planted(LIST, "G0-process", "strong-session-snapshot-isolation", &process, &[(5, "1> rx21")]);
    let real = ["0< ax2", "0> ax2", "1< ax1", "1> ax1", "2< rx", "2> rx12"];
    planted(LIST, "G0-realtime", "strong-snapshot-isolation", &real, &[(5, "2> rx21")]);
}

#[test]
fn cycles_of_reads() {
    let circular = ["0< ax1 ry", "1< ay1 rx", "0> ax1 ry1", "1> ay1 rx1"];
    planted(LIST, "G1c", "read-committed", &circular, &[(2, "0> ax1 ry")]);
    planted(REGISTER, "G1c", "read-committed", &circular, &[(2, "0> ax1 ry")]);
    let process = ["0< rx", "1< ax1", "0> rx1", "0< ay1", "0> ay1", "1> ax1"];
    let report = judge(&history(LIST, &process), LIST, Level::StrictSerializable);
    assert_eq!(report.verdict, Verdict::Valid, "{report}");
    let future = ["0< rx", "0> rx1", "1< ax1", "1> ax1"];
    planted(LIST, "G1c-realtime", "strong-snapshot-isolation", &future, &[(1, "0> rx")]);
    planted(REGISTER, "G1c-realtime", "strong-snapshot-isolation", &future, &[(1, "0> rx")]);
    let own = ["0< rx", "0> rx1", "0< ax1", "0> ax1"];
    planted(LIST, "G1c-process", "strong-session-snapshot-isolation", &own, &[(1, "0> rx")]);
}

#[test]
fn cycles_with_one_read_that_is_overwritten() {
    let skew = ["0< ax1 ay1", "1< rx ry", "0> ax1 ay1", "1> rx1 ry"];
    planted(LIST, "G-single", "repeatable-read", &skew, &[(3, "1> rx1 ry1")]);
    planted(REGISTER, "G-single", "repeatable-read", &skew, &[(3, "1> rx1 ry1")]);
    let stale = ["0< ax1", "0> ax1", "1< rx", "1> rx"];
    planted(LIST, "G-single-realtime", "strong-snapshot-isolation", &stale, &[(3, "1> rx1")]);
    planted(REGISTER, "G-single-realtime", "strong-snapshot-isolation", &stale, &[(3, "1> rx1")]);
    let own = ["0< ax1", "0> ax1", "0< rx", "0> rx"];
    planted(LIST, "G-single-process", "strong-session-snapshot-isolation", &own, &[(3, "0> rx1")]);
}

#[test]
fn cycles_with_several_reads_that_are_overwritten() {
    let skew = ["0< rx ry ax1", "1< rx ry ay1", "0> rx ry ax1", "1> rx ry ay1"];
    planted(LIST, "G2-item", "repeatable-read", &skew, &[(3, "1> rx1 ry ay1")]);
    planted(REGISTER, "G2-item", "repeatable-read", &skew, &[(3, "1> rx1 ry ay1")]);
    let report = judge(&history(LIST, &skew), LIST, Level::SnapshotIsolation);
    assert_eq!(report.verdict, Verdict::Valid, "write skew is possible under snapshot isolation: {report}");
    assert_eq!(report.excluded[..2], ["repeatable-read", "serializable"]);
    // Two writers, each seen by one reader before the other: a long fork.
    let fork = ["0< ax1", "1< ay1", "2< rx ry", "3< rx ry", "2> rx1 ry", "3> rx ry1", "0> ax1", "1> ay1"];
    planted(LIST, "G-nonadjacent", "repeatable-read", &fork, &[(5, "3> rx1 ry1")]);
    planted(REGISTER, "G-nonadjacent", "repeatable-read", &fork, &[(5, "3> rx1 ry1")]);
    // The same with the reads one after the other in time.
    let process = ["0< ax1 rz", "0> ax1 rz", "0< ry", "1< ay1", "0> ry", "1> ay1", "1< rx az1", "1> rx az1"];
    let report = judge(&history(LIST, &process), LIST, Level::StrictSerializable);
    assert_eq!(kinds(&report), ["G-single-realtime", "G-nonadjacent-process", "G2-item"], "{report}");
}

#[test]
fn a_cycle_is_explained() {
    let skew = ["0< ax1 ay1", "1< rx ry", "0> ax1 ay1", "1> rx1 ry"];
    let report = judge(&history(LIST, &skew), LIST, Level::Serializable);
    let expected = r#"invalid: list-append, serializable; operations: 2, objects: 2

G-single
  cycle with one read that is overwritten, of the transactions:
    lines 2-4: process 1, txn [["r","x",null],["r","y",null]] -> [["r","x",[1]],["r","y",null]]
    lines 1-3: process 0, txn [["append","x",1],["append","y",1]]
  each comes before the next, and the last before the first:
    rw: line 2 reads key "y" with nothing as the last, and line 1 appends 1 after it
    wr: line 1 appends 1 to key "x", and line 2 reads it

excluded: repeatable-read, snapshot-isolation, serializable, strong-session-snapshot-isolation, strong-snapshot-isolation, strong-session-serializable, strict-serializable"#;
    assert_eq!(report.to_string(), expected);
    let json = report.to_json();
    assert_eq!(json["valid"], false);
    assert_eq!(json["findings"][0]["sections"][1]["steps"][0]["lines"], serde_json::json!([2, 4, 1, 3]));
}

#[test]
fn a_value_that_is_written_twice_is_refused() {
    let text = history(REGISTER, &["0< ax1", "0> ax1", "1< ax1", "1> ax1"]);
    let history = History::from_text(&text).unwrap();
    let error = check_transactions(&history, REGISTER, Level::Serializable, Limits::default()).unwrap_err();
    let said = "line 4: writes 1 to key \"x\", as the transaction of line 1 does; give each write of a key a value of its own";
    assert!(error.to_string().starts_with(said), "{error}");
}

#[test]
fn a_limit_leaves_a_doubt() {
    let circular = ["0< ax1 ry", "1< ay1 rx", "0> ax1 ry1", "1> ay1 rx1"];
    let history = History::from_text(&history(LIST, &circular)).unwrap();
    let limits = Limits { configurations: 0, ..Limits::default() };
    let report = check_transactions(&history, LIST, Level::Serializable, limits).unwrap();
    assert_eq!(report.verdict, Verdict::Unknown);
    assert!(report.to_string().contains("not decided: cycles of G1c: the limit of 0 steps"), "{report}");
}

/// Transaction of a random history: micro-operations as key, and the element that is written, or the list that was read.
#[derive(Clone)]
struct Transaction {
    process: usize,
    micros: Vec<(usize, Option<i64>, Vec<i64>)>,
    outcome: Outcome,
    invoked: usize,
    completed: Option<usize>,
}

const KEYS: usize = 2;
type State = [Vec<i64>; KEYS];

/// Carries out a micro-operation; true if a read has the value that was recorded.
fn carry_out(state: &mut State, micro: &(usize, Option<i64>, Vec<i64>), kind: TransactionKind) -> bool {
    let (key, written, read) = micro;
    match written {
        Some(element) if kind == LIST => state[*key].push(*element),
        Some(element) => state[*key] = vec![*element],
        None => return state[*key] == *read,
    }
    true
}

/// Random transactions. Without `mix`, each takes effect at one moment; with it their micro-operations are mixed, and reads may be of old states.
fn simulate(random: &mut Stream, kind: TransactionKind, length: usize, mix: bool) -> Vec<Transaction> {
    let mut transactions: Vec<Transaction> = Vec::new();
    let mut open: [Option<(usize, usize)>; 3] = [None; 3];
    let (mut state, mut old) = (State::default(), State::default());
    let (mut line, mut element) = (0, 0);
    while transactions.len() < length || open.iter().any(Option::is_some) {
        let process = random.below(3) as usize;
        let Some((index, at)) = open[process] else {
            if transactions.len() == length {
                continue;
            }
            line += 1;
            let mut micros = Vec::new();
            for _ in 0..1 + random.below(3) {
                element += 1;
                let written = random.chance(0.5).then_some(element);
                micros.push((random.below(KEYS as u64) as usize, written, Vec::new()));
            }
            let outcome = Outcome::Ok;
            open[process] = Some((transactions.len(), 0));
            transactions.push(Transaction { process, micros, outcome, invoked: line, completed: None });
            continue;
        };
        let transaction = &mut transactions[index];
        let count = transaction.micros.len();
        if at == 0 && random.chance(0.1) {
            transaction.outcome = if random.chance(0.5) { Outcome::Fail } else { Outcome::Info };
        }
        let end = if mix { (at + 1).min(count) } else { count };
        if at < count
            && (transaction.outcome == Outcome::Ok
                || transaction.outcome == Outcome::Info && random.chance(0.5))
        {
            for micro in &mut transaction.micros[at..end] {
                let seen = if mix && random.chance(0.2) { &old } else { &state };
                micro.2 = seen[micro.0].clone();
                carry_out(&mut state, micro, kind);
            }
            if random.chance(0.3) {
                old = state.clone();
            }
            open[process] = Some((index, end));
            continue;
        }
        line += 1;
        transaction.completed = Some(line);
        open[process] = None;
    }
    transactions
}

fn text_of(transactions: &[Transaction], kind: TransactionKind) -> String {
    let mut events = Vec::new();
    for one in transactions {
        events.push((one.invoked, one, false));
        events.extend(one.completed.map(|line| (line, one, true)));
    }
    events.sort_by_key(|event| event.0);
    let mut text = String::new();
    for (_, one, completion) in events {
        let step = match (completion, one.outcome) {
            (false, _) => "invoke",
            (_, Outcome::Ok) => "ok",
            (_, Outcome::Fail) => "fail",
            (_, Outcome::Info) => "info",
        };
        let micro = |(key, written, read): &(usize, Option<i64>, Vec<i64>)| match written {
            Some(element) if kind == LIST => format!(r#"["append", {key}, {element}]"#),
            Some(element) => format!(r#"["w", {key}, {element}]"#),
            None if step == "ok" && kind == LIST => format!(r#"["r", {key}, {read:?}]"#),
            None if step == "ok" && !read.is_empty() => format!(r#"["r", {key}, {}]"#, read[0]),
            None => format!(r#"["r", {key}, null]"#),
        };
        let micros: Vec<String> = one.micros.iter().map(micro).collect();
        let (process, micros) = (one.process, micros.join(", "));
        writeln!(text, r#"{{"process": {process}, "type": "{step}", "f": "txn", "value": [{micros}]}}"#)
            .unwrap();
    }
    text
}

/// True if some order of the transactions gives all reads. Those of unknown outcome may be left out. With `strict`, the order follows real time.
fn has_order(state: &State, left: &[&Transaction], kind: TransactionKind, strict: bool) -> bool {
    let must = |one: &Transaction| one.outcome == Outcome::Ok;
    if !left.iter().any(|one| must(one)) {
        return true;
    }
    left.iter().enumerate().any(|(index, one)| {
        let before =
            |other: &&Transaction| must(other) && other.completed.is_some_and(|line| line < one.invoked);
        if strict && left.iter().any(before) {
            return false;
        }
        let mut state = state.clone();
        let accepted = one.micros.iter().all(|micro| {
            let fits = carry_out(&mut state, micro, kind);
            fits || !must(one)
        });
        let rest: Vec<&Transaction> = [&left[..index], &left[index + 1..]].concat();
        accepted && has_order(&state, &rest, kind, strict)
    })
}

#[test]
fn no_alarm_is_false() {
    for kind in [LIST, REGISTER] {
        let mut counts = [0u32; 6];
        for round in 0..6_000 {
            let mut random = Seed(round).stream(&["histories", "transactions"]);
            let length = 2 + random.below(4) as usize;
            let transactions = simulate(&mut random, kind, length, round % 4 > 0);
            let text = text_of(&transactions, kind);
            let left: Vec<&Transaction> =
                transactions.iter().filter(|one| one.outcome != Outcome::Fail).collect();
            let report = judge(&text, kind, Level::StrictSerializable);
            let excludes = |level: Level| report.excluded.iter().any(|name| name == level.name());
            for (number, strict) in [false, true].into_iter().enumerate() {
                let level = if strict { Level::StrictSerializable } else { Level::Serializable };
                let possible = has_order(&State::default(), &left, kind, strict);
                assert!(!(possible && excludes(level)), "round {round}: {report}\n{text}");
                counts[number * 3 + usize::from(possible) + usize::from(!possible && excludes(level)) * 2] +=
                    1;
            }
            if round % 4 == 0 {
                assert!(report.findings.is_empty(), "round {round}: {report}\n{text}");
            }
            if round % 16 == 0 {
                assert_eq!(report, judge(&text, kind, Level::StrictSerializable));
            }
        }
        // Missed, possible, found: lists show nearly everything, registers less.
        let [missed, possible, found, missed_strict, _, found_strict] = counts;
        assert!(possible > 1_000 && found > 500 && found_strict > 500, "{kind:?}: {counts:?}");
        let share = if kind == LIST { 20 } else { 2 };
        assert!(missed * share < found && missed_strict * share < found_strict, "{kind:?}: {counts:?}");
    }
}

#[test]
fn long_serial_histories_are_valid() {
    for kind in [LIST, REGISTER] {
        let mut random = Seed(3).stream(&["histories", "long transactions"]);
        let transactions = simulate(&mut random, kind, 3_000, false);
        let report = judge(&text_of(&transactions, kind), kind, Level::StrictSerializable);
        assert!(report.findings.is_empty() && report.verdict == Verdict::Valid, "{report}");
        let mixed = simulate(&mut random, kind, 1_000, true);
        let report = judge(&text_of(&mixed, kind), kind, Level::Serializable);
        assert_eq!(report.verdict, Verdict::Invalid);
    }
}
