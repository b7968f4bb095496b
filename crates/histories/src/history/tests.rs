use super::*;

const GOOD: &str = r#"
{"time": 1, "process": 0, "type": "invoke", "f": "write", "key": "x", "value": 3}
{"time": "0.002 us", "process": "b", "type": "invoke", "f": "read", "key": "x"}
{"process": "nemesis", "type": "info", "f": "partition", "value": null}
{"time": 5, "process": 0, "type": "ok", "f": "write", "value": 3}
{"time": 5, "process": "b", "type": "info", "f": "read"}
{"time": 7, "process": "b", "type": "invoke", "f": "read", "key": "y"}
"#;

#[test]
fn invocations_are_joined_with_completions() {
    let history = History::from_text(GOOD).unwrap();
    let outcomes: Vec<Outcome> = history.operations.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Info, Outcome::Info]);
    let first = &history.operations[0];
    assert_eq!((first.invoked, first.completed, first.returned()), (2, Some(5), Some(5)));
    assert_eq!((first.invoked_ns, first.completed_ns), (Some(1), Some(5)));
    let second = &history.operations[1];
    assert_eq!((second.invoked_ns, second.completed, second.returned()), (Some(2), Some(6), None));
    assert_eq!(second.summary(), "read (outcome unknown)");
    assert_eq!(history.operations[2].completed, None);
}

#[test]
fn times_have_units() {
    let time = |text: &str| {
        let line = format!(r#"{{"time": {text}, "process": 0, "type": "invoke", "f": "read"}}"#);
        History::from_text(&line).map(|history| history.operations[0].invoked_ns.unwrap()).ok()
    };
    assert_eq!(time("\"1.5 ms\""), Some(1_500_000));
    assert_eq!(time("\"2s\""), Some(2_000_000_000));
    assert_eq!(time("\"17\""), Some(17));
    assert_eq!(time("-3"), Some(-3));
    for bad in ["1.5", "\"1 day\"", "\"1.2.3 s\"", "\".\"", "\"99999999999 h\"", "true", "[]"] {
        assert_eq!(time(bad), None, "{bad}");
    }
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let invoke = r#"{"time": 9, "process": 1, "type": "invoke", "f": "read"}"#;
    let cases = [
        ("{", "line 2: not valid JSON: EOF while parsing an object at column 1; write one object a line"),
        ("[]", "line 2: not an object; write one object a line"),
        (r#"{"type": "ok", "f": "read"}"#, "line 2: \"process\" is missing; name the client"),
        (r#"{"process": [], "type": "ok", "f": "read"}"#, "line 2: \"process\" is []; name the process"),
        (r#"{"process": 1, "type": "done", "f": "read"}"#, "line 2: \"type\" is \"done\"; write one of"),
        (r#"{"process": 1, "f": "read"}"#, "line 2: \"type\" is missing; write one of"),
        (r#"{"process": 1, "type": "ok", "f": 3}"#, "line 2: \"f\" is 3; name the function"),
        (r#"{"process": 1, "type": "ok"}"#, "line 2: \"f\" is missing; name the function"),
        (
            r#"{"process": 1, "type": "ok", "f": "read", "final": 1}"#,
            "line 2: \"final\" is 1; write true or false",
        ),
        (
            r#"{"process": 1, "type": "ok", "f": "write"}"#,
            "line 2: completes \"write\", but line 1 has invoked \"read\"; ",
        ),
        (
            r#"{"process": 1, "type": "ok", "f": "read", "key": 1}"#,
            "line 2: \"key\" is not that of the invocation at line 1; ",
        ),
        (
            r#"{"process": 2, "type": "ok", "f": "read"}"#,
            "line 2: process 2 completes an operation that it has not invoked; ",
        ),
        (
            invoke,
            "line 2: process 1 invokes while its operation of line 1 is open; complete that operation first",
        ),
        (
            r#"{"time": 8, "process": 1, "type": "ok", "f": "read"}"#,
            "line 2: time goes back to 8 ns from 9 ns at line 1; sort the lines by time",
        ),
        (
            r#"{"time": [], "process": 1, "type": "ok", "f": "read"}"#,
            "line 2: \"time\" is []; write nanoseconds",
        ),
    ];
    for (line, message) in cases {
        let error = History::from_text(&format!("{invoke}\n{line}\n")).unwrap_err().to_string();
        assert!(error.starts_with(message), "{line}: {error}");
    }
    let error = History::read(&b"\xff\n"[..]).unwrap_err().in_file(std::path::Path::new("h.jsonl"));
    assert_eq!(error.to_string(), "h.jsonl: line 1: not valid UTF-8; write JSON in UTF-8");
    let error = History::read(std::io::BufReader::new(std::io::repeat(b' '))).unwrap_err();
    assert!(error.to_string().starts_with("line 1: longer than 16777216 bytes; "), "{error}");
}

#[test]
fn deep_and_odd_values_are_no_trouble() {
    let deep = format!(
        r#"{{"process": 0, "type": "invoke", "f": "x", "value": {}{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    assert!(History::from_text(&deep).unwrap_err().to_string().contains("recursion limit"));
    let odd = r#"{"process": 0, "type": "invoke", "f": "x", "value": {"b": 1e300, "a": [18446744073709551615, true]}}"#;
    let history = History::from_text(odd).unwrap();
    assert_eq!(history.operations[0].argument.to_string(), r#"{"a":[18446744073709551615,true],"b":1e+300}"#);
}

#[test]
fn edn_is_jepsens() {
    let history = History::from_text(GOOD).unwrap();
    let edn = history.to_edn();
    let lines: Vec<&str> = edn.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0], r#"{:index 0, :time 1, :process 0, :type :invoke, :f :write, :value ["x" 3]}"#);
    assert_eq!(lines[2], r#"{:index 2, :time 5, :process 0, :type :ok, :f :write, :value ["x" 3]}"#);
    assert_eq!(lines[3], r#"{:index 3, :time 5, :process 1, :type :info, :f :read, :value ["x" nil]}"#);
    let text =
        r#"{"process": 7, "type": "invoke", "f": "txn", "value": [["append", "x", 1], ["r", "y\n", null]]}"#;
    let edn = History::from_text(text).unwrap().to_edn();
    let expected = r#"{:index 0, :time nil, :process 7, :type :invoke, :f :txn, :value [[:append "x" 1] [:r "y\n" nil]]}"#;
    assert_eq!(edn.trim_end(), expected);
}
