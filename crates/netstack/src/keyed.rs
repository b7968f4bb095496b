//! Tables of sockets and of program ends of TUN and TAP interfaces, by keys unique among the stacks of one
//! owner. A key thus identifies its stack.
//!
//! The first stack of an owner allocates keys below [`FURTHER`] and stores its objects in a slab. The further
//! stacks share the keys from there on and store their objects in maps. The table of these keys is held by
//! the stack whose turn it is: see [`networks`](crate::networks).

use belljar_base::Map;
use slab::Slab;
use std::ops::{Index, IndexMut};

/// The first key of the further stacks of an owner.
pub const FURTHER: usize = 1 << 30;

/// The objects of one kind that a stack owns.
#[derive(Debug)]
pub struct Keyed<T> {
    first: Slab<T>,
    /// Present if the owner has several stacks.
    further: Option<Box<Further<T>>>,
}

/// State of a stack whose owner has several stacks.
#[derive(Debug)]
struct Further<T> {
    /// The number of the stack.
    stack: u32,
    /// The owning stack of each key from [`FURTHER`] on; held during this stack's turn.
    keys: Slab<u32>,
    /// The objects of a further stack.
    objects: Map<usize, T>,
}

impl<T> Further<T> {
    fn new(stack: u32) -> Box<Further<T>> {
        Box::new(Further { stack, keys: Slab::new(), objects: Map::new() })
    }
    #[cold]
    fn there(this: &mut Option<Box<Further<T>>>, key: usize) -> &mut T {
        let object = this.as_mut().and_then(|further| further.objects.get_mut(&key));
        object.expect("the stack has an object of this key")
    }
}

impl<T> Default for Keyed<T> {
    fn default() -> Keyed<T> {
        Keyed { first: Slab::new(), further: None }
    }
}

impl<T> Keyed<T> {
    /// Creates an empty table for the stack `stack`, which is not 0.
    pub fn of_further(stack: u32) -> Keyed<T> {
        Keyed { first: Slab::new(), further: Some(Further::new(stack)) }
    }
    /// Takes the table of keys from the stack whose turn it was.
    pub fn take_keys(&mut self, from: &mut Keyed<T>) {
        let keys = from.further.as_mut().map(|further| std::mem::take(&mut further.keys)).unwrap_or_default();
        self.further.get_or_insert_with(|| Further::new(0)).keys = keys;
    }
    /// The number of the stack that owns a key. Valid during this stack's turn.
    pub fn stack_of(&self, key: usize) -> u32 {
        let given = || self.further.as_ref()?.keys.get(key.checked_sub(FURTHER)?).copied();
        given().unwrap_or(0)
    }
    /// Inserts an object and returns its key.
    pub fn insert(&mut self, object: T) -> usize {
        match &mut self.further {
            Some(further) if further.stack != 0 => {
                let key = FURTHER + further.keys.insert(further.stack);
                further.objects.insert(key, object);
                key
            }
            _ => self.first.insert(object),
        }
    }
    /// Removes the object of a key, which must exist.
    pub fn remove(&mut self, key: usize) -> T {
        match &mut self.further {
            Some(further) if further.stack != 0 => {
                further.keys.remove(key - FURTHER);
                further.objects.remove(&key).expect("the stack has an object of this key")
            }
            _ => self.first.remove(key),
        }
    }
    /// The object of a key, if it belongs to this stack.
    #[inline]
    pub fn get(&self, key: usize) -> Option<&T> {
        match self.first.get(key) {
            None => self.get_further(key),
            found => found,
        }
    }
    /// The object of a key, mutable, if it belongs to this stack.
    #[inline]
    pub fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        let Keyed { first, further } = self;
        match first.get_mut(key) {
            None => further.as_mut()?.objects.get_mut(&key),
            found => found,
        }
    }
    #[cold]
    fn get_further(&self, key: usize) -> Option<&T> {
        self.further.as_ref()?.objects.get(&key)
    }
    #[cold]
    fn there(&self, key: usize) -> &T {
        self.get_further(key).expect("the stack has an object of this key")
    }
    /// All objects with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let further = self.further.iter().flat_map(|further| further.objects.iter());
        self.first.iter().chain(further.map(|(key, object)| (*key, object)))
    }
    /// Number of objects.
    pub fn len(&self) -> usize {
        self.first.len() + self.further.as_ref().map_or(0, |further| further.objects.len())
    }
    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Index<usize> for Keyed<T> {
    type Output = T;
    #[inline]
    fn index(&self, key: usize) -> &T {
        match self.first.get(key) {
            Some(object) => object,
            None => self.there(key),
        }
    }
}

impl<T> IndexMut<usize> for Keyed<T> {
    #[inline]
    fn index_mut(&mut self, key: usize) -> &mut T {
        let Keyed { first, further } = self;
        match first.get_mut(key) {
            Some(object) => object,
            None => Further::there(further, key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_stack() {
        let mut first = Keyed::default();
        let [mut one, mut two] = [1, 2].map(Keyed::of_further);
        let own = first.insert('a');
        one.take_keys(&mut first);
        let of_one = one.insert('b');
        first.take_keys(&mut one);
        two.take_keys(&mut first);
        let of_two = two.insert('b');
        assert_eq!([own, of_one, of_two].map(|key| two.stack_of(key)), [0, 1, 2]);
        assert_eq!((first.get(own), first.get(of_one), two.get(of_one)), (Some(&'a'), None, None));
        assert_eq!((one.get(of_one), first.insert('c')), (Some(&'b'), own + 1));
        one[of_one] = 'c';
        assert_eq!(one.iter().collect::<Vec<_>>(), [(of_one, &'c')]);
        one.take_keys(&mut two);
        assert_eq!((one.remove(of_one), one.len()), ('c', 0));
        two.take_keys(&mut one);
        assert_eq!(two.insert('d'), of_one, "it is free again");
    }
}
