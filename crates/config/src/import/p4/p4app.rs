//! `p4app.json` of p4-utils: addresses and ARP entries follow from an assignment strategy, ports are numbered
//! in the order of the sorted links.

use super::{Link, Network, Options, Switch, bandwidth, delay, entry, number, part};
use crate::error::{Problem, Source};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node, Value};
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;
use std::rc::Rc;

const HELP: &str = "a p4app.json of p4-utils has a 'topology' with hosts, switches and links";
/// Keys of a link that are not taken over where a strategy assigns the addresses.
const ADDRESS_KEYS: [&str; 6] = ["addr1", "addr2", "params1", "params2", "sw_ip1", "sw_ip2"];
const DEFAULT_KEYS: [&str; 8] =
    ["bw", "delay", "loss", "max_queue_size", "queue_length", "weight", "auto_gw_arp", "auto_arp_tables"];
const LINK_KEYS: [&str; 14] = [
    "bw",
    "delay",
    "loss",
    "max_queue_size",
    "queue_length",
    "weight",
    "port1",
    "port2",
    "addr1",
    "addr2",
    "params1",
    "params2",
    "sw_ip1",
    "sw_ip2",
];

/// Address assignment strategy.
#[derive(Clone, Copy, PartialEq)]
enum Strategy {
    /// All hosts are in 10.0.0.0/16.
    L2,
    /// The hosts of each switch share a network.
    Mixed,
    /// Every host has a network of its own.
    L3,
}

/// A link's end at a host, from which its address and ARP entries are derived.
struct Place {
    host: String,
    interface: String,
    switch: String,
    /// Address specified by the link.
    address: Option<String>,
    mac: Option<String>,
    /// Address specified for the switch's end.
    gateway: Option<String>,
}

/// Static ARP entries to be set.
struct Arp {
    gateways: bool,
    hosts: bool,
}

pub(super) fn read(source: &Source, network: &mut Network, options: &Options) -> Result<(), Problem> {
    let tree = yaml::parse(&source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "this file")?;
    let scripts = entry(top, "exec_scripts").map(|e| section::list(&e.value, "exec_scripts")).transpose()?;
    for script in scripts.unwrap_or_default() {
        let command = mapping(script, "")
            .ok()
            .and_then(|script| section::string(&entry(script, "cmd")?.value, "").ok());
        let command = command.unwrap_or("a script");
        network.note(script.span, format!("'{command}' is not run: add it to the processes of a host"));
    }
    // Whatever is switched off is not missed.
    let enabled: Vec<Entry> = top.iter().filter(|entry| !is_false(entry)).cloned().collect();
    network.note_others(&enabled, &["p4_src", "program", "topology", "exec_scripts"], "this file");
    let topology = entry(top, "topology")
        .ok_or_else(|| Problem::at(tree.span, "there is no 'topology' in this file").help(HELP))?;
    let parts = mapping(&topology.value, "'topology'")?;
    let known =
        ["assignment_strategy", "default", "links", "hosts", "switches", "auto_gw_arp", "auto_arp_tables"];
    network.note_others(parts, &known, "'topology'");
    for host in part(&topology.value, "hosts", "'topology'", HELP)? {
        add_host(network, host)?;
    }
    let source = entry(top, "p4_src").or_else(|| entry(top, "program"));
    let mut ids = Ids::default();
    for switch in part(&topology.value, "switches", "'topology'", HELP)? {
        add_switch(network, switch, source, options, &mut ids)?;
    }
    let defaults =
        entry(parts, "default").map(|e| mapping(&e.value, "'default'")).transpose()?.unwrap_or_default();
    network.note_others(defaults, &DEFAULT_KEYS, "'default'");
    let on = |key: &str| {
        let set = entry(defaults, key).or_else(|| entry(parts, key));
        set.and_then(|e| section::string(&e.value, "").ok())
            .is_none_or(|text| !text.eq_ignore_ascii_case("false"))
    };
    let arp = Arp { gateways: on("auto_gw_arp"), hosts: on("auto_arp_tables") };
    let links =
        entry(parts, "links").ok_or_else(|| topology.value.problem("there are no links").help(HELP))?;
    let strategy = match entry(parts, "assignment_strategy") {
        None => None,
        Some(e) => Some(section::choice(
            &e.value,
            "assignment_strategy",
            &[("l2", Strategy::L2), ("mixed", Strategy::Mixed), ("l3", Strategy::L3)],
        )?),
    };
    let links = section::list(&links.value, "links")?;
    let mut places = Vec::new();
    for (link, ports) in links.iter().zip(number_ports(network, links)?) {
        add_link(network, link, defaults, ports, &mut places)?;
        note_addresses(network, link, strategy.is_some());
    }
    assign(network, places, strategy, &ids.finish(), &arp);
    Ok(())
}

fn add_host(network: &mut Network, host: &Entry) -> Result<(), Problem> {
    let name = network.name(host)?;
    let entries = match host.value.is_null() {
        true => &[],
        false => mapping(&host.value, &format!("host '{name}'"))?,
    };
    let enabled: Vec<Entry> = entries.iter().filter(|entry| !is_false(entry)).cloned().collect();
    network.note_others(&enabled, &["defaultRoute"], &format!("host '{name}'"));
    let made = network.hosts.entry(name).or_default();
    if let Some(route) = entry(entries, "defaultRoute") {
        let text = section::string(&route.value, "defaultRoute")?;
        made.gateway = text.split_whitespace().last().map(str::to_owned);
    }
    Ok(())
}

/// Numbers of switches: the specified ones, and the lowest free ones in the order of the names.
#[derive(Default)]
struct Ids {
    given: Map<String, u64>,
    silent: Vec<String>,
}

impl Ids {
    fn finish(mut self) -> Map<String, u64> {
        self.silent.sort_by_key(|name| natural(name));
        let mut taken: Set<u64> = self.given.values().copied().collect();
        for name in self.silent {
            let id = (1..).find(|id| !taken.contains(id)).unwrap_or_default();
            taken.insert(id);
            self.given.insert(name, id);
        }
        self.given
    }
}

/// Sort key of a name, in which s2 comes before s10: its text and numbers by turns, as in Mininet.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(digits);
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        pieces.push((text.to_owned(), after[..end].parse().unwrap_or_default()));
        rest = &after[end..];
    }
    pieces
}

fn add_switch(
    network: &mut Network,
    switch: &Entry,
    source: Option<&Entry>,
    options: &Options,
    ids: &mut Ids,
) -> Result<(), Problem> {
    let name = network.name(switch)?;
    let entries = match switch.value.is_null() {
        true => &[],
        false => mapping(&switch.value, &format!("switch '{name}'"))?,
    };
    let known = ["p4_src", "program", "cli_input", "runtime_json", "priority_queues_num", "device_id"];
    network.note_others(entries, &known, &format!("switch '{name}'"));
    let own = entry(entries, "p4_src").or_else(|| entry(entries, "program"));
    let program = match (own, options.program, source) {
        (None, Some(program), _) => program.to_owned(),
        (Some(written), ..) | (None, None, Some(written)) => {
            let text = section::string(&written.value, &written.key)?;
            network.program(text).ok_or_else(|| {
                written.value.problem(format!("there is no file '{text}'")).help("add --p4 PROGRAM.p4")
            })?
        }
        _ => network.default_program(options).ok_or_else(|| {
            Problem::at(switch.key_span, format!("the file does not say which program switch '{name}' runs"))
                .help("add --p4 PROGRAM.p4")
        })?,
    };
    let file = |key: &str| {
        let found = entry(entries, key);
        found.map(|e| network.file(section::string(&e.value, key)?, e.value.span)).transpose()
    };
    let (runtime, commands) = (file("runtime_json")?, file("cli_input")?);
    let whole = |key: &str| entry(entries, key).map(|e| number(&e.value, key)).transpose();
    let queues = whole("priority_queues_num")?.map(|queues| queues as u64);
    match whole("device_id")? {
        Some(id) => drop(ids.given.insert(name.clone(), id as u64)),
        None => ids.silent.push(name.clone()),
    }
    network.switches.insert(name, Switch { program, runtime, commands, queues });
    Ok(())
}

/// Ports of both ends of each link. The ends without one get the lowest free ones, from 1 on switches and from 0 on hosts, in the
/// order of the links by the names of their ends.
fn number_ports(network: &Network, links: &[Rc<Node>]) -> Result<Vec<[u64; 2]>, Problem> {
    let mut taken: Map<String, Set<u64>> = Map::new();
    let mut numbered = Vec::new();
    for link in links {
        let mut ends = [(String::new(), None), (String::new(), None)];
        let parts = section::list(link, "a link")?;
        let own = parts.get(2).and_then(|node| mapping(node, "").ok()).unwrap_or_default();
        for ((name, port), (node, key)) in ends.iter_mut().zip(parts.iter().zip(["port1", "port2"])) {
            section::string(node, "an end of a link")?.clone_into(name);
            *port = entry(own, key).map(|e| number(&e.value, key)).transpose()?.map(|port| port as u64);
            taken.entry(super::node_name(name)).or_default().extend(*port);
        }
        numbered.push(ends);
    }
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by_cached_key(|index| numbered[*index].each_ref().map(|(name, _)| natural(name)));
    for index in order {
        for (name, port) in &mut numbered[index] {
            let node = super::node_name(name);
            let first = u64::from(!network.hosts.contains_key(&node));
            let taken = taken.entry(node).or_default();
            let port = port.get_or_insert_with(|| {
                (first..).find(|port| !taken.contains(port)).expect("a number is free")
            });
            taken.insert(*port);
        }
    }
    let port = |port: Option<u64>| port.expect("all ends have a port");
    Ok(numbered.into_iter().map(|[(_, first), (_, second)]| [port(first), port(second)]).collect())
}

fn add_link(
    network: &mut Network,
    link: &Node,
    defaults: &[Entry],
    ports: [u64; 2],
    places: &mut Vec<Place>,
) -> Result<(), Problem> {
    let parts = section::list(link, "a link")?;
    let [first, second, rest @ ..] = parts else {
        return Err(link.problem("a link has two ends").help("write [\"h1\", \"s1\"]"));
    };
    let own = match rest.first().map(|node| (&node.value, node)) {
        Some((Value::Mapping(entries), _)) => &entries[..],
        Some((_, node)) => {
            return Err(node.problem("the settings of a link are a mapping").help("write {\"bw\": 10}"));
        }
        None => &[],
    };
    network.note_others(own, &LINK_KEYS, "a link");
    let find = |key: &str| entry(own, key).or_else(|| entry(defaults, key));
    let mut made = Link::default();
    let mut ends = Vec::new();
    for (node, port) in [first, second].into_iter().zip(ports) {
        let name = super::node_name(section::string(node, "an end of a link")?);
        let is_host = network.hosts.contains_key(&name);
        if !is_host && !network.switches.contains_key(&name) {
            return Err(node.problem(format!("there is no host or switch '{name}'")));
        }
        ends.push((name, is_host, if is_host { format!("eth{port}") } else { format!("p{port}") }));
    }
    for (n, (name, is_host, interface)) in ends.iter().enumerate() {
        made.ends[n] = format!("{name}:{interface}");
        let (mine, other) = (n + 1, 2 - n);
        let text = |key: String| {
            entry(own, &key).map(|e| Ok(section::string(&e.value, &key)?.to_owned())).transpose()
        };
        if !is_host {
            continue;
        }
        let settings = entry(own, &format!("params{mine}"));
        let address = settings.and_then(|e| entry(mapping(&e.value, "").ok()?, "ip"));
        places.push(Place {
            host: name.clone(),
            interface: interface.clone(),
            switch: ends[other - 1].0.clone(),
            address: address.map(|e| Ok(section::string(&e.value, "ip")?.to_owned())).transpose()?,
            mac: text(format!("addr{mine}"))?,
            gateway: text(format!("sw_ip{other}"))?,
        });
    }
    let settings = &mut made.settings;
    if let Some(e) = find("delay") {
        settings.extend(delay(&e.value, "delay")?.map(|delay| ("latency", delay)));
    }
    if let Some(e) = find("bw") {
        settings.push(("rate", bandwidth(&e.value, "bw")?));
    }
    if let Some(e) = find("loss") {
        settings.push(("packet_loss", (number(&e.value, "loss")? / 100.0).to_string()));
    }
    if let Some(e) = find("max_queue_size").or_else(|| find("queue_length")) {
        settings.push(("queue", format!("{{packets: {}}}", number(&e.value, &e.key)? as u64)));
    }
    if let Some(e) = find("weight") {
        settings.push(("cost", (number(&e.value, "weight")? as u64).to_string()));
    }
    network.links.push(made);
    Ok(())
}

/// Notes the addresses of a link's ends that are not taken over: all of them where a strategy assigns addresses,
/// those of switches, and other settings of interfaces than `ip`.
fn note_addresses(network: &mut Network, link: &Node, has_strategy: bool) {
    let Ok([first, second, rest @ ..]) = section::list(link, "") else { return };
    let own = rest.first().and_then(|node| mapping(node, "").ok()).unwrap_or_default();
    let is_host = [first, second].map(|end| {
        section::string(end, "").is_ok_and(|name| network.hosts.contains_key(&super::node_name(name)))
    });
    for entry in own.iter().filter(|entry| ADDRESS_KEYS.contains(&entry.key.as_str())) {
        let key = &entry.key;
        let end = usize::from(key.ends_with('2'));
        let at = entry.key_span;
        match has_strategy {
            true => network.note(at, format!("'{key}' is not taken over: the strategy assigns addresses")),
            // The address of a switch is the gateway of the host at the other end.
            false if is_host[end] == key.starts_with("sw_ip") => {
                network.note(at, format!("'{key}' of a link is not taken over"));
            }
            false if key.starts_with("sw_ip") && !is_host[1 - end] => {
                network.note(at, format!("'{key}' of a link is not taken over"));
            }
            false => {
                let settings = mapping(&entry.value, "").unwrap_or_default();
                network.note_others(settings, &["ip"], &format!("'{key}'"));
            }
        }
    }
}

fn is_false(entry: &Entry) -> bool {
    section::string(&entry.value, "").is_ok_and(|text| text.eq_ignore_ascii_case("false"))
}

/// Assigns addresses, default routes and ARP entries to the hosts.
fn assign(
    network: &mut Network,
    places: Vec<Place>,
    strategy: Option<Strategy>,
    ids: &Map<String, u64>,
    arp: &Arp,
) {
    // Hosts without a number in their name get the lowest free one in their network.
    let mut taken: Map<u64, Set<u64>> = Map::new();
    let group = |place: &Place| if strategy == Some(Strategy::L2) { 0 } else { id_of(ids, &place.switch) };
    for place in &places {
        taken.entry(group(place)).or_default().extend(number_of(&place.host));
    }
    let mut known: Vec<(Place, String, String)> = Vec::new();
    for mut place in places {
        let group = group(&place);
        let number = number_of(&place.host).unwrap_or_else(|| {
            let numbers = taken.entry(group).or_default();
            let free = (1..).find(|n| !numbers.contains(n)).unwrap_or_default();
            numbers.insert(free);
            free
        });
        let (high, low) = (group >> 8 & 255, group & 255);
        let (address, gateway) = match strategy {
            None => (None, None),
            Some(Strategy::L2) => (Some(format!("10.0.{}.{}/16", number >> 8 & 255, number & 255)), None),
            Some(Strategy::Mixed) => {
                (Some(format!("10.{high}.{low}.{number}/24")), Some(format!("10.{high}.{low}.254")))
            }
            Some(Strategy::L3) => {
                (Some(format!("10.{low}.{number}.2/24")), Some(format!("10.{low}.{number}.1")))
            }
        };
        let address = address.or(place.address.take());
        let host = network.hosts.entry(place.host.clone()).or_default();
        if gateway.is_some() {
            host.gateway.clone_from(&gateway);
        }
        place.gateway =
            gateway.or(place.gateway.take().map(|own| own.split('/').next().unwrap_or_default().to_owned()));
        let mac = match strategy {
            Some(_) => address.as_deref().and_then(|own| mac_of(own, 0)),
            None => place.mac.take(),
        };
        host.interfaces.insert(place.interface.clone(), (address.clone(), mac.clone()));
        known.push((place, address.unwrap_or_default(), mac.unwrap_or_default()));
    }
    for (place, address, _) in &known {
        let Some(host) = network.hosts.get_mut(&place.host) else { continue };
        if let (true, Some(gateway), Some(mac)) = (arp.gateways, &place.gateway, mac_of(address, 1))
            && host.gateway.as_ref() == Some(gateway)
        {
            host.neighbour(None, &place.interface, gateway, &mac);
        }
        let others = known.iter().filter(|(other, own, mac)| {
            arp.hosts && other.host != place.host && !mac.is_empty() && network_of(own) == network_of(address)
        });
        for (_, own, mac) in others {
            host.neighbour(None, &place.interface, own.split('/').next().unwrap_or_default(), mac);
        }
    }
}

fn id_of(ids: &Map<String, u64>, switch: &str) -> u64 {
    ids.get(switch).copied().unwrap_or_default()
}

/// The number in a host name of the form h1, h2 and so on.
fn number_of(host: &str) -> Option<u64> {
    host.strip_prefix('h')?.parse().ok().filter(|number| *number > 0)
}

/// Hardware address that p4-utils derives from an IP address, for a host (0) or the port to which it is
/// attached (1).
fn mac_of(address: &str, first: u8) -> Option<String> {
    let ip: Ipv4Addr = address.split('/').next()?.parse().ok()?;
    let [a, b, c, d] = ip.octets();
    Some(format!("00:{first:02x}:{a:02x}:{b:02x}:{c:02x}:{d:02x}"))
}

fn network_of(address: &str) -> Option<String> {
    Some(address.parse::<belljar_net::InterfaceAddress>().ok()?.network().to_string())
}
