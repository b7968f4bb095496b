//! The active open: SYN-SENT (RFC 9293, section 3.10.7.3), simultaneous open included.

use crate::connection::{Connection, Disposition};
use crate::output::TIMESTAMPS_LEN;
use crate::received::Payload;
use crate::sender::Sender;
use crate::timers::Retransmit;
use crate::{Config, Flags, Repr, State, TcpError, seq64};
use belljar_base::{SimDuration, SimTime};
use std::net::SocketAddr;

/// Delay before the SYN is retransmitted after a SYN-ACK that answers a different SYN: Linux's
/// `TCP_TIMEOUT_MIN`, two jiffies at 250 Hz.
const SYN_AGAIN: SimDuration = SimDuration::from_millis(8);

impl Sender {
    /// Takes the first round-trip sample, unless the SYN was retransmitted.
    pub(crate) fn sample_handshake(&mut self, segment: &Repr, now: SimTime) {
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        if self.recovery.timeouts == 0 {
            self.rtt.sample(now.since(self.handshake_sent_at), una, nxt, now);
        } else if let Some(stamps) = segment.options.timestamps.filter(|_| self.stamps.enabled) {
            let delta = self.stamps.clock(now).wrapping_sub(stamps.echo);
            let rtt = belljar_base::SimDuration::from_millis(u64::from(delta.clamp(1, 1 << 20)));
            self.rtt.sample(rtt, una, nxt, now);
        }
        if self.recovery.timeouts > 1 {
            // RFC 6298, section 5.7, and RFC 5681, section 3.1: a lost SYN reduces the initial window to one
            // segment.
            self.window.cwnd = 1;
        }
    }
}

impl Connection {
    /// Opens a connection actively from `local` to `remote` with the initial sequence number `isn`. The
    /// connection is in SYN-SENT, with its SYN pending.
    pub fn connect(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        let mut connection = Connection::new(config, local, remote, isn, State::SynSent, now);
        connection.pending.syn = true;
        // Until the peer announces an MSS: 536, or `TCP_MAXSEG` (`tcp_connect_init`).
        connection.tx.snd.mss_limit = connection.tx.config.max_segment.unwrap_or(536);
        connection.tx.begin_mtu_search(now);
        connection.tx.set_mss();
        connection
    }

    pub(crate) fn on_segment_syn_sent(
        &mut self,
        segment: &Repr,
        payload: &mut Payload<'_>,
        now: SimTime,
    ) -> Disposition {
        let ack = seq64::unwrap(segment.ack, self.tx.snd.initial);
        let acks_syn = segment.has(Flags::ACK) && ack > self.tx.snd.initial && ack <= self.tx.snd.nxt;
        // "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set [...])
        // <SEQ=SEG.ACK><CTL=RST> and discard the segment."
        if segment.has(Flags::ACK) && !acks_syn {
            self.pending.reset = crate::reset_for(segment, payload.len());
            // Linux: the reset clears the stale state at the peer, so the SYN is retransmitted before its
            // timeout of one second.
            if self.tx.recovery.timeouts == 0 {
                self.tx.timers.retransmit = Some((now + SYN_AGAIN, Retransmit::Handshake));
            }
            return Disposition::Consumed;
        }
        if segment.has(Flags::RST) {
            // "If the ACK was acceptable, then signal to the user 'error: connection reset' [..]
            // Otherwise (no ACK), drop the segment and return."
            if acks_syn {
                self.fail(TcpError::Refused);
            }
            return Disposition::Consumed;
        }
        if !segment.has(Flags::SYN) {
            return Disposition::Consumed;
        }
        self.take_syn(segment, now);
        if acks_syn {
            self.tx.stats.bytes_acked = 1;
            self.tx.snd.release(self.tx.snd.initial + 1);
            self.tx.sample_handshake(segment, now);
            self.establish(now);
            self.tx.begin_mtu_search(now);
            if !self.on_fast_open_answer(segment) {
                // The retransmission carries the ACK.
                return Disposition::Consumed;
            }
            self.delack.enter_quick(self.rcv.window, self.rcv.mss);
            if self.write_pending {
                // Linux omits the bare ACK: the data of a waiting writer carries the acknowledgment.
                self.delack.scheduled = true;
                self.timers.delayed_ack = Some(now + crate::delack::DELAY_MAX);
            } else {
                self.pending.ack = true;
            }
        } else {
            // "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment and send it."
            self.state = State::SynReceived;
            self.tx.recovery.timeouts = 0;
            self.pending.syn = true;
        }
        // `tcp_fastopen_add_skb`: only Fast Open connections take data from a SYN-ACK; the others use its
        // flags alone.
        let may_carry = self.fast_open.asked.is_some() || self.fast_open.sent_data;
        if self.state == State::Established && may_carry && (!payload.is_empty() || segment.has(Flags::FIN)) {
            self.process_text(seq64::unwrap(segment.seq, self.rcv.initial) + 1, segment, payload, now);
        }
        Disposition::Consumed
    }

    /// Adopts the sequence number, window and options of the peer's SYN.
    pub(crate) fn take_syn(&mut self, syn: &Repr, now: SimTime) {
        let options = &syn.options;
        let initial = seq64::from_initial(syn.seq.0);
        self.rcv.synchronise(initial, now);
        self.tx.snd.window = u64::from(syn.window);
        self.tx.snd.max_window = self.tx.snd.window;
        self.tx.snd.window_seq = initial;
        // RFC 9293, section 3.7.1: "If an MSS Option is not received at connection setup, TCP
        // implementations MUST assume a default send MSS of 536".
        self.tx.snd.mss_limit = options.mss.unwrap_or(536).min(self.tx.config.send_mss());
        // RFC 7323, section 2.2: both sides must send the option.
        match options.window_scale {
            Some(shift) if self.scaling_enabled => self.tx.snd.scale = shift.min(14),
            _ => {
                self.scaling_enabled = false;
                self.rcv.scale = 0;
                self.rcv.clamp = self.rcv.clamp.min(65_535);
            }
        }
        self.tx.sack_enabled &= options.sack_permitted;
        match options.timestamps {
            Some(stamps) if self.tx.stamps.enabled => {
                self.tx.stamps.recent = stamps.value;
                self.tx.stamps.recent_at = now;
                self.rcv.deduct_options(TIMESTAMPS_LEN as u32);
            }
            _ => self.tx.stamps.enabled = false,
        }
        self.negotiate_ecn(syn);
        self.tx.set_mss();
        self.rcv.mss = (self.tx.snd.mss as u32).min(self.rcv.advertised_mss).clamp(88, 536);
        self.tx.recovery.retransmit_stamp = None;
        self.tx.highest_delivered = self.tx.snd.initial + 1;
        self.stats.heard_at = now;
    }
}
