//! Interface settings: the files of `/proc/sys/net/ipv4/conf/INTERFACE` and `ipv6/conf/INTERFACE`, with the
//! defaults of an Ethernet interface on Linux 6.12.

/// Setting of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceSetting {
    /// File name.
    pub name: &'static str,
    /// Default value of an interface.
    pub default: i32,
    /// Default value of `all`, which may differ.
    pub all: i32,
    /// True if the setting is effective; other settings are only stored and shown.
    pub works: bool,
}

const fn works(name: &'static str, default: i32) -> InterfaceSetting {
    InterfaceSetting { name, default, all: default, works: true }
}
const fn inert(name: &'static str, default: i32) -> InterfaceSetting {
    InterfaceSetting { name, default, all: default, works: false }
}

/// IPv4 settings in order of name.
pub const CONF4: &[InterfaceSetting] = &[
    inert("accept_local", 0),
    works("accept_redirects", 1),
    InterfaceSetting { name: "accept_source_route", default: 1, all: 0, works: false },
    works("arp_accept", 0),
    works("arp_announce", 0),
    inert("arp_evict_nocarrier", 1),
    works("arp_filter", 0),
    works("arp_ignore", 0),
    inert("arp_notify", 0),
    inert("bc_forwarding", 0),
    inert("bootp_relay", 0),
    inert("disable_policy", 0),
    inert("disable_xfrm", 0),
    inert("drop_gratuitous_arp", 0),
    inert("drop_unicast_in_l2_multicast", 0),
    inert("force_igmp_version", 0),
    works("forwarding", 0),
    inert("igmpv2_unsolicited_report_interval", 10_000),
    inert("igmpv3_unsolicited_report_interval", 1_000),
    works("ignore_routes_with_linkdown", 0),
    inert("log_martians", 0),
    inert("mc_forwarding", 0),
    inert("medium_id", 0),
    works("promote_secondaries", 0),
    works("proxy_arp", 0),
    inert("proxy_arp_pvlan", 0),
    inert("route_localnet", 0),
    works("rp_filter", 0),
    inert("secure_redirects", 1),
    works("send_redirects", 1),
    inert("shared_media", 1),
    inert("src_valid_mark", 0),
    inert("tag", 0),
];

/// IPv6 settings in order of name.
pub const CONF6: &[InterfaceSetting] = &[
    InterfaceSetting { name: "accept_dad", default: 1, all: 0, works: true },
    works("accept_ra", 1),
    works("accept_ra_defrtr", 1),
    inert("accept_ra_from_local", 0),
    inert("accept_ra_min_hop_limit", 1),
    works("accept_ra_mtu", 1),
    works("accept_ra_pinfo", 1),
    inert("accept_ra_rt_info_max_plen", 0),
    inert("accept_ra_rt_info_min_plen", 0),
    inert("accept_ra_rtr_pref", 1),
    inert("accept_redirects", 1),
    inert("accept_source_route", 0),
    inert("addr_gen_mode", 0),
    works("autoconf", 1),
    works("dad_transmits", 1),
    works("disable_ipv6", 0),
    inert("disable_policy", 0),
    inert("drop_unicast_in_l2_multicast", 0),
    inert("drop_unsolicited_na", 0),
    inert("enhanced_dad", 1),
    inert("force_mld_version", 0),
    inert("force_tllao", 0),
    works("forwarding", 0),
    works("hop_limit", 64),
    works("ignore_routes_with_linkdown", 0),
    inert("keep_addr_on_down", 0),
    works("max_addresses", 16),
    inert("max_desync_factor", 600),
    inert("mc_forwarding", 0),
    inert("mldv1_unsolicited_report_interval", 10_000),
    inert("mldv2_unsolicited_report_interval", 1_000),
    inert("ndisc_evict_nocarrier", 1),
    inert("ndisc_notify", 0),
    inert("ndisc_tclass", 0),
    inert("optimistic_dad", 0),
    inert("proxy_ndp", 0),
    inert("ra_defrtr_metric", 1_024),
    inert("regen_max_retry", 3),
    inert("router_probe_interval", 60),
    inert("router_solicitation_delay", 1),
    inert("router_solicitation_interval", 4),
    inert("router_solicitation_max_interval", 3_600),
    works("router_solicitations", -1),
    inert("rpl_seg_enabled", 0),
    inert("seg6_enabled", 0),
    inert("seg6_require_hmac", 0),
    inert("suppress_frag_ndisc", 1),
    works("temp_prefered_lft", 86_400),
    works("temp_valid_lft", 604_800),
    inert("use_oif_addrs_only", 0),
    inert("use_optimistic", 0),
    works("use_tempaddr", 0),
];

/// Index of a setting in its table, for constants.
///
/// # Panics
/// If the table lacks the name.
pub const fn place(table: &[InterfaceSetting], name: &str) -> usize {
    let mut at = 0;
    while at < table.len() {
        if same(table[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such setting")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Setting by its sysctl(8) name, such as `net.ipv4.conf.eth0.rp_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// True for IPv6.
    pub v6: bool,
    /// `all`, `default`, or the name of an interface.
    pub scope: &'a str,
    /// Index of the setting in [`CONF4`] or [`CONF6`].
    pub setting: usize,
}

/// Parses a sysctl(8) name. A slash in it stands for a dot in the interface's name.
pub fn by_name(name: &str) -> Option<Named<'_>> {
    let (v6, rest) = match name.strip_prefix("net.ipv4.conf.") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("net.ipv6.conf.")?),
    };
    let (scope, file) = rest.rsplit_once('.')?;
    let setting = table(v6).iter().position(|setting| setting.name == file)?;
    Some(Named { v6, scope, setting })
}

/// Table of an address family.
pub const fn table(v6: bool) -> &'static [InterfaceSetting] {
    if v6 { CONF6 } else { CONF4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_the_names_of_sysctl() {
        assert!(CONF4.is_sorted_by(|a, b| a.name < b.name) && CONF6.is_sorted_by(|a, b| a.name < b.name));
        let found = by_name("net.ipv4.conf.eth0/10.rp_filter").unwrap();
        assert_eq!((found.v6, found.scope, CONF4[found.setting].name), (false, "eth0/10", "rp_filter"));
        assert_eq!(by_name("net.ipv6.conf.all.use_tempaddr").map(|found| found.v6), Some(true));
        assert_eq!(by_name("net.ipv6.conf.all.rp_filter"), None);
        assert_eq!(place(CONF4, "accept_local"), 0);
    }
}
