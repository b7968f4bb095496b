//! What `/proc/net`, `/sys/class/net` and `/etc/hosts` say.

use crate::host::Host;
use belljar_linux_abi::c;
use std::fmt::Write;

pub(super) const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n";

/// `/etc/hosts`: all hosts of the experiment by name.
pub(super) fn hosts(host: &mut Host) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n");
    for (name, address) in host.config.names.iter() {
        if name != "localhost" {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    text
}

/// `/etc/resolv.conf`: the simulated network's name server.
pub(super) fn resolv_conf(host: &mut Host) -> String {
    match &host.config.resolver {
        Some(resolver) => format!("nameserver {}\n", resolver.zone.address),
        None => String::from("# Names of hosts are in /etc/hosts.\n"),
    }
}

/// `/proc/net/dev`.
pub(super) fn dev(host: &mut Host) -> String {
    host.proc_net_dev()
}

/// `/proc/net/tcp`.
pub(super) fn tcp(host: &mut Host) -> String {
    host.proc_net_tcp(c::AF_INET)
}

/// `/proc/net/tcp6`.
pub(super) fn tcp6(host: &mut Host) -> String {
    host.proc_net_tcp(c::AF_INET6)
}

/// `/proc/net/udp`.
pub(super) fn udp(host: &mut Host) -> String {
    host.proc_net_udp(c::AF_INET)
}

/// `/proc/net/udp6`.
pub(super) fn udp6(host: &mut Host) -> String {
    host.proc_net_udp(c::AF_INET6)
}

/// `/proc/net/route`: everything leaves by `eth0`.
pub(super) fn route(_host: &mut Host) -> String {
    let line = "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0";
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    // Linux pads each line to 127 characters.
    format!("{head:<127}\n{line:<127}\n")
}

/// The hardware address of `eth0`.
pub(super) fn eth0_address(host: &mut Host) -> String {
    let [a, b, c, d, e, f] = host.net.mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n")
}
