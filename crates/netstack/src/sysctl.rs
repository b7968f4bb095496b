//! Settings below `/proc/sys/net` that have an effect on the stack. Those of sockets and connections apply to
//! sockets and connections created after the write.

use super::tcp::fast_open::{KEY_LEN, Keys};
use crate::{StackConfig, TcpBufferSizes};
use belljar_base::{Map, SimDuration};
use belljar_linux_abi::Errno;
use belljar_linux_abi::kept_settings::KEPT_SETTINGS;
use belljar_net::icmp_limit::IcmpRates;
use belljar_tcp::{Config, CongestionAlgorithm, EcnPolicy};

/// The settings of one host.
#[derive(Clone, Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Sysctls {
    /// `net.ipv4.ip_default_ttl`.
    pub default_ttl: u32,
    /// Configuration of new connections, including `net.ipv4.tcp_keepalive_*`.
    pub tcp: Config,
    /// `net.core.somaxconn`: upper bound of the backlog of `listen(2)`.
    pub somaxconn: u32,
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub max_syn_backlog: u32,
    /// `net.ipv4.tcp_syncookies`: 1 if cookies are sent when the SYN queue is full, 2 if always.
    pub syncookies: u8,
    /// `net.ipv4.tcp_fastopen`: modes of Fast Open for clients and servers.
    pub fast_open: u32,
    /// `net.ipv4.tcp_fastopen_blackhole_timeout_sec`: seconds for which clients disable Fast Open after the
    /// detection of a black hole.
    pub fast_open_pause: u32,
    /// `net.ipv4.tcp_fastopen_key`, once generated or written.
    pub fast_open_keys: Option<Keys>,
    /// `net.ipv4.tcp_abort_on_overflow`.
    pub abort_on_overflow: bool,
    /// `net.core.rmem_default`, `rmem_max`, `wmem_default`, `wmem_max`.
    pub core_buffers: [u32; 4],
    /// `net.ipv4.ip_forward`: IPv4 packets are forwarded.
    pub forwarding: bool,
    /// `net.ipv6.conf.all.forwarding`: IPv6 packets are forwarded.
    pub forwarding6: bool,
    /// `net.ipv4.fib_multipath_hash_policy`: the hash that selects a next hop of equal cost covers the
    /// addresses (0), or the protocol and the ports too (1).
    pub multipath_hash: u32,
    /// `net.ipv6.bindv6only`.
    pub bind_v6_only: bool,
    /// `net.ipv4.ipfrag_time`, `net.ipv6.ip6frag_time`: reassembly timeouts.
    pub fragment_times: [SimDuration; 2],
    /// `net.ipv4.ip_unprivileged_port_start`: the first port that needs no privilege to bind.
    pub unprivileged_port_start: u32,
    /// `net.ipv4.icmp_*`, `net.ipv6.icmp.*`: rate limits of ICMP errors.
    pub icmp: IcmpRates,
    /// `net.ipv4.icmp_echo_ignore_all`, `net.ipv6.icmp.echo_ignore_all`: echo requests are not answered.
    pub echo_ignored: [bool; 2],
    /// `net.ipv4.icmp_echo_ignore_broadcasts`: nor are those to a broadcast or group address.
    pub echo_ignored_to_many: bool,
    /// `net.ipv4.ip_nonlocal_bind`, `net.ipv6.ip_nonlocal_bind`: sockets may be bound to any address.
    pub nonlocal_bind: [bool; 2],
    /// `net.ipv4.ip_local_port_range`: the first and the last ephemeral port.
    pub local_ports: [u32; 2],
    /// Values of settings without effect, by their index, where they differ from the default.
    pub kept: Map<u16, i64>,
}

impl Default for Sysctls {
    fn default() -> Sysctls {
        Sysctls {
            tcp: Config::default(),
            somaxconn: 4_096,
            max_syn_backlog: 256,
            syncookies: 1,
            fast_open: 1,
            fast_open_pause: 0,
            fast_open_keys: None,
            abort_on_overflow: false,
            core_buffers: [212_992; 4],
            default_ttl: 64,
            forwarding: false,
            forwarding6: false,
            multipath_hash: 0,
            bind_v6_only: false,
            fragment_times: [30, 60].map(SimDuration::from_secs),
            unprivileged_port_start: 1_024,
            icmp: IcmpRates::default(),
            echo_ignored: [false; 2],
            echo_ignored_to_many: true,
            nonlocal_bind: [false; 2],
            local_ports: [32_768, 60_999],
            kept: Map::new(),
        }
    }
}

/// A setting by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Sysctl {
    RmemDefault,
    RmemMax,
    WmemDefault,
    WmemMax,
    Somaxconn,
    /// Setting without effect, by its index in [`KEPT_SETTINGS`].
    Kept(u16),
    FibMultipathHashPolicy,
    IcmpEchoIgnoreAll,
    IcmpEchoIgnoreBroadcasts,
    IcmpMsgsBurst,
    IcmpMsgsPerSec,
    IcmpRateLimit,
    IcmpRateMask,
    IpDefaultTtl,
    IpForward,
    IpFragTime,
    IpLocalPortRange,
    IpNonlocalBind,
    IpUnprivilegedPortStart,
    Ip6BindV6Only,
    Ip6FragTime,
    Ip6NonlocalBind,
    Icmp6EchoIgnoreAll,
    Icmp6RateLimit,
    Icmp6RateMask,
    TcpAbortOnOverflow,
    TcpBaseMss,
    TcpCompSackDelay,
    TcpCompSackNr,
    TcpCongestionControl,
    TcpEcn,
    TcpFastopen,
    TcpFastopenBlackhole,
    TcpFastopenKey,
    TcpFinTimeout,
    TcpFrto,
    TcpKeepaliveInterval,
    TcpKeepaliveProbes,
    TcpKeepaliveTime,
    TcpLimitOutputBytes,
    TcpMaxSynBacklog,
    TcpMinSndMss,
    TcpModerateRcvbuf,
    TcpMtuProbeFloor,
    TcpMtuProbing,
    TcpOrphanRetries,
    TcpProbeInterval,
    TcpProbeThreshold,
    TcpRetries1,
    TcpRetries2,
    TcpRmem,
    TcpSack,
    TcpSlowStartAfterIdle,
    TcpSynLinearTimeouts,
    TcpSynRetries,
    TcpSyncookies,
    TcpSynackRetries,
    TcpTimestamps,
    TcpWindowScaling,
    TcpWmem,
}

/// Storage of a setting's value, with the range of valid values.
enum Place<'a> {
    Flag(&'a mut bool),
    Byte(&'a mut u8, u8, u8),
    Word(&'a mut u32, u32, u32),
    Seconds(&'a mut SimDuration),
    Nanos(&'a mut SimDuration),
    Sizes(&'a mut [u32; 3]),
    Ecn(&'a mut EcnPolicy),
    Keys(&'a mut Option<Keys>),
    Algorithm(&'a mut CongestionAlgorithm),
    /// First and last port.
    Ports(&'a mut [u32; 2]),
    Kept(&'a mut Map<u16, i64>, u16),
    /// Set of numbers below 256, written as ranges.
    Bits(&'a mut [u64; 4]),
}

/// The key shown while none is set.
const NO_KEY: Keys = Keys { primary: [0; KEY_LEN], backup: None };

const LARGEST: u32 = i32::MAX as u32;
/// Linux stores seconds as ticks, at 250 per second in the usual configuration.
const LONGEST: u32 = LARGEST / 250;

impl Sysctls {
    /// The initial settings of a host. Unknown settings and invalid values are skipped, since the
    /// experiment's loader has rejected them.
    pub fn of_host(config: &StackConfig) -> Sysctls {
        let buffers = Sysctls::with_buffers(&config.buffers);
        let mut sysctls =
            Sysctls { forwarding: config.forwarding, forwarding6: config.forwarding, ..buffers };
        for (which, value) in &config.sysctls {
            let _ = sysctls.set(*which, value.as_bytes());
        }
        sysctls
    }

    /// Linux's defaults, except for the sizes of TCP buffers.
    pub fn with_buffers(buffers: &TcpBufferSizes) -> Sysctls {
        let mut sysctls = Sysctls::default();
        let set = |sizes: &mut [u32; 3], first: Option<u32>, fixed: bool| {
            sizes[1] = first.unwrap_or(sizes[1]);
            sizes[2] = if fixed { sizes[1] } else { sizes[2].max(sizes[1]) };
        };
        set(&mut sysctls.tcp.rmem, buffers.receive, buffers.receive_fixed);
        set(&mut sysctls.tcp.wmem, buffers.send, buffers.send_fixed);
        sysctls
    }
    fn place(&mut self, which: Sysctl) -> Place<'_> {
        use Place::{Byte, Flag, Seconds, Sizes, Word};
        let tcp = &mut self.tcp;
        let [rmem_default, rmem_max, wmem_default, wmem_max] = &mut self.core_buffers;
        match which {
            Sysctl::RmemDefault => Word(rmem_default, 2_304, LARGEST),
            Sysctl::RmemMax => Word(rmem_max, 2_304, LARGEST),
            Sysctl::WmemDefault => Word(wmem_default, 4_608, LARGEST),
            Sysctl::WmemMax => Word(wmem_max, 4_608, LARGEST),
            Sysctl::Somaxconn => Word(&mut self.somaxconn, 0, LARGEST),
            Sysctl::Kept(number) => Place::Kept(&mut self.kept, number),
            Sysctl::IcmpEchoIgnoreAll => Flag(&mut self.echo_ignored[0]),
            Sysctl::Icmp6EchoIgnoreAll => Flag(&mut self.echo_ignored[1]),
            Sysctl::IcmpEchoIgnoreBroadcasts => Flag(&mut self.echo_ignored_to_many),
            Sysctl::IpNonlocalBind => Flag(&mut self.nonlocal_bind[0]),
            Sysctl::Ip6NonlocalBind => Flag(&mut self.nonlocal_bind[1]),
            Sysctl::IpLocalPortRange => Place::Ports(&mut self.local_ports),
            Sysctl::IcmpMsgsBurst => Word(&mut self.icmp.burst, 0, LARGEST),
            Sysctl::IcmpMsgsPerSec => Word(&mut self.icmp.per_second, 0, LARGEST),
            Sysctl::IcmpRateLimit => Word(&mut self.icmp.interval, 0, LARGEST),
            Sysctl::IcmpRateMask => Word(&mut self.icmp.kinds, 0, LARGEST),
            Sysctl::Icmp6RateLimit => Word(&mut self.icmp.interval6, 0, LARGEST),
            Sysctl::Icmp6RateMask => Place::Bits(&mut self.icmp.kinds6),
            Sysctl::IpDefaultTtl => Word(&mut self.default_ttl, 1, 255),
            Sysctl::IpFragTime => Seconds(&mut self.fragment_times[0]),
            Sysctl::Ip6FragTime => Seconds(&mut self.fragment_times[1]),
            Sysctl::IpUnprivilegedPortStart => Word(&mut self.unprivileged_port_start, 0, 65_535),
            Sysctl::IpForward => Flag(&mut self.forwarding),
            Sysctl::FibMultipathHashPolicy => Word(&mut self.multipath_hash, 0, 1),
            Sysctl::Ip6BindV6Only => Flag(&mut self.bind_v6_only),
            Sysctl::TcpAbortOnOverflow => Flag(&mut self.abort_on_overflow),
            Sysctl::TcpBaseMss => Word(&mut tcp.mtu_probing.base_mss, 0, LARGEST),
            Sysctl::TcpCompSackDelay => Place::Nanos(&mut tcp.compressed_ack_delay),
            Sysctl::TcpCompSackNr => Byte(&mut tcp.compressed_acks, 0, 255),
            Sysctl::TcpCongestionControl => Place::Algorithm(&mut tcp.congestion),
            Sysctl::TcpEcn => Place::Ecn(&mut tcp.ecn),
            Sysctl::TcpFastopen => Word(&mut self.fast_open, 0, LARGEST),
            Sysctl::TcpFastopenBlackhole => Word(&mut self.fast_open_pause, 0, LARGEST),
            Sysctl::TcpFastopenKey => Place::Keys(&mut self.fast_open_keys),
            Sysctl::TcpFinTimeout => Seconds(&mut tcp.fin_timeout),
            Sysctl::TcpFrto => Byte(&mut tcp.frto, 0, 255),
            Sysctl::TcpKeepaliveInterval => Seconds(&mut tcp.keepalive.interval),
            Sysctl::TcpKeepaliveProbes => Byte(&mut tcp.keepalive.probes, 0, 255),
            Sysctl::TcpKeepaliveTime => Seconds(&mut tcp.keepalive.idle),
            Sysctl::TcpLimitOutputBytes => Word(&mut tcp.limit_output, 0, LARGEST),
            Sysctl::TcpMaxSynBacklog => Word(&mut self.max_syn_backlog, 0, LARGEST),
            Sysctl::TcpMinSndMss => Word(&mut tcp.min_send_mss, 48, 65_535),
            Sysctl::TcpModerateRcvbuf => Flag(&mut tcp.moderate_receive),
            Sysctl::TcpMtuProbeFloor => Word(&mut tcp.mtu_probing.floor, 48, 65_535),
            Sysctl::TcpMtuProbing => Byte(&mut tcp.mtu_probing.mode, 0, 255),
            Sysctl::TcpOrphanRetries => Byte(&mut tcp.orphan_retries, 0, 255),
            Sysctl::TcpProbeInterval => Seconds(&mut tcp.mtu_probing.interval),
            Sysctl::TcpProbeThreshold => Word(&mut tcp.mtu_probing.threshold, 0, LARGEST),
            Sysctl::TcpRetries1 => Byte(&mut tcp.retries1, 0, 255),
            Sysctl::TcpRetries2 => Byte(&mut tcp.retries2, 0, 255),
            Sysctl::TcpRmem => Sizes(&mut tcp.rmem),
            Sysctl::TcpSack => Flag(&mut tcp.sack),
            Sysctl::TcpSlowStartAfterIdle => Flag(&mut tcp.slow_start_after_idle),
            Sysctl::TcpSynLinearTimeouts => Byte(&mut tcp.syn_linear_timeouts, 0, 127),
            Sysctl::TcpSynRetries => Byte(&mut tcp.syn_retries, 1, 127),
            Sysctl::TcpSyncookies => Byte(&mut self.syncookies, 0, 2),
            Sysctl::TcpSynackRetries => Byte(&mut tcp.synack_retries, 0, 255),
            Sysctl::TcpTimestamps => Flag(&mut tcp.timestamps),
            Sysctl::TcpWindowScaling => Flag(&mut tcp.window_scaling),
            Sysctl::TcpWmem => Sizes(&mut tcp.wmem),
        }
    }
}

impl Sysctls {
    /// The text of a setting, as returned by a read of its file.
    pub fn show(&mut self, which: Sysctl) -> String {
        match self.place(which) {
            Place::Flag(value) => format!("{}\n", u8::from(*value)),
            Place::Byte(value, ..) => format!("{value}\n"),
            Place::Word(value, ..) => format!("{value}\n"),
            Place::Seconds(value) => format!("{}\n", value.as_millis() / 1_000),
            Place::Nanos(value) => format!("{}\n", value.as_nanos()),
            Place::Sizes([least, initial, greatest]) => format!("{least}\t{initial}\t{greatest}\n"),
            Place::Ports([first, last]) => format!("{first}\t{last}\n"),
            Place::Kept(kept, number) => {
                format!("{}\n", kept.get(&number).unwrap_or(&KEPT_SETTINGS[usize::from(number)].default))
            }
            Place::Ecn(policy) => format!("{}\n", *policy as u8),
            Place::Keys(keys) => format!("{}\n", keys.unwrap_or(NO_KEY)),
            Place::Algorithm(algorithm) => format!("{}\n", algorithm.name()),
            Place::Bits(bits) => format!("{}\n", ranges(bits)),
        }
    }

    /// Writes a setting. Fails with `EINVAL` for an invalid value and with `ENOENT` for an unknown congestion
    /// control algorithm.
    pub fn set(&mut self, which: Sysctl, text: &[u8]) -> Result<(), Errno> {
        let text =
            std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?.trim_matches(['\0', ' ', '\n', '\t']);
        let numbers: Vec<u32> =
            text.split_whitespace().map_while(|word| word.parse().ok()).filter(|n| *n <= LARGEST).collect();
        let first = || numbers.first().copied().ok_or(Errno::EINVAL);
        let within = |least: u32, greatest: u32| {
            first().and_then(|n| if (least..=greatest).contains(&n) { Ok(n) } else { Err(Errno::EINVAL) })
        };
        match self.place(which) {
            Place::Flag(value) => *value = first()? != 0,
            Place::Byte(value, least, greatest) => *value = within(least.into(), greatest.into())? as u8,
            Place::Word(value, least, greatest) => *value = within(least, greatest)?,
            Place::Seconds(value) => *value = SimDuration::from_secs(within(0, LONGEST)?.into()),
            Place::Nanos(value) => *value = SimDuration::from_nanos(first()?.into()),
            Place::Sizes(sizes) => {
                if numbers.is_empty() || numbers.contains(&0) {
                    return Err(Errno::EINVAL);
                }
                for (size, number) in sizes.iter_mut().zip(numbers) {
                    *size = number;
                }
            }
            Place::Ports(ports) => match numbers[..] {
                [first, last] if (1..=last).contains(&first) && last <= 65_535 => *ports = [first, last],
                _ => return Err(Errno::EINVAL),
            },
            Place::Kept(kept, number) => {
                let of = &KEPT_SETTINGS[usize::from(number)];
                let value = text.split_whitespace().next().and_then(|word| word.parse().ok());
                let value = value.filter(|value| (of.least..=of.greatest).contains(value));
                kept.insert(number, value.ok_or(Errno::EINVAL)?);
            }
            Place::Ecn(policy) => {
                *policy = match first()? {
                    0 => EcnPolicy::Never,
                    1 => EcnPolicy::Ask,
                    2 => EcnPolicy::Accept,
                    _ => return Err(Errno::EINVAL),
                };
            }
            Place::Keys(keys) => *keys = Some(Keys::parse(text).ok_or(Errno::EINVAL)?),
            Place::Algorithm(algorithm) => {
                *algorithm = CongestionAlgorithm::from_name(text).ok_or(Errno::ENOENT)?;
            }
            Place::Bits(bits) => *bits = of_ranges(text).ok_or(Errno::EINVAL)?,
        }
        Ok(())
    }
}

/// Formats a bitmap as `proc_do_large_bitmap` of Linux does: `0-1,3-127`.
fn ranges(bits: &[u64; 4]) -> String {
    let is_set = |n: usize| n < 256 && bits[n / 64] >> (n % 64) & 1 == 1;
    let mut parts = Vec::new();
    let mut n = 0;
    while n < 256 {
        let first = n;
        while is_set(n) {
            n += 1;
        }
        match n - first {
            0 => n += 1,
            1 => parts.push(first.to_string()),
            _ => parts.push(format!("{first}-{}", n - 1)),
        }
    }
    parts.join(",")
}

/// Parses a bitmap such as `0-1,3-127`; `None` if it is malformed.
fn of_ranges(text: &str) -> Option<[u64; 4]> {
    let mut bits = [0; 4];
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u8, u8) = (first.parse().ok()?, last.parse().ok()?);
        if first > last {
            return None;
        }
        (first..=last).for_each(|n| bits[usize::from(n / 64)] |= 1 << (n % 64));
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_ranges() {
        let usual = IcmpRates::default().kinds6;
        assert_eq!(ranges(&usual), "0-1,3-127");
        for text in ["0-1,3-127", "", "255", "0-255", "1,3,63-64"] {
            assert_eq!(of_ranges(text).map(|bits| ranges(&bits)).as_deref(), Some(text));
        }
        for wrong in ["256", "3-1", "a", "1-", "-1"] {
            assert_eq!(of_ranges(wrong), None, "{wrong}");
        }
    }
}
