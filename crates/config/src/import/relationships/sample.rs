//! Samples of an AS graph in which all systems reach each other over valley-free paths.
//!
//! An induced subgraph of systems drawn at random falls apart: most systems are stubs, whose providers are not
//! drawn. So each system that is drawn brings a chain of providers with it, drawn step by step, up to a system that
//! is in the sample already or that has no provider. Systems without providers are accepted only if they peer with
//! all others of the sample. Then a path goes up the chain of one system, over at most one peering at the top, and
//! down the chain of the other.

use super::{Relations, Role};
use belljar_base::{Map, Set, Stream};

/// Draws `size` autonomous systems, fewer if the file has no more that fit.
pub(super) fn choose(all: &Relations, size: usize, draws: &mut Stream) -> Set<u32> {
    let mut candidates: Vec<u32> = all.neighbours.keys().copied().collect();
    let (mut sample, mut tops) = (Set::new(), Set::<u32>::new());
    while sample.len() < size && !candidates.is_empty() {
        let drawn = candidates.swap_remove(draws.below(candidates.len() as u64) as usize);
        if sample.contains(&drawn) {
            continue;
        }
        let Some(chain) = chain(all, drawn, &sample, draws) else { continue };
        let top = chain.last().copied().filter(|top| providers(all, *top).is_empty());
        let peers = |top: u32| tops.iter().all(|other| all.neighbours[&top].get(other) == Some(&Role::Peer));
        if sample.len() + chain.len() > size || top.is_some_and(|top| !peers(top)) {
            continue;
        }
        tops.extend(top);
        sample.extend(chain);
    }
    sample
}

/// A system and its providers up to the sample or to a system without providers; `None` if the chain runs in a circle.
fn chain(all: &Relations, start: u32, sample: &Set<u32>, draws: &mut Stream) -> Option<Vec<u32>> {
    let mut chain = vec![start];
    let mut last = start;
    loop {
        let providers = providers(all, last);
        if providers.is_empty() {
            return Some(chain);
        }
        last = providers[draws.below(providers.len() as u64) as usize];
        if sample.contains(&last) {
            return Some(chain);
        }
        if chain.contains(&last) {
            return None;
        }
        chain.push(last);
    }
}

fn providers(all: &Relations, number: u32) -> Vec<u32> {
    let own = all.neighbours[&number].iter().filter(|(_, role)| **role == Role::Provider);
    own.map(|(other, _)| *other).collect()
}

/// Number of pairs of the chosen systems without a valley-free path, and one of them.
pub(super) fn unreachable(all: &Relations, chosen: &Set<u32>) -> (usize, Option<(u32, u32)>) {
    let (mut count, mut example) = (0, None);
    for number in chosen {
        let reached = reached(all, chosen, *number);
        for other in chosen.iter().filter(|other| *other > number && !reached.contains(*other)) {
            count += 1;
            example = example.or(Some((*number, *other)));
        }
    }
    (count, example)
}

/// Systems that a valley-free path leads to: steps to providers, at most one to a peer, then steps to customers.
fn reached(all: &Relations, chosen: &Set<u32>, start: u32) -> Set<u32> {
    // A system may be reached on the path's ascent, from where all neighbours follow, or on its descent.
    let mut ascends: Map<u32, bool> = Map::new();
    let mut open = vec![(start, true)];
    while let Some((number, is_ascent)) = open.pop() {
        if ascends.get(&number).is_some_and(|known| *known || !is_ascent) {
            continue;
        }
        ascends.insert(number, is_ascent);
        for (other, role) in all.neighbours[&number].iter().filter(|(other, _)| chosen.contains(*other)) {
            match role {
                Role::Customer => open.push((*other, false)),
                Role::Provider if is_ascent => open.push((*other, true)),
                Role::Peer if is_ascent => open.push((*other, false)),
                _ => {}
            }
        }
    }
    ascends.keys().copied().collect()
}
