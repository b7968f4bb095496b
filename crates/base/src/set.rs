//! [`Set`]: an ordered set over [`Map`].

use crate::map::{self, Map};
use serde_core::de::{SeqAccess, Visitor};
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Peekable;
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// Ordered set for simulation code: iteration is in ascending order, never random. The methods match those of
/// `std::collections::BTreeSet`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set<K>(Map<K, ()>);

/// Iterator over elements, in ascending order and backwards.
pub type Iter<'a, K> = map::Keys<'a, K, ()>;

impl<K> Set<K> {
    /// An empty set, which owns no memory.
    pub const fn new() -> Set<K> {
        Set(Map::new())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The elements in ascending order.
    pub fn iter(&self) -> Iter<'_, K> {
        self.0.keys()
    }

    /// The first element.
    pub fn first(&self) -> Option<&K> {
        Some(self.0.first_key_value()?.0)
    }

    /// The last element.
    pub fn last(&self) -> Option<&K> {
        Some(self.0.last_key_value()?.0)
    }

    /// Removes and returns the first element.
    pub fn pop_first(&mut self) -> Option<K> {
        Some(self.0.pop_first()?.0)
    }

    /// Removes and returns the last element.
    pub fn pop_last(&mut self) -> Option<K> {
        Some(self.0.pop_last()?.0)
    }

    /// Keeps the elements for which `keep` is true, asked in ascending order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| keep(key));
    }
}

impl<K: Ord> Set<K> {
    /// True if the set has the element.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// The stored element that equals `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        Some(self.0.get_key_value(key)?.0)
    }

    /// Adds an element. Returns true if it was not there.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Removes an element. Returns true if it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove(key).is_some()
    }

    /// Removes an element and returns it.
    pub fn take<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<K>
    where
        K: Borrow<Q>,
    {
        Some(self.0.remove_entry(key)?.0)
    }

    /// Moves all elements of another set here.
    pub fn append(&mut self, other: &mut Set<K>) {
        self.0.append(&mut other.0);
    }

    /// Splits the set: the elements from `key` on are returned, the ones before it stay.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q) -> Set<K>
    where
        K: Borrow<Q>,
    {
        Set(self.0.split_off(key))
    }

    /// The elements in a range, in ascending order.
    ///
    /// # Panics
    ///
    /// If the range's start is greater than its end.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Iter<'_, K>
    where
        K: Borrow<Q>,
    {
        self.0.range_keys(range)
    }

    /// The elements that are here and not in another set, in ascending order.
    pub fn difference<'a>(&'a self, other: &'a Set<K>) -> impl Iterator<Item = &'a K> + Clone {
        self.iter().filter(|key| !other.contains(*key))
    }

    /// The elements that are in both sets, in ascending order.
    pub fn intersection<'a>(&'a self, other: &'a Set<K>) -> impl Iterator<Item = &'a K> + Clone {
        self.iter().filter(|key| other.contains(*key))
    }

    /// The elements of both sets, in ascending order, each once.
    pub fn union<'a>(&'a self, other: &'a Set<K>) -> Union<'a, K> {
        Union { one: self.iter().peekable(), other: other.iter().peekable() }
    }

    /// True if another set has all elements of this one.
    pub fn is_subset(&self, other: &Set<K>) -> bool {
        self.iter().all(|key| other.contains(key))
    }

    /// True if this set has all elements of another one.
    pub fn is_superset(&self, other: &Set<K>) -> bool {
        other.is_subset(self)
    }

    /// True if no element is in both sets.
    pub fn is_disjoint(&self, other: &Set<K>) -> bool {
        !self.iter().any(|key| other.contains(key))
    }
}

/// Iterator over the elements of two sets, in ascending order.
#[derive(Clone)]
pub struct Union<'a, K> {
    one: Peekable<Iter<'a, K>>,
    other: Peekable<Iter<'a, K>>,
}

impl<'a, K: Ord> Iterator for Union<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        let (Some(one), Some(other)) = (self.one.peek(), self.other.peek()) else {
            return self.one.next().or_else(|| self.other.next());
        };
        match one.cmp(other) {
            std::cmp::Ordering::Less => self.one.next(),
            std::cmp::Ordering::Greater => self.other.next(),
            std::cmp::Ordering::Equal => {
                self.other.next();
                self.one.next()
            }
        }
    }
}

impl<K> Default for Set<K> {
    fn default() -> Self {
        Set::new()
    }
}

impl<K: Ord> FromIterator<K> for Set<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Set::new();
        set.extend(keys);
        set
    }
}

impl<K: Ord, const N: usize> From<[K; N]> for Set<K> {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: Ord> Extend<K> for Set<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<'a, K: Ord + Copy> Extend<&'a K> for Set<K> {
    fn extend<I: IntoIterator<Item = &'a K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(*key);
        }
    }
}

impl<K> IntoIterator for Set<K> {
    type Item = K;
    type IntoIter = map::IntoKeys<K, ()>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_keys()
    }
}

impl<'a, K> IntoIterator for &'a Set<K> {
    type Item = &'a K;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}

impl<K: Hash> Hash for Set<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<K: fmt::Debug> fmt::Debug for Set<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<K: Serialize> Serialize for Set<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// Visitor that collects a set's elements.
struct Elements<K>(PhantomData<K>);

impl<'de, K: Deserialize<'de> + Ord> Visitor<'de> for Elements<K> {
    type Value = Set<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Set<K>, A::Error> {
        let mut set = Set::new();
        while let Some(key) = access.next_element()? {
            set.insert(key);
        }
        Ok(set)
    }
}

impl<'de, K: Deserialize<'de> + Ord> Deserialize<'de> for Set<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}
