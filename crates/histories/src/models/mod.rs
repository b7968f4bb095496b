//! The models that Belljar brings, by name.

mod counter;
mod map;
mod mutex;
mod queue;
mod register;
mod set;
#[cfg(test)]
mod tests;

use crate::linear::{check_linearizable, check_objects};
use crate::services::check_service;
use crate::transactions::{Kind, check_transactions};
use crate::{History, HistoryError, Level, Limits, Operation, Report};
use belljar_base::Map;

/// Number of elements of a state that its description shows.
const SHOWN: usize = 20;

/// Names of all models, each with its operations.
pub const MODELS: &[(&str, &str)] = &[
    ("register", "read, write"),
    ("cas-register", "read, write, cas [OLD, NEW]"),
    ("counter", "read, add N, increment, decrement"),
    ("set", "add, remove, contains, read"),
    ("queue", "enqueue, dequeue"),
    ("mutex", "acquire, release: by any process"),
    ("owned-mutex", "acquire, release: by the process that has it"),
    ("map", "get, put, delete, cas [OLD, NEW] with \"key\"; snapshot"),
    ("list-append", "transactions of [\"append\", KEY, ELEMENT] and [\"r\", KEY, LIST]"),
    ("rw-register", "transactions of [\"w\", KEY, VALUE] and [\"r\", KEY, VALUE]"),
    ("echo", "echo VALUE -> VALUE"),
    ("unique-ids", "generate -> ID"),
    ("broadcast", "broadcast X, read -> [X, ...]"),
    ("g-set", "add X, read -> [X, ...]"),
    ("pn-counter", "add N, read -> N, with \"final\""),
    ("kafka", "send, poll, assign, commit"),
];

/// Judges a history by the model of this name. Transactions are held to the consistency model `level`, other
/// operations to linearizability or to the promise of their service.
///
/// # Errors
/// The first operation that the model does not have, or an unknown name.
pub fn check(history: &History, model: &str, level: Level, limits: Limits) -> Result<Report, HistoryError> {
    if let Some(kind) = Kind::named(model) {
        return check_transactions(history, kind, level, limits);
    }
    if let Some(report) = check_service(history, model) {
        return report;
    }
    match model {
        "register" => check_linearizable(history, model, || register::Register::new(false), limits),
        "cas-register" => check_linearizable(history, model, || register::Register::new(true), limits),
        "counter" => check_linearizable(history, model, || counter::Counter, limits),
        "set" => check_linearizable(history, model, set::ElementSet::default, limits),
        "queue" => check_linearizable(history, model, queue::Queue::default, limits),
        "mutex" => check_linearizable(history, model, || mutex::Mutex::new(false), limits),
        "owned-mutex" => check_linearizable(history, model, || mutex::Mutex::new(true), limits),
        "map" => check_map(history, limits),
        other => Err(HistoryError::new(
            0,
            format!("there is no model {other}"),
            format!("choose one of {}", MODELS.iter().map(|one| one.0).collect::<Vec<_>>().join(", ")),
        )),
    }
}

/// Judges a map: key by key, or as one object if an operation reads all keys at once.
fn check_map(history: &History, limits: Limits) -> Result<Report, HistoryError> {
    if !history.operations.iter().any(|operation| operation.key.is_none()) {
        return check_linearizable(history, "map", map::KeyMap::default, limits);
    }
    let operations: Vec<&Operation> = history.operations.iter().collect();
    check_objects(history, "map", Map::from([(None, operations)]), map::KeyMap::default, limits)
}

/// List of elements as text, the first ones if there are many.
fn listed(elements: &mut dyn Iterator<Item = String>) -> String {
    let shown: Vec<String> = elements.take(SHOWN).collect();
    let more = if elements.next().is_some() { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Reason for which a model refuses an operation.
fn unknown(operation: &Operation, functions: &str) -> String {
    format!("\"f\" is \"{}\", but the operations are {functions}", operation.function)
}
