//! What `/proc/net`, `/sys/class/net` and `/etc/hosts` say.

use crate::host::Host;
use std::fmt::Write;

pub(super) const DEV: &str = "Inter-|   Receive                                                |  Transmit\n \
    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls \
    carrier compressed\n    lo:       0       0    0    0    0     0          0         0        0       0    \
    0    0    0     0       0          0\n  eth0:       0       0    0    0    0     0          0         0        \
    0       0    0    0    0     0       0          0\n";
pub(super) const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n";
pub(super) const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
    uid  timeout inode                                                     \n";
pub(super) const TCP6: &str = "  sl  local_address                         remote_address                        \
    st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
pub(super) const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
    uid  timeout inode ref pointer drops             \n";
pub(super) const UDP6: &str = "  sl  local_address                         remote_address                        \
    st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";

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

/// `/proc/net/route`: everything leaves by `eth0`.
pub(super) fn route(_host: &mut Host) -> String {
    let line = "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0";
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    // Linux pads each line to 127 characters.
    format!("{head:<127}\n{line:<127}\n")
}

/// A locally administered address that says which host it belongs to.
pub(super) fn eth0_address(host: &mut Host) -> String {
    let [a, b, c, d] = host.config.address.octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}\n")
}
