//! netlab: `topology.yml` with `nodes` and `links` (netlab.tools). Devices become routers with the routes of
//! shortest paths, nodes of device `linux` hosts, bridges switches. Addresses are those of netlab's pools.

mod addresses;
mod links;

use super::draft::{Draft, Kind, Member};
use super::{Imported, Importer, Input, node_name};
use crate::error::{Problem, Problems};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node, Value};
use belljar_base::Map;
use std::rc::Rc;

/// A topology file of netlab.
pub(super) struct Netlab;

impl Importer for Netlab {
    fn name(&self) -> &'static str {
        "netlab"
    }
    fn has_extension(&self, extension: &str) -> bool {
        matches!(extension, "yml" | "yaml")
    }
    /// True if the file has keys of netlab at its top, where files of Containerlab have `topology`.
    fn recognises(&self, text: &str) -> bool {
        let mut keys = text.lines().filter_map(|line| line.split([':', '.']).next());
        let mut own = keys.clone();
        own.any(|key| matches!(key, "nodes" | "links" | "defaults" | "plugin"))
            && !keys.any(|key| key == "topology")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        Ok(draft(&input.source.text)?.finish(&input.source.name, input.options))
    }
}

/// Keys of the topology that are read, or that have no effect on the network. A `*` stands for any name.
const READ: &[&str] = &[
    "nodes",
    "links",
    "vlans.*.links",
    "vrfs.*.links",
    "module",
    "defaults.device",
    "defaults.provider",
    "groups._auto_create",
    "groups.*.members",
    "groups.*.device",
    "groups.*._auto_create",
    "addressing.lan.prefix",
    "addressing.lan.ipv4",
    "addressing.p2p.prefix",
    "addressing.p2p.ipv4",
    "name",
    "provider",
    "message",
    "version",
];
/// Such keys of a node.
const READ_OF_NODES: &[&str] = &["name", "device", "id", "role", "provider", "license", "box", "image"];
/// Devices of netlab that are hosts and bridges.
const HOSTS: [&str; 2] = ["linux", "dnsmasq"];
const BRIDGES: [&str; 2] = ["bridge", "ovs"];

/// The topology while it is being read.
struct Lab {
    draft: Draft,
    /// Nodes by their names in the file.
    nodes: Map<String, Device>,
    pools: addresses::Pools,
    /// Advice for nodes that the file does not have but uses.
    advice: Option<String>,
}

/// A node of the file.
struct Device {
    name: String,
    kind: Kind,
    /// Number of the node, from 1, which is part of its addresses.
    number: u32,
    interfaces: u32,
}

fn draft(text: &str) -> Result<Draft, Problem> {
    let tree = yaml::parse(text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "a topology")?;
    let mut problems = Problems::default();
    let mut lab = Lab {
        draft: Draft::default(),
        nodes: Map::new(),
        pools: problems.take(addresses::Pools::read(top)).unwrap_or_default(),
        advice: advice(top),
    };
    for (line, key) in unread(top, READ) {
        lab.draft.note_at(line, format!("'{key}' of a topology is not taken over"));
    }
    let none = Rc::new(Node { span: tree.span, value: Value::Sequence(Vec::new()) });
    let nodes = match (find(top, "nodes"), created_by_groups(top).is_empty()) {
        (Some(nodes), _) => nodes,
        (None, false) => none,
        (None, true) => return Err(without_nodes(&tree, top)),
    };
    lab.note_modules(top);
    problems.take(lab.nodes(&nodes, top));
    let links = all_links(top);
    if links.is_empty() {
        return Err(Problem::at(tree.span, "this topology has no 'links'"));
    }
    for links in links {
        for link in section::list(&links, "links")? {
            problems.take(links::add(&mut lab, link));
        }
    }
    problems.check()?;
    lab.finish()
}

impl Lab {
    /// Notes the protocols that the devices would run.
    fn note_modules(&mut self, top: &[Entry]) {
        for entry in top.iter().filter(|entry| entry.key == "module") {
            let names: Vec<String> = scalars(&entry.value);
            let text =
                format!("routers have the routes of shortest paths, not those of {}", names.join(", "));
            self.draft.note_at(entry.key_span.line, text);
        }
    }

    fn nodes(&mut self, nodes: &Node, top: &[Entry]) -> Result<(), Problem> {
        let empty = Rc::new(Node { span: nodes.span, value: Value::Mapping(Vec::new()) });
        let mut all: Vec<(String, Rc<Node>, &Node)> = Vec::new();
        match &nodes.value {
            Value::Sequence(items) => {
                for item in items {
                    let name = match &item.value {
                        Value::Mapping(entries) => match find(entries, "name") {
                            Some(name) => section::string(&name, "name")?.to_owned(),
                            None => return Err(item.problem("this node has no 'name'")),
                        },
                        _ => section::string(item, "a node")?.to_owned(),
                    };
                    let is_map = matches!(item.value, Value::Mapping(_));
                    all.push((name, if is_map { item.clone() } else { empty.clone() }, item));
                }
            }
            _ => {
                for entry in mapping(nodes, "'nodes'")? {
                    let value = if entry.value.is_null() { empty.clone() } else { entry.value.clone() };
                    all.push((entry.key.clone(), value, &entry.value));
                }
            }
        }
        for name in created_by_groups(top) {
            if !all.iter().any(|(own, ..)| *own == name) {
                all.push((name, empty.clone(), nodes));
            }
        }
        let mut problems = Problems::default();
        let number = |node: &Node| match &node.value {
            Value::Mapping(entries) => {
                find(entries, "id").map(|id| section::whole(&id, "id", 250).map(|id| id as u32)).transpose()
            }
            _ => Ok(None),
        };
        let mut taken: Vec<u32> = all.iter().filter_map(|(_, node, _)| number(node).ok().flatten()).collect();
        for (name, settings, node) in &all {
            let given = problems.take(number(settings)).flatten();
            let own = given.or_else(|| (1..).find(|number| !taken.contains(number))).unwrap_or_default();
            taken.push(own);
            problems.take(self.node(name, settings, node, own, top));
        }
        problems.check()
    }

    fn node(
        &mut self,
        written: &str,
        settings: &Node,
        at: &Node,
        number: u32,
        top: &[Entry],
    ) -> Result<(), Problem> {
        let own = mapping(settings, &format!("node '{written}'"))?;
        let text = |entries: &[Entry], key: &str| -> Result<Option<String>, Problem> {
            find(entries, key).map(|node| section::string(&node, key).map(str::to_owned)).transpose()
        };
        let device = match text(own, "device")? {
            Some(device) => Some(device),
            None => match device_of_group(written, top) {
                Some(device) => Some(device),
                None => text(top, "defaults.device")?,
            },
        };
        let role = text(own, "role")?;
        let kind = match (role.as_deref(), device.as_deref()) {
            (Some("host"), _) => Kind::Host,
            (Some("bridge"), _) => Kind::Switch,
            (None, Some(device)) if HOSTS.contains(&device) => Kind::Host,
            (None, Some(device)) if BRIDGES.contains(&device) => Kind::Switch,
            _ => Kind::Router,
        };
        let name = node_name(written);
        if name.is_empty() || self.draft.members.contains_key(&name) {
            return Err(at
                .problem(format!("there are two nodes that would be called '{name}'"))
                .help("rename one of them"));
        }
        if name != written {
            self.draft.note_at(at.span.line, format!("'{written}' is called '{name}' here"));
        }
        if let (Kind::Router, Some(device)) = (kind, &device) {
            let text = format!("devices '{device}' are routers with routes of shortest paths");
            self.draft.note(text);
        }
        for (line, key) in unread(own, READ_OF_NODES) {
            self.draft.note_at(line, format!("'{key}' of node '{written}' is not taken over"));
        }
        self.draft.members.insert(name.clone(), Member::new(kind));
        self.nodes.insert(written.to_owned(), Device { name, kind, number, interfaces: 0 });
        Ok(())
    }

    /// Completes the draft.
    fn finish(mut self) -> Result<Draft, Problem> {
        if self.draft.cables.is_empty() {
            return Err(Problem::whole_file("this topology has no links that could be taken over"));
        }
        self.draft.remove_unlinked();
        Ok(self.draft)
    }
}

/// Lists of links: of the topology, and of its VLANs and VRFs, which have links of their own.
fn all_links(top: &[Entry]) -> Vec<Rc<Node>> {
    let mut all: Vec<Rc<Node>> = find(top, "links").into_iter().collect();
    for section in ["vlans", "vrfs"].iter().filter_map(|key| find(top, key)) {
        let Value::Mapping(members) = &section.value else { continue };
        let own = members.iter().filter_map(|member| match &member.value.value {
            Value::Mapping(entries) => find(entries, "links"),
            _ => None,
        });
        all.extend(own);
    }
    all
}

/// Members of the groups that create their members: all with `_auto_create`, or those with it.
fn created_by_groups(top: &[Entry]) -> Vec<String> {
    let Some(groups) = find(top, "groups") else { return Vec::new() };
    let Value::Mapping(groups) = &groups.value else { return Vec::new() };
    let creates = |entries: &[Entry]| {
        let own = find(entries, "_auto_create");
        own.is_some_and(|own| section::boolean(&own, "_auto_create").unwrap_or(false))
    };
    let all = creates(groups);
    let mut names = Vec::new();
    for group in groups {
        let Value::Mapping(own) = &group.value.value else { continue };
        if all || creates(own) {
            names.extend(find(own, "members").map(|members| scalars(&members)).unwrap_or_default());
        }
    }
    names
}

/// The problem of a topology without nodes of its own.
fn without_nodes(tree: &Node, top: &[Entry]) -> Problem {
    Problem::at(tree.span, "this topology has no 'nodes'").maybe_help(advice(top))
}

/// Advice for a topology with plugins, which may make nodes.
fn advice(top: &[Entry]) -> Option<String> {
    let plugins = scalars(&*find(top, "plugin")?).join(", ");
    Some(format!(
        "a plugin ({plugins}) makes them: let netlab write the topology with 'netlab create -o yaml'"
    ))
}

/// The device of the groups to which a node belongs.
fn device_of_group(node: &str, top: &[Entry]) -> Option<String> {
    let groups = find(top, "groups")?;
    let Value::Mapping(groups) = &groups.value else { return None };
    groups.iter().find_map(|group| {
        let Value::Mapping(own) = &group.value.value else { return None };
        let members = find(own, "members").map(|members| scalars(&members)).unwrap_or_default();
        let device = find(own, "device").map(|device| scalars(&device)).unwrap_or_default();
        members.iter().any(|member| member == node).then(|| device.into_iter().next()).flatten()
    })
}

/// Keys below `entries` that are not in the list `read`, with their lines. The names of nested keys are joined by dots, as in
/// the list, in which a `*` stands for any name. Of a mapping of which nothing is read, only the key is returned.
fn unread(entries: &[Entry], read: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    add_unread(entries, &[], read, &mut found);
    found
}

fn add_unread(entries: &[Entry], above: &[&str], read: &[&str], found: &mut Vec<(usize, String)>) {
    for entry in entries {
        let path: Vec<&str> = above.iter().copied().chain(entry.key.split('.')).collect();
        let begins = |known: &&&str| {
            let mut parts = known.split('.');
            path.iter().all(|own| parts.next().is_some_and(|part| part == "*" || part == *own))
        };
        let covers = |known: &&str| {
            let mut own = path.iter();
            known.split('.').all(|part| own.next().is_some_and(|own| part == "*" || part == *own))
        };
        match &entry.value.value {
            _ if read.iter().any(covers) => {}
            Value::Mapping(inner) if read.iter().any(|known| begins(&known)) => {
                add_unread(inner, &path, read, found);
            }
            _ if entry.value.is_null() => {}
            _ => found.push((entry.key_span.line, path.join("."))),
        }
    }
}

/// The value of a key, whose parts may be joined by dots or be keys of nested mappings.
fn find(entries: &[Entry], key: &str) -> Option<Rc<Node>> {
    entries.iter().find_map(|entry| {
        if entry.key == key {
            return (!entry.value.is_null()).then(|| entry.value.clone());
        }
        let rest = key.strip_prefix(&*entry.key)?.strip_prefix('.')?;
        match &entry.value.value {
            Value::Mapping(own) => find(own, rest),
            _ => None,
        }
    })
}

/// The texts of a scalar or of the scalars of a list.
fn scalars(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Scalar(scalar) => vec![scalar.text.clone()],
        Value::Sequence(items) => items.iter().flat_map(|item| scalars(item)).collect(),
        Value::Mapping(_) => Vec::new(),
    }
}
