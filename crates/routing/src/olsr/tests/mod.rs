//! OLSR in a network in virtual time.

mod convergence;
mod fuzz;
mod liars;
mod rules;

use super::{Config, Olsr};
use crate::tests::{Medium, Network};
use belljar_base::Seed;
use std::net::Ipv4Addr;

/// The address of node `n`'s interface 1.
pub(super) fn at(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, (n / 250) as u8, (n % 250 + 1) as u8)
}

pub(super) fn config(n: usize, seed: u64) -> Config {
    Config::new(at(n), Seed(seed))
}

/// `count` unconnected nodes with one interface each.
pub(super) fn nodes(count: usize, seed: u64) -> Network<Olsr> {
    let mut net = Network::new(seed);
    for n in 0..count {
        net.add(Olsr::new(config(n, seed)), &[at(n)]);
    }
    net
}

/// Nodes connected in a line.
pub(super) fn line(count: usize, seed: u64) -> Network<Olsr> {
    let mut net = nodes(count, seed);
    (1..count).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    net
}

/// True if every node of `group` has routes to all others of it.
pub(super) fn is_complete(net: &Network<Olsr>, group: impl IntoIterator<Item = usize> + Clone) -> bool {
    let to = |from: usize| group.clone().into_iter().all(|n| net.trace(from, at(n)).is_some());
    group.clone().into_iter().all(to)
}
