//! Level `IPPROTO_TCP`, tcp(7).

use super::{Value, flag, int, structure, to_int};
use belljar_base::SimDuration;
use belljar_linux_abi::socket::TcpInfo;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use belljar_netstack::Stack;
use belljar_netstack::tcp::Role;
use belljar_netstack::tcp::fast_open::Keys;
use belljar_tcp::{CongestionAlgorithm, Info, State};

/// `TCP_CA_NAME_MAX`.
const NAME_MAX: usize = 16;
/// `tcpi_state` of LISTEN.
const LISTEN: u8 = 10;
/// `tcpi_state` of CLOSE.
const CLOSE: u8 = 7;

/// Sets an option of this level.
pub fn set(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    let now = net.clock.local();
    if name == c::TCP_CONGESTION {
        set_congestion(net, key, value)?;
        return Ok(());
    }
    if name == c::TCP_FASTOPEN_KEY {
        let keys = Keys::from_bytes(value).ok_or(Errno::EINVAL)?;
        net.sockets.tcp(key).options.fast_open_keys = Some(keys);
        return Ok(());
    }
    let number = to_int(value)?;
    let on = number != 0;
    let somaxconn = net.sysctls.somaxconn as i32;
    let fast_open_client = net.sysctls.fast_open & 1 != 0;
    let keep_alive = net.socket(key).options.keep_alive;
    let tcp = net.sockets.tcp(key);
    let listening = matches!(tcp.role, Role::Listening(_));
    let connected = tcp.connection().is_some_and(|connection| connection.state() != State::Closed);
    let options = &mut tcp.options;
    match name {
        c::TCP_NODELAY => options.nodelay = on,
        c::TCP_CORK => options.cork = on,
        c::TCP_QUICKACK => options.quickack = on,
        c::TCP_KEEPIDLE => options.keepalive.idle = seconds(number, 1..=32_767)?,
        c::TCP_KEEPINTVL => options.keepalive.interval = seconds(number, 1..=32_767)?,
        c::TCP_KEEPCNT => {
            options.keepalive.probes =
                u8::try_from(number).ok().filter(|n| (1..=127).contains(n)).ok_or(Errno::EINVAL)?;
        }
        c::TCP_USER_TIMEOUT => {
            let millis = u64::try_from(number).map_err(|_| Errno::EINVAL)?;
            options.user_timeout = (millis > 0).then(|| SimDuration::from_millis(millis));
        }
        c::TCP_MAXSEG => {
            if number != 0 && !(88..=32_767).contains(&number) {
                return Err(Errno::EINVAL);
            }
            options.max_segment = (number != 0).then_some(number as u16);
        }
        c::TCP_SYNCNT => {
            options.syn_retries =
                u8::try_from(number).ok().filter(|n| (1..=127).contains(n)).ok_or(Errno::EINVAL)?;
        }
        c::TCP_DEFER_ACCEPT => options.defer_accept = number.max(0),
        c::TCP_LINGER2 => options.linger2 = if number > 120 { None } else { Some(number) },
        c::TCP_WINDOW_CLAMP => options.window_clamp = number,
        c::TCP_FASTOPEN if number < 0 || connected => return Err(Errno::EINVAL),
        c::TCP_FASTOPEN => options.fast_open = number.min(somaxconn),
        c::TCP_FASTOPEN_CONNECT | c::TCP_FASTOPEN_NO_COOKIE if !(0..=1).contains(&number) => {
            return Err(Errno::EINVAL);
        }
        c::TCP_FASTOPEN_CONNECT if !fast_open_client => return Err(Errno::EOPNOTSUPP),
        c::TCP_FASTOPEN_CONNECT if connected || listening => return Err(Errno::EINVAL),
        c::TCP_FASTOPEN_CONNECT => options.fast_open_connect = on,
        c::TCP_FASTOPEN_NO_COOKIE if connected => return Err(Errno::EINVAL),
        c::TCP_FASTOPEN_NO_COOKIE => options.fast_open_no_cookie = on,
        c::TCP_INQ if !matches!(number, 0 | 1) => return Err(Errno::EINVAL),
        // The timestamp clock can be set only on a socket in repair mode.
        c::TCP_TIMESTAMP => return Err(Errno::EPERM),
        c::TCP_THIN_LINEAR_TIMEOUTS | c::TCP_THIN_DUPACK | c::TCP_INQ => {}
        c::TCP_NOTSENT_LOWAT => options.not_sent_low_water = number,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    let options = options.clone();
    let Some(connection) = tcp.connection() else { return Ok(()) };
    match name {
        c::TCP_NODELAY => connection.set_nodelay(on),
        c::TCP_CORK => connection.set_cork(on, now),
        c::TCP_QUICKACK => connection.set_quickack(on, now),
        c::TCP_KEEPIDLE | c::TCP_KEEPINTVL | c::TCP_KEEPCNT if keep_alive => {
            connection.set_keepalive(Some(options.keepalive), now);
        }
        c::TCP_USER_TIMEOUT => connection.set_user_timeout(options.user_timeout),
        c::TCP_MAXSEG => connection.set_max_segment(options.max_segment),
        c::TCP_SYNCNT => connection.set_syn_retries(options.syn_retries),
        _ => {}
    }
    net.tcp_pump(key);
    net.flush_network();
    Ok(())
}

fn seconds(number: i32, allowed: std::ops::RangeInclusive<i32>) -> Result<SimDuration, Errno> {
    if !allowed.contains(&number) {
        return Err(Errno::EINVAL);
    }
    Ok(SimDuration::from_secs(number as u64))
}

fn set_congestion(net: &mut Stack, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    let now = net.clock.local();
    let value = &value[..value.len().min(NAME_MAX - 1)];
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    if end == 0 {
        return Err(Errno::EINVAL);
    }
    let name = std::str::from_utf8(&value[..end]).map_err(|_| Errno::ENOENT)?;
    let algorithm = CongestionAlgorithm::from_name(name).ok_or(Errno::ENOENT)?;
    let tcp = net.sockets.tcp(key);
    tcp.options.congestion = algorithm;
    if let Some(connection) = tcp.connection() {
        connection.set_congestion(algorithm, now);
        net.tcp_pump(key);
        net.flush_network();
    }
    Ok(())
}

/// Gets an option of this level.
pub fn get(net: &mut Stack, key: SocketKey, name: i32) -> Result<Value, Errno> {
    let now = net.clock.local();
    let pmtu = net.heeded_mtu(key);
    let tcp = net.sockets.tcp(key);
    let options = tcp.options.clone();
    let whole_seconds = |time: SimDuration| int((time.as_millis() / 1_000) as i32);
    Ok(match name {
        c::TCP_NODELAY => flag(options.nodelay),
        c::TCP_CORK => flag(options.cork),
        c::TCP_QUICKACK => flag(options.quickack),
        c::TCP_KEEPIDLE => whole_seconds(options.keepalive.idle),
        c::TCP_KEEPINTVL => whole_seconds(options.keepalive.interval),
        c::TCP_KEEPCNT => int(i32::from(options.keepalive.probes)),
        c::TCP_USER_TIMEOUT => int(options.user_timeout.map_or(0, |time| time.as_millis() as i32)),
        c::TCP_MAXSEG => {
            let mss = tcp.connection().map(|connection| connection.info(now).send_mss as i32);
            // Linux reports 536 before there is a connection (TCP_MSS_DEFAULT).
            int(mss.unwrap_or(options.max_segment.map_or(536, i32::from)))
        }
        c::TCP_SYNCNT => int(i32::from(options.syn_retries)),
        c::TCP_DEFER_ACCEPT => int(options.defer_accept),
        c::TCP_LINGER2 => int(options.linger2.unwrap_or(60)),
        c::TCP_WINDOW_CLAMP => int(options.window_clamp),
        c::TCP_FASTOPEN => int(options.fast_open),
        c::TCP_FASTOPEN_CONNECT => flag(options.fast_open_connect),
        c::TCP_FASTOPEN_NO_COOKIE => flag(options.fast_open_no_cookie),
        c::TCP_FASTOPEN_KEY => Value::from_slice(&net.fast_open_keys(key).bytes()),
        c::TCP_THIN_LINEAR_TIMEOUTS | c::TCP_THIN_DUPACK | c::TCP_INQ => int(0),
        c::TCP_NOTSENT_LOWAT => int(options.not_sent_low_water),
        c::TCP_CONGESTION => {
            let mut name = [0; NAME_MAX];
            let text = options.congestion.name().as_bytes();
            name[..text.len()].copy_from_slice(text);
            Value::from_slice(&name)
        }
        c::TCP_INFO => match &mut tcp.role {
            Role::Connection(connection) => structure(&tcp_info(&connection.info(now), pmtu)),
            Role::Listening(listener) => {
                let (_, ready) = listener.queue_lengths();
                structure(&TcpInfo { state: LISTEN, unacked: ready as u32, ..TcpInfo::default() })
            }
            Role::Idle => structure(&TcpInfo { state: CLOSE, ..TcpInfo::default() }),
        },
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn tcp_info(info: &Info, pmtu: usize) -> TcpInfo {
    const TIMESTAMPS: u8 = 1;
    const SACK: u8 = 2;
    const WSCALE: u8 = 4;
    const ECN: u8 = 8;
    const ECN_SEEN: u8 = 16;
    const SYN_DATA: u8 = 32;
    const FAST_OPEN_CHILD: u8 = 128;
    let option = |on: bool, bit: u8| if on { bit } else { 0 };
    let micros = |time: SimDuration| time.as_micros() as u32;
    let millis = |time: SimDuration| time.as_millis() as u32;
    TcpInfo {
        state: info.state.linux_number(),
        ca_state: info.congestion_state,
        retransmits: info.backoff,
        probes: info.probes,
        backoff: info.backoff,
        options: option(info.timestamps, TIMESTAMPS)
            | option(info.sack, SACK)
            | option(info.window_scaling, WSCALE)
            | option(info.ecn, ECN)
            | option(info.ecn_seen, ECN_SEEN)
            | option(info.syn_data, SYN_DATA)
            | option(info.fast_open_child, FAST_OPEN_CHILD),
        wscale: (info.send_window_scale & 15) | info.receive_window_scale << 4,
        rto: micros(info.rto),
        ato: micros(info.ato),
        snd_mss: info.send_mss,
        rcv_mss: info.receive_mss,
        advmss: info.advertised_mss,
        unacked: info.unacked,
        sacked: info.sacked,
        lost: info.lost,
        retrans: info.retransmitted,
        rtt: micros(info.rtt),
        rttvar: micros(info.rtt_variation),
        min_rtt: info.min_rtt.map_or(u32::MAX, micros),
        snd_ssthresh: info.ssthresh,
        snd_cwnd: info.cwnd,
        pmtu: pmtu as u32,
        last_data_sent: millis(info.since_data_sent),
        last_data_recv: millis(info.since_data_received),
        last_ack_recv: millis(info.since_ack_received),
        total_retrans: info.total_retransmitted,
        pacing_rate: info.pacing_rate,
        max_pacing_rate: info.max_pacing_rate,
        delivery_rate: info.delivery_rate,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        segs_out: info.segments_out,
        segs_in: info.segments_in,
        delivered: info.delivered,
        notsent_bytes: info.unsent_bytes,
        bits: u8::from(info.delivery_rate_app_limited) | (info.fast_open_failure as u8) << 1,
        delivered_ce: info.delivered_marked,
        data_segs_in: info.data_segments_in,
        data_segs_out: info.data_segments_out,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retransmitted,
        dsack_dups: info.dsacks,
        reord_seen: info.reordering_seen,
        rcv_ooopack: info.out_of_order,
        busy_time: info.busy_time.as_micros(),
        rwnd_limited: info.window_limited.as_micros(),
        sndbuf_limited: info.buffer_limited.as_micros(),
        reordering: info.reordering,
        rcv_rtt: micros(info.receive_rtt),
        rcv_space: info.receive_space,
        rcv_ssthresh: info.receive_ssthresh,
        snd_wnd: info.send_window,
        rcv_wnd: info.receive_window,
        ..TcpInfo::default()
    }
}
