//! Graph of dependencies between transactions, and its strongly connected components.

use super::parse::Transactions;
use crate::{Outcome, sort};
use belljar_base::Map;

/// Kind of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EdgeKind {
    /// The second overwrites what the first wrote.
    Ww,
    /// The second reads what the first wrote.
    Wr,
    /// The second overwrites what the first read.
    Rw,
    /// Both are of one process, in this order.
    Process,
    /// The first completed before the second was invoked.
    Realtime,
}

impl EdgeKind {
    /// Bit of the kind in a set of kinds.
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Edge to a transaction, with the versions of a key that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub to: u32,
    pub kind: EdgeKind,
    /// Key of a dependency.
    pub key: u32,
    /// Element that the first transaction wrote (`ww`, `wr`) or read as the last (`rw`); none for the initial version.
    pub before: Option<u32>,
    /// Element that the second transaction wrote (`ww`, `rw`).
    pub after: Option<u32>,
}

/// Edges of each transaction.
pub(super) struct Graph {
    pub edges: Vec<Vec<Edge>>,
}

impl Graph {
    /// Graph without edges.
    pub fn new(transactions: usize) -> Graph {
        Graph { edges: vec![Vec::new(); transactions] }
    }

    /// Adds an edge, unless it leads from a transaction to itself.
    pub fn add(&mut self, from: u32, edge: Edge) {
        if from != edge.to {
            self.edges[from as usize].push(edge);
        }
    }

    fn add_order(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.add(from, Edge { to, kind, key: 0, before: None, after: None });
    }

    /// Sorts the edges and keeps one of each kind between two transactions.
    pub fn finish(&mut self) {
        for edges in &mut self.edges {
            edges.sort_unstable();
            edges.dedup_by_key(|edge| (edge.to, edge.kind));
        }
    }

    /// Adds the edges of processes and of real time, so many that all others follow from them.
    ///
    /// A transaction follows those that have completed before its invocation. Of these, the ones suffice that no other completed one
    /// follows: the frontier, which a transaction joins and thins out when it completes.
    pub fn add_orders(&mut self, transactions: &Transactions<'_>) {
        let mut events: Vec<(usize, usize)> = Vec::new();
        for (index, transaction) in transactions.all.iter().enumerate() {
            if transaction.outcome != Outcome::Fail {
                let operation = &transactions.history.operations[transaction.operation];
                events.push((operation.invoked, index));
                events.extend(operation.returned().map(|line| (line, index)));
            }
        }
        sort::pairs(&mut events);
        let mut frontier: Vec<u32> = Vec::new();
        let mut last_of_process = Map::new();
        let mut direct: Map<u32, Vec<u32>> = Map::new();
        for (line, transaction) in events {
            let transaction = transaction as u32;
            let operation = transactions.operation(transaction);
            let process = &operation.process;
            if line != operation.invoked {
                let followed = direct.remove(&transaction).unwrap_or_default();
                frontier.retain(|one| followed.binary_search(one).is_err());
                let at = frontier.partition_point(|&one| one < transaction);
                frontier.insert(at, transaction);
                last_of_process.insert(process, transaction);
                continue;
            }
            if let Some(&last) = last_of_process.get(process) {
                self.add_order(last, transaction, EdgeKind::Process);
            }
            for &one in &frontier {
                self.add_order(one, transaction, EdgeKind::Realtime);
            }
            if operation.returned().is_some() {
                direct.insert(transaction, frontier.clone());
            }
        }
    }

    /// Strongly connected component of each transaction over edges of these kinds, for those that are on a cycle. Components are numbered
    /// from 0.
    pub fn components(&self, kinds: u8) -> Vec<Option<u32>> {
        Tarjan::new(self, kinds).run()
    }
}

const UNSEEN: u32 = u32::MAX;

/// Tarjan's algorithm, with a stack of its own in place of recursion.
struct Tarjan<'a> {
    graph: &'a Graph,
    kinds: u8,
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    next: u32,
    components: Vec<Option<u32>>,
    found: u32,
}

impl<'a> Tarjan<'a> {
    fn new(graph: &'a Graph, kinds: u8) -> Tarjan<'a> {
        let size = graph.edges.len();
        Tarjan {
            graph,
            kinds,
            index: vec![UNSEEN; size],
            low: vec![0; size],
            on_stack: vec![false; size],
            stack: Vec::new(),
            next: 0,
            components: vec![None; size],
            found: 0,
        }
    }

    fn run(mut self) -> Vec<Option<u32>> {
        for root in 0..self.graph.edges.len() as u32 {
            if self.index[root as usize] == UNSEEN {
                self.visit(root);
            }
        }
        self.components
    }

    fn visit(&mut self, root: u32) {
        // Each node with the position of the edge that is looked at next.
        let mut calls: Vec<(u32, usize)> = Vec::new();
        self.open(root);
        calls.push((root, 0));
        while let Some((node, at)) = calls.last_mut() {
            let node = *node as usize;
            if let Some(edge) = self.graph.edges[node].get(*at) {
                *at += 1;
                let to = edge.to as usize;
                if edge.kind.bit() & self.kinds == 0 {
                    continue;
                }
                if self.index[to] == UNSEEN {
                    self.open(edge.to);
                    calls.push((edge.to, 0));
                } else if self.on_stack[to] {
                    self.low[node] = self.low[node].min(self.index[to]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(parent, _)) = calls.last() {
                self.low[parent as usize] = self.low[parent as usize].min(self.low[node]);
            }
            self.close(node);
        }
    }

    fn open(&mut self, node: u32) {
        self.index[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node as usize] = true;
    }

    /// Takes the component off the stack if the node is its root.
    fn close(&mut self, node: usize) {
        if self.low[node] != self.index[node] {
            return;
        }
        let is_single = self.stack.last() == Some(&(node as u32));
        while let Some(member) = self.stack.pop() {
            self.on_stack[member as usize] = false;
            if !is_single {
                self.components[member as usize] = Some(self.found);
            }
            if member as usize == node {
                break;
            }
        }
        self.found += u32::from(!is_single);
    }
}
