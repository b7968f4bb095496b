//! Imports commands that configure a machine's network at its start: `ip`, `ifconfig`, `route`, `sysctl`.

use super::{Kind, Member, interface_name};
use belljar_linux_abi::interface_settings::{by_name, table};
use belljar_linux_abi::sysctl::{Values, values};
use belljar_net::InterfaceAddress;
use std::net::Ipv4Addr;

/// Names of routing daemons and their services.
const DAEMONS: [&str; 7] = ["frr", "zebra", "quagga", "bird", "bird2", "ospfd", "bgpd"];

/// Applies a command to a node; false if it is not a network command.
pub(super) fn apply(member: &mut Member, command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match &words[..] {
        [] => true,
        [first, ..] if first.starts_with('#') => true,
        ["ip", "addr" | "address" | "a", "add", rest @ ..] => ip_address(member, rest).is_some(),
        ["ip", "route" | "r", "add", to, "via", via, ..] => route(member, to, via).is_some(),
        ["ip", "link", "set", rest @ ..] => rest.contains(&"up"),
        ["ifconfig", interface, address, rest @ ..] => ifconfig(member, interface, address, rest).is_some(),
        ["route", "add", "default", "gw", via, ..] => route(member, "default", via).is_some(),
        ["route", "add", "-net", to, "gw", via, ..] => route(member, to, via).is_some(),
        ["sysctl", rest @ ..] => {
            let set: Vec<(&str, &str)> = rest.iter().filter_map(|word| word.split_once('=')).collect();
            !set.is_empty() && set.iter().all(|(name, value)| sysctl(member, name, value))
        }
        words if words.iter().any(|word| is_daemon(word)) => {
            // Computed shortest paths replace the daemon's routes.
            member.kind = Kind::Router;
            member.routes.clear();
            true
        }
        _ => false,
    }
}

/// Imports a kernel setting; false if it has no effect in the simulator.
pub(super) fn sysctl(member: &mut Member, name: &str, value: &str) -> bool {
    let name = name.replace('/', ".");
    let value = value.trim().trim_matches(['"', '\'']);
    if matches!(
        &*name,
        "net.ipv4.ip_forward" | "net.ipv4.conf.all.forwarding" | "net.ipv6.conf.all.forwarding"
    ) {
        // A machine with only IPv6 forwarding disabled still forwards IPv4.
        if value != "0" || name.starts_with("net.ipv4.") {
            member.forwarding = Some(value != "0");
        }
        return true;
    }
    // Settings without effect are reported instead.
    let works = by_name(&name).is_none_or(|named| table(named.v6)[named.setting].works);
    let Some(values) = values(&name).filter(|values| works && values.take(value)) else { return false };
    let text = match values {
        Values::Sizes => format!("\"{}\"", value.split_whitespace().collect::<Vec<_>>().join(" ")),
        _ => value.to_owned(),
    };
    member.sysctls.insert(name, text);
    true
}

fn is_daemon(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    DAEMONS.contains(&name.trim_end_matches(".service"))
}

fn ip_address(member: &mut Member, rest: &[&str]) -> Option<()> {
    let address = rest.first()?;
    let device = rest.iter().position(|word| *word == "dev")?;
    add_address(member, rest.get(device + 1)?, address)
}

fn ifconfig(member: &mut Member, interface: &str, address: &str, rest: &[&str]) -> Option<()> {
    if address == "up" {
        return Some(());
    }
    if address.contains('/') {
        return add_address(member, interface, address);
    }
    let mask = rest.iter().position(|word| *word == "netmask")?;
    let mask = u32::from(rest.get(mask + 1)?.parse::<Ipv4Addr>().ok()?);
    add_address(member, interface, &format!("{address}/{}", mask.leading_ones()))
}

fn add_address(member: &mut Member, interface: &str, address: &str) -> Option<()> {
    let own: InterfaceAddress = address.parse().ok()?;
    if interface != "lo" {
        member.addresses.entry(interface_name(interface)).or_default().push(own.to_string());
    }
    Some(())
}

fn route(member: &mut Member, to: &str, via: &str) -> Option<()> {
    let via: Ipv4Addr = via.parse().ok()?;
    let to = match to {
        "default" => "default".to_owned(),
        to => to.parse::<InterfaceAddress>().ok()?.network().to_string(),
    };
    if member.kind != Kind::Router {
        member.routes.push((to, via.to_string()));
    }
    Some(())
}
