//! Section `hosts` and the options of hosts.

use super::{captures, cpu, events_values, links, machine, models, process, root, scheduling};
use crate::PathContext;
use crate::error::{Problem, Problems, Span};
use crate::events::ClockSettings;
use crate::model::{
    CpuSettings, Host, HostOptions, LogLevel, Model, Network, PlacementSetting, Process, Root, WholeMachine,
};
use crate::scheduling::Scheduling;
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node, Section};
use belljar_base::{Map, Set, SimDuration};
use belljar_linux_abi::sysctl;
use belljar_net::suggest::nearest;
use belljar_net::{AddressError, Addresses, Graph, NodeIndex, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Component, PathBuf};

pub(super) const HOST_KEYS: &[&str] = &[
    "network_node_id",
    "ip_addr",
    "ip6_addr",
    "ipv6",
    "bandwidth_up",
    "bandwidth_down",
    "host_options",
    "clock",
    "cpu",
    "cpu_count",
    "memory",
    "root",
    "machine",
    "processes",
    "setup",
];
const OPTION_KEYS: &[&str] = &[
    "log_level",
    "pcap_enabled",
    "pcap_capture_size",
    "pcap_filter",
    "shared",
    "sysctls",
    "queue",
    SCHEDULING,
];
const SCHEDULING: &str = "scheduling";
/// Key of section `host_option_defaults` besides [`OPTION_KEYS`]: the default of a host's `clock`.
const CLOCK: &str = "clock";

/// Context for loading a host.
pub(super) struct Context<'a> {
    /// The graph, unless the file has none.
    pub(super) network: Option<&'a Network>,
    /// True if the graph is unknown, so that hosts may be at any node of it.
    pub(super) is_any_graph: bool,
    /// Names of the hosts, switches and routers at the ends of links.
    pub(super) linked: &'a Set<String>,
    pub(super) defaults: HostOptions,
    /// Time of clock readings, unless a host has its own.
    pub(super) reading: SimDuration,
    pub(super) placement: PlacementSetting,
    pub(super) ipv6: bool,
    pub(super) address_pool: Option<Prefix>,
    pub(super) name_server: Ipv4Addr,
    /// True if the file has other simulators, which need no host.
    pub(super) simulators: bool,
    pub(super) around: &'a PathContext,
}

/// A host before addresses are assigned.
struct Draft<'a> {
    entry: &'a Entry,
    node: Option<NodeIndex>,
    address: Option<(&'a Node, Ipv4Addr)>,
    ipv6: bool,
    address6: Option<(&'a Node, Ipv6Addr)>,
    bandwidth_up: Option<u64>,
    bandwidth_down: Option<u64>,
    options: HostOptions,
    clock: ClockSettings,
    cpu: Option<CpuSettings>,
    cpu_count: Option<u32>,
    memory: Option<u64>,
    processes: Vec<Process>,
    models: Vec<Model>,
    root: Option<Root>,
    machine: Option<WholeMachine>,
}

pub(super) fn read(node: &Node, context: &Context) -> Result<Vec<Host>, Problem> {
    let entries = mapping(node, "section 'hosts'")?;
    if entries.is_empty() && !context.simulators {
        return Err(node.problem("there are no hosts").help("add at least one host"));
    }
    let by_name: Set<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let named = models::Hosts {
        has: &|name| by_name.contains(name),
        names: &|| by_name.iter().copied().collect(),
        name_server: context.name_server,
    };
    let mut drafts = Problems::all(entries.iter().map(|entry| draft(entry, context, &named)))?;
    if let Some(network) = context.network {
        check_self_loops(&drafts, &network.graph)?;
    }
    drafts.sort_by(|a, b| a.entry.key.cmp(&b.entry.key));
    let of_pool =
        context.address_pool.map(|pool| from_pool(pool, &drafts, context)).transpose()?.unwrap_or_default();
    let wanted = drafts.iter().map(|d| {
        let name = d.entry.key.as_str();
        (name, d.address.map(|(_, address)| address).or(of_pool.get(name).copied()))
    });
    let addresses = Addresses::assign(wanted).map_err(|error| address_problem(&drafts, error))?;
    let addresses6 = assign6(&drafts, &addresses)?;
    let hosts: Vec<Host> = drafts
        .into_iter()
        .zip(addresses.iter())
        .zip(addresses6)
        .map(|((draft, (_, name, address)), address6)| Host {
            name: name.to_owned(),
            node: draft.node,
            address,
            ipv6: draft.ipv6,
            address6,
            bandwidth_up: draft.bandwidth_up,
            bandwidth_down: draft.bandwidth_down,
            options: draft.options,
            clock: draft.clock,
            cpu: draft.cpu,
            cpu_count: draft.cpu_count,
            memory: draft.memory,
            processes: draft.processes,
            models: draft.models,
            interfaces: Vec::new(),
            routing: Default::default(),
            forwarding: false,
            root: draft.root,
            machine: draft.machine,
        })
        .collect();
    Ok(hosts)
}

fn draft<'a>(entry: &'a Entry, context: &Context, named: &models::Hosts) -> Result<Draft<'a>, Problem> {
    let mut problems = Problems::default();
    let draft = draft_of(entry, context, named, &mut problems);
    let draft = problems.take(draft);
    problems.check()?;
    Ok(draft.expect("a host without a problem has a value"))
}

fn draft_of<'a>(
    entry: &'a Entry,
    context: &Context,
    named: &models::Hosts,
    problems: &mut Problems,
) -> Result<Draft<'a>, Problem> {
    check_name(&entry.key, entry.key_span, "host")?;
    let place = format!("host '{}'", entry.key);
    let linked = context.linked.contains(&entry.key);
    let keys: Vec<&str> = HOST_KEYS.iter().chain(links::HOST_KEYS).copied().collect();
    let mut s = Section::collecting(&entry.value, &place, &keys, false, problems)?;
    s.span = entry.key_span;
    // Further errors of a host whose attachment to the graph is wrong are found.
    let attachment = problems.take(graph_attachment(&s, linked, context));
    let is_attachment_known = attachment.is_some();
    let in_graph = attachment.flatten().zip(context.network);
    let in_graph = in_graph.map(|(index, network)| (index, network.graph.node(index)));
    if is_attachment_known
        && in_graph.is_none()
        && let Some(entry) =
            ["ip_addr", "ip6_addr", "bandwidth_up", "bandwidth_down"].iter().find_map(|key| s.entry(key))
    {
        return Err(Problem::at(
            entry.key_span,
            format!("'{}' is not valid for {place}, which is not on the graph", entry.key),
        )
        .relational()
        .help("give addresses under 'interfaces' and rates to links"));
    }
    if let (true, None, Some(options)) = (is_attachment_known, &in_graph, s.get("host_options"))
        && let Some(entry) = Section::new(options, "'host_options'", OPTION_KEYS, false)?.entry("queue")
    {
        return Err(Problem::at(
            entry.key_span,
            format!("'queue' is not valid for {place}, which is not on the graph"),
        )
        .relational()
        .help("give the queue to a link: links: [ { between: [...], queue: { packets: 100 } } ]"));
    }
    let address = s.read("ip_addr", |n, k| address(n, k).map(|a| (n, a)))?;
    let ipv6 = match s.get("ipv6") {
        Some(node) => {
            let on = section::boolean(node, "ipv6")?;
            if on && !context.ipv6 {
                return Err(ipv6_is_off(node, &format!("{place} cannot have IPv6")));
            }
            on
        }
        None => context.ipv6,
    };
    let address6 = s.read("ip6_addr", |n, k| address6(n, k, &place).map(|a| (n, a)))?;
    if let Some((node, _)) = address6.filter(|_| !ipv6) {
        return Err(ipv6_is_off(node, &format!("{place} cannot have an IPv6 address")));
    }
    let mut options = match s.get("host_options") {
        Some(own) => options(&Section::new(own, "'host_options'", OPTION_KEYS, false)?, &context.defaults)?,
        None => context.defaults.clone(),
    };
    let (node, bandwidth_up, bandwidth_down) = match in_graph {
        Some((index, node)) => (
            Some(index),
            bandwidth(&s, "bandwidth_up", node.bandwidth_up, node.id)?,
            bandwidth(&s, "bandwidth_down", node.bandwidth_down, node.id)?,
        ),
        None => (None, None, None),
    };
    // A host without processes still answers pings and performs the kernel's own functions.
    let list = s.get("processes").map_or(Ok(&[][..]), |node| section::list(node, "processes"))?;
    let files = s.get("root").map(|node| root::of_host(node, context.around)).transpose()?.flatten();
    // The programs of a root that is missing are not known.
    let list = if files.is_none() && s.get("root").is_some() { &[] } else { list };
    let within = process::Surroundings {
        host: &entry.key,
        placement: context.placement,
        around: context.around,
        root: files.as_ref(),
        shared: &options.shared,
    };
    let (mut processes, mut models) = (Vec::new(), Vec::new());
    for item in list {
        match models::is_model(item) {
            true => models.extend(problems.take(models::read(item, &entry.key, named))),
            false => processes.extend(problems.take(process::read(item, &within))),
        }
    }
    problems.check()?;
    if let Some(node) = s.get("setup").filter(|_| s.get("machine").is_none()) {
        // Last, so that the numbers of the others are those of the list.
        processes.extend(process::setup(node, &within)?);
    }
    let clock = match s.get("clock") {
        Some(node) => events_values::clock(node, "clock", context.reading)?,
        // The clock of a machine is its own.
        None if s.get("machine").is_some() => ClockSettings::default(),
        None => ClockSettings { reading: context.reading, ..ClockSettings::default() },
    };
    let cpu = s.read("cpu", cpu::cpu)?;
    let cpu_count = s.read("cpu_count", cpu::count)?;
    let memory = s.read("memory", cpu::memory)?;
    let root = files.map(|files| files.model);
    let machine = match s.get("machine") {
        Some(_) if context.around.network_only => None,
        Some(node) => {
            if let Some(model) = models.first() {
                return Err(node
                    .problem(format!("traffic models such as '{}' cannot run in a machine", model.spec.name))
                    .help("give them to another host"));
            }
            let (machine, qemu) = machine::read(node, &s, context, root.as_ref(), processes)?;
            processes = vec![qemu];
            Some(machine)
        }
        None => None,
    };
    // Defaults that do not reach this host.
    if machine.is_some() {
        options.shared.clear();
        options.scheduling = Scheduling::default();
    }
    if in_graph.is_none() {
        options.queue = HostOptions::default().queue;
    }
    Ok(Draft {
        entry,
        node,
        address,
        ipv6,
        address6,
        bandwidth_up,
        bandwidth_down,
        options,
        clock,
        cpu,
        cpu_count,
        memory,
        processes,
        models,
        root,
        machine,
    })
}

/// The node of the graph that a host is attached to, if it is on the graph.
fn graph_attachment(s: &Section, linked: bool, context: &Context) -> Result<Option<NodeIndex>, Problem> {
    match (s.entry("network_node_id"), context.network) {
        (None, _) if linked => Ok(None),
        (_, Some(network)) => {
            // A link of the host may be missing instead.
            let id = s.required("network_node_id", "network_node_id: 0").map_err(Problem::relational)?;
            match context.is_any_graph {
                true => Ok(Some(NodeIndex(0))),
                false => graph_node(id, &network.graph).map(Some),
            }
        }
        (Some(entry), None) => {
            let message = "there is no section 'network', so no graph to be attached to";
            Err(Problem::at(entry.key_span, message)
                .help("leave 'network_node_id' out, or add network: { graph: { type: 1_gbit_switch } }")
                .relational())
        }
        // The section `links` checks that the host has a link.
        (None, None) => Ok(None),
    }
}

/// Checks a host name by hostname(7): letters, digits, hyphens and dots; labels of 1 to 63 characters, 253 in
/// all. Capital letters are refused, as in Shadow: names are case-insensitive.
pub(super) fn check_name(name: &str, span: Span, what: &str) -> Result<(), Problem> {
    let problem = |message: String| Err(Problem::at(span, message));
    let lower = name.to_ascii_lowercase();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if name.is_empty() {
        return problem(format!("a {what}'s name must not be empty"));
    }
    if let Some(wrong) = name.chars().find(|c| !allowed(*c)) {
        let repaired: String = lower.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
        return problem(format!("'{wrong}' cannot be part of a {what}'s name")).map_err(|p| {
            p.help(format!("use a-z, 0-9, '-' and '.', such as '{}'", repaired.trim_matches(['-', '.'])))
        });
    }
    if name.len() > 253 {
        return problem(format!("a {what}'s name has at most 253 characters, not {}", name.len()));
    }
    for label in name.split('.') {
        match label.len() {
            0 => return problem(format!("the {what} name '{name}' has an empty part between dots")),
            64.. => return problem(format!("the part '{label}' of this name has more than 63 characters")),
            _ if label.starts_with('-') || label.ends_with('-') => {
                return problem(format!("the part '{label}' of a {what}'s name begins or ends with '-'"));
            }
            _ => {}
        }
    }
    if name == "localhost" {
        return problem("'localhost' is every host's name for itself".to_owned())
            .map_err(|p| p.help("give the host another name"));
    }
    Ok(())
}

fn graph_node(node: &Node, graph: &Graph) -> Result<NodeIndex, Problem> {
    let id = section::whole(node, "network_node_id", u64::from(u32::MAX))?;
    graph.node_by_id(id as u32).ok_or_else(|| {
        let mut ids: Vec<u32> = graph.nodes().iter().map(|n| n.id).collect();
        ids.sort_unstable_by_key(|known| known.abs_diff(id as u32));
        let near: Vec<String> = ids.iter().take(5).map(u32::to_string).collect();
        let more = if ids.len() > near.len() {
            format!(" and {} more", ids.len() - near.len())
        } else {
            String::new()
        };
        node.problem(format!("there is no node {id} in the graph"))
            .help(format!("the graph's nodes are {}{more}", near.join(", ")))
    })
}

pub(super) fn address(node: &Node, key: &str) -> Result<Ipv4Addr, Problem> {
    let text = section::string(node, key)?;
    text.parse().map_err(|_| {
        node.problem(format!("'{text}' is not an IPv4 address"))
            .help("write four numbers from 0 to 255 without leading zeros, such as 10.0.0.1")
    })
}

/// The error for IPv6 settings while IPv6 is disabled.
pub(super) fn ipv6_is_off(node: &Node, what: &str) -> Problem {
    node.problem(format!("{what}: IPv6 is off")).help("switch it on: belljar: { ipv6: true }").relational()
}

fn address6(node: &Node, key: &str, place: &str) -> Result<Ipv6Addr, Problem> {
    let text = section::string(node, key)?;
    let address = text.parse().map_err(|_| {
        node.problem(format!("'{text}' is not an IPv6 address")).help("write it such as 2001:db8::5")
    })?;
    match belljar_net::addresses::unusable_kind6(address) {
        None => Ok(address),
        Some(kind) => Err(node
            .problem(format!("{place} cannot have the address {address}: it is {kind}"))
            .help("use an address such as 2001:db8::5, or leave 'ip6_addr' out to have one assigned")),
    }
}

/// Addresses of a pool for the hosts on the graph without one of their own, in the order of names: the lowest free ones.
fn from_pool<'a>(
    pool: Prefix,
    drafts: &[Draft<'a>],
    context: &Context,
) -> Result<Map<&'a str, Ipv4Addr>, Problem> {
    let mut taken: Set<Ipv4Addr> = drafts.iter().filter_map(|draft| Some(draft.address?.1)).collect();
    taken.insert(context.name_server);
    let (first, last) = (u32::from(pool.address()), u32::from(pool.broadcast().unwrap_or(pool.address())));
    // As without a pool, no address ends in .0 or .255.
    let mut free = (first + 1..last)
        .map(Ipv4Addr::from)
        .filter(|own| !matches!(own.octets()[3], 0 | 255) && !taken.contains(own));
    let mut assigned = Map::new();
    for draft in drafts.iter().filter(|draft| draft.node.is_some() && draft.address.is_none()) {
        let name = draft.entry.key.as_str();
        let address = free.next().ok_or_else(|| {
            Problem::at(
                draft.entry.key_span,
                format!("no address of the pool {pool} is left for host '{name}'"),
            )
            .help("write a larger network, such as address_pool: 10.0.0.0/8")
        })?;
        assigned.insert(name, address);
    }
    Ok(assigned)
}

/// The IPv6 addresses of hosts on the graph: specified, or derived from their IPv4 addresses.
fn assign6(drafts: &[Draft], addresses: &Addresses) -> Result<Vec<Option<Ipv6Addr>>, Problem> {
    let mut owners: Map<Ipv6Addr, &str> = Map::new();
    let mut all = Vec::with_capacity(drafts.len());
    for (draft, (_, name, v4)) in drafts.iter().zip(addresses.iter()) {
        if !draft.ipv6 || draft.node.is_none() {
            all.push(None);
            continue;
        }
        let own = draft.address6.map_or(belljar_net::addresses::automatic6(v4), |(_, own)| own);
        all.push(Some(own));
        if let Some(first) = owners.insert(own, name) {
            let message = format!("hosts '{first}' and '{name}' both have the address {own}");
            let given = |name: &str| drafts.iter().find(|d| d.entry.key == name).and_then(|d| d.address6);
            let at = given(name).or(given(first));
            let problem = at.map_or(Problem::whole_file(message.clone()), |(node, _)| node.problem(message));
            return Err(problem.help("use another address, or leave 'ip6_addr' out to have one assigned"));
        }
    }
    Ok(all)
}

fn bandwidth(s: &Section, key: &str, of_node: Option<u64>, id: u32) -> Result<Option<u64>, Problem> {
    match s.get(key) {
        Some(node) if section::string(node, key).is_ok_and(|text| text == "unlimited") => Ok(None),
        Some(node) => section::shadow_bandwidth(node, key).map(Some),
        None => of_node.map(Some).ok_or_else(|| {
            Problem::at(
                s.span,
                format!("{} has no '{key}', and node {id} of the graph has none either", s.place),
            )
            .help(format!("add {key}: 1 Gbit (or {key}: unlimited) here, or host_{key} to the node"))
        }),
    }
}

/// Loads section `host_option_defaults`: the options of hosts, and the time of clock readings.
pub(super) fn defaults(node: &Node) -> Result<(HostOptions, SimDuration), Problem> {
    let keys: Vec<&str> = OPTION_KEYS.iter().chain([&CLOCK]).copied().collect();
    let s = Section::new(node, "'host_option_defaults'", &keys, false)?;
    let reading = s.read(CLOCK, events_values::usual_clock)?.unwrap_or_default();
    Ok((options(&s, &HostOptions::default())?, reading))
}

fn options(s: &Section, defaults: &HostOptions) -> Result<HostOptions, Problem> {
    let mut options = defaults.clone();
    let level = |n: &_, k: &str| section::choice(n, k, LogLevel::NAMES);
    s.read_nullable("log_level", level)?.inspect(|v| options.log_level = *v);
    s.read("pcap_enabled", section::boolean)?.inspect(|v| options.pcap_enabled = *v);
    s.read("pcap_capture_size", section::bytes)?.inspect(|v| options.pcap_capture_size = *v);
    s.read("pcap_filter", captures::read)?.inspect(|v| options.pcap_filter = v.clone());
    if let Some(node) = s.get("shared") {
        let paths = section::list(node, "shared")?.iter().map(|item| shared_directory(item));
        options.shared = paths.collect::<Result<_, _>>()?;
    }
    s.read("queue", |node, _| links::queue(node))?.inspect(|v| options.queue = v.clone());
    s.read(SCHEDULING, scheduling::read)?.inspect(|v| options.scheduling = *v);
    if let Some(node) = s.get("sysctls") {
        for entry in mapping(node, "sysctls")? {
            options.sysctls.insert(entry.key.clone(), sysctl(entry)?);
        }
    }
    Ok(options)
}

/// A kernel setting of a host: its value as read from the file in `/proc/sys`.
fn sysctl(entry: &Entry) -> Result<String, Problem> {
    let Some(values) = sysctl::values(&entry.key) else {
        let problem = Problem::at(entry.key_span, format!("hosts have no setting '{}'", entry.key));
        return Err(match nearest(&entry.key, sysctl::SETTINGS.iter().map(|(name, _)| *name)) {
            Some(near) => problem.help(format!("did you mean '{near}'?")),
            None => problem.help("write a name as sysctl(8) does, such as net.ipv4.tcp_congestion_control"),
        });
    };
    let text = section::string(&entry.value, &entry.key)?.trim();
    match values.take(text) {
        true => Ok(text.to_owned()),
        false => Err(entry
            .value
            .problem(format!("'{}' does not take '{text}'", entry.key))
            .help(format!("it takes {values}"))),
    }
}

/// A directory of the machine that hosts access directly.
fn shared_directory(node: &Node) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(section::string(node, "a path of 'shared'")?);
    let problem = |text: &str| node.problem(format!("'{}' {text}", path.display()));
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(problem("must be an absolute path").help("such as /srv/data"));
    }
    // A symbolic link in the path would lead outside of the shared directory.
    match path.canonicalize() {
        Ok(real) if real == path && real.is_dir() && real.parent().is_some() => Ok(real),
        Ok(real) if real != path => {
            Err(problem("is a link").help(format!("write {} instead", real.display())))
        }
        Ok(_) => Err(problem("is not a directory that can be shared")),
        Err(_) => Err(problem("does not exist").help("make it first, or leave it out")),
    }
}

/// Two hosts at one node need an edge from the node to itself.
fn check_self_loops(drafts: &[Draft], graph: &Graph) -> Result<(), Problem> {
    let mut first: Map<NodeIndex, &str> = Map::new();
    for draft in drafts {
        let name = draft.entry.key.as_str();
        let Some(node) = draft.node else { continue };
        if let Some(other) = first.insert(node, name)
            && graph.path(node, node).is_none()
        {
            let id = graph.node(node).id;
            return Err(Problem::at(
                draft.entry.key_span,
                format!("hosts '{other}' and '{name}' share node {id}, which has no edge to itself"),
            )
            .help(format!("add edge [ source {id} target {id} latency \"1 ms\" ] to the graph")));
        }
    }
    Ok(())
}

fn address_problem(drafts: &[Draft], error: AddressError) -> Problem {
    let name = match &error {
        AddressError::Duplicate { second, .. } => second,
        AddressError::Unusable { host, .. } => host,
        AddressError::DuplicateName(name) | AddressError::Exhausted(name) => name,
    };
    let draft = drafts.iter().find(|d| d.entry.key == *name);
    match draft.and_then(|d| d.address) {
        Some((node, _)) => node
            .problem(error.to_string())
            .help("use an address such as 10.0.0.1, or leave 'ip_addr' out to have one assigned"),
        None => Problem::whole_file(error.to_string()),
    }
}
