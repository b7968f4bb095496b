//! Converts the commands of nodes to settings of the experiment.
//!
//! A setting takes effect before the first command runs. A command is therefore converted only while every
//! command before it has been converted too, or has added something without an effect on settings. The
//! commands from the first other one on run on the host, in their order.

use super::commands::{self, Meaning, RouteCommand};
use super::draft::{At, CommandKind, Draft, Kind, Member, Route};
use super::settings;
use belljar_base::{Map, Set};
use belljar_net::InterfaceAddress;
use belljar_net::routes::Ip;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Outcome of the conversion of a command.
enum Outcome {
    /// The experiment has the setting.
    Converted,
    /// The command is to be run; later ones may still be converted.
    Independent,
    /// The command is to be run, and so are later ones.
    Runs,
}

impl Draft {
    /// Converts the commands of all nodes.
    pub(super) fn translate(&mut self) {
        for member in self.members.values_mut() {
            let own = std::mem::take(&mut member.commands);
            member.commands = std::mem::take(&mut member.link_commands);
            member.commands.extend(own);
        }
        let names: Vec<String> = self.members.keys().cloned().collect();
        self.find_routers(&names);
        self.find_ipv6(&names);
        // Addresses that occur twice, as of virtual routers, are set by commands: the experiment has each once.
        let mut taken = Set::new();
        for name in &names {
            let interfaces = self.interfaces(name);
            // Two interfaces in one network cannot both be assigned an address of it.
            let is_double = self.is_doubly_linked(name);
            let Some(member) = self.members.get_mut(name) else { continue };
            if member.kind == Kind::Switch {
                member.script = std::mem::take(&mut member.commands);
                continue;
            }
            member.is_configured = is_double || member.commands.iter().any(commands::configures);
            let mut notes = Vec::new();
            translate(member, &interfaces, &mut taken, &mut notes);
            for (at, text) in notes {
                self.note_in(at, text);
            }
        }
    }

    /// Makes routers of the hosts that start a routing daemon.
    fn find_routers(&mut self, names: &[String]) {
        for name in names {
            let Some(member) = self.members.get_mut(name).filter(|member| member.kind == Kind::Host) else {
                continue;
            };
            let daemon = member.commands.iter().find_map(|command| match commands::meaning(command) {
                Meaning::Daemon(daemon) => Some((command.at.clone(), daemon)),
                _ => None,
            });
            if let Some((at, daemon)) = daemon {
                member.kind = Kind::Router;
                let text =
                    format!("'{name}' does not run '{daemon}': it is a router with routes of shortest paths");
                self.note_in(at, text);
            }
        }
    }

    /// Decides on IPv6 where the topology leaves it open: all nodes have it if one uses it.
    fn find_ipv6(&mut self, names: &[String]) {
        let open = |member: &&Member| member.ipv6.is_none() && member.kind != Kind::Switch;
        let mut all = self.members.values().filter(open).flat_map(|member| &member.commands);
        if all.any(commands::uses_ipv6) {
            for name in names {
                if let Some(member) = self.members.get_mut(name) {
                    member.ipv6.get_or_insert(true);
                }
            }
        }
        if self.members.values().any(|member| member.ipv6 == Some(true)) {
            self.note("IPv6 is on: an interface with an IPv4 address only is assigned one of IPv6 too");
        }
    }
}

/// Converts the commands of a node.
fn translate(
    member: &mut Member,
    interfaces: &Set<String>,
    taken: &mut Set<IpAddr>,
    notes: &mut Vec<(At, String)>,
) {
    let mut runs = false;
    for command in std::mem::take(&mut member.commands) {
        let is_host = member.kind == Kind::Host;
        let outcome = match (runs && is_host, commands::meaning(&command)) {
            (true, _) => Outcome::Runs,
            (false, Meaning::Blank) => Outcome::Converted,
            // The note on the router names it.
            (false, Meaning::Daemon(_)) if member.kind == Kind::Router => Outcome::Converted,
            (false, Meaning::NoDefaultRoute) => no_default_route(member, &command.at, notes, command.kind),
            (false, meaning) => convert(member, interfaces, taken, command.at.line, meaning),
        };
        match outcome {
            Outcome::Converted => {}
            Outcome::Independent => member.script.push(command),
            Outcome::Runs => {
                runs = true;
                member.script.push(command);
            }
        }
    }
}

/// Containerlab's nodes have a default route into the management network, which labs remove.
fn no_default_route(member: &Member, at: &At, notes: &mut Vec<(At, String)>, kind: CommandKind) -> Outcome {
    if kind != CommandKind::Program || member.routes.iter().any(|route| route.to == "default") {
        return Outcome::Runs;
    }
    notes.push((at.clone(), "there is no default route of a management network to delete".to_owned()));
    Outcome::Converted
}

fn convert(
    member: &mut Member,
    interfaces: &Set<String>,
    taken: &mut Set<IpAddr>,
    line: usize,
    meaning: Meaning,
) -> Outcome {
    let converted = |done: bool| if done { Outcome::Converted } else { Outcome::Independent };
    match meaning {
        Meaning::Address { dev, address } if interfaces.contains(&dev) => {
            converted(add_address(member, taken, &dev, &address))
        }
        Meaning::Route(route) if route.dev.as_ref().is_none_or(|dev| interfaces.contains(dev)) => {
            // A route that is there already may be meant to be replaced.
            let is_new = !member.routes.iter().any(|other| other.to == route.to);
            match is_new {
                true => converted(add_route(member, route)),
                false => Outcome::Runs,
            }
        }
        Meaning::Route(route) if route.replaces => Outcome::Runs,
        Meaning::Up(dev) => converted(dev == "lo" || interfaces.contains(&dev)),
        Meaning::Change(dev) if interfaces.contains(&dev) => Outcome::Runs,
        Meaning::Sysctl(set) if member.kind == Kind::Router => converted(set.iter().all(is_forwarding)),
        Meaning::Sysctl(set) => converted(set_all(member, line, &set)),
        Meaning::Address { .. } | Meaning::Route(_) | Meaning::Change(_) | Meaning::Addition => {
            Outcome::Independent
        }
        Meaning::Blank | Meaning::NoDefaultRoute | Meaning::Daemon(_) | Meaning::Other => Outcome::Runs,
    }
}

/// True for a setting by which a router forwards packets, as it does anyway.
fn is_forwarding((name, value): &(String, String)) -> bool {
    value == "1" && (name == "net.ipv4.ip_forward" || name.ends_with(".forwarding"))
}

/// Imports settings, all of them or none. Returns true if they were imported.
fn set_all(member: &mut Member, line: usize, set: &[(String, String)]) -> bool {
    let mut trial = Member::new(member.kind);
    if !set.iter().all(|(name, value)| settings::sysctl(&mut trial, line, name, value)) {
        return false;
    }
    member.forwarding = trial.forwarding.or(member.forwarding);
    member.sysctls.extend(trial.sysctls);
    true
}

/// Adds an address, if an experiment can have it. Returns true if it was added.
fn add_address(member: &mut Member, taken: &mut Set<IpAddr>, dev: &str, address: &str) -> bool {
    let usable = match address.contains(':') {
        true => member.ipv6 == Some(true) && usable6(address),
        false => usable(member, dev, address),
    };
    let Ok(ip) = address.split('/').next().unwrap_or_default().parse::<IpAddr>() else { return false };
    if !usable || !taken.insert(ip) {
        return false;
    }
    let address = if address.contains('/') { address.to_owned() } else { format!("{address}/32") };
    member.addresses.entry(dev.to_owned()).or_default().push(address);
    true
}

fn usable(member: &Member, dev: &str, address: &str) -> bool {
    let Ok(own) = address.parse::<InterfaceAddress>() else { return false };
    let network = own.network();
    let is_network = own.len <= 30 && (own.ip == network.address() || Some(own.ip) == network.broadcast());
    let others = networks::<Ipv4Addr>(&member.addresses);
    let is_double = others.iter().any(|(other, own)| other != dev && own.network() == network);
    own.len > 0 && !is_network && !is_double && belljar_net::addresses::check_usable("", own.ip).is_ok()
}

fn usable6(address: &str) -> bool {
    let own = address.parse::<InterfaceAddress<Ipv6Addr>>();
    // Link-local addresses are the interface's own.
    own.is_ok_and(|own| {
        address.contains('/')
            && own.len > 0
            && !own.ip.is_unicast_link_local()
            && belljar_net::addresses::unusable_kind6(own.ip).is_none()
    })
}

/// The addresses of a family, with their interfaces.
fn networks<A: Ip>(addresses: &Map<String, Vec<String>>) -> Vec<(String, InterfaceAddress<A>)> {
    let all = addresses.iter().flat_map(|(dev, own)| own.iter().map(move |own| (dev, own)));
    all.filter_map(|(dev, own)| Some((dev.clone(), own.parse().ok()?))).collect()
}

/// Adds a route, if an experiment can have it. Returns true if it was added.
fn add_route(member: &mut Member, route: RouteCommand) -> bool {
    let RouteCommand { to, via, dev, metric, .. } = route;
    let is_v6 = to.contains(':') || via.is_some_and(|via| via.is_ipv6());
    let network = match (&*to, is_v6) {
        ("default", _) => Some("default".to_owned()),
        (to, false) => network::<Ipv4Addr>(to),
        (to, true) => network::<Ipv6Addr>(to).filter(|_| member.ipv6 == Some(true)),
    };
    let on = |own: &str| dev.as_deref().is_none_or(|dev| dev == own);
    let is_near = match via {
        Some(IpAddr::V4(via)) => {
            !is_v6
                && networks::<Ipv4Addr>(&member.addresses)
                    .iter()
                    .any(|(dev, own)| on(dev) && own.network().contains(via) && own.ip != via)
        }
        Some(IpAddr::V6(via)) => networks::<Ipv6Addr>(&member.addresses)
            .iter()
            .any(|(dev, own)| on(dev) && own.network().contains(via) && own.ip != via),
        None => dev.is_some() && !is_v6,
    };
    let Some(to) = network.filter(|_| is_near) else { return false };
    // With a router the interface follows from its address.
    let dev = dev.filter(|_| via.is_none());
    member.routes.push(Route { to, via, dev, metric });
    true
}

/// A network without host bits.
fn network<A: Ip>(text: &str) -> Option<String> {
    let own = text.parse::<InterfaceAddress<A>>().ok()?;
    (own.network().address() == own.ip).then(|| own.to_string())
}
