//! Contents of `/proc/net`, `/sys/class/net` and `/etc/hosts`.

use crate::host::Host;
use belljar_linux_abi::c;
use belljar_linux_net::proc;
use belljar_linux_net::unix::proc_net_unix;
use belljar_net::neighbour::NeighbourState;
use belljar_netstack::udp::Protocol;
use belljar_netstack::{LO, interface_index};
use belljar_tcp::CongestionAlgorithm;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// `/etc/hosts`: all hosts of the experiment by name.
pub(super) fn hosts(host: &mut Host) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n");
    for (name, address) in host.config.names.iter() {
        if name != "localhost" {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    if host.net.config.ipv6 {
        text += "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";
        for (name, address) in host.config.names6.iter().filter(|(name, _)| name != "localhost") {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    text
}

/// `/etc/resolv.conf`: the simulated network's name server.
pub(super) fn resolv_conf(host: &mut Host) -> String {
    match &host.net.config.resolver {
        Some(resolver) => format!("nameserver {}\n", resolver.zone.address),
        None => String::from("# Names of hosts are in /etc/hosts.\n"),
    }
}

/// `net.ipv4.tcp_available_congestion_control`.
pub(super) fn congestion_algorithms(_host: &mut Host) -> String {
    format!("{}\n", CongestionAlgorithm::ALL.map(CongestionAlgorithm::name).join(" "))
}

/// `/proc/net/snmp`.
pub(super) fn snmp(host: &mut Host) -> String {
    proc::proc_net_snmp(&host.net)
}

/// `/proc/net/netstat`.
pub(super) fn netstat(host: &mut Host) -> String {
    proc::proc_net_netstat(&host.net)
}

/// `/proc/net/if_inet6`: address, index, length of the prefix, scope, flags, name.
pub(super) fn if_inet6(host: &mut Host) -> String {
    proc::proc_if_inet6(&host.net)
}

/// `/proc/net/ipv6_route`.
pub(super) fn ipv6_route(host: &mut Host) -> String {
    proc::proc_ipv6_route(&host.net)
}

/// `/proc/net/igmp6`: who is in which group.
pub(super) fn igmp6(host: &mut Host) -> String {
    proc::proc_igmp6(&host.net)
}

/// `/proc/net/snmp6`.
pub(super) fn snmp6(host: &mut Host) -> String {
    proc::proc_snmp6(&host.net)
}

/// `/proc/net/dev`.
pub(super) fn dev(host: &mut Host) -> String {
    proc::proc_net_dev(&host.net)
}

/// `/proc/net/igmp`.
pub(super) fn igmp(host: &mut Host) -> String {
    host.net.proc_net_igmp()
}

/// `/proc/net/dev_mcast`.
pub(super) fn dev_mcast(host: &mut Host) -> String {
    host.net.proc_net_dev_mcast()
}

/// `/proc/net/packet`.
pub(super) fn packet(host: &mut Host) -> String {
    host.own.proc_net_packet(&host.net)
}

/// `/proc/net/raw`.
pub(super) fn raw(host: &mut Host) -> String {
    proc::proc_net_raw(&host.net)
}

/// `/proc/net/tcp`.
pub(super) fn tcp(host: &mut Host) -> String {
    proc::proc_net_tcp(&host.net, c::AF_INET)
}

/// `/proc/net/tcp6`.
pub(super) fn tcp6(host: &mut Host) -> String {
    proc::proc_net_tcp(&host.net, c::AF_INET6)
}

/// `/proc/net/udp`.
pub(super) fn udp(host: &mut Host) -> String {
    proc::proc_net_udp(&host.net, c::AF_INET, Protocol::Udp)
}

/// `/proc/net/unix`.
pub(super) fn unix(host: &mut Host) -> String {
    proc_net_unix(&host.own.unix_shown(&host.net))
}

/// `/proc/net/udplite`.
pub(super) fn udplite(host: &mut Host) -> String {
    proc::proc_net_udp(&host.net, c::AF_INET, Protocol::Lite)
}

/// `/proc/net/udplite6`.
pub(super) fn udplite6(host: &mut Host) -> String {
    proc::proc_net_udp(&host.net, c::AF_INET6, Protocol::Lite)
}

/// `/proc/net/udp6`.
pub(super) fn udp6(host: &mut Host) -> String {
    proc::proc_net_udp(&host.net, c::AF_INET6, Protocol::Udp)
}

/// `/proc/net/route`: the main table.
pub(super) fn route(host: &mut Host) -> String {
    const RTF_UP: u16 = 1;
    const RTF_GATEWAY: u16 = 2;
    const RTF_HOST: u16 = 4;
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    // Linux pads each line to 127 characters.
    let mut text = format!("{head:<127}\n");
    let hex = |ip: Ipv4Addr| u32::from_ne_bytes(ip.octets());
    for (prefix, metric, route) in host.net.routes.iter() {
        let hop = route.hops.first();
        let name = hop.map_or("*", |hop| &host.net.interfaces[hop.interface].name);
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

/// The hardware address of the graph's `eth0`.
pub(super) fn eth0_address(host: &mut Host) -> String {
    let [a, b, c, d, e, f] = host.net.interfaces[1].mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n")
}

/// The files of `/sys/class/net/<interface>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum InterfaceFile {
    Address,
    Carrier,
    Ifindex,
    Mtu,
    Operstate,
    Type,
}

impl InterfaceFile {
    /// All of them by name.
    pub const ALL: [(&str, InterfaceFile); 6] = [
        ("address", InterfaceFile::Address),
        ("carrier", InterfaceFile::Carrier),
        ("ifindex", InterfaceFile::Ifindex),
        ("mtu", InterfaceFile::Mtu),
        ("operstate", InterfaceFile::Operstate),
        ("type", InterfaceFile::Type),
    ];
}

impl Host {
    pub(super) fn interface_file(&mut self, number: usize, file: InterfaceFile) -> String {
        let interface = &self.net.interfaces[number];
        match file {
            InterfaceFile::Address => {
                let [a, b, c, d, e, f] = interface.mac;
                format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n")
            }
            InterfaceFile::Carrier => format!("{}\n", u8::from(interface.is_running())),
            InterfaceFile::Ifindex => format!("{}\n", interface_index(number)),
            InterfaceFile::Mtu => format!("{}\n", interface.mtu),
            InterfaceFile::Operstate if number == LO => "unknown\n".to_owned(),
            InterfaceFile::Operstate => if interface.is_running() { "up\n" } else { "down\n" }.to_owned(),
            InterfaceFile::Type => format!("{}\n", interface.hardware_type()),
        }
    }
}

/// `/proc/net/arp`.
pub(super) fn arp(host: &mut Host) -> String {
    let mut text =
        String::from("IP address       HW type     Flags       HW address            Mask     Device\n");
    for neighbour in host.net.neighbours.iter() {
        let flags = match (neighbour.state, neighbour.address) {
            (NeighbourState::Permanent, _) => 6,
            (_, Some(_)) => 2,
            (_, None) => 0,
        };
        let address = neighbour.address.unwrap_or_default();
        let device = &host.net.interfaces[neighbour.interface].name;
        let ip = neighbour.ip.to_string();
        let _ = writeln!(text, "{ip:<16} 0x{:<10x}0x{flags:<10x}{address:<17}     *        {device}", 1);
    }
    text
}
