//! Unique identifiers: no two replies have the same value.

use super::{Judgement, finding, unknown};
use crate::report::Step;
use crate::{History, HistoryError, Operation, Outcome, Value};
use belljar_base::Map;

pub(super) fn check(history: &History) -> Result<Judgement, HistoryError> {
    let mut first: Map<&Value, &Operation> = Map::new();
    let mut repeated = Vec::new();
    for operation in &history.operations {
        if operation.function != "generate" {
            return Err(unknown(operation, "unique-ids", "generate"));
        }
        if operation.outcome != Outcome::Ok {
            continue;
        }
        match first.get(&operation.result) {
            None => drop(first.insert(&operation.result, operation)),
            Some(before) => {
                let (one, other) = (before.lines(), operation.lines());
                let text = format!("{} is the result of {one} and of {other}", operation.result);
                repeated.push(Step::about([*before, operation], text));
            }
        }
    }
    let mut judgement = Judgement::default();
    judgement.notes.push(format!("{} different identifiers", first.len()));
    if !repeated.is_empty() {
        judgement.findings.push(finding(
            "duplicate identifier",
            None,
            "identifiers that were given twice",
            repeated,
        ));
    }
    Ok(judgement)
}
