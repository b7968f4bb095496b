//! Priorities with drawn points of preemption, as in PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with
//! Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).
//!
//! **Problem.** A race between two instructions shows only if the threads' order is right at a few points of their course. Preempting
//! at random misses a bug that needs two such points almost always.
//!
//! **Algorithm.** Each thread has a drawn priority, and the runnable thread with the highest one runs. At `points` drawn points the running
//! thread gets one of `points` low priorities instead. A bug that needs d orderings is found with a probability of at least
//! 1/(n k^(d-1)), for n threads and k possible points, by d - 1 points.
//!
//! **Insight.** k is what matters, and instructions are many. A point is therefore a pair: a *run* of a thread (its code from one call to its next,
//! counted on the host while another thread waits for the processor, as nothing else could run in other runs), and a number of instructions
//! in it. k is then the product of both bounds, and only the runs that have a point are single-stepped. After the last point nothing is
//! stepped any more.
//!
//! **Limits.** A thread that is chosen 200 times in a row while others wait would starve them: it gets the lowest priority of all. A run that ends, by a
//! call, before its point: its thread gets the point's priority after this call. An instruction that cannot be stepped without being noticed
//! (`pushf`) is a point itself.

use crate::strategy::{FifoStrategy, Strategy};
use belljar_base::{Map, Stream};
use belljar_objects::ids::ThreadKey;

/// Number and bounds of points of preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Number of points.
    pub points: u32,
    /// Number of runs in which points may lie.
    pub calls: u32,
    /// Number of instructions of a run within which its points lie.
    pub instructions: u32,
}

/// Point of preemption.
#[derive(Debug)]
struct Point {
    /// Number of the run.
    run: u64,
    /// Instructions of the run before the point.
    instructions: u32,
    /// Priority of the thread from then on.
    priority: i64,
}

/// Lowest initial priority: above those of all points.
const INITIAL: i64 = 1 << 32;
/// Number of initial priorities.
const PRIORITIES: u64 = 1 << 31;

/// Strategy of drawn priorities.
#[derive(Debug)]
pub struct PriorityStrategy {
    stream: Stream,
    priorities: Map<ThreadKey, i64>,
    points: Vec<Point>,
    /// Runs so far.
    runs: u64,
    /// Runs that were preempted and go on later: their number and the instructions so far.
    preempted: Map<ThreadKey, (u64, u32)>,
    /// Run of the present thread that has a point: its number.
    present: u64,
    /// Thread chosen last, and how many times in a row.
    chosen: (Option<ThreadKey>, u32),
    /// Priority of the next thread that would starve others.
    lowest: i64,
}

impl PriorityStrategy {
    /// Purposes of the strategy's stream: the next priority, the run and the instruction of a point, waiters.
    pub const PURPOSES: [&str; 4] = ["priorities", "preemptions", "instructions", "waiters"];
    const PRIORITY: usize = 0;
    const RUN: usize = 1;
    const INSTRUCTION: usize = 2;
    const WAITER: usize = 3;

    /// Creates the strategy from the host's stream, made for its [`PURPOSES`](Self::PURPOSES).
    pub fn new(mut stream: Stream, preemption: Preemption) -> PriorityStrategy {
        let Preemption { points, calls, instructions } = preemption;
        let (calls, instructions) = (u64::from(calls), u64::from(instructions));
        let mut point = |priority| {
            // The run after the last one stands for no point.
            let run = stream.choose(Self::RUN, calls, calls + 1, |random| random.below(calls));
            let at = stream.choose(Self::INSTRUCTION, 0, instructions, |random| random.below(instructions));
            Point { run, instructions: at as u32, priority }
        };
        let points = (1..=i64::from(points)).map(&mut point).filter(|point| point.run < calls).collect();
        PriorityStrategy {
            stream,
            priorities: Map::new(),
            points,
            runs: 0,
            preempted: Map::new(),
            present: 0,
            chosen: (None, 0),
            lowest: 0,
        }
    }

    /// True if there are points left.
    pub fn has_points(&self) -> bool {
        !self.points.is_empty()
    }

    /// Begins or continues a run of a thread; gives the number of instructions to the next point in it, if it has one.
    pub fn begin_run(&mut self, thread: ThreadKey) -> Option<u32> {
        let (run, done) = self.preempted.remove(&thread).unwrap_or_else(|| {
            self.runs += 1;
            (self.runs - 1, 0)
        });
        self.present = run;
        let of_run = self.points.iter().filter(|point| point.run == run);
        of_run.map(|point| point.instructions.saturating_sub(done)).min()
    }

    /// Lets a thread run without points. A run that was preempted has no more of them either.
    pub fn skip_run(&mut self, thread: ThreadKey) {
        self.preempted.remove(&thread);
    }

    /// Preempts the thread at the next point of its run.
    pub fn preempt(&mut self, thread: ThreadKey) {
        if let Some(point) = self.take_point() {
            self.priorities.insert(thread, point.priority);
            self.preempted.insert(thread, (point.run, point.instructions));
        }
    }

    /// Ends a run before its points.
    pub fn end_run(&mut self, thread: ThreadKey) {
        while let Some(point) = self.take_point() {
            self.priorities.insert(thread, point.priority);
        }
    }

    /// Removes a thread that has ended.
    pub fn forget(&mut self, thread: ThreadKey) {
        self.priorities.remove(&thread);
        self.preempted.remove(&thread);
        if self.chosen.0 == Some(thread) {
            self.chosen = (None, 0);
        }
    }

    fn take_point(&mut self) -> Option<Point> {
        let of_run = self.points.iter().enumerate().filter(|(_, point)| point.run == self.present);
        let (at, _) = of_run.min_by_key(|(_, point)| point.instructions)?;
        Some(self.points.remove(at))
    }

    fn priority(&mut self, thread: ThreadKey) -> i64 {
        let PriorityStrategy { stream, priorities, .. } = self;
        *priorities.entry(thread).or_insert_with(|| {
            // Higher for smaller draws, so that the default is the order of arrival.
            let below = stream.choose(Self::PRIORITY, 0, PRIORITIES, |random| random.below(PRIORITIES));
            INITIAL + (PRIORITIES - below) as i64
        })
    }
}

impl Strategy for PriorityStrategy {
    fn choose_thread(
        &mut self,
        candidates: impl Iterator<Item = usize>,
        key: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        for at in candidates {
            let priority = self.priority(key(at));
            if best.is_none_or(|(highest, _)| priority > highest) {
                best = Some((priority, at));
            }
        }
        let (_, at) = best?;
        let thread = key(at);
        self.chosen = match self.chosen {
            (Some(last), times) if last == thread => (Some(last), times + 1),
            _ => (Some(thread), 1),
        };
        if self.chosen.1 == FifoStrategy::SLICE {
            self.chosen.1 = 0;
            self.lowest -= 1;
            self.priorities.insert(thread, self.lowest);
        }
        Some(at)
    }
    /// One call: a thread of a higher priority may have been woken.
    fn slice(&mut self) -> u32 {
        1
    }
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        let candidates: Vec<usize> = candidates.collect();
        let count = candidates.len() as u64;
        match candidates[..] {
            [] => None,
            [only] => Some(only),
            _ => {
                let at = self.stream.choose(Self::WAITER, 0, count, |random| random.below(count));
                Some(candidates[at as usize])
            }
        }
    }
    /// All become runnable; their priorities decide.
    fn order_waiters<T>(&mut self, _: &mut [T]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn strategy(seed: u64, points: u32) -> PriorityStrategy {
        let stream = Seed(seed).stream_for(&["test"], &PriorityStrategy::PURPOSES);
        PriorityStrategy::new(stream, Preemption { points, calls: 4, instructions: 50 })
    }

    /// Threads in the order in which they would run, each for `runs` runs, with the instructions up to which they are preempted.
    fn course(mut strategy: PriorityStrategy, threads: usize, runs: u32) -> Vec<(usize, Option<u32>)> {
        let mut left = vec![runs; threads];
        let mut course = Vec::new();
        while left.iter().any(|left| *left > 0) {
            let ready = (0..threads).filter(|thread| left[*thread] > 0);
            let thread = strategy.choose_thread(ready, ThreadKey).expect("one is ready");
            let point = strategy.begin_run(ThreadKey(thread));
            match point {
                Some(_) => strategy.preempt(ThreadKey(thread)),
                None => left[thread] -= 1,
            }
            course.push((thread, point));
        }
        course
    }

    #[test]
    fn a_thread_runs_until_its_point_and_every_order_occurs() {
        let mut first = [0; 3];
        for seed in 0..300 {
            let course = course(strategy(seed, 1), 3, 3);
            first[course[0].0] += 1;
            let (at, (thread, _)) =
                course.iter().enumerate().find(|(_, (_, point))| point.is_some()).expect("a point");
            // From there on the thread runs after all others.
            let rest = &course[at + 1..];
            let last_of_others = rest.iter().rposition(|(other, _)| other != thread);
            let first_of_it = rest.iter().position(|(other, _)| other == thread).expect("it goes on");
            assert!(last_of_others.is_none_or(|last| last < first_of_it), "{course:?}");
        }
        assert!(first.iter().all(|count| *count > 60), "{first:?}");
    }

    #[test]
    fn points_of_one_run_are_passed_one_after_the_other() {
        let mut found = 0;
        for seed in 0..200 {
            let course = course(strategy(seed, 3), 2, 4);
            let points: Vec<u32> = course.iter().filter_map(|(_, point)| *point).collect();
            assert_eq!(points.len(), 3, "{course:?}");
            assert!(points.iter().all(|point| *point < 50));
            let of_first =
                course.windows(2).filter(|pair| pair[0].1.is_some() && pair[1].1.is_some()).count();
            found += of_first;
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn a_thread_that_never_waits_does_not_starve_others() {
        let mut strategy = strategy(1, 1);
        let chosen: Vec<usize> = (0..1_000).filter_map(|_| strategy.choose_thread(0..2, ThreadKey)).collect();
        assert!(chosen.windows(300).all(|part| part.contains(&0) && part.contains(&1)));
    }
}
