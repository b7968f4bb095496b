//! `/proc/net/igmp` and `/proc/net/dev_mcast`.

use belljar_net::igmp::ALL_SYSTEMS;
use belljar_netstack::{LO, Stack, interface_index};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// `/proc/net/igmp`.
pub fn igmp(net: &Stack) -> String {
    let mut text = String::from("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n");
    for (number, interface) in net.interfaces.iter().enumerate().filter(|(_, i)| i.exists()) {
        let mut groups: Vec<Ipv4Addr> =
            net.igmp.iter().filter(|(i, _)| *i == number).map(|(_, group)| group).collect();
        groups.push(ALL_SYSTEMS);
        let _ = writeln!(
            text,
            "{}\t{:<10}: {:5} {:>7}",
            interface_index(number),
            interface.name,
            groups.len(),
            "V3"
        );
        for group in groups {
            let users = group_users(net, number, group).max(1);
            let word = u32::from_ne_bytes(group.octets());
            let _ = writeln!(text, "\t\t\t\t{word:08X} {users:5} 0:00000000\t\t0");
        }
    }
    text
}

/// Number of sockets that are members of a group on an interface.
fn group_users(net: &Stack, interface: usize, group: Ipv4Addr) -> usize {
    let sockets = net.own_sockets().filter_map(|(_, socket)| socket.ip_options());
    sockets.flat_map(|o| &o.groups).filter(|m| m.interface == interface && m.group == group).count()
}

/// `/proc/net/dev_mcast`: hardware addresses of the groups.
pub fn dev_mcast(net: &Stack) -> String {
    let mut text = String::new();
    for (number, interface) in net.interfaces.iter().enumerate().filter(|(n, i)| *n != LO && i.exists()) {
        let groups = net.igmp.iter().filter(|(i, _)| *i == number).map(|(_, group)| group);
        let v4 = groups.chain([ALL_SYSTEMS]).map(|group| {
            let [_, b, c, d] = group.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        });
        let mut addresses: Vec<[u8; 6]> = v4.collect();
        // Groups that differ in their first bytes alone share an Ethernet address.
        for (group, _) in net.v6.groups_on(&net.interfaces, number) {
            let [.., a, b, c, d] = group.octets();
            let address = [0x33, 0x33, a, b, c, d];
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        for address in addresses {
            let (index, name) = (interface_index(number), &interface.name);
            let address: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "{index:<4} {name:<15} {:<5} {:<5} {address}", 1, 0);
        }
    }
    text
}
