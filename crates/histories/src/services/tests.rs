use crate::{History, Level, Limits, Report, Verdict, check};

/// Report on a history of operations written as `FUNCTION ARGUMENT -> RESULT`, one after the other, 1 ms each. A result `?` is an unknown outcome,
/// `!` a failure; `*` before the function makes the operation final.
fn judge(model: &str, operations: &[&str]) -> Report {
    let mut text = String::new();
    for (index, operation) in operations.iter().enumerate() {
        let (call, result) = operation.split_once(" -> ").unwrap_or((operation, ""));
        let (function, argument) = call.split_once(' ').unwrap_or((call, "null"));
        let (is_final, function) = function.strip_prefix('*').map_or((false, function), |name| (true, name));
        let (kind, result) = match result {
            "?" => ("info", "null"),
            "!" => ("fail", "null"),
            "" => ("ok", argument),
            result => ("ok", result),
        };
        let time = index * 2_000_000;
        text += &format!(
            "{{\"time\": {time}, \"process\": {index}, \"type\": \"invoke\", \"f\": \"{function}\", \"value\": {argument}, \"final\": {is_final}}}\n\
             {{\"time\": {}, \"process\": {index}, \"type\": \"{kind}\", \"f\": \"{function}\", \"value\": {result}}}\n",
            time + 1_000_000
        );
    }
    let history = History::from_text(&text).unwrap();
    check(&history, model, Level::default(), Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn valid(model: &str, operations: &[&str]) -> String {
    let report = judge(model, operations);
    assert_eq!(report.verdict, Verdict::Valid, "{report}");
    report.to_string()
}

#[track_caller]
fn invalid(model: &str, operations: &[&str], kind: &str) -> String {
    let report = judge(model, operations);
    assert_eq!(report.verdict, Verdict::Invalid, "{report}");
    assert_eq!(report.findings[0].kind, kind, "{report}");
    assert!(report.findings[0].sections[0].steps.iter().all(|step| !step.lines.is_empty()));
    report.to_string()
}

#[test]
fn echoes_have_the_value_of_their_request() {
    valid("echo", &["echo \"a\"", "echo 1 -> ?", "echo 2 -> !"]);
    let said = invalid("echo", &["echo \"a\"", "echo \"b\" -> \"B\""], "wrong echo");
    assert!(said.contains("lines 3-4: process 1, echo \"b\" -> \"B\""), "{said}");
}

#[test]
fn identifiers_are_unique() {
    let said =
        valid("unique-ids", &["generate -> 1", "generate -> \"1\"", "generate -> [1]", "generate -> ?"]);
    assert!(said.contains("3 different identifiers"), "{said}");
    let said =
        invalid("unique-ids", &["generate -> 1", "generate -> 2", "generate -> 1"], "duplicate identifier");
    assert!(said.contains("1 is the result of lines 1-2 and of lines 5-6"), "{said}");
}

#[test]
fn elements_that_are_known_stay_at_last() {
    for (model, add) in [("broadcast", "broadcast"), ("g-set", "add")] {
        let [one, two, unknown, failed] =
            ["1", "2", "3 -> ?", "4 -> !"].map(|value| format!("{add} {value}"));
        let all = [&one, &two, "read -> [1]", &unknown, &failed, "read -> [2, 1]"];
        let said = valid(model, &all);
        assert!(said.contains("2 of 4 elements stable") && said.contains("longest 1 ms"), "{said}");
        // An element of unknown outcome is known once a read has it.
        valid(model, &[&one, &unknown, "read -> [1]"]);
        let said = invalid(model, &[&one, &unknown, "read -> [1, 3]", "read -> [1]"], "lost element");
        assert!(said.contains("3, known from lines 5-6, is missing in the read of lines 7-8"), "{said}");
        invalid(model, &[&one, "read -> [1]", &two, "read -> [1]"], "lost element");
        invalid(model, &[&one, "read -> [1, 1]"], "duplicate element");
        invalid(model, &[&one, "read -> [1, 7]"], "invented element");
        assert_eq!(judge(model, &[&one]).verdict, Verdict::Unknown);
        assert_eq!(judge(model, &["read -> []"]).verdict, Verdict::Valid);
    }
}

#[test]
fn concurrent_reads_decide_by_their_invocations() {
    // The read that lacks the element begins first and ends last.
    let text = r#"
{"process": 0, "type": "invoke", "f": "add", "value": 1}
{"process": 0, "type": "ok", "f": "add", "value": 1}
{"process": 1, "type": "invoke", "f": "read"}
{"process": 2, "type": "invoke", "f": "read"}
{"process": 2, "type": "ok", "f": "read", "value": [1]}
{"process": 1, "type": "ok", "f": "read", "value": []}
"#;
    let judge = |text: &str| {
        check(&History::from_text(text).unwrap(), "g-set", Level::default(), Limits::default())
            .unwrap()
            .verdict
    };
    assert_eq!(judge(text), Verdict::Valid);
    assert_eq!(
        judge(&text.replace("\"value\": []", "\"value\": [1]").replacen("[1]", "[]", 1)),
        Verdict::Invalid
    );
}

#[test]
fn final_reads_are_sums() {
    let adds = ["add 5", "add -2", "add 10 -> ?", "add 100 -> !", "read -> 0"];
    for sum in [3, 13] {
        let said = valid("pn-counter", &[&adds[..], &[&format!("*read -> {sum}")]].concat());
        assert!(said.contains("possible sums: 3, 13"), "{said}");
    }
    for sum in [5, 4, 103] {
        invalid("pn-counter", &[&adds[..], &[&format!("*read -> {sum}")]].concat(), "wrong sum");
    }
    assert_eq!(judge("pn-counter", &adds).verdict, Verdict::Unknown);
    let many: Vec<String> = (0..200).map(|index| format!("add {} -> ?", index % 7 - 3)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["*read -> 4"]).collect();
    valid("pn-counter", &many);
}

#[test]
fn logs_lose_skip_and_repeat_nothing() {
    let sent = [
        r#"send ["a", 7] -> ["a", [0, 7]]"#,
        r#"send ["a", 8] -> ["a", [5, 8]]"#,
        r#"send ["a", 9] -> ["a", [6, 9]]"#,
    ];
    let with = |more: &[&'static str]| [&sent[..], more].concat();
    let all = r#"poll {"a": 0} -> {"a": [[0, 7], [5, 8], [6, 9]]}"#;
    let said = valid(
        "kafka",
        &with(&[all, r#"poll {"a": 6} -> {"a": [[6, 9]]}"#, r#"commit {"a": 6}"#, "poll {} -> {}"]),
    );
    assert!(said.contains("3 of 3 messages polled, of 1 keys"), "{said}");
    // Nothing has been polled beyond the message at offset 0.
    valid("kafka", &with(&[r#"poll {"a": 0} -> {"a": [[0, 7]]}"#]));
    invalid("kafka", &with(&[r#"poll {"a": 6} -> {"a": [[6, 9]]}"#]), "lost write");
    let said =
        invalid("kafka", &with(&[all, r#"poll {"a": 0} -> {"a": [[0, 7], [6, 9]]}"#]), "skipped offset");
    assert!(said.contains("lines 9-10: key a, offset 6 without 5, which lines 3-4 shows"), "{said}");
    invalid("kafka", &with(&[all, r#"poll {"a": 1} -> {"a": [[6, 9]]}"#]), "skipped offset");
    invalid("kafka", &with(&[all, r#"poll {"a": 1} -> {"a": [[0, 7]]}"#]), "nonmonotonic poll");
    invalid("kafka", &with(&[all, r#"poll {"a": 5} -> {"a": [[6, 9], [5, 8]]}"#]), "skipped offset");
    invalid("kafka", &with(&[all, r#"send ["a", 10] -> ["a", [5, 10]]"#]), "inconsistent offset");
    invalid("kafka", &with(&[all, r#"poll {"a": 6} -> {"a": [[6, 9], [7, 7]]}"#]), "duplicate message");
}

#[test]
fn values_of_other_forms_are_refused() {
    let refused = |model: &str, f: &str, argument: &str, result: &str| {
        let text = [("invoke", argument), ("ok", result)].map(|(kind, value)| {
            format!("{{\"process\": 0, \"type\": \"{kind}\", \"f\": \"{f}\", \"value\": {value}}}\n")
        });
        let history = History::from_text(&text.concat()).unwrap();
        check(&history, model, Level::default(), Limits::default()).unwrap_err().to_string()
    };
    for (model, f, argument, result, problem) in [
        ("echo", "read", "1", "1", "\"f\" is \"read\", but the operations are echo"),
        ("unique-ids", "read", "1", "1", "\"f\" is \"read\", but the operations are generate"),
        ("broadcast", "add", "1", "1", "\"f\" is \"add\", but the operations are broadcast and read"),
        ("g-set", "read", "null", "3", "the result of \"read\" is 3, not a list"),
        ("pn-counter", "add", "\"x\"", "null", "the value of \"add\" is \"x\", not a whole number"),
        ("pn-counter", "read", "null", "1.5", "the result of \"read\" is 1.5, not a whole number"),
        ("pn-counter", "write", "1", "1", "\"f\" is \"write\", but the operations are add and read"),
        (
            "kafka",
            "read",
            "1",
            "1",
            "\"f\" is \"read\", but the operations are send, poll, assign and commit",
        ),
        (
            "kafka",
            "send",
            "[\"a\", 1]",
            "[\"a\", 1]",
            "the result of \"send\" is [\"a\",1], not [KEY, [OFFSET, MESSAGE]]",
        ),
        ("kafka", "poll", "3", "{}", "the value of \"poll\" is 3, not {KEY: OFFSET}"),
        ("kafka", "poll", "{}", "3", "the result of \"poll\" is 3, not {KEY: [[OFFSET, MESSAGE], ...]}"),
        (
            "kafka",
            "poll",
            "{}",
            "{\"a\": []}",
            "the result of \"poll\" is \"a\", not one of the keys that the poll asks for",
        ),
        (
            "kafka",
            "poll",
            "{\"a\": 0}",
            "{\"a\": [1]}",
            "the result of \"poll\" is {\"a\":[1]}, not {KEY: [[OFFSET, MESSAGE], ...]}",
        ),
        ("kafka", "poll", "{\"a\": \"x\"}", "{\"a\": []}", "the value of \"poll\" is \"x\", not an offset"),
    ] {
        let said = refused(model, f, argument, result);
        assert!(said.starts_with(&format!("line 1: {problem}; ")), "{said}");
    }
    let twice = "{\"process\": 0, \"type\": \"invoke\", \"f\": \"add\", \"value\": 1}\n{\"process\": 1, \"type\": \"invoke\", \"f\": \"add\", \"value\": 1}\n";
    let error =
        check(&History::from_text(twice).unwrap(), "g-set", Level::default(), Limits::default()).unwrap_err();
    assert!(error.to_string().starts_with("line 2: 1 is added a second time; "), "{error}");
}
