//! Writes the experiment.

use super::draft::{Draft, Kind, Member, Route};
use super::mounts::Mount;
use super::script::Script;
use super::{Imported, Options};
use crate::emit::quoted;
use belljar_base::{Map, Set};
use std::fmt::Write;

/// End of the simulated time of imported experiments, in seconds.
pub(super) const STOP_TIME: u64 = 60;

/// The first line of an imported experiment, which names the file that it was.
pub(super) fn heading(file: &str) -> String {
    format!("# Imported from {}.\n", file.replace(char::is_control, " "))
}

/// A note on a line of a file, or on the file as a whole if the line is 0.
pub(super) fn noted(file: &str, line: usize, text: &str) -> String {
    match line {
        0 => format!("{file}: {text}"),
        line => format!("{file}: line {line}: {text}"),
    }
}

impl Draft {
    /// Converts the commands and writes the experiment.
    pub(super) fn finish(mut self, name: &str, options: &Options) -> Imported {
        self.translate();
        self.add_hosts();
        self.note_unused();
        if options.tolerate_failures {
            self.note_tolerated();
        }
        let mut out = heading(name);
        for comment in &self.comments {
            let _ = writeln!(out, "# {}", comment.replace(char::is_control, " "));
        }
        let _ = writeln!(out, "general: {{stop_time: {} s}}", self.stop_time.unwrap_or(STOP_TIME));
        let has_ipv6 = self.members.values().any(|member| member.ipv6 == Some(true));
        if has_ipv6 {
            out.push_str("belljar: {ipv6: true}\n");
        }
        for (kind, section) in [(Kind::Switch, "switches"), (Kind::Router, "routers"), (Kind::Host, "hosts")]
        {
            let of_kind: Vec<(&String, &Member)> =
                self.members.iter().filter(|(_, m)| m.kind == kind).collect();
            if !of_kind.is_empty() {
                let _ = writeln!(out, "{section}:");
            }
            for (name, member) in of_kind {
                let _ = writeln!(out, "  {}:", quoted(name));
                self.network(&mut out, name, member, has_ipv6);
                if kind == Kind::Host {
                    processes(&mut out, member, options);
                }
            }
        }
        out.push_str("links:\n");
        for cable in &self.cables {
            let named = cable.name.as_ref().map_or(String::new(), |name| format!("name: {}, ", quoted(name)));
            let mtu = cable.mtu.map_or(String::new(), |mtu| format!(", mtu: {mtu}"));
            let settings: String =
                cable.settings.iter().map(|(key, value)| format!(", {key}: {value}")).collect();
            let [a, b] = &cable.ends;
            let _ = writeln!(out, "- {{{named}between: [{}, {}]{mtu}{settings}}}", quoted(a), quoted(b));
        }
        if !self.events.is_empty() {
            out.push_str("events:\n");
        }
        for event in &self.events {
            let _ = writeln!(out, "- {event}");
        }
        let notes = self.notes.into_iter().map(|(at, text)| {
            let file = match (&at.file, std::path::Path::new(name).parent()) {
                (Some(file), Some(folder)) => folder.join(file).display().to_string(),
                (file, _) => file.clone().unwrap_or_else(|| name.to_owned()),
            };
            noted(&file, at.line, &text)
        });
        Imported { yaml: out, notes: notes.collect() }
    }

    /// Writes the settings of a node's network.
    fn network(&self, out: &mut String, name: &str, member: &Member, has_ipv6: bool) {
        let is_host = member.kind == Kind::Host;
        let is_static = is_host && member.is_configured;
        let own = self.macs.iter().filter(|((node, _), _)| node == name);
        let macs: Map<&String, &String> = own.map(|((_, interface), mac)| (interface, mac)).collect();
        let mut interfaces = String::new();
        for interface in self.interfaces(name) {
            let mut parts = Vec::new();
            match member.addresses.get(&interface) {
                Some(addresses) => {
                    let all: Vec<String> = addresses.iter().map(|own| quoted_address(own)).collect();
                    parts.push(format!("addresses: [{}]", all.join(", ")));
                }
                None if is_static => parts.push("addresses: []".to_owned()),
                None => {}
            }
            parts.extend(macs.get(&interface).map(|mac| format!("mac: \"{mac}\"")));
            if !parts.is_empty() {
                let _ = writeln!(interfaces, "      {}: {{{}}}", quoted(&interface), parts.join(", "));
            }
        }
        if member.kind != Kind::Switch && !interfaces.is_empty() {
            let _ = write!(out, "    interfaces:\n{interfaces}");
        }
        if member.kind == Kind::Router && !member.routes.is_empty() {
            out.push_str("    routing: shortest_path\n");
        }
        if is_static && member.routes.is_empty() {
            out.push_str("    routing: static\n");
        }
        if !member.routes.is_empty() {
            out.push_str("    routes:\n");
        }
        for route in &member.routes {
            let _ = writeln!(out, "    - {route}");
        }
        if is_host && has_ipv6 && member.ipv6 == Some(false) {
            out.push_str("    ipv6: false\n");
        }
        if member.forwarding == Some(true) && is_host {
            out.push_str("    forwarding: true\n");
        }
        let mut options = Vec::new();
        if !member.sysctls.is_empty() {
            let all: Vec<String> =
                member.sysctls.iter().map(|(name, (_, value))| format!("{name}: {value}")).collect();
            options.push(format!("sysctls: {{{}}}", all.join(", ")));
        }
        let shared: Set<String> = member.mounts.iter().filter_map(Mount::shared).collect();
        if !shared.is_empty() {
            let all: Vec<String> = shared.iter().map(|path| quoted(path)).collect();
            options.push(format!("shared: [{}]", all.join(", ")));
        }
        if is_host && !options.is_empty() {
            let _ = writeln!(out, "    host_options: {{{}}}", options.join(", "));
        }
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{to: {}", quoted_address(&self.to))?;
        if let Some(via) = self.via {
            write!(f, ", via: {}", quoted_address(&via.to_string()))?;
        }
        if let Some(dev) = &self.dev {
            write!(f, ", dev: {}", quoted(dev))?;
        }
        if let Some(metric) = self.metric {
            write!(f, ", metric: {metric}")?;
        }
        f.write_str("}")
    }
}

/// IPv6 addresses are quoted: in YAML a colon at the end of a word makes a mapping.
pub(super) fn quoted_address(text: &str) -> String {
    if text.contains(':') { format!("\"{text}\"") } else { text.to_owned() }
}

/// Writes the processes of a host: its mounts, its main program and its commands, one after the other.
fn processes(out: &mut String, member: &Member, options: &Options) {
    let environment: Vec<String> = member
        .environment
        .iter()
        .map(|(name, (_, value))| format!("{}: {}", quoted(name), quoted(value)))
        .collect();
    let environment = match environment.is_empty() {
        true => String::new(),
        false => format!("      environment: {{{}}}\n", environment.join(", ")),
    };
    let mut start = 0;
    let mut process = |script: &Script, settings: &str| {
        if start == 0 {
            out.push_str("    processes:\n");
        }
        let _ = write!(out, "    - path: /bin/bash\n{}{settings}", script.arguments("      "));
        if start > 0 {
            let _ = writeln!(out, "      start_time: {start} s");
        }
        start += 1;
    };
    let any = if options.tolerate_failures { "      expected_final_state: any\n" } else { "" };
    let mounts = Script::of_mounts(&member.mounts);
    let commands = Script::of_commands(&member.script);
    match &member.main {
        Some((_, words)) => {
            if !mounts.is_empty() {
                process(&mounts, "");
            }
            let state = if options.tolerate_failures { any } else { "      expected_final_state: running\n" };
            process(&Script::of_program(words), &format!("{environment}{state}"));
            if !commands.is_empty() {
                process(&commands, &format!("{environment}{any}"));
            }
        }
        None => {
            let all = mounts.followed_by(commands);
            if !all.is_empty() {
                process(&all, &format!("{environment}{any}"));
            }
        }
    }
    if start == 0 {
        out.push_str("    processes: []\n");
    }
}
