//! Output: the choice of the next segment to send, and its construction.

use crate::congestion::Restart;
use crate::connection::{Connection, Probe, SegmentMeta};
use crate::counts::Counted;
use crate::mtu_probe::Probing;
use crate::recovery::Phase;
use crate::sender::Sender;
use crate::timers::Retransmit;
use crate::tso::{Held, Push};
use crate::{Ecn, Flags, Repr, State, seq64};
use belljar_base::SimTime;
use belljar_wire::tcp::{Options, SackBlocks, Timestamps};

/// Length of the timestamps option with its padding, in bytes.
pub(crate) const TIMESTAMPS_LEN: usize = 12;
/// Lengths of the SACK option's kind, length and padding, and of one block, in bytes.
const SACK_HEAD_LEN: usize = 4;
const SACK_BLOCK_LEN: usize = 8;
/// Smallest MSS to which a small peer window leads, in bytes.
const MSS_MIN: usize = 48;

impl Connection {
    /// True if [`poll_transmit`](Self::poll_transmit) may return a segment. If false, the caller still calls
    /// it, since it records that sending has stopped.
    pub fn may_transmit(&self, queued_bytes: usize) -> bool {
        if !self.pending.is_empty() {
            return true;
        }
        if !self.may_exchange() || self.state == State::TimeWait {
            return false;
        }
        let something = self.tx.snd.nxt < self.tx.snd.end()
            || self.tx.snd.flight.has_to_retransmit()
            || self.tx.mtu_search.enabled;
        let windowed = self.tx.in_flight() < self.tx.window.cwnd || self.tx.mtu_search.enabled;
        something && windowed && !self.tx.is_device_full(queued_bytes)
    }

    /// True if no data is unsent or unacknowledged and [`poll_transmit`](Self::poll_transmit) has recorded
    /// it. As long as [`may_transmit`](Self::may_transmit) is also false, the caller need not call it.
    pub fn is_idle(&self) -> bool {
        self.tx.snd.queued() == 0 && self.tx.chrono.is_idle()
    }

    /// True if neither a control segment or ACK, nor an event, nor a counter is pending. Pending data is not
    /// considered.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.events.is_empty() && self.tx.tally.is_empty()
    }

    /// Appends the next segment (TCP header and payload) to `out`. `None` if there is nothing to send now.
    /// The checksum of the segment is zero: see the [crate's contract](crate). `queued_bytes` is the number
    /// of this connection's bytes in the device's queue: as with TCP small queues, data is withheld while
    /// they amount to about a millisecond at the pacing rate or more, and the caller calls again when the
    /// device has sent some. ACKs and resets are never withheld.
    pub fn poll_transmit(
        &mut self,
        now: SimTime,
        queued_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<SegmentMeta> {
        if let Some(reset) = self.pending.reset.take() {
            return Some(self.tx.emit(reset, (0, 0), Ecn::NotEct, now, out));
        }
        if let Some((ack, marked)) = self.pending.earlier_ack.take() {
            return Some(self.send_earlier_ack(ack, marked, now, out));
        }
        if std::mem::take(&mut self.pending.syn) {
            return Some(self.transmit_handshake(now, out));
        }
        match self.state {
            State::Closed | State::SynSent => None,
            State::SynReceived if !self.fast_open.unconfirmed => self.transmit_ack(now, out),
            State::TimeWait => self.transmit_ack(now, out),
            _ => self.transmit_data(now, queued_bytes, out).or_else(|| {
                self.tx.end_train();
                self.transmit_ack(now, out)
            }),
        }
    }

    /// Emits the SYN or the SYN-ACK.
    fn transmit_handshake(&mut self, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let is_reply = self.state != State::SynSent;
        let mut repr = self.header(Flags::SYN, self.tx.snd.initial, now);
        if !is_reply {
            repr.flags.remove(Flags::ACK);
            repr.ack = seq64::wire(0);
        }
        repr.flags |= self.tx.ecn_handshake_flags(is_reply);
        // RFC 7323, section 2.2: "The window field in a segment where the SYN bit is set (i.e., a
        // <SYN> or <SYN,ACK>) MUST NOT be scaled."
        repr.window = self.rcv.window.min(65_535) as u16;
        repr.options.mss = Some(self.tx.config.mss);
        repr.options.window_scale = self.scaling_enabled.then_some(self.rcv.scale);
        repr.options.sack_permitted = self.tx.sack_enabled;
        if self.tx.recovery.timeouts > 0 {
            self.tx.recovery.retransmit_stamp.get_or_insert(now);
        } else {
            self.tx.handshake_sent_at = now;
        }
        let payload = if is_reply { (0, 0) } else { self.syn_payload(now) };
        if is_reply || self.tx.recovery.timeouts == 0 {
            // A retransmitted SYN carries no Fast Open option.
            repr.options.fast_open = self.fast_open.option;
        }
        self.tx.snd.nxt = self.tx.snd.nxt.max(self.tx.snd.initial + 1);
        self.pending.ack = false;
        self.tx.arm_handshake_timer(!is_reply, now);
        let ecn = if self.tx.congestion.needs_ecn() { Ecn::Ect0 } else { Ecn::NotEct };
        self.tx.emit(repr, payload, ecn, now, out)
    }

    /// Sends the ACK that was delayed when the marks changed (RFC 8257, section 3.2).
    fn send_earlier_ack(&mut self, ack: u64, marked: bool, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let mut repr = self.header(Flags::empty(), self.tx.snd.nxt, now);
        repr.flags.set(Flags::ECE, marked);
        repr.ack = seq64::wire(ack);
        repr.window = (self.rcv.window >> self.rcv.scale) as u16;
        self.tx.emit(repr, (0, 0), Ecn::Ect0, now, out)
    }

    fn transmit_ack(&mut self, now: SimTime, out: &mut Vec<u8>) -> Option<SegmentMeta> {
        if !self.pending.ack {
            return None;
        }
        Some(self.send_bare_ack(self.tx.snd.nxt, now, out))
    }

    fn send_bare_ack(&mut self, seq: u64, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let (flags, ecn) = self.tx.ecn_of_segment(false);
        let mut repr = self.header(flags, seq, now);
        if self.tx.sack_enabled && self.rcv.has_sack_news() {
            let max = if self.tx.stamps.enabled { 3 } else { 4 };
            repr.options.sack = self.rcv.sack_blocks(max);
        }
        repr.window = self.rcv.announce_window();
        self.note_ack_sent();
        self.tx.emit(repr, (0, 0), ecn, now, out)
    }

    fn transmit_data(&mut self, now: SimTime, queued_bytes: usize, out: &mut Vec<u8>) -> Option<SegmentMeta> {
        if let Some(probe) = self.pending.probe.take()
            && let Some(meta) = self.transmit_probe(probe, now, out)
        {
            return Some(meta);
        }
        if self.tx.is_in_packet() {
            return Some(self.transmit_next(now, out));
        }
        if self.tx.is_device_full(queued_bytes) || self.tx.must_pace(now) {
            self.tx.validate_window(false, now);
            return None;
        }
        match self.tx.ask_for_mtu_probe(self.rcv.has_sack_news(), now) {
            Probing::No => {}
            Probing::Until(end) => return Some(self.transmit_mtu_probe(end, now, out)),
            Probing::Later => {
                self.tx.validate_window(false, now);
                return None;
            }
        }
        let push = if std::mem::take(&mut self.pending.push_one) { Push::One } else { Push::All };
        let mut held = None;
        if self.tx.in_flight() < self.tx.window.cwnd {
            if self.tx.recovery.new_data_only {
                held = self.tx.begin_packet(push, queued_bytes, self.rcv.sack_len(), now).err();
                if held.is_none() {
                    return Some(self.transmit_next(now, out));
                }
                if self.tx.snd.nxt <= self.tx.recovery.high {
                    self.tx.give_up_timeout_test();
                }
            }
            if !self.tx.recovery.new_data_only
                && !self.fast_open.unconfirmed
                && let Some(index) = self.tx.snd.flight.next_to_retransmit()
            {
                return Some(self.retransmit(index, now, out));
            }
            if held.is_none() {
                held = self.tx.begin_packet(push, queued_bytes, self.rcv.sack_len(), now).err();
                if held.is_none() {
                    return Some(self.transmit_next(now, out));
                }
            }
            if self.tx.snd.nxt >= self.tx.snd.end() {
                self.tx.delivery.note_app_limited(self.tx.in_flight());
            }
        }
        self.tx.validate_window(held == Some(Held::Congestion), now);
        self.tx.note_limit(held == Some(Held::Window), now);
        let waiting = self.tx.snd.flight.is_empty() && self.tx.snd.nxt < self.tx.snd.end();
        if waiting && self.tx.timers.retransmit.is_none() {
            self.tx.arm_window_probe(now);
        }
        None
    }

    /// Sends the new data up to `end` as a packet of its own.
    pub(crate) fn transmit_single(&mut self, end: u64, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        self.tx.begin_packet_until(end, false, now);
        self.transmit_new(end, now, out)
    }

    /// Sends the next segment of the device packet, which ends at `end`.
    fn transmit_new(&mut self, end: u64, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let start = self.tx.snd.nxt;
        let nothing_in_flight = self.tx.snd.flight.is_empty();
        if nothing_in_flight && self.tx.stats.data_sent_at < now {
            let restart = Restart {
                idle: now.since(self.tx.stats.data_sent_at),
                app_limited: self.tx.delivery.is_app_limited(),
                mss: self.tx.snd.mss,
            };
            self.tx.congestion.on_restart(&mut self.tx.window, restart, now);
        }
        let rate = self.tx.delivery.stamp(nothing_in_flight, now);
        self.tx.tally.count(Counted::OriginalSent);
        self.tx.snd.flight.push(start, end, now, rate);
        self.tx.snd.nxt = end;
        self.tx.window_use.sent = true;
        self.tx.recovery.on_sent();
        if ((end - start) as usize) < self.tx.payload_limit(self.rcv.sack_len()) {
            self.tx.snd.small_end = end;
        }
        self.tx.stats.data_sent_at = now;
        self.delack.on_data_sent(now);
        let meta = self.send_range(start, end, true, now, out);
        if nothing_in_flight || self.tx.timers.is_retransmit(Retransmit::TailProbe) {
            self.tx.rearm_rto(now);
        }
        if !self.tx.is_in_packet() && !self.tx.timers.is_retransmit(Retransmit::Reordering) {
            self.tx.arm_tail_probe(now, false);
        }
        meta
    }

    fn retransmit(&mut self, index: usize, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let segment = self.tx.snd.flight.get(index);
        let (start, mut end) = (segment.start, segment.end);
        let limit = self.tx.snd.mss as u64;
        let fin = u64::from(self.tx.snd.fin && end == self.tx.snd.end());
        if end - fin - start > limit {
            end = start + limit;
            self.tx.snd.flight.split(index, end);
        }
        self.tx.forget_mtu_probe();
        let rate = self.tx.delivery.stamp(false, now);
        self.tx.snd.flight.note_retransmission(index, now, rate);
        self.tx.recovery.on_retransmitted(now);
        if !std::mem::take(&mut self.tx.recovery.head_due) {
            self.tx.tally.count(match self.tx.recovery.phase {
                Phase::Loss => Counted::SlowStartRetransmission,
                _ => Counted::FastRetransmission,
            });
        }
        self.tx.stats.total_retransmitted += 1;
        let meta = self.send_range(start, end, false, now, out);
        if self.tx.timers.retransmit.is_none() {
            self.tx.rearm_rto(now);
        }
        meta
    }

    /// Retransmits the last segment as a tail loss probe.
    fn retransmit_probe(&mut self, last: usize, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let segment = self.tx.snd.flight.get(last);
        let (start, end) = (segment.start, segment.end);
        self.tx.forget_mtu_probe();
        let rate = self.tx.delivery.stamp(false, now);
        self.tx.snd.flight.note_probe(last, now, rate);
        self.tx.stats.total_retransmitted += 1;
        self.send_range(start, end, false, now, out)
    }

    fn transmit_probe(&mut self, probe: Probe, now: SimTime, out: &mut Vec<u8>) -> Option<SegmentMeta> {
        match probe {
            Probe::Tail => self.transmit_tail_probe(now, out),
            Probe::Window => {
                let start = self.tx.snd.nxt;
                let fits =
                    self.tx.snd.window_end().min(start + self.tx.snd.mss as u64).min(self.tx.snd.end());
                if fits > start {
                    // `tcp_write_wakeup`: the window takes a segment, possibly a small one.
                    self.tx.probes_sent = 0;
                    self.pending.push = true;
                    return Some(self.transmit_single(fits, now, out));
                }
                self.tx.probes_sent = self.tx.probes_sent.saturating_add(1);
                self.tx.rtt.back_off();
                self.tx.arm_window_probe(now);
                self.tx.tally.count(Counted::WindowProbe);
                Some(self.send_bare_ack(self.tx.snd.una - 1, now, out))
            }
            Probe::Keepalive => {
                self.tx.tally.count(Counted::KeepaliveProbe);
                self.tx.probes_sent = self.tx.probes_sent.saturating_add(1);
                Some(self.send_bare_ack(self.tx.snd.una - 1, now, out))
            }
        }
    }

    /// RFC 8985, section 7.3: "transmit a new segment if possible, otherwise retransmit the highest
    /// sequence segment sent so far".
    fn transmit_tail_probe(&mut self, now: SimTime, out: &mut Vec<u8>) -> Option<SegmentMeta> {
        let last = (self.tx.snd.flight.len() as usize).checked_sub(1)?;
        let timer = self.tx.timers.retransmit;
        let (meta, retransmission) = match self.tx.begin_packet(Push::Probe, 0, self.rcv.sack_len(), now) {
            Ok(()) => (self.transmit_next(now, out), false),
            Err(_) => (self.retransmit_probe(last, now, out), true),
        };
        self.tx.recovery.tail_probe = Some((self.tx.snd.nxt.max(self.tx.packet.end), retransmission));
        self.tx.tally.count(Counted::LossProbe);
        self.tx.timers.retransmit = timer;
        Some(meta)
    }

    /// Transmits the next new segment.
    fn transmit_next(&mut self, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let end = self.tx.next_segment(self.rcv.sack_len());
        self.transmit_new(end, now, out)
    }

    /// Sends the bytes from `start` to `end`, with the FIN if the range includes it.
    // benches/instructions.py counts segments by this function.
    #[inline(never)]
    fn send_range(
        &mut self,
        start: u64,
        end: u64,
        new: bool,
        now: SimTime,
        out: &mut Vec<u8>,
    ) -> SegmentMeta {
        let (flags, ecn) = self.tx.ecn_of_segment(new && start < self.tx.snd.data_end());
        let mut repr = self.header(flags, start, now);
        let data_end = self.tx.snd.data_end();
        let payload = (start.min(data_end), end.min(data_end));
        if end > data_end {
            repr.flags |= Flags::FIN;
        }
        if payload.1 > payload.0 && (self.tx.is_pushed(end, new) || std::mem::take(&mut self.pending.push)) {
            repr.flags |= Flags::PSH;
        }
        if self.tx.sack_enabled && self.rcv.has_sack_news() {
            let room = self.tx.snd.mss.saturating_sub((payload.1 - payload.0) as usize + SACK_HEAD_LEN);
            repr.options.sack = match room / SACK_BLOCK_LEN {
                0 => SackBlocks::default(),
                blocks => self.rcv.sack_blocks(blocks.min(3)),
            };
        }
        repr.window = self.rcv.announce_window();
        self.note_ack_sent();
        let len = payload.1 - payload.0;
        if len > 0 {
            if !new {
                self.tx.stats.bytes_retransmitted += len;
                self.tx.note_paced(len as usize, now);
            }
            self.tx.stats.data_segments_out = self.tx.stats.data_segments_out.wrapping_add(1);
            self.tx.stats.bytes_sent += len;
        }
        self.tx.emit(repr, payload, ecn, now, out)
    }

    /// Builds a header with ports, ACK and timestamps.
    pub(crate) fn header(&self, flags: Flags, seq: u64, now: SimTime) -> Repr {
        let timestamps = self
            .tx
            .stamps
            .enabled
            .then(|| Timestamps { value: self.tx.stamps.clock(now), echo: self.tx.stamps.recent });
        let mut repr = Repr {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq: seq64::wire(seq),
            ack: seq64::wire(self.rcv.nxt),
            flags: flags | Flags::ACK,
            options: Options { timestamps, ..Options::default() },
            ..Repr::default()
        };
        self.tx.snd.point_at_urgent(seq, &mut repr);
        repr
    }

    fn note_ack_sent(&mut self) {
        self.pending.ack = false;
        self.timers.delayed_ack = None;
        self.timers.compressed_ack = None;
        self.delack.on_ack_sent();
    }
}

impl Sender {
    /// True if a segment that ends at `end` carries PSH: it ends data that the program has pushed, or a
    /// device packet of several segments.
    fn is_pushed(&self, end: u64, new: bool) -> bool {
        let data_end = self.snd.data_end();
        let complete = end >= data_end && self.snd.pushed >= data_end;
        let of_packet = new && self.packet.several && end == self.packet.end;
        complete || of_packet
    }

    /// True if the Nagle algorithm (RFC 9293, section 3.7.4) or `TCP_CORK` withholds a small segment. With
    /// Minshall's modification Nagle withholds it only while another small segment is unacknowledged.
    pub(crate) fn must_wait_for_more(&self) -> bool {
        // `tcp_nagle_test`: urgent data is never withheld.
        if self.snd.is_urgent() {
            return false;
        }
        if self.settings.cork {
            return true;
        }
        !self.settings.nodelay && !self.snd.flight.is_empty() && self.snd.small_end > self.snd.una
    }

    /// Maximum payload of the next segment, in bytes: the MSS less the SACK option, which has `sack_len`
    /// blocks.
    pub(crate) fn payload_limit(&self, sack_len: usize) -> usize {
        let sack = if self.sack_enabled { sack_len } else { 0 };
        let options = if sack == 0 { 0 } else { SACK_HEAD_LEN + SACK_BLOCK_LEN * sack.min(3) };
        self.snd.mss.saturating_sub(options).max(MSS_MIN)
    }

    fn emit(
        &mut self,
        repr: Repr,
        payload: (u64, u64),
        ecn: Ecn,
        now: SimTime,
        out: &mut Vec<u8>,
    ) -> SegmentMeta {
        self.pacing.note_sent(now);
        self.stats.segments_out = self.stats.segments_out.wrapping_add(1);
        let bytes =
            if payload.1 > payload.0 { self.snd.bytes(payload.0, payload.1) } else { (&[][..], &[][..]) };
        repr.append_open(bytes, out);
        SegmentMeta { payload_len: (payload.1 - payload.0) as usize, ecn }
    }

    /// Computes the payload of a full segment: the limit of the path and the peer, less options, and at most
    /// half of the peer's largest window (`tcp_bound_to_half_wnd`).
    pub(crate) fn set_mss(&mut self) {
        let options = if self.stamps.enabled { TIMESTAMPS_LEN } else { 0 };
        let mut mss = self.payload_of(usize::MAX);
        let max_window = self.snd.max_window as usize;
        let half = if max_window > 536 { max_window / 2 } else { max_window };
        if half > 0 {
            mss = mss.min(half.max(MSS_MIN - options));
        }
        if self.mtu_search.enabled {
            mss = mss.min(self.payload_of(self.mtu_search.low));
        }
        self.snd.mss = mss;
    }
}
