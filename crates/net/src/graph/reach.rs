//! Reachability between nodes.

use super::{Graph, NodeIndex};
use belljar_base::{Map, SimDuration};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Graph {
    /// Finds two distinct nodes among those with `hosts[node] > 0` such that there is no path from the
    /// first to the second; `None` if all can reach each other. The time is linear in the size of the
    /// graph.
    pub fn unreachable(&self, hosts: &[u32]) -> Option<(NodeIndex, NodeIndex)> {
        let used: Vec<u32> = (0..self.nodes.len() as u32).filter(|n| hosts[*n as usize] > 0).collect();
        if !self.shortest_paths {
            return used.iter().find_map(|from| self.without_edge(*from, &used, hosts));
        }
        // All nodes reach each other if one reaches all and all reach it.
        let first = *used.first()?;
        let missed = |reached: Vec<bool>| used.iter().copied().find(|n| !reached[*n as usize]);
        let ahead = missed(self.reached(first, |node| self.arcs_of(node).iter().map(|a| a.target)));
        if let Some(to) = ahead {
            return Some((NodeIndex(first), NodeIndex(to)));
        }
        let mut sources = vec![Vec::new(); self.nodes.len()];
        for node in 0..self.nodes.len() as u32 {
            self.arcs_of(node).iter().for_each(|arc| sources[arc.target as usize].push(node));
        }
        let behind = missed(self.reached(first, |node| sources[node as usize].iter().copied()));
        behind.map(|from| (NodeIndex(from), NodeIndex(first)))
    }

    /// Nodes with hosts, other than `from`, that a packet from there can reach `within` a time, at minimum
    /// jitter. The time is that of visiting the nodes within this distance.
    pub fn hosts_within(&self, from: NodeIndex, hosts: &[u32], within: SimDuration) -> Vec<NodeIndex> {
        let mut best = Map::from([(from.0, 0u64)]);
        let mut heap = BinaryHeap::from([Reverse((0u64, from.0))]);
        while let Some(Reverse((floor, node))) = heap.pop() {
            if best[&node] < floor || (node != from.0 && !self.shortest_paths) {
                continue;
            }
            for arc in self.arcs_of(node) {
                let through = floor.saturating_add(self.edge(arc).floor());
                let known = best.get(&arc.target).copied().unwrap_or(u64::MAX);
                if through < known && through <= within.as_picos() {
                    best.insert(arc.target, through);
                    heap.push(Reverse((through, arc.target)));
                }
            }
        }
        let used = |node: &u32| *node != from.0 && hosts[*node as usize] > 0;
        best.into_keys().filter(used).map(NodeIndex).collect()
    }

    fn without_edge(&self, from: u32, used: &[u32], hosts: &[u32]) -> Option<(NodeIndex, NodeIndex)> {
        let known = |to: u32| to != from && hosts[to as usize] > 0;
        let count = self.arcs_of(from).iter().filter(|arc| known(arc.target)).count();
        if count == used.len() - 1 {
            return None;
        }
        let missing = |to: &u32| known(*to) && self.direct(NodeIndex(from), NodeIndex(*to)).is_none();
        used.iter().copied().find(missing).map(|to| (NodeIndex(from), NodeIndex(to)))
    }

    fn reached<I: Iterator<Item = u32>>(&self, from: u32, next: impl Fn(u32) -> I) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![from];
        reached[from as usize] = true;
        while let Some(node) = open.pop() {
            for target in next(node) {
                if !std::mem::replace(&mut reached[target as usize], true) {
                    open.push(target);
                }
            }
        }
        reached
    }
}
