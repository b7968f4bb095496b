//! Settings of `/proc/sys/net` that hosts keep and show without effect, with the defaults and ranges of Linux
//! 6.18.

/// Setting without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSetting {
    /// Name as sysctl(8) writes it.
    pub name: &'static str,
    /// Default.
    pub default: i64,
    /// Minimum.
    pub least: i64,
    /// Maximum.
    pub greatest: i64,
}

const INT_MIN: i64 = i32::MIN as i64;
const INT_MAX: i64 = i32::MAX as i64;
const UINT_MAX: i64 = u32::MAX as i64;
/// Maximum of seconds that Linux stores as ticks, 250 per second.
const LONGEST: i64 = INT_MAX / 250;

const fn kept(name: &'static str, default: i64, least: i64, greatest: i64) -> KeptSetting {
    KeptSetting { name, default, least, greatest }
}
const fn flag(name: &'static str, default: i64) -> KeptSetting {
    kept(name, default, 0, 1)
}
const fn byte(name: &'static str, default: i64) -> KeptSetting {
    kept(name, default, 0, 255)
}
const fn int(name: &'static str, default: i64) -> KeptSetting {
    kept(name, default, INT_MIN, INT_MAX)
}
const fn natural(name: &'static str, default: i64) -> KeptSetting {
    kept(name, default, 0, INT_MAX)
}
const fn seconds(name: &'static str, default: i64) -> KeptSetting {
    kept(name, default, -LONGEST, LONGEST)
}

/// The settings, in order of name.
pub const KEPT_SETTINGS: &[KeptSetting] = &[
    natural("net.core.busy_poll", 0),
    natural("net.core.busy_read", 0),
    kept("net.core.dev_weight", 64, 1, INT_MAX),
    kept("net.core.dev_weight_rx_bias", 1, 1, INT_MAX),
    kept("net.core.dev_weight_tx_bias", 1, 1, INT_MAX),
    kept("net.core.devconf_inherit_init_net", 0, 0, 3),
    kept("net.core.fb_tunnels_only_for_init_net", 0, 0, 2),
    kept("net.core.gro_normal_batch", 8, 1, INT_MAX),
    flag("net.core.high_order_alloc_disable", 0),
    kept("net.core.max_skb_frags", 17, 1, 17),
    kept("net.core.mem_pcpu_rsv", 256, 256, INT_MAX),
    int("net.core.message_burst", 10),
    seconds("net.core.message_cost", 5),
    int("net.core.netdev_budget", 300),
    natural("net.core.netdev_budget_usecs", 8_000),
    int("net.core.netdev_max_backlog", 1_000),
    int("net.core.netdev_tstamp_prequeue", 1),
    kept("net.core.netdev_unregister_timeout_secs", 10, 1, 3_600),
    natural("net.core.optmem_max", 131_072),
    kept("net.core.rps_sock_flow_entries", 0, 0, 536_870_912),
    natural("net.core.skb_defer_max", 64),
    flag("net.core.tstamp_allow_data", 1),
    flag("net.core.txrehash", 1),
    int("net.core.warnings", 0),
    int("net.core.xfrm_acq_expires", 30),
    kept("net.core.xfrm_aevent_etime", 10, 0, UINT_MAX),
    kept("net.core.xfrm_aevent_rseqth", 2, 0, UINT_MAX),
    int("net.core.xfrm_larval_drop", 1),
    kept("net.ipv4.fib_multipath_hash_fields", 7, 1, 4_095),
    kept("net.ipv4.fib_multipath_hash_seed", 0, 0, UINT_MAX),
    flag("net.ipv4.fib_multipath_use_neigh", 0),
    kept("net.ipv4.fib_notify_on_flag_change", 0, 0, 2),
    byte("net.ipv4.fwmark_reflect", 0),
    flag("net.ipv4.icmp_echo_enable_probe", 0),
    flag("net.ipv4.icmp_errors_use_inbound_ifaddr", 0),
    flag("net.ipv4.icmp_ignore_bogus_error_responses", 1),
    byte("net.ipv4.igmp_link_local_mcast_reports", 1),
    int("net.ipv4.igmp_max_memberships", 20),
    int("net.ipv4.igmp_max_msf", 10),
    kept("net.ipv4.igmp_qrv", 2, 1, INT_MAX),
    flag("net.ipv4.ip_autobind_reuse", 0),
    byte("net.ipv4.ip_dynaddr", 0),
    byte("net.ipv4.ip_early_demux", 1),
    flag("net.ipv4.ip_forward_update_priority", 1),
    byte("net.ipv4.ip_forward_use_pmtu", 0),
    byte("net.ipv4.ip_no_pmtu_disc", 0),
    kept("net.ipv4.ipfrag_high_thresh", 4_194_304, 3_145_728, i64::MAX),
    kept("net.ipv4.ipfrag_low_thresh", 3_145_728, 0, 4_194_304),
    natural("net.ipv4.ipfrag_max_dist", 64),
    flag("net.ipv4.nexthop_compat_mode", 1),
    flag("net.ipv4.raw_l3mdev_accept", 1),
    int("net.ipv4.route.min_adv_mss", 256),
    kept("net.ipv4.route.min_pmtu", 552, 68, INT_MAX),
    seconds("net.ipv4.route.mtu_expires", 600),
    kept("net.ipv4.tcp_adv_win_scale", 1, -31, 31),
    kept("net.ipv4.tcp_app_win", 31, 0, 31),
    flag("net.ipv4.tcp_autocorking", 1),
    flag("net.ipv4.tcp_backlog_ack_defer", 1),
    int("net.ipv4.tcp_challenge_ack_limit", INT_MAX),
    kept("net.ipv4.tcp_child_ehash_entries", 0, 0, 16_777_216),
    kept("net.ipv4.tcp_comp_sack_slack_ns", 100_000, 0, i64::MAX),
    byte("net.ipv4.tcp_dsack", 1),
    byte("net.ipv4.tcp_early_demux", 1),
    kept("net.ipv4.tcp_early_retrans", 3, 0, 4),
    flag("net.ipv4.tcp_ecn_fallback", 1),
    kept("net.ipv4.tcp_ecn_option", 2, 0, 2),
    kept("net.ipv4.tcp_ecn_option_beacon", 3, 0, 3),
    byte("net.ipv4.tcp_fack", 0),
    byte("net.ipv4.tcp_fwmark_accept", 0),
    natural("net.ipv4.tcp_invalid_ratelimit", 500),
    flag("net.ipv4.tcp_l3mdev_accept", 0),
    kept("net.ipv4.tcp_max_reordering", 300, 1, INT_MAX),
    int("net.ipv4.tcp_max_tw_buckets", 131_072),
    flag("net.ipv4.tcp_migrate_req", 0),
    kept("net.ipv4.tcp_min_rtt_wlen", 300, 0, 86_400),
    kept("net.ipv4.tcp_min_tso_segs", 2, 1, 255),
    byte("net.ipv4.tcp_no_metrics_save", 0),
    flag("net.ipv4.tcp_no_ssthresh_metrics_save", 1),
    kept("net.ipv4.tcp_notsent_lowat", UINT_MAX, 0, UINT_MAX),
    kept("net.ipv4.tcp_pacing_ca_ratio", 120, 0, 1_000),
    kept("net.ipv4.tcp_pacing_ss_ratio", 200, 0, 1_000),
    kept("net.ipv4.tcp_pingpong_thresh", 1, 1, 255),
    kept("net.ipv4.tcp_plb_cong_thresh", 128, 0, 256),
    flag("net.ipv4.tcp_plb_enabled", 0),
    kept("net.ipv4.tcp_plb_idle_rehash_rounds", 3, 0, 31),
    kept("net.ipv4.tcp_plb_rehash_rounds", 12, 0, 31),
    byte("net.ipv4.tcp_plb_suspend_rto_sec", 60),
    byte("net.ipv4.tcp_recovery", 1),
    flag("net.ipv4.tcp_reflect_tos", 0),
    kept("net.ipv4.tcp_reordering", 3, 1, 300),
    byte("net.ipv4.tcp_retrans_collapse", 1),
    byte("net.ipv4.tcp_rfc1337", 0),
    kept("net.ipv4.tcp_rto_max_ms", 120_000, 1_000, 120_000),
    kept("net.ipv4.tcp_rto_min_us", 200_000, 1, INT_MAX),
    flag("net.ipv4.tcp_shrink_window", 0),
    byte("net.ipv4.tcp_stdurg", 0),
    byte("net.ipv4.tcp_thin_linear_timeouts", 0),
    byte("net.ipv4.tcp_tso_rtt_log", 9),
    byte("net.ipv4.tcp_tso_win_divisor", 3),
    kept("net.ipv4.tcp_tw_reuse", 2, 0, 2),
    kept("net.ipv4.tcp_tw_reuse_delay", 1_000, 1, 60_000),
    byte("net.ipv4.tcp_workaround_signed_windows", 0),
    kept("net.ipv4.udp_child_hash_entries", 0, 0, 65_536),
    byte("net.ipv4.udp_early_demux", 1),
    flag("net.ipv4.udp_l3mdev_accept", 0),
    kept("net.ipv4.udp_rmem_min", 4_096, 1, INT_MAX),
    kept("net.ipv4.udp_wmem_min", 4_096, 1, INT_MAX),
    int("net.ipv4.xfrm4_gc_thresh", 32_768),
    byte("net.ipv6.anycast_src_echo_reply", 0),
    kept("net.ipv6.auto_flowlabels", 1, 0, 3),
    kept("net.ipv6.fib_multipath_hash_fields", 7, 1, 4_095),
    kept("net.ipv6.fib_multipath_hash_policy", 0, 0, 3),
    kept("net.ipv6.fib_notify_on_flag_change", 0, 0, 2),
    byte("net.ipv6.flowlabel_consistency", 1),
    kept("net.ipv6.flowlabel_reflect", 0, 0, 7),
    byte("net.ipv6.flowlabel_state_ranges", 0),
    byte("net.ipv6.fwmark_reflect", 0),
    byte("net.ipv6.icmp.echo_ignore_anycast", 0),
    byte("net.ipv6.icmp.echo_ignore_multicast", 0),
    flag("net.ipv6.icmp.error_anycast_as_unicast", 0),
    seconds("net.ipv6.idgen_delay", 1),
    int("net.ipv6.idgen_retries", 3),
    kept("net.ipv6.ioam6_id", 16_777_215, 0, 16_777_215),
    kept("net.ipv6.ioam6_id_wide", 72_057_594_037_927_935, 0, 72_057_594_037_927_935),
    kept("net.ipv6.ip6frag_high_thresh", 4_194_304, 3_145_728, i64::MAX),
    kept("net.ipv6.ip6frag_low_thresh", 3_145_728, 0, 4_194_304),
    int("net.ipv6.max_dst_opts_length", INT_MAX),
    int("net.ipv6.max_dst_opts_number", 8),
    int("net.ipv6.max_hbh_length", INT_MAX),
    int("net.ipv6.max_hbh_opts_number", 8),
    int("net.ipv6.route.gc_elasticity", 9),
    seconds("net.ipv6.route.gc_interval", 30),
    seconds("net.ipv6.route.gc_min_interval", 0),
    natural("net.ipv6.route.gc_min_interval_ms", 500),
    int("net.ipv6.route.gc_thresh", 1_024),
    seconds("net.ipv6.route.gc_timeout", 60),
    int("net.ipv6.route.max_size", INT_MAX),
    int("net.ipv6.route.min_adv_mss", 1_220),
    seconds("net.ipv6.route.mtu_expires", 600),
    flag("net.ipv6.route.skip_notify_on_dev_down", 0),
    int("net.ipv6.seg6_flowlabel", 0),
    int("net.ipv6.xfrm6_gc_thresh", 32_768),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysctl::SETTINGS;

    #[test]
    fn settings_are_in_order_and_have_no_effect_elsewhere() {
        assert!(KEPT_SETTINGS.is_sorted_by(|a, b| a.name < b.name));
        for setting in KEPT_SETTINGS {
            assert!((setting.least..=setting.greatest).contains(&setting.default), "{}", setting.name);
            assert!(SETTINGS.iter().all(|(name, _)| *name != setting.name), "{}", setting.name);
        }
    }
}
