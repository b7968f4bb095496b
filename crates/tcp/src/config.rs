use crate::MtuProbing;
use belljar_base::SimDuration;

/// Parameters of a connection: Linux's sysctls and socket options that apply before the handshake.
/// [`Config::default`] has Linux's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Advertised MSS: the interface's MTU minus 40 for IPv4 or 60 for IPv6, or the value of the route or
    /// `TCP_MAXSEG`.
    pub mss: u16,
    /// MSS of the path, if it differs from the advertised one: the path MTU minus the same header length.
    pub path_mss: Option<u16>,
    /// `TCP_MAXSEG`: upper bound of the MSS for sending.
    pub max_segment: Option<u16>,
    /// `net.ipv4.tcp_min_snd_mss`: lower bound of the MSS for sending, options included, whatever the peer
    /// and the path report.
    pub min_send_mss: u32,
    /// Mode of path MTU probing by segments.
    pub mtu_probing: MtuProbing,
    /// `net.ipv4.tcp_rmem`: minimum, initial and maximum receive buffer in bytes.
    pub rmem: [u32; 3],
    /// `net.ipv4.tcp_wmem`: minimum, initial and maximum send buffer in bytes.
    pub wmem: [u32; 3],
    /// `SO_RCVBUF` as reported by `getsockopt` (twice the value set); disables autotuning.
    pub receive_buffer: Option<u32>,
    /// `net.ipv4.tcp_moderate_rcvbuf`: the receive buffer grows with the data read per round trip.
    pub moderate_receive: bool,
    /// `SO_SNDBUF` as reported by `getsockopt`; disables autotuning.
    pub send_buffer: Option<u32>,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: bool,
    /// `net.ipv4.tcp_timestamps`.
    pub timestamps: bool,
    /// `net.ipv4.tcp_sack`.
    pub sack: bool,
    /// Offset of the clock of the timestamps option in milliseconds, which Linux draws per connection; drawn
    /// by the caller.
    pub timestamp_offset: u32,
    /// `net.ipv4.tcp_congestion_control` or `TCP_CONGESTION`.
    pub congestion: CongestionAlgorithm,
    /// `net.ipv4.tcp_ecn`.
    pub ecn: EcnPolicy,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `net.ipv4.tcp_syn_retries` or `TCP_SYNCNT`.
    pub syn_retries: u8,
    /// `net.ipv4.tcp_syn_linear_timeouts`: number of SYN retransmissions at one-second intervals before the
    /// intervals double.
    pub syn_linear_timeouts: u8,
    /// `net.ipv4.tcp_synack_retries`.
    pub synack_retries: u8,
    /// `net.ipv4.tcp_retries1`: number of retransmissions after whose duration the path is suspected.
    pub retries1: u8,
    /// `net.ipv4.tcp_retries2`.
    pub retries2: u8,
    /// `net.ipv4.tcp_orphan_retries`; 0 stands for 8.
    pub orphan_retries: u8,
    /// `net.ipv4.tcp_fin_timeout` or `TCP_LINGER2`: time that an orphan stays in FIN-WAIT-2.
    pub fin_timeout: SimDuration,
    /// `net.ipv4.tcp_frto`: detection of spurious retransmission timeouts (RFC 5682); 0 disables it.
    pub frto: u8,
    /// `net.ipv4.tcp_comp_sack_nr`: maximum number of successive ACKs of out-of-order data to suppress; 0
    /// disables compression.
    pub compressed_acks: u8,
    /// `net.ipv4.tcp_comp_sack_delay_ns`: maximum delay of an ACK of out-of-order data.
    pub compressed_ack_delay: SimDuration,
    /// `net.ipv4.tcp_limit_output_bytes`: maximum number of bytes in the device's queue.
    pub limit_output: u32,
    /// `SO_KEEPALIVE` timing.
    pub keepalive: Keepalive,
}

impl Config {
    /// MSS for sending to a peer without a limit of its own, options not deducted.
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
            moderate_receive: true,
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
    /// 0: disabled.
    Never,
    /// 1: requested in our SYN and granted to the peer's.
    Ask,
    /// 2: granted to peers that request it, Linux's default.
    #[default]
    Accept,
}

/// Keepalive timing of an idle connection, `tcp(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// `TCP_KEEPIDLE`: idle time before the first probe.
    pub idle: SimDuration,
    /// `TCP_KEEPINTVL`: interval between probes.
    pub interval: SimDuration,
    /// `TCP_KEEPCNT`: number of unanswered probes after which the connection is aborted.
    pub probes: u8,
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive { idle: SimDuration::from_secs(7200), interval: SimDuration::from_secs(75), probes: 9 }
    }
}

/// Congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionAlgorithm {
    /// CUBIC (RFC 9438) with HyStart, Linux's default.
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// DCTCP (RFC 8257): reduces the window by the fraction of marked segments.
    Dctcp,
    /// BBR version 1: paces by a model of the path.
    Bbr,
}

impl CongestionAlgorithm {
    /// All algorithms, in the order of `net.ipv4.tcp_available_congestion_control`.
    pub const ALL: [CongestionAlgorithm; 4] = [
        CongestionAlgorithm::Reno,
        CongestionAlgorithm::Bbr,
        CongestionAlgorithm::Cubic,
        CongestionAlgorithm::Dctcp,
    ];

    /// Algorithm by its name in `TCP_CONGESTION`.
    pub fn from_name(name: &str) -> Option<CongestionAlgorithm> {
        CongestionAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Name of the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionAlgorithm::Cubic => "cubic",
            CongestionAlgorithm::Reno => "reno",
            CongestionAlgorithm::Dctcp => "dctcp",
            CongestionAlgorithm::Bbr => "bbr",
        }
    }
}
