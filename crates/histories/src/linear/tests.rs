//! The checker against a search through all orders, on random histories, and on histories that are long or hard.

use crate::{History, Level, Limits, Outcome, Report, Verdict, check};
use belljar_base::{Seed, Stream};
use std::fmt::Write;

const MODELS: [&str; 7] = ["register", "cas-register", "counter", "set", "queue", "owned-mutex", "map"];

/// Object of the tests, written without regard to the checker's models. Keys are 0 and 1, of which all models but `map` use the first.
#[derive(Clone, Default)]
struct Object {
    values: [Option<i64>; 2],
    list: Vec<i64>,
    counter: i64,
}

/// Operation on an [`Object`]: a function, a key, and arguments.
#[derive(Clone, Copy)]
struct Call {
    f: &'static str,
    key: usize,
    a: i64,
    b: i64,
}

/// Result of an operation, or none if it fails.
fn apply(object: &mut Object, process: i64, call: Call) -> Option<String> {
    let Call { f, key, a, b } = call;
    let show = |value: Option<i64>| value.map_or("null".to_string(), |value| value.to_string());
    let value = object.values[key];
    match f {
        "read" | "get" => return Some(show(value)),
        "write" | "put" => object.values[key] = Some(a),
        "delete" => object.values[key] = None,
        "cas" if value != Some(a) => return None,
        "cas" => object.values[key] = Some(b),
        "acquire" if value.is_some() => return None,
        "acquire" => object.values[key] = Some(process),
        "release" if value != Some(process) => return None,
        "release" => object.values[key] = None,
        "snapshot" => {
            let pair = |key: usize| Some(format!("[{key}, {}]", object.values[key]?));
            return Some(format!("[{}]", [0, 1].into_iter().filter_map(pair).collect::<Vec<_>>().join(", ")));
        }
        "increase" => object.counter += a,
        "total" => return Some(object.counter.to_string()),
        "enqueue" => object.list.push(a),
        "dequeue" if object.list.is_empty() => return Some("null".to_string()),
        "dequeue" => return Some(object.list.remove(0).to_string()),
        "include" if !object.list.contains(&a) => object.list.push(a),
        "include" => {}
        "remove" => object.list.retain(|&one| one != a),
        "contains" => return Some(object.list.contains(&a).to_string()),
        "elements" => {
            object.list.sort_unstable();
            return Some(format!("{:?}", object.list));
        }
        other => panic!("{other}"),
    }
    Some(String::new())
}

/// Name of a function in histories: those of different models that share a name are kept apart in the tests.
fn name(f: &str) -> &str {
    match f {
        "increase" | "include" => "add",
        "total" | "elements" => "read",
        other => other,
    }
}

fn argument(call: Call) -> String {
    match call.f {
        "cas" => format!("[{}, {}]", call.a, call.b),
        "write" | "put" | "increase" | "enqueue" | "include" | "remove" | "contains" => call.a.to_string(),
        _ => "null".to_string(),
    }
}

fn draw(random: &mut Stream, model: &str) -> Call {
    let functions: &[&'static str] = match model {
        "register" => &["read", "write"],
        "cas-register" => &["read", "write", "cas"],
        "counter" => &["total", "increase"],
        "set" => &["elements", "include", "remove", "contains"],
        "queue" => &["enqueue", "dequeue"],
        "owned-mutex" => &["acquire", "release"],
        _ => &["get", "put", "delete", "cas", "snapshot"],
    };
    let f = functions[random.below(functions.len() as u64) as usize];
    let key = if model == "map" { random.below(2) as usize } else { 0 };
    Call { f, key, a: random.below(3) as i64, b: random.below(3) as i64 }
}

/// Operation of a random history.
struct Operation {
    process: i64,
    call: Call,
    /// Outcome, and the result of `ok`.
    outcome: Outcome,
    result: String,
    invoked: usize,
    completed: Option<usize>,
}

/// History that an object answers at random moments, some of whose operations are left open, of unknown outcome, or failed.
fn simulate(random: &mut Stream, model: &str, processes: usize, length: usize) -> Vec<Operation> {
    let mut object = Object::default();
    // The open operation of each process, and its result once it has taken effect.
    let mut open: Vec<Option<(usize, Option<Option<String>>)>> = vec![None; processes];
    let mut operations: Vec<Operation> = Vec::new();
    let mut line = 0;
    while operations.len() < length || (open.iter().any(Option::is_some) && random.chance(0.95)) {
        let process = random.below(processes as u64) as usize;
        let Some((index, result)) = open[process].take() else {
            if operations.len() < length {
                line += 1;
                let call = draw(random, model);
                let (process_name, result) = (process as i64, String::new());
                open[process] = Some((operations.len(), None));
                operations.push(Operation {
                    process: process_name,
                    call,
                    outcome: Outcome::Info,
                    result,
                    invoked: line,
                    completed: None,
                });
            }
            continue;
        };
        let operation = &mut operations[index];
        if result.is_none() && random.chance(0.9) {
            open[process] = Some((index, Some(apply(&mut object, process as i64, operation.call))));
            continue;
        }
        line += 1;
        operation.completed = Some(line);
        (operation.outcome, operation.result) = match result {
            Some(Some(_)) | None if random.chance(0.15) => (Outcome::Info, String::new()),
            Some(Some(result)) => (Outcome::Ok, result),
            Some(None) | None => (Outcome::Fail, String::new()),
        };
    }
    operations
}

/// Puts a random result in the place of one.
fn corrupt(random: &mut Stream, operations: &mut [Operation]) {
    let ok: Vec<usize> = (0..operations.len())
        .filter(|&one| operations[one].outcome == Outcome::Ok && !operations[one].result.is_empty())
        .collect();
    if ok.is_empty() {
        return;
    }
    let operation = &mut operations[ok[random.below(ok.len() as u64) as usize]];
    let value = random.below(3);
    operation.result = match operation.call.f {
        "contains" => random.chance(0.5).to_string(),
        "elements" if value == 0 => "[]".to_string(),
        "elements" => format!("[{value}]"),
        "snapshot" => format!("[[0, {value}]]"),
        "total" => value.to_string(),
        _ if random.chance(0.3) => "null".to_string(),
        _ => value.to_string(),
    };
}

fn text_of(operations: &[Operation], model: &str) -> String {
    let mut events = Vec::new();
    for operation in operations {
        events.push((operation.invoked, operation, false));
        events.extend(operation.completed.map(|line| (line, operation, true)));
    }
    events.sort_by_key(|event| event.0);
    let mut text = String::new();
    for (_, operation, completion) in events {
        let Operation { process, call, .. } = operation;
        let kind = match (completion, operation.outcome) {
            (false, _) => "invoke",
            (_, Outcome::Ok) => "ok",
            (_, Outcome::Fail) => "fail",
            (_, Outcome::Info) => "info",
        };
        let value = if completion && !operation.result.is_empty() {
            operation.result.clone()
        } else {
            argument(*call)
        };
        let key = if model == "map" && call.f != "snapshot" {
            format!("\"key\": {}, ", call.key)
        } else {
            String::new()
        };
        let f = name(call.f);
        writeln!(text, r#"{{"process": {process}, "type": "{kind}", "f": "{f}", {key}"value": {value}}}"#)
            .unwrap();
    }
    text
}

/// True if some order of the operations gives all results: every order is tried.
fn has_order(object: &Object, left: &[&Operation]) -> bool {
    let returned = |one: &Operation| one.completed.filter(|_| one.outcome == Outcome::Ok);
    if left.iter().all(|one| returned(one).is_none()) {
        return true;
    }
    left.iter().enumerate().any(|(index, operation)| {
        if left.iter().any(|other| returned(other).is_some_and(|line| line < operation.invoked)) {
            return false;
        }
        let mut object = object.clone();
        let result = apply(&mut object, operation.process, operation.call);
        if result.is_none() || operation.outcome == Outcome::Ok && result.as_ref() != Some(&operation.result)
        {
            return false;
        }
        let rest: Vec<&Operation> = [&left[..index], &left[index + 1..]].concat();
        has_order(&object, &rest)
    })
}

fn judge(text: &str, model: &str) -> Report {
    let history = History::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    check(&history, model, Level::default(), Limits::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Lines of the smallest part that is impossible.
fn window(report: &Report, text: &str) -> String {
    let sections = &report.findings[0].sections;
    let window = sections.iter().find(|section| section.name == "window").unwrap();
    let mut numbers: Vec<usize> = window.steps.iter().flat_map(|step| step.lines.clone()).collect();
    numbers.sort_unstable();
    let lines: Vec<&str> = text.lines().collect();
    numbers.iter().map(|&number| format!("{}\n", lines[number - 1])).collect()
}

#[test]
fn verdicts_are_those_of_all_orders() {
    let mut seen = [[0u32; 2]; MODELS.len()];
    for round in 0..14_000 {
        let number = round % MODELS.len();
        let model = MODELS[number];
        let mut random = Seed(round as u64).stream(&["histories", model]);
        let (processes, length) = (2 + random.below(3) as usize, 2 + random.below(6) as usize);
        let mut operations = simulate(&mut random, model, processes, length);
        let is_corrupt = random.chance(0.6);
        if is_corrupt {
            corrupt(&mut random, &mut operations);
        }
        let text = text_of(&operations, model);
        let left: Vec<&Operation> = operations.iter().filter(|one| one.outcome != Outcome::Fail).collect();
        let expected = has_order(&Object::default(), &left);
        assert!(expected || is_corrupt, "{model}\n{text}");
        let report = judge(&text, model);
        let verdict = if expected { Verdict::Valid } else { Verdict::Invalid };
        assert_eq!(report.verdict, verdict, "round {round}: {report}\n{text}");
        if !expected {
            let part = window(&report, &text);
            assert_eq!(judge(&part, model).verdict, Verdict::Invalid, "round {round}\n{text}\n{part}");
        }
        seen[number][usize::from(expected)] += 1;
    }
    // Both verdicts are common for each model; a mutex has no results that could be wrong.
    for (model, [invalid, valid]) in MODELS.iter().zip(seen) {
        assert!(valid > 500 && (invalid > 100 || *model == "owned-mutex"), "{model}: {invalid} of {valid}");
    }
}

#[test]
fn a_mutex_that_two_processes_hold_is_found() {
    let mut found = 0;
    for round in 0..2_000 {
        let mut random = Seed(round).stream(&["histories", "two holders"]);
        let mut operations = simulate(&mut random, "owned-mutex", 3, 6);
        // A failure that is reported as success.
        let failed: Vec<usize> =
            (0..operations.len()).filter(|&one| operations[one].outcome == Outcome::Fail).collect();
        if let Some(&one) = failed.first() {
            operations[one].outcome = Outcome::Ok;
        }
        let left: Vec<&Operation> = operations.iter().filter(|one| one.outcome != Outcome::Fail).collect();
        let expected = has_order(&Object::default(), &left);
        let text = text_of(&operations, "owned-mutex");
        let verdict = if expected { Verdict::Valid } else { Verdict::Invalid };
        assert_eq!(judge(&text, "owned-mutex").verdict, verdict, "{text}");
        found += u32::from(!expected);
    }
    assert!(found > 200, "{found}");
}

#[test]
fn long_histories_are_checked_and_explained() {
    for model in MODELS {
        let mut random = Seed(1).stream(&["histories", "long", model]);
        // Operations of unknown outcome make queues and counters hard; without them length alone counts.
        let mut operations = simulate(&mut random, model, 10, 2_000);
        operations.retain(|one| one.outcome == Outcome::Ok);
        let object_text = text_of(&operations, model);
        let verdict = judge(&object_text, model).verdict;
        assert_ne!(verdict, Verdict::Unknown, "{model}");
    }
}

#[test]
fn the_window_is_small() {
    let mut text = String::new();
    for value in 0..3_000 {
        let read = if value == 2_000 { 1_500 } else { value };
        for (f, value) in [("write", value), ("read", read)] {
            for kind in ["invoke", "ok"] {
                writeln!(text, r#"{{"process": 0, "type": "{kind}", "f": "{f}", "value": {value}}}"#)
                    .unwrap();
            }
        }
    }
    let report = judge(&text, "register");
    let part = window(&report, &text);
    assert_eq!(part.lines().count(), 6, "{part}");
    let lines: Vec<usize> = report.findings[0].sections[2].steps.iter().map(|step| step.lines[0]).collect();
    assert_eq!(lines[0], 6001);
    assert_eq!(lines[2], 8003);
    let shown = report.to_string();
    assert!(
        shown.contains("longest order that is possible, of 4001 operations, after which the value is 2000:"),
        "{shown}"
    );
    assert!(
        shown.contains("no order continues with any of:\n    lines 8003-8004: process 0, read 1500"),
        "{shown}"
    );
}

#[test]
fn a_limit_leaves_a_doubt() {
    // Twelve concurrent increments by different amounts, and a read of a sum that none of their subsets has.
    let mut text = String::new();
    let event = |process: u32, kind: &str, f: &str, value: &str| {
        format!("{{\"process\": {process}, \"type\": \"{kind}\", \"f\": \"{f}\", \"value\": {value}}}\n")
    };
    for process in 0..12 {
        text += &event(process, "invoke", "add", &(2u32 << process).to_string());
    }
    text += &event(99, "invoke", "read", "null");
    text += &event(99, "ok", "read", "1");
    let history = History::from_text(&text).unwrap();
    let check = |configurations| {
        let limits = Limits { configurations, ..Limits::default() };
        check(&history, "counter", Level::default(), limits).unwrap()
    };
    assert_eq!(check(100).verdict, Verdict::Unknown);
    assert!(check(100).to_string().contains("not decided: 13 operations: the limit of 100"));
    assert_eq!(check(100_000).verdict, Verdict::Invalid);
    let limits = Limits { bytes: 10_000, ..Limits::default() };
    assert_eq!(
        super::super::check(&history, "counter", Level::default(), limits).unwrap().verdict,
        Verdict::Unknown
    );
}

#[test]
fn the_same_history_gives_the_same_report() {
    let mut random = Seed(4).stream(&["histories", "same"]);
    for model in MODELS {
        let mut operations = simulate(&mut random, model, 4, 30);
        corrupt(&mut random, &mut operations);
        let text = text_of(&operations, model);
        assert_eq!(judge(&text, model), judge(&text, model));
        assert_eq!(judge(&text, model).to_json().to_string(), judge(&text, model).to_json().to_string());
    }
}
