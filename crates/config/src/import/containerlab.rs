//! Containerlab: `topology: { nodes: ..., links: ... }`. Bridges become switches, Linux containers hosts, and
//! every other kind, which is some maker's router, a router.

use super::{Cable, Draft, Kind, Member, commands, interface_name, node_name};
use crate::error::{Problem, Source};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node, Value};

/// Kinds of nodes that forward frames, and those that run programs.
const BRIDGES: [&str; 2] = ["bridge", "ovs-bridge"];
const CONTAINERS: [&str; 3] = ["linux", "k8s-kind", "host"];
/// Keys of a node that have nothing to do with the network between nodes.
const SILENT: [&str; 6] = ["kind", "group", "labels", "mgmt-ipv4", "mgmt-ipv6", "exec"];

pub(super) fn read(source: &Source) -> Result<Draft, Problem> {
    let tree = yaml::parse(&source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "a topology")?;
    let topology = entry(top, "topology").ok_or_else(|| {
        Problem::at(tree.span, "there is no 'topology' in this file")
            .help("this is no topology of Containerlab")
    })?;
    let topology = mapping(&topology.value, "'topology'")?;
    let nodes =
        entry(topology, "nodes").ok_or_else(|| Problem::at(tree.span, "this topology has no 'nodes'"))?;
    let default_kind = entry(topology, "defaults").and_then(|defaults| kind_of(&defaults.value));
    let mut draft = Draft::default();
    for node in mapping(&nodes.value, "'nodes'")? {
        add_node(&mut draft, node, default_kind.as_deref())?;
    }
    if let Some(links) = entry(topology, "links") {
        for link in section::list(&links.value, "links")? {
            add_link(&mut draft, link)?;
        }
    }
    if draft.cables.is_empty() {
        return Err(Problem::whole_file("this topology has no links that could be taken over"));
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

fn kind_of(node: &Node) -> Option<String> {
    let Value::Mapping(entries) = &node.value else { return None };
    section::string(&entry(entries, "kind")?.value, "kind").ok().map(str::to_owned)
}

fn add_node(draft: &mut Draft, node: &Entry, default_kind: Option<&str>) -> Result<(), Problem> {
    let name = node_name(&node.key);
    if name != node.key {
        draft.note(format!("'{}' is called '{name}' here", node.key));
    }
    let kind = kind_of(&node.value);
    let kind = kind.as_deref().or(default_kind).unwrap_or("linux");
    let becomes = match kind {
        kind if BRIDGES.contains(&kind) => Kind::Switch,
        kind if CONTAINERS.contains(&kind) => Kind::Host,
        _ => Kind::Router,
    };
    if becomes == Kind::Router {
        draft.note(format!("nodes of kind '{kind}' become routers with routes of shortest paths"));
    }
    let mut member = Member::new(becomes);
    let entries = match &node.value.value {
        Value::Mapping(entries) => &entries[..],
        _ => &[],
    };
    for other in entries.iter().filter(|other| !SILENT.contains(&other.key.as_str())) {
        draft.note(format!("'{}' of nodes has no meaning here", other.key));
    }
    if let Some(exec) = entry(entries, "exec") {
        for command in section::list(&exec.value, "exec")? {
            let command = section::string(command, "exec")?;
            if !commands::apply(&mut member, command) {
                draft.note(format!("'{name}' does not run '{command}': give it processes"));
            }
        }
    }
    if draft.members.insert(name.clone(), member).is_some() {
        return Err(Problem::at(node.key_span, format!("there are two nodes that would be called '{name}'"))
            .help("names here have lower case only: rename one of them"));
    }
    Ok(())
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

/// `node:interface`, or a mapping with both; `None` if it is outside of the topology.
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
