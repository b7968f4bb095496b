use crate::{FastOpenFailure, State};
use belljar_base::SimDuration;

/// A snapshot of a connection, the content of `struct tcp_info` (`TCP_INFO` in `tcp(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// `tcpi_state`.
    pub state: State,
    /// `tcpi_ca_state`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub congestion_state: u8,
    /// `tcpi_retransmits`: timeouts in a row.
    pub backoff: u8,
    /// `tcpi_probes`: unanswered window or keepalive probes.
    pub probes: u8,
    /// `TCPI_OPT_TIMESTAMPS`.
    pub timestamps: bool,
    /// `TCPI_OPT_SACK`.
    pub sack: bool,
    /// `TCPI_OPT_WSCALE`.
    pub window_scaling: bool,
    /// `TCPI_OPT_ECN`: both sides agreed on it.
    pub ecn: bool,
    /// `TCPI_OPT_ECN_SEEN`: the peer sent a codepoint.
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
    /// `tcpi_rcv_space`: bytes the program reads per round trip.
    pub receive_space: u32,
    /// `tcpi_rcv_ssthresh`.
    pub receive_ssthresh: u32,
    /// `tcpi_total_retrans`, in segments.
    pub total_retransmitted: u32,
    /// `tcpi_pacing_rate` in bytes a second.
    pub pacing_rate: u64,
    /// `tcpi_delivery_rate` in bytes a second.
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
    /// `tcpi_delivered_ce`: those of the delivered whose ACK echoed a congestion mark.
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
    /// `tcpi_rcv_ooopack`: segments that arrived behind a hole.
    pub out_of_order: u32,
    /// `tcpi_busy_time`: something was to be sent or acknowledged.
    pub busy_time: SimDuration,
    /// `tcpi_rwnd_limited`: of that, the peer's window was the limit.
    pub window_limited: SimDuration,
    /// `tcpi_sndbuf_limited`: of that, the send buffer was.
    pub buffer_limited: SimDuration,
    /// The greatest rate that the program allows (`tcpi_max_pacing_rate`).
    pub max_pacing_rate: u64,
    /// The peer's window in bytes (`tcpi_snd_wnd`).
    pub send_window: u32,
    /// Our window as last announced, in bytes (`tcpi_rcv_wnd`).
    pub receive_window: u32,
    /// `TCPI_OPT_SYN_DATA`: data in the SYN, ours or the peer's, has arrived.
    pub syn_data: bool,
    /// `TCPI_OPT_TFO_CHILD`: opened by a SYN with a cookie.
    pub fast_open_child: bool,
    /// `tcpi_fastopen_client_fail`.
    pub fast_open_failure: FastOpenFailure,
    /// Since the last data segment was sent (`tcpi_last_data_sent`).
    pub since_data_sent: SimDuration,
    /// Since the last data segment arrived (`tcpi_last_data_recv`).
    pub since_data_received: SimDuration,
    /// Since the last ACK arrived (`tcpi_last_ack_recv`).
    pub since_ack_received: SimDuration,
}
