//! Elements of sets and maps.
//!
//! All kinds of sets keep their elements in one ordered map by *position*, which is
//!
//! * the key of a set without intervals,
//! * the bound and a byte that is 0 for the end and 1 for the start of an interval: then the interval that
//!   has a key is the one of the greatest bound that is not above the key, if that is a start,
//! * the lower and the upper key of a concatenation with ranges, which a look-up goes through in order.
//!
//! Changes of a batch are undone if it fails: the batch keeps a [`Undo`] for each.

use crate::operation::{Data, Operation};
use crate::set::{Set, flag};
use crate::stateful::Object;
use belljar_base::{Map, SimTime};
use std::sync::Arc;

/// Element of a set.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    /// Upper key of a concatenation with ranges.
    pub(crate) key_end: Option<Vec<u8>>,
    pub(crate) data: Option<Data>,
    /// `NFT_SET_ELEM_*`.
    pub(crate) flags: u32,
    /// Timeout in milliseconds, if the element has one.
    pub(crate) timeout: Option<u64>,
    pub(crate) expires: Option<SimTime>,
    pub(crate) userdata: Vec<u8>,
    pub(crate) expressions: Vec<Arc<dyn Operation>>,
    pub(crate) object: Option<Arc<Object>>,
}

/// `NFT_SET_ELEM_INTERVAL_END`.
pub(crate) const INTERVAL_END: u32 = 1;
/// `NFT_SET_ELEM_CATCHALL`.
pub(crate) const CATCHALL: u32 = 2;

impl Element {
    /// Element without anything but a key.
    pub(crate) fn new(key: Vec<u8>) -> Element {
        Element {
            key,
            key_end: None,
            data: None,
            flags: 0,
            timeout: None,
            expires: None,
            userdata: Vec::new(),
            expressions: Vec::new(),
            object: None,
        }
    }
    /// True if the element has expired.
    pub(crate) fn is_over(&self, now: SimTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
    /// The position of the element in a set.
    pub(crate) fn position(&self, set: &Set) -> Position {
        if self.flags & CATCHALL != 0 {
            return Position::CatchAll;
        }
        let mut bytes = self.key.clone();
        if set.is_concatenated_interval() {
            bytes.extend_from_slice(self.key_end.as_ref().unwrap_or(&self.key));
        } else if set.is_interval() {
            bytes.push(u8::from(self.flags & INTERVAL_END == 0));
        }
        Position::At(bytes)
    }
}

/// Position of an element in its set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The element for all other keys.
    CatchAll,
    /// By key: see the [module](self).
    At(Vec<u8>),
}

/// Restores the former element at a position of a set.
#[derive(Debug)]
pub(crate) struct Undo {
    set: u64,
    position: Position,
    former: Option<Element>,
}

/// Elements of one set.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    ordered: Map<Vec<u8>, Element>,
    catch_all: Option<Element>,
    /// Lower bound on the expiry of the elements.
    next_expiry: Option<SimTime>,
}

impl Elements {
    /// Number of elements, not counting ends of intervals.
    pub(crate) fn len(&self) -> usize {
        self.ordered.len() + usize::from(self.catch_all.is_some())
    }
    /// Elements in order, without expired ones.
    pub(crate) fn live(&self, now: SimTime) -> impl Iterator<Item = &Element> {
        self.ordered.values().chain(&self.catch_all).filter(move |element| !element.is_over(now))
    }
    /// The element at a position.
    pub(crate) fn at(&self, position: &Position, now: SimTime) -> Option<&Element> {
        let found = match position {
            Position::CatchAll => self.catch_all.as_ref(),
            Position::At(bytes) => self.ordered.get(bytes),
        };
        found.filter(|element| !element.is_over(now))
    }
    /// The element that a key matches.
    pub(crate) fn find(&self, set: &Set, key: &[u8], now: SimTime) -> Option<&Element> {
        let found = if set.is_concatenated_interval() {
            self.ordered
                .values()
                .find(|element| !element.is_over(now) && in_ranges(element, &set.fields, key))
        } else if set.is_interval() {
            let mut bound = key.to_vec();
            bound.push(1);
            let below = self.ordered.range::<Vec<u8>>(..=bound).next_back().map(|(_, element)| element);
            below.filter(|element| element.flags & INTERVAL_END == 0)
        } else {
            self.ordered.get(key)
        };
        found.or(self.catch_all.as_ref()).filter(|element| !element.is_over(now))
    }
    /// True if an interval bound lies within an interval that is complete.
    pub(crate) fn is_inside(&self, set: &Set, position: &Position) -> bool {
        let Position::At(bytes) = position else { return false };
        if !set.is_interval() || self.ordered.contains_key(bytes) {
            return false;
        }
        let is_start = |element: Option<(&Vec<u8>, &Element)>| {
            element.map(|(_, element)| element.flags & INTERVAL_END == 0)
        };
        let below = is_start(self.ordered.range::<Vec<u8>>(..bytes.clone()).next_back());
        let above = is_start(self.ordered.range::<Vec<u8>>(bytes.clone()..).next());
        below == Some(true) && above == Some(false)
    }
    /// Puts an element at a position, and returns the former one.
    pub(crate) fn put(&mut self, position: Position, element: Element) -> Option<Element> {
        self.next_expiry = match (self.next_expiry, element.expires) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match position {
            Position::CatchAll => self.catch_all.replace(element),
            Position::At(bytes) => self.ordered.insert(bytes, element),
        }
    }
    fn take(&mut self, position: &Position) -> Option<Element> {
        match position {
            Position::CatchAll => self.catch_all.take(),
            Position::At(bytes) => self.ordered.remove(bytes),
        }
    }
    /// Removes expired elements.
    pub(crate) fn collect(&mut self, now: SimTime) {
        if self.next_expiry.is_none_or(|expiry| expiry > now) {
            return;
        }
        self.ordered.retain(|_, element| !element.is_over(now));
        self.catch_all = self.catch_all.take().filter(|element| !element.is_over(now));
        self.next_expiry = self.ordered.values().chain(&self.catch_all).filter_map(|one| one.expires).min();
    }
}

/// True if each field of a key is in its range.
fn in_ranges(element: &Element, fields: &[u8], key: &[u8]) -> bool {
    let end = element.key_end.as_ref().unwrap_or(&element.key);
    let mut at = 0;
    fields.iter().all(|len| {
        let field = at..at + usize::from(*len);
        at = field.end.next_multiple_of(4);
        let parts = (element.key.get(field.clone()), key.get(field.clone()), end.get(field));
        matches!(parts, (Some(low), Some(key), Some(high)) if low <= key && key <= high)
    })
}

/// Elements of all sets of a namespace, by the numbers of the sets.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    sets: Map<u64, Elements>,
    none: Elements,
}

impl Contents {
    /// The elements of a set.
    pub(crate) fn of(&self, set: u64) -> &Elements {
        self.sets.get(&set).unwrap_or(&self.none)
    }
    /// The elements of a set, for changes.
    pub(crate) fn of_mut(&mut self, set: u64) -> &mut Elements {
        self.sets.entry(set).or_default()
    }
    /// Forgets a set.
    pub(crate) fn drop_set(&mut self, set: u64) {
        self.sets.remove(&set);
    }
    /// Puts an element into a set.
    pub(crate) fn put(&mut self, set: &Set, element: Element) -> Undo {
        let position = element.position(set);
        let former = self.of_mut(set.number).put(position.clone(), element);
        Undo { set: set.number, position, former }
    }
    /// Removes the element at a position.
    pub(crate) fn take(&mut self, set: &Set, position: Position) -> Undo {
        let former = self.of_mut(set.number).take(&position);
        Undo { set: set.number, position, former }
    }
    /// Undoes a change.
    pub(crate) fn undo(&mut self, change: Undo) {
        let elements = self.of_mut(change.set);
        match change.former {
            Some(element) => elements.put(change.position, element),
            None => elements.take(&change.position),
        };
    }
}

/// True if a set's elements may have timeouts.
pub(crate) fn has_timeouts(set: &Set) -> bool {
    set.has(flag::TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(flags: u32, fields: &[u8]) -> Set {
        Set {
            name: "s".into(),
            handle: 1,
            number: 1,
            flags,
            key_type: 0,
            key_len: 4,
            data_type: 0,
            data_len: 0,
            object_type: 0,
            policy: 0,
            size: 0,
            fields: fields.to_vec(),
            timeout: 0,
            gc_interval: 0,
            userdata: Vec::new(),
            expressions: Vec::new(),
        }
    }

    #[test]
    fn intervals_include_their_start_and_exclude_their_end() {
        let set = set(flag::INTERVAL, &[]);
        let mut contents = Contents::default();
        for (key, flags) in [([10, 0, 0, 0], 0), ([10, 0, 1, 0], INTERVAL_END), ([10, 0, 1, 0], 0)] {
            contents.put(&set, Element { flags, ..Element::new(key.to_vec()) });
        }
        contents.put(&set, Element { flags: INTERVAL_END, ..Element::new(vec![10, 0, 2, 0]) });
        let found = |key: [u8; 4]| contents.of(1).find(&set, &key, SimTime::ZERO).map(|e| e.key.clone());
        assert_eq!(found([10, 0, 0, 0]), Some(vec![10, 0, 0, 0]));
        assert_eq!(found([10, 0, 0, 255]), Some(vec![10, 0, 0, 0]));
        assert_eq!(found([10, 0, 1, 0]), Some(vec![10, 0, 1, 0]));
        assert_eq!((found([9, 255, 255, 255]), found([10, 0, 2, 0])), (None, None));
        let inside = |key: [u8; 4]| {
            let element = Element::new(key.to_vec());
            contents.of(1).is_inside(&set, &element.position(&set))
        };
        assert!(inside([10, 0, 0, 7]) && !inside([10, 0, 2, 0]) && !inside([9, 0, 0, 0]));
    }

    #[test]
    fn each_field_of_a_concatenation_has_a_range() {
        let set = set(flag::INTERVAL | flag::CONCAT, &[2, 1]);
        let mut contents = Contents::default();
        let key_end = Some(vec![0, 9, 0, 0, 3, 0, 0, 0]);
        contents.put(&set, Element { key_end, ..Element::new(vec![0, 5, 0, 0, 1, 0, 0, 0]) });
        let found = |key: [u8; 8]| contents.of(1).find(&set, &key, SimTime::ZERO).is_some();
        assert!(found([0, 5, 0, 0, 3, 0, 0, 0]) && found([0, 9, 0, 0, 1, 0, 0, 0]));
        assert!(!found([0, 9, 0, 0, 4, 0, 0, 0]) && !found([0, 4, 0, 0, 2, 0, 0, 0]));
    }

    #[test]
    fn elements_expire_and_changes_are_undone() {
        let set = set(flag::TIMEOUT, &[]);
        let mut contents = Contents::default();
        let expires = Some(SimTime::from_secs(5));
        let undo = contents.put(&set, Element { expires, ..Element::new(vec![1, 2, 3, 4]) });
        let found = |contents: &Contents, secs| {
            contents.of(1).find(&set, &[1, 2, 3, 4], SimTime::from_secs(secs)).is_some()
        };
        assert!(found(&contents, 4) && !found(&contents, 5));
        let taken = contents.take(&set, Position::At(vec![1, 2, 3, 4]));
        assert!(!found(&contents, 4));
        contents.undo(taken);
        assert!(found(&contents, 4));
        contents.of_mut(1).collect(SimTime::from_secs(5));
        assert_eq!(contents.of(1).len(), 0);
        contents.undo(undo);
        assert_eq!(contents.of(1).len(), 0);
    }
}
