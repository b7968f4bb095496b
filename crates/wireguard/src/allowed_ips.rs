//! Networks of the peers: the peer of a packet's destination, and the only one from which a source is accepted.

use crate::Key;
use belljar_base::Map;
use std::net::IpAddr;

/// Networks of the peers of a device. The longest prefix counts.
#[derive(Clone, Debug, Default)]
pub struct AllowedIps {
    /// Networks by family, length and address.
    networks: Map<(bool, u8, u128), Key>,
    /// Number of networks of each length, by family: lookups try these lengths alone.
    lengths: Map<(bool, u8), usize>,
    /// Networks of each peer, in the order in which they are listed.
    lists: Map<Key, Vec<(IpAddr, u8)>>,
}

/// Address as a number whose first bit is the highest, and the family.
fn number(ip: IpAddr) -> (bool, u128) {
    match ip {
        IpAddr::V4(ip) => (false, u128::from(u32::from(ip)) << 96),
        IpAddr::V6(ip) => (true, u128::from(ip)),
    }
}

fn masked(bits: u128, len: u8) -> u128 {
    if len == 0 { 0 } else { bits & (u128::MAX << (128 - u32::from(len))) }
}

fn address(v6: bool, bits: u128) -> IpAddr {
    if v6 { IpAddr::V6(bits.into()) } else { IpAddr::V4(((bits >> 96) as u32).into()) }
}

impl AllowedIps {
    /// Gives a network to a peer. Another peer that has it loses it.
    pub fn insert(&mut self, ip: IpAddr, len: u8, peer: Key) {
        let (v6, bits) = number(ip);
        let bits = masked(bits, len);
        let network = (address(v6, bits), len);
        if let Some(before) = self.networks.insert((v6, len, bits), peer) {
            self.forget(before, network);
        } else {
            *self.lengths.entry((v6, len)).or_default() += 1;
        }
        // Linux adds to the end of the peer's list.
        self.lists.entry(peer).or_default().push(network);
    }

    /// Takes a network from a peer that has exactly it.
    pub fn remove(&mut self, ip: IpAddr, len: u8, peer: Key) {
        let (v6, bits) = number(ip);
        let bits = masked(bits, len);
        if self.networks.get(&(v6, len, bits)) == Some(&peer) {
            self.delete((v6, len, bits));
            self.forget(peer, (address(v6, bits), len));
        }
    }

    /// Takes all networks from a peer.
    pub fn remove_peer(&mut self, peer: Key) {
        for (ip, len) in self.lists.remove(&peer).unwrap_or_default() {
            let (v6, bits) = number(ip);
            self.delete((v6, len, bits));
        }
    }

    fn delete(&mut self, key: (bool, u8, u128)) {
        self.networks.remove(&key);
        if let Some(count) = self.lengths.get_mut(&(key.0, key.1)) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&(key.0, key.1));
            }
        }
    }

    fn forget(&mut self, peer: Key, network: (IpAddr, u8)) {
        if let Some(list) = self.lists.get_mut(&peer) {
            list.retain(|other| *other != network);
        }
    }

    /// Peer of an address.
    pub fn lookup(&self, ip: IpAddr) -> Option<Key> {
        let (v6, bits) = number(ip);
        let mut lengths = self.lengths.range((v6, 0)..=(v6, 128)).map(|((_, len), _)| *len).rev();
        lengths.find_map(|len| self.networks.get(&(v6, len, masked(bits, len)))).copied()
    }

    /// Networks of a peer.
    pub fn of_peer(&self, peer: Key) -> &[(IpAddr, u8)] {
        self.lists.get(&peer).map_or(&[], |list| list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts_and_moves_between_peers() {
        let [a, b, c] = [[1; 32], [2; 32], [3; 32]];
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut table = AllowedIps::default();
        table.insert(ip("10.0.0.0"), 8, a);
        table.insert(ip("10.1.2.3"), 16, b);
        table.insert(ip("0.0.0.0"), 0, c);
        table.insert(ip("2001:db8::1"), 128, a);
        assert_eq!(table.of_peer(b), [(ip("10.1.0.0"), 16)]);
        assert_eq!(table.lookup(ip("10.1.9.9")), Some(b));
        assert_eq!(table.lookup(ip("10.2.9.9")), Some(a));
        assert_eq!(table.lookup(ip("11.0.0.1")), Some(c));
        assert_eq!(table.lookup(ip("2001:db8::1")), Some(a));
        assert_eq!(table.lookup(ip("2001:db8::2")), None);
        table.insert(ip("10.1.0.0"), 16, a);
        assert_eq!((table.lookup(ip("10.1.9.9")), table.of_peer(b)), (Some(a), &[][..]));
        table.remove(ip("10.1.0.0"), 16, b);
        assert_eq!(table.lookup(ip("10.1.9.9")), Some(a));
        table.remove_peer(a);
        assert_eq!(table.lookup(ip("10.1.9.9")), Some(c));
        assert_eq!(table.lookup(ip("2001:db8::1")), None);
    }
}
