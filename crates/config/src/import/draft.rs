//! The experiment under construction: nodes with their settings and commands, and links.

use super::mounts::Mount;
use belljar_base::{Map, Set};
use std::net::IpAddr;

/// Kind of the node to which a machine is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Router,
    Switch,
}

/// A line of a file; line 0 stands for the whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    /// The file, if it is not the topology file.
    pub(super) file: Option<String>,
    pub(super) line: usize,
}

impl At {
    /// A line of the topology file.
    pub(super) fn line(line: usize) -> At {
        At { file: None, line }
    }
}

/// A command that a node runs at its start.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) at: At,
    pub(super) text: String,
    pub(super) kind: CommandKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// A program with its arguments, without a shell.
    Program,
    /// A line of a shell.
    Shell,
    /// A line of a script in a file of its own, by the number of the file.
    File(usize),
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: String,
    pub(super) via: Option<IpAddr>,
    pub(super) dev: Option<String>,
    pub(super) metric: Option<u32>,
}

/// A node of the imported topology.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) kind: Kind,
    /// Addresses by interface.
    pub(super) addresses: Map<String, Vec<String>>,
    pub(super) routes: Vec<Route>,
    /// True if the node forwards packets; `None` if unspecified.
    pub(super) forwarding: Option<bool>,
    /// Kernel settings that have an effect in the simulator.
    pub(super) sysctls: Map<String, (usize, String)>,
    /// Environment of its commands, with the lines that set it.
    pub(super) environment: Map<String, (usize, String)>,
    /// Files and folders that appear in its file system before its commands run.
    pub(super) mounts: Vec<Mount>,
    /// The program that runs as long as the node does, as words.
    pub(super) main: Option<(At, Vec<String>)>,
    /// Commands that make the interfaces of its links, before its own.
    pub(super) link_commands: Vec<Command>,
    /// Commands in their order. [`Draft::translate`] converts those that configure the network to settings.
    pub(super) commands: Vec<Command>,
    /// Commands that remain to be run.
    pub(super) script: Vec<Command>,
    /// True if the node's commands configure its network, so that nothing is assigned to it.
    pub(super) is_configured: bool,
    /// True if the node has IPv6; `None` if it has whenever an address of the topology is one of IPv6.
    pub(super) ipv6: Option<bool>,
}

impl Member {
    pub(super) fn new(kind: Kind) -> Member {
        Member {
            kind,
            addresses: Map::new(),
            routes: Vec::new(),
            forwarding: None,
            sysctls: Map::new(),
            environment: Map::new(),
            mounts: Vec::new(),
            main: None,
            link_commands: Vec::new(),
            commands: Vec::new(),
            script: Vec::new(),
            is_configured: false,
            ipv6: None,
        }
    }
}

/// A link to be written.
#[derive(Debug)]
pub(super) struct Cable {
    pub(super) name: Option<String>,
    pub(super) ends: [String; 2],
    pub(super) mtu: Option<u64>,
    /// Other keys of the link with their values, as YAML has them.
    pub(super) settings: Vec<(&'static str, String)>,
}

impl Cable {
    /// A link between two ends, with the default of every property.
    pub(super) fn between(first: impl Into<String>, second: impl Into<String>) -> Cable {
        Cable { name: None, ends: [first.into(), second.into()], mtu: None, settings: Vec::new() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Comments at the start of the experiment.
    pub(super) comments: Vec<String>,
    pub(super) members: Map<String, Member>,
    pub(super) cables: Vec<Cable>,
    /// Hardware addresses by node and interface.
    pub(super) macs: Map<(String, String), String>,
    pub(super) notes: Set<(At, String)>,
    /// End of the simulated time in seconds, if it is not the default of imports.
    pub(super) stop_time: Option<u64>,
    /// Events, as YAML has them.
    pub(super) events: Vec<String>,
}

impl Draft {
    /// Adds a note on the whole topology.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.note_in(At::default(), text);
    }
    /// Adds a note on a line of the topology file.
    pub(super) fn note_at(&mut self, line: usize, text: impl Into<String>) {
        self.note_in(At::line(line), text);
    }
    pub(super) fn note_in(&mut self, at: At, text: impl Into<String>) {
        self.notes.insert((at, text.into()));
    }

    /// Interfaces of a node at which a link ends.
    pub(super) fn interfaces(&self, node: &str) -> Set<String> {
        let ends = self.cables.iter().flat_map(|cable| &cable.ends);
        ends.filter_map(|end| end.split_once(':'))
            .filter(|(name, _)| *name == node)
            .map(|(_, own)| own.to_owned())
            .collect()
    }

    /// True if two interfaces of a node are on one switch.
    pub(super) fn is_doubly_linked(&self, node: &str) -> bool {
        let switches = self.cables.iter().filter_map(|cable| {
            let [a, b] = cable.ends.each_ref().map(|end| end.split(':').next().unwrap_or_default());
            let other = if a == node { b } else { a };
            (a == node || b == node).then_some(other)
        });
        let mut seen = Set::new();
        let is_switch = |name: &str| self.members.get(name).is_some_and(|own| own.kind == Kind::Switch);
        switches.filter(|name| is_switch(name)).any(|name| !seen.insert(name))
    }

    /// Removes the nodes without links, which cannot be simulated.
    pub(super) fn remove_unlinked(&mut self) {
        let all: Vec<String> = self.members.keys().cloned().collect();
        for name in all {
            let ends = self.cables.iter().flat_map(|cable| &cable.ends);
            let is_linked = ends.map(|end| end.split(':').next()).any(|end| end == Some(&*name));
            if !is_linked {
                self.members.remove(&name);
                self.note(format!("'{name}' is left out: it has no links"));
            }
        }
    }

    /// Adds a host to each router where the topology has none, since routers run no programs.
    pub(super) fn add_hosts(&mut self) {
        if self.members.values().any(|member| member.kind == Kind::Host) {
            return;
        }
        let routers = self.members.iter().filter(|(_, member)| member.kind == Kind::Router);
        let routers: Vec<String> = routers.map(|(name, _)| name.clone()).collect();
        if routers.is_empty() {
            return;
        }
        for router in routers {
            let host = format!("h-{router}");
            self.members.insert(host.clone(), Member::new(Kind::Host));
            // Their addresses are assigned, which is no surprise.
            self.cables.push(Cable::between(host, router));
        }
        self.note("no node is a host: each router has been given one, h-ROUTER, for programs");
    }

    /// Notes the settings of nodes that have no use for them.
    pub(super) fn note_unused(&mut self) {
        let mut notes = Vec::new();
        for (name, member) in &self.members {
            let is_host = member.kind == Kind::Host;
            for (setting, (line, _)) in member.sysctls.iter().filter(|_| !is_host) {
                notes.push((At::line(*line), format!("'{name}' is no host: {setting} is left out")));
            }
            let runs = !member.script.is_empty() || member.main.is_some();
            for (variable, (line, _)) in member.environment.iter().filter(|_| !is_host || !runs) {
                let text =
                    format!("'{name}' has no command left to run: the variable {variable} is left out");
                notes.push((At::line(*line), text));
            }
            for mount in member.mounts.iter().filter(|_| !is_host) {
                notes.push((mount.at.clone(), format!("'{name}' is no host: {} is left out", mount.target)));
            }
            if let Some((at, words)) = member.main.as_ref().filter(|_| !is_host) {
                notes.push((
                    at.clone(),
                    format!("'{name}' does not run '{}': it is no host", words.join(" ")),
                ));
            }
            for command in member.script.iter().filter(|command| !is_host && !command.is_blank()) {
                let text = format!("'{name}' does not run '{}': it is no host", command.text.trim());
                notes.push((command.at.clone(), text));
            }
            self.note_assigned(name, member, &mut notes);
        }
        self.notes.extend(notes);
    }

    /// Notes that the interfaces of a node are assigned addresses, as the topology has none.
    fn note_assigned(&self, name: &str, member: &Member, notes: &mut Vec<(At, String)>) {
        let is_assigned = match member.kind {
            Kind::Host => !member.is_configured,
            Kind::Router => true,
            Kind::Switch => false,
        };
        let silent = self.interfaces(name).into_iter().filter(|own| !member.addresses.contains_key(own));
        let silent: Vec<String> = silent.collect();
        if is_assigned && !silent.is_empty() {
            let text = format!("'{name}' has no address at {}: one is assigned", silent.join(", "));
            notes.push((At::default(), text));
        }
    }

    pub(super) fn note_tolerated(&mut self) {
        let mut notes = Vec::new();
        for (name, member) in self.members.iter().filter(|(_, member)| member.kind == Kind::Host) {
            let commands = member.script.iter().filter(|command| !command.is_blank());
            for command in commands {
                let text = format!("'{name}' may fail at '{}'", command.text.trim());
                notes.push((command.at.clone(), text));
            }
            if let Some((at, words)) = &member.main {
                notes.push((at.clone(), format!("'{name}' may fail at '{}'", words.join(" "))));
            }
        }
        self.notes.extend(notes);
    }
}

impl Command {
    /// True for a line without a command.
    pub(super) fn is_blank(&self) -> bool {
        let text = self.text.trim();
        text.is_empty() || text.starts_with('#')
    }
}
