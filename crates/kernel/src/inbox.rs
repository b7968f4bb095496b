//! What is on its way to a host and will arrive.

use belljar_base::{EventKey, SimTime};
use belljar_net::Packet;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// One that will arrive: by which link, or `None` from the graph.
#[derive(Debug)]
struct Arrival {
    key: EventKey,
    link: Option<usize>,
    packet: Packet,
}

/// What will arrive, in the order of its keys.
///
/// A host gets all that comes for it in a window at once, and takes it one by one while its programs run: so it is
/// put in order at once, when the first is taken.
#[derive(Debug, Default)]
pub struct Inbox {
    /// When the next one arrives.
    next: Option<SimTime>,
    /// In order, the next one last.
    sorted: Vec<Arrival>,
    /// What came while there was anything in `sorted`.
    others: BinaryHeap<Reverse<Arrival>>,
    /// What has come since one was taken last.
    fresh: Vec<Arrival>,
}

impl Inbox {
    /// When the next one arrives.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }
    /// One more.
    pub fn push(&mut self, key: EventKey, link: Option<usize>, packet: Packet) {
        self.next = Some(self.next.map_or(key.time, |next| next.min(key.time)));
        self.fresh.push(Arrival { key, link, packet });
    }
    /// Takes the next one out.
    pub fn pop(&mut self) -> Option<(Option<usize>, Packet)> {
        if !self.fresh.is_empty() {
            self.put_in_order();
        }
        let Arrival { key, link, packet } =
            if self.others.is_empty() { self.sorted.pop()? } else { self.pop_least()? };
        let following = if self.others.is_empty() { self.sorted.last() } else { self.least() };
        let following = following.map(|next| next.key);
        assert!(following != Some(key), "two events have the key {key:?}");
        self.next = following.map(|key| key.time);
        Some((link, packet))
    }

    #[cold]
    fn put_in_order(&mut self) {
        if self.sorted.is_empty() {
            std::mem::swap(&mut self.sorted, &mut self.fresh);
            self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            self.others.extend(self.fresh.drain(..).map(Reverse));
        }
    }
    #[cold]
    fn least(&self) -> Option<&Arrival> {
        let other = self.others.peek().map(|Reverse(other)| other);
        [self.sorted.last(), other].into_iter().flatten().min()
    }
    #[cold]
    fn pop_least(&mut self) -> Option<Arrival> {
        let other = self.others.peek().map(|Reverse(other)| other);
        if self.sorted.last().is_some_and(|first| other.is_none_or(|other| first < other)) {
            return self.sorted.pop();
        }
        self.others.pop().map(|Reverse(other)| other)
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Arrival) -> bool {
        self.key == other.key
    }
}
impl Eq for Arrival {}
impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Arrival) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Arrival {
    fn cmp(&self, other: &Arrival) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::{EventClass, HostId};

    fn key(nanos: u64, source: u32, sequence: u64) -> EventKey {
        let time = SimTime::from_nanos(nanos);
        EventKey { time, class: EventClass::Arrival, source: HostId(source), sequence }
    }

    #[test]
    fn arrivals_come_in_the_order_of_their_keys_whenever_they_were_announced() {
        let mut inbox = Inbox::default();
        let put = |inbox: &mut Inbox, key: EventKey, name: u8| inbox.push(key, None, Packet::new(vec![name]));
        let take = |inbox: &mut Inbox| inbox.pop().map(|(_, packet)| packet.bytes()[0]);
        put(&mut inbox, key(5, 2, 1), 4);
        put(&mut inbox, key(5, 1, 9), 3);
        put(&mut inbox, key(2, 7, 1), 1);
        assert_eq!((inbox.next(), take(&mut inbox)), (Some(SimTime::from_nanos(2)), Some(1)));
        put(&mut inbox, key(9, 1, 10), 5);
        put(&mut inbox, key(3, 1, 8), 2);
        assert_eq!(inbox.next(), Some(SimTime::from_nanos(3)));
        assert_eq!([(); 5].map(|()| take(&mut inbox)), [Some(2), Some(3), Some(4), Some(5), None]);
        assert_eq!(inbox.next(), None);
    }

    #[test]
    fn an_inbox_is_a_sorted_map() {
        let (mut inbox, mut expected) = (Inbox::default(), belljar_base::Map::new());
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for sequence in 0..20_000 {
            if draw(2) == 0 || sequence < 50 {
                let key = key(draw(100) + sequence / 10, draw(3) as u32, sequence);
                inbox.push(key, Some(sequence as usize), Packet::new(Vec::new()));
                expected.insert(key, Some(sequence as usize));
            } else {
                assert_eq!(inbox.pop().map(|(link, _)| link), expected.pop_first().map(|(_, link)| link));
            }
            assert_eq!(inbox.next(), expected.first_key_value().map(|(key, _)| key.time));
        }
    }

    #[test]
    #[should_panic(expected = "two events have the key")]
    fn two_arrivals_of_one_key_are_a_bug() {
        let mut inbox = Inbox::default();
        (0..2).for_each(|_| inbox.push(key(1, 1, 1), None, Packet::new(Vec::new())));
        inbox.pop();
    }
}
