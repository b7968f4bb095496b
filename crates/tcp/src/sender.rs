//! The sending half of a connection: send queue, round trip, congestion control, loss recovery and pacing.
//!
//! The methods are grouped in files by role: ACK processing in `ack.rs`, loss recovery in `recovery.rs`,
//! window validation in `cwnd_use.rs`, pacing in `pacing.rs`, device packets in `tso.rs`, path MTU discovery
//! in `mtu_probe.rs`, timers in `timers.rs`. They depend neither on the state of the connection nor on its
//! receiving half: a [`Connection`](crate::Connection) builds the segments and supplies the information of
//! the receiver.

use crate::Config;
use crate::chrono::Chrono;
use crate::congestion::{self, CongestionControl, Start, Window};
use crate::connection::Stamps;
use crate::counts::Tally;
use crate::cwnd_use::WindowUse;
use crate::ecn::EcnState;
use crate::mtu_probe::MtuSearch;
use crate::pacing::Pacing;
use crate::rate::DeliveryRate;
use crate::recovery::Recovery;
use crate::rtt::RttEstimator;
use crate::snd::SendQueue;
use crate::timers::SendTimers;
use crate::tso::DevicePacket;
use belljar_base::{SimDuration, SimTime};

/// Socket options that determine when data is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendSettings {
    pub nodelay: bool,
    pub cork: bool,
    pub user_timeout: Option<SimDuration>,
}

/// Counters and times of transmission.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendStats {
    pub segments_out: u32,
    pub total_retransmitted: u32,
    pub data_segments_out: u32,
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
    pub dsacks: u32,
    pub timeouts: u32,
    pub bytes_acked: u64,
    pub data_sent_at: SimTime,
}

/// The sending half of a connection; see the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Sender {
    pub config: Config,
    /// Length of the IP header in bytes.
    pub ip_header_len: usize,
    /// Time of the first transmission of the SYN or SYN-ACK.
    pub handshake_sent_at: SimTime,
    pub snd: SendQueue,
    pub rtt: RttEstimator,
    pub congestion: Box<dyn CongestionControl>,
    pub window: Window,
    pub window_use: WindowUse,
    pub recovery: Recovery,
    pub delivery: DeliveryRate,
    pub pacing: Pacing,
    pub packet: DevicePacket,
    pub chrono: Chrono,
    /// Blocks of the previous SACK; the segments that they cover are already marked.
    pub sack_cache: [(u64, u64); 4],
    /// End of the highest segment known to be delivered.
    pub highest_delivered: u64,
    pub timers: SendTimers,
    pub stamps: Stamps,
    pub sack_enabled: bool,
    pub ecn: EcnState,
    pub settings: SendSettings,
    pub mtu_search: MtuSearch,
    /// Unanswered window or keepalive probes in succession.
    pub probes_sent: u8,
    pub probing_since: Option<SimTime>,
    /// True if a writer waits for send buffer space.
    pub write_waiting: bool,
    pub stats: SendStats,
    /// Event counters of the whole connection, most of which concern sending.
    pub tally: Tally,
}

impl Sender {
    pub(crate) fn new(config: Config, initial: u64, ipv6: bool, now: SimTime) -> Sender {
        let send_buffer = config.send_buffer.unwrap_or(config.wmem[1]);
        Sender {
            ip_header_len: if ipv6 { 40 } else { 20 },
            handshake_sent_at: now,
            snd: SendQueue::new(initial, send_buffer, config.send_buffer.is_some()),
            rtt: RttEstimator::new(),
            congestion: congestion::instantiate(
                config.congestion,
                &Start::unknown(initial, config.timestamp_offset, now),
            ),
            window: Window::new(),
            window_use: WindowUse::default(),
            recovery: Recovery::new(),
            delivery: DeliveryRate::default(),
            pacing: Pacing::default(),
            packet: DevicePacket::default(),
            chrono: Chrono::default(),
            sack_cache: [(0, 0); 4],
            highest_delivered: 0,
            timers: SendTimers::default(),
            stamps: Stamps {
                enabled: config.timestamps,
                offset: config.timestamp_offset,
                ..Stamps::default()
            },
            sack_enabled: config.sack,
            ecn: EcnState::default(),
            settings: SendSettings::default(),
            mtu_search: MtuSearch::default(),
            probes_sent: 0,
            probing_since: None,
            write_waiting: false,
            stats: SendStats { data_sent_at: now, ..SendStats::default() },
            tally: Tally::default(),
            config,
        }
    }
}
