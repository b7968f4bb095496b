//! Links of netlab: `r1-r2`, lists of nodes, mappings of nodes and attributes, groups of links.

use super::addresses;
use super::{Kind, Lab, find, unread};
use crate::error::Problem;
use crate::import::draft::{Cable, Member};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node, Value};
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Attributes of links that are read, or that have no effect on the network.
const READ: &[&str] = &[
    "interfaces",
    "type",
    "bandwidth",
    "mtu",
    "prefix",
    "name",
    "ospf.cost",
    "isis.cost",
    "isis.metric",
    "group",
    "members",
    "linkindex",
    "disable",
];

/// An end of a link: the node's name in the file, and the attributes of its interface.
struct End {
    node: String,
    attributes: Option<Rc<Node>>,
}

/// Adds a link, or the links of a group.
pub(super) fn add(lab: &mut Lab, link: &Rc<Node>) -> Result<(), Problem> {
    add_of(lab, link, &[])
}

fn add_of(lab: &mut Lab, link: &Rc<Node>, inherited: &[Entry]) -> Result<(), Problem> {
    let (ends, attributes) = parts(lab, link)?;
    for (line, key) in unread(&attributes, READ) {
        lab.draft.note_at(line, format!("'{key}' of links is not taken over"));
    }
    if let Some(members) = find(&attributes, "members") {
        let mut problems = crate::error::Problems::default();
        for member in section::list(&members, "members")? {
            problems.take(add_of(lab, member, &attributes));
        }
        return problems.check();
    }
    let line = link.span.line;
    let value = |key: &str| find(&attributes, key).or_else(|| find(inherited, key));
    if value("disable").is_some_and(|own| section::boolean(&own, "disable").unwrap_or(false)) {
        lab.draft.note_at(line, "this link is disabled");
        return Ok(());
    }
    for end in &ends {
        if !lab.nodes.contains_key(&end.node) {
            let problem = link.problem(format!("there is no node '{}'", end.node));
            return Err(problem.maybe_help(lab.advice.clone()));
        }
    }
    let kind = value("type").map(|own| section::string(&own, "type").map(str::to_owned)).transpose()?;
    if matches!(kind.as_deref(), Some("loopback" | "vlan_member" | "tunnel" | "lag")) {
        lab.draft.note_at(line, format!("a link of type '{}' is left out", kind.unwrap_or_default()));
        return Ok(());
    }
    let mut settings = Vec::new();
    if let Some(own) = value("bandwidth") {
        settings.push(("rate", format!("{} Kbit", section::whole(&own, "bandwidth", 1 << 40)?)));
    }
    if let Some(own) = value("ospf.cost").or_else(|| value("isis.cost")).or_else(|| value("isis.metric")) {
        settings.push(("cost", section::whole(&own, "cost", 65_535)?.to_string()));
    }
    let mtu = value("mtu").map(|own| section::whole(&own, "mtu", 65_535)).transpose()?;
    let of_kind = |kind: Kind| ends.iter().filter(|end| lab.nodes[&end.node].kind == kind).count();
    let bridges = of_kind(Kind::Switch);
    let is_p2p = match kind.as_deref() {
        Some(kind) => kind == "p2p",
        None => ends.len() == 2 && of_kind(Kind::Router) == 2,
    };
    let network = match value("prefix") {
        Some(own) if matches!(&own.value, Value::Scalar(scalar) if scalar.as_bool() == Some(false)) => None,
        Some(own) => addresses::of_link(&own)?,
        None => lab.pools.next(is_p2p),
    };
    if ends.len() == 1 {
        return stub(lab, line, &ends[0], network);
    }
    let mut written = Vec::new();
    for (n, end) in ends.iter().enumerate() {
        let address = network.filter(|_| bridges == 0);
        written.push(interface(lab, end, n as u32, is_p2p, address)?);
    }
    let cable = |first: &str, second: &str| Cable {
        mtu,
        settings: settings.clone(),
        ..Cable::between(first, second)
    };
    match &written[..] {
        [first, second] => lab.draft.cables.push(cable(first, second)),
        _ => {
            let number = (1..)
                .find(|number| !lab.draft.members.contains_key(&format!("lan-{number}")))
                .unwrap_or_default();
            let name = format!("lan-{number}");
            for (n, end) in written.iter().enumerate() {
                lab.draft.cables.push(cable(end, &format!("{name}:p{}", n + 1)));
            }
            lab.draft.members.insert(name, Member::new(Kind::Switch));
        }
    }
    Ok(())
}

/// A link with one end: the network gets a host, which represents its users.
fn stub(lab: &mut Lab, line: usize, end: &End, network: Option<(Ipv4Addr, u8)>) -> Result<(), Problem> {
    let own = interface(lab, end, 0, false, network)?;
    let router = lab.nodes[&end.node].name.clone();
    let number = (1..)
        .find(|number| !lab.draft.members.contains_key(&format!("h{number}-{router}")))
        .unwrap_or_default();
    let host = format!("h{number}-{router}");
    lab.draft.members.insert(host.clone(), Member::new(Kind::Host));
    lab.draft.cables.push(Cable::between(own, host.clone()));
    lab.draft.note_at(line, format!("this link has one end: host '{host}' is the other"));
    Ok(())
}

/// The name of the next interface of a node, with its address.
fn interface(
    lab: &mut Lab,
    end: &End,
    position: u32,
    is_p2p: bool,
    network: Option<(Ipv4Addr, u8)>,
) -> Result<String, Problem> {
    let device = lab.nodes.get_mut(&end.node).expect("it was looked up");
    device.interfaces += 1;
    let (name, number, kind) = (device.name.clone(), device.number, device.kind);
    let interface = format!("eth{}", device.interfaces);
    let attributes =
        end.attributes.as_ref().map(|own| mapping(own, "an interface")).transpose()?.unwrap_or_default();
    let given = find(attributes, "ipv4");
    for entry in
        attributes.iter().filter(|entry| !matches!(&*entry.key, "node" | "ipv4" | "ifname" | "ifindex"))
    {
        lab.draft.note_at(
            entry.key_span.line,
            format!("'{}' of '{name}' at this link is not taken over", entry.key),
        );
    }
    let at = |network: (Ipv4Addr, u8), host: u32| {
        let size = 1u64 << (32 - network.1);
        (u64::from(host) + 1 < size || network.1 == 31)
            .then(|| format!("{}/{}", Ipv4Addr::from_bits(network.0.to_bits() + host), network.1))
    };
    let address = match given {
        Some(node) => match &node.value {
            Value::Scalar(scalar) if scalar.as_bool().is_some() => None,
            Value::Scalar(scalar) => match (scalar.text.parse::<u32>(), network) {
                (Ok(host), Some(network)) => at(network, host),
                (Err(_), Some((_, length))) if scalar.text.parse::<Ipv4Addr>().is_ok() => {
                    Some(format!("{}/{length}", scalar.text))
                }
                _ => Some(section::string(&node, "ipv4")?.to_owned()),
            },
            _ => return Err(node.problem("'ipv4' is an address or the number of a host")),
        },
        None => network.and_then(|network| at(network, if is_p2p { position + 1 } else { number })),
    };
    if let Some(address) = address.filter(|_| kind != Kind::Switch) {
        let member = lab.draft.members.get_mut(&name).expect("each node is a member");
        member.addresses.insert(interface.clone(), vec![address]);
    }
    Ok(format!("{name}:{interface}"))
}

/// The ends and the attributes of a link in any of its forms.
fn parts(lab: &Lab, link: &Rc<Node>) -> Result<(Vec<End>, Vec<Entry>), Problem> {
    let plain = |node: &str| End { node: node.trim().to_owned(), attributes: None };
    match &link.value {
        Value::Scalar(scalar) => {
            let text = scalar.text.trim();
            if lab.nodes.contains_key(text) {
                return Ok((vec![plain(text)], Vec::new()));
            }
            // Names of nodes may have hyphens too.
            let split = text.match_indices('-').map(|(at, _)| (text[..at].trim(), text[at + 1..].trim()));
            let mut known =
                split.clone().filter(|(a, b)| lab.nodes.contains_key(*a) && lab.nodes.contains_key(*b));
            let (first, second) = known.next().or_else(|| split.clone().next()).ok_or_else(|| {
                link.problem(format!("'{text}' is not a link")).help("write node-node, or a list of nodes")
            })?;
            Ok((vec![plain(first), plain(second)], Vec::new()))
        }
        Value::Sequence(items) => {
            let names = items.iter().map(|item| Ok(plain(section::string(item, "a node")?)));
            Ok((names.collect::<Result<_, Problem>>()?, Vec::new()))
        }
        Value::Mapping(entries) => {
            let (mut ends, mut attributes) = (Vec::new(), Vec::new());
            for entry in entries {
                match lab.nodes.contains_key(&entry.key) {
                    true => {
                        let own = matches!(entry.value.value, Value::Mapping(_)).then(|| entry.value.clone());
                        ends.push(End { node: entry.key.clone(), attributes: own });
                    }
                    false => attributes.push(entry.clone()),
                }
            }
            if let Some(interfaces) = find(&attributes, "interfaces") {
                for item in section::list(&interfaces, "interfaces")? {
                    ends.push(match &item.value {
                        Value::Mapping(own) => {
                            let node = find(own, "node")
                                .ok_or_else(|| item.problem("this interface has no 'node'"))?;
                            End {
                                node: section::string(&node, "node")?.to_owned(),
                                attributes: Some(item.clone()),
                            }
                        }
                        _ => plain(section::string(item, "a node")?),
                    });
                }
            }
            if ends.is_empty() && find(&attributes, "members").is_none() {
                let named = entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>().join(", ");
                return Err(link.problem(format!("this link has no node: it has {named}")));
            }
            Ok((ends, attributes))
        }
    }
}
