//! Management interface of a P4 switch.

use super::{Station, values};
use crate::error::Problem;
use crate::topology::{Interface, ManagementAddress, P4Management, Routing};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::Map;
use belljar_net::suggest::nearest;

const KEYS: &[&str] = &["interface", "address", "port", "thrift_port", "device_id", "control_latency"];
/// Default name of the interface.
const INTERFACE: &str = "mgmt";
/// The port that IANA has assigned to P4Runtime.
const PORT: u16 = 9_559;
/// BMv2's Thrift port.
const THRIFT_PORT: u16 = 9_090;

/// Device names by P4Runtime device id.
#[derive(Default)]
pub(super) struct DeviceIds(Map<u64, String>);

/// The interface and the address in `management`, if the section exists.
pub(super) fn address(s: &Section) -> Result<Option<ManagementAddress>, Problem> {
    let Some(entry) = s.entry("management") else { return Ok(None) };
    if entry.value.is_null() {
        return Ok(Some(ManagementAddress { interface: INTERFACE.to_owned(), address: None }));
    }
    let s = Section::new(&entry.value, "'management'", KEYS, false)?;
    let interface = s.read("interface", section::string)?.unwrap_or(INTERFACE).to_owned();
    let address = s.read("address", |node, _| values::interface_address(node))?;
    Ok(Some(ManagementAddress { interface, address }))
}

impl DeviceIds {
    /// The settings in a switch's `management`.
    pub(super) fn management(
        &mut self,
        s: &Section,
        station: &Station,
        interfaces: &[Interface],
    ) -> Result<Option<P4Management>, Problem> {
        let (Some(own), Some(entry)) = (&station.management, s.entry("management")) else { return Ok(None) };
        let (name, wanted) = (&station.name, &own.interface);
        let Some(interface) = interfaces.iter().position(|interface| interface.name == *wanted) else {
            let known = interfaces.iter().map(|interface| interface.name.as_str());
            let add = format!("add a link: {{ between: [controller, {name}:{wanted}] }}");
            let help =
                nearest(wanted, known).map_or(add, |near| format!("did you mean 'interface: {near}'?"));
            let message = format!("no link ends at the management interface '{name}:{wanted}'");
            return Err(Problem::at(entry.key_span, message).help(help));
        };
        let s = match entry.value.is_null() {
            true => None,
            false => Some(Section::new(&entry.value, "'management'", KEYS, false)?),
        };
        let get = |key: &str| s.as_ref().and_then(|s| s.get(key));
        let device_id = match get("device_id") {
            Some(node) => section::whole(node, "device_id", u64::MAX)?,
            None => number_of(name),
        };
        if let Some(other) = self.0.insert(device_id, name.clone()) {
            let span = get("device_id").map_or(entry.key_span, |node| node.span);
            let message = format!("switches '{other}' and '{name}' both have the device id {device_id}");
            return Err(Problem::at(span, message).help(
                "give each another device_id; unless given it is the number at the end of the switch's name",
            ));
        }
        let latency =
            get("control_latency").map(|node| section::duration(node, "control_latency")).transpose()?;
        let ports = get("port").map(ports).transpose()?.unwrap_or_else(|| vec![PORT]);
        let thrift_port =
            get("thrift_port").map(|node| port(node, "thrift_port", "BMv2's port is 9090")).transpose()?;
        let thrift_port = thrift_port.unwrap_or(THRIFT_PORT);
        if ports.contains(&thrift_port) {
            let span = get("thrift_port").or(get("port")).map_or(entry.key_span, |node| node.span);
            let message = format!("P4Runtime and Thrift cannot both have the port {thrift_port}");
            return Err(Problem::at(span, message).help("give 'thrift_port' another number, such as 9091"));
        }
        Ok(Some(P4Management {
            interface,
            ports,
            thrift_port,
            device_id,
            control_latency: latency.unwrap_or_default(),
            routing: Routing { computed: true, ..Routing::default() },
        }))
    }
}

/// The number at the end of a name, 0 if there is none.
fn number_of(name: &str) -> u64 {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[stem.len()..].parse().unwrap_or(0)
}

/// A TCP port.
fn port(node: &Node, key: &str, usual: &str) -> Result<u16, Problem> {
    match section::whole(node, key, u64::from(u16::MAX))? {
        0 => Err(node.problem("no server can listen on port 0").help(usual)),
        port => Ok(port as u16),
    }
}

/// A TCP port of P4Runtime, or a list of them.
fn ports(node: &Node) -> Result<Vec<u16>, Problem> {
    let one = |node: &Node| port(node, "port", "P4Runtime's port is 9559");
    let mut ports = match &node.value {
        Value::Sequence(items) => items.iter().map(|item| one(item)).collect::<Result<Vec<_>, _>>()?,
        _ => vec![one(node)?],
    };
    ports.sort_unstable();
    ports.dedup();
    match ports.is_empty() {
        true => Err(node.problem("'port' is an empty list").help("P4Runtime's port is 9559")),
        false => Ok(ports),
    }
}
