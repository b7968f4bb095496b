//! Node numbers for the addresses in topology tuples.
//!
//! Routes are recomputed after every change of the topology, in a large mobile network for nearly every
//! packet. With small numbers instead of addresses the computation is a traversal of arrays.

use belljar_base::Map;
use std::net::Ipv4Addr;

/// A bijection of addresses and numbers; a number is valid as long as a tuple uses it.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Keyed by the address's bits, which compare faster.
    numbers: Map<u32, u32>,
    /// Indexed by number: the address, and the number of tuples that use it.
    named: Vec<(Ipv4Addr, u32)>,
    free: Vec<u32>,
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes { numbers: Map::new(), named: Vec::new(), free: Vec::new() }
    }
    /// Upper bound (exclusive) of all numbers.
    pub fn bound(&self) -> usize {
        self.named.len()
    }
    /// The number of an address used by a tuple.
    pub fn number(&self, address: Ipv4Addr) -> Option<usize> {
        self.numbers.get(&address.to_bits()).map(|number| *number as usize)
    }
    /// The address with this number.
    pub fn address(&self, number: u32) -> Ipv4Addr {
        self.named[number as usize].0
    }
    /// All numbered addresses in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv4Addr, usize)> + '_ {
        self.numbers.iter().map(|(bits, number)| (Ipv4Addr::from_bits(*bits), *number as usize))
    }
    /// Adds a use of an address by a new tuple. Returns its number, and whether the number is new.
    pub fn take(&mut self, address: Ipv4Addr) -> (u32, bool) {
        let (named, free) = (&mut self.named, &mut self.free);
        let number = *self.numbers.entry(address.to_bits()).or_insert_with(|| {
            let number = free.pop().unwrap_or(named.len() as u32);
            if number as usize == named.len() {
                named.push((address, 0));
            } else {
                named[number as usize] = (address, 0);
            }
            number
        });
        let tuples = &mut named[number as usize].1;
        *tuples += 1;
        (number, *tuples == 1)
    }
    /// Removes the uses by a deleted tuple.
    pub fn release_all(&mut self, numbers: [u32; 2]) {
        for number in numbers {
            self.release(number);
        }
    }
    fn release(&mut self, number: u32) {
        let (address, tuples) = &mut self.named[number as usize];
        *tuples -= 1;
        if *tuples == 0 {
            self.numbers.remove(&address.to_bits());
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_they_are_used_and_come_again_after() {
        let at = |n| Ipv4Addr::new(10, 0, 0, n);
        let mut nodes = Nodes::new();
        assert_eq!([5, 1, 5].map(|n| nodes.take(at(n))), [(0, true), (1, true), (0, false)]);
        assert_eq!(nodes.iter().collect::<Vec<_>>(), [(at(1), 1), (at(5), 0)]);
        nodes.release(0);
        assert_eq!((nodes.number(at(5)), nodes.address(0)), (Some(0), at(5)));
        nodes.release(0);
        assert_eq!(nodes.number(at(5)), None);
        assert_eq!((nodes.take(at(9)), nodes.bound()), ((0, true), 2));
    }
}
