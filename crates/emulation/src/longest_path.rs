//! Weighted diameter of an experiment's links.

use belljar_base::SimDuration;
use belljar_config::topology::Link;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Latency of the longest shortest path between two nodes over links (the weighted diameter): exact if the
/// links form a tree, a lower bound otherwise.
pub fn latency(links: &[Link], nodes: usize) -> SimDuration {
    let mut next = vec![Vec::new(); nodes];
    for link in links {
        for (from, to) in [(0, 1), (1, 0)] {
            let [from, to] = [from, to].map(|end: usize| &link.ends[end]);
            next[from.node.index()].push((to.node.index(), from.properties.latency));
        }
    }
    // The node that is furthest from any other is an end of a longest path.
    let mut longest = SimDuration::ZERO;
    let mut seen = vec![false; nodes];
    for first in 0..nodes {
        if seen[first] || next[first].is_empty() {
            continue;
        }
        let (end, _) = furthest(&next, first, &mut seen);
        longest = longest.max(furthest(&next, end, &mut seen).1);
    }
    longest
}

/// Returns the node furthest from `from`, and its distance. Marks all reachable nodes in `seen`.
fn furthest(next: &[Vec<(usize, SimDuration)>], from: usize, seen: &mut [bool]) -> (usize, SimDuration) {
    let mut known = vec![None; next.len()];
    let mut found = (from, SimDuration::ZERO);
    let mut queue = BinaryHeap::from([Reverse((SimDuration::ZERO, from))]);
    while let Some(Reverse((length, node))) = queue.pop() {
        if known[node].is_some() {
            continue;
        }
        (known[node], seen[node]) = (Some(length), true);
        if length > found.1 {
            found = (node, length);
        }
        queue.extend(next[node].iter().map(|(to, latency)| Reverse((length + *latency, *to))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_config::{Experiment, PathContext};

    fn longest_of(links: &str) -> SimDuration {
        let text = format!(
            "general: {{stop_time: 1 s}}\nswitches: [s, t]\nhosts: {{a: {{}}, b: {{}}, c: {{}}, d: {{}}, e: {{}}}}\nlinks: [{links}]\n"
        );
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        latency(&experiment.topology.links, experiment.hosts.len() + experiment.topology.devices.len())
    }

    #[test]
    fn the_longest_of_shortest_paths_counts() {
        let link = |a: &str, b: &str, ms: u32| format!("{{between: [{a}, {b}], latency: {ms} ms}}");
        let tree = [link("a", "s", 1), link("b", "s", 5), link("s", "t", 10), link("c", "t", 3)].join(", ");
        let beside = |ms| longest_of(&format!("{tree}, {}", link("d", "e", ms)));
        assert_eq!(beside(2), SimDuration::from_millis(18));
        assert_eq!(beside(40), SimDuration::from_millis(40));
    }
}
