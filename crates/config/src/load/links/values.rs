//! Values specific to links, interfaces and routes.

use crate::error::Problem;
use crate::topology::{Interface, StaticRoute};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::SimDuration;
use belljar_net::routes::Ip;
use belljar_net::suggest::nearest;
use belljar_net::{InterfaceAddress, MssClamp, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The latency, at least the minimum of a link.
pub(super) fn latency(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    Ok(section::duration(node, key)?.max(SimDuration::from_nanos(1)))
}

/// Valid segment sizes for `clamp_mss`: Linux sends none with less payload than the minimum, and no IPv4
/// packet has more than the maximum.
const SEGMENT: std::ops::RangeInclusive<u64> = 88..=65_495;

/// `path_mtu`, or a number of bytes.
pub(super) fn mss_clamp(node: &Node, key: &str) -> Result<MssClamp, Problem> {
    let text = section::string(node, key).unwrap_or_default();
    if text == "path_mtu" {
        return Ok(MssClamp::PathMtu);
    }
    let bytes = text.parse().ok().filter(|bytes| SEGMENT.contains(bytes));
    bytes.map(|bytes| MssClamp::To(bytes as u16)).ok_or_else(|| {
        node.problem(format!("'{key}' is not the size of a segment"))
            .help("write path_mtu, or bytes from 88 to 65495 without a unit, such as 1360")
    })
}

/// Bits per second, or `unlimited`.
pub(in crate::load) fn rate(node: &Node, key: &str) -> Result<Option<u64>, Problem> {
    match section::string(node, key) {
        Ok("unlimited") => Ok(None),
        _ => section::bandwidth(node, key).map(Some),
    }
}

/// `2001:db8:1::1/64`.
pub(super) fn interface_address6(node: &Node) -> Result<InterfaceAddress<Ipv6Addr>, Problem> {
    let text = section::string(node, "an address")?;
    let parsed = text.parse::<InterfaceAddress<Ipv6Addr>>().ok().filter(|_| text.contains('/'));
    let own = parsed.ok_or_else(|| {
        node.problem(format!("'{text}' is not an IPv6 address with the length of its network"))
            .help("write it such as 2001:db8:1::1/64")
    })?;
    if let Some(kind) = belljar_net::addresses::unusable_kind6(own.ip) {
        return Err(node.problem(format!("no interface can have the address {}: it is {kind}", own.ip)));
    }
    if own.len == 0 || own.len < 127 && own.ip == own.network().address() {
        return Err(node
            .problem(format!("{} stands for the routers of the whole network {}", own.ip, own.network()))
            .help("take another address of it"));
    }
    Ok(own)
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

/// A route of either address family.
pub(super) enum AnyRoute {
    V4(StaticRoute),
    V6(StaticRoute<Ipv6Addr>),
}

/// `{ to: 10.0.2.0/24, via: 10.0.1.254 }`, or the same with IPv6 addresses.
pub(super) fn route(node: &Node, interfaces: &[Interface]) -> Result<AnyRoute, Problem> {
    let s = Section::new(node, "a route", &["to", "via", "dev", "metric"], false)?;
    let first = s.get("via").map(|via| match &via.value {
        Value::Sequence(items) => items.first().map_or(via, |item| &**item),
        _ => via,
    });
    let is_v6 = |node: Option<&Node>| {
        node.is_some_and(|n| section::string(n, "").is_ok_and(|text| text.contains(':')))
    };
    Ok(match is_v6(s.get("to")) || is_v6(first) {
        true => AnyRoute::V6(route_of(&s, node, interfaces, &V6)?),
        false => AnyRoute::V4(route_of(&s, node, interfaces, &V4)?),
    })
}

/// Differences between the address families.
struct Family<A: 'static> {
    example: &'static str,
    network: &'static str,
    address: fn(&Node, &str) -> Result<A, Problem>,
    own: fn(&Interface) -> &[InterfaceAddress<A>],
}

const V4: Family<Ipv4Addr> = Family {
    example: "{ to: 10.0.2.0/24, via: 10.0.1.254 }",
    network: "10.0.2.0/24",
    address: super::super::hosts::address,
    own: |interface| &interface.addresses,
};
const V6: Family<Ipv6Addr> = Family {
    example: "{ to: 2001:db8:2::/64, via: 2001:db8:1::fe }",
    network: "2001:db8:2::/64",
    address: |node, key| {
        let text = section::string(node, key)?;
        text.parse().map_err(|_| {
            node.problem(format!("'{text}' is not an IPv6 address")).help("write it such as 2001:db8::5")
        })
    },
    own: |interface| &interface.addresses6,
};

fn route_of<A: Ip>(
    s: &Section,
    node: &Node,
    interfaces: &[Interface],
    family: &Family<A>,
) -> Result<StaticRoute<A>, Problem> {
    let example = family.example;
    let to_node = s.required("to", example)?;
    let to = match section::string(to_node, "to")? {
        "default" => Prefix::ALL,
        text => {
            let parsed = text.parse::<InterfaceAddress<A>>();
            let parsed = parsed.map_err(|()| {
                to_node
                    .problem(format!("'{text}' is not a network"))
                    .help(format!("write it such as {}, or default", family.network))
            })?;
            if parsed.network().address() != parsed.ip {
                return Err(to_node
                    .problem(format!("{text} is an address within a network"))
                    .help(format!("write {}", parsed.network())));
            }
            parsed.network()
        }
    };
    let gateway = |item: &Node| gateway(item, interfaces, family);
    let via = match s.get("via") {
        Some(node) => match &node.value {
            Value::Sequence(items) => items.iter().map(|item| gateway(item)).collect::<Result<_, _>>()?,
            _ => vec![gateway(node)?],
        },
        None => Vec::new(),
    };
    let device = s.read("dev", |node, key| device(node, key, interfaces))?;
    if via.is_empty() && device.is_none() {
        return Err(node.problem("this route leads nowhere").help(format!("add via or dev: {example}")));
    }
    if !via.is_empty() && device.is_some() {
        return Err(node.problem("a route has 'via' or 'dev', not both"));
    }
    let metric = s.read("metric", |node, key| section::whole(node, key, u64::from(u32::MAX)))?;
    Ok(StaticRoute { to, via, device, metric: metric.unwrap_or(0) as u32 })
}

/// A router on a network of one of the interfaces.
fn gateway<A: Ip>(node: &Node, interfaces: &[Interface], family: &Family<A>) -> Result<A, Problem> {
    let ip = (family.address)(node, "via")?;
    let near = |interface: &Interface| (family.own)(interface).iter().any(|own| own.network().contains(ip));
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
