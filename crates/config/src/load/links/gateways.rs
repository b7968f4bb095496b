//! Section `gateways`: ends of links that are interfaces of this machine.

use super::{Station, values};
use crate::error::Problem;
use crate::topology::{Gateway, Interface};
use crate::yaml::Node;
use crate::yaml::section;
use belljar_base::SimDuration;

pub(super) const KEYS: &[&str] = &["interface", "address", "namespace", "hard_limit"];
/// Length limit of Linux's interface names (IFNAMSIZ).
const LONGEST_NAME: usize = 15;

/// Loads a gateway.
pub(super) fn read(station: &Station, interfaces: &[Interface]) -> Result<Gateway, Problem> {
    let name = &station.name;
    let Some(s) = &station.section else {
        return Err(Problem::at(station.span, format!("nothing is said of gateway '{name}'"))
            .help("write which interface of this machine it is, interface: eth0"));
    };
    match interfaces {
        [] => {
            return Err(Problem::at(station.span, format!("gateway '{name}' is at the end of no link"))
                .relational()
                .help(format!("add it to one: links: [ {{ between: [alice, {name}] }} ]")));
        }
        [_] => {}
        _ => {
            return Err(Problem::at(
                station.span,
                format!("gateway '{name}' is at the end of {} links, and is one interface", interfaces.len()),
            )
            .help("link it to a switch, and the others to that"));
        }
    }
    let node = s.required("interface", "interface: eth0")?;
    let interface = interface(node)?;
    let address = s.read("address", |node, _| values::interface_address(node))?;
    if let (Some(node), None) = (s.get("address"), interface.strip_prefix("tap:")) {
        return Err(node
            .problem("'address' is for a TAP interface, which the run makes; this one exists already")
            .help("give it the address by 'ip address add', or write interface: tap:NAME"));
    }
    let hard_limit = s.read("hard_limit", section::duration)?;
    if hard_limit == Some(SimDuration::ZERO) {
        let node = s.get("hard_limit").map_or(s.span, |node| node.span);
        return Err(Problem::at(node, "'hard_limit' must not be 0: no frame leaves at its very picosecond"));
    }
    let namespace = s.read("namespace", |n, k| section::string(n, k).map(str::to_owned))?;
    Ok(Gateway { interface, address, namespace, hard_limit })
}

fn interface(node: &Node) -> Result<String, Problem> {
    const HELP: &str = "write the name of an interface (eth0), tap:NAME, or unix:PATH for a socket of frames";
    let text = section::string(node, "interface")?;
    let name = match text.split_once(':') {
        Some(("unix", path)) => {
            return match path.is_empty() {
                true => Err(node.problem("'unix:' is followed by no path").help(HELP)),
                false => Ok(text.to_owned()),
            };
        }
        Some(("tap", name)) => name,
        _ => text,
    };
    let bad = |c: char| c.is_whitespace() || c.is_control() || "/:".contains(c);
    if !(1..=LONGEST_NAME).contains(&name.len()) || name.contains(bad) || matches!(name, "." | "..") {
        return Err(node.problem(format!("'{name}' cannot be an interface of this machine")).help(HELP));
    }
    Ok(text.to_owned())
}
