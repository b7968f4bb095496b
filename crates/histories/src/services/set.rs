//! Sets that only grow and need not be up to date: Jepsen's `set-full`.
//!
//! An element is *known* from the first completion that shows it: that of its addition, or of a read that has it. Of the reads that
//! begin later, the last decides: with the element it is *stable*, without it it is *lost*. Reads in between may lack
//! it. The time from known to stable is its latency: reads from then on have it.

use super::{Judgement, absence, finding, refused, unknown};
use crate::report::Step;
use crate::{History, HistoryError, Operation, Outcome, Value};
use belljar_base::{Map, Set};

/// Element that some client has added.
#[derive(Default)]
struct Element<'a> {
    /// First completion that shows the element.
    known: Option<&'a Operation>,
    /// Reads with and without the element whose invocations are the latest.
    present: Option<&'a Operation>,
    absent: Option<&'a Operation>,
}

pub(super) fn check(history: &History, addition: &str) -> Result<Judgement, HistoryError> {
    let model = if addition == "add" { "g-set" } else { addition };
    let mut elements: Map<&Value, Element<'_>> = Map::new();
    let mut reads: Vec<&Operation> = Vec::new();
    for operation in &history.operations {
        match operation.function.as_str() {
            "read" if operation.outcome != Outcome::Ok => {}
            "read" if operation.result.list().is_none() => {
                let problem = format!("the result of \"read\" is {}, not a list", operation.result);
                return Err(refused(operation, model, problem));
            }
            "read" => reads.push(operation),
            name if name == addition => {
                let known = (operation.outcome == Outcome::Ok).then_some(operation);
                let element = Element { known, ..Element::default() };
                if elements.insert(&operation.argument, element).is_some() {
                    let problem = format!("{} is added a second time", operation.argument);
                    return Err(refused(operation, model, problem));
                }
            }
            _ => return Err(unknown(operation, model, &format!("{addition} and read"))),
        }
    }
    let (mut twice, mut invented) = (Vec::new(), Vec::new());
    for read in &reads {
        let mut seen: Set<&Value> = Set::new();
        for value in read.result.list().unwrap_or_default() {
            let known = elements.get_mut(value);
            if !seen.insert(value) {
                twice.push(Step::about([*read], format!("{}: the read has {value} twice", read.lines())));
                continue;
            }
            match known {
                Some(element) => present(element, read),
                None => {
                    invented.push(Step::about([*read], format!("{}: {value} was never added", read.lines())))
                }
            }
        }
        for (_, element) in elements.iter_mut().filter(|(value, _)| !seen.contains(*value)) {
            element.absent = later(element.absent, read);
        }
    }
    Ok(judge(&elements, twice, invented))
}

/// Later of two reads by their invocations.
fn later<'a>(one: Option<&'a Operation>, other: &'a Operation) -> Option<&'a Operation> {
    one.filter(|one| one.invoked > other.invoked).or(Some(other))
}

fn present<'a>(element: &mut Element<'a>, read: &'a Operation) {
    let sooner = |known: &Operation| known.completed <= read.completed;
    element.known = element.known.filter(|known| sooner(known)).or(Some(read));
    element.present = later(element.present, read);
}

fn judge(elements: &Map<&Value, Element<'_>>, twice: Vec<Step>, invented: Vec<Step>) -> Judgement {
    let mut judgement = Judgement::default();
    let (mut lost, mut latencies, mut stable) = (Vec::new(), Vec::new(), 0u64);
    for (value, element) in elements {
        let Some(known) = element.known else { continue };
        let line = |read: Option<&Operation>| read.map_or(0, |read| read.invoked);
        let (with, without) = (line(element.present), line(element.absent));
        match element.absent {
            Some(read) if without > with && without > known.completed.unwrap_or_default() => {
                let text = format!(
                    "{value}, known from {}, is missing in the read of {}",
                    known.lines(),
                    read.lines()
                );
                lost.push(Step::about([known, read], text));
            }
            _ if with > without => {
                stable += 1;
                latencies.extend(latency(known, element.absent));
            }
            _ => {}
        }
    }
    if !lost.is_empty() {
        judgement.findings.push(absence("lost element", "elements that the last reads do not have", lost));
    }
    let mut add = |kind: &str, title: &str, steps: Vec<Step>| {
        if !steps.is_empty() {
            judgement.findings.push(finding(kind, None, title, steps));
        }
    };
    add("duplicate element", "reads with an element twice", twice);
    add("invented element", "reads with elements that were never added", invented);
    if stable == 0 && !elements.is_empty() {
        judgement.doubts.push("no element was read after it was added".to_owned());
    }
    judgement.notes.push(format!("{stable} of {} elements stable", elements.len()));
    judgement.notes.extend(quantiles(latencies));
    judgement
}

/// Time in nanoseconds from the completion that makes an element known to the last read without it.
fn latency(known: &Operation, absent: Option<&Operation>) -> Option<i64> {
    let from = known.completed_ns?;
    let until = match absent {
        Some(read) => read.invoked_ns?,
        None => from,
    };
    Some((until - from).max(0))
}

/// Note with quantiles of the latencies, if the history has times.
fn quantiles(mut latencies: Vec<i64>) -> Option<String> {
    latencies.sort_unstable();
    let last = latencies.len().checked_sub(1)?;
    let at = |share: usize| latencies[last * share / 100] / 1_000_000;
    Some(format!(
        "stable latencies: 50 % {} ms, 95 % {} ms, 99 % {} ms, longest {} ms",
        at(50),
        at(95),
        at(99),
        at(100)
    ))
}
