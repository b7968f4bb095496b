//! Timers of a host, ordered by time and then by creation.

use belljar_base::{Footprint, Map, SimTime};
use smallvec::SmallVec;

/// Identifier of a pending timer, by which it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: SimTime,
    sequence: u64,
}

/// Maximum number of timers in the array of near ones.
const NEAR: usize = 8;

/// The pending timers of one host.
#[derive(Debug)]
pub struct TimerQueue<A> {
    /// The nearest timers, the next one last. Most timers are set for the near future, and expire or are
    /// cancelled before any other. The array is empty only if there is no timer at all.
    near: SmallVec<[(TimerId, A); NEAR]>,
    /// All later timers.
    later: Map<TimerId, A>,
    sequence: u64,
}

impl<A> Default for TimerQueue<A> {
    fn default() -> TimerQueue<A> {
        TimerQueue { near: SmallVec::new(), later: Map::new(), sequence: 0 }
    }
}

impl<A: Copy> TimerQueue<A> {
    /// Lists the memory that a lookup of the next timer reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.near.as_ptr(), 1);
        footprint.start(self.near.last().map_or(std::ptr::null(), std::ptr::from_ref), 1);
        footprint.object(&self.later);
    }
    /// Adds a timer that performs `action` at `at`.
    pub fn add(&mut self, at: SimTime, action: A) -> TimerId {
        let id = self.name(at);
        self.insert(id, action)
    }
    /// Allocates the identifier of a timer created now, in this queue or in another one ordered with it. At
    /// equal times timers expire in the order of their identifiers.
    pub fn name(&mut self, at: SimTime) -> TimerId {
        self.sequence += 1;
        TimerId { at, sequence: self.sequence }
    }
    /// Adds a timer with an allocated identifier.
    pub fn insert(&mut self, id: TimerId, action: A) -> TimerId {
        let is_full = self.near.len() == NEAR;
        if self.near.first().is_some_and(|(last, _)| *last < id) && (is_full || !self.later.is_empty()) {
            self.later.insert(id, action);
            return id;
        }
        if is_full {
            let (last, action) = self.near.remove(0);
            self.later.insert(last, action);
        }
        let place = self.near.iter().rposition(|(other, _)| *other > id).map_or(0, |before| before + 1);
        self.near.insert(place, (id, action));
        id
    }
    /// Cancels a timer. A timer that has expired is ignored.
    pub fn cancel(&mut self, id: TimerId) {
        match self.near.iter().rposition(|(other, _)| *other == id) {
            Some(place) => {
                self.near.remove(place);
                self.come_near();
            }
            None => drop(self.later.remove(&id)),
        }
    }
    /// Reschedules the timer in `slot` to `at`, or cancels it if `at` is `None`.
    pub fn set(&mut self, slot: &mut Option<TimerId>, at: Option<SimTime>, action: A) {
        if slot.map(TimerId::at) != at {
            if let Some(timer) = slot.take() {
                self.cancel(timer);
            }
            *slot = at.map(|at| self.add(at, action));
        }
    }
    /// Continues the identifiers of another queue.
    pub fn name_after(&mut self, other: &TimerQueue<A>) {
        self.sequence = self.sequence.max(other.sequence);
    }
    /// Cancels all timers.
    pub fn clear(&mut self) {
        self.near.clear();
        self.later.clear();
    }
    /// The identifier of the next timer.
    #[inline]
    pub fn next_id(&self) -> Option<TimerId> {
        self.near.last().map(|(id, _)| *id)
    }
    /// The time of the next timer.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.near.last().map(|(id, _)| id.at)
    }
    /// Removes the next timer if it is due at `now`. Returns its action.
    pub fn pop_due(&mut self, now: SimTime) -> Option<A> {
        let (id, action) = *self.near.last()?;
        if id.at > now {
            return None;
        }
        self.near.pop();
        self.come_near();
        Some(action)
    }
    /// Refills an empty array of near timers from the later ones.
    #[inline]
    fn come_near(&mut self) {
        if self.near.is_empty() && !self.later.is_empty() {
            self.near.extend(std::iter::from_fn(|| self.later.pop_first()).take(NEAR / 2));
            self.near.reverse();
        }
    }
}

impl TimerId {
    /// The expiry time.
    pub fn at(self) -> SimTime {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_of_time_and_then_of_creation() {
        let (mut queue, mut expected) = (TimerQueue::default(), Map::new());
        let mut stream = belljar_base::Seed(1).stream(&["timers"]);
        let mut draw = |below| stream.next_u64() % below;
        for n in 0..20_000 {
            match draw(5) {
                0 | 1 => {
                    let at = SimTime::from_nanos(draw(40) + n / 100);
                    expected.insert(queue.add(at, n as usize), n as usize);
                }
                2 if !expected.is_empty() => {
                    let id = *expected.keys().nth(draw(expected.len() as u64) as usize).unwrap();
                    expected.remove(&id);
                    queue.cancel(id);
                }
                _ => {
                    let now = SimTime::from_nanos(draw(20) + n / 100);
                    let due = expected.first_entry().filter(|first| first.key().at <= now);
                    let due = due.map(|first| first.remove());
                    assert_eq!(queue.pop_due(now), due);
                }
            }
            assert_eq!(queue.next(), expected.first_key_value().map(|(id, _)| id.at));
        }
        queue.clear();
        assert_eq!(queue.next(), None);
    }
}
