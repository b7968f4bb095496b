//! Section `links`: the ends and properties of each link.

use super::{Kind, Station, impairments, queues, values};
use crate::error::{Problem, Problems, Span};
use crate::topology::{PCI_PORT, PciConnection};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::{Map, Set};
use belljar_net::link::LinkProperties;
use belljar_net::suggest::nearest;
use std::rc::Rc;

const LINE_KEYS: &[&str] = &[
    "rate",
    "latency",
    "jitter",
    "packet_loss",
    "reordering",
    "duplication",
    "corruption",
    "queue",
    "token_bucket",
    "overhead",
];
const LINK_KEYS: &[&str] = &["name", "between", "mtu", "cost", "reverse"];
/// Keys of the queue before a link.
const QUEUE_KEYS: [&str; 4] = ["rate", "queue", "token_bucket", "overhead"];
const EXAMPLE: &str = "between: [alice:eth1, bob:eth1]";
/// Range of valid MTUs: the minimum of IPv4 up to the largest packet.
const MTU: std::ops::RangeInclusive<u64> = 68..=65_535;

/// A link before its interfaces have indices.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) ends: [End; 2],
    pub(super) lines: [LinkProperties; 2],
    /// Positions of the queue settings of each direction in the file.
    pub(super) queues: [Option<Span>; 2],
    /// First key in the file that a channel between two simulators does not have, with its position.
    pub(super) beyond_channel: Option<(String, Span)>,
    pub(super) mtu: usize,
    /// Position of the MTU in the file.
    pub(super) mtu_span: Option<Span>,
    pub(super) cost: u32,
    pub(super) pci: Option<PciConnection>,
}

/// An end of a link: the index of its station and the name of its interface.
pub(super) struct End {
    pub(super) station: usize,
    pub(super) interface: String,
    pub(super) span: Span,
}

/// Keys of a link that a channel between two simulators does not have: of its properties it has the latency.
fn beyond_channel() -> impl Iterator<Item = &'static str> {
    LINE_KEYS.iter().copied().filter(|key| *key != "latency").chain(["mtu"])
}

pub(super) fn read(items: &[Rc<Node>], stations: &[Station]) -> Result<Vec<Draft>, Problem> {
    let keys: Vec<&str> = LINK_KEYS.iter().chain(LINE_KEYS).copied().collect();
    let mut sections = Vec::new();
    let numbers: Map<&str, usize> = stations.iter().enumerate().map(|(n, s)| (s.name.as_str(), n)).collect();
    let mut named: Vec<Set<String>> = vec![Set::new(); stations.len()];
    let mut problems = Problems::default();
    let mut ends_of = |item| -> Result<(), Problem> {
        let s = Section::new(item, "a link", &keys, false)?;
        let between = s.required("between", EXAMPLE)?;
        let [first, second] = section::list(between, "between")? else {
            return Err(between.problem("a link has two ends").help(format!("write {EXAMPLE}")));
        };
        let ends = [end(first, stations, &numbers)?, end(second, stations, &numbers)?];
        for (station, interface, _) in &ends {
            named[*station].extend(interface.clone());
        }
        sections.push((s, ends));
        Ok(())
    };
    for item in items {
        problems.take(ends_of(item));
    }
    let mut names = Set::new();
    let mut drafts = Vec::new();
    let mut read = |s: Section, ends: [(usize, Option<String>, Span); 2]| -> Result<(), Problem> {
        let ends = ends.map(|(station, interface, span)| {
            let interface = interface.unwrap_or_else(|| free_name(&stations[station], &mut named[station]));
            End { station, interface, span }
        });
        let place = |end: &End| format!("{}:{}", stations[end.station].name, end.interface);
        let name = match s.get("name") {
            Some(node) => section::string(node, "name")?.to_owned(),
            None => format!("{}-{}", place(&ends[0]), place(&ends[1])),
        };
        // Names are patterns in events and words in tables.
        if name.is_empty() || name.contains(['*', ',', '"', '\n']) {
            return Err(Problem::at(
                s.span,
                "a link's name must not be empty or have a '*', a comma or a quote",
            ));
        }
        if !names.insert(name.clone()) {
            let span = s.get("name").map_or(s.span, |node| node.span);
            return Err(Problem::at(span, format!("there are two links with the name '{name}'"))
                .help("give one of them another name"));
        }
        let mtu = s.read("mtu", |node, key| {
            let mtu = section::whole(node, key, *MTU.end())?;
            match MTU.contains(&mtu) {
                true => Ok(mtu as usize),
                false => Err(node.problem(format!("'mtu' must be at least {}, not {mtu}", MTU.start()))),
            }
        })?;
        let mtu = mtu.unwrap_or(1_500);
        let mut there = line(&s, &LinkProperties::default(), mtu)?;
        let reverse = s.read("reverse", |node, _| Section::new(node, "'reverse'", LINE_KEYS, false))?;
        let mut back = match &reverse {
            Some(reverse) => line(reverse, &there, mtu)?,
            None => there.clone(),
        };
        // These devices pace their frames themselves, unless the file gives the direction a queue.
        let paced = |end: &End| matches!(stations[end.station].kind, Kind::Simulator | Kind::Radio);
        let queued = |s: &Section| QUEUE_KEYS.iter().any(|key| s.get(key).is_some());
        if paced(&ends[0]) && !queued(&s) {
            there.rate = None;
        }
        if paced(&ends[1]) && !queued(&s) && !reverse.as_ref().is_some_and(queued) {
            back.rate = None;
        }
        let beyond_channel = [Some(&s), reverse.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|s| beyond_channel().find_map(|key| s.get(key).and(s.entry(key))));
        let beyond_channel = beyond_channel.map(|entry| (entry.key.clone(), entry.key_span));
        let given = |key: &str| {
            let first = s.get(key).map(|node| node.span);
            let second = reverse.as_ref().and_then(|reverse| reverse.get(key)).map(|node| node.span);
            [first, second.or(first)]
        };
        let queues = given("queue");
        let cost = s.read("cost", |node, key| match section::whole(node, key, 1_000_000)? {
            0 => Err(node.problem("'cost' must not be 0")),
            cost => Ok(cost as u32),
        })?;
        let lines = [there, back];
        let cost = cost.unwrap_or(1);
        let mtu_span = s.get("mtu").map(|node| node.span);
        drafts.push(Draft { name, ends, lines, queues, beyond_channel, mtu, mtu_span, cost, pci: None });
        Ok(())
    };
    for (s, ends) in sections {
        problems.take(read(s, ends));
    }
    problems.check()?;
    Ok(drafts)
}

/// `alice:eth1`, or `alice` alone.
fn end(
    node: &Node,
    stations: &[Station],
    numbers: &Map<&str, usize>,
) -> Result<(usize, Option<String>, Span), Problem> {
    let text: &str = &match &node.value {
        Value::Mapping(_) => simulator_port(node)?,
        _ => section::string(node, "between")?.to_owned(),
    };
    let (name, interface) = match text.split_once(':') {
        Some((name, interface)) => (name, Some(interface)),
        None => (text, None),
    };
    let Some(&station) = numbers.get(name) else {
        let known = stations.iter().map(|station| station.name.as_str());
        let help = match nearest(name, known) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "add it to hosts, switches, routers, simulators, radios or gateways".to_owned(),
        };
        return Err(node
            .problem(format!("there is no host, switch, router, simulator, radio or gateway '{name}'"))
            .help(help));
    };
    if let Some(interface) = interface {
        check_interface(node.span, &stations[station], interface)?;
    }
    Ok((station, interface.map(str::to_owned), node.span))
}

/// Fails if the name is invalid for an interface of the station.
pub(super) fn check_interface(span: Span, station: &Station, interface: &str) -> Result<(), Problem> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "/:%,\"".contains(c);
    if !(1..=15).contains(&interface.len()) || interface.contains(bad) || matches!(interface, "." | "..") {
        return Err(Problem::at(span, format!("'{interface}' cannot be the name of an interface"))
            .help("use up to 15 letters and digits, such as eth1"));
    }
    let taken = match (station.kind, interface) {
        (Kind::Host { .. }, "lo") => Some("loopback interface"),
        (Kind::Host { on_graph: true }, "eth0") => Some("attachment to the graph"),
        (Kind::Nic, PCI_PORT) => Some("port to the host"),
        _ => None,
    };
    match taken {
        Some(what) => {
            let (name, kind) = (&station.name, if station.kind == Kind::Nic { "nic" } else { "host" });
            Err(Problem::at(span, format!("'{interface}' is the {what} of {kind} '{name}'"))
                .help(format!("write {name}:eth1")))
        }
        None => Ok(()),
    }
}

/// `{ simulator: NAME, port: PORT }`, an alternative notation for `NAME:PORT`.
fn simulator_port(node: &Node) -> Result<String, Problem> {
    let s = Section::new(node, "an end of a link", &["simulator", "port"], false)?;
    let simulator = s.required("simulator", "{ simulator: middlebox, port: left }")?;
    let name = section::string(simulator, "simulator")?.to_owned();
    Ok(match s.get("port") {
        Some(port) => format!("{name}:{}", section::string(port, "port")?),
        None => name,
    })
}

/// The first free name for an interface of the station.
pub(super) fn free_name(station: &Station, taken: &mut Set<String>) -> String {
    let (stem, first) = match station.kind {
        Kind::Switch | Kind::Simulator | Kind::Radio | Kind::Gateway | Kind::Nic | Kind::Memory => ("p", 1),
        Kind::Host { on_graph: true } => ("eth", 1),
        _ => ("eth", 0),
    };
    let name = (first..).map(|n| format!("{stem}{n}")).find(|name| !taken.contains(name));
    let name = name.expect("numbers don't end");
    taken.insert(name.clone());
    name
}

/// Loads one direction; unspecified properties are those of `usual`.
fn line(s: &Section, usual: &LinkProperties, mtu: usize) -> Result<LinkProperties, Problem> {
    let latency = s.read("latency", values::latency)?.unwrap_or(usual.latency);
    let jitter = s.read("jitter", section::duration)?.unwrap_or(usual.jitter);
    if jitter >= latency {
        let span = s.get("jitter").or(s.get("latency")).map_or(s.span, |node| node.span);
        return Err(Problem::at(span, "the jitter of a link must be less than its latency"));
    }
    let change = impairments::line_change(s)?;
    if let (Some(Some(bucket)), Some(node)) = (&change.token_bucket, s.get("token_bucket")) {
        queues::check_burst(node, bucket, mtu)?;
    }
    Ok(LinkProperties {
        rate: change.rate.unwrap_or(usual.rate),
        latency,
        jitter,
        loss: change.loss.unwrap_or(usual.loss),
        reordering: change.reordering.unwrap_or(usual.reordering),
        duplication: change.duplication.unwrap_or(usual.duplication),
        corruption: change.corruption.unwrap_or(usual.corruption),
        queue: change.queue.unwrap_or_else(|| usual.queue.clone()),
        token_bucket: change.token_bucket.unwrap_or(usual.token_bucket),
        overhead: s.read("overhead", section::bytes)?.unwrap_or(usual.overhead),
    })
}
