//! Explanations of anomalies in words.

use super::anomaly::Anomaly;
use super::cycles::Cycle;
use super::graph::{Edge, EdgeKind};
use super::parse::{Key, Kind, Transactions};
use crate::Finding;
use crate::report::{Section, Step};

/// Largest number of elements of a list that an explanation shows.
const ELEMENTS: usize = 12;

/// List of elements as text, the last ones if there are many.
pub(super) fn elements(key: &Key, list: &[u32]) -> String {
    let hidden = list.len().saturating_sub(ELEMENTS);
    let shown: Vec<String> = list[hidden..].iter().map(|&one| key.elements.value(one).to_string()).collect();
    format!("[{}{}]", if hidden > 0 { "..., " } else { "" }, shown.join(", "))
}

/// Name of a transaction: the line that invokes it.
pub(super) fn line_of(transactions: &Transactions<'_>, transaction: u32) -> String {
    format!("line {}", transactions.operation(transaction).invoked)
}

/// Step about some transactions.
pub(super) fn step(transactions: &Transactions<'_>, about: &[u32], text: String) -> Step {
    Step::about(about.iter().map(|&transaction| transactions.operation(transaction)), text)
}

/// Finding of an anomaly that reads show, with examples.
pub(super) fn evidence(anomaly: Anomaly, examples: Vec<Vec<Step>>) -> Finding {
    let title = format!("{}:", anomaly.meaning());
    let sections = examples.into_iter().enumerate().map(|(index, steps)| {
        let title = if index == 0 { title.clone() } else { "also:".to_string() };
        Section { name: "evidence", title, steps }
    });
    Finding { kind: anomaly.to_string(), key: None, sections: sections.collect() }
}

/// Finding of a cycle: its transactions, and each of its edges in words.
pub(super) fn cycle(transactions: &Transactions<'_>, cycle: &Cycle) -> Finding {
    let mut shown: Vec<u32> = Vec::new();
    for &(from, _) in &cycle.edges {
        if !shown.contains(&from) {
            shown.push(from);
        }
    }
    let describe = |&transaction: &u32| Step::of(transactions.operation(transaction));
    let reason =
        |(from, edge): &(u32, Edge)| step(transactions, &[*from, edge.to], reason(transactions, *from, edge));
    Finding {
        kind: cycle.anomaly.to_string(),
        key: None,
        sections: vec![
            Section {
                name: "transactions",
                title: format!("{}, of the transactions:", cycle.anomaly.meaning()),
                steps: shown.iter().map(describe).collect(),
            },
            Section {
                name: "cycle",
                title: "each comes before the next, and the last before the first:".to_string(),
                steps: cycle.edges.iter().map(reason).collect(),
            },
        ],
    }
}

/// Reason of an edge, such as `rw: line 3 reads ...`.
fn reason(transactions: &Transactions<'_>, from: u32, edge: &Edge) -> String {
    let (one, other) = (line_of(transactions, from), line_of(transactions, edge.to));
    let key = transactions.keys.get(edge.key as usize);
    let name = key.map_or(String::new(), |key| key.name.to_string());
    let value = |element: Option<u32>| match (element, key) {
        (Some(element), Some(key)) => key.elements.value(element).to_string(),
        _ => "nothing".to_string(),
    };
    let (before, after) = (value(edge.before), value(edge.after));
    let verb = match transactions.kind {
        Kind::ListAppend => "appends",
        Kind::Register => "writes",
    };
    match edge.kind {
        EdgeKind::Ww => {
            format!("ww: {one} {verb} {before} to key {name}, and {other} {verb} {after} after it")
        }
        EdgeKind::Wr => format!("wr: {one} {verb} {before} to key {name}, and {other} reads it"),
        EdgeKind::Rw => {
            format!(
                "rw: {one} reads key {name} with {before} as the last, and {other} {verb} {after} after it"
            )
        }
        EdgeKind::Process => {
            let process = &transactions.operation(from).process;
            format!("process: {one} and {other} are of process {process}, in this order")
        }
        EdgeKind::Realtime => {
            let completed = transactions.operation(from).completed.unwrap_or_default();
            format!("realtime: {one} completes at line {completed}, before {other} is invoked")
        }
    }
}
