use super::*;

fn answers(service: Service, seed: u64, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut random = Seed(seed).stream(&["test"]);
    let mut state = State::new(service);
    requests.iter().map(|(client, body)| state.answer(client, body, &mut random)).collect()
}

fn read() -> Value {
    json!({"type": "read", "key": "x"})
}

fn write(value: i64) -> Value {
    json!({"type": "write", "key": "x", "value": value})
}

#[test]
fn maps_answer_as_the_protocol_says() {
    let cas = |from: i64, to: i64| json!({"type": "cas", "key": "x", "from": from, "to": to});
    let create = json!({"type": "cas", "key": "y", "from": 0, "to": 9, "create_if_not_exists": true});
    let requests = [read(), cas(1, 2), write(1), read(), cas(1, 2), cas(1, 3), read(), create];
    let requests = requests.map(|body| ("n1", body));
    let missing = json!({"type": "error", "code": 20, "text": "key does not exist"});
    let expected = [
        missing.clone(),
        missing,
        json!({"type": "write_ok"}),
        json!({"type": "read_ok", "value": 1}),
        json!({"type": "cas_ok"}),
        json!({"type": "error", "code": 22, "text": "current value 2 is not 1"}),
        json!({"type": "read_ok", "value": 2}),
        json!({"type": "cas_ok"}),
    ];
    assert_eq!(answers(Service::LinKv, 1, &requests), expected);
    // A single client sees no difference.
    assert_eq!(answers(Service::SeqKv, 1, &requests), expected);
}

#[test]
fn malformed_requests_are_refused() {
    for (body, code, text) in [
        (json!({"type": "read"}), 12, "\"read\" lacks \"key\""),
        (json!({"type": "cas", "key": 1, "from": 1}), 12, "\"cas\" lacks \"to\""),
        (json!({"type": "ts"}), 10, "the requests are \"read\", \"write\" and \"cas\", not \"ts\""),
        (json!({}), 10, "the requests are \"read\", \"write\" and \"cas\", not null"),
    ] {
        let expected = json!({"type": "error", "code": code, "text": text});
        assert_eq!(answers(Service::LinKv, 1, &[("n1", body)]), [expected]);
    }
    let refused = answers(Service::LinTso, 1, &[("n1", read())]);
    assert_eq!(refused[0]["code"], 10);
}

#[test]
fn timestamps_increase() {
    let given = answers(Service::LinTso, 1, &[("n1", json!({"type": "ts"})), ("n2", json!({"type": "ts"}))]);
    assert_eq!(given, [json!({"type": "ts_ok", "ts": 0}), json!({"type": "ts_ok", "ts": 1})]);
}

/// Values that a client reads after another has written 0 to 9.
fn reads(service: Service, seed: u64) -> Vec<i64> {
    let writes = (0..10).map(|value| ("n1", write(value)));
    let requests: Vec<_> = writes.chain((0..20).map(|_| ("n2", read()))).collect();
    let answers = answers(service, seed, &requests);
    answers[10..].iter().filter_map(|answer| answer["value"].as_i64()).collect()
}

#[test]
fn a_sequential_map_is_late_but_never_goes_back() {
    let all: Vec<Vec<i64>> = (0..50).map(|seed| reads(Service::SeqKv, seed)).collect();
    assert!(all.iter().all(|reads| reads.is_sorted()));
    assert!(all.iter().any(|reads| reads.first() != Some(&9)), "some read must be stale");
    // More writes than states that are kept.
    let mut requests: Vec<_> = (0..100).map(|value| ("n1", write(value))).collect();
    requests.push(("n2", read()));
    let late = answers(Service::SeqKv, 3, &requests).pop().unwrap()["value"].as_i64().unwrap();
    assert!((68..100).contains(&late), "{late}");
}

#[test]
fn replicas_lose_writes_and_go_back() {
    let all: Vec<Vec<i64>> = (0..50).map(|seed| reads(Service::LwwKv, seed)).collect();
    assert!(all.iter().any(|reads| !reads.is_sorted()), "replicas must differ");
    assert!(all.iter().all(|reads| reads.last().is_some_and(|last| *last >= 0)));
}
