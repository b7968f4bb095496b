//! Search for a linearization.
//!
//! Problem: find an order of the operations that the model accepts and that respects real time: an operation that completed before
//! another was invoked comes first. Operations of unknown outcome may stand anywhere after their invocation or be left out.
//!
//! Algorithm: Wing and Gong's, with Lowe's memoization ("Testing for linearizability", 2017). Invocations and completions form a linked list
//! in real time. An operation whose invocation stands before the first completion of the list can be next. If the model accepts it, both of its
//! entries are lifted out of the list; at a completion all of whose candidates were refused, the last operation is unlifted and the one after it tried.
//! A configuration, which is the set of lifted operations and the state, is not entered twice. An operation of unknown outcome has no entry
//! for its completion; once no completion is left, the order is found.
//!
//! Three reductions keep the order of search but not its size. A read that the state accepts is lifted at once, and no alternative to it is tried: in any
//! linearization it can be moved to this point. Of equal operations of unknown outcome only the one invoked first is a candidate. Sets of
//! operations are kept as the length of the prefix, in the order of completions, that is complete, and a list of those beyond it,
//! which is as short as the history has concurrent operations.
//!
//! Limits: the problem is NP-complete. The search ends without an answer once it has entered as many configurations, or used as much memory, as [`Limits`] allow.

use super::model::Machine;
use crate::sort;
use belljar_base::{Map, Set};

/// Bounds of a search. The memory that a checker needs beside them is proportional to the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of configurations that the check of one object enters.
    pub configurations: u64,
    /// Memory for configurations and states, in bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { configurations: 1_000_000, bytes: 1 << 30 }
    }
}

/// Operation of an object as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// Number of the call in the machine.
    pub call: u32,
    /// Line of the invocation.
    pub invoked: usize,
    /// Line of the completion, or none if the outcome is unknown.
    pub returned: Option<usize>,
}

/// Result of a search.
pub(super) enum Found {
    /// There is a linearization.
    Order,
    /// There is no linearization.
    Stuck(Stuck),
    /// A limit was reached.
    Unknown,
}

/// Longest order that was found where none is complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Stuck {
    /// Calls in their order.
    pub order: Vec<u32>,
    /// State after them.
    pub state: u32,
    /// Calls that could be next by real time, all of which the state refuses or lead nowhere.
    pub candidates: Vec<u32>,
}

/// Searches for a linearization of the intervals, which are ordered by invocation. Counts configurations in `entered`.
pub(super) fn search(
    machine: &mut dyn Machine,
    intervals: &[Interval],
    limits: Limits,
    entered: &mut u64,
) -> Found {
    let mut search = Search::new(machine, intervals);
    search.take_reads();
    let mut at = search.list.next[HEAD];
    loop {
        if at == HEAD {
            return Found::Order;
        }
        if let Some(operation) = search.list.invocation(at) {
            if search.enter(operation) {
                *entered += 1;
                if *entered > limits.configurations || search.bytes + search.machine.bytes() > limits.bytes {
                    return Found::Unknown;
                }
                search.take_reads();
                at = search.list.next[HEAD];
            } else {
                at = search.list.next[at];
            }
            continue;
        }
        search.note_longest();
        match search.leave() {
            Some(operation) => at = search.list.next[List::entry(operation)],
            None => return Found::Stuck(search.longest),
        }
    }
}

/// Set of lifted operations, as in [`Taken`], with the state between its parts.
type Configuration = (u32, u32, Box<[u32]>);

/// Number of sets of configurations.
const SETS: usize = 1 << 10;

/// Set that a configuration is in, by FNV-1a over its words.
fn set_of((prefix, state, beyond): &Configuration) -> usize {
    let words = [*prefix, *state].into_iter().chain(beyond.iter().copied());
    let hash = words.fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| {
        (hash ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 32) as usize % SETS
}

/// Operation that has been lifted.
struct Lifted {
    operation: usize,
    before: u32,
    /// True if no alternative to it is tried.
    is_forced: bool,
}

struct Search<'a> {
    machine: &'a mut dyn Machine,
    intervals: &'a [Interval],
    list: List,
    state: u32,
    lifted: Vec<Lifted>,
    taken: Taken,
    /// Configurations, in sets that a hash chooses: a large set is slow.
    entered: Vec<Set<Configuration>>,
    bytes: usize,
    /// Equal operation of unknown outcome that was invoked before.
    twin: Vec<Option<usize>>,
    longest: Stuck,
}

impl<'a> Search<'a> {
    fn new(machine: &'a mut dyn Machine, intervals: &'a [Interval]) -> Search<'a> {
        let mut twin = vec![None; intervals.len()];
        let mut last: Map<u32, usize> = Map::new();
        for (operation, interval) in intervals.iter().enumerate() {
            if interval.returned.is_none() {
                twin[operation] = last.insert(machine.class(interval.call), operation);
            }
        }
        Search {
            machine,
            intervals,
            list: List::new(intervals),
            state: 0,
            lifted: Vec::new(),
            taken: Taken::new(intervals),
            entered: vec![Set::new(); SETS],
            bytes: 0,
            twin,
            longest: Stuck::default(),
        }
    }

    /// Lifts an operation if the state accepts it and the configuration is new. Returns true if it was lifted.
    fn enter(&mut self, operation: usize) -> bool {
        if self.twin[operation].is_some_and(|twin| !self.taken.contains(twin)) {
            return false;
        }
        let Some(state) = self.machine.step(self.state, self.intervals[operation].call) else {
            return false;
        };
        self.taken.insert(operation);
        let beyond: Box<[u32]> = self.taken.beyond.as_slice().into();
        let bytes = size_of::<Configuration>() * 2 + beyond.len() * 4;
        let configuration = (self.taken.prefix as u32, state, beyond);
        if !self.entered[set_of(&configuration)].insert(configuration) {
            self.taken.remove(operation);
            return false;
        }
        self.bytes += bytes;
        self.list.lift(operation, self.intervals);
        self.lifted.push(Lifted { operation, before: self.state, is_forced: false });
        self.state = state;
        true
    }

    /// Lifts all reads that can be next and that the state accepts.
    fn take_reads(&mut self) {
        let mut at = self.list.next[HEAD];
        while let Some(operation) = self.list.invocation(at) {
            at = self.list.next[at];
            let call = self.intervals[operation].call;
            if self.machine.is_read(call) && self.machine.step(self.state, call).is_some() {
                self.list.lift(operation, self.intervals);
                self.taken.insert(operation);
                self.lifted.push(Lifted { operation, before: self.state, is_forced: true });
                // The completion that ended the candidates may have been the read's own.
                at = self.list.next[HEAD];
            }
        }
    }

    /// Unlifts the last operation to which there is an alternative, and those after it.
    fn leave(&mut self) -> Option<usize> {
        while let Some(last) = self.lifted.pop() {
            self.list.unlift(last.operation, self.intervals);
            self.taken.remove(last.operation);
            self.state = last.before;
            if !last.is_forced {
                return Some(last.operation);
            }
        }
        None
    }

    fn calls(&self) -> Vec<u32> {
        self.lifted.iter().map(|one| self.intervals[one.operation].call).collect()
    }

    fn note_longest(&mut self) {
        if self.lifted.len() <= self.longest.order.len() && !self.longest.candidates.is_empty() {
            return;
        }
        let mut candidates = Vec::new();
        let mut at = self.list.next[HEAD];
        while let Some(operation) = self.list.invocation(at) {
            candidates.push(self.intervals[operation].call);
            at = self.list.next[at];
        }
        self.longest = Stuck { order: self.calls(), state: self.state, candidates };
    }
}

/// Set of lifted operations.
struct Taken {
    /// Position of each operation in the order of completions; those of unknown outcome come last.
    rank: Vec<u32>,
    /// Number of operations, in that order, before the first that is not in the set.
    prefix: usize,
    /// Ranks of the operations in the set beyond the prefix, in ascending order.
    beyond: Vec<u32>,
}

impl Taken {
    fn new(intervals: &[Interval]) -> Taken {
        let line = |one: usize| intervals[one].returned.unwrap_or(usize::MAX);
        let order = sort::order(intervals.len(), &|one, other| line(one).cmp(&line(other)));
        let mut rank = vec![0; intervals.len()];
        for (position, operation) in order.into_iter().enumerate() {
            rank[operation] = position as u32;
        }
        Taken { rank, prefix: 0, beyond: Vec::new() }
    }

    fn contains(&self, operation: usize) -> bool {
        let rank = self.rank[operation];
        (rank as usize) < self.prefix || self.beyond.binary_search(&rank).is_ok()
    }

    fn insert(&mut self, operation: usize) {
        let rank = self.rank[operation];
        if rank as usize != self.prefix {
            let at = self.beyond.partition_point(|&other| other < rank);
            self.beyond.insert(at, rank);
            return;
        }
        self.prefix += 1;
        let more =
            self.beyond.iter().enumerate().take_while(|&(n, &other)| other as usize == self.prefix + n);
        let more = more.count();
        self.beyond.drain(..more);
        self.prefix += more;
    }

    fn remove(&mut self, operation: usize) {
        let rank = self.rank[operation];
        if rank as usize >= self.prefix {
            if let Ok(at) = self.beyond.binary_search(&rank) {
                self.beyond.remove(at);
            }
            return;
        }
        self.beyond.splice(0..0, rank + 1..self.prefix as u32);
        self.prefix = rank as usize;
    }
}

/// Sentinel of the list: before its first entry and after its last.
const HEAD: usize = 0;

/// Doubly linked list of invocations and completions in real time.
struct List {
    next: Vec<usize>,
    prev: Vec<usize>,
}

impl List {
    fn new(intervals: &[Interval]) -> List {
        let mut entries: Vec<(usize, usize)> = Vec::with_capacity(intervals.len() * 2);
        for (operation, interval) in intervals.iter().enumerate() {
            let entry = List::entry(operation);
            entries.push((interval.invoked, entry));
            entries.extend(interval.returned.map(|line| (line, entry + 1)));
        }
        sort::pairs(&mut entries);
        let mut list =
            List { next: vec![HEAD; intervals.len() * 2 + 1], prev: vec![HEAD; intervals.len() * 2 + 1] };
        let mut last = HEAD;
        for (_, entry) in entries {
            list.next[last] = entry;
            list.prev[entry] = last;
            last = entry;
        }
        list.next[last] = HEAD;
        list.prev[HEAD] = last;
        list
    }

    /// Entry of an operation's invocation; that of its completion is the one after it.
    fn entry(operation: usize) -> usize {
        operation * 2 + 1
    }

    /// Operation that is invoked at an entry, or none for a completion and the sentinel.
    fn invocation(&self, entry: usize) -> Option<usize> {
        (entry % 2 == 1).then_some(entry / 2)
    }

    fn lift(&mut self, operation: usize, intervals: &[Interval]) {
        let entry = List::entry(operation);
        self.unlink(entry);
        if intervals[operation].returned.is_some() {
            self.unlink(entry + 1);
        }
    }

    fn unlift(&mut self, operation: usize, intervals: &[Interval]) {
        let entry = List::entry(operation);
        if intervals[operation].returned.is_some() {
            self.link(entry + 1);
        }
        self.link(entry);
    }

    fn unlink(&mut self, entry: usize) {
        let (prev, next) = (self.prev[entry], self.next[entry]);
        self.next[prev] = next;
        self.prev[next] = prev;
    }

    fn link(&mut self, entry: usize) {
        let (prev, next) = (self.prev[entry], self.next[entry]);
        self.next[prev] = entry;
        self.prev[next] = entry;
    }
}
