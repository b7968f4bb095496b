//! AODV in a network in virtual time.

mod discovery;
mod failures;
mod fuzz;
mod rules;

use super::{Aodv, Config};
use crate::Time;
use crate::tests::{Medium, Network, ip_packet};
use belljar_base::Seed;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The address of node `n`'s interface 1.
pub(super) fn at(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, (n / 250) as u8, (n % 250 + 1) as u8)
}

pub(super) fn config(n: usize) -> Config {
    Config::new(at(n), Seed(1))
}

/// `count` unconnected nodes with one interface each.
pub(super) fn nodes(count: usize, change: impl Fn(Config) -> Config) -> Network<Aodv> {
    let mut net = Network::new(1);
    for n in 0..count {
        net.add(Aodv::new(Time::ZERO, change(config(n))), &[at(n)]);
    }
    net
}

/// Nodes connected in a line.
pub(super) fn line(count: usize) -> Network<Aodv> {
    let mut net = nodes(count, |config| config);
    (1..count).for_each(|n| net.join((n - 1, 1), (n, 1), Medium::GOOD));
    net
}

/// Sends a packet and waits for its arrival. Returns the latency; `None` if it has not arrived after `most`.
pub(super) fn deliver(net: &mut Network<Aodv>, from: usize, to: usize, most: Duration) -> Option<Duration> {
    let start = net.now;
    if net.send(from, &ip_packet(at(from), at(to))) {
        return Some(Duration::ZERO);
    }
    while net.now.since(start) < most {
        net.run_for(Duration::from_millis(1));
        if net.send_released(from) > 0 {
            return Some(net.now.since(start));
        }
    }
    None
}
