//! Packets that properties are about: keys `packets` and `filter` of section `properties`.

use super::captures;
use crate::error::Problem;
use crate::model::{Experiment, Host};
use crate::properties::{PacketSet, Property};
use crate::yaml::{Entry, Node, Section, Value, section};
use belljar_net::suggest::nearest;
use belljar_properties::Condition;

/// Claims that may be a filter.
const CLAIMS: [&str; 4] = ["always", "never", "sometimes", "eventually"];

/// The interfaces at which packets are judged, and their filter.
pub(super) fn packets(s: &Section) -> Result<Option<PacketSet>, Problem> {
    let Some(entry) = s.entry("packets") else {
        return match s.entry("filter") {
            None => Ok(None),
            Some(filter) => {
                Err(Problem::at(filter.key_span, "'filter' selects packets, and there is no 'packets'")
                    .help("name interfaces, as in packets: eth0, or select lines by 'lines'"))
            }
        };
    };
    if let Some(other) = ["files", "process"].iter().find_map(|key| s.entry(key)) {
        let message = format!("'{}' is not valid with 'packets'", other.key);
        return Err(Problem::at(other.key_span, message).help("make two properties of them"));
    }
    let one = |node: &Node| match section::string(node, "packets")? {
        "" => Err(node.problem("'packets' names no interface").help("write packets: eth0, or packets: '*'")),
        name => Ok(name.to_owned()),
    };
    let node = s.required("packets", "packets: eth0")?;
    let interfaces = match &node.value {
        Value::Sequence(items) if items.is_empty() => {
            return Err(Problem::at(entry.key_span, "'packets' names no interface")
                .help("write packets: eth0, or packets: [lo, 'eth*']"));
        }
        Value::Sequence(items) => items.iter().map(|item| one(item)).collect::<Result<_, _>>()?,
        _ => vec![one(node)?],
    };
    let filter = s.read("filter", filter)?.unwrap_or_default();
    Ok(Some(PacketSet { interfaces, filter }))
}

/// A filter in tcpdump's syntax, which is checked once all addresses are known.
fn filter(node: &Node, key: &str) -> Result<String, Problem> {
    match section::string(node, key)?.trim() {
        "" => Err(node
            .problem("this filter is empty, and every packet passes it")
            .help("leave 'filter' out, or write it as for tcpdump: tcp port 80 and not host alice")),
        text => Ok(text.to_owned()),
    }
}

/// Checks filters and interfaces of properties against the experiment loaded from the file.
pub(super) fn check(file: &Section, experiment: &Experiment) -> Result<(), Problem> {
    let Some(Value::Sequence(items)) = file.get("properties").map(|node| &node.value) else { return Ok(()) };
    for (item, property) in items.iter().zip(&experiment.properties) {
        let Some(packets) = property.packets() else { continue };
        let nested = CLAIMS.iter().filter_map(|key| item.entry(key)?.value.entry("filter"));
        for entry in item.entry("filter").into_iter().chain(nested).filter(|entry| !entry.value.is_null()) {
            captures::check_filter(&entry.value, section::string(&entry.value, "filter")?, experiment)?;
        }
        let Some(entry) = item.entry("packets") else { continue };
        for name in packets.interfaces.iter().filter(|name| !name.contains('*')) {
            check_interface(entry, name, property, experiment)?;
        }
    }
    Ok(())
}

/// Refuses an interface that a named host lacks, or that no host has.
fn check_interface(
    entry: &Entry,
    name: &str,
    property: &Property,
    experiment: &Experiment,
) -> Result<(), Problem> {
    let has = |host: &&Host| host.interface_names().any(|known| known == name);
    let named: Option<Vec<&Host>> =
        property.hosts.as_ref().map(|ids| ids.iter().map(|id| &experiment.hosts[id.index()]).collect());
    let (message, hosts) = match named {
        Some(named) => match named.into_iter().find(|host| !has(host)) {
            Some(host) => (format!("host '{}' has no interface '{name}'", host.name), vec![host]),
            None => return Ok(()),
        },
        None if experiment.hosts.iter().any(|host| has(&host)) => return Ok(()),
        None => (format!("no host has an interface '{name}'"), experiment.hosts.iter().collect()),
    };
    let mut known: Vec<&str> = hosts.into_iter().flat_map(Host::interface_names).collect();
    known.sort_unstable();
    known.dedup();
    let help = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            format!("there are {}; one that programs make is selected by '*', as in wg*", known.join(", "))
        }
    };
    let node = match &entry.value.value {
        Value::Sequence(items) => {
            items.iter().find(|item| section::string(item, "packets").ok() == Some(name))
        }
        _ => None,
    };
    Err(node.map_or(&*entry.value, |node| &**node).problem(message).help(help))
}

/// A filter that packets are to pass.
pub(super) fn passes(node: &Node, of: &Section) -> Result<Condition, Problem> {
    if of.entry("packets").is_none() {
        return Err(node
            .problem("a filter is for packets, and there is no 'packets'")
            .help("name interfaces, as in packets: eth0, or write a regular expression"));
    }
    filter(node, "filter").map(Condition::Passes)
}
