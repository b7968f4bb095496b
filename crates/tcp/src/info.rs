use crate::{FastOpenFailure, State};
use belljar_base::SimDuration;

/// Snapshot of a connection, the content of `struct tcp_info` (`TCP_INFO` in `tcp(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// `tcpi_state`.
    pub state: State,
    /// `tcpi_ca_state`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub congestion_state: u8,
    /// `tcpi_retransmits`: number of successive timeouts.
    pub backoff: u8,
    /// `tcpi_probes`: unanswered window or keepalive probes.
    pub probes: u8,
    /// `TCPI_OPT_TIMESTAMPS`.
    pub timestamps: bool,
    /// `TCPI_OPT_SACK`.
    pub sack: bool,
    /// `TCPI_OPT_WSCALE`.
    pub window_scaling: bool,
    /// `TCPI_OPT_ECN`: ECN was negotiated.
    pub ecn: bool,
    /// `TCPI_OPT_ECN_SEEN`: an ECN codepoint was received.
    pub ecn_seen: bool,
    /// `tcpi_snd_wscale`.
    pub send_window_scale: u8,
    /// `tcpi_rcv_wscale`.
    pub receive_window_scale: u8,
    /// `tcpi_rto`.
    pub rto: SimDuration,
    /// `tcpi_ato`.
    pub ato: SimDuration,
    /// `tcpi_snd_mss`.
    pub send_mss: u32,
    /// `tcpi_rcv_mss`.
    pub receive_mss: u32,
    /// `tcpi_advmss`.
    pub advertised_mss: u32,
    /// `tcpi_unacked`, in segments.
    pub unacked: u32,
    /// `tcpi_sacked`, in segments.
    pub sacked: u32,
    /// `tcpi_lost`, in segments.
    pub lost: u32,
    /// `tcpi_retrans`: retransmitted segments in flight.
    pub retransmitted: u32,
    /// `tcpi_rtt`: the smoothed round-trip time.
    pub rtt: SimDuration,
    /// `tcpi_rttvar`.
    pub rtt_variation: SimDuration,
    /// `tcpi_min_rtt`.
    pub min_rtt: Option<SimDuration>,
    /// `tcpi_snd_ssthresh` in segments; `u32::MAX / 2` (2^31 - 1) while unset.
    pub ssthresh: u32,
    /// `tcpi_snd_cwnd` in segments.
    pub cwnd: u32,
    /// `tcpi_reordering` in segments.
    pub reordering: u32,
    /// `tcpi_rcv_rtt`.
    pub receive_rtt: SimDuration,
    /// `tcpi_rcv_space`: bytes that the application reads per round trip.
    pub receive_space: u32,
    /// `tcpi_rcv_ssthresh`.
    pub receive_ssthresh: u32,
    /// `tcpi_total_retrans`, in segments.
    pub total_retransmitted: u32,
    /// `tcpi_pacing_rate` in bytes per second.
    pub pacing_rate: u64,
    /// `tcpi_delivery_rate` in bytes per second.
    pub delivery_rate: u64,
    /// `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// `tcpi_bytes_received`.
    pub bytes_received: u64,
    /// `tcpi_segs_out`.
    pub segments_out: u32,
    /// `tcpi_segs_in`.
    pub segments_in: u32,
    /// `tcpi_delivered`, in segments.
    pub delivered: u32,
    /// `tcpi_notsent_bytes`.
    pub unsent_bytes: u32,
    /// `tcpi_delivered_ce`: delivered segments whose ACK echoed a congestion mark.
    pub delivered_marked: u32,
    /// `tcpi_delivery_rate_app_limited`.
    pub delivery_rate_app_limited: bool,
    /// `tcpi_data_segs_in`.
    pub data_segments_in: u32,
    /// `tcpi_data_segs_out`.
    pub data_segments_out: u32,
    /// `tcpi_bytes_sent`, retransmissions included.
    pub bytes_sent: u64,
    /// `tcpi_bytes_retrans`.
    pub bytes_retransmitted: u64,
    /// `tcpi_dsack_dups`.
    pub dsacks: u32,
    /// `tcpi_reord_seen`.
    pub reordering_seen: u32,
    /// `tcpi_rcv_ooopack`: segments that arrived out of order.
    pub out_of_order: u32,
    /// `tcpi_busy_time`: time with data to send or in flight.
    pub busy_time: SimDuration,
    /// `tcpi_rwnd_limited`: part of the busy time limited by the peer's window.
    pub window_limited: SimDuration,
    /// `tcpi_sndbuf_limited`: part of the busy time limited by the send buffer.
    pub buffer_limited: SimDuration,
    /// Maximum pacing rate set by the application in bytes per second (`tcpi_max_pacing_rate`).
    pub max_pacing_rate: u64,
    /// Peer's window in bytes (`tcpi_snd_wnd`).
    pub send_window: u32,
    /// Window last announced, in bytes (`tcpi_rcv_wnd`).
    pub receive_window: u32,
    /// `TCPI_OPT_SYN_DATA`: data in a SYN was delivered, in either direction.
    pub syn_data: bool,
    /// `TCPI_OPT_TFO_CHILD`: the connection was opened by a SYN with a cookie.
    pub fast_open_child: bool,
    /// `tcpi_fastopen_client_fail`.
    pub fast_open_failure: FastOpenFailure,
    /// Time since the last data segment was sent (`tcpi_last_data_sent`).
    pub since_data_sent: SimDuration,
    /// Time since the last data segment was received (`tcpi_last_data_recv`).
    pub since_data_received: SimDuration,
    /// Time since the last ACK was received (`tcpi_last_ack_recv`).
    pub since_ack_received: SimDuration,
}
