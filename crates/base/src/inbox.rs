//! Inbox: messages in transit to a node.

use crate::{EventKey, Footprint, SimTime};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Message in transit.
#[derive(Debug)]
struct Arrival<T> {
    key: EventKey,
    content: T,
}

/// Maximum number of messages that are kept in a heap when they arrive while others wait.
const FEW: usize = 16;

/// Inbox: messages in transit to a node, in the order of their keys.
///
/// A node receives all messages of a window at once and takes them one by one between other events, so they
/// are sorted at once, when the first is taken. Only times and indices are sorted, because arrivals are
/// large.
#[derive(Debug)]
pub struct Inbox<T> {
    /// Time of the next arrival.
    next: Option<SimTime>,
    /// Arrival times and indices of the messages in `placed`, in descending order.
    order: Vec<(SimTime, u32)>,
    /// Messages of this and earlier windows; taken ones leave gaps.
    placed: Vec<Option<Arrival<T>>>,
    /// Messages that were added while `order` was not empty.
    others: BinaryHeap<Reverse<Arrival<T>>>,
    /// Messages added since the last one was taken.
    fresh: Vec<Arrival<T>>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        let (order, placed, others, fresh) = (Vec::new(), Vec::new(), BinaryHeap::new(), Vec::new());
        Inbox { next: None, order, placed, others, fresh }
    }
}

impl<T> Inbox<T> {
    /// Time of the next arrival.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }
    /// Adds the buffers to a footprint.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.fresh.as_ptr(), 1);
        footprint.start(self.order.as_ptr(), 2);
        footprint.start(self.placed.as_ptr(), 1);
    }
    /// Adds a message.
    pub fn push(&mut self, key: EventKey, content: T) {
        self.next = Some(self.next.map_or(key.time, |next| next.min(key.time)));
        self.fresh.push(Arrival { key, content });
    }
    /// Takes the next message.
    ///
    /// # Panics
    /// If two messages have the same key.
    pub fn pop(&mut self) -> Option<T> {
        if !self.fresh.is_empty() {
            self.put_in_order();
        }
        let Arrival { key, content } = if self.others.is_empty() { self.take()? } else { self.pop_least()? };
        let following = self.first().map(|(next, _)| next);
        assert!(following != Some(key), "two events have the key {key:?}");
        self.next = following.map(|key| key.time);
        Some(content)
    }

    /// Next message; to be called only after one has been taken.
    #[inline]
    pub fn first(&self) -> Option<(EventKey, &T)> {
        debug_assert!(self.fresh.is_empty(), "what has come since is not in order");
        let first = if self.others.is_empty() { self.first_placed() } else { self.least() };
        first.map(|arrival| (arrival.key, &arrival.content))
    }
    /// Messages in the inbox, in no particular order, for counting them.
    pub fn contents(&self) -> impl Iterator<Item = &T> {
        let placed = self.placed.iter().flatten();
        let others = self.others.iter().map(|Reverse(other)| other);
        placed.chain(others).chain(&self.fresh).map(|arrival| &arrival.content)
    }
    /// Probable next message; one added since the last was taken may precede it.
    #[inline]
    pub fn following(&self) -> Option<&T> {
        self.first_placed().map(|arrival| &arrival.content)
    }

    #[inline]
    fn first_placed(&self) -> Option<&Arrival<T>> {
        let (_, place) = self.order.last()?;
        self.placed[*place as usize].as_ref()
    }
    #[inline]
    fn take(&mut self) -> Option<Arrival<T>> {
        let (_, place) = self.order.pop()?;
        self.placed[place as usize].take()
    }

    #[cold]
    fn put_in_order(&mut self) {
        if !self.order.is_empty() && self.fresh.len() <= FEW {
            self.others.extend(self.fresh.drain(..).map(Reverse));
            return;
        }
        // Most messages arrive in order of time, and later than the remaining ones.
        self.placed.retain(Option::is_some);
        self.placed.extend(self.fresh.drain(..).map(Some));
        self.order.clear();
        self.order.extend(self.placed.iter().flatten().map(|arrival| arrival.key.time).zip(0..));
        let placed = &self.placed;
        self.order.sort_unstable_by(|a, b| match b.0.cmp(&a.0) {
            Ordering::Equal => in_full(placed, a.1, b.1),
            order => order,
        });
    }
    #[cold]
    fn least(&self) -> Option<&Arrival<T>> {
        let other = self.others.peek().map(|Reverse(other)| other);
        [self.first_placed(), other].into_iter().flatten().min()
    }
    #[cold]
    fn pop_least(&mut self) -> Option<Arrival<T>> {
        let other = self.others.peek().map(|Reverse(other)| other);
        if self.first_placed().is_some_and(|first| other.is_none_or(|other| first < other)) {
            return self.take();
        }
        self.others.pop().map(|Reverse(other)| other)
    }
}

/// Order of two messages by their keys, descending.
#[cold]
fn in_full<T>(placed: &[Option<Arrival<T>>], a: u32, b: u32) -> Ordering {
    placed[b as usize].cmp(&placed[a as usize])
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Arrival<T>) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Arrival<T> {}
impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Arrival<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Arrival<T>) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventClass, HostId, Map, Seed};

    fn key(nanos: u64, source: u32, sequence: u64) -> EventKey {
        let time = SimTime::from_nanos(nanos);
        EventKey { time, class: EventClass::Arrival, source: HostId(source), sequence }
    }

    #[test]
    fn arrivals_come_in_the_order_of_their_keys_whenever_they_were_announced() {
        let mut inbox = Inbox::default();
        inbox.push(key(5, 2, 1), 4);
        inbox.push(key(5, 1, 9), 3);
        inbox.push(key(2, 7, 1), 1);
        assert_eq!((inbox.next(), inbox.pop()), (Some(SimTime::from_nanos(2)), Some(1)));
        inbox.push(key(9, 1, 10), 5);
        inbox.push(key(3, 1, 8), 2);
        assert_eq!(inbox.next(), Some(SimTime::from_nanos(3)));
        assert_eq!([(); 5].map(|()| inbox.pop()), [Some(2), Some(3), Some(4), Some(5), None]);
        assert_eq!(inbox.next(), None);
    }

    #[test]
    fn an_inbox_is_a_sorted_map() {
        let (mut inbox, mut expected) = (Inbox::default(), Map::new());
        let mut stream = Seed(1).stream(&["inbox"]);
        let mut draw = |below| stream.next_u64() % below;
        for sequence in 0..20_000 {
            if draw(2) == 0 || sequence < 50 {
                let key = key(draw(100) + sequence / 10, draw(3) as u32, sequence);
                inbox.push(key, sequence);
                expected.insert(key, sequence);
            } else {
                assert_eq!(inbox.pop(), expected.pop_first().map(|(_, sequence)| sequence));
                assert_eq!(inbox.first(), expected.first_key_value().map(|(key, sequence)| (*key, sequence)));
            }
            assert_eq!(inbox.next(), expected.first_key_value().map(|(key, _)| key.time));
        }
    }

    #[test]
    #[should_panic(expected = "two events have the key")]
    fn two_arrivals_of_one_key_are_a_bug() {
        let mut inbox = Inbox::default();
        (0..2).for_each(|_| inbox.push(key(1, 1, 1), ()));
        inbox.pop();
    }
}
