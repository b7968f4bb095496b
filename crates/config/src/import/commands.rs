//! Recognises commands that configure a machine's network at its start: `ip`, `ifconfig`, `route`, `sysctl`.

use super::draft::{Command, CommandKind};
use std::net::{IpAddr, Ipv4Addr};

/// Routing daemons, their services and their start scripts.
const DAEMONS: [&str; 13] = [
    "frr",
    "quagga",
    "bird",
    "bird2",
    "bird6",
    "zebra",
    "ospfd",
    "ospf6d",
    "bgpd",
    "ripd",
    "isisd",
    "frrinit.sh",
    "watchfrr.sh",
];
/// Words of commands that configure interfaces, in whatever shell construct they stand.
const CONFIGURING: [&str; 9] =
    ["ip", "ifconfig", "route", "dhclient", "udhcpc", "dhcpcd", "ifup", "netplan", "brctl"];
/// Characters that have a meaning for a shell.
const SHELL: &str = ";&|<>$`(){}*?[]~!";

/// Meaning of a command for the network of its machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// No command.
    Blank,
    Address {
        dev: String,
        address: String,
    },
    Route(RouteCommand),
    /// `ip route del default`.
    NoDefaultRoute,
    Up(String),
    /// Another change of an interface.
    Change(String),
    Sysctl(Vec<(String, String)>),
    /// Start of a routing daemon.
    Daemon(String),
    /// Adds something without an effect on other settings.
    Addition,
    Other,
}

/// `ip route add` or `route add`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RouteCommand {
    /// A network, or `default`.
    pub(super) to: String,
    pub(super) via: Option<IpAddr>,
    pub(super) dev: Option<String>,
    pub(super) metric: Option<u32>,
    /// True if the route may replace another one.
    pub(super) replaces: bool,
}

/// True if a command may configure interfaces.
pub(super) fn configures(command: &Command) -> bool {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.';
    !command.is_blank() && command.text.split(is_separator).any(|word| CONFIGURING.contains(&word))
}

/// True if a command uses IPv6.
pub(super) fn uses_ipv6(command: &Command) -> bool {
    let is_option = |word: &str| matches!(word, "-6" | "inet6" | "-inet6" | "ping6" | "traceroute6");
    let mut words = command.text.split(|c: char| c.is_whitespace() || "\"'=[]".contains(c));
    let is_address = |word: &str| {
        let own = word.split(['/', '%']).next().unwrap_or_default();
        own.parse::<std::net::Ipv6Addr>().is_ok_and(|own| !own.is_loopback() && !own.is_unspecified())
    };
    !command.is_blank() && words.any(|word| is_option(word) || is_address(word))
}

/// The meaning of a command.
pub(super) fn meaning(command: &Command) -> Meaning {
    let text = command.text.trim();
    if command.is_blank() {
        return Meaning::Blank;
    }
    if command.kind != CommandKind::Program && text.contains(|c| SHELL.contains(c)) {
        return setting_by_echo(text).unwrap_or(Meaning::Other);
    }
    let Ok(words) = shell_words::split(text) else { return Meaning::Other };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(daemon) = daemon(&words) {
        return Meaning::Daemon(daemon.to_owned());
    }
    match &words[..] {
        [] => Meaning::Blank,
        [":" | "true" | "echo" | "mkdir" | "touch" | "chmod" | "chown" | "cp", ..] => Meaning::Addition,
        ["ip", rest @ ..] => ip(rest),
        ["ifconfig", rest @ ..] => ifconfig(rest).unwrap_or(Meaning::Other),
        ["route", "add", rest @ ..] => route(rest).unwrap_or(Meaning::Other),
        ["sysctl", rest @ ..] => {
            let rest = rest.iter().filter(|word| !matches!(**word, "-w" | "-q"));
            let set: Option<Vec<_>> = rest.map(|word| word.split_once('=')).collect();
            let owned = |(name, value): (&str, &str)| (name.trim().to_owned(), value.trim().to_owned());
            match set {
                Some(set) if !set.is_empty() => Meaning::Sysctl(set.into_iter().map(owned).collect()),
                _ => Meaning::Other,
            }
        }
        _ => Meaning::Other,
    }
}

/// `echo 1 > /proc/sys/net/ipv4/ip_forward`.
fn setting_by_echo(text: &str) -> Option<Meaning> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["echo", value, ">", path] = words[..] else { return None };
    let name = path.strip_prefix("/proc/sys/")?;
    let is_plain = |text: &str| !text.contains(|c| SHELL.contains(c));
    let value = value.trim_matches(['"', '\'']);
    (is_plain(value) && is_plain(name))
        .then(|| Meaning::Sysctl(vec![(name.replace('/', "."), value.to_owned())]))
}

/// The routing daemon that a command starts.
fn daemon<'a>(words: &[&'a str]) -> Option<&'a str> {
    let name = |word: &'a str| word.rsplit('/').next().unwrap_or(word).trim_end_matches(".service");
    let is_start = |word: &str| matches!(word, "start" | "restart" | "reload" | "force-reload");
    let starts = |rest: &[&str]| rest.iter().any(|word| is_start(word));
    match words {
        ["systemctl" | "service" | "rc-service", rest @ ..] if starts(rest) => {
            rest.iter().map(|word| name(word)).find(|word| DAEMONS.contains(word))
        }
        [first, rest @ ..] => {
            let own = Some(name(first)).filter(|own| DAEMONS.contains(own));
            let is_script = first.contains("/init.d/") || own.is_some_and(|own| own.ends_with(".sh"));
            own.filter(|_| !is_script || starts(rest))
        }
        [] => None,
    }
}

fn ip(words: &[&str]) -> Meaning {
    let (is_v6, words) = match words {
        ["-4", rest @ ..] => (false, rest),
        ["-6", rest @ ..] => (true, rest),
        _ => (false, words),
    };
    match words {
        ["addr" | "address" | "a" | "ad", "add" | "a", rest @ ..] => {
            ip_address(rest).unwrap_or(Meaning::Addition)
        }
        ["route" | "r" | "ro", verb @ ("add" | "a" | "replace"), rest @ ..] => {
            match ip_route(rest, *verb == "replace") {
                // A default route of IPv6 is one only with its router.
                Some(route) if !is_v6 || route.via.is_some() => Meaning::Route(route),
                _ => Meaning::Addition,
            }
        }
        ["route" | "r" | "ro", "del" | "delete", "default", ..] if !is_v6 => Meaning::NoDefaultRoute,
        ["link" | "l" | "li", "set", rest @ ..] => {
            let rest = rest.strip_prefix(&["dev"]).unwrap_or(rest);
            match rest {
                [dev, "up"] | ["up", dev] => Meaning::Up((*dev).to_owned()),
                [dev, ..] => Meaning::Change((*dev).to_owned()),
                [] => Meaning::Other,
            }
        }
        ["link" | "l" | "li", "add" | "a", ..] => Meaning::Addition,
        ["neigh" | "neighbour" | "neighbor" | "n", "add" | "replace", ..] => Meaning::Addition,
        _ => Meaning::Other,
    }
}

/// An address with nothing but its interface, and the broadcast address that it has anyway.
fn ip_address(words: &[&str]) -> Option<Meaning> {
    let (mut address, mut dev) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "dev" => dev = Some(words.next()?),
            "brd" | "broadcast" => {
                words.next().filter(|value| **value == "+")?;
            }
            "local" => address = Some(words.next()?),
            _ if address.is_none() => address = Some(word),
            _ => return None,
        }
    }
    Some(Meaning::Address { dev: (*dev?).to_owned(), address: (*address?).to_owned() })
}

fn ip_route(words: &[&str], replaces: bool) -> Option<RouteCommand> {
    let mut route = RouteCommand { to: String::new(), via: None, dev: None, metric: None, replaces };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "via" => route.via = Some(words.next()?.parse().ok()?),
            "dev" => route.dev = Some((*words.next()?).to_owned()),
            "metric" => route.metric = Some(words.next()?.parse().ok()?),
            "to" => {}
            _ if route.to.is_empty() => route.to = (*word).to_owned(),
            _ => return None,
        }
    }
    if matches!(&*route.to, "0.0.0.0/0" | "::/0") {
        "default".clone_into(&mut route.to);
    }
    (!route.to.is_empty()).then_some(route)
}

/// `ifconfig eth0 10.0.0.1 netmask 255.255.255.0 up`, or `ifconfig eth0 up`.
fn ifconfig(words: &[&str]) -> Option<Meaning> {
    let [dev, rest @ ..] = words else { return None };
    let rest = rest.strip_prefix(&["inet"]).unwrap_or(rest);
    let (address, rest) = match rest {
        ["up"] => return Some(Meaning::Up((*dev).to_owned())),
        [address, rest @ ..] => (*address, rest),
        [] => return None,
    };
    let ip: Ipv4Addr = address.split('/').next()?.parse().ok()?;
    let mut bits = address.split_once('/').map(|(_, bits)| bits.parse::<u32>()).transpose().ok()?;
    let mut broadcast = None;
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "up" => {}
            "netmask" => bits = Some(mask_bits(rest.next()?)?),
            "broadcast" => broadcast = Some(rest.next()?.parse::<Ipv4Addr>().ok()?),
            _ => return None,
        }
    }
    let bits = bits.filter(|bits| *bits <= 32)?;
    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
    if broadcast.is_some_and(|given| u32::from(given) != u32::from(ip) | hosts) {
        return None;
    }
    Some(Meaning::Address { dev: (*dev).to_owned(), address: format!("{ip}/{bits}") })
}

/// Length of a contiguous mask such as 255.255.255.0.
fn mask_bits(text: &str) -> Option<u32> {
    let mask = u32::from(text.parse::<Ipv4Addr>().ok()?);
    (mask.leading_ones() + mask.trailing_zeros().min(32) >= 32).then(|| mask.leading_ones())
}

/// `default gw 10.0.0.1`, `-net 10.1.0.0/16 gw 10.0.0.1`, `-host 10.1.0.1 gw 10.0.0.1`.
fn route(words: &[&str]) -> Option<Meaning> {
    let (to, rest, is_host) = match words {
        ["-net", to, rest @ ..] => (*to, rest, false),
        ["-host", to, rest @ ..] => (*to, rest, true),
        ["default", rest @ ..] => ("default", rest, false),
        _ => return None,
    };
    let mut route = RouteCommand { to: String::new(), via: None, dev: None, metric: None, replaces: false };
    let mut mask = None;
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "gw" => route.via = Some(rest.next()?.parse().ok()?),
            "netmask" => mask = Some(mask_bits(rest.next()?)?),
            "metric" => route.metric = Some(rest.next()?.parse().ok()?),
            "dev" => route.dev = Some((*rest.next()?).to_owned()),
            dev if route.dev.is_none() && route.via.is_some() => route.dev = Some(dev.to_owned()),
            _ => return None,
        }
    }
    route.to = match (to, mask) {
        ("default" | "0.0.0.0/0", None) | ("0.0.0.0", Some(0)) => "default".to_owned(),
        (to, None) if is_host || to.contains('/') => to.to_owned(),
        (to, Some(bits)) if !is_host && !to.contains('/') => format!("{to}/{bits}"),
        // The network's class gives the length of its mask.
        _ => return None,
    };
    Some(Meaning::Route(route))
}
