//! Iterators over a [`Map`], in ascending order of keys and backwards.

use super::{Map, Position};
use std::iter::FusedIterator;
use std::{slice, vec};

/// Declares an iterator over chunks: the rest of the first one, the chunks between, and the rest of the last one.
macro_rules! over_chunks {
    ($(#[$doc:meta])* $name:ident<$($life:lifetime)?>, $entries:ty, $chunks:ty, $item:ty, |$entry:ident| $given:expr) => {
        $(#[$doc])*
        pub struct $name<$($life,)? K, V> {
            front: $entries,
            middle: $chunks,
            back: $entries,
        }

        impl<$($life,)? K, V> Iterator for $name<$($life,)? K, V> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                loop {
                    if let Some($entry) = self.front.next() {
                        return Some($given);
                    }
                    match self.middle.next() {
                        Some(chunk) => self.front = chunk.into_iter(),
                        None => break,
                    }
                }
                match self.back.next() {
                    Some($entry) => Some($given),
                    None => None,
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let mut left = self.front.len() + self.back.len();
                for chunk in self.middle.as_slice() {
                    left += chunk.len();
                }
                (left, Some(left))
            }
        }

        impl<$($life,)? K, V> DoubleEndedIterator for $name<$($life,)? K, V> {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                loop {
                    if let Some($entry) = self.back.next_back() {
                        return Some($given);
                    }
                    match self.middle.next_back() {
                        Some(chunk) => self.back = chunk.into_iter(),
                        None => break,
                    }
                }
                match self.front.next_back() {
                    Some($entry) => Some($given),
                    None => None,
                }
            }
        }

        impl<$($life,)? K, V> ExactSizeIterator for $name<$($life,)? K, V> {}
        impl<$($life,)? K, V> FusedIterator for $name<$($life,)? K, V> {}
    };
}

over_chunks!(
    /// Iterator over entries.
    Iter<'a>, slice::Iter<'a, (K, V)>, slice::Iter<'a, Vec<(K, V)>>, (&'a K, &'a V), |entry| (&entry.0, &entry.1)
);
over_chunks!(
    /// Iterator over entries whose values can be changed.
    IterMut<'a>, slice::IterMut<'a, (K, V)>, slice::IterMut<'a, Vec<(K, V)>>, (&'a K, &'a mut V), |entry| (&entry.0, &mut entry.1)
);
over_chunks!(
    /// Iterator that owns its entries.
    IntoIter<>, vec::IntoIter<(K, V)>, vec::IntoIter<Vec<(K, V)>>, (K, V), |entry| entry
);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { front: self.front.clone(), middle: self.middle.clone(), back: self.back.clone() }
    }
}

impl<'a, K, V> Iter<'a, K, V> {
    /// The entries from one position up to another, exclusively.
    pub(super) fn between(chunks: &'a [Vec<(K, V)>], from: Position, to: Position) -> Self {
        let empty: &[(K, V)] = &[];
        let Some(first) = chunks.get(from.chunk) else {
            return Iter { front: empty.iter(), middle: [].iter(), back: empty.iter() };
        };
        if from.chunk == to.chunk {
            return Iter { front: first[from.index..to.index].iter(), middle: [].iter(), back: empty.iter() };
        }
        let back = chunks.get(to.chunk).map_or(empty, |last| &last[..to.index]);
        Iter {
            front: first[from.index..].iter(),
            middle: chunks[from.chunk + 1..to.chunk].iter(),
            back: back.iter(),
        }
    }
}

impl<'a, K, V> IterMut<'a, K, V> {
    /// The entries from one position up to another, exclusively.
    pub(super) fn between(chunks: &'a mut [Vec<(K, V)>], from: Position, to: Position) -> Self {
        let (chunks, last) = chunks.split_at_mut(to.chunk);
        let back: &mut [(K, V)] = match last.first_mut() {
            Some(last) if from.chunk == to.chunk => {
                return IterMut {
                    front: last[from.index..to.index].iter_mut(),
                    middle: [].iter_mut(),
                    back: [].iter_mut(),
                };
            }
            Some(last) => &mut last[..to.index],
            None => &mut [],
        };
        match chunks.get_mut(from.chunk..).and_then(<[_]>::split_first_mut) {
            Some((first, middle)) => IterMut {
                front: first[from.index..].iter_mut(),
                middle: middle.iter_mut(),
                back: back.iter_mut(),
            },
            None => IterMut { front: [].iter_mut(), middle: [].iter_mut(), back: back.iter_mut() },
        }
    }
}

/// Declares an iterator over one part of each entry.
macro_rules! over_part {
    ($(#[$doc:meta])* $name:ident<$($life:lifetime)?>, $of:ty, $item:ty, |$entry:ident| $given:expr) => {
        $(#[$doc])*
        pub struct $name<$($life,)? K, V>($of);

        impl<$($life,)? K, V> Iterator for $name<$($life,)? K, V> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                match self.0.next() {
                    Some($entry) => Some($given),
                    None => None,
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<$($life,)? K, V> DoubleEndedIterator for $name<$($life,)? K, V> {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                match self.0.next_back() {
                    Some($entry) => Some($given),
                    None => None,
                }
            }
        }

        impl<$($life,)? K, V> ExactSizeIterator for $name<$($life,)? K, V> {}
        impl<$($life,)? K, V> FusedIterator for $name<$($life,)? K, V> {}
    };
}

over_part!(
    /// Iterator over keys.
    Keys<'a>, Iter<'a, K, V>, &'a K, |entry| entry.0
);
over_part!(
    /// Iterator over values.
    Values<'a>, Iter<'a, K, V>, &'a V, |entry| entry.1
);
over_part!(
    /// Iterator over values that can be changed.
    ValuesMut<'a>, IterMut<'a, K, V>, &'a mut V, |entry| entry.1
);
over_part!(
    /// Iterator that owns the keys.
    IntoKeys<>, IntoIter<K, V>, K, |entry| entry.0
);
over_part!(
    /// Iterator that owns the values.
    IntoValues<>, IntoIter<K, V>, V, |entry| entry.1
);

impl<'a, K, V> Keys<'a, K, V> {
    /// The keys of entries.
    pub(super) fn of(entries: Iter<'a, K, V>) -> Self {
        Keys(entries)
    }
}

impl<K, V> Clone for Keys<'_, K, V> {
    fn clone(&self) -> Self {
        Keys(self.0.clone())
    }
}

impl<K, V> Clone for Values<'_, K, V> {
    fn clone(&self) -> Self {
        Values(self.0.clone())
    }
}

impl<K, V> Map<K, V> {
    /// The entries in ascending order of keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { front: [].iter(), middle: self.chunks.iter(), back: [].iter() }
    }

    /// The entries in ascending order of keys, to change their values.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut { front: [].iter_mut(), middle: self.chunks.iter_mut(), back: [].iter_mut() }
    }

    /// The keys in ascending order.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.iter())
    }

    /// The values in ascending order of keys.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// The values in ascending order of keys, to change them.
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.iter_mut())
    }

    /// The keys in ascending order, owned.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.into_iter())
    }

    /// The values in ascending order of keys, owned.
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.into_iter())
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter {
            front: Vec::new().into_iter(),
            middle: self.chunks.into_iter(),
            back: Vec::new().into_iter(),
        }
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut Map<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}
