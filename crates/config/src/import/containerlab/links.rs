//! Links of Containerlab.

use super::{entry, note_others, scalar};
use crate::error::Problem;
use crate::import::draft::{At, Cable, Command, CommandKind, Draft};
use crate::import::{hardware_address, interface_name, node_name};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node, Value};

/// Names of endpoints that are not nodes: links to them lead out of the topology.
const OUTSIDE: [&str; 3] = ["host", "mgmt-net", "macvlan"];

/// End of the note on a link that is not imported.
pub(super) const LEFT_OUT: &str = "is left out: it leads out of the topology";

/// An endpoint of a link.
struct Endpoint {
    node: String,
    interface: String,
    mac: Option<String>,
    /// Addresses, with the lines that give them.
    addresses: Vec<(usize, String)>,
}

impl Endpoint {
    fn written(&self) -> String {
        format!("{}:{}", self.node, self.interface)
    }
}

pub(super) fn add(draft: &mut Draft, link: &Node) -> Result<(), Problem> {
    let entries = mapping(link, "a link")?;
    let line = link.span.line;
    let kind = entry(entries, "type").map(|kind| section::string(&kind.value, "type")).transpose()?;
    let mtu = entry(entries, "mtu").map(|mtu| section::whole(&mtu.value, "mtu", 65_535)).transpose()?;
    match kind.unwrap_or("veth") {
        "veth" => {}
        "dummy" => return dummy(draft, entries, link, mtu),
        kind => {
            draft.note_at(line, format!("a link of type '{kind}' {LEFT_OUT}"));
            return Ok(());
        }
    }
    note_others(draft, entries, &["type", "endpoints", "mtu", "ipv4", "ipv6"], "links");
    let Some(endpoints) = entry(entries, "endpoints") else {
        return Err(link.problem("this link has no 'endpoints'"));
    };
    let [first, second] = section::list(&endpoints.value, "endpoints")? else {
        return Err(endpoints.value.problem("a link has two endpoints"));
    };
    let (Some(mut first), Some(mut second)) = (endpoint(draft, first)?, endpoint(draft, second)?) else {
        return Ok(());
    };
    for key in ["ipv4", "ipv6"] {
        let Some(own) = entry(entries, key) else { continue };
        for (n, address) in section::list(&own.value, key)?.iter().enumerate() {
            let end = match n {
                0 => &mut first,
                1 => &mut second,
                _ => return Err(address.problem("a link has two endpoints")),
            };
            end.addresses.push((address.span.line, scalar(address)?));
        }
    }
    for end in [&first, &second] {
        if draft.cables.iter().flat_map(|cable| &cable.ends).any(|other| *other == end.written()) {
            return Err(link.problem(format!("another link ends at '{}' already", end.written())));
        }
        settings(draft, end);
    }
    draft.cables.push(Cable { mtu, ..Cable::between(first.written(), second.written()) });
    Ok(())
}

/// Imports the hardware address and the addresses of an endpoint.
fn settings(draft: &mut Draft, end: &Endpoint) {
    if let Some(mac) = &end.mac {
        draft.macs.insert((end.node.clone(), end.interface.clone()), mac.clone());
    }
    let addresses = end.addresses.iter().filter(|(_, address)| !address.is_empty());
    let commands = addresses.map(|(line, address)| {
        program(*line, format!("ip addr add {} dev {}", shell_words::quote(address), end.interface))
    });
    first_commands(draft, &end.node, commands.collect());
}

/// An interface that leads nowhere: the host makes it.
fn dummy(draft: &mut Draft, entries: &[Entry], link: &Node, mtu: Option<u64>) -> Result<(), Problem> {
    note_others(draft, entries, &["type", "endpoint", "mtu"], "links");
    let Some(written) = entry(entries, "endpoint") else {
        return Err(link.problem("this link has no 'endpoint'"));
    };
    let Some(end) = endpoint(draft, &written.value)? else { return Ok(()) };
    let line = link.span.line;
    let name = &end.interface;
    let mut commands = vec![program(line, format!("ip link add {name} type dummy"))];
    let mtu = mtu.map(|mtu| format!("mtu {mtu}"));
    let mac = end.mac.as_ref().map(|mac| format!("address {mac}"));
    for setting in [mtu, mac].into_iter().flatten() {
        commands.push(program(line, format!("ip link set {name} {setting}")));
    }
    commands.push(program(line, format!("ip link set {name} up")));
    for (line, address) in &end.addresses {
        let command = format!("ip addr add {} dev {name}", shell_words::quote(address));
        commands.push(program(*line, command));
    }
    first_commands(draft, &end.node, commands);
    Ok(())
}

fn program(line: usize, text: String) -> Command {
    Command { at: At::line(line), text, kind: CommandKind::Program }
}

/// Adds commands of a node's links, which come before its own.
fn first_commands(draft: &mut Draft, node: &str, commands: Vec<Command>) {
    if let Some(member) = draft.members.get_mut(node) {
        member.link_commands.extend(commands);
    }
}

/// `node:interface`, or a mapping with both; `None` for an endpoint outside of the topology.
fn endpoint(draft: &mut Draft, node: &Node) -> Result<Option<Endpoint>, Problem> {
    let mut addresses = Vec::new();
    let (name, interface, mac) = match &node.value {
        Value::Mapping(entries) => {
            note_others(draft, entries, &["node", "interface", "mac", "ipv4", "ipv6"], "endpoints");
            let text = |key: &str| entry(entries, key).map(|e| section::string(&e.value, key)).transpose();
            let name = text("node")?.ok_or_else(|| node.problem("this endpoint has no 'node'"))?;
            let interface =
                text("interface")?.ok_or_else(|| node.problem("this endpoint has no 'interface'"))?;
            for own in ["ipv4", "ipv6"].into_iter().filter_map(|key| entry(entries, key)) {
                addresses.push((own.key_span.line, scalar(&own.value)?));
            }
            (name, interface, entry(entries, "mac"))
        }
        _ => {
            let text = section::string(node, "an endpoint")?;
            let parts = text.split_once(':').ok_or_else(|| {
                node.problem(format!("'{text}' is not an endpoint")).help("write node:interface")
            })?;
            (parts.0, parts.1, None)
        }
    };
    if OUTSIDE.contains(&name) && !draft.members.contains_key(name) {
        draft.note_at(node.span.line, format!("a link to '{name}' {LEFT_OUT}"));
        return Ok(None);
    }
    let (own_name, own_interface) = (node_name(name), interface_name(interface));
    if !draft.members.contains_key(&own_name) {
        return Err(node.problem(format!("there is no node '{own_name}'")));
    }
    if own_interface != interface {
        let text = format!("interface '{interface}' of '{own_name}' is called '{own_interface}' here");
        draft.note_at(node.span.line, text);
    }
    let mac = match mac {
        Some(mac) => {
            let text = section::string(&mac.value, "mac")?;
            let own = hardware_address(text)
                .ok_or_else(|| mac.value.problem(format!("'{text}' is not a hardware address")))?;
            Some(own)
        }
        None => None,
    };
    Ok(Some(Endpoint { node: own_name, interface: own_interface, mac, addresses }))
}
