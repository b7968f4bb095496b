use crate::MtuProbing;
use belljar_base::SimDuration;

/// The parameters of a connection: Linux's sysctls and socket options that count before the
/// handshake. [`Config::default`] has Linux's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The MSS that we announce: the interface's MTU less 40 for IPv4, less 60 for IPv6, or what the route or `TCP_MAXSEG` says.
    pub mss: u16,
    /// MSS of the path, where it is not the one that we announce: its MTU less as much.
    pub path_mss: Option<u16>,
    /// `TCP_MAXSEG`: bounds what is sent.
    pub max_segment: Option<u16>,
    /// `net.ipv4.tcp_min_snd_mss`: no less than that, options included, is sent in a segment whatever peer and path say.
    pub min_send_mss: u32,
    /// Mode of path MTU probing by segments.
    pub mtu_probing: MtuProbing,
    /// `net.ipv4.tcp_rmem`: least, initial and greatest receive buffer in bytes.
    pub rmem: [u32; 3],
    /// `net.ipv4.tcp_wmem`: least, initial and greatest send buffer in bytes.
    pub wmem: [u32; 3],
    /// `SO_RCVBUF` as `getsockopt` shows it (twice what was set): turns autotuning off.
    pub receive_buffer: Option<u32>,
    /// `SO_SNDBUF` as `getsockopt` shows it: turns autotuning off.
    pub send_buffer: Option<u32>,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: bool,
    /// `net.ipv4.tcp_timestamps`.
    pub timestamps: bool,
    /// `net.ipv4.tcp_sack`.
    pub sack: bool,
    /// Offset of the clock of the timestamps option, in milliseconds: random per connection
    /// on Linux, drawn by the caller.
    pub timestamp_offset: u32,
    /// `net.ipv4.tcp_congestion_control` or `TCP_CONGESTION`.
    pub congestion: CongestionAlgorithm,
    /// `net.ipv4.tcp_ecn`.
    pub ecn: EcnPolicy,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `net.ipv4.tcp_syn_retries` or `TCP_SYNCNT`.
    pub syn_retries: u8,
    /// `net.ipv4.tcp_syn_linear_timeouts`: retransmissions of the SYN a second apart, before
    /// those that double.
    pub syn_linear_timeouts: u8,
    /// `net.ipv4.tcp_synack_retries`.
    pub synack_retries: u8,
    /// `net.ipv4.tcp_retries1`: after as long as so many retransmissions take, the path is suspected.
    pub retries1: u8,
    /// `net.ipv4.tcp_retries2`.
    pub retries2: u8,
    /// `net.ipv4.tcp_orphan_retries`; 0 stands for 8.
    pub orphan_retries: u8,
    /// `net.ipv4.tcp_fin_timeout` or `TCP_LINGER2`: how long an orphan stays in FIN-WAIT-2.
    pub fin_timeout: SimDuration,
    /// `net.ipv4.tcp_frto`: whether a retransmission timeout is tested for having been spurious
    /// (RFC 5682); 0 is never.
    pub frto: u8,
    /// `net.ipv4.tcp_comp_sack_nr`: ACKs of out-of-order data that may be left out at a time; 0 turns
    /// compression off.
    pub compressed_acks: u8,
    /// `net.ipv4.tcp_comp_sack_delay_ns`: how long an ACK of out-of-order data waits at most.
    pub compressed_ack_delay: SimDuration,
    /// `net.ipv4.tcp_limit_output_bytes`: the most bytes in the device's queue.
    pub limit_output: u32,
    /// The times of `SO_KEEPALIVE`.
    pub keepalive: Keepalive,
}

impl Config {
    /// The greatest segment, options not deducted, that may be sent to a peer that takes any.
    pub(crate) fn send_mss(&self) -> u16 {
        let path = self.path_mss.unwrap_or(self.mss);
        self.max_segment.map_or(path, |most| most.min(path))
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss: 1460,
            path_mss: None,
            max_segment: None,
            min_send_mss: 48,
            mtu_probing: MtuProbing::default(),
            rmem: [4096, 131_072, 6_291_456],
            wmem: [4096, 16_384, 4_194_304],
            receive_buffer: None,
            send_buffer: None,
            window_scaling: true,
            timestamps: true,
            sack: true,
            timestamp_offset: 0,
            congestion: CongestionAlgorithm::Cubic,
            slow_start_after_idle: true,
            syn_retries: 6,
            syn_linear_timeouts: 4,
            ecn: EcnPolicy::Accept,
            synack_retries: 5,
            retries1: 3,
            retries2: 15,
            orphan_retries: 0,
            fin_timeout: SimDuration::from_secs(60),
            frto: 2,
            compressed_acks: 44,
            compressed_ack_delay: SimDuration::from_millis(1),
            limit_output: 4 << 20,
            keepalive: Keepalive::default(),
        }
    }
}

/// Negotiation of explicit congestion notification (RFC 3168): `net.ipv4.tcp_ecn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnPolicy {
    /// 0: never.
    Never,
    /// 1: asked for by our SYN and granted to the peer's.
    Ask,
    /// 2: granted to peers that ask, Linux's default.
    #[default]
    Accept,
}

/// Keepalive: the times at which a silent connection is probed, `tcp(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// `TCP_KEEPIDLE`: silence before the first probe.
    pub idle: SimDuration,
    /// `TCP_KEEPINTVL`: between probes.
    pub interval: SimDuration,
    /// `TCP_KEEPCNT`: unanswered probes that end the connection.
    pub probes: u8,
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive { idle: SimDuration::from_secs(7200), interval: SimDuration::from_secs(75), probes: 9 }
    }
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionAlgorithm {
    /// RFC 9438 with HyStart, Linux's default.
    #[default]
    Cubic,
    /// RFC 5681.
    Reno,
    /// RFC 8257: backs off by the share of marked segments.
    Dctcp,
    /// BBR version 1: paces by a model of the path.
    Bbr,
}

impl CongestionAlgorithm {
    /// All of them, as `net.ipv4.tcp_available_congestion_control` lists them.
    pub const ALL: [CongestionAlgorithm; 4] = [
        CongestionAlgorithm::Reno,
        CongestionAlgorithm::Bbr,
        CongestionAlgorithm::Cubic,
        CongestionAlgorithm::Dctcp,
    ];

    /// The algorithm with this name, as `TCP_CONGESTION` takes it.
    pub fn from_name(name: &str) -> Option<CongestionAlgorithm> {
        CongestionAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionAlgorithm::Cubic => "cubic",
            CongestionAlgorithm::Reno => "reno",
            CongestionAlgorithm::Dctcp => "dctcp",
            CongestionAlgorithm::Bbr => "bbr",
        }
    }
}
