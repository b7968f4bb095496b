//! Queries of the socket layer: readiness, errors, sizes, `TCP_INFO`.

use crate::chrono::Limit;
use crate::connection::Connection;
use crate::recovery::{DUP_THRESHOLD, Phase};
use crate::{Events, Info, Readiness, Seq, State, TcpError, seq64};
use belljar_base::SimTime;
use std::net::SocketAddr;

impl Connection {
    /// True if `send` may take bytes at any later time: false after `shutdown_write`, `close` or an error.
    pub fn can_send(&self) -> bool {
        !self.write_shut && self.state.may_send()
    }

    /// Number of bytes that `recv` would return (`SIOCINQ`), up to the urgent mark.
    pub fn readable_bytes(&self) -> usize {
        self.urgent.bytes_before_mark(&self.rcv)
    }

    /// Unsent bytes, as many as are contiguous in memory from the first one.
    pub fn next_bytes(&self) -> &[u8] {
        self.tx.snd.next_bytes()
    }

    /// Number of bytes that `send` would take.
    pub fn writable_bytes(&self) -> usize {
        if self.can_send() && self.may_exchange() { self.tx.snd.free() } else { 0 }
    }

    /// Number of bytes, sent or unsent, that the peer has not acknowledged, the FIN included (`SIOCOUTQ`).
    /// After the connection has ended, the number at that time.
    pub fn unacknowledged_bytes(&self) -> usize {
        match self.state {
            State::SynSent | State::SynReceived => self.tx.snd.queued(),
            State::Closed => self.tx.snd.left,
            _ => (self.tx.snd.end() - self.tx.snd.una) as usize,
        }
    }

    /// Stream offset up to which the peer has acknowledged.
    pub fn acknowledged_until(&self) -> u64 {
        self.tx.snd.una
    }

    /// Stream offset of the end of the written data.
    pub fn written_until(&self) -> u64 {
        self.tx.snd.end()
    }

    /// Number of bytes that were never sent (`SIOCOUTQNSD`).
    pub fn unsent_bytes(&self) -> usize {
        self.tx.snd.unsent()
    }

    /// True if a read without readable bytes returns end of file: after the peer's FIN or `shutdown_read`,
    /// and in CLOSED or TIME-WAIT.
    pub fn is_read_closed(&self) -> bool {
        self.rcv.finished || self.read_shut || matches!(self.state, State::Closed | State::TimeWait)
    }

    /// True if the peer's FIN has arrived. Reads then return end of file even if there is an error (Linux's
    /// `SOCK_DONE`).
    pub fn is_ended_by_peer(&self) -> bool {
        self.rcv.finished
    }

    /// True if everything sent, the FIN included, has been acknowledged.
    pub fn all_sent_acknowledged(&self) -> bool {
        self.state == State::Closed || self.tx.snd.is_drained()
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// True in CLOSED with nothing left to transmit: the caller may discard an orphan.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.pending.reset.is_none()
    }

    /// `SO_ERROR`: takes the error.
    pub fn take_error(&mut self) -> Option<TcpError> {
        self.error.take()
    }

    /// Takes the error, or else an ICMP error that did not end the connection, as `SO_ERROR` reports it.
    pub fn take_any_error(&mut self) -> Option<TcpError> {
        self.error.take().or_else(|| self.soft_error.take())
    }

    /// True if `seq` lies between SND.UNA and SND.NXT.
    pub fn is_in_flight(&self, seq: Seq) -> bool {
        let seq = seq64::unwrap(seq, self.tx.snd.una);
        (self.tx.snd.una..=self.tx.snd.nxt).contains(&seq)
    }

    /// The error that `take_error` would return.
    pub fn error(&self) -> Option<TcpError> {
        self.error
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Readiness as poll(2) reports it. If `WRITABLE` is not set, the connection records that a writer waits
    /// for it.
    pub fn readiness(&mut self) -> Readiness {
        let mut ready = Readiness::empty();
        let read_shut = self.rcv.finished || self.read_shut || self.state == State::Closed;
        let write_shut = self.write_shut || self.state == State::Closed;
        ready.set(Readiness::ERROR, self.error.is_some());
        ready.set(Readiness::HANG_UP, self.state == State::Closed || (read_shut && write_shut));
        ready.set(Readiness::READ_CLOSED, read_shut);
        let opening =
            matches!(self.state, State::SynSent | State::SynReceived) && !self.fast_open.unconfirmed;
        if self.fast_open.deferred {
            ready |= Readiness::WRITABLE;
        }
        if read_shut {
            ready |= Readiness::READABLE;
        }
        ready.set(Readiness::URGENT, self.has_urgent());
        if !opening {
            let passed_over = usize::from(self.is_at_mark() && !self.urgent.inline);
            if self.rcv.readable() >= self.settings.receive_low_water.max(1) + passed_over {
                ready |= Readiness::READABLE;
            }
            if write_shut || self.tx.has_write_space() {
                ready |= Readiness::WRITABLE;
            } else {
                self.tx.write_waiting = true;
            }
        }
        ready
    }

    /// `TCP_INFO`.
    pub fn info(&self, now: SimTime) -> Info {
        let flight = &self.tx.snd.flight;
        let phase = self.tx.recovery.phase;
        Info {
            state: self.state,
            congestion_state: match phase {
                Phase::Open => 0,
                Phase::Disorder => 1,
                Phase::Reduced => 2,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            backoff: self.tx.recovery.timeouts,
            probes: self.tx.probes_sent,
            timestamps: self.tx.stamps.enabled,
            sack: self.tx.sack_enabled,
            window_scaling: self.scaling_enabled,
            ecn: self.tx.ecn.enabled,
            ecn_seen: self.tx.ecn.seen,
            send_window_scale: self.tx.snd.scale,
            receive_window_scale: self.rcv.scale,
            rto: self.tx.rtt.rto(),
            ato: self.delack.ato,
            send_mss: self.tx.snd.mss as u32,
            receive_mss: self.rcv.mss,
            advertised_mss: self.rcv.advertised_mss,
            unacked: flight.len(),
            sacked: flight.sacked(),
            lost: flight.lost(),
            retransmitted: flight.retransmitted(),
            rtt: self.tx.rtt.srtt().unwrap_or_default(),
            rtt_variation: self.tx.rtt.mean_deviation(),
            min_rtt: self.tx.rtt.min(),
            ssthresh: self.tx.window.ssthresh,
            cwnd: self.tx.window.cwnd,
            reordering: DUP_THRESHOLD,
            receive_rtt: self.rcv.rtt(),
            receive_space: self.rcv.space_per_rtt(),
            receive_ssthresh: self.rcv.ssthresh,
            total_retransmitted: self.tx.stats.total_retransmitted,
            pacing_rate: self.tx.pacing_rate(),
            delivery_rate: self.tx.delivery.latest,
            bytes_acked: self.tx.stats.bytes_acked,
            bytes_received: self.rcv.bytes_received,
            segments_out: self.tx.stats.segments_out,
            segments_in: self.stats.segments_in,
            // Linux counts the SYN or SYN-ACK as delivered.
            delivered: self.tx.delivery.delivered as u32 + u32::from(self.stats.established),
            unsent_bytes: self.tx.snd.unsent() as u32,
            delivered_marked: self.tx.delivery.marked as u32,
            delivery_rate_app_limited: self.tx.delivery.latest_app_limited,
            data_segments_in: self.stats.data_segments_in,
            data_segments_out: self.tx.stats.data_segments_out,
            bytes_sent: self.tx.stats.bytes_sent,
            bytes_retransmitted: self.tx.stats.bytes_retransmitted,
            dsacks: self.tx.stats.dsacks,
            reordering_seen: self.tx.recovery.rack.reorderings,
            out_of_order: self.stats.out_of_order,
            busy_time: self.tx.chrono.total(now),
            window_limited: self.tx.chrono.of(Limit::Window, now),
            buffer_limited: self.tx.chrono.of(Limit::Buffer, now),
            max_pacing_rate: self.tx.pacing.max_rate.unwrap_or(u64::MAX),
            send_window: self.tx.snd.window as u32,
            receive_window: self.rcv.window,
            syn_data: self.fast_open.data_taken,
            fast_open_child: self.fast_open.child,
            fast_open_failure: self.fast_open.failure,
            since_data_sent: now.since(self.tx.stats.data_sent_at),
            since_data_received: now.since(self.delack.last_data_at),
            since_ack_received: now.since(self.stats.ack_received_at),
        }
    }

    /// Numbers of retransmitted segments and of retransmission timeouts.
    pub fn retransmissions(&self) -> (u32, u32) {
        (self.tx.stats.total_retransmitted, self.tx.stats.timeouts)
    }

    /// True if the peer has acknowledged data since the last call, which confirms that the path works.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// True if the handshake was ever complete.
    pub fn was_established(&self) -> bool {
        self.stats.established
    }

    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The next sequence number that will be sent.
    pub fn send_next(&self) -> Seq {
        seq64::wire(self.tx.snd.nxt)
    }

    /// The present size of the receive buffer, `SO_RCVBUF`.
    pub fn receive_buffer(&self) -> u32 {
        self.rcv.limit
    }

    /// The present size of the send buffer, `SO_SNDBUF`.
    pub fn send_buffer(&self) -> u32 {
        self.tx.snd.limit as u32
    }
}
