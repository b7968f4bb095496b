//! Values specific to events and clocks: sets of hosts, targets, probabilities, signed times.

use crate::PathContext;
use crate::error::Problem;
use crate::events::{ClockSettings, CrashFiles, DiskProfile, HostSet, ProcessRef, Target};
use crate::model::{Host, Network};
use crate::topology::Topology;
use crate::yaml::{Node, Section, Style, Value, section};
use belljar_base::{HostId, SimDuration, SimTime, matches_wildcard};
use belljar_net::suggest::nearest;
use belljar_net::units;

/// The hosts and network to which events can refer.
pub(crate) struct World<'a> {
    pub(crate) hosts: &'a [Host],
    pub(crate) network: &'a Network,
    pub(crate) topology: &'a Topology,
    pub(crate) around: &'a PathContext,
    /// End of the simulation.
    pub(crate) stop_time: Option<SimTime>,
}

impl World<'_> {
    /// Names of hosts and devices, by their ids.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        hosts.chain(self.topology.devices.iter().map(|device| device.name.as_str()))
    }
    pub(crate) fn node_count(&self) -> usize {
        self.hosts.len() + self.topology.devices.len()
    }
    /// True if there are hosts on the graph.
    pub(crate) fn has_graph(&self) -> bool {
        self.hosts.iter().any(|host| host.node.is_some())
    }
}

/// Upper bound on the drift of a clock: a tenth.
const MAX_DRIFT_PPB: i64 = 100_000_000;

/// A name, a pattern such as `replica*`, a list of both, `all`, or `{ one_of: ... }`.
pub(crate) fn host_set(node: &Node, key: &str, world: &World) -> Result<HostSet, Problem> {
    set(node, key, world, world.hosts.len())
}

/// Set of hosts and devices, written like a [`host_set`].
pub(crate) fn node_set(node: &Node, key: &str, world: &World) -> Result<HostSet, Problem> {
    set(node, key, world, world.node_count())
}

/// The set among the first `count` nodes.
fn set(node: &Node, key: &str, world: &World, count: usize) -> Result<HostSet, Problem> {
    match &node.value {
        Value::Mapping(_) => {
            let s = Section::new(node, &format!("'{key}'"), &["one_of"], false)?;
            let inner = s.required("one_of", "one_of: [alice, bob]")?;
            Ok(match set(inner, "one_of", world, count)? {
                HostSet::All => HostSet::OneOf((0..world.hosts.len() as u32).map(HostId).collect()),
                HostSet::Some(hosts) | HostSet::OneOf(hosts) => HostSet::OneOf(hosts),
            })
        }
        Value::Sequence(items) => {
            let mut all = Vec::new();
            for item in items {
                all.extend(named(item, key, world, count)?);
            }
            if all.is_empty() {
                return Err(node.problem(format!("'{key}' names no host")));
            }
            all.sort_unstable();
            all.dedup();
            Ok(HostSet::Some(all))
        }
        Value::Scalar(_) if section::string(node, key)? == "all" => Ok(HostSet::All),
        Value::Scalar(_) => named(node, key, world, count).map(HostSet::Some),
    }
}

/// The hosts that match one name or pattern.
fn named(node: &Node, key: &str, world: &World, count: usize) -> Result<Vec<HostId>, Problem> {
    let text = section::string(node, key)?;
    let hosts = world.names().take(count).enumerate().filter(|(_, name)| matches_wildcard(text, name));
    let found: Vec<HostId> = hosts.map(|(index, _)| HostId(index as u32)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    if text.contains('*') {
        return Err(node.problem(format!("no host's name is like '{text}'")));
    }
    let names = world.names().take(count);
    let device = world.names().skip(count).position(|name| name == text).map(|index| index + count);
    let links = device.map(|index| links_of(HostId(index as u32), world)).unwrap_or_default();
    let help = match nearest(text, names.clone()) {
        _ if !links.is_empty() => format!("'{text}' is a device; events take its links by name: {links}"),
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let some: Vec<&str> = names.take(5).collect();
            let more = count.saturating_sub(some.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("the hosts are {}{more}", some.join(", "))
        }
    };
    Err(node.problem(format!("there is no host '{text}'")).help(help))
}

/// Names of the first links of a device.
fn links_of(device: HostId, world: &World) -> String {
    let links = world.topology.links.iter().filter(|link| link.ends.iter().any(|end| end.node == device));
    links.take(5).map(|link| &*link.name).collect::<Vec<_>>().join(", ")
}

/// Fails unless all of these hosts are on the graph.
pub(crate) fn on_graph(node: &Node, hosts: &HostSet, world: &World) -> Result<(), Problem> {
    let off =
        world.hosts.iter().enumerate().find(|(n, host)| {
            host.node.is_none() && hosts.may_hold(HostId(*n as u32)) && *hosts != HostSet::All
        });
    match off {
        Some((_, host)) => Err(node
            .problem(format!("host '{}' is not on the graph: it has links only", host.name))
            .relational()
            .help("name a link, such as link_change: { link: NAME }")),
        None if world.has_graph() => Ok(()),
        None => Err(no_graph(node)),
    }
}

/// The error for an event of the graph in an experiment without hosts on it.
fn no_graph(node: &Node) -> Problem {
    node.problem("no host is on the graph: all have links only")
        .relational()
        .help("name a link, such as link_change: { link: NAME }")
}

/// Links by name or pattern, or a list of both.
fn links(node: &Node, world: &World) -> Result<Vec<usize>, Problem> {
    let mut all = Vec::new();
    let items = match &node.value {
        Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
        _ => vec![node],
    };
    for item in items {
        let text = section::string(item, "link")?;
        let links = &world.topology.links;
        // A PCI connection is no link of the network, and no pattern means one.
        let known = || links.iter().filter(|link| link.pci.is_none()).map(|link| link.name.as_str());
        if links.iter().any(|link| link.pci.is_some() && link.name == text) {
            return Err(item
                .problem(format!(
                    "'{text}' is a connection of a host to its device, which events do not change"
                ))
                .help("name the link of the device"));
        }
        let found: Vec<usize> = (0..links.len())
            .filter(|n| links[*n].pci.is_none() && matches_wildcard(text, &links[*n].name))
            .collect();
        if let Some(channel) =
            found.iter().map(|n| &links[*n]).find(|link| world.topology.is_channel(link, world.hosts.len()))
        {
            let message = format!(
                "link '{}' joins two simulators, which exchange frames directly: events do not change it",
                channel.name
            );
            return Err(item.problem(message).help("name other links, or put a switch between the two"));
        }
        if found.is_empty() {
            let help = match (nearest(text, known()), known().next()) {
                (Some(near), _) => format!("did you mean '{near}'?"),
                (None, Some(first)) => format!("links have names such as '{first}'"),
                (None, None) => "this experiment has no links; write [alice, bob] for a path".to_owned(),
            };
            return Err(item.problem(format!("there is no link '{text}'")).help(help));
        }
        all.extend(found);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// `{ link: uplink }` or `{ link: uplink, from: alice }`.
fn link_target(s: &Section, node: &Node, world: &World) -> Result<Target, Problem> {
    let links = links(node, world)?;
    let Some(from) = s.get("from") else { return Ok(Target::Links { links, from: None }) };
    let HostSet::Some(ends) = node_set(from, "from", world)? else {
        return Err(from.problem("'from' names one end of the link"));
    };
    let [end] = ends[..] else { return Err(from.problem("'from' names one end of the link")) };
    let all = &world.topology.links;
    if let Some(other) = links.iter().find(|n| all[**n].ends.iter().all(|known| known.node != end)) {
        return Err(from.problem(format!("that is no end of link '{}'", all[*other].name)));
    }
    Ok(Target::Links { links, from: Some(end) })
}

/// `NAME` of a link, `[alice, bob]`, `{ from: alice, to: bob }`, `{ edge: [0, 1] }` or `{ link: NAME }`.
pub(crate) fn target(node: &Node, key: &str, world: &World) -> Result<Target, Problem> {
    const FORMS: &str = "write [alice, bob], { from: alice, to: bob } or { edge: [0, 1] }";
    match &node.value {
        Value::Sequence(items) => {
            let [from, to] = &items[..] else {
                return Err(node.problem(format!("'{key}' takes two ends, not {}", items.len())).help(FORMS));
            };
            let (first, second) = (host_set(from, key, world)?, host_set(to, key, world)?);
            on_graph(from, &first, world)?;
            on_graph(to, &second, world)?;
            Ok(Target::Paths { from: first, to: second, both: true })
        }
        Value::Mapping(_) => {
            let s = Section::new(node, &format!("'{key}'"), &["from", "to", "edge", "link"], false)?;
            if let (Some(link), None, None) = (s.get("link"), s.get("to"), s.get("edge")) {
                return link_target(&s, link, world);
            }
            match (s.get("from"), s.get("to"), s.get("edge")) {
                (Some(from), Some(to), None) => {
                    let (first, second) = (host_set(from, "from", world)?, host_set(to, "to", world)?);
                    on_graph(from, &first, world)?;
                    on_graph(to, &second, world)?;
                    Ok(Target::Paths { from: first, to: second, both: false })
                }
                (None, None, Some(ends)) => edge(ends, world),
                _ => Err(node.problem(format!("'{key}' takes 'from' and 'to', or 'edge'")).help(FORMS)),
            }
        }
        Value::Scalar(_) if world.topology.links.is_empty() => {
            Err(node.problem(format!("'{key}' takes two ends")).help(FORMS))
        }
        Value::Scalar(_) => Ok(Target::Links { links: links(node, world)?, from: None }),
    }
}

fn edge(node: &Node, world: &World) -> Result<Target, Problem> {
    let graph = &world.network.graph;
    if !world.has_graph() {
        return Err(no_graph(node));
    }
    let [from, to] = section::list(node, "edge")? else {
        return Err(node.problem("'edge' takes two nodes").help("write edge: [0, 1]"));
    };
    let read = |node: &Node| {
        let id = section::whole(node, "edge", u64::from(u32::MAX))? as u32;
        let index = graph.node_by_id(id);
        index
            .map(|index| (id, index))
            .ok_or_else(|| node.problem(format!("there is no node {id} in the graph")).relational())
    };
    let ((from, first), (to, second)) = (read(from)?, read(to)?);
    if !graph.has_edge(first, second) {
        return Err(node
            .problem(format!("no edge of the graph leads from node {from} to node {to}"))
            .relational()
            .help("for the path between two hosts, write [alice, bob]"));
    }
    Ok(Target::Edge(from, to))
}

/// An index in the list of processes, or a program's name; each host must have it.
pub(crate) fn process_ref(
    node: &Node,
    key: &str,
    hosts: &HostSet,
    world: &World,
) -> Result<ProcessRef, Problem> {
    let process = place_or_name(node, key)?;
    let has = |host: &Host| host.processes_like(&process).next().is_some();
    each_has(node, &process, hosts, world, false, has)?;
    Ok(process)
}

/// A process as in [`process_ref`], or the name of a model.
pub(crate) fn startable(node: &Node, hosts: &HostSet, world: &World) -> Result<ProcessRef, Problem> {
    let process = place_or_name(node, "start")?;
    let has = |host: &Host| {
        let model =
            matches!(&process, ProcessRef::Program(name) if host.models_called(name).next().is_some());
        model || host.processes_like(&process).next().is_some()
    };
    each_has(node, &process, hosts, world, true, has)?;
    Ok(process)
}

/// The name of a model that each host must have.
pub(crate) fn model_ref(node: &Node, hosts: &HostSet, world: &World) -> Result<String, Problem> {
    let name = section::string(node, "stop")?.to_owned();
    for (_, host) in of(hosts, world) {
        if host.models_called(&name).next().is_some() {
            continue;
        }
        let problem = node.problem(format!("host '{}' has no model '{name}'", host.name));
        let models = host.models.iter().map(|model| model.spec.name.as_str());
        let help = match nearest(&name, models.clone()) {
            Some(near) => format!("did you mean '{near}'?"),
            None if host.processes.iter().any(|process| process.program_name() == name) => {
                "that is a program: end it by { signal: SIGTERM }".to_owned()
            }
            None if host.models.is_empty() => "it has no models".to_owned(),
            None => format!("it has {}", models.collect::<Vec<_>>().join(", ")),
        };
        return Err(problem.help(help));
    }
    Ok(name)
}

/// True if any of these hosts has a matching program.
pub(crate) fn runs_programs(hosts: &HostSet, process: &ProcessRef, world: &World) -> bool {
    of(hosts, world).any(|(_, host)| host.processes_like(process).next().is_some())
}

pub(crate) fn place_or_name(node: &Node, key: &str) -> Result<ProcessRef, Problem> {
    let text = section::string(node, key)?;
    let is_plain = matches!(&node.value, Value::Scalar(s) if s.style == Style::Plain);
    Ok(match text.parse::<usize>() {
        Ok(number) if is_plain => ProcessRef::Number(number),
        _ => ProcessRef::Program(text.to_owned()),
    })
}

/// The hosts of a set, with their indices.
pub(crate) fn of<'a>(hosts: &'a HostSet, world: &'a World) -> impl Iterator<Item = (usize, &'a Host)> {
    world.hosts.iter().enumerate().filter(|(n, _)| hosts.may_hold(HostId(*n as u32)))
}

fn each_has(
    node: &Node,
    process: &ProcessRef,
    hosts: &HostSet,
    world: &World,
    models: bool,
    has: impl Fn(&Host) -> bool,
) -> Result<(), Problem> {
    let Some((_, host)) = of(hosts, world).find(|(_, host)| !has(host)) else { return Ok(()) };
    let name = &host.name;
    let (text, message) = match process {
        ProcessRef::Number(number) => (number.to_string(), format!("host '{name}' has no process {number}")),
        ProcessRef::Program(text) => (text.clone(), format!("host '{name}' runs no program '{text}'")),
    };
    let mut known: Vec<String> = host.processes.iter().map(|p| p.program_name()).collect();
    if models {
        known.extend(host.models.iter().map(|model| model.spec.name.clone()));
    }
    let help = match nearest(&text, known.iter().map(String::as_str)) {
        _ if known.is_empty() => "it has no processes".to_owned(),
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it runs {}; numbers count from 0", known.join(", ")),
    };
    let problem = node.problem(message).help(help);
    // Numbers count the processes before.
    Err(if matches!(process, ProcessRef::Number(_)) { problem.relational() } else { problem })
}

pub(crate) fn probability(node: &Node, key: &str) -> Result<f64, Problem> {
    let text = section::string(node, key)?;
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(node.problem(format!("'{key}' must be a number from 0 to 1, not '{text}'"))),
    }
}

/// Two values, of which the first is not larger, or one value for both.
pub(crate) fn range<T: PartialOrd + Copy>(
    node: &Node,
    key: &str,
    read: impl Fn(&Node, &str) -> Result<T, Problem>,
) -> Result<(T, T), Problem> {
    let Value::Sequence(items) = &node.value else {
        let value = read(node, key)?;
        return Ok((value, value));
    };
    let [least, most] = &items[..] else {
        return Err(node.problem(format!("'{key}' is a least and a largest value, as in [1 s, 5 s]")));
    };
    let (least, most) = (read(least, key)?, read(most, key)?);
    match least <= most {
        true => Ok((least, most)),
        false => Err(node.problem(format!("'{key}' has the larger value first"))),
    }
}

/// Refuses hosts whose kernel is a machine's own.
pub(crate) fn no_machine(node: &Node, hosts: &HostSet, world: &World) -> Result<(), Problem> {
    match of(hosts, world).find(|(_, host)| host.machine.is_some()) {
        Some((_, host)) => Err(node
            .problem(format!("host '{}' is a machine, whose kernel is its own", host.name))
            .help("name hosts without 'machine'")),
        None => Ok(()),
    }
}

/// Refuses hosts without programs of the simulated kernel, unless all hosts are meant.
pub(crate) fn with_programs(node: &Node, key: &str, hosts: &HostSet, world: &World) -> Result<(), Problem> {
    no_machine(node, hosts, world)?;
    match of(hosts, world).find(|(_, host)| *hosts != HostSet::All && host.programs().is_empty()) {
        Some((_, host)) => Err(node
            .problem(format!("host '{}' runs no program, so '{key}' has no effect on it", host.name))
            .relational()),
        None => Ok(()),
    }
}

/// Gives crashes the rules of the key `disk`, if it is there.
pub(crate) fn set_disk(s: &Section, crashes: &mut [CrashFiles]) -> Result<(), Problem> {
    let Some(node) = s.get("disk") else { return Ok(()) };
    let profile = section::choice(node, "disk", DiskProfile::NAMES)?;
    if !crashes.iter().any(|files| matches!(files, CrashFiles::Unsynced { .. })) {
        return Err(node
            .problem("'disk' is not valid without 'files: unsynced' or 'files: torn'")
            .relational()
            .help("it says what a crash may take of files that are not synced"));
    }
    crashes.iter_mut().for_each(|files| *files = files.on(profile));
    Ok(())
}

/// A time that may be negative, in nanoseconds.
pub(crate) fn signed_time(node: &Node, key: &str) -> Result<i64, Problem> {
    section::check_unit(node, key, &["ns", "us", "ms", "s", "min", "h"], true)?;
    let text = section::string(node, key)?;
    let amount = text.trim().strip_prefix('-');
    let duration = units::parse_duration(amount.unwrap_or(text))
        .map_err(|e| node.problem(format!("'{key}': {}", e.message)).maybe_help(e.help))?;
    let ns = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    Ok(if amount.is_some() { -ns } else { ns })
}

/// Parses parts per million; returns parts per billion.
pub(crate) fn drift(node: &Node, key: &str) -> Result<i64, Problem> {
    let text = section::string(node, key)?;
    let Ok(ppm) = text.parse::<f64>() else {
        return Err(node.problem(format!("'{key}' must be a number of parts per million, not '{text}'")));
    };
    let ppb = (ppm * 1_000.0).round();
    if ppb.is_nan() || ppb.abs() > MAX_DRIFT_PPB as f64 {
        return Err(node.problem(format!("'{key}' must lie between -100000 and 100000, not {text}")));
    }
    Ok(ppb as i64)
}

/// Keys of a host's `clock` about the PTP hardware clocks of its interfaces.
const HARDWARE_KEYS: [&str; 2] = ["hardware_offset", "hardware_drift_ppm"];

/// Refuses settings of hardware clocks for a host none of whose interfaces has one.
pub(crate) fn check_hardware_clock(clock: &Node, host: &str) -> Result<(), Problem> {
    let Value::Mapping(entries) = &clock.value else { return Ok(()) };
    match entries.iter().find(|entry| HARDWARE_KEYS.contains(&entry.key.as_str())) {
        None => Ok(()),
        Some(entry) => {
            let message =
                format!("'{}' is not valid for host '{host}', which has no PTP hardware clock", entry.key);
            Err(Problem::at(entry.key_span, message)
                .help("interfaces on links have one, except for stations of a radio and controllers"))
        }
    }
}

/// The `clock` of a host, with the time of readings that hosts have by default.
pub(crate) fn clock(node: &Node, key: &str, usual: SimDuration) -> Result<ClockSettings, Problem> {
    let keys = ["offset", "drift_ppm", "reading", HARDWARE_KEYS[0], HARDWARE_KEYS[1]];
    let s = Section::new(node, &format!("'{key}'"), &keys, false)?;
    Ok(ClockSettings {
        offset_ns: s.read("offset", signed_time)?.unwrap_or(0),
        drift_ppb: s.read("drift_ppm", drift)?.unwrap_or(0),
        reading: s.read("reading", reading)?.unwrap_or(usual),
        hardware_offset_ns: s.read(HARDWARE_KEYS[0], signed_time)?,
        hardware_drift_ppb: s.read(HARDWARE_KEYS[1], drift)?,
    })
}

/// The `clock` of section `host_option_defaults`: the time of readings.
pub(crate) fn usual_clock(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    let s = Section::new(node, &format!("'{key}'"), &["reading"], false)?;
    Ok(s.read("reading", reading)?.unwrap_or_default())
}

/// The time that a reading of the clock takes: nothing, or enough for two readings to differ.
fn reading(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    let reading = section::duration(node, key)?;
    let range = SimDuration::from_nanos(1)..=SimDuration::from_secs(1);
    match reading.is_zero() || range.contains(&reading) {
        true => Ok(reading),
        false => Err(node
            .problem(format!("'{key}' must be 0, or lie between 1 ns and 1 s"))
            .help("write reading: 1 us, or leave it out for readings that take no time")),
    }
}
