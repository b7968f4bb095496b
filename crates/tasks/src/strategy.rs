//! Strategies of the [scheduler](crate::scheduler): which thread runs next, for how many calls, and which waiter is
//! woken.

use crate::priorities::{Preemption, PriorityStrategy};
use belljar_base::Stream;
use belljar_objects::ids::ThreadKey;

/// Strategy of a scheduler. Candidates are given by their indices, in order of arrival.
pub trait Strategy {
    /// Chooses the thread to run next; `None` only without candidates. `key` gives the thread of a candidate.
    fn choose_thread(
        &mut self,
        candidates: impl Iterator<Item = usize>,
        key: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize>;
    /// Number of calls in the slice of a new turn, at least one.
    fn slice(&mut self) -> u32;
    /// Chooses the waiter to wake if not all of them are woken; `None` only without candidates.
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize>;
    /// Orders waiters that are woken together.
    fn order_waiters<T>(&mut self, waiters: &mut [T]);
}

/// First in, first out, with slices of equal length.
#[derive(Debug, Default)]
pub struct FifoStrategy;

impl FifoStrategy {
    /// System calls in a slice.
    pub const SLICE: u32 = 200;
}

impl Strategy for FifoStrategy {
    #[inline]
    fn choose_thread(
        &mut self,
        mut candidates: impl Iterator<Item = usize>,
        _: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize> {
        candidates.next()
    }
    #[inline]
    fn slice(&mut self) -> u32 {
        FifoStrategy::SLICE
    }
    #[inline]
    fn choose_waiter(&mut self, mut candidates: impl Iterator<Item = usize>) -> Option<usize> {
        candidates.next()
    }
    #[inline]
    fn order_waiters<T>(&mut self, _: &mut [T]) {}
}

/// Random choices. A slice is as likely to be of one call as of two or three, of four to seven, and so on: races
/// are between calls that lie close together as well as between those that lie far apart.
#[derive(Debug)]
pub struct RandomStrategy(Stream);

impl RandomStrategy {
    /// Number of octaves of the length of a slice: from 1, from 2, from 4, ... from 64 calls.
    const OCTAVES: u64 = 7;
    /// Purposes of the strategy's stream: the next thread, the length of a slice, waiters.
    pub const PURPOSES: [&str; 3] = ["threads", "slices", "waiters"];
    const THREADS: usize = 0;
    const SLICES: usize = 1;
    const WAITERS: usize = 2;

    /// Creates the strategy from the host's stream, made for its [`PURPOSES`](Self::PURPOSES).
    pub fn new(stream: Stream) -> RandomStrategy {
        RandomStrategy(stream)
    }

    fn choose(&mut self, purpose: usize, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        let candidates: Vec<usize> = candidates.collect();
        match candidates[..] {
            // No draw where there is no choice.
            [] => None,
            [only] => Some(only),
            _ => {
                let count = candidates.len() as u64;
                Some(candidates[self.0.choose(purpose, 0, count, |random| random.below(count)) as usize])
            }
        }
    }
}

impl Strategy for RandomStrategy {
    fn choose_thread(
        &mut self,
        candidates: impl Iterator<Item = usize>,
        _: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize> {
        self.choose(Self::THREADS, candidates)
    }
    fn slice(&mut self) -> u32 {
        let usual = u64::from(FifoStrategy::SLICE);
        let calls = self.0.choose(Self::SLICES, usual, usual + 1, |random| {
            let shortest = 1 << random.below(Self::OCTAVES);
            shortest + random.below(shortest)
        });
        // A forced slice of no call would be none.
        calls.max(1) as u32
    }
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        self.choose(Self::WAITERS, candidates)
    }
    fn order_waiters<T>(&mut self, waiters: &mut [T]) {
        for last in (1..waiters.len()).rev() {
            let (usual, count) = (last as u64, last as u64 + 1);
            let other = self.0.choose(Self::WAITERS, usual, count, |random| random.below(count));
            waiters.swap(last, other as usize);
        }
    }
}

/// Order of a host's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First in, first out.
    #[default]
    Fifo,
    /// Random.
    Random,
    /// By drawn priorities, with preemption.
    Priorities(Preemption),
}

/// Strategy of a host: first in, first out, or drawn.
#[derive(Debug, Default)]
pub struct HostStrategy(Option<Box<Drawn>>);

/// Strategy that draws.
#[derive(Debug)]
enum Drawn {
    Random(RandomStrategy),
    Priorities(PriorityStrategy),
}

impl HostStrategy {
    /// Strategy for an order; `seed` gives the host's stream for the purposes of a strategy.
    pub fn new(order: Order, stream: impl FnOnce(&[&str]) -> Stream) -> HostStrategy {
        let drawn = match order {
            Order::Fifo => return HostStrategy::default(),
            Order::Random => Drawn::Random(RandomStrategy::new(stream(&RandomStrategy::PURPOSES))),
            Order::Priorities(preemption) => {
                let stream = stream(&PriorityStrategy::PURPOSES);
                Drawn::Priorities(PriorityStrategy::new(stream, preemption))
            }
        };
        HostStrategy(Some(Box::new(drawn)))
    }

    /// The priorities, if there are some.
    pub(crate) fn priorities(&mut self) -> Option<&mut PriorityStrategy> {
        match self.0.as_deref_mut() {
            Some(Drawn::Priorities(priorities)) => Some(priorities),
            _ => None,
        }
    }
}

impl Strategy for HostStrategy {
    #[inline]
    fn choose_thread(
        &mut self,
        candidates: impl Iterator<Item = usize>,
        key: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize> {
        match self.0.as_deref_mut() {
            None => FifoStrategy.choose_thread(candidates, key),
            Some(Drawn::Random(random)) => random.choose_thread(candidates, key),
            Some(Drawn::Priorities(priorities)) => priorities.choose_thread(candidates, key),
        }
    }
    #[inline]
    fn slice(&mut self) -> u32 {
        match self.0.as_deref_mut() {
            None => FifoStrategy.slice(),
            Some(Drawn::Random(random)) => random.slice(),
            Some(Drawn::Priorities(priorities)) => priorities.slice(),
        }
    }
    #[inline]
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        match self.0.as_deref_mut() {
            None => FifoStrategy.choose_waiter(candidates),
            Some(Drawn::Random(random)) => random.choose_waiter(candidates),
            Some(Drawn::Priorities(priorities)) => priorities.choose_waiter(candidates),
        }
    }
    #[inline]
    fn order_waiters<T>(&mut self, waiters: &mut [T]) {
        match self.0.as_deref_mut() {
            None => {}
            Some(Drawn::Random(random)) => random.order_waiters(waiters),
            Some(Drawn::Priorities(priorities)) => priorities.order_waiters(waiters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn random(seed: u64) -> HostStrategy {
        HostStrategy::new(Order::Random, |purposes| Seed(seed).stream_for(&["test"], purposes))
    }

    #[test]
    fn first_in_first_out_is_the_default() {
        let mut strategy = HostStrategy::default();
        assert_eq!(
            (strategy.choose_thread(3..9, ThreadKey), strategy.slice()),
            (Some(3), FifoStrategy::SLICE)
        );
        let mut waiters = [1, 2, 3];
        strategy.order_waiters(&mut waiters);
        assert_eq!((strategy.choose_waiter(0..0), waiters), (None, [1, 2, 3]));
    }

    #[test]
    fn every_candidate_is_chosen_and_every_order_occurs() {
        let mut strategy = random(1);
        let mut chosen: Vec<usize> =
            (0..100).filter_map(|_| strategy.choose_thread(3..6, ThreadKey)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, [3, 4, 5]);
        let mut orders: Vec<[u8; 3]> = Vec::new();
        for _ in 0..100 {
            let mut waiters = [1, 2, 3];
            strategy.order_waiters(&mut waiters);
            orders.push(waiters);
        }
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn slices_are_short_and_long() {
        let mut strategy = random(1);
        let slices: Vec<u32> = (0..1_000).map(|_| strategy.slice()).collect();
        assert!(slices.iter().all(|slice| (1..128).contains(slice)));
        let single = slices.iter().filter(|slice| **slice == 1).count();
        let long = slices.iter().filter(|slice| **slice >= 64).count();
        assert!((100..200).contains(&single) && (100..200).contains(&long), "{single} {long}");
    }

    #[test]
    fn a_seed_gives_the_same_choices() {
        let draws = |seed| {
            let mut strategy = random(seed);
            (0..50).map(|_| (strategy.choose_thread(0..9, ThreadKey), strategy.slice())).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
