//! Address pools of netlab: each link has the next network of the pool of its kind.

use super::find;
use crate::error::Problem;
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node, Value};
use belljar_net::InterfaceAddress;
use std::net::Ipv4Addr;

/// A pool with its next network.
#[derive(Debug)]
pub(super) struct Pool {
    next: u32,
    end: u64,
    /// Length of the prefix of each network.
    length: u8,
}

impl Pool {
    fn new(network: Ipv4Addr, of_pool: u8, length: u8) -> Pool {
        let next = network.to_bits();
        Pool { next, end: u64::from(next) + (1 << (32 - of_pool)), length }
    }

    /// The next network and the length of its prefix; `None` if the pool is used up.
    fn take(&mut self) -> Option<(Ipv4Addr, u8)> {
        let network = self.next;
        let size = 1u64 << (32 - self.length);
        let after = u64::from(network) + size;
        (after <= self.end).then(|| {
            self.next = after.min(u64::from(u32::MAX)) as u32;
            (Ipv4Addr::from_bits(network), self.length)
        })
    }
}

/// Pools by the kind of link.
#[derive(Debug)]
pub(super) struct Pools {
    lan: Pool,
    p2p: Pool,
}

impl Default for Pools {
    /// netlab's default pools.
    fn default() -> Pools {
        Pools {
            lan: Pool::new(Ipv4Addr::new(172, 16, 0, 0), 16, 24),
            p2p: Pool::new(Ipv4Addr::new(10, 1, 0, 0), 16, 30),
        }
    }
}

impl Pools {
    pub(super) fn read(top: &[Entry]) -> Result<Pools, Problem> {
        let mut pools = Pools::default();
        for (name, pool) in [("lan", &mut pools.lan), ("p2p", &mut pools.p2p)] {
            let length = find(top, &format!("addressing.{name}.prefix"));
            if let Some(node) = length {
                pool.length = section::whole(&node, "prefix", 31)? as u8;
            }
            let Some(node) = find(top, &format!("addressing.{name}.ipv4")) else { continue };
            // `ipv4: true` leaves the interfaces without addresses of their own; here they have those of the pool.
            if matches!(&node.value, Value::Scalar(scalar) if scalar.as_bool().is_some()) {
                continue;
            }
            let (network, length) = prefix(&node)?;
            *pool = Pool::new(network, length, pool.length.max(length));
        }
        Ok(pools)
    }

    /// The network of a link of two routers, or of another link.
    pub(super) fn next(&mut self, is_p2p: bool) -> Option<(Ipv4Addr, u8)> {
        if is_p2p { self.p2p.take() } else { self.lan.take() }
    }
}

/// The network that the `prefix` of a link names: `10.1.0.0/24`, or a mapping with `ipv4`.
pub(super) fn of_link(node: &Node) -> Result<Option<(Ipv4Addr, u8)>, Problem> {
    match &node.value {
        Value::Mapping(_) => {
            let own = find(mapping(node, "'prefix'")?, "ipv4");
            own.map(|own| prefix(&own)).transpose()
        }
        _ => prefix(node).map(Some),
    }
}

fn prefix(node: &Node) -> Result<(Ipv4Addr, u8), Problem> {
    let text = section::string(node, "a prefix")?;
    let own = text.parse::<InterfaceAddress>().ok().filter(|own| own.network().address() == own.ip);
    own.map(|own| (own.ip, own.len)).ok_or_else(|| {
        node.problem(format!("'{text}' is not a network of IPv4")).help("write such as 10.1.0.0/24")
    })
}
