//! Sections `switches`, `routers`, `simulators`, `radios`, `gateways`, `nics` and `links`, and the interfaces
//! of hosts.

mod addressing;
mod devices;
mod ends;
mod gateways;
mod impairments;
mod management;
mod mtu;
mod p4;
mod queues;
mod radios;
mod simulators;
mod tracks;
mod values;
mod wires;

pub(crate) use impairments::line_change;
pub(super) use p4::notes as p4_notes;
pub(crate) use p4::{check_queue as check_p4_queue, setups as p4_setups};
pub(crate) use queues::check_burst;
pub(super) use queues::queue;
pub(crate) use radios::number;
pub(super) use simulators::notes as simulator_notes;
pub(crate) use tracks::position;

use super::events_values;
use super::hosts::{Context, check_name};
use crate::error::{Problem, Span};
use crate::model::Host;
use crate::topology::{
    Device, DeviceKind, Interface, Link, LinkEnd, ManagementAddress, Router, Routing, Switch, Topology,
    has_hardware_clock,
};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node, Section, Value};
use belljar_base::{HostId, Map, Set};
use belljar_net::switch::AGEING;
use ends::End;

/// Keys of a host that concern its links.
pub(super) const HOST_KEYS: &[&str] = &["devices", "interfaces", "routes", "routing", "forwarding"];
const ROUTER_KEYS: &[&str] = &["clamp_mss", "interfaces", "routes", "routing"];

/// Names of all nodes at the ends of links, as far as the file can be parsed; errors are reported later.
pub(super) fn linked_names(file: &Section) -> Set<String> {
    let mut names = radios::stations(file);
    names.extend(devices::named(file));
    let Some(Value::Sequence(links)) = file.get("links").map(|node| &node.value) else { return names };
    for ends in links.iter().filter_map(|link| link.entry("between")) {
        for end in section::list(&ends.value, "between").unwrap_or_default() {
            let Ok(text) = section::string(end, "between") else { continue };
            names.insert(text.split(':').next().unwrap_or_default().to_owned());
        }
    }
    names
}

/// A node whose interfaces and routes are being loaded.
pub(super) struct Station<'a> {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Position of its name in the file.
    span: Span,
    /// Section of the station in the file; optional for a switch.
    pub(super) section: Option<Section<'a>>,
    /// Management interface of a P4 switch.
    management: Option<ManagementAddress>,
}

impl Station<'_> {
    /// True if the link at the interface belongs to the same network as its other links, in which the station
    /// has no address.
    pub(super) fn joins(&self, interface: &str) -> bool {
        self.kind.joins_links() && self.management.as_ref().is_none_or(|own| own.interface != interface)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Host { on_graph: bool },
    Switch,
    Router,
    Simulator,
    Radio,
    Gateway,
    Nic,
    Memory,
}

impl Kind {
    /// True if the station's links form one network, in which it has no address.
    fn joins_links(self) -> bool {
        matches!(
            self,
            Kind::Switch | Kind::Simulator | Kind::Radio | Kind::Gateway | Kind::Nic | Kind::Memory
        )
    }
}

/// Loads the topology, and sets the interfaces and routes of hosts; a host without an address gets one of an
/// interface.
pub(super) fn read(
    file: &Section,
    hosts: &mut [Host],
    context: &Context,
    ipv6: bool,
) -> Result<Topology, Problem> {
    let defaults = &context.defaults;
    let stations = stations(file, hosts)?;
    let nodes = file.get("links").map(|node| section::list(node, "links")).transpose()?.unwrap_or_default();
    let mut drafts = ends::read(nodes, &stations)?;
    radios::join(&stations, &mut drafts)?;
    devices::read(&stations, &mut drafts)?;
    devices::check(&stations, &drafts).map_err(Problem::relational)?;
    mtu::check(&stations, &drafts).map_err(Problem::relational)?;
    let mut interfaces = interfaces(&stations, &drafts)?;
    check_linked(&stations, &interfaces).map_err(Problem::relational)?;
    let has_ipv6: Vec<bool> =
        (0..stations.len()).map(|n| hosts.get(n).map_or(ipv6, |host| host.ipv6)).collect();
    addressing::read(&stations, &mut interfaces, &has_ipv6)?;
    devices::read_eeproms(&stations, &drafts, &mut interfaces)?;
    addressing::assign(&stations, &drafts, &mut interfaces).map_err(Problem::relational)?;
    addressing::assign6(&stations, &drafts, &mut interfaces, &has_ipv6);
    addressing::check(&stations, &drafts, &interfaces).map_err(Problem::relational)?;
    let mut p4 = p4::Loader::new(context.around);
    let mut devices_made = Vec::new();
    let links = drafts.iter().map(|draft| Link {
        name: draft.name.clone(),
        ends: [0, 1].map(|n| {
            let End { station, interface, .. } = &draft.ends[n];
            let port = interfaces[*station].iter().position(|i| i.name == *interface);
            LinkEnd {
                node: HostId(*station as u32),
                port: port.expect("made from the link"),
                properties: draft.lines[n].clone(),
            }
        }),
        mtu: draft.mtu,
        cost: draft.cost,
        pci: draft.pci.clone(),
    });
    let mut links: Vec<Link> = links.collect();
    let mut roles = Map::new();
    for (n, (station, interfaces)) in stations.iter().zip(interfaces).enumerate() {
        let section = station.section.as_ref();
        let name = station.name.clone();
        match station.kind {
            Kind::Host { on_graph } => {
                // Hosts are the first stations, in their order.
                let host = &mut hosts[n];
                if !interfaces.is_empty() {
                    host.routing = routing(section, &interfaces)?;
                } else if let Some(entry) =
                    section.and_then(|s| ["routes", "routing"].iter().find_map(|key| s.entry(key)))
                {
                    let message =
                        format!("'{}' is not valid for host '{name}', which has no link", entry.key);
                    return Err(Problem::at(entry.key_span, message)
                        .help("leave it out: to hosts on the graph packets need no routes")
                        .relational());
                }
                let forwarding =
                    section.map(|s| s.read("forwarding", section::boolean)).transpose()?.flatten();
                host.forwarding = forwarding.unwrap_or(false);
                let own = interfaces.iter().find_map(|interface| interface.addresses.first());
                if let (false, Some(own)) = (on_graph, own) {
                    host.address = own.ip;
                }
                let own = interfaces.iter().find_map(|interface| interface.addresses6.first());
                if let (false, Some(own)) = (on_graph, own) {
                    host.address6 = Some(own.ip);
                }
                host.interfaces = interfaces;
            }
            Kind::Switch => {
                let kind = match section {
                    Some(s) if p4::is_programmable(s) => {
                        let p4 = p4.switch(s, station, &interfaces)?;
                        p4::line_queues(&p4, &interfaces, &drafts, &mut links)?;
                        DeviceKind::P4(Box::new(p4))
                    }
                    _ => switch(section)?,
                };
                devices_made.push(Device { name, interfaces, kind });
            }
            Kind::Router => {
                let routing = routing(section, &interfaces)?;
                let clamp_mss =
                    section.map(|s| s.read("clamp_mss", values::mss_clamp)).transpose()?.flatten();
                let kind = DeviceKind::Router(Router { routing, clamp_mss });
                devices_made.push(Device { name, interfaces, kind });
            }
            Kind::Simulator => {
                let (simulator, given) = simulators::read(station, &interfaces, context.around)?;
                roles.insert(devices_made.len(), given);
                devices_made.push(Device { name, interfaces, kind: DeviceKind::Simulator(simulator) });
            }
            Kind::Nic => {
                let kind = DeviceKind::Nic(devices::nic(station)?);
                devices_made.push(Device { name, interfaces, kind });
            }
            Kind::Memory => {
                let kind = DeviceKind::Memory(devices::memory(station)?);
                devices_made.push(Device { name, interfaces, kind });
            }
            Kind::Radio => {
                let radio = radios::read(station, &interfaces, &drafts, &stations, context.around)?;
                devices_made.push(Device { name, interfaces, kind: DeviceKind::Radio(Box::new(radio)) });
            }
            Kind::Gateway => {
                let kind = DeviceKind::Gateway(gateways::read(station, &interfaces)?);
                devices_made.push(Device { name, interfaces, kind });
            }
        }
    }
    check_addresses(&stations, hosts)?;
    let linked = !links.is_empty();
    let mut topology = Topology {
        devices: devices_made,
        links,
        pcap_enabled: defaults.pcap_enabled && linked,
        pcap_capture_size: if linked { defaults.pcap_capture_size } else { 0 },
        pcap_filter: if linked { defaults.pcap_filter.clone() } else { Default::default() },
    };
    wires::read(&mut topology, &drafts, &stations, hosts.len(), &roles).map_err(Problem::relational)?;
    for (host, station) in hosts.iter().zip(&stations) {
        let has_clock = |interface: &Interface| has_hardware_clock(&topology, hosts.len(), interface);
        if let Some(clock) = station.section.as_ref().and_then(|section| section.get("clock"))
            && !host.interfaces.iter().any(has_clock)
        {
            events_values::check_hardware_clock(clock, &host.name).map_err(Problem::relational)?;
        }
    }
    Ok(topology)
}

/// Loads a learning switch.
fn switch(section: Option<&Section>) -> Result<DeviceKind, Problem> {
    let Some(s) = section else { return Ok(DeviceKind::Switch(Switch { ageing: AGEING })) };
    p4::refuse(s)?;
    let ageing = s.read("ageing", section::duration)?;
    Ok(DeviceKind::Switch(Switch { ageing: ageing.unwrap_or(AGEING) }))
}

/// Hosts, switches, routers, other simulators, radios and gateways, ordered by id.
fn stations<'a>(file: &Section<'a>, hosts: &[Host]) -> Result<Vec<Station<'a>>, Problem> {
    let mut all = Vec::new();
    let entries: Map<&str, &Entry> = match file.get("hosts") {
        Some(node) => mapping(node, "section 'hosts'")?.iter().map(|e| (e.key.as_str(), e)).collect(),
        None => Map::new(),
    };
    for host in hosts {
        let on_graph = host.node.is_some();
        let entry = entries.get(host.name.as_str());
        let span = entry.map(|entry| entry.key_span).unwrap_or_default();
        let section = entry.map(|entry| {
            let keys: Vec<&str> = super::hosts::HOST_KEYS.iter().chain(HOST_KEYS).copied().collect();
            Section::new(&entry.value, &format!("host '{}'", host.name), &keys, false)
        });
        let section = section.transpose()?;
        let (name, kind) = (host.name.clone(), Kind::Host { on_graph });
        all.push(Station { name, kind, span, section, management: None });
    }
    let mut taken: Set<String> = hosts.iter().map(|host| host.name.clone()).collect();
    for (section, what, kind, keys) in [
        ("switches", "switch", Kind::Switch, p4::SWITCH_KEYS),
        ("routers", "router", Kind::Router, ROUTER_KEYS),
        ("simulators", "simulator", Kind::Simulator, simulators::KEYS),
        ("radios", "radio", Kind::Radio, radios::KEYS),
        ("gateways", "gateway", Kind::Gateway, gateways::KEYS),
        ("nics", "nic", Kind::Nic, devices::NIC_KEYS),
        ("memories", "memory", Kind::Memory, devices::MEMORY_KEYS),
    ] {
        let Some(node) = file.get(section) else { continue };
        let mut found = Vec::new();
        for (name, span, value) in named(node, what)? {
            check_name(&name, span, what)?;
            if !taken.insert(name.clone()) {
                let message = format!("there is something else with the name '{name}'");
                return Err(Problem::at(span, message).help(format!("give the {what} another name")));
            }
            let value = value.filter(|value| !value.is_null());
            let section = value.map(|value| Section::new(value, &format!("{what} '{name}'"), keys, false));
            let section = section.transpose()?;
            let management = section.as_ref().map(p4::management_address).transpose()?.flatten();
            found.push(Station { name, kind, span, section, management });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        all.extend(found);
    }
    Ok(all)
}

/// A list of names, or a mapping of names to their settings.
#[allow(clippy::type_complexity)]
fn named<'a>(node: &'a Node, what: &str) -> Result<Vec<(String, Span, Option<&'a Node>)>, Problem> {
    match &node.value {
        Value::Sequence(items) => {
            items.iter().map(|item| Ok((section::string(item, what)?.to_owned(), item.span, None))).collect()
        }
        _ => {
            let plural = match what.strip_suffix('y') {
                Some(stem) => format!("{stem}ies"),
                None if what.ends_with("ch") => format!("{what}es"),
                None => format!("{what}s"),
            };
            let entries = mapping(node, &format!("the section of {plural}"))?;
            Ok(entries.iter().map(|e| (e.key.clone(), e.key_span, Some(&*e.value))).collect())
        }
    }
}

/// Checks that each host outside of the graph has a link.
fn check_linked(stations: &[Station], interfaces: &[Vec<Interface>]) -> Result<(), Problem> {
    let alone = stations.iter().zip(interfaces).find(|(station, interfaces)| {
        station.kind == Kind::Host { on_graph: false } && interfaces.is_empty()
    });
    match alone {
        Some((Station { name, span, .. }, _)) => {
            Err(Problem::at(*span, format!("host '{name}' is at the end of no link"))
                .help(format!("add it to one: links: [ {{ between: [{name}, ...] }} ]")))
        }
        None => Ok(()),
    }
}

/// The interfaces of each station, sorted by name.
fn interfaces(stations: &[Station], drafts: &[ends::Draft]) -> Result<Vec<Vec<Interface>>, Problem> {
    let mut all: Vec<Vec<Interface>> = vec![Vec::new(); stations.len()];
    for (link, draft) in drafts.iter().enumerate() {
        for (end, End { station, interface, span }) in draft.ends.iter().enumerate() {
            let there = &mut all[*station];
            if let Some(other) = there.iter().find(|other| other.name == *interface) {
                let place = format!("{}:{interface}", stations[*station].name);
                let first = &drafts[other.link].name;
                return Err(Problem::at(*span, format!("'{place}' is at the end of link '{first}' already"))
                    .help("name another interface, or leave the name out"));
            }
            there.push(Interface {
                name: interface.clone(),
                mac: None,
                addresses: Vec::new(),
                addresses6: Vec::new(),
                slaac: false,
                advertise: false,
                link,
                end,
            });
        }
    }
    for interfaces in &mut all {
        interfaces.sort_by_key(|interface| natural(&interface.name));
    }
    Ok(all)
}

/// Sort key that orders eth2 before eth10.
fn natural(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_owned(), name[stem.len()..].parse().unwrap_or(0), name.to_owned())
}

fn routing(section: Option<&Section>, interfaces: &[Interface]) -> Result<Routing, Problem> {
    const KINDS: &[(&str, bool)] = &[("shortest_path", true), ("static", false)];
    let Some(s) = section else { return Ok(Routing { computed: true, ..Routing::default() }) };
    let routes: Vec<values::AnyRoute> = match s.get("routes") {
        Some(node) => section::list(node, "routes")?
            .iter()
            .map(|item| values::route(item, interfaces))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let kind = s.read("routing", |node, key| section::choice(node, key, KINDS))?;
    let mut routing = Routing { computed: kind.unwrap_or(s.get("routes").is_none()), ..Routing::default() };
    for route in routes {
        match route {
            values::AnyRoute::V4(route) => routing.routes.push(route),
            values::AnyRoute::V6(route) => routing.routes6.push(route),
        }
    }
    Ok(routing)
}

/// Checks that the main addresses of hosts are unique.
fn check_addresses(stations: &[Station], hosts: &[Host]) -> Result<(), Problem> {
    let mut owners: Map<std::net::Ipv4Addr, &str> = Map::new();
    for host in hosts {
        if let Some(other) = owners.insert(host.address, &host.name) {
            let message =
                format!("hosts '{other}' and '{}' both have the address {}", host.name, host.address);
            let station = stations.iter().find(|station| station.name == host.name);
            let span = station.and_then(|station| station.section.as_ref()).map(|section| section.span);
            let problem =
                span.map_or(Problem::whole_file(message.clone()), |span| Problem::at(span, message));
            return Err(problem.help("every host is known to the others by an address of its own"));
        }
    }
    Ok(())
}
