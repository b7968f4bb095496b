use super::*;
use clap::Parser;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    client: Client,
}

fn options(workload: &str, more: &[&str]) -> Client {
    let line = ["test", "--workload", workload, "--nodes", "n1,n2"];
    Options::parse_from(line.iter().chain(more)).client
}

/// Operations of one client that never has an answer.
fn operations(options: &Client, count: usize) -> Vec<Operation> {
    let (mut generator, mut position) = (Generator::new(options), Position::default());
    let mut random = belljar_base::Seed(1).stream(&["test"]);
    (0..count).map(|_| generator.operation(&mut position, &mut random)).collect()
}

#[test]
fn values_are_used_once() {
    for (workload, function) in [("broadcast", "broadcast"), ("g-set", "add"), ("kafka", "send")] {
        let all = operations(&options(workload, &[]), 200);
        let written: Vec<&Operation> =
            all.iter().filter(|operation| operation.function == function).collect();
        let values: belljar_base::Set<String> =
            written.iter().map(|operation| operation.value.to_string()).collect();
        assert!(values.len() == written.len() && values.len() > 50, "{workload}");
    }
}

#[test]
fn transactions_write_each_value_of_a_key_once() {
    for (workload, write) in [("txn-list-append", "append"), ("txn-rw-register", "w")] {
        let all = operations(
            &options(workload, &["--key-count", "2", "--max-writes-per-key", "5", "--max-txn-length", "3"]),
            300,
        );
        let mut written = belljar_base::Set::new();
        for part in all.iter().flat_map(|operation| operation.value.as_array().unwrap()) {
            if part[0] == write {
                assert!(
                    part[2].as_i64().unwrap() <= 5
                        && written.insert((part[1].as_i64().unwrap(), part[2].as_i64().unwrap()))
                );
            } else {
                assert!(part[0] == "r" && part[2].is_null());
            }
        }
        assert!(all.iter().all(|operation| (1..=3).contains(&operation.value.as_array().unwrap().len())));
        assert!(written.len() > 200);
    }
}

#[test]
fn registers_use_keys_for_a_while() {
    let all = operations(&options("lin-kv", &["--key-count", "2"]), 300);
    for key in 0..4 {
        assert_eq!(all.iter().filter(|operation| operation.key == Some(json!(key))).count(), 30);
    }
    let functions: belljar_base::Set<&str> = all.iter().map(|operation| operation.function).collect();
    assert_eq!(functions.iter().copied().collect::<Vec<_>>(), ["cas", "read", "write"]);
}

#[test]
fn logs_are_read_from_where_the_client_is() {
    let mut position = Position::default();
    position.assigned(&json!(["1", "2"]), &json!({"2": 7}));
    assert_eq!(position.poll().body, json!({"type": "poll", "offsets": {"1": 0, "2": 7}}));
    position.polled(&json!({"1": [[0, "a"], [3, "b"]], "2": []}));
    assert_eq!(position.poll().value, json!({"1": 4, "2": 7}));
    let mut keys = Keys::new(2, 100);
    let mut random = belljar_base::Seed(1).stream(&["test"]);
    let commit = position.operation(&mut keys, || 0, &mut random);
    assert_eq!(
        (commit.function, commit.body),
        ("commit", json!({"type": "commit_offsets", "offsets": {"1": 3}}))
    );
    // Keys that stay assigned keep their position.
    position.assigned(&json!(["1"]), &json!({"1": 3}));
    assert_eq!(position.poll().value, json!({"1": 4}));
    // At the end, everything is read from the beginning until nothing comes.
    assert_eq!(position.catch_up(&keys, 0).unwrap().value, json!({"0": 0, "1": 0}));
    position.polled(&json!({"0": [[5, "a"]]}));
    assert_eq!(position.catch_up(&keys, 1).unwrap().value, json!({"0": 6, "1": 0}));
    position.polled(&json!({}));
    assert_eq!(position.catch_up(&keys, 2), None);
}

#[test]
fn replies_become_results() {
    let reply = |operation: &Operation, body: Value| result(operation, &body);
    let send = Operation::new("send", json!(["k", 7]), json!({"type": "send", "key": "k", "msg": 7}));
    assert_eq!(reply(&send, json!({"type": "send_ok", "offset": 3})), Ok(json!(["k", [3, 7]])));
    assert_eq!(reply(&send, json!({"type": "send_ok"})), Err("\"offset\" is missing".to_owned()));
    assert_eq!(
        reply(&send, json!({"type": "sent"})),
        Err("\"type\" is \"sent\", not \"send_ok\"".to_owned())
    );
    let poll = Operation::new("poll", json!({"k": 0}), json!({"type": "poll", "offsets": {"k": 0}}));
    assert_eq!(reply(&poll, json!({"type": "poll_ok", "msgs": {"k": [[0, 7]]}})), Ok(json!({"k": [[0, 7]]})));
    assert!(reply(&poll, json!({"type": "poll_ok", "msgs": {"k": [[0, 7, 8]]}})).is_err());
    let txn = json!([["r", 1, null], ["append", 1, 2]]);
    let txn = Operation::new("txn", txn.clone(), json!({"type": "txn", "txn": txn}));
    let done = json!([["r", 1, [1]], ["append", 1, 2]]);
    assert_eq!(reply(&txn, json!({"type": "txn_ok", "txn": done})), Ok(done));
    for wrong in [
        json!([]),
        json!([["r", 1, []], ["append", 1, 3]]),
        json!([["r", 2, []], ["append", 1, 2]]),
        json!(3),
    ] {
        assert!(reply(&txn, json!({"type": "txn_ok", "txn": wrong})).is_err());
    }
    let read = Operation::new("read", Value::Null, json!({"type": "read"}));
    assert_eq!(reply(&read, json!({"type": "read_ok", "messages": [1]})), Ok(json!([1])));
    assert_eq!(reply(&read, json!({"type": "read_ok", "value": 4})), Ok(json!(4)));
    assert!(reply(&read, json!({"type": "read_ok", "value": "x"})).is_err());
}
