//! Imports topology files of other tools as experiments: nodes and links are converted; features without an
//! equivalent are omitted with a note.

mod commands;
mod containerlab;
mod kathara;
mod p4;

use crate::emit::quoted;
use crate::error::{ConfigError, Problem, Source};
use belljar_base::{Map, Set};
use std::fmt::Write;
use std::path::Path;

/// A file to be imported.
struct Input<'a> {
    source: &'a Source,
    options: &'a Options<'a>,
    /// Reads a file in the folder of the topology file.
    beside: &'a dyn Fn(&str) -> Option<String>,
}

/// Importer of one format of topology files.
trait Importer: Sync {
    /// Name of the format.
    fn name(&self) -> &'static str;
    /// Description of the file, where the name of the format is not that of a tool.
    fn description(&self) -> Option<&'static str> {
        None
    }
    /// True if files with this extension may have the format.
    fn has_extension(&self, extension: &str) -> bool;
    /// True if a file with such an extension has the format, by its text, unless a later importer recognises the file.
    fn recognises(&self, _text: &str) -> bool {
        true
    }
    /// True if an experiment that does not load yet is of use, such as one whose program is incomplete.
    fn may_be_incomplete(&self) -> bool {
        false
    }
    /// Converts a file.
    fn read(&self, input: &Input) -> Result<Imported, Problem>;
}

/// All importers.
const IMPORTERS: [&dyn Importer; 4] =
    [&containerlab::Containerlab, &kathara::Kathara, &p4::Tutorial, &p4::P4app];

/// Format of a topology file.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn Importer);

impl Format {
    /// All formats.
    pub fn all() -> impl Iterator<Item = Format> {
        IMPORTERS.into_iter().map(Format)
    }

    /// The format of a file, by its extension and, where several have that, its text.
    pub fn of(path: &Path) -> Result<Option<Format>, ConfigError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let candidates: Vec<Format> =
            Format::all().filter(|format| format.0.has_extension(extension)).collect();
        if candidates.len() < 2 {
            return Ok(candidates.first().copied());
        }
        let text = text_of(path)?;
        Ok(candidates.into_iter().rev().find(|format| format.0.recognises(&text)))
    }

    /// Name of the format.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Description of the file, where the name of the format is not that of a tool.
    pub fn description(self) -> Option<&'static str> {
        self.0.description()
    }

    /// True if an experiment that does not load yet is of use, such as one whose program is incomplete.
    pub fn may_be_incomplete(self) -> bool {
        self.0.may_be_incomplete()
    }

    /// Imports the file at `path`.
    pub fn import(self, path: &Path, options: &Options) -> Result<Imported, ConfigError> {
        let source = Source { name: path.display().to_string(), text: text_of(path)? };
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        import_source(&source, self, options, &beside)
    }
}

/// Settings of an import.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Folder of the experiment file, to which the paths in it are relative.
    pub folder: &'a Path,
    /// Program of the P4 switches without one in the file.
    pub program: Option<&'a Path>,
}

/// An experiment converted from another tool's topology.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Text of the experiment file.
    pub yaml: String,
    /// Notes on omitted or invented settings, one sentence each.
    pub notes: Vec<String>,
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        let source = Source { name: path.display().to_string(), text: String::new() };
        let reason = crate::error::plain(&error);
        Problem::whole_file(format!("the topology cannot be read: {reason}")).into_error(&source)
    })
}

fn import_source(
    source: &Source,
    format: Format,
    options: &Options,
    beside: &dyn Fn(&str) -> Option<String>,
) -> Result<Imported, ConfigError> {
    let read = format.0.read(&Input { source, options, beside });
    read.map_err(|problem| problem.into_error(source))
}

/// Kind of the node to which a machine is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Router,
    Switch,
}

/// A node of the imported topology.
#[derive(Debug)]
struct Member {
    kind: Kind,
    /// Addresses by interface.
    addresses: Map<String, Vec<String>>,
    /// Routes: destination and router.
    routes: Vec<(String, String)>,
    /// True if the node forwards packets; `None` if unspecified.
    forwarding: Option<bool>,
    /// Kernel settings that have an effect in the simulator.
    sysctls: Map<String, String>,
    /// Environment of its commands.
    environment: Map<String, String>,
    /// Commands without effect on the network, with their lines: one process runs them in order.
    script: Vec<(usize, String)>,
}

impl Member {
    fn new(kind: Kind) -> Member {
        Member {
            kind,
            addresses: Map::new(),
            routes: Vec::new(),
            forwarding: None,
            sysctls: Map::new(),
            environment: Map::new(),
            script: Vec::new(),
        }
    }
}

/// A link to be written.
#[derive(Debug)]
struct Cable {
    name: Option<String>,
    ends: [String; 2],
    mtu: Option<u64>,
}

/// The experiment under construction.
#[derive(Debug, Default)]
struct Draft {
    members: Map<String, Member>,
    cables: Vec<Cable>,
    /// Hardware addresses by node and interface.
    macs: Map<(String, String), String>,
    /// Notes with the lines to which they refer; 0 for the whole file.
    notes: Set<(usize, String)>,
}

impl Draft {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.insert((0, text.into()));
    }
    fn note_at(&mut self, line: usize, text: impl Into<String>) {
        self.notes.insert((line, text.into()));
    }
    /// Imports a command of a node, or adds it to the node's script.
    fn run(&mut self, line: usize, name: &str, command: &str) {
        let Some(member) = self.members.get_mut(name) else { return };
        if commands::apply(member, command) {
            return;
        }
        member.script.push((line, command.to_owned()));
    }

    fn finish(mut self, name: &str) -> Imported {
        for (name, member) in &self.members {
            let is_host = member.kind == Kind::Host;
            if !is_host && !member.sysctls.is_empty() {
                let names: Vec<&str> = member.sysctls.keys().map(String::as_str).collect();
                self.notes.insert((0, format!("'{name}' is no host: {} is left out", names.join(", "))));
            }
            if !member.environment.is_empty() && (!is_host || member.script.is_empty()) {
                self.notes.insert((
                    0,
                    format!("no command of '{name}' is left to run: its environment is left out"),
                ));
            }
        }
        for (name, member) in self.members.iter().filter(|(_, member)| member.kind != Kind::Host) {
            for (line, command) in &member.script {
                self.notes.insert((*line, format!("'{name}' does not run '{command}': it is no host")));
            }
        }
        let mut out = format!("# Imported from {name}.\ngeneral: {{stop_time: 60 s}}\n");
        for (kind, section) in [(Kind::Switch, "switches"), (Kind::Router, "routers"), (Kind::Host, "hosts")]
        {
            let of_kind: Vec<(&String, &Member)> =
                self.members.iter().filter(|(_, m)| m.kind == kind).collect();
            if !of_kind.is_empty() {
                let _ = writeln!(out, "{section}:");
            }
            for (name, member) in of_kind {
                let _ = writeln!(out, "  {}:", quoted(name));
                self.member(&mut out, name, member);
            }
        }
        out.push_str("links:\n");
        for cable in &self.cables {
            let named = cable.name.as_ref().map_or(String::new(), |name| format!("name: {}, ", quoted(name)));
            let mtu = cable.mtu.map_or(String::new(), |mtu| format!(", mtu: {mtu}"));
            let [a, b] = &cable.ends;
            let _ = writeln!(out, "- {{{named}between: [{}, {}]{mtu}}}", quoted(a), quoted(b));
        }
        let told = |(line, text): (usize, String)| match line {
            0 => text,
            line => format!("line {line}: {text}"),
        };
        Imported { yaml: out, notes: self.notes.into_iter().map(told).collect() }
    }

    fn member(&self, out: &mut String, name: &str, member: &Member) {
        let own = self.macs.iter().filter(|((node, _), _)| node == name);
        let macs: Map<&String, &String> = own.map(|((_, interface), mac)| (interface, mac)).collect();
        let interfaces: Set<&String> = member.addresses.keys().chain(macs.keys().copied()).collect();
        if member.kind != Kind::Switch && !interfaces.is_empty() {
            out.push_str("    interfaces:\n");
            for interface in interfaces {
                let mut parts = Vec::new();
                if let Some(addresses) = member.addresses.get(interface) {
                    parts.push(format!("addresses: [{}]", addresses.join(", ")));
                }
                parts.extend(macs.get(interface).map(|mac| format!("mac: \"{mac}\"")));
                let _ = writeln!(out, "      {}: {{{}}}", quoted(interface), parts.join(", "));
            }
        }
        if !member.routes.is_empty() {
            out.push_str("    routes:\n");
        }
        for (to, via) in &member.routes {
            let _ = writeln!(out, "    - {{to: {to}, via: {via}}}");
        }
        if member.forwarding == Some(true) && member.kind == Kind::Host {
            out.push_str("    forwarding: true\n");
        }
        if member.kind != Kind::Host {
            return;
        }
        if !member.sysctls.is_empty() {
            let all: Vec<String> =
                member.sysctls.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let _ = writeln!(out, "    host_options: {{sysctls: {{{}}}}}", all.join(", "));
        }
        if member.script.is_empty() {
            out.push_str("    processes: []\n");
            return;
        }
        let script: Vec<&str> = member.script.iter().map(|(_, command)| command.as_str()).collect();
        let environment: Vec<String> = member
            .environment
            .iter()
            .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
            .collect();
        let _ = writeln!(
            out,
            "    processes:\n    - path: /bin/sh\n      args: [\"-c\", {}]\n      environment: {{{}}}\n      expected_final_state: any",
            quoted(&script.join("\n")),
            environment.join(", ")
        );
    }
}

/// Converts a name to a valid host name: lower case, without invalid characters.
fn node_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' };
    lower.chars().map(fit).collect::<String>().trim_matches(['-', '.']).to_owned()
}

/// Converts a name to a valid interface name.
fn interface_name(name: &str) -> String {
    let fit = |c: char| if c.is_whitespace() || "/:%".contains(c) { '-' } else { c };
    name.chars().map(fit).take(15).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
