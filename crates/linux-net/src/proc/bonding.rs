//! Text of the files in `/proc/net/bonding` (`bond_procfs.c` of Linux).

use belljar_linux_abi::kernel_config::RELEASE;
use belljar_netstack::devices::bond;
use belljar_netstack::devices::bond_state::{BondLink, BondMode, HashPolicy, Reselect};
use belljar_netstack::{Stack, link};
use belljar_wire::ethernet::Address;
use std::fmt::Write;

/// Names of the bonds.
pub fn bond_names(net: &Stack) -> Vec<String> {
    let bonds = net.devices.iter().flat_map(|devices| devices.bonds.keys());
    bonds.map(|number| net.interfaces[*number].name.to_string()).collect()
}

/// Number of the bond with a name.
pub fn bond_named(net: &Stack, name: &[u8]) -> Option<usize> {
    net.interfaces.by_name(name).filter(|number| bond::bond(net, *number).is_some())
}

/// `/proc/net/bonding/<bond>`; empty if the bond does not exist.
pub fn proc_net_bonding(net: &Stack, number: usize) -> String {
    let Some(bond) = bond::bond(net, number) else { return String::new() };
    let own = &bond.settings;
    let name_of =
        |port: Option<usize>| port.map_or("None".into(), |port| net.interfaces[port].name.to_string());
    let mut out =
        format!("Ethernet Channel Bonding Driver: v{RELEASE}\n\nBonding Mode: {}\n", own.mode.title());
    if own.mode == BondMode::Xor {
        let name = match own.hash_policy {
            HashPolicy::Layer2 => "layer2",
            HashPolicy::Layer34 => "layer3+4",
            HashPolicy::Layer23 => "layer2+3",
        };
        let _ = writeln!(out, "Transmit Hash Policy: {name} ({})", own.hash_policy as u8);
    }
    if own.mode == BondMode::ActiveBackup {
        let reselect = match own.reselect {
            Reselect::Always => "always",
            Reselect::Better => "better",
            Reselect::Failure => "failure",
        };
        let when = own.primary.map_or(String::new(), |_| format!(" (primary_reselect {reselect})"));
        let _ = writeln!(out, "Primary Slave: {}{when}", name_of(own.primary));
        let _ = writeln!(out, "Currently Active Slave: {}", name_of(bond.active));
    }
    let up = if net.interfaces[number].has_lower_up() { "up" } else { "down" };
    let _ = writeln!(
        out,
        "MII Status: {up}\nMII Polling Interval (ms): {}\nUp Delay (ms): {}\nDown Delay (ms): {}\nPeer Notification Delay (ms): 0",
        own.miimon,
        own.updelay_ms(),
        own.downdelay_ms()
    );
    for port in &bond.ports {
        let interface = &net.interfaces[port.interface];
        let state = match port.link {
            BondLink::Up => "up",
            BondLink::Fail => "going down",
            BondLink::Down => "down",
            BondLink::Back => "going back",
        };
        let (speed, duplex) = match link::speed(&net.eth0, &net.links, interface) {
            Some(speed) => (format!("{speed} Mbps"), "full"),
            None => ("Unknown".to_owned(), "Unknown"),
        };
        let _ = writeln!(
            out,
            "\nSlave Interface: {}\nMII Status: {state}\nSpeed: {speed}\nDuplex: {duplex}\nLink Failure Count: {}\nPermanent HW addr: {}\nSlave queue ID: 0",
            interface.name,
            port.failures,
            Address(port.own.0)
        );
    }
    out
}
