//! Reader of route logs: `routes/HOST.jsonl`.

use crate::names;
use crate::read::{ReadError, Results, files};
use serde::Deserialize;
use std::net::Ipv4Addr;

/// A line of a log.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) time: f64,
    #[serde(default)]
    reset: bool,
    to: Option<String>,
    #[serde(default)]
    metric: u32,
    protocol: Option<u8>,
    kind: Option<String>,
    hops: Option<Vec<HopLine>>,
    dev: Option<String>,
    carrier: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct HopLine {
    dev: String,
    via: Option<String>,
}

/// An IPv4 prefix: address and prefix length.
pub(super) type Prefix = (Ipv4Addr, u8);

/// A next hop: the interface, and the router unless the destination is on-link.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hop {
    pub(super) dev: String,
    pub(super) via: Option<Ipv4Addr>,
}

/// A route in a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Route {
    pub(super) protocol: u8,
    /// Next hops; empty for a route that discards packets.
    pub(super) hops: Vec<Hop>,
}

impl Route {
    /// True if the kernel or the experiment's start created the route, rather than a protocol.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.protocol, 2 | 3)
    }
}

/// A change at a host.
#[derive(Debug)]
pub(super) enum Change {
    /// The host starts.
    Reset,
    /// A route was set or removed.
    Route { to: Prefix, metric: u32, route: Option<Route> },
    /// An IPv6 route was set or removed; it is counted, but paths are not followed.
    Route6,
    /// The carrier state of an interface changed.
    Carrier { dev: String, carrier: bool },
}

/// A change with its time and the index of its host.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) time: f64,
    pub(super) host: usize,
    pub(super) change: Change,
}

/// All changes of a run in order of time.
pub(super) fn read(results: &Results, hosts: &[&String]) -> Result<Vec<Entry>, ReadError> {
    let mut all = Vec::new();
    for (name, path) in files(&results.path().join(names::ROUTES), "jsonl") {
        let Some(host) = hosts.iter().position(|host| **host == name) else { continue };
        let text = belljar_inputs::read_text(&path).map_err(|error| ReadError::io(&path, &error))?;
        for (number, line) in text.lines().enumerate() {
            let entry = serde_json::from_str::<Line>(line).ok().and_then(|line| entry(host, line));
            let bad = || format!("line {} is not one of a route log", number + 1);
            all.push(entry.ok_or_else(|| ReadError::File { path: path.clone(), reason: bad() })?);
        }
    }
    // The sort is stable: the changes of each host keep their order.
    all.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.host.cmp(&b.host)));
    Ok(all)
}

fn entry(host: usize, line: Line) -> Option<Entry> {
    let change = match (line.reset, line.to, line.dev) {
        (true, ..) => Change::Reset,
        (_, Some(to), _) => match prefix(&to)? {
            None => Change::Route6,
            Some(to) => {
                let hops = |hops: Vec<HopLine>| {
                    let hop = |hop: HopLine| {
                        Some(Hop { via: hop.via.map(|via| via.parse()).transpose().ok()?, dev: hop.dev })
                    };
                    hops.into_iter().map(hop).collect::<Option<Vec<_>>>()
                };
                let route = match (line.hops, line.protocol) {
                    (Some(found), Some(protocol)) => {
                        let found = if line.kind.is_some() { Vec::new() } else { hops(found)? };
                        Some(Route { protocol, hops: found })
                    }
                    _ => None,
                };
                Change::Route { to, metric: line.metric, route }
            }
        },
        (_, None, Some(dev)) => Change::Carrier { dev, carrier: line.carrier? },
        _ => return None,
    };
    Some(Entry { time: line.time, host, change })
}

/// Parses a prefix; the inner `None` is an IPv6 prefix.
fn prefix(text: &str) -> Option<Option<Prefix>> {
    let (address, bits) = text.split_once('/')?;
    match address.parse::<std::net::IpAddr>().ok()? {
        std::net::IpAddr::V4(address) => Some(Some((address, bits.parse().ok()?))),
        std::net::IpAddr::V6(_) => Some(None),
    }
}
