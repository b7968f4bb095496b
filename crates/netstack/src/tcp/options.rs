//! Options of level `IPPROTO_TCP`, and their application to connections.

use super::fast_open::Keys;
use crate::ip::header::header_len;
use crate::socket::SocketOptions;
use belljar_base::{SimDuration, SimTime};
use belljar_tcp::{Config, CongestionAlgorithm, Connection, Keepalive};
use std::net::IpAddr;

/// Length of a TCP header without options, in bytes.
const HEADER_LEN: usize = 20;

/// Upper bound of the MSS metric of a route (`ip_metrics_convert` of Linux).
const ADVMSS_MAX: u32 = 65_535 - 40;

/// The properties of a path that a connection uses.
#[derive(Clone, Copy, Debug)]
pub struct PathProperties {
    /// The path MTU in bytes.
    pub mtu: usize,
    /// The route's MSS metric, which overrides the announced MSS.
    pub advmss: Option<u32>,
}

/// Socket options of TCP: used by later connections, and applied to an existing one.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `TCP_QUICKACK`, as last set.
    pub quickack: bool,
    /// `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`.
    pub keepalive: Keepalive,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: Option<SimDuration>,
    /// `TCP_MAXSEG`: upper bound of the MSS in bytes.
    pub max_segment: Option<u16>,
    /// `TCP_DEFER_ACCEPT` in seconds.
    pub defer_accept: i32,
    /// `TCP_SYNCNT`.
    pub syn_retries: u8,
    /// `TCP_LINGER2`: timeout of FIN-WAIT-2 in seconds; a negative value skips the state.
    pub linger2: Option<i32>,
    /// `TCP_WINDOW_CLAMP`.
    pub window_clamp: i32,
    /// `TCP_FASTOPEN`: maximum number of connections opened by a SYN with data that wait for their ACK.
    pub fast_open: i32,
    /// `TCP_FASTOPEN_CONNECT`.
    pub fast_open_connect: bool,
    /// `TCP_FASTOPEN_NO_COOKIE`.
    pub fast_open_no_cookie: bool,
    /// `TCP_FASTOPEN_KEY`.
    pub fast_open_keys: Option<Keys>,
    /// `TCP_NOTSENT_LOWAT`.
    pub not_sent_low_water: i32,
    /// `SO_MAX_PACING_RATE` in bytes per second.
    pub max_pacing_rate: Option<u64>,
    /// `TCP_CONGESTION`.
    pub congestion: CongestionAlgorithm,
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            nodelay: false,
            cork: false,
            quickack: true,
            keepalive: Keepalive::default(),
            user_timeout: None,
            max_segment: None,
            defer_accept: 0,
            syn_retries: 6,
            linger2: None,
            window_clamp: 0,
            fast_open: 0,
            fast_open_connect: false,
            fast_open_no_cookie: false,
            fast_open_keys: None,
            not_sent_low_water: 0,
            max_pacing_rate: None,
            congestion: CongestionAlgorithm::default(),
        }
    }
}

impl TcpOptions {
    /// The options of a new socket, from the host's settings.
    pub fn new(settings: &Config) -> TcpOptions {
        TcpOptions {
            keepalive: settings.keepalive,
            syn_retries: settings.syn_retries,
            congestion: settings.congestion,
            ..TcpOptions::default()
        }
    }

    /// The configuration of a connection to `peer` over a path.
    pub fn config(
        &self,
        settings: &Config,
        socket: &SocketOptions,
        path: PathProperties,
        peer: IpAddr,
        timestamp_offset: u32,
    ) -> Config {
        // The maximum length of an IPv4 packet is one byte less than the MTU of lo (`IP_MAX_MTU`).
        let mtu = if peer.is_ipv4() { path.mtu.min(65_535) } else { path.mtu };
        let path_mss = mtu.saturating_sub(header_len(peer) + HEADER_LEN).max(1) as u16;
        let mss = path.advmss.map_or(path_mss, |advmss| advmss.min(ADVMSS_MAX) as u16);
        Config {
            mss: self.max_segment.map_or(mss, |bound| bound.min(mss)),
            path_mss: Some(path_mss),
            max_segment: self.max_segment,
            receive_buffer: socket.receive_buffer_set.then_some(socket.receive_buffer),
            send_buffer: socket.send_buffer_set.then_some(socket.send_buffer),
            timestamp_offset,
            congestion: self.congestion,
            syn_retries: self.syn_retries,
            fin_timeout: match self.linger2 {
                None => settings.fin_timeout,
                Some(seconds) => SimDuration::from_secs(seconds.max(0) as u64),
            },
            keepalive: self.keepalive,
            ..settings.clone()
        }
    }
}

/// Applies the options that can change later to a new connection.
pub(super) fn apply(
    connection: &mut Connection,
    options: &TcpOptions,
    keep_alive: bool,
    low_water: i32,
    now: SimTime,
) {
    if options.nodelay {
        connection.set_nodelay(true);
    }
    if options.cork {
        connection.set_cork(true, now);
    }
    if keep_alive {
        connection.set_keepalive(Some(options.keepalive), now);
    }
    if options.user_timeout.is_some() {
        connection.set_user_timeout(options.user_timeout);
    }
    if options.max_pacing_rate.is_some() {
        connection.set_max_pacing_rate(options.max_pacing_rate);
    }
    if low_water > 1 {
        connection.set_receive_low_water(low_water as usize);
    }
}
