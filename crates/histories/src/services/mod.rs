//! Services whose promise is weaker than linearizability: what the workloads of Maelstrom judge.
//!
//! | model | promise |
//! |---|---|
//! | `echo` | a reply has the value of its request |
//! | `unique-ids` | no two replies have the same value |
//! | `broadcast`, `g-set` | an element that is known to be in the set is in it at last |
//! | `pn-counter` | final reads have the sum of all additions |
//! | `kafka` | logs by offsets lose, skip and repeat nothing |
//!
//! Elements count by the lines of their operations. Reads are final if their invocation has the member `final`.

mod counter;
mod echo;
mod kafka;
mod set;
#[cfg(test)]
mod tests;
mod unique;

use crate::report::{ABSENCE, Section, Step};
use crate::{Finding, History, HistoryError, Operation, Report, Value, Verdict};

/// Number of examples that a finding shows of one violation.
const EXAMPLES: usize = 8;

/// Result of the check of one service.
#[derive(Default)]
struct Judgement {
    findings: Vec<Finding>,
    doubts: Vec<String>,
    notes: Vec<String>,
}

/// Judges a history by the service of this name, if there is one.
pub(crate) fn check_service(history: &History, model: &str) -> Option<Result<Report, HistoryError>> {
    let (judgement, promise) = match model {
        "echo" => (echo::check(history), "replies"),
        "unique-ids" => (unique::check(history), "uniqueness"),
        "broadcast" => (set::check(history, "broadcast"), "eventual"),
        "g-set" => (set::check(history, "add"), "eventual"),
        "pn-counter" => (counter::check(history), "eventual"),
        "kafka" => (kafka::check(history), "log order"),
        _ => return None,
    };
    Some(judgement.map(|judgement| report(history, model, promise, judgement)))
}

fn report(history: &History, model: &str, promise: &str, judgement: Judgement) -> Report {
    let verdict = match (judgement.findings.is_empty(), judgement.doubts.is_empty()) {
        (false, _) => Verdict::Invalid,
        (true, false) => Verdict::Unknown,
        (true, true) => Verdict::Valid,
    };
    Report {
        verdict,
        model: model.to_owned(),
        consistency: promise.to_owned(),
        operations: history.operations.len(),
        objects: 1,
        excluded: match verdict {
            Verdict::Invalid => vec![promise.to_owned()],
            _ => Vec::new(),
        },
        findings: judgement.findings,
        doubts: judgement.doubts,
        notes: judgement.notes,
    }
}

/// Finding with its first examples.
fn finding(kind: &str, key: Option<Value>, title: &str, mut steps: Vec<Step>) -> Finding {
    let more = steps.len().saturating_sub(EXAMPLES);
    steps.truncate(EXAMPLES);
    let more = if more > 0 { format!(" ({more} more)") } else { String::new() };
    let section = Section { name: "evidence", title: format!("{title}{more}:"), steps };
    Finding { kind: kind.to_owned(), key, sections: vec![section] }
}

/// Finding about something that has not happened by the end: no line decides it, and a part of the history would show it wrongly.
fn absence(kind: &str, title: &str, steps: Vec<Step>) -> Finding {
    let mut finding = finding(kind, None, title, steps);
    for section in &mut finding.sections {
        section.name = ABSENCE;
    }
    finding
}

/// Error of an operation that the service does not have, or whose value has another form.
fn refused(operation: &Operation, model: &str, problem: String) -> HistoryError {
    let remedy = format!("write an operation of the model {model}, or choose another --model");
    HistoryError::new(operation.invoked, problem, remedy)
}

/// Error of an operation with another function.
fn unknown(operation: &Operation, model: &str, functions: &str) -> HistoryError {
    refused(
        operation,
        model,
        format!("\"f\" is \"{}\", but the operations are {functions}", operation.function),
    )
}
