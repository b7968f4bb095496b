//! The check: observations, the graph of dependencies, its cycles, and what they exclude.

use super::anomaly::{Anomaly, Level};
use super::graph::Graph;
use super::parse::{Kind, parse};
use super::{cycles, explain, observed, reads, versions};
use crate::{Finding, History, HistoryError, Limits, Report, Verdict};

/// Judges a history of transactions by Adya's anomalies, and holds it to an isolation level. The limit on configurations
/// bounds the steps that the search for cycles of one anomaly takes.
///
/// # Errors
/// The first operation that is no transaction of the kind, or that writes a value of a key a second time.
pub fn check_transactions(
    history: &History,
    kind: Kind,
    level: Level,
    limits: Limits,
) -> Result<Report, HistoryError> {
    let transactions = parse(history, kind)?;
    let observed = observed::observe(&transactions);
    let orders = match kind {
        Kind::ListAppend => versions::orders(&observed),
        Kind::Register => Vec::new(),
    };
    let mut found: Vec<(Anomaly, Finding)> = reads::examine(&transactions, &observed, &orders).findings();
    let mut graph = Graph::new(transactions.all.len());
    let skipped = versions::add_dependencies(&mut graph, &transactions, &observed, &orders);
    graph.add_orders(&transactions);
    graph.finish();
    let (cycles, incomplete) = cycles::shortest(&graph, limits.configurations);
    found.extend(cycles.iter().map(|one| (one.anomaly, explain::cycle(&transactions, one))));

    let excluded = |level: &Level| found.iter().any(|(anomaly, _)| level.excludes(*anomaly));
    let mut doubts: Vec<String> = Vec::new();
    for anomaly in incomplete.into_iter().filter(|&anomaly| level.excludes(anomaly)) {
        doubts.push(format!("cycles of {anomaly}: the limit of {} steps was reached", limits.configurations));
    }
    for key in skipped {
        let name = &transactions.keys[key as usize].name;
        doubts.push(format!("key {name} has too many transactions that overwrite one version"));
    }
    let verdict = match (excluded(&level), doubts.is_empty()) {
        (true, _) => Verdict::Invalid,
        (false, false) => Verdict::Unknown,
        (false, true) => Verdict::Valid,
    };
    Ok(Report {
        verdict,
        model: kind.name().to_string(),
        consistency: level.name().to_string(),
        operations: history.operations.len(),
        objects: transactions.keys.len(),
        excluded: Level::ALL
            .iter()
            .filter(|level| excluded(level))
            .map(|level| level.name().into())
            .collect(),
        findings: found.into_iter().map(|(_, finding)| finding).collect(),
        doubts,
        notes: Vec::new(),
    })
}
