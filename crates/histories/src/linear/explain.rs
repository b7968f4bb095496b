//! Explanation of a history that is not linearizable.

use super::model::Machine;
use super::search::{Found, Interval, Limits, Stuck, search};
use super::shrink;
use crate::Operation;
use crate::report::{Section, Step};

/// Sections of the explanation: the longest linearizable prefix, the operations that cannot follow it, and the smallest part that fails.
pub(super) fn sections(
    machine: &mut dyn Machine,
    operations: &[&Operation],
    intervals: &[Interval],
    limits: Limits,
) -> Vec<Section> {
    let prefix = shrink::failing_prefix(machine, intervals, limits);
    machine.forget();
    let stuck = match search(machine, &prefix, limits, &mut 0) {
        Found::Stuck(stuck) => stuck,
        Found::Order | Found::Unknown => Stuck::default(),
    };
    let step = |call: u32| Step::of(operations[call as usize]);
    let state = machine.describe(stuck.state);
    let then = if state.is_empty() { String::new() } else { format!(", after which {state}") };
    let mut sections = vec![
        Section {
            name: "prefix",
            title: format!("longest order that is possible, of {} operations{then}:", stuck.order.len()),
            steps: stuck.order.iter().map(|&call| step(call)).collect(),
        },
        Section {
            name: "refused",
            title: "no order continues with any of:".to_string(),
            steps: stuck.candidates.iter().map(|&call| step(call)).collect(),
        },
    ];
    if stuck.order.is_empty() {
        sections[0].title = format!("no operation can be the first{then}");
    }
    let (window, complete) = shrink::window(machine, &prefix);
    let complete = if complete && !machine.is_guess() { "" } else { ", perhaps not the smallest" };
    sections.push(Section {
        name: "window",
        title: format!("smallest part that is impossible, of {} operations{complete}:", window.len()),
        steps: window.iter().map(|interval| step(interval.call)).collect(),
    });
    sections
}
