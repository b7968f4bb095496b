//! A switch with `p4`: its program and what sets it up.

use crate::PathContext;
use crate::error::Problem;
use crate::topology::{Interface, P4Setup, P4Switch};
use crate::yaml::{Node, Section, Value, section};
use belljar_p4::switch::QueueLimits;
use belljar_p4::{LoadError, Program, SwitchConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// Keys that are of use only with `p4`.
pub(super) const KEYS: &[&str] =
    &["runtime", "commands", "queue_packets", "queues", "latency", "packets_per_second"];

/// Refuses keys of P4 switches on a switch without a program.
pub(super) fn refuse(s: &Section) -> Result<(), Problem> {
    match KEYS.iter().find_map(|key| Some((key, s.get(key)?))) {
        None => Ok(()),
        Some((key, node)) => Err(node
            .problem(format!("'{key}' is not valid without 'p4'"))
            .help("give the switch a program: p4: program.p4")),
    }
}

/// Reads the settings of a switch whose program `p4` names.
pub(super) fn read(
    s: &Section,
    p4: &Node,
    name: &str,
    interfaces: &[Interface],
    around: &PathContext,
) -> Result<P4Switch, Problem> {
    if let Some(node) = s.get("ageing") {
        return Err(node
            .problem("'ageing' is not valid with 'p4'")
            .help("the program decides what is forgotten"));
    }
    for interface in interfaces {
        if P4Switch::port(&interface.name).is_none() {
            return Err(p4
                .problem(format!("the interface '{name}:{}' has no port number", interface.name))
                .help("end its name in the number of the P4 port, 0 to 510, such as p1"));
        }
    }
    let mut numbers: Vec<_> = interfaces.iter().filter_map(|one| P4Switch::port(&one.name)).collect();
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(p4
            .problem(format!("two interfaces of '{name}' have the port number {}", pair[0]))
            .help("give each the number of one P4 port"));
    }
    let (path, text) = file(p4, "p4", around)?;
    let program = Program::from_file_text(&path, text).map_err(|error| wrong(p4, error))?;
    let whole = |key: &str, most: u64| s.read(key, |node, key| section::whole(node, key, most));
    let defaults = SwitchConfig::default();
    let packets = whole("queue_packets", u64::from(u32::MAX))?
        .map_or(defaults.limits.packets, |packets| packets as u32);
    let config = SwitchConfig {
        queues: whole("queues", 8)?.map_or(defaults.queues, |queues| queues as usize),
        limits: QueueLimits { packets, ..defaults.limits },
        latency: s.read("latency", section::duration)?.unwrap_or(defaults.latency),
        packets_per_second: whole("packets_per_second", u64::MAX)?.filter(|rate| *rate > 0),
        ports: numbers.last().map_or(0, |last| last + 1),
        ..defaults
    };
    let mut setup = Vec::new();
    let mut nodes = Vec::new();
    for (key, make) in
        [("runtime", P4Setup::Runtime as fn(PathBuf, String) -> P4Setup), ("commands", P4Setup::Commands)]
    {
        let Some(node) = s.get(key) else { continue };
        let files: Vec<&Node> = match &node.value {
            Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![node],
        };
        for node in files {
            let (path, text) = file(node, key, around)?;
            setup.push(make(path, text));
            nodes.push(node);
        }
    }
    let made = P4Switch { path, program: Arc::new(program), setup, config };
    made.try_switch(made.config.clone()).map_err(|(n, error)| wrong(nodes[n], error))?;
    Ok(made)
}

fn wrong(node: &Node, error: LoadError) -> Problem {
    node.problem(error.to_string())
}

/// A file's path and text.
fn file(node: &Node, key: &str, around: &PathContext) -> Result<(PathBuf, String), Problem> {
    let written = section::string(node, key)?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let path = places.iter().find(|path| path.exists()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        node.problem(format!("there is no file '{written}'"))
            .help(format!("looked for {}", looked.join(" and ")))
    })?;
    let text = std::fs::read_to_string(path)
        .map_err(|error| node.problem(format!("the file '{written}' cannot be read: {error}")))?;
    Ok((path.clone(), text))
}
