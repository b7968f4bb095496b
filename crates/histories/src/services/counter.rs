//! Counter that need not be up to date: final reads have the sum of all additions, those of unknown outcome counted or not.

use super::{Judgement, absence, refused, unknown};
use crate::report::Step;
use crate::{History, HistoryError, Outcome, Value};

/// Sums that are possible, as disjoint inclusive intervals in increasing order.
type Sums = Vec<(i128, i128)>;

pub(super) fn check(history: &History) -> Result<Judgement, HistoryError> {
    let (mut definite, mut possible, mut reads) = (0i128, Vec::new(), Vec::new());
    for operation in &history.operations {
        match (operation.function.as_str(), &operation.argument, operation.outcome) {
            ("add", Value::Integer(delta), Outcome::Ok) => definite += i128::from(*delta),
            ("add", Value::Integer(delta), Outcome::Info) => possible.push(i128::from(*delta)),
            ("add", Value::Integer(_), Outcome::Fail) => {}
            ("add", other, _) => {
                return Err(refused(
                    operation,
                    "pn-counter",
                    format!("the value of \"add\" is {other}, not a whole number"),
                ));
            }
            ("read", _, Outcome::Ok) => match &operation.result {
                Value::Integer(_) if !operation.is_final => {}
                Value::Integer(value) => reads.push((operation, i128::from(*value))),
                other => {
                    let problem = format!("the result of \"read\" is {other}, not a whole number");
                    return Err(refused(operation, "pn-counter", problem));
                }
            },
            ("read", ..) => {}
            _ => return Err(unknown(operation, "pn-counter", "add and read")),
        }
    }
    let sums = sums(definite, &possible);
    let wrong: Vec<Step> = reads
        .iter()
        .filter(|(_, value)| !sums.iter().any(|(least, most)| (least..=most).contains(&value)))
        .map(|(operation, _)| Step::of(operation))
        .collect();
    let mut judgement = Judgement::default();
    let shown: Vec<String> = sums.iter().take(super::EXAMPLES).map(interval).collect();
    let more = if sums.len() > shown.len() { ", ..." } else { "" };
    let expected = format!("{}{more}", shown.join(", "));
    judgement.notes.push(format!("possible sums: {expected}"));
    if !wrong.is_empty() {
        let title = format!("final reads that are not the sum of the additions, {expected}");
        judgement.findings.push(absence("wrong sum", &title, wrong));
    }
    if reads.is_empty() {
        judgement.doubts.push("no read with \"final\": true was answered".to_owned());
    }
    Ok(judgement)
}

fn interval(sums: &(i128, i128)) -> String {
    if sums.0 == sums.1 { sums.0.to_string() } else { format!("{} to {}", sums.0, sums.1) }
}

/// Sums of the definite part and any of the possible additions.
fn sums(definite: i128, possible: &[i128]) -> Sums {
    let mut sums = vec![(definite, definite)];
    for delta in possible {
        let mut both: Sums = sums.iter().map(|(least, most)| (least + delta, most + delta)).collect();
        both.extend(sums);
        both.sort_unstable();
        sums = Vec::new();
        for (least, most) in both {
            match sums.last_mut() {
                Some(last) if least <= last.1 + 1 => last.1 = last.1.max(most),
                _ => sums.push((least, most)),
            }
        }
    }
    sums
}
