//! Which nodes can be reached at all.

use super::{Graph, NodeIndex};

impl Graph {
    /// Two different nodes among those with `hosts[node] > 0` between which no path leads, from the
    /// first to the second; `None` if all reach each other. Takes time linear in the graph's size.
    pub fn unreachable(&self, hosts: &[u32]) -> Option<(NodeIndex, NodeIndex)> {
        let used: Vec<u32> = (0..self.nodes.len() as u32).filter(|n| hosts[*n as usize] > 0).collect();
        if !self.shortest_paths {
            return used.iter().find_map(|from| self.without_edge(*from, &used, hosts));
        }
        // If one node reaches all and all reach it, all reach each other.
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
