//! Values that only links, interfaces and routes have.

use crate::error::Problem;
use crate::topology::{Interface, StaticRoute};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::SimDuration;
use belljar_net::nic::CodelConfig;
use belljar_net::suggest::nearest;
use belljar_net::{InterfaceAddress, Prefix, QueueConfig};
use std::net::Ipv4Addr;

/// No link is faster.
pub(super) fn latency(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    Ok(section::duration(node, key)?.max(SimDuration::from_nanos(1)))
}

/// Bits per second, or `unlimited`.
pub(in crate::load) fn rate(node: &Node, key: &str) -> Result<Option<u64>, Problem> {
    match section::string(node, key) {
        Ok("unlimited") => Ok(None),
        _ => section::bandwidth(node, key).map(Some),
    }
}

/// `{ packets: 100 }`, `{ bytes: 64 KB }` or `{ codel: { packets: 1000 } }`.
pub(super) fn queue(node: &Node) -> Result<QueueConfig, Problem> {
    const FORMS: &str = "write { packets: 100 }, { bytes: 64 KB } or { codel: { packets: 1000 } }";
    let s = Section::new(node, "'queue'", &["packets", "bytes", "codel"], false)?;
    let packets = |node: &Node, key: &str| section::whole(node, key, 1_000_000_000).map(|n| n as usize);
    match (s.get("packets"), s.get("bytes"), s.get("codel")) {
        (Some(node), None, None) => packets(node, "packets").map(QueueConfig::Packets),
        (None, Some(node), None) => section::bytes(node, "bytes").map(|n| QueueConfig::Bytes(n as usize)),
        (None, None, Some(node)) => {
            let s = Section::new(node, "'codel'", &["packets", "target", "interval"], false)?;
            let usual = CodelConfig::default();
            let codel = CodelConfig {
                target: s.read("target", section::duration)?.unwrap_or(usual.target),
                interval: s.read("interval", section::duration)?.unwrap_or(usual.interval),
                ..usual
            };
            if codel.interval.is_zero() {
                return Err(node.problem("CoDel's interval must not be 0"));
            }
            Ok(QueueConfig::Codel { packets: s.read("packets", packets)?.unwrap_or(1_000), codel })
        }
        _ => Err(node.problem("a queue is bounded in one way").help(FORMS)),
    }
}

/// `10.0.1.1/24`.
pub(super) fn interface_address(node: &Node) -> Result<InterfaceAddress, Problem> {
    let text = section::string(node, "an address")?;
    let parsed = text.parse::<InterfaceAddress>().ok().filter(|_| text.contains('/'));
    let own = parsed.ok_or_else(|| {
        node.problem(format!("'{text}' is not an IPv4 address with the length of its network"))
            .help("write it such as 10.0.1.1/24")
    })?;
    belljar_net::addresses::check_usable("", own.ip).map_err(|error| {
        let belljar_net::AddressError::Unusable { kind, .. } = error else { return node.problem("unusable") };
        node.problem(format!("no interface can have the address {}: it is {kind}", own.ip))
    })?;
    let network = own.network();
    if own.len == 0 || (own.len <= 30 && (own.ip == network.address() || Some(own.ip) == network.broadcast()))
    {
        return Err(node
            .problem(format!("{} stands for the whole network {network}, not for one interface", own.ip))
            .help(format!(
                "take another address of it, such as {}",
                network.stations().next().unwrap_or(own.ip)
            )));
    }
    Ok(own)
}

/// `02:00:00:00:00:01`.
pub(super) fn mac(node: &Node, key: &str) -> Result<[u8; 6], Problem> {
    let text = section::string(node, key)?;
    let byte = |part: &str| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok()).flatten();
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    let mac: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
    match mac {
        Some(mac) if mac[0] & 1 == 0 => Ok(mac),
        Some(_) => Err(node
            .problem(format!("'{text}' is the address of a group"))
            .help("the first byte of an interface's address is even, such as 02")),
        None => Err(node
            .problem(format!("'{text}' is not a hardware address"))
            .help("write six bytes, such as 02:00:00:00:00:01")),
    }
}

/// `{ to: 10.0.2.0/24, via: 10.0.1.254 }`.
pub(super) fn route(node: &Node, interfaces: &[Interface]) -> Result<StaticRoute, Problem> {
    const EXAMPLE: &str = "{ to: 10.0.2.0/24, via: 10.0.1.254 }";
    let s = Section::new(node, "a route", &["to", "via", "dev", "metric"], false)?;
    let to_node = s.required("to", EXAMPLE)?;
    let to = match section::string(to_node, "to")? {
        "default" => Prefix::ALL,
        text => {
            let parsed = text.parse::<InterfaceAddress>();
            let parsed = parsed.map_err(|()| {
                to_node
                    .problem(format!("'{text}' is not a network"))
                    .help("write it such as 10.0.2.0/24, or default")
            })?;
            if parsed.network().address() != parsed.ip {
                return Err(to_node
                    .problem(format!("{text} is an address within a network"))
                    .help(format!("write {}", parsed.network())));
            }
            parsed.network()
        }
    };
    let via = match s.get("via") {
        Some(node) => match &node.value {
            Value::Sequence(items) => {
                items.iter().map(|item| gateway(item, interfaces)).collect::<Result<_, _>>()?
            }
            _ => vec![gateway(node, interfaces)?],
        },
        None => Vec::new(),
    };
    let device = s.read("dev", |node, key| device(node, key, interfaces))?;
    if via.is_empty() && device.is_none() {
        return Err(node.problem("this route leads nowhere").help(format!("add via or dev: {EXAMPLE}")));
    }
    if !via.is_empty() && device.is_some() {
        return Err(node.problem("a route has 'via' or 'dev', not both"));
    }
    let metric = s.read("metric", |node, key| section::whole(node, key, u64::from(u32::MAX)))?;
    Ok(StaticRoute { to, via, device, metric: metric.unwrap_or(0) as u32 })
}

/// A router on a network of one of the interfaces.
fn gateway(node: &Node, interfaces: &[Interface]) -> Result<Ipv4Addr, Problem> {
    let ip = super::super::hosts::address(node, "via")?;
    let near = |interface: &Interface| interface.addresses.iter().any(|own| own.network().contains(ip));
    if !interfaces.iter().any(near) {
        return Err(node
            .problem(format!("{ip} is on no network of this node's interfaces"))
            .help("a next hop must be reached without another one"));
    }
    Ok(ip)
}

fn device(node: &Node, key: &str, interfaces: &[Interface]) -> Result<usize, Problem> {
    let name = section::string(node, key)?;
    interfaces.iter().position(|interface| interface.name == name).ok_or_else(|| {
        let names = interfaces.iter().map(|interface| interface.name.as_str());
        let help = nearest(name, names).map(|near| format!("did you mean '{near}'?"));
        node.problem(format!("no link ends at an interface '{name}' of this node")).maybe_help(help)
    })
}
