//! Containerlab: `topology: { nodes: ..., links: ... }`. Bridges become switches, Linux containers hosts, and
//! every other kind, a vendor's router, a router.

use super::{Cable, Draft, Imported, Importer, Input, Kind, Member, commands, interface_name, node_name};
use crate::error::{Problem, Source};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node, Value};

/// Kinds of nodes that forward frames, and kinds that run programs.
const BRIDGES: [&str; 2] = ["bridge", "ovs-bridge"];
const CONTAINERS: [&str; 3] = ["linux", "k8s-kind", "host"];
/// Keys of a node that do not affect the network between nodes.
const SILENT: [&str; 5] = ["kind", "group", "labels", "mgmt-ipv4", "mgmt-ipv6"];

/// A topology file of Containerlab.
pub(super) struct Containerlab;

impl Importer for Containerlab {
    fn name(&self) -> &'static str {
        "containerlab"
    }
    fn has_extension(&self, extension: &str) -> bool {
        matches!(extension, "yml" | "yaml")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        Ok(draft(input.source)?.finish(&input.source.name))
    }
}

fn draft(source: &Source) -> Result<Draft, Problem> {
    let tree = yaml::parse(&source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "a topology")?;
    let topology = entry(top, "topology").ok_or_else(|| {
        Problem::at(tree.span, "there is no 'topology' in this file")
            .help("this is no topology of Containerlab")
    })?;
    let topology = mapping(&topology.value, "'topology'")?;
    let nodes =
        entry(topology, "nodes").ok_or_else(|| Problem::at(tree.span, "this topology has no 'nodes'"))?;
    let inherited = Inherited::read(topology)?;
    let mut draft = Draft::default();
    for node in mapping(&nodes.value, "'nodes'")? {
        add_node(&mut draft, node, &inherited)?;
    }
    if let Some(links) = entry(topology, "links") {
        for link in section::list(&links.value, "links")? {
            add_link(&mut draft, link)?;
        }
    }
    if draft.cables.is_empty() {
        return Err(Problem::whole_file("this topology has no links that could be taken over"));
    }
    // A machine that runs Docker forwards packets, and so do its containers.
    for (name, member) in &mut draft.members {
        let ends = draft.cables.iter().flat_map(|cable| &cable.ends);
        let links = ends.filter(|end| end.split(':').next() == Some(name)).count();
        member.forwarding.get_or_insert(links > 1);
    }
    let linked = |name: &str| {
        draft.cables.iter().flat_map(|cable| &cable.ends).any(|end| end.split(':').next() == Some(name))
    };
    let alone: Vec<String> = draft.members.keys().filter(|name| !linked(name)).cloned().collect();
    for name in alone {
        draft.members.remove(&name);
        draft.note(format!("'{name}' is left out: it has no links"));
    }
    Ok(draft)
}

fn entry<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key && !entry.value.is_null())
}

/// Settings that nodes inherit: `defaults`, then those of their kind, then of their group, and their own
/// last.
struct Inherited<'a> {
    defaults: Option<&'a [Entry]>,
    kinds: &'a [Entry],
    groups: &'a [Entry],
}

impl<'a> Inherited<'a> {
    fn read(topology: &'a [Entry]) -> Result<Inherited<'a>, Problem> {
        let section = |key: &str| match entry(topology, key) {
            Some(found) => mapping(&found.value, &format!("'{key}'")),
            None => Ok(&[][..]),
        };
        let defaults =
            entry(topology, "defaults").map(|found| mapping(&found.value, "'defaults'")).transpose()?;
        Ok(Inherited { defaults, kinds: section("kinds")?, groups: section("groups")? })
    }

    /// The settings of a node, from the most general to its own, and its kind.
    fn of(&self, own: &'a [Entry]) -> Result<(Vec<&'a [Entry]>, String), Problem> {
        let named = |section: &'a [Entry], name: &str| match entry(section, name) {
            Some(found) => mapping(&found.value, &format!("'{name}'")).map(Some),
            None => Ok(None),
        };
        let text = |entries: &'a [Entry], key: &str| {
            entry(entries, key).map(|found| section::string(&found.value, key)).transpose()
        };
        let group = match text(own, "group")? {
            Some(group) => named(self.groups, group)?,
            None => None,
        };
        let mut kind = None;
        for entries in [Some(own), group, self.defaults].into_iter().flatten() {
            kind = kind.or(text(entries, "kind")?);
        }
        let kind = kind.unwrap_or("linux");
        let all = [self.defaults, named(self.kinds, kind)?, group, Some(own)];
        Ok((all.into_iter().flatten().collect(), kind.to_owned()))
    }
}

fn add_node(draft: &mut Draft, node: &Entry, inherited: &Inherited<'_>) -> Result<(), Problem> {
    let name = node_name(&node.key);
    if name != node.key {
        draft.note_at(node.key_span.line, format!("'{}' is called '{name}' here", node.key));
    }
    let own = match &node.value.value {
        Value::Mapping(entries) => &entries[..],
        _ => &[],
    };
    let (settings, kind) = inherited.of(own)?;
    let becomes = match &*kind {
        kind if BRIDGES.contains(&kind) => Kind::Switch,
        kind if CONTAINERS.contains(&kind) => Kind::Host,
        _ => Kind::Router,
    };
    if becomes == Kind::Router {
        draft.note(format!("nodes of kind '{kind}' become routers with routes of shortest paths"));
    }
    if draft.members.insert(name.clone(), Member::new(becomes)).is_some() {
        return Err(Problem::at(node.key_span, format!("there are two nodes that would be called '{name}'"))
            .help("names here have lower case only: rename one of them"));
    }
    for entries in settings {
        for setting in entries.iter().filter(|setting| !setting.value.is_null()) {
            take(draft, &name, setting)?;
        }
    }
    Ok(())
}

/// Imports one setting of a node, or notes its omission.
fn take(draft: &mut Draft, name: &str, setting: &Entry) -> Result<(), Problem> {
    let line = setting.key_span.line;
    match &*setting.key {
        "exec" => {
            for command in section::list(&setting.value, "exec")? {
                draft.run(command.span.line, name, section::string(command, "exec")?);
            }
        }
        "sysctls" => {
            for sysctl in mapping(&setting.value, "'sysctls'")? {
                let value = scalar(&sysctl.value)?;
                let member = draft.members.get_mut(name).expect("it was just made");
                if !commands::sysctl(member, &sysctl.key, &value) {
                    let text = format!("the setting '{}={value}' has no effect here", sysctl.key);
                    draft.note_at(sysctl.key_span.line, text);
                }
            }
        }
        "env" => {
            for variable in mapping(&setting.value, "'env'")? {
                let value = scalar(&variable.value)?;
                let member = draft.members.get_mut(name).expect("it was just made");
                member.environment.insert(variable.key.clone(), value);
            }
        }
        "binds" => {
            for bind in section::list(&setting.value, "binds")? {
                let text = format!(
                    "'{}' is not bound: hosts see the machine's files, and what general.template_directory brings",
                    section::string(bind, "binds")?
                );
                draft.note_at(bind.span.line, text);
            }
        }
        key if SILENT.contains(&key) => {}
        key => draft.note_at(line, format!("'{key}' of nodes has no meaning here")),
    }
    Ok(())
}

/// The text of a scalar.
fn scalar(node: &Node) -> Result<String, Problem> {
    match &node.value {
        Value::Scalar(scalar) => Ok(scalar.text.clone()),
        _ => Err(node.problem("this must be a single value")),
    }
}

fn add_link(draft: &mut Draft, link: &Node) -> Result<(), Problem> {
    let entries = mapping(link, "a link")?;
    let kind = entry(entries, "type").map(|kind| section::string(&kind.value, "type")).transpose()?;
    if let Some(kind) = kind.filter(|kind| *kind != "veth") {
        draft.note(format!("links of type '{kind}' are left out: they lead out of the topology"));
        return Ok(());
    }
    let Some(endpoints) = entry(entries, "endpoints") else {
        return Err(link.problem("this link has no 'endpoints'"));
    };
    let [first, second] = section::list(&endpoints.value, "endpoints")? else {
        return Err(endpoints.value.problem("a link has two endpoints"));
    };
    let (Some(first), Some(second)) = (end(draft, first)?, end(draft, second)?) else { return Ok(()) };
    let mtu = entry(entries, "mtu").map(|mtu| section::whole(&mtu.value, "mtu", 65_535)).transpose()?;
    draft.cables.push(Cable { name: None, ends: [first, second], mtu });
    Ok(())
}

/// `node:interface`, or a mapping with both; `None` for an endpoint outside of the topology.
fn end(draft: &mut Draft, node: &Node) -> Result<Option<String>, Problem> {
    let (name, interface, mac) = match &node.value {
        Value::Mapping(entries) => {
            let text = |key: &str| entry(entries, key).map(|e| section::string(&e.value, key)).transpose();
            let name = text("node")?.ok_or_else(|| node.problem("this endpoint has no 'node'"))?;
            let interface =
                text("interface")?.ok_or_else(|| node.problem("this endpoint has no 'interface'"))?;
            (name, interface, text("mac")?)
        }
        _ => {
            let text = section::string(node, "an endpoint")?;
            let parts = text.split_once(':').ok_or_else(|| {
                node.problem(format!("'{text}' is not an endpoint")).help("write node:interface")
            })?;
            (parts.0, parts.1, None)
        }
    };
    if matches!(name, "host" | "mgmt-net" | "macvlan") && !draft.members.contains_key(name) {
        draft.note(format!("links to '{name}' are left out: they lead out of the topology"));
        return Ok(None);
    }
    let (name, interface) = (node_name(name), interface_name(interface));
    if !draft.members.contains_key(&name) {
        return Err(node.problem(format!("there is no node '{name}'")));
    }
    if let Some(mac) = mac {
        draft.macs.insert((name.clone(), interface.clone()), mac.to_ascii_lowercase());
    }
    Ok(Some(format!("{name}:{interface}")))
}
