//! The check: a history is split into objects, and each of them is searched.
//!
//! A history is linearizable if and only if the operations on each object are (Herlihy and Wing's locality), so the objects are checked one by one.

use super::explain;
use super::model::{Machine, Model, Numbered};
use super::search::{Found, Interval, Limits, search};
use crate::{Finding, History, HistoryError, Operation, Outcome, Report, Value, Verdict};
use belljar_base::Map;

/// Number of comparisons up to which operations of unknown outcome are looked through for those that support no other.
const COMPARISONS: usize = 200_000_000;

/// Maker of the machine of one object's operations.
type Make<'a> = &'a dyn Fn(&[&Operation]) -> Result<Box<dyn Machine>, (usize, String)>;

/// Operations of each object, by key.
pub(crate) type Objects<'a> = Map<Option<&'a Value>, Vec<&'a Operation>>;

/// Judges a history of operations on objects, of which `model` makes one for each key.
///
/// Operations that failed are left out; those of unknown outcome may take effect at any time after their invocation, or never. `name` is the model's
/// name in the report.
///
/// # Errors
/// The first operation that the model does not have.
pub fn check_linearizable<M: Model + 'static>(
    history: &History,
    name: &str,
    model: impl Fn() -> M,
    limits: Limits,
) -> Result<Report, HistoryError> {
    let mut objects = Objects::new();
    for operation in &history.operations {
        objects.entry(operation.key.as_ref()).or_default().push(operation);
    }
    check_objects(history, name, objects, model, limits)
}

/// Judges objects whose operations are given by key.
pub(crate) fn check_objects<M: Model + 'static>(
    history: &History,
    name: &str,
    objects: Objects<'_>,
    model: impl Fn() -> M,
    limits: Limits,
) -> Result<Report, HistoryError> {
    let make = |operations: &[&Operation]| {
        let machine: Box<dyn Machine> = Box::new(Numbered::new(model(), operations)?);
        Ok(machine)
    };
    check_machines(history, name, objects, &make, limits)
}

fn check_machines(
    history: &History,
    name: &str,
    objects: Objects<'_>,
    make: Make<'_>,
    limits: Limits,
) -> Result<Report, HistoryError> {
    let mut report = Report {
        verdict: Verdict::Valid,
        model: name.to_string(),
        consistency: "linearizable".to_string(),
        operations: history.operations.len(),
        objects: objects.len(),
        findings: Vec::new(),
        excluded: Vec::new(),
        doubts: Vec::new(),
        notes: Vec::new(),
    };
    let mut machines = Vec::new();
    for (key, mut operations) in objects {
        operations.retain(|operation| operation.outcome != Outcome::Fail);
        let machine = make(&operations).map_err(|(position, problem)| {
            HistoryError::new(
                operations[position].invoked,
                problem,
                format!("write an operation of the model {name}, or choose another --model"),
            )
        })?;
        machines.push((key, operations, machine));
    }
    for (key, operations, mut machine) in machines {
        check_object(&mut report, key, &operations, machine.as_mut(), limits);
    }
    report.verdict = match (&report.findings[..], &report.doubts[..]) {
        ([_, ..], _) => Verdict::Invalid,
        ([], [_, ..]) => Verdict::Unknown,
        ([], []) => Verdict::Valid,
    };
    if report.verdict == Verdict::Invalid {
        report.excluded.push(report.consistency.clone());
    }
    Ok(report)
}

fn check_object(
    report: &mut Report,
    key: Option<&Value>,
    operations: &[&Operation],
    machine: &mut dyn Machine,
    limits: Limits,
) {
    machine.forget();
    let intervals = intervals_of(machine, operations);
    match search(machine, &intervals, limits, &mut 0) {
        Found::Order => {}
        Found::Unknown => {
            let object = key.map_or(String::new(), |key| format!("key {key}, "));
            report.doubts.push(format!(
                "{object}{} operations: the limit of {} configurations or {} MiB was reached",
                operations.len(),
                limits.configurations,
                limits.bytes >> 20
            ));
        }
        Found::Stuck(_) => {
            let sections = explain::sections(machine, operations, &intervals, limits);
            let kind = "not linearizable".to_string();
            report.findings.push(Finding { kind, key: key.cloned(), sections });
        }
    }
}

/// Operations for the search, without those of unknown outcome that make no difference: reads, and operations that support no other.
fn intervals_of(machine: &dyn Machine, operations: &[&Operation]) -> Vec<Interval> {
    let calls = 0..operations.len() as u32;
    let pending = operations.iter().filter(|operation| operation.returned().is_none()).count();
    let compare = pending.saturating_mul(operations.len()) <= COMPARISONS;
    let matters = |call: u32| {
        !machine.is_read(call)
            && (!compare || calls.clone().any(|other| other != call && machine.supports(call, other)))
    };
    let mut intervals = Vec::with_capacity(operations.len());
    for (call, operation) in operations.iter().enumerate() {
        let (call, returned) = (call as u32, operation.returned());
        if returned.is_some() || matters(call) {
            intervals.push(Interval { call, invoked: operation.invoked, returned });
        }
    }
    intervals
}
