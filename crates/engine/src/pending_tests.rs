//! Nodes bounded by external clocks: their behaviour does not depend on the waiting workers or the number of
//! attempts.

use crate::pending::PendingBackoff;
use crate::tests::{NEAR, Toy, Trace, clusters, toys};
use crate::*;

const STOP: SimTime = SimTime::from_nanos(100_000_000);

/// Toy node bounded by an external clock, which advances at every third look.
struct Beside {
    toy: Toy,
    /// Horizon; `None` without an external clock.
    horizon: Option<SimTime>,
    looks: u64,
}

impl Node for Beside {
    type Message = u64;

    fn deliver(&mut self, key: EventKey, message: u64) {
        self.toy.deliver(key, message);
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<u64>>) {
        self.looks += 1;
        if let Some(horizon) = &mut self.horizon
            && self.looks.is_multiple_of(3)
        {
            *horizon += SimDuration::from_nanos(37_123);
        }
        self.toy.run_until(self.horizon.map_or(limit, |horizon| horizon.min(limit)), out);
    }
    fn next_event(&self) -> Option<SimTime> {
        [self.toy.next_event(), self.horizon].into_iter().flatten().min()
    }
    fn finished_at(&self) -> Option<SimTime> {
        None
    }
}

fn trace(plan: Plan, options: &Options<'_>, beside: impl Fn(u32) -> bool) -> (Trace, u64) {
    let node = |toy: Toy| {
        let horizon = beside(toy.id.0).then_some(SimTime::ZERO);
        Beside { toy, horizon, looks: 0 }
    };
    let mut engine = Engine::new(toys(12, 200).into_iter().map(node).collect(), plan);
    assert_eq!(engine.run(STOP, options, |_| Verdict::Continue), Ending::StopTime);
    let nodes: Vec<Beside> = engine.into_nodes().into_iter().map(|(_, node)| node).collect();
    let looks = nodes.iter().map(|node| node.looks).sum();
    (nodes.into_iter().map(|node| node.toy.seen).collect(), looks)
}

#[test]
fn workers_that_wait_for_external_clocks_do_not_change_results() {
    let (expected, few) =
        trace(Plan::uniform(12, NEAR), &Options { workers: 1, ..Options::default() }, |_| false);
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 1_000);
    for plan in [Plan::uniform(12, NEAR), clusters(12)] {
        for (workers, stealing, waiters, sleeping) in [
            (1, true, 0, false),
            (1, true, 0, true),
            (3, true, 0, false),
            (3, true, 1, false),
            (3, true, 1, true),
            (3, false, 1, false),
            (2, false, 0, false),
            (2, true, 2, true),
        ] {
            let options = Options { workers, stealing, waiters, sleeping, ..Options::default() };
            let (seen, looks) = trace(plan.clone(), &options, |id| id % 5 == 1);
            assert!(seen == expected, "{workers} workers, stealing: {stealing}, {waiters} wait");
            assert!(looks > few, "{looks} looks, and {few} without clocks");
        }
    }
}

/// Node bounded by a clock that advances by a picosecond at each look.
struct Slow(SimTime);

impl Node for Slow {
    type Message = u64;

    fn deliver(&mut self, _: EventKey, _: u64) {}
    fn run_until(&mut self, limit: SimTime, _: &mut Vec<Outgoing<u64>>) {
        self.0 = limit.min(self.0 + SimDuration::from_picos(1));
    }
    fn next_event(&self) -> Option<SimTime> {
        Some(self.0)
    }
    fn finished_at(&self) -> Option<SimTime> {
        None
    }
}

#[test]
fn a_run_beside_slow_clocks_can_be_stopped() {
    for workers in [1, 2] {
        let options = Options { workers, stealing: true, ..Options::default() };
        let mut engine = Engine::new(vec![Slow(SimTime::ZERO), Slow(SimTime::ZERO)], Plan::uniform(2, NEAR));
        let asked = std::sync::atomic::AtomicU32::new(0);
        // Without a stop, the window would end after hours.
        let ending = engine.run(SimTime::from_secs(1), &options, |_| {
            match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0..3 => Verdict::Continue,
                _ => Verdict::Stop,
            }
        });
        assert_eq!(ending, Ending::Stopped);
        assert!(engine.committed() > SimTime::ZERO && engine.committed() < SimTime::ZERO + NEAR);
    }
}

#[test]
fn a_wait_without_end_goes_on_asleep() {
    for sleeping in [false, true] {
        let mut backoff = PendingBackoff::new(sleeping);
        // Each false return comes after some thirty sleeps; otherwise a worker would spin from window to
        // window.
        for _ in 0..3 {
            let waits = (0..).take_while(|_| backoff.wait()).count();
            assert!(waits >= 30, "sleeping: {sleeping}, {waits} waits");
        }
    }
}
