//! Texts of `/proc/net/route`, `/proc/net/arp`, `/sys/class/net`, `/etc/resolv.conf` and the list of
//! congestion control algorithms.

use crate::counters::InterfaceCounters;
use crate::netlink::trie_order;
use belljar_linux_abi::{Errno, c};
use belljar_net::neighbour::NeighbourState;
use belljar_netstack::link;
use belljar_netstack::{LO, Stack, interface_index};
use belljar_tcp::CongestionAlgorithm;
use belljar_wire::ethernet::Address;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// `/proc/net/route`: the main table.
pub fn proc_net_route(net: &Stack) -> String {
    const RTF_UP: u16 = 1;
    const RTF_GATEWAY: u16 = 2;
    const RTF_HOST: u16 = 4;
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    // Linux pads each line to 127 characters.
    let mut text = format!("{head:<127}\n");
    let hex = |ip: Ipv4Addr| u32::from_ne_bytes(ip.octets());
    let mut routes: Vec<_> = net.routes.iter().collect();
    routes.sort_by_key(|(prefix, ..)| trie_order(prefix));
    for (prefix, metric, route) in routes {
        let hop = route.hops.first();
        let name = hop.map_or("*", |hop| &net.interfaces[hop.interface].name);
        let gateway = hop.and_then(|hop| hop.gateway);
        let flags = RTF_UP
            | if hop.is_some_and(|hop| !hop.is_direct()) { RTF_GATEWAY } else { 0 }
            | if prefix.bits() == 32 { RTF_HOST } else { 0 };
        let line = format!(
            "{name}\t{:08X}\t{:08X}\t{flags:04X}\t0\t0\t{metric}\t{:08X}\t0\t0\t0",
            hex(prefix.address()),
            hex(gateway.unwrap_or(Ipv4Addr::UNSPECIFIED)),
            hex(prefix.netmask()),
        );
        let _ = writeln!(text, "{line:<127}");
    }
    text
}

/// File of `/sys/class/net/<interface>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum InterfaceFile {
    Address,
    AddressLength,
    Broadcast,
    Carrier,
    CarrierChanges,
    CarrierDownCount,
    CarrierUpCount,
    Duplex,
    Flags,
    Group,
    Alias,
    Ifindex,
    Mtu,
    Operstate,
    QueueLength,
    Speed,
    Type,
    Uevent,
    /// Counter, by its index in `struct rtnl_link_stats64`.
    Statistic(usize),
}

impl InterfaceFile {
    /// All files with their names.
    pub fn all() -> impl Iterator<Item = (&'static str, InterfaceFile)> {
        let own = [
            ("addr_len", InterfaceFile::AddressLength),
            ("address", InterfaceFile::Address),
            ("broadcast", InterfaceFile::Broadcast),
            ("carrier", InterfaceFile::Carrier),
            ("carrier_changes", InterfaceFile::CarrierChanges),
            ("carrier_down_count", InterfaceFile::CarrierDownCount),
            ("carrier_up_count", InterfaceFile::CarrierUpCount),
            ("duplex", InterfaceFile::Duplex),
            ("flags", InterfaceFile::Flags),
            ("ifalias", InterfaceFile::Alias),
            ("ifindex", InterfaceFile::Ifindex),
            ("mtu", InterfaceFile::Mtu),
            ("netdev_group", InterfaceFile::Group),
            ("operstate", InterfaceFile::Operstate),
            ("speed", InterfaceFile::Speed),
            ("tx_queue_len", InterfaceFile::QueueLength),
            ("type", InterfaceFile::Type),
            ("uevent", InterfaceFile::Uevent),
        ];
        let counted = STATISTICS.into_iter().enumerate();
        own.into_iter().chain(counted.map(|(place, name)| (name, InterfaceFile::Statistic(place))))
    }
}

/// Names of the counter files in the order of `struct rtnl_link_stats64`.
const STATISTICS: [&str; 24] = [
    "statistics/rx_packets",
    "statistics/tx_packets",
    "statistics/rx_bytes",
    "statistics/tx_bytes",
    "statistics/rx_errors",
    "statistics/tx_errors",
    "statistics/rx_dropped",
    "statistics/tx_dropped",
    "statistics/multicast",
    "statistics/collisions",
    "statistics/rx_length_errors",
    "statistics/rx_over_errors",
    "statistics/rx_crc_errors",
    "statistics/rx_frame_errors",
    "statistics/rx_fifo_errors",
    "statistics/rx_missed_errors",
    "statistics/tx_aborted_errors",
    "statistics/tx_carrier_errors",
    "statistics/tx_fifo_errors",
    "statistics/tx_heartbeat_errors",
    "statistics/tx_window_errors",
    "statistics/rx_compressed",
    "statistics/tx_compressed",
    "statistics/rx_nohandler",
];

/// Content of a file; empty if the interface does not exist. `EINVAL` for the speed of an interface that has
/// none or is down.
pub fn interface_file(net: &Stack, number: usize, file: InterfaceFile) -> Result<String, Errno> {
    let Some(interface) = net.interfaces.get(number) else { return Ok(String::new()) };
    Ok(match file {
        InterfaceFile::Speed | InterfaceFile::Duplex => {
            let speed = link::speed(&net.eth0, &net.links, interface)
                .filter(|_| interface.up)
                .ok_or(Errno::EINVAL)?;
            // An unknown speed is -1.
            if file == InterfaceFile::Speed { format!("{}\n", speed as i32) } else { "full\n".to_owned() }
        }
        InterfaceFile::Address => format!("{}\n", Address(interface.mac)),
        InterfaceFile::AddressLength => "6\n".to_owned(),
        InterfaceFile::Broadcast => format!("{}\n", Address([if number == LO { 0 } else { 0xff }; 6])),
        InterfaceFile::Flags => {
            let up = if interface.up { c::IFF_UP as u32 } else { 0 };
            format!("{:#x}\n", interface.lasting_flags() | up)
        }
        InterfaceFile::Group => format!("{}\n", interface.settings.group),
        InterfaceFile::Alias => match &interface.settings.alias {
            Some(alias) => format!("{}\n", String::from_utf8_lossy(alias)),
            None => String::new(),
        },
        InterfaceFile::QueueLength => format!("{}\n", interface.queue_capacity()),
        InterfaceFile::Uevent => {
            format!("INTERFACE={}\nIFINDEX={}\n", interface.name, interface_index(number))
        }
        InterfaceFile::Statistic(place) => {
            format!("{}\n", InterfaceCounters::of(net, interface).link_stats64()[place])
        }
        InterfaceFile::CarrierChanges => {
            let (up, down) = interface.carrier_changes;
            format!("{}\n", up + down)
        }
        InterfaceFile::CarrierDownCount => format!("{}\n", interface.carrier_changes.1),
        InterfaceFile::CarrierUpCount => format!("{}\n", interface.carrier_changes.0),
        InterfaceFile::Carrier => format!("{}\n", u8::from(interface.has_lower_up())),
        InterfaceFile::Ifindex => format!("{}\n", interface_index(number)),
        InterfaceFile::Mtu => format!("{}\n", interface.mtu),
        InterfaceFile::Operstate if number == LO => "unknown\n".to_owned(),
        InterfaceFile::Operstate if interface.waits_for_below() => "lowerlayerdown\n".to_owned(),
        InterfaceFile::Operstate if interface.settings.held_state == 4 => "testing\n".to_owned(),
        InterfaceFile::Operstate if interface.settings.held_state == 5 => "dormant\n".to_owned(),
        InterfaceFile::Operstate => if interface.is_running() { "up\n" } else { "down\n" }.to_owned(),
        InterfaceFile::Type => format!("{}\n", interface.hardware_type()),
    })
}

/// `/proc/net/arp`.
pub fn proc_net_arp(net: &Stack) -> String {
    let mut text =
        String::from("IP address       HW type     Flags       HW address            Mask     Device\n");
    for neighbour in net.neighbours.iter() {
        let flags = match (neighbour.state, neighbour.address) {
            (NeighbourState::Permanent, _) => 6,
            (_, Some(_)) => 2,
            (_, None) => 0,
        };
        let address = neighbour.address.unwrap_or_default();
        let device = &net.interfaces[neighbour.interface].name;
        let ip = neighbour.ip.to_string();
        let _ = writeln!(text, "{ip:<16} 0x{:<10x}0x{flags:<10x}{address:<17}     *        {device}", 1);
    }
    text
}

/// `/etc/resolv.conf`: the simulated network's name server.
pub fn resolv_conf(net: &Stack) -> String {
    match &net.config.resolver {
        Some(resolver) => format!("nameserver {}\n", resolver.zone.address),
        None => String::from("# Names of hosts are in /etc/hosts.\n"),
    }
}

/// `net.ipv4.tcp_available_congestion_control`.
pub fn congestion_algorithms() -> String {
    format!("{}\n", CongestionAlgorithm::ALL.map(CongestionAlgorithm::name).join(" "))
}
