//! Selection of multipoint relays: the heuristic of RFC 3626, section 8.3.1.

use super::packet::{WILL_ALWAYS, WILL_NEVER};
use belljar_base::{Map, Set};
use std::cmp::Reverse;
use std::net::Ipv4Addr;

/// A neighbour that can be selected as a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Willingness of the neighbour.
    pub willingness: u8,
    /// 2-hop neighbours reached by the neighbour, without duplicates: members of `N2`, that is neither the
    /// node itself nor its symmetric neighbours.
    pub reaches: Vec<Ipv4Addr>,
}

/// Selects relays that cover all of `N2` among the neighbours on one interface.
pub(super) fn select(neighbors: &Map<Ipv4Addr, Candidate>) -> Set<Ipv4Addr> {
    let able: Vec<(Ipv4Addr, &Candidate)> =
        neighbors.iter().filter(|(_, c)| c.willingness != WILL_NEVER).map(|(main, c)| (*main, c)).collect();
    // Nodes of N2, identified by their index in this list.
    let mut n2: Vec<Ipv4Addr> = able.iter().flat_map(|(_, c)| &c.reaches).copied().collect();
    n2.sort_unstable();
    n2.dedup();
    let place = |two_hop: &Ipv4Addr| n2.binary_search(two_hop).ok();
    let reaches: Vec<Vec<usize>> =
        able.iter().map(|(_, c)| c.reaches.iter().filter_map(place).collect()).collect();
    // For each node of N2: the number of neighbours that reach it, and the last of them; the number of
    // selected relays that reach it.
    let mut ways = vec![(0, 0); n2.len()];
    for (n, theirs) in reaches.iter().enumerate() {
        theirs.iter().for_each(|two_hop| ways[*two_hop] = (ways[*two_hop].0 + 1, n));
    }
    let mut covered = vec![0; n2.len()];
    let mut is_relay = vec![false; able.len()];
    let mut add = |n: usize, covered: &mut Vec<u32>| {
        if !std::mem::replace(&mut is_relay[n], true) {
            reaches[n].iter().for_each(|two_hop| covered[*two_hop] += 1);
        }
    };
    // "1. Start with an MPR set made of all members of N with N_willingness equal to WILL_ALWAYS"
    let always = able.iter().enumerate().filter(|(_, (_, c))| c.willingness == WILL_ALWAYS);
    always.for_each(|(n, _)| add(n, &mut covered));
    // "3. Add to the MPR set those nodes in N, which are the *only* nodes to provide reachability to a node in N2."
    let only = ways.iter().filter(|(count, _)| *count == 1);
    only.for_each(|(_, n)| add(*n, &mut covered));
    // "4. While there exist nodes in N2 which are not covered [...]: select as a MPR the node with highest N_willingness
    // among the nodes in N with non-zero reachability. In case of multiple choice select the node which provides
    // reachability to the maximum number of nodes in N2. In case of multiple nodes providing the same amount of
    // reachability, select the node as MPR whose D(y) is greater."
    while covered.contains(&0) {
        let left = |n: usize| reaches[n].iter().filter(|two_hop| covered[**two_hop] == 0).count();
        let best = (0..able.len())
            .map(|n| (left(n), n))
            .filter(|(reach, _)| *reach > 0)
            .max_by_key(|&(reach, n)| (able[n].1.willingness, reach, reaches[n].len(), Reverse(n)));
        let Some((_, n)) = best else { break };
        add(n, &mut covered);
    }
    // "5. As an optimization, process each node y in the MPR set in increasing order of N_willingness. If all nodes in N2
    // are still covered by at least one node in the MPR set excluding node y, and if N_willingness of node y is smaller
    // than WILL_ALWAYS, then node y MAY be removed from the MPR set."
    let mut order: Vec<usize> =
        (0..able.len()).filter(|n| is_relay[*n] && able[*n].1.willingness < WILL_ALWAYS).collect();
    order.sort_by_key(|n| (able[*n].1.willingness, *n));
    for n in order {
        if reaches[n].iter().all(|two_hop| covered[*two_hop] > 1) {
            is_relay[n] = false;
            reaches[n].iter().for_each(|two_hop| covered[*two_hop] -= 1);
        }
    }
    able.iter().zip(is_relay).filter(|(_, is_relay)| *is_relay).map(|((main, _), _)| *main).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, n)
    }

    fn choose(neighbors: &[(u8, u8, &[u8])]) -> Vec<u8> {
        let candidate = |&(main, willingness, reaches): &(u8, u8, &[u8])| {
            (at(main), Candidate { willingness, reaches: reaches.iter().copied().map(at).collect() })
        };
        select(&neighbors.iter().map(candidate).collect()).into_iter().map(|main| main.octets()[3]).collect()
    }

    #[test]
    fn only_ways_are_taken_first_and_then_the_widest() {
        // Only 1 reaches 20; of the rest, 3 reaches two, 2 one.
        assert_eq!(choose(&[(1, 3, &[20]), (2, 3, &[21]), (3, 3, &[21, 22])]), [1, 3]);
        assert_eq!(choose(&[(1, 3, &[20, 21]), (2, 3, &[21, 22]), (3, 3, &[20, 22])]).len(), 2);
    }

    #[test]
    fn willingness_comes_before_reach() {
        assert_eq!(choose(&[(1, 3, &[20, 21]), (2, 6, &[20]), (3, 6, &[21])]), [2, 3]);
        assert_eq!(choose(&[(1, 0, &[20, 21])]), [0u8; 0], "WILL_NEVER is never chosen");
        assert_eq!(choose(&[(1, 7, &[]), (2, 3, &[20])]), [1, 2], "WILL_ALWAYS is always chosen");
    }

    #[test]
    fn what_later_choices_made_needless_is_dropped() {
        // 4 reaches the most and is selected first; then 1, 2 and 3 are the only ones that reach the
        // remaining nodes.
        let chosen = choose(&[(1, 3, &[20, 21, 30]), (2, 3, &[22, 23, 31]), (4, 3, &[20, 21, 22, 23])]);
        assert_eq!(chosen, [1, 2]);
    }
}
