//! Partitions of a test, drawn from its seed and written as events.

use super::{Arguments, Nemesis};
use belljar_base::{Seed, Stream};
use std::fmt::Write;

/// Section of events: partitions from `start` on, which end with the time limit.
pub fn events(arguments: &Arguments, nodes: &[String], start: u32) -> String {
    if arguments.nemesis != Some(Nemesis::Partition) || nodes.len() < 2 {
        return String::new();
    }
    let mut random = Seed(arguments.seed).stream(&["maelstrom", "nemesis"]);
    let mean = arguments.nemesis_interval;
    let (mut at, end) = (f64::from(start), f64::from(start) + arguments.time_limit);
    let mut text = String::new();
    loop {
        at += span(&mut random, mean);
        let lasting = span(&mut random, mean).min(end - at);
        if lasting <= 0.0 {
            return text;
        }
        if text.is_empty() {
            text.push_str("\nevents:\n");
        }
        let (one, other) = split(&mut random, nodes);
        let _ = writeln!(text, "- {{at: {at:.3} s, partition: [[{one}], [{other}]], for: {lasting:.3} s}}");
        at += lasting;
    }
}

/// Time in seconds, uniform up to twice the mean, in milliseconds and never zero.
fn span(random: &mut Stream, mean: f64) -> f64 {
    (random.unit() * 2.0 * mean * 1000.0).ceil().max(1.0) / 1000.0
}

/// Nodes in two groups, none of which is empty.
fn split(random: &mut Stream, nodes: &[String]) -> (String, String) {
    let mut rest: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let size = 1 + random.below(nodes.len() as u64 - 1);
    let one: Vec<&str> = (0..size).map(|_| rest.remove(random.below(rest.len() as u64) as usize)).collect();
    (one.join(", "), rest.join(", "))
}
