//! One endpoint of a connection: its state, and the calls by which the program sends and receives.

use crate::delack::AckPolicy;
use crate::fast_open::FastOpening;
use crate::rcv::Receiver;
use crate::sender::Sender;
use crate::timers::{SendTimers, Timers};
use crate::tso::DevicePacket;
use crate::urgent::Urgent;
use crate::{Config, Ecn, Events, Keepalive, Repr, State, TcpError, seq64};
use belljar_base::{SimDuration, SimTime};
use std::net::SocketAddr;

/// Disposition of a received segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The connection processed the segment.
    Consumed,
    /// The segment is a SYN that may start a new connection; this one is in TIME-WAIT. The caller discards
    /// this connection and processes the SYN as a segment for no connection.
    Reopen,
}

/// Properties of an emitted segment that the caller needs to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// Length of the payload in bytes.
    pub payload_len: usize,
    /// ECN codepoint for the IP header.
    pub ecn: Ecn,
}

/// Segment that is sent although the ordinary rules would withhold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The tail loss probe.
    Tail,
    /// The zero-window probe.
    Window,
    /// The keepalive probe.
    Keepalive,
}

/// Transmissions that are pending, apart from data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub syn: bool,
    pub ack: bool,
    pub reset: Option<Repr>,
    /// Acknowledgment number of a partial ACK, and whether the ACK echoes a congestion mark. Sent before all
    /// other ACKs.
    pub earlier_ack: Option<(u64, bool)>,
    pub probe: Option<Probe>,
    /// True if the next data segment carries PSH, even if it does not end a write.
    pub push: bool,
    /// True if the program has filled a send buffer. Its data is sent as far as the windows allow, without waiting
    /// for more.
    pub push_one: bool,
}

impl Pending {
    /// True if no control segment, ACK or probe is pending.
    pub(crate) fn is_empty(&self) -> bool {
        let Pending { syn, ack, reset, earlier_ack, probe, push: _, push_one: _ } = self;
        !ack && !syn && probe.is_none() && reset.is_none() && earlier_ack.is_none()
    }
}

/// RFC 7323, section 5.5: TS.Recent is void after 24 days of silence.
const PAWS_LIFE: SimDuration = SimDuration::from_secs(24 * 24 * 3600);

/// State of the timestamps option (RFC 7323, sections 3 and 5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    pub enabled: bool,
    pub offset: u32,
    /// TS.Recent.
    pub recent: u32,
    pub recent_at: SimTime,
    /// Echo of the last segment with data (`rcv_rtt_last_tsecr`).
    pub last_echo: u32,
}

impl Stamps {
    /// Our timestamp clock, in milliseconds from a random offset.
    pub(crate) fn clock(&self, now: SimTime) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.offset)
    }

    /// True if the timestamp of a segment is older than TS.Recent (PAWS).
    pub(crate) fn is_old(&self, segment: &Repr, now: SimTime) -> bool {
        let Some(stamps) = segment.options.timestamps.filter(|_| self.enabled) else { return false };
        (stamps.value.wrapping_sub(self.recent) as i32) < 0 && now.since(self.recent_at) < PAWS_LIFE
    }

    /// RFC 7323, section 4.3: "If SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent, then
    /// SEG.TSval is copied to TS.Recent".
    pub(crate) fn update_recent(&mut self, segment: &Repr, seq: u64, last_ack_sent: u64, now: SimTime) {
        if let Some(stamps) = segment.options.timestamps.filter(|_| self.enabled) {
            let newer = stamps.value.wrapping_sub(self.recent) as i32 >= 0;
            if seq <= last_ack_sent && (newer || now.since(self.recent_at) >= PAWS_LIFE) {
                self.recent = stamps.value;
                self.recent_at = now;
            }
        }
    }

    /// Round trip from the transmission of our segment to the arrival of the one that echoes its timestamp, in
    /// whole milliseconds.
    pub(crate) fn echoed_rtt(&self, segment: &Repr, now: SimTime) -> Option<SimDuration> {
        let stamps = segment.options.timestamps.filter(|s| self.enabled && s.echo != 0)?;
        let delta = self.clock(now).wrapping_sub(stamps.echo);
        (delta < 1 << 24).then(|| SimDuration::from_millis(u64::from(delta)))
    }

    /// Round trip as of [`echoed_rtt`](Self::echoed_rtt) by the first segment that echoes a timestamp. A difference
    /// of zero is no sample (`tcp_rcv_rtt_measure_ts`).
    pub(crate) fn newly_echoed_rtt(&mut self, segment: &Repr, now: SimTime) -> Option<SimDuration> {
        let echo = segment.options.timestamps?.echo;
        if std::mem::replace(&mut self.last_echo, echo) == echo {
            return None;
        }
        self.echoed_rtt(segment, now).filter(|rtt| !rtt.is_zero())
    }
}

/// Socket options that remain effective after the handshake.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub keepalive: Option<Keepalive>,
    pub receive_low_water: usize,
}

/// Counters and times, read only by [`Info`](crate::Info) and by timers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub segments_in: u32,
    pub data_segments_in: u32,
    pub out_of_order: u32,
    pub established: bool,
    pub ack_received_at: SimTime,
    /// Time of the last segment from the peer.
    pub heard_at: SimTime,
    pub challenged_at: Option<SimTime>,
    /// Time of the last retransmission of the SYN-ACK for a duplicate SYN.
    pub answered_again_at: Option<SimTime>,
}

/// One endpoint of a TCP connection. The [crate's documentation](crate) states the order of calls.
#[derive(Debug)]
pub struct Connection {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: State,
    /// True if the peer's SYN opened the connection.
    pub(crate) passive: bool,
    /// True if the peer's SYN was answered with a cookie.
    pub(crate) from_cookie: bool,
    pub(crate) opened_at: SimTime,
    pub(crate) tx: Sender,
    pub(crate) rcv: Receiver,
    pub(crate) delack: AckPolicy,
    pub(crate) timers: Timers,
    pub(crate) fast_open: FastOpening,
    pub(crate) scaling_enabled: bool,
    pub(crate) settings: Settings,
    pub(crate) pending: Pending,
    pub(crate) urgent: Urgent,
    pub(crate) error: Option<TcpError>,
    /// Soft error reported by ICMP. The connection returns it if it times out.
    pub(crate) soft_error: Option<TcpError>,
    pub(crate) events: Events,
    /// True after `close`: no descriptor refers to the connection.
    pub(crate) orphan: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// True if a writer waits for the handshake.
    pub(crate) write_pending: bool,
    pub(crate) stats: Stats,
    /// True if the peer has acknowledged data since the last [`take_progress`](Connection::take_progress).
    pub(crate) progress: bool,
}

impl Connection {
    pub(crate) fn new(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        isn: u32,
        state: State,
        now: SimTime,
    ) -> Connection {
        let mut rcv = Receiver::new(config.mss, config.rmem, config.receive_buffer, config.window_scaling);
        rcv.moderated = config.moderate_receive;
        if remote.is_ipv6() {
            rcv.headers += 20;
        }
        Connection {
            local,
            remote,
            state,
            passive: false,
            from_cookie: false,
            opened_at: now,
            scaling_enabled: config.window_scaling,
            tx: Sender::new(config, seq64::from_initial(isn), remote.is_ipv6(), now),
            rcv,
            delack: AckPolicy::default(),
            timers: Timers::default(),
            fast_open: FastOpening::default(),
            settings: Settings { keepalive: None, receive_low_water: 1 },
            pending: Pending::default(),
            urgent: Urgent::default(),
            error: None,
            soft_error: None,
            events: Events::empty(),
            orphan: false,
            read_shut: false,
            write_shut: false,
            write_pending: false,
            stats: Stats { heard_at: now, ..Stats::default() },
            progress: false,
        }
    }

    /// Enters ESTABLISHED.
    pub(crate) fn establish(&mut self, now: SimTime) {
        self.state = State::Established;
        self.stats.established = true;
        self.tx.recovery.timeouts = 0;
        self.tx.recovery.retransmit_stamp = None;
        self.tx.timers.retransmit = None;
        self.pending.syn = false;
        self.tx.stats.data_sent_at = now;
        self.tx.rtt.fall_back();
        // A Fast Open connection started congestion control before the handshake was complete.
        if !std::mem::take(&mut self.fast_open.unconfirmed) {
            let synchronised = self.may_exchange();
            self.tx.start_congestion_control(synchronised, now);
        }
        self.tx.update_pacing_rate();
        self.tx.expand_send_buffer();
        self.rcv.reserve_segment();
        self.start_keepalive(now);
        self.events |= Events::CONNECTED | Events::WRITABLE;
        if self.write_shut {
            self.state = State::FinWait1;
        }
    }

    /// Appends bytes of `data` to the send buffer, at most one buffer's worth, and returns their number. The
    /// caller transmits and repeats the call until all bytes are taken or the result is 0. The result is 0
    /// when the send buffer is full, when [`can_send`](Self::can_send) is false, and before the handshake is
    /// complete.
    pub fn send(&mut self, data: &[u8], now: SimTime) -> usize {
        if !self.can_send() || !self.may_exchange() {
            self.tx.write_waiting = true;
            return 0;
        }
        self.tx.restart_after_idle(now);
        let nothing_waits = self.tx.snd.unsent() == 0;
        let n = self.tx.snd.write(data);
        let pushes = self.tx.snd.push_after(n == data.len() || n == 0);
        self.pending.push_one = nothing_waits && !pushes;
        if n == 0 {
            self.tx.write_waiting = true;
        }
        n
    }

    /// Moves received bytes to `out` and returns their number.
    pub fn recv(&mut self, out: &mut [u8], now: SimTime) -> usize {
        let n = self.rcv.read(out);
        self.after_read(n, now);
        n
    }

    /// The first `n` received bytes, or as many as there are, in pieces, without consuming them. The bytes
    /// keep their order and their memory until [`discard`](Self::discard).
    pub fn received(&self, n: usize) -> impl Iterator<Item = &[u8]> {
        self.rcv.slices(n)
    }

    /// A packet buffer ([`Payload::Owned`](crate::Payload)) whose bytes have all been consumed, for reuse.
    pub fn take_spent(&mut self) -> Option<Vec<u8>> {
        self.rcv.spent()
    }

    /// Drops up to `n` received bytes (`MSG_TRUNC`) and returns their number.
    pub fn discard(&mut self, n: usize, now: SimTime) -> usize {
        let n = self.rcv.drop_front(n);
        self.after_read(n, now);
        n
    }

    /// Announces the window if the `n` bytes that the program has consumed opened it far enough
    /// (`tcp_cleanup_rbuf`).
    fn after_read(&mut self, n: usize, now: SimTime) {
        if n == 0 {
            return;
        }
        self.urgent.pass_mark(&self.rcv);
        self.rcv.autotune(now);
        if !self.state.may_receive() {
            return;
        }
        let emptied = self.rcv.readable() == 0;
        if self.delack.scheduled {
            let unacked = (self.rcv.nxt - self.rcv.acked) as u32;
            if unacked > self.rcv.mss || (emptied && self.delack.pushed && !self.delack.interactive) {
                self.pending.ack = true;
                return;
            }
        }
        // RFC 9293, section 3.8.6.2.2: announce the window once it has grown enough; Linux: to twice its
        // remaining size.
        let left = self.rcv.window_left();
        if 2 * u64::from(left) <= u64::from(self.rcv.clamp) {
            let window = self.rcv.select_window();
            if window > 0 && u64::from(window) >= 2 * u64::from(left) {
                self.pending.ack = true;
            }
        }
    }

    /// Ends the connection with an error, which is reported to the program.
    pub(crate) fn fail(&mut self, error: TcpError) {
        self.error = Some(error);
        self.events |= Events::ERROR;
        self.enter_closed();
    }

    /// Enters CLOSED: stops all timers and discards everything but unread received bytes.
    pub(crate) fn enter_closed(&mut self) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.timers = Timers::default();
        self.tx.timers = SendTimers::default();
        self.fast_open.unconfirmed = false;
        self.fast_open.deferred = false;
        self.pending = Pending { reset: self.pending.reset.take(), ..Pending::default() };
        self.tx.snd.left = (self.tx.snd.end() - self.tx.snd.una) as usize;
        self.tx.snd.clear();
        self.tx.packet = DevicePacket::default();
        if self.orphan {
            self.rcv.clear();
        }
        self.events |= Events::CLOSED | Events::READ_CLOSED;
    }
}
