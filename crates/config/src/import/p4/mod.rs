//! Imports networks of P4 switches in the formats of P4's own tools: `topology.json` of the P4 tutorials and
//! `p4app.json` of p4-utils. Each format's reader creates a [`Network`], which this module writes as an
//! experiment.

mod commands;
mod p4app;
mod programs;
#[cfg(test)]
mod tests;
mod tutorial;

use super::write::{STOP_TIME, heading, noted};
use super::{Imported, Importer, Input, Options, node_name};
use crate::emit::quoted;
use crate::error::{Problem, Source, Span};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node};
use belljar_base::{Map, Set};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `topology.json` of the P4 tutorials.
pub(super) struct Tutorial;

impl Importer for Tutorial {
    fn name(&self) -> &'static str {
        "p4-tutorial"
    }
    fn description(&self) -> Option<&'static str> {
        Some("topology.json of the P4 tutorials")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "json"
    }
    fn may_be_incomplete(&self) -> bool {
        true
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        network(input, tutorial::read)
    }
}

/// `p4app.json` of p4-utils.
pub(super) struct P4app;

impl Importer for P4app {
    fn name(&self) -> &'static str {
        "p4app"
    }
    fn description(&self) -> Option<&'static str> {
        Some("p4app.json of p4-utils")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "json"
    }
    /// True if the file has a section `topology`.
    fn recognises(&self, text: &str) -> bool {
        let topology = || entry(mapping(&*crate::yaml::parse(text).ok()??, "").ok()?, "topology").map(|_| ());
        topology().is_some()
    }
    fn may_be_incomplete(&self) -> bool {
        true
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        network(input, p4app::read)
    }
}

/// Reads a network and writes it as an experiment.
fn network(
    input: &Input,
    read: fn(&Source, &mut Network, &Options) -> Result<(), Problem>,
) -> Result<Imported, Problem> {
    let folder = Path::new(&input.source.name).parent().unwrap_or(Path::new(""));
    let mut network = Network { folder: folder.to_owned(), ..Network::default() };
    read(input.source, &mut network, input.options)?;
    network.finish(&input.source.name, input.options)
}

/// A host of the network.
#[derive(Debug, Default)]
struct Host {
    /// Address and hardware address by interface.
    interfaces: Map<String, (Option<String>, Option<String>)>,
    /// Gateway of the default route.
    gateway: Option<String>,
    /// Commands to run at the start.
    commands: Vec<Command>,
}

/// A command of a host.
#[derive(Debug)]
struct Command {
    /// Line of the command in the file; `None` if the command follows from other settings.
    at: Option<Span>,
    words: Vec<String>,
}

/// A switch of the network.
#[derive(Debug, Default)]
struct Switch {
    program: PathBuf,
    runtime: Option<PathBuf>,
    commands: Option<PathBuf>,
    queues: Option<u64>,
}

/// A link of the network.
#[derive(Debug, Default)]
struct Link {
    ends: [String; 2],
    /// Settings with their text, by key.
    settings: Vec<(&'static str, String)>,
}

/// The network under construction.
#[derive(Debug, Default)]
struct Network {
    /// Folder of the file.
    folder: PathBuf,
    hosts: Map<String, Host>,
    switches: Map<String, Switch>,
    links: Vec<Link>,
    /// Notes with their lines.
    notes: Set<(usize, String)>,
}

impl Network {
    fn note(&mut self, at: Span, text: impl Into<String>) {
        self.notes.insert((at.line, text.into()));
    }

    /// Notes that the other keys of a section are not imported.
    fn note_others(&mut self, entries: &[Entry], known: &[&str], place: &str) {
        for other in entries.iter().filter(|other| !known.contains(&other.key.as_str())) {
            self.note(other.key_span, format!("'{}' of {place} is not taken over", other.key));
        }
    }

    /// Converts the name of a node to a valid and unique one.
    fn name(&mut self, entry: &Entry) -> Result<String, Problem> {
        let name = node_name(&entry.key);
        if name != entry.key {
            self.note(entry.key_span, format!("'{}' is called '{name}' here", entry.key));
        }
        if self.hosts.contains_key(&name) || self.switches.contains_key(&name) {
            let message = format!("there are two nodes that would be called '{name}'");
            return Err(Problem::at(entry.key_span, message).help("give one of them another name"));
        }
        Ok(name)
    }

    /// Leaves out commands that add the route of the host's own address, which the kernel has made: they
    /// fail, and Mininet goes on.
    fn leave_out_connected_routes(&mut self) {
        for (name, host) in &mut self.hosts {
            let interfaces = &host.interfaces;
            host.commands.retain(|Command { at, words }| {
                let (Some(at), [_, _, command]) = (at, &words[..]) else { return true };
                let is_own = commands::is_connected_route(command, |interface| {
                    interfaces.get(interface).and_then(|(address, _)| address.as_deref())
                });
                if is_own {
                    let text = format!("'{name}' has the route of '{command}' by its address: left out");
                    self.notes.insert((at.line, text));
                }
                !is_own
            });
        }
    }

    /// Notes the commands that may fail.
    fn note_tolerated(&mut self) {
        for (name, host) in &self.hosts {
            for Command { at, words } in &host.commands {
                let Some(at) = at else { continue };
                let text = match &words[..] {
                    [_, _, command] => command.clone(),
                    words => words.join(" "),
                };
                self.notes.insert((at.line, format!("'{name}' may fail at '{text}'")));
            }
        }
    }

    fn finish(mut self, name: &str, options: &Options) -> Result<Imported, Problem> {
        if self.links.is_empty() {
            return Err(Problem::whole_file("this network has no links"));
        }
        self.leave_out_connected_routes();
        if options.tolerate_failures {
            self.note_tolerated();
        }
        let path = |path: &Path| quoted(&programs::relative(options.folder, path));
        let mut out = heading(name);
        let _ = writeln!(out, "general: {{stop_time: {STOP_TIME} s}}\nswitches:");
        for (name, switch) in &self.switches {
            let mut parts = vec![format!("p4: {}", path(&switch.program))];
            parts.extend(switch.runtime.as_deref().map(|file| format!("runtime: {}", path(file))));
            parts.extend(switch.commands.as_deref().map(|file| format!("commands: {}", path(file))));
            parts.extend(switch.queues.map(|queues| format!("queues: {queues}")));
            let _ = writeln!(out, "  {}: {{{}}}", quoted(name), parts.join(", "));
        }
        out.push_str("hosts:\n");
        for (name, host) in &self.hosts {
            let _ = writeln!(out, "  {}:", quoted(name));
            host.write(&mut out, options);
        }
        out.push_str("links:\n");
        for link in &self.links {
            let settings: String =
                link.settings.iter().map(|(key, value)| format!(", {key}: {value}")).collect();
            let [a, b] = link.ends.each_ref().map(|end| quoted(end));
            let _ = writeln!(out, "- {{between: [{a}, {b}]{settings}}}");
        }
        let notes = self.notes.into_iter().map(|(line, text)| noted(name, line, &text));
        Ok(Imported { yaml: out, notes: notes.collect() })
    }
}

impl Host {
    fn write(&self, out: &mut String, options: &Options) {
        let interfaces = self.interfaces.iter().filter(|(_, own)| own.0.is_some() || own.1.is_some());
        let interfaces: Vec<String> = interfaces
            .map(|(name, (address, mac))| {
                let address = address.as_ref().map(|own| format!("addresses: [{own}]"));
                let mac = mac.as_ref().map(|mac| format!("mac: \"{mac}\""));
                let parts: Vec<String> = address.into_iter().chain(mac).collect();
                format!("{}: {{{}}}", quoted(name), parts.join(", "))
            })
            .collect();
        if !interfaces.is_empty() {
            let _ = writeln!(out, "    interfaces: {{{}}}", interfaces.join(", "));
        }
        if let Some(gateway) = &self.gateway {
            let _ = writeln!(out, "    routes: [{{to: default, via: {gateway}}}]");
        }
        out.push_str(if self.commands.is_empty() { "    processes: []\n" } else { "    processes:\n" });
        for Command { at, words } in &self.commands {
            let args: Vec<String> = words[1..].iter().map(|word| quoted(word)).collect();
            let is_tolerated = options.tolerate_failures && at.is_some();
            let end = if is_tolerated { ", expected_final_state: any" } else { "" };
            let _ = writeln!(out, "    - {{path: {}, args: [{}]{end}}}", quoted(&words[0]), args.join(", "));
        }
    }
}

fn entry<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key && !entry.value.is_null())
}

/// The entries of a required section.
fn part<'a>(top: &'a Node, key: &str, place: &str, help: &str) -> Result<&'a [Entry], Problem> {
    let found = entry(mapping(top, place)?, key)
        .ok_or_else(|| Problem::at(top.span, format!("there is no '{key}' in {place}")).help(help))?;
    mapping(&found.value, &format!("'{key}'"))
}

/// A number, in quotes or not.
fn number(node: &Node, key: &str) -> Result<f64, Problem> {
    let text = section::string(node, key)?;
    let value = text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| node.problem(format!("'{key}' must be a number of at least 0, not '{text}'")))
}

/// A delay in Mininet's notation: text with a unit, or a number of milliseconds. `None` if it is 0.
fn delay(node: &Node, key: &str) -> Result<Option<String>, Problem> {
    let text = section::string(node, key)?.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let wrong = || node.problem(format!("'{key}' must be a delay such as 10ms, not '{text}'"));
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    // tc interprets a number without a unit as microseconds, but Mininet converts a JSON number to
    // milliseconds before.
    let quoted =
        matches!(&node.value, crate::yaml::Value::Scalar(one) if one.style != crate::yaml::Style::Plain);
    let unit = match text[digits.len()..].trim() {
        "" if quoted => "us",
        "" | "ms" | "msec" | "msecs" => "ms",
        "us" | "usec" | "usecs" => "us",
        "s" | "sec" | "secs" => "s",
        _ => return Err(wrong()),
    };
    match value {
        0.0 => Ok(None),
        _ if value > 0.0 && value.is_finite() => Ok(Some(format!("{digits} {unit}"))),
        _ => Err(wrong()),
    }
}

/// A bandwidth in Mininet's notation: a number of Mbit/s.
fn bandwidth(node: &Node, key: &str) -> Result<String, Problem> {
    let bits = number(node, key)? * 1e6;
    if bits < 1.0 {
        return Err(node.problem(format!("'{key}' must be more than 0 Mbit/s")));
    }
    Ok(match bits {
        _ if bits % 1e6 == 0.0 => format!("{} Mbit", bits / 1e6),
        _ if bits % 1e3 == 0.0 => format!("{} Kbit", bits / 1e3),
        _ => format!("{} bit", bits.round()),
    })
}
