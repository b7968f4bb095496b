//! Each model accepts what it should, and refuses one wrong result.

use crate::{History, Level, Limits, Report, Verdict, check};

/// Report on a history of operations written as `PROCESS FUNCTION ARGUMENT -> RESULT`, one after the other; with `?` as the result, the
/// outcome is unknown.
fn judge(model: &str, operations: &[&str]) -> Report {
    let mut text = String::new();
    for (index, operation) in operations.iter().enumerate() {
        let (call, result) = operation.split_once(" -> ").unwrap_or((operation, ""));
        let mut words = call.splitn(3, ' ');
        let process = words.next().unwrap();
        let (function, key) = words.next().unwrap().split_once('@').map_or_else(
            || (call.split(' ').nth(1).unwrap(), String::new()),
            |(function, key)| (function, format!(r#", "key": "{key}""#)),
        );
        let argument = words.next().unwrap_or("null");
        let result = if result.is_empty() { argument } else { result };
        let kind = if result == "?" { "info" } else { "ok" };
        let (result, process) =
            if result == "?" { ("null", format!("\"{process}-{index}\"")) } else { (result, process.into()) };
        for (kind, value) in [("invoke", argument), (kind, result)] {
            text += &format!(
                "{{\"process\": {process}, \"type\": \"{kind}\", \"f\": \"{function}\"{key}, \"value\": {value}}}\n"
            );
        }
    }
    let history = History::from_text(&text).unwrap();
    check(&history, model, Level::default(), Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Holds that the operations are valid, and that they are not once the last one is replaced by `wrong`.
fn holds(model: &str, right: &[&str], wrong: &str) {
    let report = judge(model, right);
    assert_eq!(report.verdict, Verdict::Valid, "{report}");
    let (_, before) = right.split_last().unwrap();
    let broken: Vec<&str> = before.iter().copied().chain([wrong]).collect();
    let report = judge(model, &broken);
    assert_eq!(report.verdict, Verdict::Invalid, "{wrong}: {report}");
}

#[test]
fn registers() {
    holds("register", &["0 read -> null", "0 write 1", "1 read -> 1"], "1 read -> null");
    holds("register", &["0 write 1", "1 write 2 -> ?", "0 read -> 2", "0 read -> 2"], "0 read -> 1");
    holds("cas-register", &["0 write 1", "1 cas [1, 2]", "0 read -> 2"], "0 cas [1, 3]");
    holds("cas-register", &["0 write 1", "1 cas [1, 2] -> ?", "0 read -> 2"], "0 read -> 3");
    holds("register", &["0 write@a 1", "0 write@b 2", "1 read@a -> 1"], "1 read@a -> 2");
}

#[test]
fn counters() {
    holds("counter", &["0 add 5", "1 decrement", "0 read -> 4"], "0 read -> 5");
    holds("counter", &["0 add 5 -> ?", "0 add -2", "0 read -> -2", "0 read -> 3"], "0 read -> 5");
    holds("counter", &["0 increment", "0 read -> 1"], "0 read -> 0");
}

#[test]
fn sets() {
    holds("set", &["0 add 1", "0 add 2", "0 remove 1", "0 read -> [2]"], "0 read -> [1, 2]");
    holds("set", &["0 add 1 -> ?", "0 read -> []", "0 read -> [1]", "0 contains 1 -> true"], "0 read -> []");
    holds("set", &["0 add 1", "0 contains 1 -> true"], "0 contains 1 -> false");
    holds("set", &["0 add 1", "0 contains 2 -> [2, false]"], "0 contains 2 -> [2, true]");
}

#[test]
fn queues() {
    let enqueued = ["0 enqueue 1", "0 enqueue 2", "0 dequeue -> 1"];
    holds("queue", &[&enqueued[..], &["0 dequeue -> 2"]].concat(), "0 dequeue -> 1");
    holds("queue", &[&enqueued[..], &["1 dequeue -> ?", "0 dequeue -> null"]].concat(), "0 dequeue -> 1");
    holds("queue", &["0 dequeue -> null", "0 enqueue 1", "0 dequeue -> 1"], "0 dequeue -> null");
}

#[test]
fn mutexes() {
    holds("mutex", &["0 acquire", "1 release", "1 acquire"], "1 release");
    holds("owned-mutex", &["0 acquire", "0 release", "1 acquire"], "1 release");
    holds("owned-mutex", &["0 acquire", "0 release -> ?", "1 read"][..1], "0 release");
    let report = judge("owned-mutex", &["0 acquire", "1 release"]);
    assert_eq!(report.verdict, Verdict::Invalid);
    assert!(report.to_string().contains("process 0 has the mutex"), "{report}");
}

#[test]
fn maps() {
    holds("map", &["0 put@a 1", "0 get@b -> null", "0 get@a -> 1"], "0 get@a -> null");
    holds("map", &["0 put@a 1", "0 delete@a", "0 get@a -> null"], "0 get@a -> 1");
    holds("map", &["0 put@a 1", "0 cas@a [1, 2]", "0 get@a -> 2"], "0 get@a -> 1");
    let two = ["0 put@a 1", "0 put@b 2"];
    holds("map", &[&two[..], &["0 snapshot -> {\"a\": 1, \"b\": 2}"]].concat(), "0 snapshot -> {\"b\": 2}");
    holds(
        "map",
        &[&two[..], &["0 delete@b", "0 snapshot -> [[\"a\", 1]]"]].concat(),
        "0 snapshot -> [[\"b\", 2]]",
    );
}

#[test]
fn operations_of_other_models_are_refused() {
    let refused = |model: &str, f: &str, value: &str| {
        let text = [("invoke", 0), ("ok", 1)].map(|(kind, _)| {
            format!("{{\"process\": 0, \"type\": \"{kind}\", \"f\": \"{f}\", \"value\": {value}}}\n")
        });
        let history = History::from_text(&text.concat()).unwrap();
        check(&history, model, Level::default(), Limits::default()).unwrap_err().to_string()
    };
    let remedy = "; write an operation of the model register, or choose another --model";
    let said = refused("register", "cas", "[1, 2]");
    assert_eq!(said, format!("line 1: \"f\" is \"cas\", but the operations are read and write{remedy}"));
    for (model, f, value) in [
        ("cas-register", "cas", "3"),
        ("counter", "add", "\"x\""),
        ("counter", "read", "null"),
        ("set", "read", "3"),
        ("set", "contains", "3"),
        ("queue", "enqueue", "null"),
        ("mutex", "read", "null"),
        ("map", "get", "null"),
        ("map", "snapshot", "3"),
        ("list-append", "txn", "3"),
        ("list-append", "txn", "[[\"w\", 1, 2]]"),
        ("rw-register", "txn", "[[\"w\", 1, null]]"),
        ("nothing", "read", "null"),
    ] {
        assert!(refused(model, f, value).contains("; "), "{model} {f} {value}");
    }
}
