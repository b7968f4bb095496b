//! Imports commands that hosts run at the start: the default route becomes a route of the host, static ARP
//! entries are set by `ip`, and other commands are passed to a shell unchanged.

use super::{Command, Host};
use crate::error::Span;
use belljar_net::InterfaceAddress;

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
    let parse = |text: &str| text.contains('/').then(|| text.parse::<InterfaceAddress>().ok()).flatten();
    match (parse(prefix), address(interface).and_then(parse)) {
        (Some(to), Some(own)) => to.len == own.len && to.ip == own.network().address(),
        _ => false,
    }
}

/// True if a route has no settings but the interface of the host.
fn is_device(words: &[&str]) -> bool {
    matches!(words, [] | ["dev", "eth0"])
}
