//! Agenda: the time at which each unit of a partition is next due.

use belljar_base::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Marks a unit as due in the current window. It is below every limit, so the unit has no valid queue entry.
const DUE: SimTime = SimTime::ZERO;

/// Next event times of a partition's units.
///
/// The order in which a window's units run does not matter. Units that are due in the window being prepared,
/// which in a busy simulation are nearly all, are therefore never sorted.
pub struct Agenda {
    /// Next event time, indexed by unit number divided by the stride.
    next: Vec<SimTime>,
    stride: u32,
    queues: Vec<Queue>,
}

/// Units of a lookahead class that are not due yet. An entry whose time differs from `next` is stale.
#[derive(Default)]
struct Queue {
    /// Entries added since the previous window was prepared. Most of them become due in the next one.
    soon: Vec<(SimTime, u32)>,
    /// Number of those entries added before this window was prepared.
    older: usize,
    later: BinaryHeap<Reverse<(SimTime, u32)>>,
}

impl Agenda {
    /// Creates an agenda for `units` units, whose numbers are `stride` apart, the first below `stride`.
    pub fn new(units: usize, stride: usize, classes: usize) -> Agenda {
        let queues = (0..classes).map(|_| Queue::default()).collect();
        Agenda { next: vec![SimTime::MAX; units], stride: stride as u32, queues }
    }

    /// Records that a unit has run and has its next event at `at`. True if it is due before the limit;
    /// reported once.
    pub fn has_run(&mut self, unit: u32, class: usize, at: SimTime, limit: SimTime) -> bool {
        self.next[(unit / self.stride) as usize] = SimTime::MAX;
        self.happens(unit, class, at, limit)
    }

    /// Records an event of a unit at `at`. True if the unit becomes due before the limit by it; reported
    /// once.
    pub fn happens(&mut self, unit: u32, class: usize, at: SimTime, limit: SimTime) -> bool {
        let next = &mut self.next[(unit / self.stride) as usize];
        if at >= *next {
            return false;
        }
        if at < limit {
            *next = DUE;
            return true;
        }
        *next = at;
        self.queues[class].soon.push((at, unit));
        false
    }

    /// Passes to `is_due` the units of a class that become due because the limit has advanced; `limit` is
    /// also that of all calls since the last one. Returns the earliest event of the class's other units.
    pub fn reach(&mut self, class: usize, limit: SimTime, mut is_due: impl FnMut(u32)) -> SimTime {
        let Agenda { next, stride, queues } = self;
        let Queue { soon, older, later } = &mut queues[class];
        let place = |unit: u32| (unit / *stride) as usize;
        for (at, unit) in soon.drain(..*older) {
            if next[place(unit)] != at {
                continue;
            }
            if at < limit {
                next[place(unit)] = DUE;
                is_due(unit);
            } else {
                later.push(Reverse((at, unit)));
            }
        }
        *older = soon.len();
        let in_time = soon.iter().filter(|(at, unit)| next[place(*unit)] == *at);
        let mut first = in_time.map(|(at, _)| *at).min().unwrap_or(SimTime::MAX);
        while let Some(&Reverse((at, unit))) = later.peek() {
            if next[place(unit)] == at {
                if at >= limit {
                    first = first.min(at);
                    break;
                }
                next[place(unit)] = DUE;
                is_due(unit);
            }
            later.pop();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::from_secs(seconds)
    }

    fn reached(agenda: &mut Agenda, limit: SimTime) -> (Vec<u32>, SimTime) {
        let mut due = Vec::new();
        let first = agenda.reach(0, limit, |unit| due.push(unit));
        (due, first)
    }

    #[test]
    fn a_unit_is_due_once_in_a_window_whatever_happens_to_it() {
        let mut agenda = Agenda::new(4, 1, 1);
        assert!(!agenda.has_run(0, 0, at(7), at(5)));
        assert!(agenda.has_run(1, 0, at(4), at(5)));
        assert!(!agenda.has_run(2, 0, SimTime::MAX, at(5)));
        assert!(!agenda.has_run(3, 0, at(6), at(5)));
        assert!(!agenda.happens(1, 0, at(3), at(5)), "it is due already");
        assert!(agenda.happens(2, 0, at(4), at(5)));
        assert!(!agenda.happens(3, 0, at(5), at(5)), "at the limit is after it");
        assert_eq!(reached(&mut agenda, at(5)), (vec![], at(5)));
        // In the next window, the first three are checked again, and the fourth's later event is stale.
        assert!(!agenda.has_run(1, 0, at(12), at(10)));
        assert!(agenda.has_run(2, 0, at(9), at(10)));
        assert!(agenda.happens(0, 0, at(6), at(10)), "before what it waits for");
        assert_eq!(reached(&mut agenda, at(10)), (vec![3], at(12)));
        // Stale entries make no unit due.
        assert!(!agenda.has_run(2, 0, at(13), at(12)));
        assert!(!agenda.has_run(0, 0, at(14), at(12)));
        assert!(!agenda.has_run(3, 0, at(12), at(12)));
        assert_eq!(reached(&mut agenda, at(12)), (vec![], at(12)));
        assert_eq!(reached(&mut agenda, at(13)), (vec![3, 1], at(13)));
        assert_eq!(reached(&mut agenda, at(20)), (vec![2, 0], SimTime::MAX));
    }

    #[test]
    fn an_event_that_was_taken_back_and_put_again_counts_once() {
        let mut agenda = Agenda::new(1, 1, 1);
        assert!(!agenda.has_run(0, 0, at(8), at(5)));
        assert_eq!(reached(&mut agenda, at(5)), (vec![], at(8)));
        assert!(agenda.happens(0, 0, at(6), at(7)));
        assert_eq!(reached(&mut agenda, at(7)), (vec![], SimTime::MAX));
        assert!(!agenda.has_run(0, 0, at(8), at(8)), "twice in the queues now");
        assert_eq!(reached(&mut agenda, at(8)), (vec![], at(8)));
        assert_eq!(reached(&mut agenda, at(9)), (vec![0], SimTime::MAX));
    }
}
