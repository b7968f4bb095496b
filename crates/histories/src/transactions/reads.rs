//! Anomalies that reads show by themselves.

use super::anomaly::Anomaly;
use super::explain::{elements, line_of, step};
use super::observed::Observed;
use super::parse::{Kind, Transactions};
use super::versions::Order;
use crate::report::Step;
use crate::{Finding, Outcome};
use belljar_base::{Map, Set};

/// Number of examples of an anomaly that are collected.
const EXAMPLES: usize = 10;

/// Examples of each anomaly.
#[derive(Default)]
pub(super) struct Examples(Map<Anomaly, Vec<Vec<Step>>>);

impl Examples {
    fn add(&mut self, anomaly: Anomaly, steps: Vec<Step>) {
        let examples = self.0.entry(anomaly).or_default();
        if examples.len() < EXAMPLES && !examples.contains(&steps) {
            examples.push(steps);
        }
    }

    /// Findings, one for each anomaly.
    pub fn findings(self) -> Vec<(Anomaly, Finding)> {
        let finding = |(anomaly, examples): (Anomaly, Vec<Vec<Step>>)| {
            (anomaly, super::explain::evidence(anomaly, examples))
        };
        self.0.into_iter().map(finding).collect()
    }
}

/// Collects all anomalies that need no graph.
pub(super) fn examine(
    transactions: &Transactions<'_>,
    observed: &Observed<'_>,
    orders: &[Order],
) -> Examples {
    let mut examples = Examples::default();
    aborted_and_intermediate(transactions, observed, &mut examples);
    duplicates(transactions, observed, &mut examples);
    contradictions(transactions, observed, &mut examples);
    incompatible(transactions, observed, orders, &mut examples);
    lost_updates(transactions, observed, &mut examples);
    examples
}

fn aborted_and_intermediate(
    transactions: &Transactions<'_>,
    observed: &Observed<'_>,
    examples: &mut Examples,
) {
    for (key, reads) in observed.reads.iter().enumerate() {
        let key = &transactions.keys[key];
        for &(reader, read) in reads {
            for (at, &element) in read.iter().enumerate() {
                let value = key.elements.value(element);
                let says = format!("{} reads {value} of key {}", line_of(transactions, reader), key.name);
                let Some(writer) = key.writers[element as usize] else {
                    let text = format!("{says}, which no transaction writes");
                    examples.add(Anomaly::GarbageRead, vec![step(transactions, &[reader], text)]);
                    continue;
                };
                let by = line_of(transactions, writer.transaction);
                let both = [writer.transaction, reader];
                if transactions.all[writer.transaction as usize].outcome == Outcome::Fail {
                    let text = format!("{says}, which {by} wrote, and that failed");
                    examples.add(Anomaly::G1a, vec![step(transactions, &both, text)]);
                } else if at + 1 == read.len() && writer.is_intermediate && writer.transaction != reader {
                    let text = format!("{says}, which {by} wrote and then replaced");
                    examples.add(Anomaly::G1b, vec![step(transactions, &both, text)]);
                }
            }
        }
    }
}

fn duplicates(transactions: &Transactions<'_>, observed: &Observed<'_>, examples: &mut Examples) {
    for (key, reads) in observed.reads.iter().enumerate() {
        let key = &transactions.keys[key];
        for &(reader, read) in reads {
            let mut seen = Set::new();
            let Some(&twice) = read.iter().find(|&&element| !seen.insert(element)) else { continue };
            let value = key.elements.value(twice);
            let line = line_of(transactions, reader);
            let text =
                format!("{line} reads {} of key {}: {value} is there twice", elements(key, read), key.name);
            examples.add(Anomaly::DuplicateElements, vec![step(transactions, &[reader], text)]);
        }
    }
}

fn contradictions(transactions: &Transactions<'_>, observed: &Observed<'_>, examples: &mut Examples) {
    for one in &observed.contradictions {
        let key = &transactions.keys[one.key as usize];
        let show = |list: &[u32]| match transactions.kind {
            Kind::ListAppend => elements(key, list),
            Kind::Register => {
                list.last().map_or("null".to_string(), |&one| key.elements.value(one).to_string())
            }
        };
        let text = format!(
            "{} reads {} of key {}, but had {} by its own reads and writes",
            line_of(transactions, one.transaction),
            show(one.read),
            key.name,
            show(&one.expected)
        );
        examples.add(Anomaly::Internal, vec![step(transactions, &[one.transaction], text)]);
    }
}

fn incompatible(
    transactions: &Transactions<'_>,
    observed: &Observed<'_>,
    orders: &[Order],
    examples: &mut Examples,
) {
    for (index, order) in orders.iter().enumerate() {
        let Some((one, other)) = order.conflict else { continue };
        let key = &transactions.keys[index];
        let steps = [one, other].map(|read| {
            let (reader, read) = observed.reads[index][read];
            let line = line_of(transactions, reader);
            let text = format!("{line} reads {} of key {}", elements(key, read), key.name);
            step(transactions, &[reader], text)
        });
        examples.add(Anomaly::IncompatibleOrder, steps.to_vec());
    }
}

fn lost_updates(transactions: &Transactions<'_>, observed: &Observed<'_>, examples: &mut Examples) {
    let mut writers: Map<(u32, &[u32]), Set<u32>> = Map::new();
    for read in observed.external.iter().filter(|read| read.is_overwritten) {
        writers.entry((read.key, read.version)).or_default().insert(read.transaction);
    }
    for ((key, version), writers) in writers {
        if writers.len() < 2 {
            continue;
        }
        let key = &transactions.keys[key as usize];
        let value = match version.last() {
            Some(&element) => key.elements.value(element).to_string(),
            None => "nothing".to_string(),
        };
        let steps = writers.iter().take(EXAMPLES).map(|&writer| {
            let line = line_of(transactions, writer);
            step(transactions, &[writer], format!("{line} reads {value} of key {} and writes it", key.name))
        });
        examples.add(Anomaly::LostUpdate, steps.collect());
    }
}
