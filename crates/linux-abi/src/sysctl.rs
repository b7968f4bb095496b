//! Kernel settings that an experiment can give a host, with their valid values.

use crate::interface_settings;

/// Valid values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Integer in a range.
    Number {
        /// Minimum.
        least: u32,
        /// Maximum.
        greatest: u32,
    },
    /// Three sizes in bytes: minimum, initial, maximum.
    Sizes,
    /// Signed integer.
    Whole,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

const LARGEST: u32 = i32::MAX as u32;
const ANY: Values = number(0, LARGEST);
/// Seconds, which Linux stores as ticks, by default 250 per second.
const SECONDS: Values = number(0, LARGEST / 250);
const FLAG: Values = number(0, 1);
const BYTE: Values = number(0, 255);

const fn number(least: u32, greatest: u32) -> Values {
    Values::Number { least, greatest }
}

/// Settings in order of name.
pub const SETTINGS: &[(&str, Values)] = &[
    ("net.core.rmem_default", number(2_304, LARGEST)),
    ("net.core.rmem_max", number(2_304, LARGEST)),
    ("net.core.somaxconn", ANY),
    ("net.core.wmem_default", number(4_608, LARGEST)),
    ("net.core.wmem_max", number(4_608, LARGEST)),
    ("net.ipv4.fib_multipath_hash_policy", number(0, 1)),
    ("net.ipv4.icmp_echo_ignore_all", FLAG),
    ("net.ipv4.icmp_echo_ignore_broadcasts", FLAG),
    ("net.ipv4.icmp_msgs_burst", ANY),
    ("net.ipv4.icmp_msgs_per_sec", ANY),
    ("net.ipv4.icmp_ratelimit", ANY),
    ("net.ipv4.icmp_ratemask", ANY),
    ("net.ipv4.ip_default_ttl", number(1, 255)),
    ("net.ipv4.ip_forward", FLAG),
    ("net.ipv4.ip_nonlocal_bind", FLAG),
    ("net.ipv4.ip_unprivileged_port_start", number(0, 65_535)),
    ("net.ipv4.ipfrag_time", SECONDS),
    ("net.ipv4.tcp_abort_on_overflow", FLAG),
    ("net.ipv4.tcp_comp_sack_delay_ns", ANY),
    ("net.ipv4.tcp_comp_sack_nr", BYTE),
    ("net.ipv4.tcp_congestion_control", Values::OneOf(&["bbr", "cubic", "dctcp", "reno"])),
    ("net.ipv4.tcp_ecn", number(0, 2)),
    ("net.ipv4.tcp_fastopen", ANY),
    ("net.ipv4.tcp_fin_timeout", SECONDS),
    ("net.ipv4.tcp_frto", BYTE),
    ("net.ipv4.tcp_keepalive_intvl", SECONDS),
    ("net.ipv4.tcp_keepalive_probes", BYTE),
    ("net.ipv4.tcp_keepalive_time", SECONDS),
    ("net.ipv4.tcp_limit_output_bytes", ANY),
    ("net.ipv4.tcp_max_syn_backlog", ANY),
    ("net.ipv4.tcp_moderate_rcvbuf", FLAG),
    ("net.ipv4.tcp_orphan_retries", BYTE),
    ("net.ipv4.tcp_retries2", BYTE),
    ("net.ipv4.tcp_rmem", Values::Sizes),
    ("net.ipv4.tcp_sack", FLAG),
    ("net.ipv4.tcp_slow_start_after_idle", FLAG),
    ("net.ipv4.tcp_syn_linear_timeouts", number(0, 127)),
    ("net.ipv4.tcp_syn_retries", number(1, 127)),
    ("net.ipv4.tcp_synack_retries", BYTE),
    ("net.ipv4.tcp_syncookies", number(0, 2)),
    ("net.ipv4.tcp_timestamps", FLAG),
    ("net.ipv4.tcp_window_scaling", FLAG),
    ("net.ipv4.tcp_wmem", Values::Sizes),
    ("net.ipv6.icmp.echo_ignore_all", FLAG),
    ("net.ipv6.icmp.ratelimit", ANY),
    ("net.ipv6.ip6frag_time", SECONDS),
    ("net.ipv6.ip_nonlocal_bind", FLAG),
];

impl Values {
    /// True if the text is a valid value.
    pub fn take(&self, text: &str) -> bool {
        let numbers =
            || text.split_whitespace().map(|word| word.parse::<u32>().ok().filter(|n| *n <= LARGEST));
        match self {
            Values::Number { least, greatest } => {
                text.parse().is_ok_and(|number: u32| (*least..=*greatest).contains(&number))
            }
            Values::Sizes => numbers().count() == 3 && numbers().all(|number| number.is_some_and(|n| n > 0)),
            Values::Whole => text.parse::<i32>().is_ok(),
            Values::OneOf(words) => words.contains(&text),
        }
    }
}

impl std::fmt::Display for Values {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Values::Number { least, greatest } => write!(out, "a number from {least} to {greatest}"),
            Values::Sizes => {
                write!(
                    out,
                    "three numbers of bytes: the least, the initial and the greatest, such as \"4096 131072 6291456\""
                )
            }
            Values::Whole => write!(out, "a whole number"),
            Values::OneOf(words) => write!(out, "one of {}", words.join(", ")),
        }
    }
}

/// Valid values of a setting; `None` if there is no such setting.
pub fn values(name: &str) -> Option<Values> {
    if interface_settings::by_name(name).is_some() {
        return Some(Values::Whole);
    }
    SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, values)| *values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_their_values_only() {
        assert!(SETTINGS.is_sorted_by(|a, b| a.0 < b.0));
        let takes = |name, text| values(name).unwrap().take(text);
        assert!(takes("net.ipv4.tcp_ecn", "2") && !takes("net.ipv4.tcp_ecn", "3"));
        assert!(takes("net.ipv4.tcp_rmem", "1 2 3") && !takes("net.ipv4.tcp_rmem", "1 2"));
        assert!(!takes("net.ipv4.tcp_rmem", "0 2 3") && !takes("net.ipv4.tcp_wmem", "1 2 x"));
        assert!(takes("net.ipv4.tcp_congestion_control", "dctcp"));
        assert!(!takes("net.ipv4.tcp_congestion_control", "vegas") && !takes("net.core.somaxconn", "-1"));
        assert_eq!(values("net.ipv4.none"), None);
    }
}
