//! Echo: each reply has the value of its request.

use super::{Judgement, finding, unknown};
use crate::report::Step;
use crate::{History, HistoryError, Outcome};

pub(super) fn check(history: &History) -> Result<Judgement, HistoryError> {
    let mut wrong = Vec::new();
    for operation in &history.operations {
        if operation.function != "echo" {
            return Err(unknown(operation, "echo", "echo"));
        }
        if operation.outcome == Outcome::Ok && operation.result != operation.argument {
            wrong.push(Step::of(operation));
        }
    }
    let mut judgement = Judgement::default();
    if !wrong.is_empty() {
        judgement.findings.push(finding(
            "wrong echo",
            None,
            "replies with another value than the request",
            wrong,
        ));
    }
    Ok(judgement)
}
