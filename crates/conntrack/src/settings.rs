//! Settings of `/proc/sys/net/netfilter`, by name, with Linux's defaults.
//!
//! All times are in whole seconds. A setting that cannot act here keeps Linux's default, and other values are
//! refused with `EOPNOTSUPP`: `nf_conntrack_log_invalid` (invalid packets are not logged) and
//! `nf_conntrack_frag6_*` (IPv6 fragments are reassembled by the network stack's own settings).

use crate::tcp::TcpState;
use belljar_linux_abi::Errno;

/// Valid values of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Up to this number.
    UpTo(u32),
    /// Seconds, which Linux stores in ticks, 250 per second.
    Seconds,
    /// The default alone.
    Fixed,
    /// Computed when read.
    Computed,
}

macro_rules! settings {
    ($($field:ident $name:literal $default:literal $range:expr;)*) => {
        /// Values of all settings of a network namespace.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $(#[doc = concat!("`nf_conntrack_", $name, "`.")] pub $field: u32,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($field: $default,)* }
            }
        }

        /// Name, default and valid values of each setting, in order of name.
        const TABLE: &[(&str, u32, Range)] =
            &[$((concat!("nf_conntrack_", $name), $default, $range),)*];

        impl Settings {
            fn field(&self, name: &str) -> Option<u32> {
                match name.strip_prefix("nf_conntrack_")? {
                    $($name => Some(self.$field),)*
                    _ => None,
                }
            }

            fn field_mut(&mut self, name: &str) -> Option<&mut u32> {
                match name.strip_prefix("nf_conntrack_")? {
                    $($name => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

const FLAG: Range = Range::UpTo(1);
const BYTE: Range = Range::UpTo(255);
const ANY: Range = Range::UpTo(i32::MAX as u32);
use Range::{Computed, Fixed, Seconds};

settings! {
    acct "acct" 0 FLAG;
    buckets "buckets" 262_144 ANY;
    checksum "checksum" 1 FLAG;
    count "count" 0 Computed;
    events "events" 2 Range::UpTo(2);
    expect_max "expect_max" 4_096 ANY;
    frag6_high_thresh "frag6_high_thresh" 4_194_304 Fixed;
    frag6_low_thresh "frag6_low_thresh" 3_145_728 Fixed;
    frag6_timeout "frag6_timeout" 60 Fixed;
    generic_timeout "generic_timeout" 600 Seconds;
    gre_timeout "gre_timeout" 30 Seconds;
    gre_timeout_stream "gre_timeout_stream" 180 Seconds;
    icmp_timeout "icmp_timeout" 30 Seconds;
    icmpv6_timeout "icmpv6_timeout" 30 Seconds;
    log_invalid "log_invalid" 0 Fixed;
    max "max" 262_144 ANY;
    sctp_closed "sctp_timeout_closed" 10 Seconds;
    sctp_cookie_echoed "sctp_timeout_cookie_echoed" 3 Seconds;
    sctp_cookie_wait "sctp_timeout_cookie_wait" 3 Seconds;
    sctp_established "sctp_timeout_established" 210 Seconds;
    sctp_heartbeat_sent "sctp_timeout_heartbeat_sent" 30 Seconds;
    sctp_shutdown_ack_sent "sctp_timeout_shutdown_ack_sent" 3 Seconds;
    sctp_shutdown_recd "sctp_timeout_shutdown_recd" 3 Seconds;
    sctp_shutdown_sent "sctp_timeout_shutdown_sent" 3 Seconds;
    tcp_be_liberal "tcp_be_liberal" 0 FLAG;
    tcp_ignore_invalid_rst "tcp_ignore_invalid_rst" 0 FLAG;
    tcp_loose "tcp_loose" 1 FLAG;
    tcp_max_retrans "tcp_max_retrans" 3 BYTE;
    tcp_close "tcp_timeout_close" 10 Seconds;
    tcp_close_wait "tcp_timeout_close_wait" 60 Seconds;
    tcp_established "tcp_timeout_established" 432_000 Seconds;
    tcp_fin_wait "tcp_timeout_fin_wait" 120 Seconds;
    tcp_last_ack "tcp_timeout_last_ack" 30 Seconds;
    tcp_timeout_max_retrans "tcp_timeout_max_retrans" 300 Seconds;
    tcp_syn_recv "tcp_timeout_syn_recv" 60 Seconds;
    tcp_syn_sent "tcp_timeout_syn_sent" 120 Seconds;
    tcp_time_wait "tcp_timeout_time_wait" 120 Seconds;
    tcp_unacknowledged "tcp_timeout_unacknowledged" 300 Seconds;
    timestamp "timestamp" 0 FLAG;
    udp_timeout "udp_timeout" 30 Seconds;
    udp_timeout_stream "udp_timeout_stream" 120 Seconds;
}

impl Settings {
    /// Names of all settings, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(name, ..)| *name)
    }

    /// Value of a setting, such as `nf_conntrack_max`. `nf_conntrack_count` is
    /// [`Conntrack::setting`](crate::Conntrack::setting)'s.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.field(name)
    }

    /// Changes a setting to a value as written to its file. `ENOENT` for an unknown name, `EINVAL` for an
    /// invalid value, `EACCES` for a file that is only read, `EOPNOTSUPP` for a value that could not act.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), Errno> {
        const GREATEST_SECONDS: u32 = i32::MAX as u32 / belljar_base::HZ as u32;
        let (_, default, range) = TABLE.iter().find(|(known, ..)| *known == name).ok_or(Errno::ENOENT)?;
        if *range == Computed {
            return Err(Errno::EACCES);
        }
        let value: u32 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
        match range {
            Range::UpTo(greatest) if value > *greatest => return Err(Errno::EINVAL),
            Seconds if value > GREATEST_SECONDS => return Err(Errno::EINVAL),
            Fixed if value != *default => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        // A table has a bucket at least.
        let value = if name == "nf_conntrack_buckets" { value.max(1) } else { value };
        *self.field_mut(name).ok_or(Errno::ENOENT)? = value;
        Ok(())
    }

    /// Timeout of a TCP state in seconds.
    pub(crate) fn tcp_timeout(&self, state: TcpState) -> u32 {
        match state {
            TcpState::None => 0,
            TcpState::SynSent | TcpState::SynSent2 => self.tcp_syn_sent,
            TcpState::SynRecv => self.tcp_syn_recv,
            TcpState::Established => self.tcp_established,
            TcpState::FinWait => self.tcp_fin_wait,
            TcpState::CloseWait => self.tcp_close_wait,
            TcpState::LastAck => self.tcp_last_ack,
            TcpState::TimeWait => self.tcp_time_wait,
            TcpState::Close => self.tcp_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_linux_and_values_are_checked() {
        assert!(TABLE.is_sorted_by(|a, b| a.0.replace("timeout_", "") != b.0.replace("timeout_", "")));
        let mut settings = Settings::default();
        assert_eq!(Settings::names().count(), 41);
        for name in Settings::names() {
            assert!(settings.get(name).is_some(), "{name}");
        }
        assert_eq!(settings.set("nf_conntrack_tcp_timeout_established", "60\n"), Ok(()));
        assert_eq!(settings.tcp_timeout(TcpState::Established), 60);
        assert_eq!(settings.set("nf_conntrack_acct", "2"), Err(Errno::EINVAL));
        assert_eq!(settings.set("nf_conntrack_acct", "x"), Err(Errno::EINVAL));
        assert_eq!(settings.set("nf_conntrack_count", "1"), Err(Errno::EACCES));
        assert_eq!(settings.set("nf_conntrack_log_invalid", "255"), Err(Errno::EOPNOTSUPP));
        assert_eq!(settings.set("nf_conntrack_log_invalid", "0"), Ok(()));
        assert_eq!(settings.set("nf_conntrack_udp_timeout", "8589935"), Err(Errno::EINVAL));
        assert_eq!(settings.set("nf_conntrack_none", "1"), Err(Errno::ENOENT));
        assert_eq!(settings.set("other", "1"), Err(Errno::ENOENT));
    }
}
