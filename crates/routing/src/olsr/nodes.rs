//! Numbers for the nodes that topology tuples name.
//!
//! Routes are computed anew whenever the topology has changed, which in a large mobile network is with nearly every packet.
//! With small numbers in place of addresses, that is a walk over arrays.

use belljar_base::Map;
use std::net::Ipv4Addr;

/// Addresses with a number each, which stays while a tuple uses it.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// By the address's bits, which are faster to compare.
    numbers: Map<u32, u32>,
    /// By number, the address and how many tuples name it.
    named: Vec<(Ipv4Addr, u32)>,
    free: Vec<u32>,
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes { numbers: Map::new(), named: Vec::new(), free: Vec::new() }
    }
    /// Numbers are less than this.
    pub fn bound(&self) -> usize {
        self.named.len()
    }
    /// The number of an address that some tuple names.
    pub fn number(&self, address: Ipv4Addr) -> Option<usize> {
        self.numbers.get(&address.to_bits()).map(|number| *number as usize)
    }
    /// The address with this number.
    pub fn address(&self, number: u32) -> Ipv4Addr {
        self.named[number as usize].0
    }
    /// All that have one, by address.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv4Addr, usize)> + '_ {
        self.numbers.iter().map(|(bits, number)| (Ipv4Addr::from_bits(*bits), *number as usize))
    }
    /// A new tuple names an address. Gives its number, and whether that is a new one.
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
    /// A tuple that named these is gone.
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
