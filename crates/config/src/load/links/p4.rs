//! A switch with `p4` or `management`: its program, its queues, and its set-up.

use super::ends::Draft;
pub(super) use super::management::address as management_address;
use super::{Station, management};
use crate::PathContext;
use crate::error::Problem;
use crate::events::{Action, Event};
use crate::topology::{DeviceKind, Interface, Link, LoadedProgram, P4Setup, P4Source, P4Switch, Topology};
use crate::yaml::section::mapping;
use crate::yaml::{Node, Section, Style, Value, section};
use belljar_base::Map;
use belljar_net::QueueConfig;
use belljar_net::nic::Limit;
use belljar_p4::switch::QueueLimits;
use belljar_p4::{Program, SwitchConfig};
use belljar_p4c::{Options, ProgramFile};
use std::path::PathBuf;
use std::sync::Arc;

/// Keys of switches.
pub(super) const SWITCH_KEYS: &[&str] = &[
    "ageing",
    "p4",
    "include",
    "define",
    "p4info",
    "runtime",
    "commands",
    "queue_packets",
    "queue_bytes",
    "queues",
    "input_packets",
    "latency",
    "packets_per_second",
    "timestamps",
    "trace",
    "cpu_port",
    "management",
];
/// Keys that are valid only with a program in the experiment.
const OF_PROGRAM: &[&str] = &["include", "define", "p4info", "runtime", "commands"];
const NO_PROGRAM: &str = "give the switch a program: p4: program.p4";
/// Largest P4 port number.
const MAX_PORT: u64 = 510;

/// True for a P4 switch: one with a program, or with controllers that provide one.
pub(super) fn is_programmable(s: &Section) -> bool {
    s.get("p4").is_some() || s.entry("management").is_some()
}

/// Refuses keys of P4 switches on a learning switch.
pub(super) fn refuse(s: &Section) -> Result<(), Problem> {
    refuse_of(s, &SWITCH_KEYS[2..])
}

fn refuse_of(s: &Section, keys: &[&str]) -> Result<(), Problem> {
    match keys.iter().find_map(|key| Some((key, s.get(key)?))) {
        None => Ok(()),
        Some((key, node)) => Err(node.problem(format!("'{key}' is not valid without 'p4'")).help(NO_PROGRAM)),
    }
}

/// Inputs of a compilation: program, include folders, macros, P4Info.
type Inputs = (PathBuf, Vec<PathBuf>, Vec<(String, String)>, Option<PathBuf>);

/// Loader of P4 switches. A program used by several switches is compiled once.
pub(super) struct Loader<'a> {
    around: &'a PathContext,
    programs: Map<Inputs, Arc<LoadedProgram>>,
    devices: management::DeviceIds,
}

impl<'a> Loader<'a> {
    pub(super) fn new(around: &'a PathContext) -> Loader<'a> {
        Loader { around, programs: Map::new(), devices: Default::default() }
    }

    /// Loads the settings of a P4 switch.
    pub(super) fn switch(
        &mut self,
        s: &Section,
        station: &Station,
        interfaces: &[Interface],
    ) -> Result<P4Switch, Problem> {
        if let Some(node) = s.get("ageing") {
            return Err(node
                .problem("'ageing' is not valid with 'p4'")
                .help("the program decides what is forgotten"));
        }
        let management = self.devices.management(s, station, interfaces)?;
        let numbers = self.ports(s, station, interfaces)?;
        let config = config(s, &numbers)?;
        let trace = s.read("trace", section::boolean)?.unwrap_or(false);
        let Some(p4) = s.get("p4") else {
            refuse_of(s, OF_PROGRAM)?;
            return Ok(P4Switch { source: None, setup: Vec::new(), config, trace, management });
        };
        let source = self.source(s, p4)?;
        let (setup, nodes) = setups(s, self.around)?;
        let made = P4Switch { source: Some(source), setup, config, trace, management };
        match made.try_switch(made.config.clone()) {
            Some(Err((n, error))) => Err(wrong(nodes[n], error)),
            _ => Ok(made),
        }
    }

    /// The numbers of its P4 ports, in order.
    fn ports(&self, s: &Section, station: &Station, interfaces: &[Interface]) -> Result<Vec<u16>, Problem> {
        let place = s.get("p4").or(s.get("management")).map_or(s.span, |node| node.span);
        let name = &station.name;
        let ports = || interfaces.iter().filter(|interface| station.joins(&interface.name));
        if let Some(interface) = ports().find(|interface| P4Switch::port(&interface.name).is_none()) {
            return Err(Problem::at(
                place,
                format!("the interface '{name}:{}' has no port number", interface.name),
            )
            .help("end its name in the number of the P4 port, 0 to 510, such as p1"));
        }
        let mut numbers: Vec<_> = ports().filter_map(|one| P4Switch::port(&one.name)).collect();
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("two interfaces of '{name}' have the port number {}", pair[0]);
            return Err(Problem::at(place, message).help("give each the number of one P4 port"));
        }
        if let Some(node) = s.get("cpu_port")
            && section::whole(node, "cpu_port", MAX_PORT).is_ok_and(|port| numbers.contains(&(port as u16)))
        {
            return Err(node.problem(format!("a link ends at the 'cpu_port' of '{name}'")).help(
                "controllers stand behind that port: take a number that no interface has, such as 510",
            ));
        }
        Ok(numbers)
    }

    /// Compiles the program in `p4`.
    fn source(&mut self, s: &Section, p4: &Node) -> Result<P4Source, Problem> {
        let (path, text) = file(p4, "p4", self.around)?;
        let mut include = Vec::new();
        for node in s.get("include").map_or(Vec::new(), one_or_more) {
            include.push(folder(node, self.around)?);
        }
        let define = s.get("define").map(macros).transpose()?.unwrap_or_default();
        let is_source = path.extension().is_some_and(|extension| extension == "p4");
        for key in ["include", "define"] {
            if let Some(node) = s.get(key).filter(|_| !is_source) {
                return Err(node
                    .problem(format!("'{key}' is for P4 source, and '{}' is none", path.display()))
                    .help("name a .p4 file, or leave it out: JSON is compiled already"));
            }
        }
        let p4info = s.get("p4info").map(|node| bytes(node, "p4info", self.around)).transpose()?;
        let defines: Vec<(String, String)> = define.clone().into_iter().collect();
        let info_path = p4info.as_ref().map(|(path, _)| path.clone());
        let key = (path.clone(), include.clone(), defines.clone(), info_path.clone());
        let loaded = match self.programs.get(&key) {
            Some(loaded) => loaded.clone(),
            None => {
                let options = Options { include_dirs: include.clone(), defines, silenced: Vec::new() };
                let read =
                    ProgramFile::of_text_with(&path, text, &options).map_err(|error| wrong(p4, error))?;
                let program =
                    Program::from_text(&read.json).map_err(|error| wrong(p4, error.in_file(&path)))?;
                let p4info = p4info.map(|(_, bytes)| bytes).or(read.p4info.map(String::into_bytes));
                let program = Arc::new(program);
                // Programs are shared with switches that have a server: a specified P4Info file is checked in
                // any case.
                let asked = s.entry("management").is_some() || s.get("p4info").is_some();
                if let Some(p4info) = p4info.as_ref().filter(|_| asked) {
                    let place = s.get("p4info").unwrap_or(p4);
                    belljar_p4info::check(&program, p4info).map_err(|why| {
                        place.problem(format!("the P4Info does not fit the program: {why}"))
                    })?;
                }
                let loaded = LoadedProgram { program, p4info };
                self.programs.entry(key).or_insert(Arc::new(loaded)).clone()
            }
        };
        Ok(P4Source { path, include, define, p4info: info_path, loaded })
    }
}

/// The files in `runtime` and `commands`, or literal blocks of text, with their nodes.
pub(crate) fn setups<'n>(
    s: &Section<'n>,
    around: &PathContext,
) -> Result<(Vec<P4Setup>, Vec<&'n Node>), Problem> {
    let (mut setup, mut nodes) = (Vec::new(), Vec::new());
    for (key, make) in
        [("runtime", P4Setup::Runtime as fn(PathBuf, String) -> P4Setup), ("commands", P4Setup::Commands)]
    {
        for node in s.get(key).map_or(Vec::new(), one_or_more) {
            let (path, text) = match &node.value {
                // The names of files have no line breaks.
                Value::Scalar(block) if block.style == Style::Literal || block.text.contains('\n') => {
                    (PathBuf::new(), block.text.clone())
                }
                _ => file(node, key, around)?,
            };
            setup.push(make(path, text));
            nodes.push(node);
        }
    }
    Ok((setup, nodes))
}

/// The configuration of its queues and rates.
fn config(s: &Section, ports: &[u16]) -> Result<SwitchConfig, Problem> {
    const STAMPS: &[(&str, bool)] = &[("us", false), ("ns", true)];
    let whole = |key: &str, most: u64| s.read(key, |node, key| section::whole(node, key, most));
    let usual = SwitchConfig::default();
    let (packets, bytes) = (whole("queue_packets", 1_000_000_000)?, s.read("queue_bytes", section::bytes)?);
    let queues = s.read("queues", |node, key| match section::whole(node, key, 8)? {
        0 => Err(node.problem("'queues' must not be 0").help("a port has 1 to 8 priorities, and so queues")),
        queues => Ok(queues as usize),
    })?;
    // A limit in bytes alone replaces the default limit in packets.
    let all = if bytes.is_some() { u32::MAX } else { usual.limits.packets };
    Ok(SwitchConfig {
        queues: queues.unwrap_or(usual.queues),
        limits: QueueLimits { packets: packets.map_or(all, |packets| packets as u32), bytes, ..usual.limits },
        latency: s.read("latency", section::duration)?.unwrap_or(usual.latency),
        packets_per_second: whole("packets_per_second", u64::MAX)?.filter(|rate| *rate > 0),
        input_packets: whole("input_packets", 1 << 32)?
            .map_or(usual.input_packets, |packets| packets as usize),
        nanoseconds: s.read("timestamps", |n, k| section::choice(n, k, STAMPS))?.unwrap_or(usual.nanoseconds),
        cpu_port: whole("cpu_port", MAX_PORT)?.map(|port| port as u16),
        ports: ports.last().map_or(0, |last| last + 1),
        ..usual
    })
}

/// Sets the queues of the lines that start at the switch's ports: those of the switch, unless the link
/// specifies one.
pub(super) fn line_queues(
    switch: &P4Switch,
    interfaces: &[Interface],
    drafts: &[Draft],
    links: &mut [Link],
) -> Result<(), Problem> {
    for (interface, port) in interfaces.iter().zip(switch.ports(interfaces)) {
        if port.is_none() {
            continue;
        }
        let (draft, link) = (&drafts[interface.link], &mut links[interface.link]);
        let (end, other) = (interface.end, 1 - interface.end);
        let line = &mut link.ends[end].properties;
        let place = &interface.name;
        match draft.queues[end] {
            Some(span) => check_queue(&line.queue).map_err(|why| {
                Problem::at(span, format!("the port '{place}' of a P4 switch cannot have this queue: {why}"))
                    .help(other_end(other, "queue: { packets: 64 }"))
            })?,
            None => {
                line.queue = match switch.config.limits {
                    QueueLimits { packets: u32::MAX, bytes: Some(bytes), .. } => {
                        QueueConfig::bytes(bytes as usize)
                    }
                    limits => QueueConfig::packets(limits.packets as usize),
                }
            }
        }
    }
    Ok(())
}

/// The reason why a port of a P4 switch cannot have this queue.
pub(crate) fn check_queue(queue: &QueueConfig) -> Result<(), &'static str> {
    match queue {
        QueueConfig::Fifo { limit: Limit::Packets(_) | Limit::Bytes(_), ecn_threshold: None } => Ok(()),
        QueueConfig::Fifo { .. } => Err("its program marks packets, by enq_qdepth or deq_qdepth"),
        _ => Err("it has packets or bytes, and strict priorities"),
    }
}

/// Advice for a setting that is meant for the other end of a link alone.
fn other_end(other: usize, reset: &str) -> String {
    match other {
        0 => format!("if it is meant for the other end alone, add reverse: {{ {reset} }}"),
        _ => format!("if it is meant for the other end alone, write it within reverse: and {reset} outside"),
    }
}

fn wrong(node: &Node, error: impl std::fmt::Display) -> Problem {
    node.problem(error.to_string())
}

/// The items of a list, or a single value as a list of one.
fn one_or_more(node: &Node) -> Vec<&Node> {
    match &node.value {
        Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
        _ => vec![node],
    }
}

/// `{ NAME: value }`.
fn macros(node: &Node) -> Result<Map<String, String>, Problem> {
    let mut all = Map::new();
    for entry in mapping(node, "'define'")? {
        let name = entry.key.as_str();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(word) {
            return Err(Problem::at(entry.key_span, format!("'{name}' cannot be the name of a macro"))
                .help("write letters, digits and '_', such as define: { PORTS: 4 }"));
        }
        let value = if entry.value.is_null() { "1" } else { section::string(&entry.value, name)? };
        all.insert(name.to_owned(), value.to_owned());
    }
    Ok(all)
}

fn folder(node: &Node, around: &PathContext) -> Result<PathBuf, Problem> {
    let written = section::string(node, "include")?;
    let path = around.expand(written).map_err(|message| node.problem(message))?;
    let found = around.candidates(&path).into_iter().find(|path| path.is_dir());
    found.ok_or_else(|| node.problem(format!("'include' is no folder: '{written}'")))
}

/// The path and text of a file.
fn file(node: &Node, key: &str, around: &PathContext) -> Result<(PathBuf, String), Problem> {
    let (path, bytes) = bytes(node, key, around)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        node.problem(format!("the file '{}' is not text: byte {at} is not UTF-8", path.display()))
    })?;
    Ok((path, text))
}

fn bytes(node: &Node, key: &str, around: &PathContext) -> Result<(PathBuf, Vec<u8>), Problem> {
    let written = section::string(node, key)?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let path = places.iter().find(|path| path.exists()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        node.problem(format!("there is no file '{written}'"))
            .help(format!("looked for {}", looked.join(" and ")))
    })?;
    let bytes = belljar_inputs::read(path)
        .map_err(|error| node.problem(format!("the file '{written}' cannot be read: {error}")))?;
    Ok((path.clone(), bytes))
}

/// Notes about lines without a command in the command files of switches and of events.
pub(in crate::load) fn notes(topology: &Topology, events: &[Event]) -> Vec<String> {
    let switches = topology.devices.iter().filter_map(|device| match &device.kind {
        DeviceKind::P4(switch) => Some((format!("switch '{}'", device.name), &switch.setup[..])),
        _ => None,
    });
    let events = events.iter().filter_map(|event| match &event.action {
        Action::P4 { setup, .. } => Some(("event 'p4'".to_owned(), &setup[..])),
        _ => None,
    });
    let mut notes = Vec::new();
    for (owner, setup) in switches.chain(events) {
        for one in setup.iter().filter(|one| matches!(one, P4Setup::Commands(..))) {
            let path = one.path().display().to_string();
            let file = if path.is_empty() { "'commands'" } else { path.as_str() };
            let warnings = belljar_p4files::commands::warnings(one.text());
            notes.extend(warnings.into_iter().map(|warning| format!("{owner}: {file}: {warning}")));
        }
    }
    notes
}
