//! Timers of a host, in order of time and then of creation.

use belljar_base::{Footprint, Map, SimTime};
use smallvec::SmallVec;

/// Names a pending timer so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: SimTime,
    sequence: u64,
}

/// Greatest number of timers that are kept apart from the others.
const NEAR: usize = 8;

/// The pending timers of one host.
#[derive(Debug)]
pub struct TimerQueue<A> {
    /// The next ones, the very next last: most timers are set for soon, and fire or are taken back before any
    /// other. It is empty only if there is no timer at all.
    near: SmallVec<[(TimerId, A); NEAR]>,
    /// All that come after those.
    later: Map<TimerId, A>,
    sequence: u64,
}

impl<A> Default for TimerQueue<A> {
    fn default() -> TimerQueue<A> {
        TimerQueue { near: SmallVec::new(), later: Map::new(), sequence: 0 }
    }
}

impl<A: Copy> TimerQueue<A> {
    /// Tells where the next one is.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.near.as_ptr(), 1);
        footprint.start(self.near.last().map_or(std::ptr::null(), std::ptr::from_ref), 1);
        footprint.object(&self.later);
    }
    /// Fires `action` at `at`.
    pub fn add(&mut self, at: SimTime, action: A) -> TimerId {
        let id = self.name(at);
        self.insert(id, action)
    }
    /// The name of a timer that is made now, in this queue or in another one that fires in turn with it: of the same time,
    /// what was named first comes first.
    pub fn name(&mut self, at: SimTime) -> TimerId {
        self.sequence += 1;
        TimerId { at, sequence: self.sequence }
    }
    /// Fires `action` when `id` says.
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
    /// Takes a timer back; one that has fired is no error.
    pub fn cancel(&mut self, id: TimerId) {
        match self.near.iter().rposition(|(other, _)| *other == id) {
            Some(place) => {
                self.near.remove(place);
                self.come_near();
            }
            None => drop(self.later.remove(&id)),
        }
    }
    /// Has `action` fire at `at` instead of when `slot` says, or not at all.
    pub fn set(&mut self, slot: &mut Option<TimerId>, at: Option<SimTime>, action: A) {
        if slot.map(TimerId::at) != at {
            if let Some(timer) = slot.take() {
                self.cancel(timer);
            }
            *slot = at.map(|at| self.add(at, action));
        }
    }
    /// Further names follow those that another queue has given.
    pub fn name_after(&mut self, other: &TimerQueue<A>) {
        self.sequence = self.sequence.max(other.sequence);
    }
    /// Takes all back.
    pub fn clear(&mut self) {
        self.near.clear();
        self.later.clear();
    }
    /// The name of the next one.
    #[inline]
    pub fn next_id(&self) -> Option<TimerId> {
        self.near.last().map(|(id, _)| *id)
    }
    /// When the next one fires.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.near.last().map(|(id, _)| id.at)
    }
    /// The next one that is due at `now`, removed.
    pub fn pop_due(&mut self, now: SimTime) -> Option<A> {
        let (id, action) = *self.near.last()?;
        if id.at > now {
            return None;
        }
        self.near.pop();
        self.come_near();
        Some(action)
    }
    /// Takes up the next ones if there is none.
    #[inline]
    fn come_near(&mut self) {
        if self.near.is_empty() && !self.later.is_empty() {
            self.near.extend(std::iter::from_fn(|| self.later.pop_first()).take(NEAR / 2));
            self.near.reverse();
        }
    }
}

impl TimerId {
    /// When it fires.
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
