//! Longest prefix match: a tree bitmap with a stride of six bits.
//!
//! Two bitmaps in each node give the prefixes that end in it and the children that exist. Both are stored in
//! dense arrays, indexed by population counts. A lookup touches one or two cache lines per level, whatever
//! the number of entries.

/// Bits consumed per node.
const STRIDE: u32 = 6;

#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    root: TrieNode,
}

#[derive(Clone, Debug, Default)]
struct TrieNode {
    /// Prefixes of 0 to 5 bits that end in this node: a prefix of `len` bits with value `v` is bit `(1 <<
    /// len) - 1 + v`.
    prefixes: u64,
    /// Children, by their six bits.
    children: u64,
    values: Vec<u32>,
    nodes: Vec<TrieNode>,
}

fn below(set: u64, bit: u32) -> usize {
    (set & ((1 << bit) - 1)).count_ones() as usize
}

/// For each value of six bits, the set of its prefixes.
const COVERING: [u64; 64] = {
    let mut table = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        let mut len = 0;
        while len < STRIDE {
            table[bits] |= 1 << ((1 << len) - 1 + (bits >> (STRIDE - len)));
            len += 1;
        }
        bits += 1;
    }
    table
};

impl TrieNode {
    fn memory(&self) -> usize {
        let below = self.nodes.iter().map(TrieNode::memory).sum::<usize>();
        size_of::<TrieNode>() + size_of_val(&self.values[..]) + below
    }
}

impl Trie {
    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Value of the longest prefix of a key. `chunk` returns six key bits at a bit offset.
    #[inline]
    pub fn find(&self, chunk: impl Fn(u32) -> u32) -> Option<u32> {
        let (mut node, mut best, mut at) = (&self.root, None, 0);
        loop {
            let bits = chunk(at) & 63;
            let covering = node.prefixes & COVERING[bits as usize];
            if covering != 0 {
                let bit = 63 - covering.leading_zeros();
                best = Some(node.values[below(node.prefixes, bit)]);
            }
            if node.children & (1 << bits) == 0 {
                return best;
            }
            node = &node.nodes[below(node.children, bits)];
            at += STRIDE;
        }
    }

    /// Adds a prefix that the tree does not contain.
    pub fn insert(&mut self, prefix: u32, chunk: impl Fn(u32) -> u32, value: u32) {
        let (mut node, mut at) = (&mut self.root, 0);
        while prefix - at >= STRIDE {
            let bits = chunk(at) & 63;
            let place = below(node.children, bits);
            if node.children & (1 << bits) == 0 {
                node.children |= 1 << bits;
                node.nodes.insert(place, TrieNode::default());
            }
            node = &mut node.nodes[place];
            at += STRIDE;
        }
        let bit = TrieNode::bit(prefix - at, chunk(at) & 63);
        node.prefixes |= 1 << bit;
        node.values.insert(below(node.prefixes, bit), value);
    }

    /// Removes a prefix that the tree contains.
    pub fn remove(&mut self, prefix: u32, chunk: impl Fn(u32) -> u32) {
        self.root.remove(prefix, 0, &chunk);
    }
}

impl TrieNode {
    fn bit(len: u32, bits: u32) -> u32 {
        (1 << len) - 1 + (bits >> (STRIDE - len))
    }
    fn remove(&mut self, prefix: u32, at: u32, chunk: &impl Fn(u32) -> u32) {
        let bits = chunk(at) & 63;
        if prefix - at < STRIDE {
            let bit = TrieNode::bit(prefix - at, bits);
            if self.prefixes & (1 << bit) != 0 {
                self.values.remove(below(self.prefixes, bit));
                self.prefixes &= !(1 << bit);
            }
            return;
        }
        if self.children & (1 << bits) == 0 {
            return;
        }
        let place = below(self.children, bits);
        self.nodes[place].remove(prefix, at + STRIDE, chunk);
        if self.nodes[place].prefixes == 0 && self.nodes[place].children == 0 {
            self.nodes.remove(place);
            self.children &= !(1 << bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::{Map, Seed};

    fn chunk(key: u32) -> impl Fn(u32) -> u32 {
        move |at| ((u64::from(key) << 32) << at >> 58) as u32
    }

    #[test]
    fn it_finds_what_a_scan_finds() {
        let (mut trie, mut model, mut stream) = (Trie::default(), Map::new(), Seed(5).stream(&["trie"]));
        for round in 0..5_000u32 {
            let prefix = stream.below(33) as u32;
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            let key = (stream.next_u32() & 0x0303_ffff) & mask;
            if model.remove(&(prefix, key)).is_some() {
                trie.remove(prefix, chunk(key));
            } else {
                trie.insert(prefix, chunk(key), round);
                model.insert((prefix, key), round);
            }
            let key = stream.next_u32() & 0x0303_ffff;
            let longest = model
                .iter()
                .rev()
                .find(|((prefix, value), _)| key & u32::MAX.checked_shl(32 - prefix).unwrap_or(0) == *value);
            assert_eq!(trie.find(chunk(key)), longest.map(|(_, round)| *round));
        }
        for (prefix, key) in model.into_keys() {
            trie.remove(prefix, chunk(key));
        }
        assert_eq!((trie.root.prefixes, trie.root.children), (0, 0));
    }
}
