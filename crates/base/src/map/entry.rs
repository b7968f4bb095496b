//! Entries of a [`Map`]: the result of one search for a key.

use super::{Map, Position};

/// Entry of a key, which may or may not be there.
pub enum Entry<'a, K, V> {
    /// The key is there.
    Occupied(OccupiedEntry<'a, K, V>),
    /// The key is not there.
    Vacant(VacantEntry<'a, K, V>),
}

/// Entry of a key that is there.
pub struct OccupiedEntry<'a, K, V> {
    pub(super) map: &'a mut Map<K, V>,
    pub(super) at: Position,
}

/// Entry of a key that is not there.
pub struct VacantEntry<'a, K, V> {
    pub(super) map: &'a mut Map<K, V>,
    pub(super) at: Position,
    pub(super) key: K,
}

impl<'a, K, V> Entry<'a, K, V> {
    /// The value, after `default` has been inserted if there was none.
    pub fn or_insert(self, default: V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(default),
        }
    }

    /// The value, after the result of `default` has been inserted if there was none.
    pub fn or_insert_with(self, default: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(default()),
        }
    }

    /// The value, after the type's default has been inserted if there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value, if there is one.
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Entry<'a, K, V> {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K, V> OccupiedEntry<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.map.chunks[self.at.chunk][self.at.index].0
    }

    /// The value.
    pub fn get(&self) -> &V {
        &self.map.chunks[self.at.chunk][self.at.index].1
    }

    /// The value, to change it.
    pub fn get_mut(&mut self) -> &mut V {
        &mut self.map.chunks[self.at.chunk][self.at.index].1
    }

    /// The value, borrowed for as long as the map was.
    pub fn into_mut(self) -> &'a mut V {
        &mut self.map.chunks[self.at.chunk][self.at.index].1
    }

    /// Replaces the value and returns the old one.
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns its value.
    pub fn remove(self) -> V {
        self.remove_entry().1
    }

    /// Removes the entry and returns it.
    pub fn remove_entry(self) -> (K, V) {
        self.map.take(self.at)
    }
}

impl<'a, K, V> VacantEntry<'a, K, V> {
    /// The key that an insertion would use.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Inserts a value for the key.
    pub fn insert(self, value: V) -> &'a mut V {
        let at = self.map.put(self.at, self.key, value);
        &mut self.map.chunks[at.chunk][at.index].1
    }
}
