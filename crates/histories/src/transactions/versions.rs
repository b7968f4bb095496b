//! Orders of versions, and the dependencies that follow from them.
//!
//! Lists show their history: a read is a prefix of each later version, so the longest read orders its elements. An element of a committed
//! transaction that no read shows comes after all that were read, since otherwise the longest read would have it.
//!
//! Registers show less. Null comes before all other versions, and a transaction that reads a version and then writes the key puts its own version after it.

use super::graph::{Edge, EdgeKind, Graph};
use super::observed::{ExternalRead, Observed};
use super::parse::{Action, Kind, Transactions};
use belljar_base::Map;

/// Number of edges up to which readers of the last (or first) version are joined with all that overwrite it.
const EDGES: usize = 4_000_000;

/// Order of a key's elements in a list.
#[derive(Default)]
pub(super) struct Order {
    /// Elements, the oldest first.
    pub elements: Vec<u32>,
    /// Two reads that no order satisfies.
    pub conflict: Option<(usize, usize)>,
}

/// Order of each key's elements by the reads of lists.
pub(super) fn orders(observed: &Observed<'_>) -> Vec<Order> {
    let order = |reads: &Vec<(u32, &[u32])>| {
        let longest = (0..reads.len()).max_by_key(|&read| (reads[read].1.len(), std::cmp::Reverse(read)));
        let Some(longest) = longest else { return Order::default() };
        let mut elements = reads[longest].1;
        let mut conflict = None;
        for (index, (_, read)) in reads.iter().enumerate() {
            let same = read.iter().zip(reads[longest].1).take_while(|(one, other)| one == other).count();
            if same < read.len() {
                conflict = conflict.or(Some((index, longest)));
                elements = &elements[..elements.len().min(same)];
            }
        }
        let mut seen = belljar_base::Set::new();
        let unique = elements.iter().take_while(|&&element| seen.insert(element)).count();
        Order { elements: elements[..unique].to_vec(), conflict }
    };
    observed.reads.iter().map(order).collect()
}

/// Adds the dependencies between transactions. Returns the keys of which not all were added, as they are too many.
pub(super) fn add_dependencies(
    graph: &mut Graph,
    transactions: &Transactions<'_>,
    observed: &Observed<'_>,
    orders: &[Order],
) -> Vec<u32> {
    let mut by_key: Vec<Vec<&ExternalRead<'_>>> = vec![Vec::new(); transactions.keys.len()];
    for read in &observed.external {
        by_key[read.key as usize].push(read);
    }
    let writes = final_writes(transactions, observed);
    let mut skipped = Vec::new();
    let mut room = EDGES;
    for key in 0..transactions.keys.len() {
        let mut dependencies = Dependencies {
            graph,
            transactions,
            observed,
            key: key as u32,
            reads: &by_key[key],
            writes: &writes[key],
            room: &mut room,
        };
        dependencies.add_reads();
        let complete = match transactions.kind {
            Kind::ListAppend => dependencies.add_list(&orders[key]),
            Kind::Register => dependencies.add_register(),
        };
        if !complete {
            skipped.push(key as u32);
        }
    }
    skipped
}

/// Writes of committed transactions that later writes of the same transaction do not replace, by key: transaction and element. For lists all
/// appends.
fn final_writes(transactions: &Transactions<'_>, observed: &Observed<'_>) -> Vec<Vec<(u32, u32)>> {
    let mut writes = vec![Vec::new(); transactions.keys.len()];
    for (index, transaction) in transactions.all.iter().enumerate() {
        for micro in &transaction.micros {
            let Action::Write(element) = micro.action else { continue };
            let writer = transactions.keys[micro.key as usize].writers[element as usize];
            let is_intermediate = writer.is_some_and(|writer| writer.is_intermediate);
            if observed.committed[index] && (transactions.kind == Kind::ListAppend || !is_intermediate) {
                writes[micro.key as usize].push((index as u32, element));
            }
        }
    }
    writes
}

/// Dependencies of one key.
struct Dependencies<'a> {
    graph: &'a mut Graph,
    transactions: &'a Transactions<'a>,
    observed: &'a Observed<'a>,
    key: u32,
    reads: &'a [&'a ExternalRead<'a>],
    writes: &'a [(u32, u32)],
    room: &'a mut usize,
}

impl Dependencies<'_> {
    fn edge(&mut self, from: u32, to: u32, kind: EdgeKind, before: Option<u32>, after: Option<u32>) {
        self.graph.add(from, Edge { to, kind, key: self.key, before, after });
    }

    /// Committed transaction that wrote an element.
    fn writer(&self, element: u32) -> Option<u32> {
        let writer = self.transactions.keys[self.key as usize].writers[element as usize]?.transaction;
        self.observed.committed[writer as usize].then_some(writer)
    }

    /// Adds `wr` from the writer of each version to its readers.
    fn add_reads(&mut self) {
        let reads = self.reads;
        for read in reads {
            let last = read.version.iter().rev().find_map(|&element| Some((element, self.writer(element)?)));
            if let Some((element, writer)) = last {
                self.edge(writer, read.transaction, EdgeKind::Wr, Some(element), None);
            }
        }
    }

    /// Adds `ww` and `rw` edges of a list. Returns false if edges were left out for lack of room.
    fn add_list(&mut self, order: &Order) -> bool {
        // The next committed element at or after each position of the order.
        let mut next: Vec<Option<(u32, u32)>> = vec![None; order.elements.len() + 1];
        for (at, &element) in order.elements.iter().enumerate().rev() {
            next[at] = self.writer(element).map(|writer| (element, writer)).or(next[at + 1]);
        }
        let mut last: Option<(u32, u32)> = None;
        for &element in &order.elements {
            let Some(writer) = self.writer(element) else { continue };
            if let Some((before, from)) = last {
                self.edge(from, writer, EdgeKind::Ww, Some(before), Some(element));
            }
            last = Some((element, writer));
        }
        let reads = self.reads;
        for read in reads {
            if order.elements.starts_with(read.version)
                && let Some((element, writer)) = next[read.version.len()]
            {
                let before = read.version.last().copied();
                self.edge(read.transaction, writer, EdgeKind::Rw, before, Some(element));
            }
        }
        if order.conflict.is_some() {
            return true;
        }
        let mut in_order = vec![false; self.transactions.keys[self.key as usize].writers.len()];
        for &element in &order.elements {
            in_order[element as usize] = true;
        }
        let unseen = self.writes.iter().copied().filter(|&(_, element)| !in_order[element as usize]);
        let unseen: Vec<(u32, u32)> = unseen.collect();
        if let Some((before, from)) = last {
            for &(writer, element) in &unseen {
                self.edge(from, writer, EdgeKind::Ww, Some(before), Some(element));
            }
        }
        let of_all = |read: &&&ExternalRead<'_>| read.version == order.elements;
        let readers: Vec<&ExternalRead<'_>> = reads.iter().filter(of_all).copied().collect();
        self.join(&readers, &unseen)
    }

    /// Adds `ww` and `rw` edges of a register. Returns false if edges were left out for lack of room.
    fn add_register(&mut self) -> bool {
        let written: Map<u32, u32> = self.writes.iter().copied().collect();
        // Versions that are known to follow each version.
        let mut after: Map<u32, Vec<(u32, u32)>> = Map::new();
        let mut has_predecessor = belljar_base::Set::new();
        let reads = self.reads;
        for read in reads {
            if let (&[version], Some(&element)) = (read.version, written.get(&read.transaction)) {
                after.entry(version).or_default().push((read.transaction, element));
                has_predecessor.insert(read.transaction);
                let is_final = written.get(&self.writer(version).unwrap_or(u32::MAX)) == Some(&version);
                if let Some(writer) = self.writer(version).filter(|_| is_final) {
                    self.edge(writer, read.transaction, EdgeKind::Ww, Some(version), Some(element));
                }
            }
        }
        for read in reads {
            let &[version] = read.version else { continue };
            for &(writer, element) in after.get(&version).into_iter().flatten() {
                self.edge(read.transaction, writer, EdgeKind::Rw, Some(version), Some(element));
            }
        }
        let first = |read: &&&ExternalRead<'_>| read.version.is_empty();
        let readers: Vec<&ExternalRead<'_>> = reads.iter().filter(first).copied().collect();
        let followers = self.writes.iter().copied().filter(|(writer, _)| !has_predecessor.contains(writer));
        let followers: Vec<(u32, u32)> = followers.collect();
        self.join(&readers, &followers)
    }

    /// Adds `rw` edges from all readers of a version to all writers that overwrite it. Returns false, and adds none, if
    /// there is no room for so many edges.
    fn join(&mut self, readers: &[&ExternalRead<'_>], writers: &[(u32, u32)]) -> bool {
        let edges = readers.len().saturating_mul(writers.len());
        if edges > *self.room {
            return false;
        }
        *self.room -= edges;
        for read in readers {
            for &(writer, element) in writers {
                let before = read.version.last().copied();
                self.edge(read.transaction, writer, EdgeKind::Rw, before, Some(element));
            }
        }
        true
    }
}
