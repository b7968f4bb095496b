//! Imports commands that hosts run at the start: the default route becomes a route of the host, static ARP
//! entries are set by `ip`, and other commands are passed to a shell unchanged.

use super::{Command, Host};
use crate::error::Span;
use std::net::Ipv4Addr;

impl Host {
    /// Imports a command.
    pub(super) fn command(&mut self, at: Span, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match &words[..] {
            [] => {}
            ["route", "add", "default", "gw", gateway, rest @ ..]
                if is_device(rest) && self.gateway.is_none() =>
            {
                self.route(gateway);
            }
            ["ip", "route", "add", "default", "via", gateway, rest @ ..]
                if is_device(rest) && self.gateway.is_none() =>
            {
                self.route(gateway);
            }
            ["arp", "-i", interface, "-s", ip, mac] => self.neighbour(Some(at), interface, ip, mac),
            ["arp", "-s", ip, mac, "-i", interface] => self.neighbour(Some(at), interface, ip, mac),
            ["arp", "-s", ip, mac] => self.neighbour(Some(at), "eth0", ip, mac),
            _ => {
                let words = ["sh", "-c", command].map(str::to_owned).to_vec();
                self.commands.push(Command { at: Some(at), words });
            }
        }
    }

    fn route(&mut self, gateway: &str) {
        self.gateway = Some(gateway.to_owned());
    }

    /// Sets a static ARP entry.
    pub(super) fn neighbour(&mut self, at: Option<Span>, interface: &str, ip: &str, mac: &str) {
        let words = ["ip", "neigh", "replace", ip, "lladdr", mac, "dev", interface, "nud", "permanent"];
        self.commands.push(Command { at, words: words.map(str::to_owned).to_vec() });
    }
}

/// True for `ip route add PREFIX dev INTERFACE` of the network of the interface's address.
pub(super) fn is_connected_route<'a>(command: &str, address: impl Fn(&str) -> Option<&'a str>) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let ["ip", "route", "add", prefix, "dev", interface] = words[..] else { return false };
    let parse = |text: &str| -> Option<(u32, u32)> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok().filter(|length| *length <= 32)?;
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Some((u32::from(address.parse::<Ipv4Addr>().ok()?), mask))
    };
    match (parse(prefix), address(interface).and_then(parse)) {
        (Some((network, mask)), Some((own, own_mask))) => mask == own_mask && network == own & own_mask,
        _ => false,
    }
}

/// True if a route has no settings but the interface of the host.
fn is_device(words: &[&str]) -> bool {
    matches!(words, [] | ["dev", "eth0"])
}
