//! Mininet: scripts in Python. A script is a program, so it is run, with modules in place of Mininet's that record nodes,
//! links and commands (`nodes.py`, `network.py` and `run.py`, one program). Hosts become hosts, switches learning switches, commands processes.

mod links;

use super::draft::{At, Command, CommandKind, Draft, Kind, Member};
use super::record::{self, items, line, of_line, text};
use super::{Imported, Importer, Input, hardware_address, interface_name, node_name};
use crate::error::{Problem, Problems};
use crate::yaml::Node;
use crate::yaml::section::mapping;
use belljar_base::Map;
use std::rc::Rc;

/// Modules of Mininet that record.
const STUB: &str =
    concat!(include_str!("nodes.py"), "\n\n", include_str!("network.py"), "\n\n", include_str!("run.py"));

/// A script of Mininet.
pub(super) struct Mininet;

impl Importer for Mininet {
    fn name(&self) -> &'static str {
        "mininet"
    }
    fn description(&self) -> Option<&'static str> {
        Some("a Python script of Mininet, which is run: add --run-script")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "py"
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        let record = record::of_script(input, "Mininet", STUB)?;
        Ok(draft(&record)?.finish(&input.source.name, input.options))
    }
}

fn seconds(node: &Node) -> Result<f64, Problem> {
    Ok(text(node, "at")?.parse().unwrap_or_default())
}

fn draft(record: &Node) -> Result<Draft, Problem> {
    let mut draft = Draft::default();
    let nodes = items(record, "nodes")?;
    if let Some(failure) = record::failure(record) {
        if nodes.is_empty() {
            return Err(record::problem(&failure)?);
        }
        let message = text(&failure, "text")?;
        draft.note_at(line(&failure)?, format!("{message}: what it would have done later is missing"));
    }
    if nodes.is_empty() {
        return Err(
            Problem::whole_file("the script makes no network").help("it has neither a Mininet nor a Topo")
        );
    }
    for note in items(record, "notes")? {
        draft.note_at(line(&note)?, text(&note, "text")?);
    }
    let mut problems = Problems::default();
    // Names in the experiment by names in the script.
    let mut names = Map::new();
    for node in &nodes {
        problems.take(add_node(&mut draft, node, &mut names));
    }
    for (number, link) in items(record, "links")?.iter().enumerate() {
        problems.take(links::add(&mut draft, link, number, &names));
    }
    for event in items(record, "events")? {
        problems.take(links::event(&mut draft, &event, &names));
    }
    problems.check()?;
    if draft.cables.is_empty() {
        return Err(Problem::whole_file("the script makes no links"));
    }
    if draft.cables.iter().any(|cable| !cable.settings.iter().any(|(key, _)| *key == "rate")) {
        draft.note("links without 'bw' have the default rate, 1 Gbit");
    }
    draft.remove_unlinked();
    note_order(&mut draft, &nodes)?;
    Ok(draft)
}

fn add_node(draft: &mut Draft, node: &Node, names: &mut Map<String, String>) -> Result<(), Problem> {
    let (written, at) = (text(node, "name")?, line(node)?);
    let name = node_name(&written);
    if name.is_empty() {
        let message = format!("no letter or digit of the name '{written}' can be in a host's name");
        return Err(Problem::at(of_line(at), message).help("give the node another name"));
    }
    if draft.members.contains_key(&name) {
        return Err(Problem::at(of_line(at), format!("there are two nodes that would be called '{name}'"))
            .help("names differ in more than case here: rename one of them"));
    }
    if name != written {
        draft.note_at(at, format!("'{written}' is called '{name}' here"));
    }
    let kind = if text(node, "kind")? == "switch" { Kind::Switch } else { Kind::Host };
    let mut member = Member::new(kind);
    if kind == Kind::Host {
        // Only what the script says: no routes but those of the interfaces.
        let mut setup = Vec::new();
        for interface in items(node, "interfaces")? {
            let (own, address) = (interface_name(&text(&interface, "name")?), text(&interface, "ip")?);
            setup.push(program(at, format!("ip link set {own} up")));
            if !address.is_empty() {
                setup.push(program(at, format!("ip addr add {address} dev {own}")));
            }
            let mac = text(&interface, "mac")?;
            if !mac.is_empty() {
                let mac = hardware_address(&mac)
                    .ok_or_else(|| Problem::at(of_line(at), format!("'{mac}' is not a hardware address")))?;
                draft.macs.insert((name.clone(), own), mac);
            }
        }
        for route in items(node, "routes")? {
            // `via 10.0.0.1`, `dev h1-eth0 via 10.0.0.1` or the name of an interface.
            let to = text(&route, "to")?;
            let to = if to.contains("via ") || to.contains("dev ") { to } else { format!("dev {to}") };
            setup.push(program(line(&route)?, format!("ip route add default {to}")));
        }
        member.link_commands = setup;
        member.commands = commands(node)?;
    }
    draft.members.insert(name.clone(), member);
    names.insert(written, name);
    Ok(())
}

fn program(line: usize, text: String) -> Command {
    Command { at: At::line(line), text, kind: CommandKind::Program }
}

/// Commands of a node. Where the script waits between two of them, so does the host.
fn commands(node: &Node) -> Result<Vec<Command>, Problem> {
    let mut commands = Vec::new();
    let mut clock = 0.0;
    for command in items(node, "commands")? {
        let (at, own) = (seconds(&command)?, line(&command)?);
        let mut shell =
            |text: String| commands.push(Command { at: At::line(own), text, kind: CommandKind::Shell });
        if at > clock {
            shell(format!("sleep {}", ((at - clock) * 1000.0).round() / 1000.0));
            clock = at;
        }
        shell(text(&command, "text")?);
    }
    Ok(commands)
}

/// Notes that commands of different hosts do not wait for each other.
fn note_order(draft: &mut Draft, nodes: &[Rc<Node>]) -> Result<(), Problem> {
    let mut last: f64 = 0.0;
    let mut hosts = 0;
    for node in nodes {
        let commands = items(node, "commands")?;
        hosts += usize::from(!commands.is_empty());
        for command in &commands {
            last = last.max(seconds(command)?);
        }
    }
    if hosts > 1 {
        draft.note("commands of different hosts start 100 ms apart, in the script's order, and do not wait for each other's end");
    }
    draft.stop_time = (last > 40.0).then(|| last as u64 + 30);
    Ok(())
}

/// True if a record's value is a mapping with this key.
fn has(node: &Node, key: &str) -> bool {
    mapping(node, "options")
        .is_ok_and(|own| own.iter().any(|entry| entry.key == key && !entry.value.is_null()))
}
