//! Shrinking: the smallest part of a history that is not linearizable.
//!
//! The prefixes of a linearizable history are linearizable, so the first completion at which a history fails is found by bisection.
//! From that prefix operations are removed for as long as it fails, in chunks of halving size (Zeller's ddmin). Removing a write would
//! make each read of its value impossible, which explains nothing; so an operation is removed together with those that it supports
//! ([`crate::Model::supports`]).

use super::model::Machine;
use super::search::{Found, Interval, Limits, search};
use crate::sort;

/// Number of operations up to which a prefix is shrunk: the relation of support takes the square of it.
const SHRUNK: usize = 8_000;
/// Work that shrinking may take, in operations and configurations.
const WORK: u64 = 3_000_000;

/// Shortest prefix in time that is not linearizable; operations that complete after it are of unknown outcome in it.
pub(super) fn failing_prefix(
    machine: &mut dyn Machine,
    intervals: &[Interval],
    limits: Limits,
) -> Vec<Interval> {
    let returns = intervals.iter().filter_map(|interval| Some((interval.returned?, 0)));
    let mut returns: Vec<(usize, usize)> = returns.collect();
    sort::pairs(&mut returns);
    let (mut low, mut high) = (0, returns.len().saturating_sub(1));
    while low < high {
        let middle = (low + high) / 2;
        machine.forget();
        match search(machine, &until(intervals, returns[middle].0), limits, &mut 0) {
            Found::Stuck(_) => high = middle,
            Found::Order => low = middle + 1,
            Found::Unknown => break,
        }
    }
    returns.get(high).map_or_else(|| intervals.to_vec(), |&(line, _)| until(intervals, line))
}

/// Intervals up to a line.
fn until(intervals: &[Interval], line: usize) -> Vec<Interval> {
    let known = |interval: &Interval| Interval {
        returned: interval.returned.filter(|&returned| returned <= line),
        ..*interval
    };
    intervals.iter().filter(|interval| interval.invoked < line).map(known).collect()
}

/// Smallest part of a failing prefix that was found, and true if no single operation can be removed from it.
pub(super) fn window(machine: &mut dyn Machine, prefix: &[Interval]) -> (Vec<Interval>, bool) {
    if prefix.len() > SHRUNK {
        return (prefix.to_vec(), false);
    }
    let mut shrinker = Shrinker { observers: observers(machine, prefix), machine, prefix, work: 0 };
    let mut kept: Vec<usize> = (0..prefix.len()).collect();
    let mut size = kept.len().div_ceil(2).max(1);
    loop {
        let before = kept.len();
        let mut at = 0;
        while at < kept.len() {
            let chunk = &kept[at..(at + size).min(kept.len())];
            let left = shrinker.without(&kept, chunk);
            if shrinker.work > WORK {
                return (shrinker.intervals(&kept), false);
            }
            if left.len() < kept.len() && shrinker.fails(&left) {
                kept = left;
            } else {
                at += size;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if kept.len() == before {
            return (shrinker.intervals(&kept), true);
        }
    }
}

/// Operations that each operation of the prefix supports.
fn observers(machine: &dyn Machine, prefix: &[Interval]) -> Vec<Vec<u32>> {
    let of = |provider: &Interval| {
        let supported = |&observer: &u32| {
            let other = &prefix[observer as usize];
            other.call != provider.call && machine.supports(provider.call, other.call)
        };
        (0..prefix.len() as u32).filter(supported).collect()
    };
    prefix.iter().map(of).collect()
}

struct Shrinker<'a> {
    machine: &'a mut dyn Machine,
    prefix: &'a [Interval],
    observers: Vec<Vec<u32>>,
    work: u64,
}

impl Shrinker<'_> {
    /// Operations of `kept` without a chunk and all that it supports.
    fn without(&mut self, kept: &[usize], chunk: &[usize]) -> Vec<usize> {
        let mut gone = vec![false; self.prefix.len()];
        let mut waiting = chunk.to_vec();
        while let Some(one) = waiting.pop() {
            if !std::mem::replace(&mut gone[one], true) {
                self.work += self.observers[one].len() as u64 / 8 + 1;
                waiting.extend(self.observers[one].iter().map(|&other| other as usize));
            }
        }
        kept.iter().copied().filter(|&one| !gone[one]).collect()
    }

    /// True if these operations alone are not linearizable.
    fn fails(&mut self, kept: &[usize]) -> bool {
        self.machine.forget();
        let limits = Limits { configurations: 100_000, bytes: 256 << 20 };
        let mut entered = 0;
        let intervals = self.intervals(kept);
        let found = search(self.machine, &intervals, limits, &mut entered);
        self.work += entered + kept.len() as u64;
        matches!(found, Found::Stuck(_))
    }

    fn intervals(&self, kept: &[usize]) -> Vec<Interval> {
        kept.iter().map(|&one| self.prefix[one]).collect()
    }
}
