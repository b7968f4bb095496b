//! Closing in all orders: FIN, half-close, orphans, TIME-WAIT, resets.

use crate::connection::{Connection, Disposition};
use crate::counts::Counted;
use crate::received::Payload;
use crate::{Events, Flags, Repr, State, TcpError, seq64};
use belljar_base::{SimDuration, SimTime};

/// Linux's `TCP_TIMEWAIT_LEN`.
const TIME_WAIT: SimDuration = SimDuration::from_secs(60);

impl Connection {
    /// `shutdown(SHUT_WR)`: queues a FIN after the buffered data.
    pub fn shutdown_write(&mut self, now: SimTime) {
        if self.write_shut {
            return;
        }
        match self.state {
            State::SynReceived if self.fast_open.unconfirmed => self.state = State::FinWait1,
            State::SynReceived | State::SynSent => {}
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => return,
        }
        self.write_shut = true;
        if self.state == State::SynSent {
            // "Delete the TCB": there is nothing that a FIN could follow.
            return self.enter_closed();
        }
        self.tx.restart_after_idle(now);
        self.tx.snd.fin = true;
        self.events |= Events::WRITABLE;
    }

    /// `shutdown(SHUT_RD)`: reads return end of file once the buffer is empty. As on Linux, data that arrives
    /// later is still acknowledged and readable.
    pub fn shutdown_read(&mut self) {
        self.read_shut = true;
        self.events |= Events::READABLE | Events::READ_CLOSED;
    }

    /// `close(2)` of the last descriptor: sends a FIN, or a reset if received data is unread. The connection
    /// continues as an orphan until [`is_finished`](Self::is_finished).
    pub fn close(&mut self, now: SimTime) {
        if self.orphan {
            return;
        }
        let unread = self.rcv.readable() > 0;
        self.orphan = true;
        self.read_shut = true;
        self.tx.settings.cork = false;
        match self.state {
            State::SynSent => return self.enter_closed(),
            State::Closed => return self.rcv.clear(),
            _ => {}
        }
        if unread && self.state != State::TimeWait {
            // RFC 2525, section 2.17: a reset reports to the peer that data was lost.
            self.tx.tally.count(Counted::AbortOnClose);
            self.send_reset(now);
            return self.enter_closed();
        }
        self.shutdown_write(now);
        self.limit_fin_wait_2(now);
        self.timers.keepalive = None;
    }

    /// Sends a reset and enters CLOSED at once: for `SO_LINGER` with time 0, and when the listening socket is
    /// closed.
    pub fn abort(&mut self, now: SimTime) {
        self.orphan = true;
        if self.state != State::TimeWait && self.state != State::SynSent && self.state != State::Closed {
            self.send_reset(now);
        }
        self.enter_closed();
    }

    /// Processes a valid reset that does not come from the peer. False if the connection is closed already.
    pub fn break_by_reset(&mut self) -> bool {
        match self.state {
            State::Closed => return false,
            State::TimeWait => self.enter_closed(),
            State::SynReceived => self.on_reset_in_handshake(),
            State::SynSent => self.fail(TcpError::Refused),
            State::CloseWait => self.fail(TcpError::BrokenPipe),
            _ => self.fail(TcpError::Reset),
        }
        true
    }

    /// Ends the connection as if all retransmissions had been lost. False if it is closed, or waits for nothing.
    pub fn break_by_silence(&mut self) -> bool {
        let is_open = !matches!(self.state, State::Closed | State::TimeWait);
        if is_open {
            self.fail(TcpError::TimedOut);
        }
        is_open
    }

    /// `<SEQ=SND.NXT><CTL=RST,ACK>`, as Linux's `tcp_send_active_reset`.
    pub(crate) fn send_reset(&mut self, now: SimTime) {
        let mut reset = self.header(Flags::RST, self.tx.snd.nxt, now);
        reset.window = self.rcv.announce_window();
        self.pending.reset = Some(reset);
    }

    /// Makes the state transitions that follow the acknowledgment of our FIN.
    pub(crate) fn on_fin_acknowledged(&mut self, now: SimTime) {
        let acknowledged = self.tx.snd.fin && self.tx.snd.is_drained();
        if !acknowledged {
            return;
        }
        match self.state {
            // "if the FIN segment is now acknowledged, then enter FIN-WAIT-2 and continue"
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.limit_fin_wait_2(now);
            }
            // "if the ACK acknowledges our FIN, then enter the TIME-WAIT state"
            State::Closing => self.enter_time_wait(now),
            // "if our FIN is now acknowledged, delete the TCB, enter the CLOSED state, and return"
            State::LastAck => self.enter_closed(),
            _ => {}
        }
    }

    /// Limits the time that an orphan waits for the peer's FIN (Linux's `net.ipv4.tcp_fin_timeout`).
    fn limit_fin_wait_2(&mut self, now: SimTime) {
        if self.orphan && self.state == State::FinWait2 && self.timers.lifetime.is_none() {
            self.timers.lifetime = Some(now + self.tx.config.fin_timeout);
        }
    }

    /// Processes the peer's FIN when all data before it has arrived: "advance RCV.NXT over the FIN, and send
    /// an acknowledgment".
    pub(crate) fn on_fin(&mut self, now: SimTime) {
        self.pending.ack = true;
        self.events |= Events::READABLE | Events::READ_CLOSED;
        match self.state {
            State::SynReceived | State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: SimTime) {
        self.state = State::TimeWait;
        self.tx.timers.retransmit = None;
        self.timers.keepalive = None;
        self.timers.delayed_ack = None;
        self.timers.lifetime = Some(now + TIME_WAIT);
        self.events |= Events::CLOSED;
    }

    pub(crate) fn on_segment_time_wait(
        &mut self,
        segment: &Repr,
        payload: &mut Payload<'_>,
        now: SimTime,
    ) -> Disposition {
        let seq = seq64::unwrap(segment.seq, self.rcv.nxt);
        let stamp_newer = segment
            .options
            .timestamps
            .filter(|_| self.tx.stamps.enabled)
            .map(|stamps| stamps.value.wrapping_sub(self.tx.stamps.recent) as i32);
        if segment.has(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST) {
            // RFC 6191, section 2: a SYN with a newer timestamp, or else with a higher sequence
            // number, starts a new incarnation.
            let fresh = seq > self.rcv.nxt || stamp_newer.is_some_and(|newer| newer > 0);
            if fresh {
                return Disposition::Reopen;
            }
            self.send_challenge_ack(now);
            return Disposition::Consumed;
        }
        if segment.has(Flags::RST) {
            // Linux without net.ipv4.tcp_rfc1337: an acceptable reset ends TIME-WAIT.
            if seq == self.rcv.nxt {
                self.enter_closed();
            }
            return Disposition::Consumed;
        }
        let old = stamp_newer.is_some_and(|newer| newer < 0);
        if segment.sequence_len(payload.len()) > 0 {
            // "The only thing that can arrive in this state is a retransmission of the remote FIN.
            // Acknowledge it, and restart the 2 MSL timeout."
            if !old {
                self.timers.lifetime = Some(now + TIME_WAIT);
            }
            self.pending.ack = true;
        } else if old || seq > self.rcv.nxt {
            self.send_challenge_ack(now);
        }
        Disposition::Consumed
    }

    /// Processes an ICMP error, such as destination unreachable, for this connection. The error ends a
    /// handshake. In later states it is stored and reported if the connection times out; with `IP_RECVERR`
    /// (`wanted`) it is reported at once instead.
    pub fn on_unreachable(&mut self, error: TcpError, wanted: bool) {
        if matches!(self.state, State::SynSent | State::SynReceived) && !self.fast_open.unconfirmed {
            self.fail(error);
        } else if wanted && self.state != State::Closed {
            self.error = Some(error);
            self.events |= Events::ERROR;
        } else if self.state != State::Closed {
            self.soft_error = Some(error);
        }
    }

    /// Processes ICMP "fragmentation needed": the path carries packets of at most `mtu` bytes, IP header
    /// included. Segments in flight that exceed the new path MTU are retransmitted in smaller pieces.
    pub fn on_path_mtu(&mut self, mtu: u16, now: SimTime) {
        let mss = mtu.saturating_sub(self.tx.packet_headers() as u16);
        if mss >= self.tx.snd.mss_limit || !self.state.is_synchronised() {
            return;
        }
        self.tx.snd.mss_limit = mss.max(512);
        self.tx.limit_mtu_search();
        self.tx.set_mss();
        self.tx.retransmit_too_large(now);
    }
}
