//! Addresses of interfaces: specified in the file, or assigned.

use super::super::hosts::ipv6_is_off;
use super::ends::Draft;
use super::{Kind, Station, values};
use crate::error::Problem;
use crate::topology::Interface;
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section, Value};
use belljar_base::{DisjointSets, Map, Set};
use belljar_net::addresses::automatic6_network;
use belljar_net::suggest::nearest;
use belljar_net::{InterfaceAddress, Prefix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address range of assigned networks.
const SPACE: u32 = 10 << 24;
const SPACE_END: u32 = 11 << 24;

/// Loads the interface settings of the file. Interfaces without any have no address yet.
pub(super) fn read(
    stations: &[Station],
    interfaces: &mut [Vec<Interface>],
    has_ipv6: &[bool],
) -> Result<(), Problem> {
    for ((station, interfaces), has_ipv6) in stations.iter().zip(interfaces).zip(has_ipv6) {
        if let Some(own) = &station.management
            && let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == own.interface)
        {
            interface.addresses.extend(own.address);
        }
        let Some(node) = station.section.as_ref().and_then(|section| section.get("interfaces")) else {
            continue;
        };
        for entry in mapping(node, "'interfaces'")? {
            let names = interfaces.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>();
            let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == entry.key) else {
                let message = format!("no link ends at '{}:{}'", station.name, entry.key);
                let help = match nearest(&entry.key, names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("add a link: {{ between: [{}:{}, ...] }}", station.name, entry.key),
                };
                return Err(Problem::at(entry.key_span, message).help(help));
            };
            one(&entry.value, interface, station, *has_ipv6)?;
        }
    }
    Ok(())
}

/// An address, a list of them, or `{ addresses: [...], mac: ..., advertise: ... }`.
fn one(node: &Node, interface: &mut Interface, station: &Station, has_ipv6: bool) -> Result<(), Problem> {
    let list = match &node.value {
        Value::Mapping(_) => {
            let s = Section::new(node, "an interface", &["addresses", "mac", "advertise"], false)?;
            interface.mac = s.read("mac", values::mac)?;
            if let Some(node) = s.get("advertise") {
                interface.advertise = section::boolean(node, "advertise")?;
                if station.kind != Kind::Router {
                    return Err(node
                        .problem("only routers announce themselves by 'advertise'")
                        .help("run radvd on a host that is to do so"));
                }
                if interface.advertise && !has_ipv6 {
                    return Err(ipv6_is_off(node, "nothing can be announced"));
                }
            }
            match s.get("addresses") {
                Some(list) => list,
                None => return Ok(()),
            }
        }
        _ => node,
    };
    match &list.value {
        Value::Scalar(_) => address(list, interface, station, has_ipv6),
        _ => section::list(list, "addresses")?
            .iter()
            .try_for_each(|item| address(item, interface, station, has_ipv6)),
    }
}

/// An address of either family, or `slaac`.
fn address(item: &Node, interface: &mut Interface, station: &Station, has_ipv6: bool) -> Result<(), Problem> {
    let text = section::string(item, "an address")?;
    let slaac = text == "slaac";
    if !slaac && !text.contains(':') {
        interface.addresses.push(values::interface_address(item)?);
        return Ok(());
    }
    if !has_ipv6 {
        return Err(ipv6_is_off(item, &format!("'{}' cannot have an IPv6 address", station.name)));
    }
    match (slaac, station.kind) {
        (true, Kind::Host { .. }) => interface.slaac = true,
        (true, _) => {
            return Err(item
                .problem("only hosts make themselves addresses by 'slaac'")
                .help("give a router's interface an address such as 2001:db8:1::1/64"));
        }
        (false, _) => interface.addresses6.push(values::interface_address6(item)?),
    }
    Ok(())
}

/// For each link, the index of the segment of cables, switches and other simulators to which it belongs.
fn segments(stations: &[Station], drafts: &[Draft]) -> Vec<usize> {
    let mut segments = DisjointSets::new(drafts.len());
    let mut of_switch: Map<usize, usize> = Map::new();
    for (link, draft) in drafts.iter().enumerate() {
        for end in draft.ends.iter().filter(|end| stations[end.station].joins(&end.interface)) {
            segments.join(link, *of_switch.entry(end.station).or_insert(link));
        }
    }
    segments.into_smallest()
}

/// The interfaces with addresses of each segment, as (station, interface), in the order of links.
fn members(
    stations: &[Station],
    drafts: &[Draft],
    interfaces: &[Vec<Interface>],
) -> Map<usize, Vec<(usize, usize)>> {
    let mut members: Map<usize, Vec<(usize, usize)>> = Map::new();
    for (link, segment) in segments(stations, drafts).into_iter().enumerate() {
        for end in drafts[link].ends.iter().filter(|end| !stations[end.station].joins(&end.interface)) {
            let at = interfaces[end.station].iter().position(|i| i.name == end.interface);
            members.entry(segment).or_default().push((end.station, at.expect("made from the link")));
        }
    }
    members
}

/// Assigns IPv4 addresses to interfaces without settings, from the network of their segment, or from a new
/// one.
pub(super) fn assign(
    stations: &[Station],
    drafts: &[Draft],
    interfaces: &mut [Vec<Interface>],
) -> Result<(), Problem> {
    let given = |station: &Station, name: &str| {
        let section = station.section.as_ref().and_then(|s| s.get("interfaces"));
        let entry = section.and_then(|node| mapping(node, "").ok()?.iter().find(|entry| entry.key == name));
        let managed = station.management.as_ref().is_some_and(|own| own.address.is_some());
        managed
            || entry.is_some_and(|entry| match &entry.value.value {
                Value::Mapping(entries) => entries.iter().any(|entry| entry.key == "addresses"),
                _ => true,
            })
    };
    let mut used: Set<Prefix> =
        interfaces.iter().flatten().flat_map(|i| &i.addresses).map(InterfaceAddress::network).collect();
    let mut next = SPACE;
    for members in members(stations, drafts, interfaces).into_values() {
        let silent: Vec<(usize, usize)> = members
            .iter()
            .copied()
            .filter(|(station, at)| !given(&stations[*station], &interfaces[*station][*at].name))
            .collect();
        if silent.is_empty() {
            continue;
        }
        let there: Vec<InterfaceAddress> =
            members.iter().flat_map(|(station, at)| interfaces[*station][*at].addresses.clone()).collect();
        let network = match there.first() {
            Some(own) => own.network(),
            None => free_network(silent.len(), &used, &mut next)
                .ok_or_else(|| Problem::whole_file("there are no networks left in 10.0.0.0/8 to assign"))?,
        };
        used.insert(network);
        let mut free = network.stations().filter(|ip| !there.iter().any(|own| own.ip == *ip));
        for (station, at) in silent {
            let ip = free.next().ok_or_else(|| {
                let name = &stations[station].name;
                Problem::whole_file(format!("the network {network} has no address left for '{name}'"))
                    .help("make it larger, or give addresses to interfaces in the file")
            })?;
            interfaces[station][at].addresses.push(InterfaceAddress::new(ip, network.bits()));
        }
    }
    Ok(())
}

/// Assigns IPv6 addresses to interfaces that have an IPv4 address but no IPv6 one, from the IPv6 network of
/// their segment, or from one derived from the IPv4 network; the host number is the same.
pub(super) fn assign6(
    stations: &[Station],
    drafts: &[Draft],
    interfaces: &mut [Vec<Interface>],
    has_ipv6: &[bool],
) {
    for members in members(stations, drafts, interfaces).into_values() {
        let all = || members.iter().map(|(station, at)| &interfaces[*station][*at]);
        let given = all().flat_map(|i| &i.addresses6).map(InterfaceAddress::network).next();
        let follows = all().flat_map(|i| &i.addresses).map(|own| automatic6_network(own.network())).next();
        let Some(network) = given.or(follows) else { continue };
        let mut taken: Set<Ipv6Addr> = all().flat_map(|i| &i.addresses6).map(|own| own.ip).collect();
        for (station, at) in members {
            let interface = &mut interfaces[station][at];
            let Some(own) = interface.addresses.first() else { continue };
            if !has_ipv6[station] || interface.slaac || !interface.addresses6.is_empty() {
                continue;
            }
            let number = u32::from(own.ip) - u32::from(own.network().address());
            let first = network.address().to_bits() | u128::from(number);
            let free = (first..).map(Ipv6Addr::from_bits).find(|ip| !taken.contains(ip));
            let ip = free.filter(|ip| network.contains(*ip) && *ip != network.address());
            if let Some(ip) = ip {
                taken.insert(ip);
                interface.addresses6.push(InterfaceAddress::new(ip, network.bits()));
            }
        }
    }
}

/// The next network for this number of stations that overlaps no other: a /24, or larger.
fn free_network(stations: usize, used: &Set<Prefix>, next: &mut u32) -> Option<Prefix> {
    let bits = (8..=24).rev().find(|bits| (1usize << (32 - bits)) - 2 >= stations)?;
    let size = 1u32 << (32 - bits);
    loop {
        let start = next.checked_next_multiple_of(size)?;
        if start >= SPACE_END {
            return None;
        }
        *next = start + size;
        let network = Prefix::new(Ipv4Addr::from(start), bits);
        if !used.iter().any(|other| other.overlaps(&network)) {
            return Some(network);
        }
    }
}

/// Checks that no two interfaces of a segment share an address, and no two interfaces of a node a network.
pub(super) fn check(
    stations: &[Station],
    drafts: &[Draft],
    interfaces: &[Vec<Interface>],
) -> Result<(), Problem> {
    let place =
        |station: usize, at: usize| format!("{}:{}", stations[station].name, interfaces[station][at].name);
    let span = |station: usize| {
        let section = stations[station].section.as_ref();
        section.and_then(|s| s.get("interfaces").or(s.get("management"))).map(|node| node.span)
    };
    let at = |station: usize, message: String| match span(station) {
        Some(span) => Problem::at(span, message),
        None => Problem::whole_file(message),
    };
    for members in members(stations, drafts, interfaces).into_values() {
        let mut owners: Map<IpAddr, (usize, usize)> = Map::new();
        for (station, n) in members {
            for own in &interfaces[station][n].addresses {
                if let Some((other, m)) = owners.insert(own.ip.into(), (station, n)) {
                    let (one, two) = (place(other, m), place(station, n));
                    return Err(at(station, format!("'{one}' and '{two}' both have the address {}", own.ip))
                        .help("they are on one network: give one of them another address"));
                }
            }
            for own in &interfaces[station][n].addresses6 {
                if let Some((other, m)) = owners.insert(own.ip.into(), (station, n)) {
                    let (one, two) = (place(other, m), place(station, n));
                    return Err(at(station, format!("'{one}' and '{two}' both have the address {}", own.ip))
                        .help("they are on one network: give one of them another address"));
                }
            }
        }
    }
    for (station, own) in interfaces.iter().enumerate() {
        for (n, first) in own.iter().enumerate() {
            let networks =
                |i: &Interface| i.addresses.iter().map(InterfaceAddress::network).collect::<Vec<_>>();
            let clash = own[n + 1..]
                .iter()
                .position(|second| networks(first).iter().any(|network| networks(second).contains(network)));
            if let Some(m) = clash {
                let (one, two) = (place(station, n), place(station, n + 1 + m));
                let network = networks(first)[0];
                return Err(at(station, format!("'{one}' and '{two}' are both in the network {network}"))
                    .help("give each interface of a node a network of its own"));
            }
        }
    }
    Ok(())
}
