//! Files below `/proc/net` and `/proc/sys/net` whose content is that of a stack.

use super::*;
use belljar_conntrack::Settings;
use belljar_linux_abi::c;
use belljar_linux_abi::kept_settings::KEPT_SETTINGS;
use belljar_netstack::Stack;
use belljar_netstack::sysctl::Sysctl;
use belljar_netstack::udp::Protocol;

/// Source of such a file's content.
#[derive(Clone, Copy, Debug)]
pub enum NetworkFile {
    /// Text generated from the stack.
    Made(fn(&Stack) -> String),
    /// Constant text.
    Text(&'static str),
    /// Setting of the stack.
    Tunable(Sysctl),
    /// Setting of connection tracking, by name.
    Conntrack(&'static str),
}

impl NetworkFile {
    /// Text of the file.
    pub fn content(self, stack: &mut Stack) -> String {
        match self {
            NetworkFile::Made(make) => make(stack),
            NetworkFile::Text(text) => text.to_owned(),
            NetworkFile::Tunable(setting) => stack.sysctls.show(setting),
            NetworkFile::Conntrack(name) => conntrack::setting(stack, name),
        }
    }
}

use NetworkFile::{Made, Text, Tunable};

/// The files whose content has a meaning of its own, with their modes.
const FILES: &[(&str, u32, NetworkFile)] = &[
    ("/proc/net/arp", 0o444, Made(proc_net_arp)),
    ("/proc/net/dev", 0o444, Made(proc_net_dev)),
    ("/proc/net/dev_mcast", 0o444, Made(multicast::dev_mcast)),
    ("/proc/net/if_inet6", 0o444, Made(proc_if_inet6)),
    ("/proc/net/igmp", 0o444, Made(multicast::igmp)),
    ("/proc/net/igmp6", 0o444, Made(proc_igmp6)),
    ("/proc/net/ipv6_route", 0o444, Made(proc_ipv6_route)),
    ("/proc/net/netstat", 0o444, Made(proc_net_netstat)),
    ("/proc/net/nf_conntrack", 0o440, Made(conntrack::connections)),
    ("/proc/net/nf_conntrack_expect", 0o440, Made(conntrack::expectations)),
    ("/proc/net/psched", 0o444, Text("000003e8 00000040 000f4240 3b9aca00\n")),
    ("/proc/net/raw", 0o444, Made(proc_net_raw)),
    ("/proc/net/route", 0o444, Made(proc_net_route)),
    ("/proc/net/snmp", 0o444, Made(proc_net_snmp)),
    ("/proc/net/snmp6", 0o444, Made(proc_snmp6)),
    ("/proc/net/sockstat6", 0o444, Made(proc_net_sockstat6)),
    ("/proc/net/tcp", 0o444, Made(|net| proc_net_tcp(net, c::AF_INET))),
    ("/proc/net/tcp6", 0o444, Made(|net| proc_net_tcp(net, c::AF_INET6))),
    ("/proc/net/udp", 0o444, Made(|net| proc_net_udp(net, c::AF_INET, Protocol::Udp))),
    ("/proc/net/udp6", 0o444, Made(|net| proc_net_udp(net, c::AF_INET6, Protocol::Udp))),
    ("/proc/net/udplite", 0o444, Made(|net| proc_net_udp(net, c::AF_INET, Protocol::Lite))),
    ("/proc/net/udplite6", 0o444, Made(|net| proc_net_udp(net, c::AF_INET6, Protocol::Lite))),
    ("/proc/sys/net/core/default_qdisc", 0o644, Text("pfifo_fast\n")),
    ("/proc/sys/net/core/rmem_default", 0o644, Tunable(Sysctl::RmemDefault)),
    ("/proc/sys/net/core/rmem_max", 0o644, Tunable(Sysctl::RmemMax)),
    ("/proc/sys/net/core/somaxconn", 0o644, Tunable(Sysctl::Somaxconn)),
    ("/proc/sys/net/core/wmem_default", 0o644, Tunable(Sysctl::WmemDefault)),
    ("/proc/sys/net/core/wmem_max", 0o644, Tunable(Sysctl::WmemMax)),
    ("/proc/sys/net/ipv4/fib_multipath_hash_policy", 0o644, Tunable(Sysctl::FibMultipathHashPolicy)),
    ("/proc/sys/net/ipv4/icmp_echo_ignore_all", 0o644, Tunable(Sysctl::IcmpEchoIgnoreAll)),
    ("/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts", 0o644, Tunable(Sysctl::IcmpEchoIgnoreBroadcasts)),
    ("/proc/sys/net/ipv4/icmp_msgs_burst", 0o644, Tunable(Sysctl::IcmpMsgsBurst)),
    ("/proc/sys/net/ipv4/icmp_msgs_per_sec", 0o644, Tunable(Sysctl::IcmpMsgsPerSec)),
    ("/proc/sys/net/ipv4/icmp_ratelimit", 0o644, Tunable(Sysctl::IcmpRateLimit)),
    ("/proc/sys/net/ipv4/icmp_ratemask", 0o644, Tunable(Sysctl::IcmpRateMask)),
    ("/proc/sys/net/ipv4/ip_default_ttl", 0o644, Tunable(Sysctl::IpDefaultTtl)),
    ("/proc/sys/net/ipv4/ip_forward", 0o644, Tunable(Sysctl::IpForward)),
    ("/proc/sys/net/ipv4/ip_local_port_range", 0o644, Tunable(Sysctl::IpLocalPortRange)),
    ("/proc/sys/net/ipv4/ip_local_reserved_ports", 0o644, Text("\n")),
    ("/proc/sys/net/ipv4/ip_nonlocal_bind", 0o644, Tunable(Sysctl::IpNonlocalBind)),
    ("/proc/sys/net/ipv4/ip_unprivileged_port_start", 0o644, Tunable(Sysctl::IpUnprivilegedPortStart)),
    ("/proc/sys/net/ipv4/ipfrag_time", 0o644, Tunable(Sysctl::IpFragTime)),
    ("/proc/sys/net/ipv4/ping_group_range", 0o644, Text("0\t2147483647\n")),
    ("/proc/sys/net/ipv4/tcp_abort_on_overflow", 0o644, Tunable(Sysctl::TcpAbortOnOverflow)),
    ("/proc/sys/net/ipv4/tcp_allowed_congestion_control", 0o644, Made(|_| congestion_algorithms())),
    ("/proc/sys/net/ipv4/tcp_available_congestion_control", 0o444, Made(|_| congestion_algorithms())),
    ("/proc/sys/net/ipv4/tcp_base_mss", 0o644, Tunable(Sysctl::TcpBaseMss)),
    ("/proc/sys/net/ipv4/tcp_comp_sack_delay_ns", 0o644, Tunable(Sysctl::TcpCompSackDelay)),
    ("/proc/sys/net/ipv4/tcp_comp_sack_nr", 0o644, Tunable(Sysctl::TcpCompSackNr)),
    ("/proc/sys/net/ipv4/tcp_congestion_control", 0o644, Tunable(Sysctl::TcpCongestionControl)),
    ("/proc/sys/net/ipv4/tcp_ecn", 0o644, Tunable(Sysctl::TcpEcn)),
    ("/proc/sys/net/ipv4/tcp_fastopen", 0o644, Tunable(Sysctl::TcpFastopen)),
    ("/proc/sys/net/ipv4/tcp_fastopen_blackhole_timeout_sec", 0o644, Tunable(Sysctl::TcpFastopenBlackhole)),
    ("/proc/sys/net/ipv4/tcp_fastopen_key", 0o600, Tunable(Sysctl::TcpFastopenKey)),
    ("/proc/sys/net/ipv4/tcp_fin_timeout", 0o644, Tunable(Sysctl::TcpFinTimeout)),
    ("/proc/sys/net/ipv4/tcp_frto", 0o644, Tunable(Sysctl::TcpFrto)),
    ("/proc/sys/net/ipv4/tcp_keepalive_intvl", 0o644, Tunable(Sysctl::TcpKeepaliveInterval)),
    ("/proc/sys/net/ipv4/tcp_keepalive_probes", 0o644, Tunable(Sysctl::TcpKeepaliveProbes)),
    ("/proc/sys/net/ipv4/tcp_keepalive_time", 0o644, Tunable(Sysctl::TcpKeepaliveTime)),
    ("/proc/sys/net/ipv4/tcp_limit_output_bytes", 0o644, Tunable(Sysctl::TcpLimitOutputBytes)),
    ("/proc/sys/net/ipv4/tcp_max_syn_backlog", 0o644, Tunable(Sysctl::TcpMaxSynBacklog)),
    ("/proc/sys/net/ipv4/tcp_min_snd_mss", 0o644, Tunable(Sysctl::TcpMinSndMss)),
    ("/proc/sys/net/ipv4/tcp_moderate_rcvbuf", 0o644, Tunable(Sysctl::TcpModerateRcvbuf)),
    ("/proc/sys/net/ipv4/tcp_mtu_probe_floor", 0o644, Tunable(Sysctl::TcpMtuProbeFloor)),
    ("/proc/sys/net/ipv4/tcp_mtu_probing", 0o644, Tunable(Sysctl::TcpMtuProbing)),
    ("/proc/sys/net/ipv4/tcp_orphan_retries", 0o644, Tunable(Sysctl::TcpOrphanRetries)),
    ("/proc/sys/net/ipv4/tcp_probe_interval", 0o644, Tunable(Sysctl::TcpProbeInterval)),
    ("/proc/sys/net/ipv4/tcp_probe_threshold", 0o644, Tunable(Sysctl::TcpProbeThreshold)),
    ("/proc/sys/net/ipv4/tcp_retries1", 0o644, Tunable(Sysctl::TcpRetries1)),
    ("/proc/sys/net/ipv4/tcp_retries2", 0o644, Tunable(Sysctl::TcpRetries2)),
    ("/proc/sys/net/ipv4/tcp_rmem", 0o644, Tunable(Sysctl::TcpRmem)),
    ("/proc/sys/net/ipv4/tcp_sack", 0o644, Tunable(Sysctl::TcpSack)),
    ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", 0o644, Tunable(Sysctl::TcpSlowStartAfterIdle)),
    ("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", 0o644, Tunable(Sysctl::TcpSynLinearTimeouts)),
    ("/proc/sys/net/ipv4/tcp_syn_retries", 0o644, Tunable(Sysctl::TcpSynRetries)),
    ("/proc/sys/net/ipv4/tcp_synack_retries", 0o644, Tunable(Sysctl::TcpSynackRetries)),
    ("/proc/sys/net/ipv4/tcp_syncookies", 0o644, Tunable(Sysctl::TcpSyncookies)),
    ("/proc/sys/net/ipv4/tcp_timestamps", 0o644, Tunable(Sysctl::TcpTimestamps)),
    ("/proc/sys/net/ipv4/tcp_window_scaling", 0o644, Tunable(Sysctl::TcpWindowScaling)),
    ("/proc/sys/net/ipv4/tcp_wmem", 0o644, Tunable(Sysctl::TcpWmem)),
    ("/proc/sys/net/ipv6/bindv6only", 0o644, Tunable(Sysctl::Ip6BindV6Only)),
    ("/proc/sys/net/ipv6/icmp/echo_ignore_all", 0o644, Tunable(Sysctl::Icmp6EchoIgnoreAll)),
    ("/proc/sys/net/ipv6/icmp/ratelimit", 0o644, Tunable(Sysctl::Icmp6RateLimit)),
    ("/proc/sys/net/ipv6/icmp/ratemask", 0o644, Tunable(Sysctl::Icmp6RateMask)),
    ("/proc/sys/net/ipv6/ip6frag_time", 0o644, Tunable(Sysctl::Ip6FragTime)),
    ("/proc/sys/net/ipv6/ip_nonlocal_bind", 0o644, Tunable(Sysctl::Ip6NonlocalBind)),
    ("/proc/sys/net/nf_conntrack_max", 0o644, NetworkFile::Conntrack("nf_conntrack_max")),
    ("/proc/sys/net/unix/max_dgram_qlen", 0o644, Text("512\n")),
];

/// Path of a setting's file.
fn path_of(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// All files, with their modes, in no order. Paths are kept until the program ends: call this once.
pub fn network_files() -> impl Iterator<Item = (&'static str, u32, NetworkFile)> {
    let kept = KEPT_SETTINGS.iter().zip(0..).map(|(setting, number)| {
        let path: &str = path_of(setting.name).leak();
        (path, 0o644, Tunable(Sysctl::Kept(number)))
    });
    let tracked = Settings::names().map(|name| {
        let path: &str = format!("/proc/sys/net/netfilter/{name}").leak();
        (path, if name == "nf_conntrack_count" { 0o444 } else { 0o644 }, NetworkFile::Conntrack(name))
    });
    FILES.iter().copied().chain(kept).chain(tracked)
}

/// The network setting with this name of sysctl(8); `None` for other settings.
pub fn tunable(name: &str) -> Option<Sysctl> {
    let path = path_of(name);
    match FILES.iter().find(|(file, ..)| *file == path)? {
        (.., Tunable(which)) => Some(*which),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_linux_abi::sysctl::{SETTINGS, Values};
    use belljar_netstack::sysctl::Sysctls;

    #[test]
    fn what_an_experiment_can_set_is_there_and_takes_the_values_that_are_said() {
        for (name, values) in SETTINGS {
            let which = tunable(name).unwrap_or_else(|| panic!("no {name}"));
            let mut sysctls = Sysctls::default();
            let (good, bad) = match values {
                Values::Number { least, greatest } => {
                    (vec![least.to_string(), greatest.to_string()], "-1".to_owned())
                }
                Values::Whole => (vec!["0".to_owned(), "7".to_owned()], "x".to_owned()),
                Values::Sizes => (vec!["4096 8192 16384".to_owned()], "0 1 2".to_owned()),
                Values::OneOf(words) => {
                    (words.iter().map(|word| (*word).to_owned()).collect(), "none".into())
                }
            };
            for value in good {
                assert_eq!(sysctls.set(which, value.as_bytes()), Ok(()), "{name} {value}");
                assert_eq!(
                    sysctls.show(which).split_whitespace().collect::<Vec<_>>().join(" "),
                    value,
                    "{name}"
                );
            }
            assert!(sysctls.set(which, bad.as_bytes()).is_err(), "{name} {bad}");
        }
    }
}
